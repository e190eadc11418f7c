"""A recording made neutral: the same container, host, processes and clock whoever made it, wherever and whenever.

What was counted and decided stays as it was; what only tells of the machine is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

AT = 1_796_094_764.0
"""2026-12-01 03:12:44 UTC: the moment at which the incident is seen."""

HOST = "gpu-07"
OPERATOR = {"user": "ana", "host": "laptop"}
BOOT_ID = "6f1c8a52-77d4-4c0e-9a1e-2b1d3f405162"
RELEASE = "4f2a91c07be2"
FIRST_PID = 21_870
MACHINE = {
    "cpus": 64,
    "memory_total_bytes": 579_820_584_960,
    "memory_available_bytes": 431_644_213_248,
    "free_bytes": 1_100_000_000_000,
    "total_bytes": 3_800_000_000_000,
    "free_inodes": 231_000_000,
    "boot_id": BOOT_ID,
    "pid_ns": 4_026_531_836,
    "start_ticks": 8_123_456,
    "inode": 1_234,
    "device": 64,
}
"""Figures of the recording machine, by their key, and what stands in their place."""

_NEAR_S = 400 * 86_400.0
_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)|\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)|\b(\d{8}T\d{6})")
_CLOCK = re.compile(r"(?:\b([A-Z][a-z]{2}) ([ \d]\d) )?\b(\d\d):(\d\d)(:\d\d)?\b")
_ARCHIVE = re.compile(r"(eagle3-remote-)[0-9a-f]+")
_RUN = re.compile(r"\b(\d{8}T\d{6}Z?-)([0-9a-f]{4,})\b")
_PATTERNS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y%m%dT%H%M%S")


@dataclass
class Scrub:
    """`words` are replaced as they are, longest first; `began` (Unix seconds) becomes `AT`.

    `pids` keeps numbers that are known beforehand; every other process gets the next number from
    `FIRST_PID` on, in the order in which they are met.
    """

    words: Mapping[str, str]
    began: float
    pids: dict[int, int] = field(default_factory=dict)
    _runs: dict[str, str] = field(default_factory=dict)

    def value(self, value: Any, key: str = "", part: str = "") -> Any:
        """A JSON value, scrubbed through and through; `part` is the key above: GPUs, the demo's own, stay as they are."""
        if key in MACHINE and value is not None and part != "rows":
            return MACHINE[key]
        if key == "release" and isinstance(value, str) and value:
            return RELEASE
        if isinstance(value, dict) and value.keys() == OPERATOR.keys():
            return OPERATOR
        if isinstance(value, dict):
            return {self.text(name): self.value(inner, name, key) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner, key, key) for inner in value]
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        if (key == "pid" or key.endswith("_pid")) and isinstance(value, int):
            return self._pid(value)
        if abs(value - self.began) < _NEAR_S:
            return round(value - self.began + AT, 1)
        return value

    def learn(self, pids: Iterable[int]) -> None:
        """Number these processes now, so that sentences that name them are scrubbed too."""
        for pid in pids:
            self._pid(pid)

    def _pid(self, pid: int) -> int:
        if pid not in self.pids:
            self.pids[pid] = FIRST_PID + len(self.pids)
        return self.pids[pid]

    def text(self, text: str) -> str:
        """One string: paths and names, run ids, moments, and the pids that are known."""
        for word in sorted(self.words, key=len, reverse=True):
            text = text.replace(word, self.words[word])
        text = _ARCHIVE.sub(rf"\g<1>{RELEASE}", text)
        text = _RUN.sub(self._run, text)
        text = _STAMP.sub(self._moment, text)
        if not _STAMP.search(text):
            text = _CLOCK.sub(self._clock, text)
        for pid, neutral in self.pids.items():
            text = re.sub(rf"\b(pids?|kill-pid) {pid}\b", rf"\1 {neutral}", text)
        return text

    def _run(self, match: re.Match[str]) -> str:
        number = self._runs.setdefault(match.group(2), f"{len(self._runs) + 1:0{len(match.group(2))}x}")
        return match.group(1) + number

    def _moment(self, match: re.Match[str]) -> str:
        pattern = _PATTERNS[next(place for place in range(3) if match.group(place + 1))]
        return self._moved(datetime.strptime(match.group(0), pattern).replace(tzinfo=UTC)).strftime(pattern)

    def _clock(self, match: re.Match[str]) -> str:
        """`03:12:44`, `03:12` or `Nov 30 22:10`, as the programs write them: of the day of the recording, or of one named."""
        month, day, hour, minute, second = match.groups()
        if int(hour) > 23 or int(minute) > 59:
            return match.group(0)
        moment = datetime.fromtimestamp(self.began, UTC)
        moment = moment.replace(hour=int(hour), minute=int(minute), second=int((second or ":00")[1:]))
        pattern = "%H:%M:%S" if second else "%H:%M"
        if month:
            named = datetime.strptime(f"{moment.year} {month} {day.strip()}", "%Y %b %d")
            moment, pattern = moment.replace(month=named.month, day=named.day), f"%b %d {pattern}"
        return self._moved(moment).strftime(pattern)

    def _moved(self, moment: datetime) -> datetime:
        return datetime.fromtimestamp(moment.timestamp() - self.began + AT, UTC)
