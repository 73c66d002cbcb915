"""Damped least squares never reports a false success, stays within the limits, and raises no exceptions."""

from __future__ import annotations

import numpy as np
import pytest
from kinematics.descriptions import chain_urdf, joint
from kinematics.robots import every_robot, resized, robot_and_oracle

from eim_ros.kinematics import Refinement, Robot, refine

ROUNDING = 1e-9  # largest difference between pinocchio's errors and ours
UNREACHABLE = np.block([[np.eye(3), np.full((3, 1), 50.0)], [np.zeros((1, 3)), np.ones((1, 1))]])


def check(name: str, result: Refinement, pose: np.ndarray, position_only: bool, tolerance: float = 1e-6) -> None:
    """Check that reported errors agree with pinocchio, and that converged rows are within tolerances and limits."""
    robot, oracle = robot_and_oracle(name)
    assert robot.within_limits(result.positions).all()
    for i, q in enumerate(result.positions):
        distance, angle = oracle.errors(q, pose)
        assert abs(result.position_error[i] - distance) < ROUNDING
        if position_only:
            assert result.orientation_error[i] == 0.0
        else:
            # near angles of 0 and pi, the oracle's logarithm is only accurate to about 1e-8
            assert abs(result.orientation_error[i] - angle) < 1e-7
        reported = (result.position_error[i] <= tolerance) and (result.orientation_error[i] <= tolerance)
        assert result.converged[i] == reported
        if result.converged[i]:
            assert distance <= tolerance + ROUNDING
            assert position_only or angle <= tolerance + 1e-7


@every_robot
@pytest.mark.parametrize("position_only", [False, True])
def test_refined_seeds_are_what_they_claim(name: str, position_only: bool) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(0)
    n_converged = 0
    for target in robot.random(15, rng):
        pose = robot.fk(target)
        result = refine(robot, robot.random(20, rng), pose, position_only=position_only)
        check(name, result, pose, position_only)
        n_converged += int(result.converged.sum())
    assert n_converged > 15


@every_robot
def test_a_close_seed_converges_in_a_few_steps(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(1)
    middle, half = 0.5 * (robot.lower + robot.upper), 0.5 * (robot.upper - robot.lower)
    for target in middle + 0.8 * half * rng.uniform(-1, 1, (20, robot.dof)):
        pose = robot.fk(target)
        result = refine(robot, target + 1e-3 * half * rng.uniform(-1, 1, (20, robot.dof)), pose)
        check(name, result, pose, False)
        assert result.converged.mean() > 0.8  # near singularities, even these close seeds may fail
        assert np.median(result.iterations) <= 4


@every_robot
def test_an_exact_seed_is_kept(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    q = robot.random(1, np.random.default_rng(2))
    result = refine(robot, q, robot.fk(q[0]))
    assert result.converged.all()
    assert result.iterations.tolist() == [0]
    np.testing.assert_array_equal(result.positions, q)


@every_robot
def test_an_unreachable_pose_is_not_converged_and_has_finite_errors(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(6)
    for position_only in (False, True):
        result = refine(robot, robot.random(20, rng), UNREACHABLE, position_only=position_only)
        check(name, result, UNREACHABLE, position_only)
        assert not result  # a result without a solution is false
        assert np.isfinite(result.position_error).all()


@every_robot
def test_narrower_limits_of_a_call_are_kept(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(8)
    span = robot.upper - robot.lower
    lower, upper = robot.lower + 0.3 * span, robot.upper - 0.3 * span
    n_converged = 0
    for _ in range(10):
        pose = robot.fk(rng.uniform(lower, upper))
        seeds = robot.random(30, rng)  # most seeds are outside of the limits
        result = refine(robot, seeds, pose, lower=lower, upper=upper)
        check(name, result, pose, False)
        assert np.all((result.positions >= lower) & (result.positions <= upper))
        n_converged += int(result.converged.sum())
    assert n_converged > 10


def test_continuous_joints_are_wrapped_and_pass_through_pi() -> None:
    robot = Robot(
        chain_urdf(
            joint("a", "continuous", "l0", "l1", '<axis xyz="0 0 1"/>'),
            joint("b", "continuous", "l1", "l2", '<origin xyz="1 0 0"/><axis xyz="0 0 1"/>'),
            joint("end", "fixed", "l2", "l3", '<origin xyz="1 0 0"/>'),
        )
    )
    target = np.array([-np.pi + 0.05, 0.4])
    near = np.array([np.pi - 0.05, 0.4])
    result = refine(robot, [near, near + 6 * np.pi, [-np.pi, np.pi]], robot.fk(target))
    assert result.converged[:2].all()
    assert result.iterations[:2].max() <= 6  # the shorter way passes through pi
    np.testing.assert_allclose(result.positions[:2], [target, target], atol=1e-5)
    assert ((result.positions >= -np.pi) & (result.positions < np.pi)).all()

    kept = refine(robot, [near], robot.fk(target), lower=[-3.13, -3.13], upper=[3.13, 3.13])
    assert (np.abs(kept.positions) <= 3.13).all()  # limits below a revolution bound the joint


def test_a_joint_locked_by_its_limits_stays() -> None:
    robot = Robot("panda")
    rng = np.random.default_rng(9)
    lower, upper = robot.lower.copy(), robot.upper.copy()
    lower[2] = upper[2] = 0.25
    q = robot.random(1, rng)
    q[0, 2] = 0.25
    result = refine(robot, robot.random(100, rng), robot.fk(q[0]), lower=lower, upper=upper)
    assert result.converged.any()
    assert (result.positions[:, 2] == 0.25).all()


def test_tolerances_are_obeyed() -> None:
    robot = Robot("iiwa14")
    rng = np.random.default_rng(11)
    pose = robot.fk(np.full(7, 0.5))
    seeds = robot.random(100, rng)
    loose = refine(robot, seeds, pose, position_tolerance=1e-2, orientation_tolerance=1e-1)
    tight = refine(robot, seeds, pose, position_tolerance=1e-12, orientation_tolerance=1e-12)
    impossible = refine(robot, seeds, pose, position_tolerance=0.0, orientation_tolerance=0.0, max_iterations=100)
    assert tight.converged.sum() > 50
    assert tight.position_error[tight.converged].max() <= 1e-12
    assert loose.iterations.mean() < tight.iterations.mean()
    assert loose.position_error[loose.converged].max() > 1e-6
    assert impossible.converged.sum() < 50
    assert not refine(robot, seeds, pose, max_iterations=0).converged.any()


def test_the_error_of_a_straight_angle_is_no_trap() -> None:
    robot = Robot("iiwa14")
    pose = robot.fk(np.zeros(7))
    turned = pose @ np.diag([1.0, -1.0, -1.0, 1.0])  # at half a turn, the rotation vector has no unique sign
    result = refine(robot, np.zeros((1, 7)), turned)
    check("iiwa14", result, turned, False)
    assert np.isfinite(result.orientation_error).all()


def test_a_pose_in_another_galaxy_has_a_finite_error() -> None:
    robot, pose = Robot("iiwa14"), np.eye(4)
    pose[0, 3] = 1e99
    result = refine(robot, robot.random(5, seed=0), pose)
    assert not result.converged.any()
    assert result.position_error == pytest.approx(1e99)
    assert robot.within_limits(result.positions).all()


@pytest.mark.parametrize("n", [1, 5, 100])
def test_no_seed_takes_more_steps_than_allowed(n: int) -> None:
    robot, rng = Robot("panda"), np.random.default_rng(8)
    pose, seeds = robot.fk(robot.random(1, rng)[0]), robot.random(n, rng)
    for most in (0, 1, 7, 12):
        result = refine(
            robot,
            seeds,
            pose,
            position_tolerance=1e-300,
            orientation_tolerance=1e-300,
            max_iterations=most,
            patience=100,
        )
        assert result.iterations.max() == most


@pytest.mark.parametrize("factor", [1e-3, 0.03, 40.0])
def test_convergence_is_the_same_for_arms_of_any_size(factor: float) -> None:
    """Tolerances scale with the arm. Steps are weighted by a power of two near the size, so results nearly agree."""
    converged = []
    for robot, size in ((resized("panda", 1.0), 1.0), (resized("panda", factor), factor)):
        rng = np.random.default_rng(17)
        poses = robot.fk(robot.random(10, rng))
        refined = [
            refine(robot, robot.random(200, rng), pose, position_tolerance=1e-6 * size, patience=6) for pose in poses
        ]
        converged.append(np.mean([r.converged.mean() for r in refined]))
        for pose, r in zip(poses, refined, strict=True):
            distances, angles = robot.pose_errors(r.positions[r.converged], pose)
            assert distances.max() <= 1e-6 * size
            assert angles.max() <= 1e-6
    assert abs(converged[1] - converged[0]) < 0.02  # 2000 seeds


def test_tolerances_per_axis_are_lengths_for_small_arms_too() -> None:
    robot = resized("panda", 1e-3)
    rng = np.random.default_rng(18)
    pose = robot.fk(robot.random(1, rng))[0]
    tolerances = np.array([1e-5, 0.0, 2e-5, 0.0, 0.0, 0.5])
    refined = refine(robot, robot.random(200, rng), pose, tolerances=tolerances, position_tolerance=1e-9)
    assert refined.converged.mean() > 0.3
    tips = robot.fk(refined.positions[refined.converged])
    off = np.abs((tips[:, :3, 3] - pose[:3, 3]) @ pose[:3, :3])
    assert (off <= tolerances[:3] + 1e-9).all()
    assert off[:, 0].max() > 1e-6  # errors use the tolerance
