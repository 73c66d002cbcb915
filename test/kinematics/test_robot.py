"""Forward kinematics, Jacobian and limits of every robot agree with pinocchio and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from kinematics.robots import every_robot, robot_and_oracle

from eim_ros.kinematics import Robot, refine

EXACT = 1e-12  # a chain of 10 joints and 10 m has rounding errors of about 20 units in the last place


@every_robot
def test_forward_and_jacobian_agree_with_pinocchio(name: str) -> None:
    robot, oracle = robot_and_oracle(name)
    q = robot.random(1000, np.random.default_rng(0))
    poses, jacobians = robot.fk(q), robot.jacobian(q)
    for i, configuration in enumerate(q):
        np.testing.assert_allclose(poses[i], oracle.forward(configuration), rtol=0, atol=EXACT)
        np.testing.assert_allclose(jacobians[i], oracle.jacobian(configuration), rtol=0, atol=EXACT)


@every_robot
def test_jacobian_is_the_derivative_of_forward(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    q = robot.random(20, np.random.default_rng(1))
    step = 1e-6
    for j in range(robot.dof):
        move = np.zeros(robot.dof)
        move[j] = step
        ahead, behind = robot.fk(q + move), robot.fk(q - move)
        linear = (ahead[:, :3, 3] - behind[:, :3, 3]) / (2 * step)
        skew = np.einsum("nab,ncb->nac", (ahead - behind)[:, :3, :3] / (2 * step), robot.fk(q)[:, :3, :3])
        angular = np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)
        numeric = np.concatenate([linear, angular], axis=1)
        # central differences have errors of about 1e-8: rounding of 1e-16 * 10 m / 1e-6, and truncation of 1e-12
        np.testing.assert_allclose(robot.jacobian(q)[:, :, j], numeric, rtol=0, atol=2e-8)


@every_robot
def test_one_configuration_is_a_batch_of_one(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    q = robot.random(3, np.random.default_rng(2))
    np.testing.assert_array_equal(robot.fk(q[1]), robot.fk(q)[1])
    np.testing.assert_array_equal(robot.jacobian(q[1]), robot.jacobian(q)[1])
    np.testing.assert_array_equal(robot.skeleton(q[1]), robot.skeleton(q)[1])
    assert robot.fk(np.empty((0, robot.dof))).shape == (0, 4, 4)
    assert robot.jacobian([]).shape == (0, 6, robot.dof)


@every_robot
def test_skeleton_runs_from_base_to_tip_within_reach(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    q = robot.random(200, np.random.default_rng(3))
    points = robot.skeleton(q)
    np.testing.assert_array_equal(points[:, 0], 0.0)
    np.testing.assert_allclose(points[:, -1], robot.fk(q)[:, :3, 3], rtol=0, atol=EXACT)
    assert np.linalg.norm(points, axis=-1).max() <= robot.reach + EXACT


@every_robot
def test_pose_errors_agree_with_pinocchio(name: str) -> None:
    robot, oracle = robot_and_oracle(name)
    q = robot.random(50, np.random.default_rng(4))
    pose = robot.fk(q[0])
    position_error, orientation_error = robot.pose_errors(q, pose)
    assert position_error[0] < EXACT
    assert orientation_error[0] < EXACT
    for i in range(1, len(q)):
        expected = oracle.errors(q[i], pose)
        # near pi, the error of the angle is the square root of the rounding error
        np.testing.assert_allclose((position_error[i], orientation_error[i]), expected, rtol=0, atol=1e-7)


def test_small_and_straight_angles_are_exact() -> None:
    robot = Robot("planar3")
    q = np.array([[1e-9, 0, 0], [0.5, 0, 0], [np.pi - 1e-9, 0, 0], [np.pi, 0, 0]])
    _, orientation_error = robot.pose_errors(q, robot.fk(np.zeros(3)))
    np.testing.assert_allclose(orientation_error, q[:, 0], rtol=0, atol=1e-15)


def test_an_angle_of_many_turns_is_reduced() -> None:
    robot = Robot("planar3")
    for turns in (1, 1000, 10**7):
        q = np.array([0.3 + 2 * np.pi * turns, 0.0, 0.0])
        np.testing.assert_allclose(robot.fk(q)[0, 0], np.cos(q[0]), rtol=0, atol=1e-15 * turns + EXACT)


def test_within_limits_counts_the_edges_and_the_tolerance() -> None:
    robot = Robot("panda")
    q = np.stack([robot.lower, robot.upper, robot.upper + 1e-6])
    assert robot.within_limits(q).tolist() == [True, True, False]
    assert robot.within_limits(q, tolerance=1e-5).all()


def test_what_is_verified_is_within_the_tolerances_and_the_limits() -> None:
    robot, rng = Robot("panda"), np.random.default_rng(3)
    pose = robot.fk(robot.random(1, rng)[0])
    seeds = refine(robot, robot.random(200, rng), pose, max_iterations=6).positions
    seeds = np.concatenate([seeds, seeds + 0.5, np.full((1, 7), np.nan)])
    middle = 0.5 * (robot.lower + robot.upper)
    for lower, tolerance in ((None, 1e-6), (None, 0.1), (np.where(np.arange(7) == 1, middle, robot.lower), 0.1)):
        errors, valid = robot.verify(
            seeds, pose, lower=lower, position_tolerance=tolerance, orientation_tolerance=2.0 * tolerance
        )
        distance, angle = robot.pose_errors(seeds, pose)
        np.testing.assert_array_equal(errors, [distance, angle])
        inside = robot.within_limits(seeds) & ((seeds >= (robot.lower if lower is None else lower)).all(axis=1))
        expected = (distance <= tolerance) & (angle <= 2.0 * tolerance) & inside
        np.testing.assert_array_equal(valid, expected)
        assert 5 < valid.sum() < len(seeds) - 5
    assert (robot.verify(seeds[:-1], pose, position_only=True)[0][1] == 0.0).all()


def test_samples_are_within_limits_and_repeatable() -> None:
    robot = Robot("panda")
    first, second = (robot.random(500, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert robot.within_limits(first).all()
    spread = (first.max(axis=0) - first.min(axis=0)) / (robot.upper - robot.lower)
    assert spread.min() > 0.95


def test_a_robot_is_immutable() -> None:
    robot = Robot("iiwa14")
    with pytest.raises(AttributeError):
        robot.name = "other"  # type: ignore[misc]
    for array in (robot.lower, robot.upper, robot.continuous, robot.links):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@every_robot
def test_its_own_text_rebuilds_the_robot(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    again = Robot(robot.urdf, robot.tip_link, base=robot.base_link)
    assert again.fingerprint == robot.fingerprint
    assert again.urdf == robot.urdf
    np.testing.assert_array_equal(again.links, robot.links)
    assert "visual" not in robot.urdf


def test_fingerprints_tell_robots_apart() -> None:
    robots = [robot_and_oracle(name)[0] for name in ("iiwa14", "panda", "planar3", "planar5", "all_types")]
    assert len({robot.fingerprint for robot in robots}) == len(robots)
    text = robots[0].urdf
    for changed in (
        text.replace("0.36", "0.37"),
        text.replace("2.0943951023931953", "2.0"),
        text.replace("_a1", "_b1"),
    ):
        assert changed != text
        assert Robot(changed).fingerprint != robots[0].fingerprint
    assert Robot(text.replace("link_3", "elbow")).fingerprint == robots[0].fingerprint
