"""The GPUs by `nvidia-smi`: its own process, five seconds at most, never two at once.

A broken driver leaves `nvidia-smi` in the kernel (state D), where no signal reaches it. It is then
abandoned, not waited for, and no other is started until that one is gone.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from typing import Any

from remote.text import clean

LIMIT_S = 5.0
_FIELDS = "index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"
_MAX_BYTES = 1 << 18
_REAP_S = 0.5

_lock = threading.Lock()
_child: subprocess.Popen[bytes] | None = None
_since = 0.0


def gpus(limit_s: float = LIMIT_S) -> dict[str, Any]:
    """`{"rows": [{"index", "name", "utilisation", "memory_used_bytes", "memory_total_bytes",
    "temperature_c", "power_w"}], "detail"}`; utilisation in percent.

    A value that the GPU does not report is None; no rows at all have their reason in `detail`.
    Never raises and never takes much longer than `limit_s`.
    """
    if not _lock.acquire(blocking=False):
        return _nothing("nvidia-smi is being asked already")
    try:
        return _ask(limit_s)
    finally:
        _lock.release()


def helper_pids() -> frozenset[int]:
    """The nvidia-smi started here and not reaped yet, for a caller that reaps orphans."""
    child = _child
    return frozenset() if child is None else frozenset({child.pid})


def _nothing(detail: str) -> dict[str, Any]:
    return {"rows": [], "detail": detail}


def _ask(limit_s: float) -> dict[str, Any]:
    global _child, _since
    if _child is not None:
        if _child.poll() is None:
            hung_s = time.monotonic() - _since
            return _nothing(
                f"nvidia-smi has hung for {hung_s:.0f} s (pid {_child.pid}); not asking again until it ends"
            )
        _child = None
    try:
        child = subprocess.Popen(
            ["nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return _nothing("nvidia-smi is not installed here")
    except OSError as error:
        return _nothing(f"nvidia-smi cannot be started: {error.strerror}")
    _child, _since = child, time.monotonic()
    output, ended = _read(child, limit_s)
    try:
        code = child.wait(_REAP_S)
        _child = None
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            child.wait(_REAP_S)
            _child = None
        except subprocess.TimeoutExpired:
            # In the kernel: kept in `_child`, so that no second one follows it there.
            pass
        code = None
    if not ended or code is None:
        return _nothing(f"nvidia-smi did not answer within {limit_s:.0f} s")
    return _parse(output.decode("utf-8", "replace"), code)


def _read(child: subprocess.Popen[bytes], limit_s: float) -> tuple[bytes, bool]:
    """What it printed and whether it came to an end; killed when it prints without end or too late."""
    assert child.stdout is not None
    deadline = time.monotonic() + limit_s
    chunks: list[bytes] = []
    total = 0
    with child.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while total < _MAX_BYTES:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                child.kill()
                return b"".join(chunks), False
            chunk = os.read(pipe.fileno(), 1 << 16)
            if not chunk:
                return b"".join(chunks), True
            chunks.append(chunk)
            total += len(chunk)
    child.kill()
    return b"".join(chunks), False


def _parse(text: str, code: int) -> dict[str, Any]:
    lines = [line for line in text.split("\n") if line.strip()]
    rows = [row for line in lines if (row := _row(line)) is not None]
    if rows:
        strange = len(lines) - len(rows)
        # MIG: the parent GPU reports no utilisation of its own; its other figures hold.
        mig = any(row["utilisation"] is None for row in rows)
        detail = "nvidia-smi reports no utilisation for some GPUs (MIG, or not supported)" if mig else ""
        if strange:
            detail = f"nvidia-smi also said: {clean(next(line for line in lines if _row(line) is None), 200)}"
        return {"rows": rows, "detail": detail}
    if lines:
        return _nothing(f"nvidia-smi: {clean(lines[0], 200)}")
    return _nothing(
        "nvidia-smi reports no GPU" if code == 0 else f"nvidia-smi failed without a word (exit code {code})"
    )


def _row(line: str) -> dict[str, Any] | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) < 7 or not fields[0].isdecimal():
        return None
    # A name may hold a comma; the six others do not.
    index, values = fields[0], fields[-5:]
    utilisation, used_mib, total_mib, temperature, power = (_figure(value) for value in values)
    return {
        "index": int(index),
        "name": clean(", ".join(fields[1:-5]), 60),
        "utilisation": utilisation,
        "memory_used_bytes": None if used_mib is None else int(used_mib * 1024 * 1024),
        "memory_total_bytes": None if total_mib is None else int(total_mib * 1024 * 1024),
        "temperature_c": temperature,
        "power_w": power,
    }


def _figure(text: str) -> float | None:
    """A figure; `[N/A]`, `[Not Supported]`, `[Insufficient Permissions]` and the like are None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None
