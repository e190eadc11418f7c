"""A checksum for every block of what was read of a file, to find later what no file time tells."""

from __future__ import annotations

import zlib
from array import array

BLOCK_BYTES = 1 << 20


class BlockChecksums:
    """CRC-32 of each full block, and the running one of the block that is not full yet. `at` bytes are covered."""

    def __init__(self) -> None:
        self.at = 0
        self._full = array("I")
        self._running = 0

    def update(self, data: bytes | memoryview) -> None:
        """Cover the next bytes of the file."""
        view = memoryview(data)
        while view:
            piece = view[: BLOCK_BYTES - self.at % BLOCK_BYTES]
            self._running = zlib.crc32(piece, self._running)
            self.at += len(piece)
            if self.at % BLOCK_BYTES == 0:
                self._full.append(self._running)
                self._running = 0
            view = view[len(piece) :]

    def mark(self) -> tuple[int, int]:
        """Where we are, for `rewind`."""
        return self.at, self._running

    def rewind(self, mark: tuple[int, int]) -> None:
        """Uncover what came after the mark."""
        self.at, self._running = mark
        del self._full[self.at // BLOCK_BYTES :]

    def fits(self, start: int, data: bytes) -> bool:
        """Whether `data` is the block that was read from byte `start` (a whole block, or up to the end of what is covered)."""
        index = start // BLOCK_BYTES
        return zlib.crc32(data) == (self._full[index] if index < len(self._full) else self._running)

    def to_json(self) -> list[object]:
        """For the index; `from_json` is the inverse."""
        return [self._full.tobytes().hex(), self._running]

    @classmethod
    def from_json(cls, value: list[object], at: int) -> BlockChecksums:
        """Rebuild the checksums of `at` bytes. Raises ValueError, TypeError or OverflowError when they are not that."""
        full, running = value
        if not isinstance(full, str) or not isinstance(running, int):
            raise TypeError("no checksums")
        made = cls()
        made._full.frombytes(bytes.fromhex(full))
        made.at, made._running = at, running
        if len(made._full) != at // BLOCK_BYTES:
            raise ValueError("the checksums do not cover the file")
        return made
