"""A release is the digest of the sources: the same from a checkout, from the zip, and under every Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path

import remote
from console.ship import Package, pack
from remote import release

REPO = Path(remote.__file__).parent.parent


def version_of(*words: str) -> str:
    """The release that `version --json` prints."""
    done = subprocess.run(
        [*words, "version", "--json"], capture_output=True, text=True, check=True, cwd=REPO, timeout=60
    )
    return str(json.loads(done.stdout)["release"])


def fresh() -> Package:
    """The package as the sources are now; the console's own is built once."""
    return pack(release.build_archive(Path(remote.__file__).parent))


def test_checkout_and_zip_and_console_agree(tmp_path: Path) -> None:
    shipped = fresh()
    stored = tmp_path / shipped.name
    stored.write_bytes(shipped.data)
    ours = release.release_of(release.build_archive(Path(remote.__file__).parent))
    assert shipped.release == ours and shipped.digest.startswith(shipped.release)
    assert version_of(sys.executable, "-I", "-B", str(stored)) == shipped.release
    assert version_of(sys.executable, "-B", "-m", "remote") == shipped.release


def test_the_zip_does_not_depend_on_times_or_order(tmp_path: Path) -> None:
    folder = tmp_path / "remote"
    folder.mkdir()
    for name in ("b", "a", "__init__"):
        (folder / f"{name}.py").write_text(f"# {name}\n")
    first = release.build_archive(folder)
    for path in folder.iterdir():
        os.utime(path, (time.time() - 9e6,) * 2)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert release.build_archive(folder) == first
    assert zipfile.ZipFile(BytesIO(first)).namelist() == sorted(zipfile.ZipFile(BytesIO(first)).namelist())
    (folder / "a.py").write_text("# a!\n")
    assert release.release_of(release.build_archive(folder)) != release.release_of(first)


def test_a_launched_process_gets_a_zip_that_stays(tmp_path: Path) -> None:
    shipped = fresh()
    made = release.durable_archive(tmp_path / "program")
    assert made.parent == tmp_path / "program" and made.name == shipped.name
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "fd = os.memfd_create('x', 0)\nos.write(fd, Path(sys.argv[1]).read_bytes())\n"
        "os.execv(sys.executable, [sys.executable, '-I', '-B', '-c', "
        "f\"import sys; sys.path.insert(0, '/proc/self/fd/{fd}'); from remote import release; "
        'from pathlib import Path; print(release.release(), release.durable_archive(Path(sys.argv[1])))", sys.argv[2]])'
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(made), str(tmp_path / "kept")], capture_output=True, text=True, check=True
    )
    # From a cache folder, too, it is copied: caches are cleaned.
    from_cache = tmp_path / "cache" / made.name
    from_cache.parent.mkdir()
    from_cache.write_bytes(made.read_bytes())
    code = "from pathlib import Path; from remote import release; print(release.durable_archive(Path(sys.argv[2])))"
    again = subprocess.run(
        [
            sys.executable,
            "-I",
            "-B",
            "-c",
            f"import sys; sys.path.insert(0, sys.argv[1]); {code}",
            from_cache,
            tmp_path / "run",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(again.stdout.strip()) == tmp_path / "run" / made.name
    said, kept = done.stdout.split()
    assert said == shipped.release and Path(kept).read_bytes() == made.read_bytes()
    assert version_of(sys.executable, "-I", "-B", kept) == shipped.release
