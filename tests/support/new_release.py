"""The real package under a digest that no machine has seen: whatever earlier tests left, it has to be sent."""

from __future__ import annotations

import io
import secrets
import zipfile

from console.ship import Package, pack, package


def new_release() -> Package:
    """This console's own package with a comment of its own in the zip."""
    archive = io.BytesIO(package().data)
    with zipfile.ZipFile(archive, "a") as zipped:
        zipped.comment = secrets.token_hex(8).encode()
    return pack(archive.getvalue())
