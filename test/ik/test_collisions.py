"""If a request excludes collisions, valid solutions do not collide, and colliding solutions are counted."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_of, assert_no_solution, reachable_pose, sampler_of

from eim_ros.core.errors import ConstraintError
from eim_ros.ik import Constraints, ErrorCode, Sampler
from eim_ros.kinematics import Sphere, pose_from
from eim_ros.kinematics.collision import collision_model

ENOUGH = 60.0  # [s]


def elbow(name: str, positions: np.ndarray) -> np.ndarray:
    """Return the origins (n, 3) of the fourth moving joint."""
    return arm_of(name).skeleton(positions)[:, 4]


def test_self_collisions_are_not_returned() -> None:
    robot = arm_of("planar10")
    pose = robot.fk(np.full(10, 0.55))  # a curled arm: many solutions of its pose collide with themselves
    free = Constraints(self_collision=True)
    plain = sampler_of("planar10", "position").sample(pose, 200, timeout=ENOUGH, seed=0)
    checked = sampler_of("planar10", "position").with_constraints(free).sample(pose, 200, timeout=ENOUGH, seed=0)
    scene = collision_model(robot).scene(True)
    assert scene.colliding(plain.q).mean() > 0.2
    assert checked and checked.valid.all()
    assert len(checked) == 200
    assert not scene.colliding(checked.q).any()


def test_elbow_goes_where_no_sphere_is() -> None:
    robot = arm_of("iiwa14")
    pose = robot.fk(np.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.8, 0.0]))
    sampler = sampler_of("iiwa14", "pose")
    left = elbow("iiwa14", sampler.sample(pose, 300, timeout=ENOUGH, seed=0).q)
    assert (left[:, 1] > 0.1).any()
    side = left[np.argmax(left[:, 1])]
    constraints = Constraints(self_collision=True, obstacles=(Sphere(side, 0.15),))
    samples = sampler.with_constraints(constraints).sample(pose, 100, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS, samples.message
    assert samples and samples.valid.all()
    distance = np.linalg.norm(elbow("iiwa14", samples.q) - side, axis=1)
    assert distance.min() > 0.15 + 0.08  # radius of the capsule that begins at the elbow [m]
    assert (elbow("iiwa14", samples.q)[:, 1] < 0.0).any()


def test_collision_everywhere_ends_with_its_code_and_tells_how_many() -> None:
    pose = reachable_pose(arm_of("panda"))
    constraints = Constraints(obstacles=(Sphere(pose[:3, 3], 0.3),))
    samples = sampler_of("panda", "pose").with_constraints(constraints).sample(pose, 5, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.GOAL_IN_COLLISION == -12
    assert_no_solution(samples)
    assert "configurations found that reach the pose collide" in samples.message


def test_out_of_reach_is_told_apart_from_collision() -> None:
    pose = np.eye(4)
    pose[0, 3] = 5.0
    constraints = Constraints(self_collision=True, obstacles=(Sphere((0.0, 0.0, 0.0), 3.0),))
    samples = sampler_of("panda", "pose").with_constraints(constraints).sample(pose, 5, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.NO_IK_SOLUTION
    assert "off by" in samples.message


def test_raw_samples_are_checked_too() -> None:
    robot = arm_of("planar10")
    constraints = Constraints(self_collision=True)
    raw = (
        sampler_of("planar10", "position")
        .with_constraints(constraints, position_tolerance=20.0)
        .propose(reachable_pose(robot), 500, seed=0)
    )
    inside = robot.within_limits(raw.q)
    colliding = collision_model(robot).scene(True).colliding(raw.q)
    assert colliding[inside].any()
    assert np.array_equal(raw.valid, inside & ~colliding)


def test_robot_without_shapes_is_refused() -> None:
    with pytest.raises(ConstraintError, match="cannot be checked for collisions"):
        sampler_of("six_joints", "pose").with_constraints(self_collision=True).sample(np.eye(4), 5, seed=0)


def test_a_tool_does_not_make_a_sampler_forget_what_it_is_among() -> None:
    robot, pose = arm_of("panda"), reachable_pose(arm_of("panda"))
    tool = pose_from((0.0, 0.0, 0.05))
    found = Sampler(robot).with_tool(tool).sample(pose, 200, seed=0)
    ball = Sphere(tuple(elbow("panda", found.q).mean(axis=0)), 0.15)
    among = Sampler(robot).with_obstacles((ball,))
    for sampler in (among.with_tool(tool), Sampler(robot).with_tool(tool).with_obstacles((ball,))):
        samples = sampler.sample(pose, 200, seed=0)
        assert samples.valid.any()
        scene = collision_model(sampler.robot).scene(False, (ball,))
        assert scene.colliding(found.q).any()
        assert not scene.colliding(samples.q[samples.valid]).any()
