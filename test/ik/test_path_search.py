"""Paths among obstacles are found with every seed, and refused only with a proof or at the deadline."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.ik import ErrorCode, JointPath, Sampler
from eim_ros.kinematics import Box, Robot, Sphere

ENOUGH = 60.0  # [s]
STEP = 0.8  # largest step [rad]
TO_THE_SIDE = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in (-0.25, 0.0, 0.25)]


def behind_a_sphere(radius: float) -> Sampler:
    """Return a Panda with a sphere in the way of its tip, halfway between the first two poses."""
    sampler = Sampler("panda")
    straight = sampler.follow(TO_THE_SIDE, max_step=STEP, timeout=ENOUGH, seed=0)
    middle = sampler.robot.fk(0.5 * (straight.q[0] + straight.q[1]))[:3, 3]
    return sampler.with_obstacles([Sphere(middle, radius)])


def assert_free(sampler: Sampler, path: JointPath) -> None:
    scene = sampler.constraints.scene(sampler.robot)
    assert scene is not None
    for before, after in zip(path.q[:-1], path.q[1:], strict=True):
        assert np.abs(after - before).max() <= STEP * (1.0 + 1e-9)
        assert not scene.colliding(np.linspace(before, after, 100)).any()


@pytest.mark.parametrize("radius", [0.04, 0.06])
def test_path_around_an_obstacle_is_found_with_every_seed(radius: float) -> None:
    """A single search finds a path for about two thirds (0.04 m) or one twentieth (0.06 m) of the seeds."""
    sampler = behind_a_sphere(radius)
    for seed in range(12):
        path = sampler.follow(TO_THE_SIDE, max_step=STEP, timeout=ENOUGH, seed=seed)
        assert path, f"seed {seed}: {path.message}"
        assert_free(sampler, path)


def test_seed_decides_the_path_of_repeated_searches() -> None:
    sampler = behind_a_sphere(0.06)
    first, again = (sampler.follow(TO_THE_SIDE, max_step=STEP, timeout=ENOUGH, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.q, again.q)


@pytest.mark.parametrize("timeout", [0.0, 0.5])
def test_refusal_without_a_proof_uses_its_time(timeout: float) -> None:
    """A wall is between the two poses. Solutions form curves, so a finite number of motions proves nothing."""
    sampler = Sampler("panda").with_obstacles([Box((2.0, 0.01, 2.0), at=(0.0, -0.125, 1.05))])
    path = sampler.follow(TO_THE_SIDE[:2], max_step=STEP, timeout=timeout, seed=0)
    assert path.error_code == ErrorCode.TIMED_OUT
    assert path.message.startswith("timed out")
    assert path.elapsed >= 0.8 * timeout  # the search leaves some time for the choice of the path


def test_all_motions_of_an_arm_with_six_joints_are_tried() -> None:
    """All solutions are known in closed form, so checking every motion between them gives a proof."""
    robot = Robot("ur5e")
    q = np.array([[0.0, -1.2, 1.4, -1.7, -1.5, 0.3], [0.3, -1.2, 1.4, -1.7, -1.5, 0.3]])
    poses = robot.fk(q)
    free = Sampler(robot).follow(poses, max_step=STEP, timeout=ENOUGH, seed=0)
    assert free
    middle = robot.fk(0.5 * (q[:1] + q[1:]))[0, :3, 3]
    sampler = Sampler(robot).with_obstacles([Sphere(middle, 0.03)])
    assert all(sampler.solve(pose, seed=0) for pose in poses)
    path = sampler.follow(poses, max_step=STEP, timeout=ENOUGH, seed=0)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION, path.message
    assert path.valid.all() and path.jumps is not None and path.jumps.tolist() == [1]


def test_curves_that_do_not_continue_are_refused_by_certificates() -> None:
    """The self-motions at both poses are certified. All steps between them are too long."""
    robot = Robot("panda")
    q = np.array([[0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.7], [0.6, -0.5, 0.0, -2.0, 0.0, 1.6, 0.7]])
    poses = robot.fk(q)
    for obstacles in ([], [Sphere((-2.0, 0.0, 0.0), 0.1)]):  # the proof holds without collision checks
        path = Sampler(robot).with_obstacles(obstacles).follow(poses, max_step=0.12, timeout=ENOUGH, seed=0)
        assert path.error_code == ErrorCode.NO_IK_SOLUTION, path.message
        assert "no path without jumps exists" in path.message
        assert path.n_reached == 1


def test_pose_that_no_configuration_reaches_is_a_proof() -> None:
    poses = [*TO_THE_SIDE, [0.05, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]]
    path = Sampler("panda").follow(poses, max_step=3.0, timeout=ENOUGH, seed=0)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION, path.message
    assert "1 of 4 poses have no solution (the first is pose 3" in path.message
