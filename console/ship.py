"""What is shipped: one reproducible zip of `remote/`, its digest, and the bytes that travel."""

from __future__ import annotations

import functools
import hashlib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import remote
from remote.errors import OperatorError
from remote.release import RELEASE_CHARS, archive_name, build_archive


@dataclass(frozen=True)
class Package:
    """The zip as it is stored over there, and as it travels (`packed`, zlib: a slow link matters more than our CPU).

    The digest is that of the zip itself, so that no version of zlib shows in a release.
    """

    data: bytes = field(repr=False)
    packed: bytes = field(repr=False)
    digest: str

    @property
    def release(self) -> str:
        """The short name of this release."""
        return self.digest[:RELEASE_CHARS]

    @property
    def name(self) -> str:
        """The zip's file name, which carries its digest."""
        return archive_name(self.release)


def pack(data: bytes) -> Package:
    """A package made of a zip's bytes."""
    return Package(data, zlib.compress(data, 6), hashlib.sha256(data).hexdigest())


@functools.lru_cache(maxsize=1)
def package() -> Package:
    """This console's own package, built once. Raises OperatorError when our sources cannot be read."""
    try:
        return pack(build_archive(Path(remote.__file__).parent))
    except OSError as error:
        raise OperatorError(
            "sources", f"this console's own sources cannot be read: {error}", "install it anew"
        ) from None
