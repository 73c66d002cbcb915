"""A message sent again and again of which only the time changes.

rclpy turns each field of a message it sends into C anew, which takes it 20 to 50 us for a few joints; here that is done
once, and the stamp is written into the serialised message.
"""

from __future__ import annotations

import struct

from geometry_msgs.msg import PoseStamped
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from eim_ros.nodes.common.cdr import CDR_HEADER_BYTES, LITTLE_ENDIAN, CdrReader

__all__ = ["Restamped"]

_NANOSECONDS = 1_000_000_000


class Restamped:
    """A message that begins with a `std_msgs/Header`.

    Parameters
    ----------
    data : bytes
        The message, serialised.
    """

    def __init__(self, data: bytes) -> None:
        if data[:2] != LITTLE_ENDIAN:
            raise ValueError("no plain little-endian CDR")
        self._data = bytearray(data)

    @classmethod
    def joint_state(cls, message: JointState) -> Restamped:
        """rmw_fastrtps reserves too much for sequences that are empty, and readers of bags refuse what is too long."""
        data = serialize_message(message)
        reader = CdrReader(data)
        reader.time(), reader.text()  # of the header
        for _ in range(reader.count()):
            reader.text()  # name of a joint
        for _ in range(3):
            reader.doubles(reader.count())  # positions, velocities, efforts
        return cls(data[: reader.n_bytes])

    @classmethod
    def pose(cls, message: PoseStamped) -> Restamped:
        return cls(serialize_message(message))

    def at(self, stamp: int) -> bytes:
        """The message, serialised, at a time [ns]; publishers take it as they take messages."""
        struct.pack_into("<iI", self._data, CDR_HEADER_BYTES, *divmod(stamp, _NANOSECONDS))
        return bytes(self._data)
