"""Transforms of uniform motions are interpolated exactly, and errors say which transform is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eim_ros.kinematics import pose_from, quaternion_from_matrix
from eim_ros.kinematics.frames import MOST_TRANSFORMS, SECOND, FrameBuffer, FrameError, StampedTransform
from eim_ros.kinematics.poses import rotations_from

NOW = 1_790_000_000 * SECOND + 123_456_789  # float64 seconds cannot represent this time


def stamped(parent: str, pose: np.ndarray, stamp: int = NOW) -> StampedTransform:
    return StampedTransform(parent, stamp, tuple(pose[:3, 3].tolist()), tuple(quaternion_from_matrix(pose).tolist()))


def turning(rate: np.ndarray, velocity: np.ndarray, seconds: float) -> np.ndarray:
    """Return the pose after some seconds of uniform motion."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotations_from(rate[None] * seconds)[0], velocity * seconds
    return pose


def random_pose(rng: np.random.Generator) -> np.ndarray:
    return turning(rng.normal(size=3), rng.normal(size=3), 1.0)


def test_pose_in_a_frame_is_over_the_nearest_common_ancestor() -> None:
    rng = np.random.default_rng(0)
    buffer, in_parent = FrameBuffer(), {}
    for child, parent in (("a", "root"), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d")):
        in_parent[child] = random_pose(rng)
        buffer.put(child, stamped(parent, in_parent[child]), is_static=child in "bd")
    expected = np.linalg.inv(in_parent["d"] @ in_parent["e"]) @ in_parent["b"] @ in_parent["c"]
    for stamp in (None, NOW):
        np.testing.assert_allclose(buffer.lookup("e", "c", stamp), expected, atol=1e-12)
        np.testing.assert_allclose(buffer.lookup("c", "e", stamp), np.linalg.inv(expected), atol=1e-12)
    np.testing.assert_array_equal(buffer.lookup("c", "c"), np.eye(4))
    assert buffer.frames == ("a", "b", "c", "d", "e", "root")


@pytest.mark.parametrize("period", [0.001, 0.02, 0.5])
def test_uniform_motions_are_interpolated_exactly(period: float) -> None:
    """The table turns on a conveyor, so its points move neither on lines nor on circles."""
    rng = np.random.default_rng(1)
    rate, velocity, seconds = np.array([0.3, -0.9, 1.1]), np.array([0.4, -0.2, 0.1]), np.arange(0.0, 2.0, period)
    buffer, still = FrameBuffer(), np.zeros(3)
    for time in seconds:
        stamp = NOW + round(time * SECOND)
        buffer.put("conveyor", stamped("world", turning(still, velocity, time), stamp))
        buffer.put("table", stamped("conveyor", turning(rate, still, time), stamp))
    for time in rng.uniform(0.0, seconds[-1], 50):
        stamp = NOW + round(time * SECOND)
        expected = turning(still, velocity, time) @ turning(rate, still, time)
        # stamps are integer nanoseconds, and in 1 ns, positions change by at most 2e-9
        np.testing.assert_allclose(buffer.lookup("world", "table", stamp), expected, atol=5e-9)


def test_orientations_go_the_shorter_way_round() -> None:
    buffer = FrameBuffer()
    for stamp, sign, angle in ((NOW, 1, 0.1), (NOW + 10, -1, 0.2)):  # q and -q are one orientation
        quaternion = (0.0, 0.0, sign * math.sin(angle / 2), sign * math.cos(angle / 2))
        buffer.put("a", StampedTransform("world", stamp, (0.0, 0.0, 0.0), quaternion))
    between = buffer.lookup("world", "a", NOW + 5)
    assert math.atan2(between[1, 0], between[0, 0]) == pytest.approx(0.15, abs=1e-12)


def test_latest_time_is_the_latest_at_which_all_frames_in_between_are_known() -> None:
    buffer = FrameBuffer()
    for step in range(10):
        buffer.put("slow", stamped("world", pose_from([step, 0, 0]), NOW + step))
        buffer.put("fast", stamped("slow", pose_from([0, 10.0 * step, 0]), NOW + 10 * step))
    buffer.put("stuck", stamped("fast", pose_from([0, 0, 1]), NOW), is_static=True)
    # both frames are known until NOW + 9, when the fast frame has done nine tenths of its first step
    np.testing.assert_allclose(buffer.lookup("world", "stuck")[:3, 3], [9, 9, 1], atol=1e-12)
    # transforms above the common ancestor do not limit the time
    np.testing.assert_allclose(buffer.lookup("slow", "stuck")[:3, 3], [0, 90, 1], atol=1e-12)


def test_where_the_parent_changes_the_one_before_holds() -> None:
    buffer = FrameBuffer()
    buffer.put("gripper", stamped("world", np.eye(4)), is_static=True)
    buffer.put("part", stamped("world", pose_from([1, 0, 0]), NOW))
    buffer.put("part", stamped("gripper", pose_from([0, 5, 0]), NOW + 10))
    np.testing.assert_allclose(buffer.lookup("world", "part", NOW + 9)[:3, 3], [1, 0, 0])
    np.testing.assert_allclose(buffer.lookup("world", "part", NOW + 10)[:3, 3], [0, 5, 0])


def test_transforms_may_come_in_any_order_and_twice() -> None:
    buffer = FrameBuffer()
    for step in (3, 0, 2, 2, 1):
        buffer.put("a", stamped("world", pose_from([step, 0, 0]), NOW + step * 10))
    assert [buffer.lookup("world", "a", NOW + t)[0, 3] for t in (0, 5, 15, 25, 30)] == [0, 0.5, 1.5, 2.5, 3]


@pytest.mark.parametrize(
    ("target", "source", "after", "told", "may_come"),
    [
        ("base", "nowhere", None, "is unknown; the frames are 'base', 'camera', 'moon', 'part', 'world'", True),
        ("camera", "nowhere", None, "frame 'nowhere' is unknown", True),
        ("base", "moon", None, "not connected: publish a transform between their roots, 'moon' and 'world'", True),
        ("base", "part", 3 * SECOND, r"at 1790000003\.123456789 s, which is 1 s after the latest known .*, 1790", True),
        ("base", "part", -SECOND // 2, r"known at 1789999999\.623456789 s, which is 0.5 s before the earliest", False),
    ],
)  # fmt: skip
def test_what_is_not_known_is_told(target: str, source: str, after: int | None, told: str, may_come: bool) -> None:
    buffer = FrameBuffer()
    buffer.put("base", stamped("world", np.eye(4)), is_static=True)
    buffer.put("camera", stamped("moon", np.eye(4)), is_static=True)
    for seconds in (0, 1, 2):
        buffer.put("part", stamped("world", np.eye(4), NOW + seconds * SECOND))
    with pytest.raises(FrameError, match=told) as caught:
        buffer.lookup(target, source, None if after is None else NOW + after)
    assert caught.value.may_come == may_come


def test_nothing_is_guessed_from_a_single_moment() -> None:
    buffer = FrameBuffer()
    buffer.put("a", stamped("world", np.eye(4)))
    assert np.array_equal(buffer.lookup("world", "a", NOW), np.eye(4))
    for stamp in (NOW - 1, NOW + 1):
        with pytest.raises(FrameError, match="is not known at"):
            buffer.lookup("world", "a", stamp)


@pytest.mark.parametrize(
    ("child", "transform", "told"),
    [
        ("", stamped("world", np.eye(4)), "two different frames, got child ''"),
        ("a", stamped("", np.eye(4)), "and parent ''"),
        ("a", stamped("a", np.eye(4)), "child 'a' and parent 'a'"),
        ("a", StampedTransform("b", NOW, (0, 0, math.nan), (0, 0, 0, 1)), "'a' is invalid: position must be finite"),
        ("a", StampedTransform("b", NOW, (0, 0, 0), (0, 0, 0, 0)), "quaternion is zero"),
        ("a", StampedTransform("b", NOW, (0, 0, 0), (0, 0, 0, 2)), "quaternion has length 2"),
    ],
)  # fmt: skip
def test_malformed_transforms_are_refused_and_change_nothing(
    child: str, transform: StampedTransform, told: str
) -> None:
    buffer = FrameBuffer()
    with pytest.raises(FrameError, match=told):
        buffer.put(child, transform)
    assert buffer.frames == ()


def test_frames_that_are_their_own_ancestors_are_told() -> None:
    buffer = FrameBuffer()
    for child, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        buffer.put(child, stamped(parent, np.eye(4)))
    with pytest.raises(FrameError, match="'a' is its own ancestor: 'a' in 'b' in 'c'"):
        buffer.lookup("c", "a")


def test_history_is_bounded_in_time_and_number() -> None:
    buffer = FrameBuffer(history=1.0)
    for step in range(300):
        buffer.put("a", stamped("world", pose_from([step, 0, 0]), NOW + step * SECOND // 100))
    assert buffer.lookup("world", "a", NOW + 2 * SECOND)[0, 3] == 200
    with pytest.raises(FrameError, match="before the earliest known"):
        buffer.lookup("world", "a", NOW + 198 * SECOND // 100)
    with pytest.raises(FrameError, match="'a' has the time stamp .* older than its newest"):
        buffer.put("a", stamped("world", np.eye(4), NOW))
    many = FrameBuffer()
    transform = stamped("world", np.eye(4))
    for step in range(MOST_TRANSFORMS + 5):
        many.put("a", StampedTransform("world", NOW + step, transform.position, transform.quaternion))
    assert many.lookup("world", "a", NOW + 5) is not None
    with pytest.raises(FrameError, match="before the earliest known"):
        many.lookup("world", "a", NOW + 4)


def test_static_frames_hold_at_all_times_and_outlive_a_clock_that_is_set_back() -> None:
    buffer = FrameBuffer()
    buffer.put("camera", stamped("world", pose_from([1, 0, 0])), is_static=True)
    buffer.put("part", stamped("world", np.eye(4)))
    for stamp in (0, NOW, 2 * NOW):
        assert buffer.lookup("world", "camera", stamp)[0, 3] == 1
    buffer.put("camera", stamped("world", pose_from([2, 0, 0])), is_static=True)
    buffer.clear()
    assert buffer.lookup("world", "camera")[0, 3] == 2
    assert buffer.frames == ("camera", "world")
