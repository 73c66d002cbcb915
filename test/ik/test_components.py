"""Components of solutions agree with known results for spherical shoulders and wrists, and have general properties."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from ik.arms import arm_of

from eim_ros.core.errors import RobotError
from eim_ros.ik import Sampler
from eim_ros.ik.components import DEFAULT_SPACING, Component, self_motion_components
from eim_ros.ik.order import nearest
from eim_ros.kinematics import Robot, share_path
from eim_ros.kinematics.links import body_poses

ELBOW = 4  # index of the iiwa's elbow
LONGEST = 1.02 * DEFAULT_SPACING  # largest step between points, with a margin for the length of cubics


@functools.cache
def without_limits() -> Robot:
    """Return the iiwa 14 with continuous joints."""
    return Robot(share_path("urdf/iiwa14.urdf").read_text().replace('"revolute"', '"continuous"'))


def found_at(robot: Robot, seed: int, n: int = 50) -> tuple[list[Component], np.ndarray]:
    """Return the components of a reachable pose, and the pose."""
    pose = robot.fk(robot.random(seed=np.random.default_rng(seed)))
    return self_motion_components(robot, Sampler(robot).sample(pose, n, seed=seed).q, pose), pose


def steps(robot: Robot, component: Component) -> np.ndarray:
    """Return the joint changes between successive points; continuous joints turn the short way."""
    ways = np.diff(component.positions, axis=0)
    return np.where(robot.continuous, np.angle(np.exp(1j * ways)), ways)


@pytest.mark.parametrize("seed", range(4))
def test_an_arm_with_spherical_shoulder_and_wrist_has_eight_closed_components(seed: int) -> None:
    """Without limits, the elbow moves along a circle for each of the two signs of shoulder, elbow and wrist.

    Source: Shimizu et al. 2008, "Analytical inverse kinematic computation for 7-DOF redundant manipulators".
    """
    robot = without_limits()
    found, _ = found_at(robot, seed, 200)
    assert len(found) == 8
    assert all(component.is_curve and component.is_closed for component in found)
    for component in found:
        elbow = body_poses(robot, component.positions)[:, ELBOW, :3, 3]
        centre = elbow.mean(axis=0)
        angles = np.unwrap(np.arctan2(*((elbow - centre) @ np.linalg.svd(elbow - centre)[2][:2].T).T))
        assert abs(abs(angles[-1] - angles[0]) - 2.0 * math.pi) < 0.5  # a full circle without the closing step


@pytest.mark.parametrize("name", ["panda", "gen3", "xarm7"])
def test_every_place_of_a_component_is_a_solution_and_near_to_the_next(name: str) -> None:
    robot = Robot(name)
    for seed in range(3):
        found, pose = found_at(robot, seed)
        assert found
        for component in found:
            assert robot.verify(component.positions, pose)[1].all()
            assert np.linalg.norm(steps(robot, component), axis=1).max(initial=0.0) <= LONGEST
            np.testing.assert_allclose(
                np.diff(component.along), np.linalg.norm(steps(robot, component), axis=1), rtol=0, atol=1e-12
            )


def test_every_solution_is_near_a_place_of_its_component_and_components_are_those_that_the_sampler_counts() -> None:
    for name in ("panda", "iiwa14"):
        robot = Robot(name)
        pose = robot.fk(robot.random(seed=np.random.default_rng(5)))
        samples = Sampler(robot).sample(pose, 60, seed=5)
        found = self_motion_components(robot, samples.q, pose)
        away, _ = nearest(robot, samples.q, np.concatenate([component.positions for component in found]))
        assert away.max() <= DEFAULT_SPACING
        counted = samples.completeness
        assert len(found) == counted.n_components
        lengths = np.array([component.along[-1] + component.is_closed * DEFAULT_SPACING for component in found])
        np.testing.assert_allclose(lengths, np.sort(counted.lengths)[::-1], atol=1.1 * DEFAULT_SPACING)


def test_open_components_end_where_a_joint_is_at_its_limit() -> None:
    robot = Robot("panda")
    found, _ = found_at(robot, 1)
    ends = np.array([component.positions[end] for component in found if not component.is_closed for end in (0, -1)])
    room = np.minimum(ends - robot.lower, robot.upper - ends).min(axis=1)
    assert len(ends)
    assert room.max() < 1e-3  # error of the cubics along the curve


def test_an_arm_of_six_joints_has_a_component_for_each_root_with_its_turns() -> None:
    robot = Robot("ur5e")  # each joint has a range of two revolutions
    pose = robot.fk(robot.random(seed=np.random.default_rng(1)))
    samples = Sampler(robot).sample(pose, 1000, seed=1)
    found = self_motion_components(robot, samples.q, pose)
    assert samples.certified
    assert sum(map(len, found)) == len(samples)
    assert len(found) == len(np.unique(np.round(np.exp(1j * samples.q), 5), axis=0))
    for component in found:
        turns = (component.positions - component.positions[0]) / (2.0 * math.pi)
        assert np.abs(turns - np.round(turns)).max() < 1e-6
        assert not component.is_curve


def test_where_more_than_one_direction_is_free_all_are_one_family() -> None:
    sampler = Sampler("planar5")
    pose = sampler.robot.fk(np.full(5, 0.3))
    found = self_motion_components(
        sampler.robot, sampler.with_constraints(position_only=True).sample(pose, 20, seed=0).q, pose, position_only=True
    )
    assert len(found) == 1
    assert not found[0].is_curve


def test_what_is_no_solution_is_left_out() -> None:
    robot = arm_of("one_joint")
    pose = robot.fk([0.4])
    assert self_motion_components(robot, np.empty((0, 1)), pose) == []
    assert self_motion_components(robot, [[0.5]], pose) == []
    (found,) = self_motion_components(robot, [[0.5], [0.4]], pose)
    assert found.positions.tolist() == [[0.4]]


def test_a_spacing_that_is_none_is_refused() -> None:
    robot = arm_of("one_joint")
    for spacing in (0.0, math.nan, math.inf):
        with pytest.raises(RobotError, match="spacing"):
            self_motion_components(robot, [[0.4]], robot.fk([0.4]), spacing=spacing)
