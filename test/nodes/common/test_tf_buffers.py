"""For the same messages, our buffer of transforms gives the answers of tf2's buffer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from rclpy.duration import Duration
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.time import Time as RclpyTime
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from eim_ros.kinematics import pose_from
from eim_ros.kinematics.frames import HISTORY, SECOND, FrameBuffer, FrameError, StampedTransform
from eim_ros.nodes.common.frames import CdrReader, joint_positions_of, stamped_transforms
from eim_ros.nodes.common.interfaces import TFMessage

NOW = 1_790_000_000 * SECOND
NAMES = ("world", "a", "b", "c", "d", "e", "f")


def message(parent: str, child: str, stamp: int, numbers: np.ndarray) -> TransformStamped:
    result = TransformStamped(header=Header(frame_id=parent), child_frame_id=child)
    result.header.stamp = Time(sec=stamp // SECOND, nanosec=stamp % SECOND)
    position, rotation, quaternion = (
        result.transform.translation,
        result.transform.rotation,
        numbers[3:] / np.linalg.norm(numbers[3:]),
    )
    position.x, position.y, position.z = numbers[:3].tolist()
    rotation.x, rotation.y, rotation.z, rotation.w = quaternion.tolist()
    return result


def fill(put: Callable[[bytes, bool], None], seed: int) -> None:
    """Put a tree of frames with irregular stamps in random order; some frames are static."""
    rng = np.random.default_rng(seed)
    for i, child in enumerate(NAMES[1:], start=1):
        parent, is_static = NAMES[rng.integers(i)], bool(rng.random() < 0.3)
        for stamp in rng.permutation(np.cumsum(rng.integers(1, SECOND, 8))):
            put(sent(message(parent, child, NOW + int(stamp), rng.normal(size=7))), is_static)


def sent(*transforms: TransformStamped) -> bytes:
    return serialize_message(TFMessage(transforms=list(transforms)))


def put(buffer: FrameBuffer, data: bytes, is_static: bool) -> None:
    for child, transform in stamped_transforms(data):
        buffer.put(child, transform, is_static)


def test_names_may_begin_with_a_slash_as_those_of_old_and_bad_ones_are_told() -> None:
    buffer, numbers = FrameBuffer(), np.array([1.0, 0, 0, 0, 0, 0, 1])
    put(buffer, sent(message("/world", "/a", NOW, numbers)), True)
    assert buffer.lookup("world", "a", None)[0, 3] == 1.0
    with pytest.raises(FrameError, match="a transform needs two different frames"):
        put(buffer, sent(message("", "b", NOW, numbers)), True)


@pytest.mark.parametrize("names", [("world", "a"), ("w", ""), ("", "link_12"), ("wörld", "stück"), ("abc", "abcd")])
def test_what_is_read_of_serialised_messages_is_what_rclpy_reads(names: tuple[str, str]) -> None:
    """The length of a name determines where the next fields begin."""
    rng = np.random.default_rng(0)
    transforms = [message(*names, NOW - 3 + i, rng.normal(size=7)) for i in range(3)]
    for i in range(4):
        data = sent(*transforms[:i])
        assert stamped_transforms(data) == [expected(transform) for transform in transforms[:i]]
        state = JointState(name=[*names][: i % 3], position=rng.normal(size=i).tolist(), velocity=[1.0] * i)
        state.header.frame_id = names[0]
        data = serialize_message(state)
        assert joint_positions_of(data) == (list(state.name), tuple(state.position))
    assert stamped_transforms(sent(transforms[0]))[0][1].stamp == NOW - 3


def expected(message: TransformStamped) -> tuple[str, StampedTransform]:
    position, rotation = message.transform.translation, message.transform.rotation
    return message.child_frame_id, StampedTransform(
        message.header.frame_id,
        message.header.stamp.sec * SECOND + message.header.stamp.nanosec,
        (position.x, position.y, position.z),
        (rotation.x, rotation.y, rotation.z, rotation.w),
    )


def test_what_is_serialised_otherwise_is_left_to_rclpy() -> None:
    data = sent(message("world", "a", NOW, np.ones(7)))
    for changed in (b"\x00\x03" + data[2:], data[:30]):
        with pytest.raises((ValueError, struct.error)):
            reader = CdrReader(changed)
            reader.count(), reader.time(), reader.text(), reader.text(), reader.doubles(7)


class Tf2:
    """Buffer of tf2_ros with the interface of our buffer."""

    def __init__(self, tf2_ros: Any) -> None:
        self._tf2, self._buffer = tf2_ros, tf2_ros.Buffer(Duration(seconds=HISTORY))

    def put(self, data: bytes, is_static: bool) -> None:
        keep = self._buffer.set_transform_static if is_static else self._buffer.set_transform
        for transform in deserialize_message(data, TFMessage).transforms:
            keep(transform, "eim_ros")

    def lookup(self, target: str, source: str, stamp: int | None) -> np.ndarray:
        try:
            found = self._buffer.lookup_transform_core(target, source, RclpyTime(nanoseconds=stamp or 0))
        except self._tf2.TransformException as error:
            may_come = not isinstance(error, self._tf2.ExtrapolationException) or "past" not in str(error)
            raise FrameError(str(error), source, may_come) from error
        place, turn = found.transform.translation, found.transform.rotation
        return pose_from((place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w))


@pytest.mark.parametrize("seed", range(5))
def test_both_know_the_same_and_tell_it_alike(seed: int) -> None:
    ours, theirs = FrameBuffer(), Tf2(pytest.importorskip("tf2_ros", reason="it is not among the wheels"))
    fill(lambda *arguments: put(ours, *arguments), seed)
    fill(theirs.put, seed)
    rng, n_known = np.random.default_rng(seed), 0
    for _ in range(300):
        target, source = rng.choice([*NAMES, "nowhere"], 2, replace=False)
        stamp = None if rng.random() < 0.2 else NOW + int(rng.integers(0, 5 * SECOND))
        found = []
        for buffer in (ours, theirs):
            try:
                found.append((buffer.lookup(target, source, stamp), None))
            except FrameError as error:
                found.append((None, error.may_come))
        (one, waits), (other, they_wait) = found
        assert (one is None) == (other is None), (target, source, stamp)
        if one is None:
            assert waits == they_wait, (target, source, stamp)
        else:
            n_known += 1
            np.testing.assert_allclose(one, other, atol=1e-9)  # rounding along a chain of frames
    assert n_known > 50
