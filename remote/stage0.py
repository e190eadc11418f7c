"""What runs first on the container: finds or receives the zip, checks it, and becomes the agent.

The console sends this file's text on stdin to a Python that `/bin/sh` found, followed by `run(ORDER)`; so it
imports nothing of ours. It answers with lines `MARKER WORD {json}` on stdout:

* `stage0`: it runs; `have` says whether the zip is here already, else the console sends it;
* `stored`: the zip arrived whole and lies in `place` (null: in memory only);
* `failed`: `code` is `digest`, `short`, `room` or `exec`, and `detail` says more; exit status 94.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import stat
import sys
import zlib
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER, source_hash
from typing import Any, NoReturn

FAILED = 94
DIGEST_CHARS = 64
"""Those of a SHA-256 in hexadecimal."""
FOLDER = "eagle3-console"


def cache_places(environment: Mapping[str, str], uid: int) -> list[str]:
    """The folders that may keep the zip, best first; shared ones get a folder named after the user."""
    places = []
    for base in (environment.get("XDG_CACHE_HOME", ""), os.path.join(environment.get("HOME", ""), ".cache")):
        if os.path.isabs(base):
            places.append(os.path.join(base, FOLDER))
    shared = ("/dev/shm", "/tmp", "/var/tmp", "/run", "/workspace")
    return places + [os.path.join(base, f"{FOLDER}-{uid}") for base in shared]


def refusal(path: str, uid: int, is_kind: Any) -> str:
    """Why a file or folder is not to be trusted with code that we run; empty when it is."""
    facts = os.lstat(path)
    if not is_kind(facts.st_mode):
        return "of another kind than ours"
    if facts.st_uid != uid:
        return "owned by somebody else"
    return "writable by others" if facts.st_mode & 0o022 else ""


def read_ours(path: str, uid: int) -> bytes:
    """A file of ours in a folder of ours. Raises OSError for any other, and for none."""
    for each, is_kind in ((os.path.dirname(path), stat.S_ISDIR), (path, stat.S_ISREG)):
        why = refusal(each, uid, is_kind)
        if why:
            raise OSError(why)
    with open(path, "rb") as file:
        return file.read()


def find(places: list[str], name: str, digest: str, uid: int) -> str:
    """The path of the zip with this digest, or empty."""
    for place in places:
        path = os.path.join(place, name)
        with contextlib.suppress(OSError):
            if hashlib.sha256(read_ours(path, uid)).hexdigest() == digest:
                return path
    return ""


def hold(path: str) -> bool:
    """Mark a zip as in use for as long as this process lives, and the agent that it becomes, and as started just now.

    False when it is just being removed as an old one (`remote/old_programs.py`): it is to be sent again.
    """
    import fcntl

    with contextlib.suppress(OSError):  # a read-only place; it is not removed from either
        os.utime(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # no locks here, and so nothing is removed
    os.set_inheritable(fd, True)
    # It may have been removed between the two: then we hold what has no name any more.
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


def store(place: str, name: str, data: bytes, uid: int) -> str:
    """Write a zip whole into one place, durably. Returns its path; raises OSError."""
    import tempfile  # not at the top: most starts find everything there

    if os.path.basename(place) == FOLDER:
        # A cache folder of the user's own may have to be made; a shared one is there or is not.
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.dirname(place), 0o700)
    try:
        os.mkdir(place, 0o700)  # never open to others, not for a moment
        os.chmod(place, 0o700)  # whatever the umask
    except FileExistsError:
        why = refusal(place, uid, stat.S_ISDIR)
        if why:
            raise OSError(why) from None
    fd, beside = tempfile.mkstemp(prefix=".arriving-", dir=place)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        path = os.path.join(place, name)
        os.replace(beside, path)
        return path
    except OSError:
        os.unlink(beside)
        raise


def compiled(path: str, uid: int) -> str:
    """What to run in place of the zip at `path`: the same program compiled for this Python, kept beside it.

    Compiling takes more than half of a start, and one Python reads no other's bytecode: it is made once for
    each. The zip itself where it cannot be.
    """
    stem, kind = os.path.splitext(path)
    beside = f"{stem}.{sys.implementation.cache_tag}-{MAGIC_NUMBER.hex()}{kind}"
    with contextlib.suppress(OSError):
        data = read_ours(beside, uid)
        if data[-DIGEST_CHARS:] == hashlib.sha256(data[:-DIGEST_CHARS]).hexdigest().encode():
            return beside
    try:
        return store(os.path.dirname(path), os.path.basename(beside), compile_zip(path), uid)
    except (OSError, SyntaxError, ValueError):
        # No room for it, or a source that this Python does not take: it will say so itself when it runs.
        return path


def compile_zip(path: str) -> bytes:
    """A zip of the bytecode of a zip's modules; its comment, which ends it, is the digest of all before.

    Each entry is a `.pyc` that is not compared with a source (PEP 552, flag 0b01).
    """
    import io
    import marshal
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(path) as sources, zipfile.ZipFile(out, "w") as archive:
        for name in sources.namelist():
            source = sources.read(name)
            code = compile(source, f"{path}/{name}", "exec", dont_inherit=True)
            header = MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(source)
            archive.writestr(f"{name}c", header + marshal.dumps(code))
        archive.comment = b"0" * DIGEST_CHARS
    data = out.getvalue()[:-DIGEST_CHARS]
    return data + hashlib.sha256(data).hexdigest().encode()


def keep_in_memory(data: bytes) -> str:
    """Hold the zip in an anonymous file that lives as long as this process. Raises OSError."""
    fd = os.memfd_create("eagle3-remote", 0)  # no close-on-exec: the agent reads it
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return f"/proc/self/fd/{fd}"


def receive(size: int) -> bytes:
    """Exactly `size` bytes of stdin and not one more: what follows is the agent's. Short at end of input."""
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 16))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def say(marker: str, word: str, facts: dict[str, Any]) -> None:
    """One line to the console; the newline before it ends whatever a login shell left unfinished."""
    data = f"\n{marker} {word} {json.dumps(facts)}\n".encode()
    while data:
        data = data[os.write(1, data) :]


def run(order: dict[str, Any]) -> NoReturn:
    """Carry out the console's order: `marker`, `name`, `digest` (SHA-256 of the zip), `packed_bytes` (its size on
    the wire, zlib), `bytes`, `arguments` of the program, `wait_s`."""
    marker, name, uid = order["marker"], order["name"], os.getuid()
    places = cache_places(os.environ, uid)
    path = find(places, name, order["digest"], uid)
    if path and not hold(path):
        path = ""
    python = "{}.{}.{}".format(*sys.version_info[:3])
    # A console that vanished without a word must not leave us waiting.
    signal.alarm(int(order["wait_s"]))
    say(marker, "stage0", {"python": python, "executable": sys.executable, "have": bool(path), "place": path})
    if not path:
        path = _take(order, places, uid)
        hold(path)
    if os.path.dirname(path) in places:  # and not in memory
        path = compiled(path, uid)
    signal.alarm(0)
    try:
        os.execv(sys.executable, [sys.executable, "-I", "-B", "-u", path, *order["arguments"]])
    except OSError as error:
        _fail(marker, "exec", f"{sys.executable}: {error.strerror}")


def _take(order: dict[str, Any], places: list[str], uid: int) -> str:
    marker, packed = order["marker"], receive(order["packed_bytes"])
    if len(packed) < order["packed_bytes"]:
        _fail(marker, "short", "{} of {} bytes arrived".format(len(packed), order["packed_bytes"]))
    try:
        data = zlib.decompressobj().decompress(packed, order["bytes"] + 1)
    except zlib.error as error:
        _fail(marker, "digest", str(error))
    digest = hashlib.sha256(data).hexdigest()
    if digest != order["digest"]:
        _fail(marker, "digest", "it has {} and should have {}".format(digest[:12], order["digest"][:12]))
    tried = []
    for place in places:
        try:
            path = store(place, order["name"], data, uid)
        except OSError as error:
            tried.append([place, error.strerror or str(error)])
            continue
        say(marker, "stored", {"place": path, "tried": tried})
        return path
    try:
        path = keep_in_memory(data)
    except OSError as error:
        tried.append(["memory", error.strerror or str(error)])
        _fail(marker, "room", "; ".join(": ".join(pair) for pair in tried))
    say(marker, "stored", {"place": None, "tried": tried})
    return path


def _fail(marker: str, code: str, detail: str) -> NoReturn:
    say(marker, "failed", {"code": code, "detail": detail})
    sys.exit(FAILED)
