"""Which release this is: the digest of the sources, the same from a checkout and from the shipped zip.

The zip is reproducible (sorted names, fixed times, nothing compressed, so that no zlib shows through), and its
digest names it: `eagle3-remote-RELEASE.pyz`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import sys
from pathlib import Path

from remote.layout import write_whole

RELEASE_CHARS = 12
"""Hexadecimal digits of the SHA-256 that make a release: 48 bits."""

_ENTRY = b"import sys\n\nfrom remote.cli import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"eagle3-remote-([0-9a-f]{12})(?:\.[\w-]+)?\.pyz")
"""Of an archive, or of its compiled companion (`stage0.compiled`), which names the Python that it is for."""


def archive_name(release: str) -> str:
    """The file name under which a release is stored."""
    return f"eagle3-remote-{release}.pyz"


def build_archive(package: Path) -> bytes:
    """The zip that Python runs, made of the sources in the folder `package`. Raises OSError."""
    import zipfile  # for the console and the tests: the container only reads

    entries = {"__main__.py": _ENTRY}
    for path in package.rglob("*.py"):
        entries[f"remote/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, entries[name])
    return out.getvalue()


def release_of(archive: bytes) -> str:
    """The release that an archive is."""
    return hashlib.sha256(archive).hexdigest()[:RELEASE_CHARS]


def archive_path() -> Path | None:
    """The zip of sources that this program runs from, or beside whose compiled companion; None in a checkout.

    It may be `/proc/self/fd/N` where the container had no writable place: see `durable_archive`.
    """
    found = getattr(getattr(sys.modules[__name__], "__loader__", None), "archive", None)
    if not isinstance(found, str):
        return None
    path = Path(found)
    named = _NAME.fullmatch(path.name)
    return path.with_name(archive_name(named[1])) if named is not None else path


def archive_bytes() -> bytes:
    """The zip of this very program, read or built. Raises OSError."""
    found = archive_path()
    return build_archive(Path(__file__).parent) if found is None else found.read_bytes()


@functools.lru_cache(maxsize=1)
def release() -> str:
    """The release of this program, as it was when first asked. Raises OSError only in a checkout."""
    found = archive_path()
    named = _NAME.fullmatch(found.name) if found is not None else None
    # The bootstrap checked the content against the name; the file may have been removed since.
    return named[1] if named is not None else release_of(archive_bytes())


def durable_archive(folder: Path) -> Path:
    """A zip of this program that stays for as long as a launched process needs it: a copy in `folder`.

    A process imports from its zip for days. The one in a cache folder may be cleaned away
    meanwhile, one held in memory ends with us, and a checkout may be edited. Raises OSError.
    """
    found = archive_path()
    if found is not None and found.parent == folder:
        return found
    data = archive_bytes()
    copy = folder / archive_name(release_of(data))
    if not copy.is_file() or copy.read_bytes() != data:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(copy, data)
        os.chmod(copy, 0o644)
    return copy
