"""Reads serialised messages (XCDR version 1, OMG DDSI-RTPS 2.3, 10.5) of topics that come fast.

rclpy makes a Python object of each field, which takes it 50 us for one transform; to read the few numbers that are
needed takes 5. What is serialised otherwise is read by rclpy.
"""

from __future__ import annotations

import struct

__all__ = ["CDR_HEADER_BYTES", "LITTLE_ENDIAN", "CdrReader"]

LITTLE_ENDIAN = b"\x00\x01"  # representation identifier of plain CDR
CDR_HEADER_BYTES = 4  # it, and two bytes of options; the message's fields follow


class CdrReader:
    """Reads one field after the other.

    Parameters
    ----------
    data : bytes
        A serialised message.

    Raises
    ------
    ValueError
        If it is serialised otherwise; `struct.error` and `ValueError` by the methods if it is cut short.
    """

    def __init__(self, data: bytes) -> None:
        if data[:2] != LITTLE_ENDIAN:
            raise ValueError("no plain little-endian CDR")
        self._data = memoryview(data)[CDR_HEADER_BYTES:]
        self._place = 0

    @property
    def n_bytes(self) -> int:
        """Read so far, with the header."""
        return CDR_HEADER_BYTES + self._place

    def time(self) -> int:
        """Of a `builtin_interfaces/Time` [ns]."""
        place = self._aligned(4)
        seconds, nanoseconds = struct.unpack_from("<iI", self._data, place)
        self._place = place + 8
        return int(seconds) * 1_000_000_000 + int(nanoseconds)

    def count(self) -> int:
        """Of a sequence, or a uint32."""
        place = self._aligned(4)
        self._place = place + 4
        return int(struct.unpack_from("<I", self._data, place)[0])

    def text(self) -> str:
        """A string."""
        length = self.count()
        place, self._place = self._place, self._place + length
        if self._place > len(self._data) or not length:
            raise ValueError("the message is cut short")
        return str(self._data[place : self._place - 1], "utf-8")  # without its final 0

    def doubles(self, n: int) -> tuple[float, ...]:
        """So many float64."""
        place = self._aligned(8) if n else self._place
        self._place = place + 8 * n
        return struct.unpack_from(f"<{n}d", self._data, place)

    def _aligned(self, size: int) -> int:
        return -(-self._place // size) * size
