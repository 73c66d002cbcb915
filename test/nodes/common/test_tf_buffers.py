"""Our buffer of transforms answers as tf2's does, of the same messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from std_msgs.msg import Header

from eim_ros.kinematics.frames import SECOND, FrameError
from eim_ros.nodes.common.tf_buffers import OwnBuffer, Tf2Buffer, tf2_ros

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
            buffer.put(message(parent, child, NOW + int(stamp), rng.normal(size=7)), is_static)


def test_names_may_begin_with_a_slash_as_those_of_old() -> None:
    buffer = OwnBuffer()
    buffer.put(message("/world", "/a", NOW, np.array([1.0, 0, 0, 0, 0, 0, 1])), True)
    assert buffer.lookup("world", "a", None)[0, 3] == 1.0
    with pytest.raises(FrameError, match="two different frames"):
        buffer.put(message("", "a", NOW, np.ones(7)), False)


@pytest.mark.skipif(tf2_ros is None, reason="tf2_ros is not among the wheels")
@pytest.mark.parametrize("seed", range(5))
def test_both_know_the_same_and_tell_it_alike(seed: int) -> None:
    ours, theirs = OwnBuffer(), Tf2Buffer()
    fill(ours, seed)
    fill(theirs, seed)
    rng, n_known = np.random.default_rng(seed), 0
    for _ in range(300):
        target, source = rng.choice([*NAMES, "nowhere"], 2)
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
