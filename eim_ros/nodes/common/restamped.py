"""A message sent again and again of which only the time changes.

rclpy turns each field of a message it sends into C anew, which takes it 20 to 50 us for a few joints; here that is done
once, and the stamp is written into the serialised message.
"""

from __future__ import annotations

import struct
from typing import Any

from rclpy.serialization import serialize_message

from eim_ros.nodes.common.cdr import CDR_HEADER_BYTES, LITTLE_ENDIAN

__all__ = ["Restamped"]

_NANOSECONDS = 1_000_000_000


class Restamped:
    """A message that begins with a `std_msgs/Header`.

    Parameters
    ----------
    message : message
        Copied: later changes of it do not count.
    """

    def __init__(self, message: Any) -> None:
        self._data = bytearray(serialize_message(message))
        if self._data[:2] != LITTLE_ENDIAN:
            raise ValueError("no plain little-endian CDR")

    def at(self, stamp: int) -> bytes:
        """The message, serialised, at a time [ns]; publishers take it as they take messages."""
        struct.pack_into("<iI", self._data, CDR_HEADER_BYTES, *divmod(stamp, _NANOSECONDS))
        return bytes(self._data)
