"""Our buffer of transforms answers as tf2's does, of the same messages."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from eim_ros.kinematics.frames import SECOND, FrameError, StampedTransform
from eim_ros.nodes.common.frames import CdrReader, OwnBuffer, Tf2Buffer, stamped_transforms, tf2_ros
from eim_ros.nodes.common.interfaces import TFMessage
from eim_ros.nodes.common.joint_states import joint_positions_of

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


def fill(buffer: Any, seed: int) -> None:
    """A tree of frames, some static, with stamps that are uneven and come in any order."""
    rng = np.random.default_rng(seed)
    for i, child in enumerate(NAMES[1:], start=1):
        parent, is_static = NAMES[rng.integers(i)], bool(rng.random() < 0.3)
        for stamp in rng.permutation(np.cumsum(rng.integers(1, SECOND, 8))):
            buffer.put(sent(message(parent, child, NOW + int(stamp), rng.normal(size=7))), is_static)


def sent(*transforms: TransformStamped) -> bytes:
    return serialize_message(TFMessage(transforms=list(transforms)))


def test_names_may_begin_with_a_slash_as_those_of_old_and_bad_ones_are_told() -> None:
    buffer, numbers = OwnBuffer(), np.array([1.0, 0, 0, 0, 0, 0, 1])
    good, bad = message("/world", "/a", NOW, numbers), message("", "b", NOW, numbers)
    assert [str(error)[:36] for error in buffer.put(sent(bad, good), True)] == ["a transform needs two different fram"]
    assert buffer.lookup("world", "a", None)[0, 3] == 1.0


@pytest.mark.parametrize("names", [("world", "a"), ("w", ""), ("", "link_12"), ("wörld", "stück"), ("abc", "abcd")])
def test_what_is_read_of_serialised_messages_is_what_rclpy_reads(names: tuple[str, str]) -> None:
    """Names of all lengths, which shift what comes behind them."""
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


@pytest.mark.skipif(tf2_ros is None, reason="tf2_ros is not among the wheels")
@pytest.mark.parametrize("seed", range(5))
def test_both_know_the_same_and_tell_it_alike(seed: int) -> None:
    ours, theirs = OwnBuffer(), Tf2Buffer()
    fill(ours, seed)
    fill(theirs, seed)
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
            np.testing.assert_allclose(one, other, atol=1e-9)  # rounding of seven numbers in a row of frames
    assert n_known > 50
