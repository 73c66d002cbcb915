"""A target waits for its frame and follows it. A target with a time stamp stays where the frame was at that time."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.core.errors import PoseError
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.frames import BaseFrames
from eim_ros.nodes.ik_viewer.target import FollowedTarget, Target

ROBOT = Robot("panda")
FIRST, POSE = pose_from([0.4, 0.0, 0.4]), pose_from([0.1, 0.2, 0.3])


class Told:
    """Stand-in for tf: poses of frames by stamp."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], np.ndarray] = {}
        self.may_come = True

    def lookup(self, target: str, source: str, stamp: int) -> np.ndarray:
        assert target == "left/panda_link0"
        if (source, stamp) not in self.known:
            raise FrameError("unknown", source, self.may_come)
        return self.known[source, stamp]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def target(told: Told) -> FollowedTarget:
    return FollowedTarget(BaseFrames(ROBOT, told, "left/"), FIRST, timeout=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("frame", ["", "panda_link0", "left/panda_link0"])
def test_in_the_base_frame_it_is_where_it_is_told(target: FollowedTarget, frame: str) -> None:
    assert target.take(Target(POSE, frame), 0.0)
    assert not target.look(1.0)
    np.testing.assert_array_equal(target.pose, POSE)


def test_it_moves_along_with_its_frame_and_stays_when_that_is_gone(target: FollowedTarget, told: Told) -> None:
    for x in (0.1, 0.2):
        told.known["belt", 0] = pose_from([x, 0.0, 0.0])
        assert target.take(Target(POSE, "belt"), 0.0) if x == 0.1 else target.look(5.0)
        assert target.pose[0, 3] == pytest.approx(x + 0.1)
    told.known.clear()
    assert not target.look(9.0)
    assert target.pose[0, 3] == pytest.approx(0.3)


def test_with_a_stamp_it_stays_where_it_was_then(target: FollowedTarget, told: Told) -> None:
    told.known["belt", 7] = pose_from([0.1, 0.0, 0.0])
    assert target.take(Target(POSE, "belt", 7), 0.0)
    told.known["belt", 7] = told.known["belt", 0] = pose_from([0.5, 0.0, 0.0])
    assert not target.look(1.0)


def test_it_waits_for_a_frame_and_is_refused_once_when_that_does_not_come(target: FollowedTarget, told: Told) -> None:
    assert not target.take(Target(POSE, "camera"), 0.0)
    told.known["camera", 0] = np.eye(4)
    assert target.look(0.9)
    told.known.clear()
    assert not target.take(Target(FIRST, "hand"), 2.0)
    with pytest.raises(PoseError, match="a target is in frame 'hand', which is neither .* nor known from tf: unknown"):
        target.look(3.1)
    assert not target.look(3.2)
    np.testing.assert_array_equal(target.pose, POSE)


def test_what_cannot_come_is_refused_at_once(target: FollowedTarget, told: Told) -> None:
    told.may_come = False
    with pytest.raises(PoseError, match="'camera'"):
        target.take(Target(POSE, "camera"), 0.0)


def test_without_tf_frames_are_those_that_are_fixed_to_the_base() -> None:
    alone = FollowedTarget(BaseFrames(ROBOT), FIRST, timeout=1.0)
    with pytest.raises(PoseError, match="expected the base link 'panda_link0'.*this node does not listen to tf"):
        alone.take(Target(POSE, "camera"), 0.0)
