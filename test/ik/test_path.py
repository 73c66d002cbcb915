"""Paths of poses: solved and verified at every pose, without jumps, and honest where that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, sampler_of
from scipy.spatial import cKDTree

from eim_ros.errors import ConfigurationError, JointStateError, PoseError
from eim_ros.ik import Constraints, ErrorCode, JointPath, Sampler, Samples, sample_path
from eim_ros.ik.goal import Goal
from eim_ros.ik.path_search import PathSearch
from eim_ros.ik.pool import Pool
from eim_ros.kinematics import Robot, Sphere

ENOUGH = 60.0  # [s]


def motion(robot: Robot, seed: int, n: int = 40) -> np.ndarray:
    """A straight line in joint space, well within the limits."""
    rng = np.random.default_rng(seed)
    first, last = 0.7 * robot.sample_configurations(2, rng) + 0.15 * (robot.lower + robot.upper)
    return np.linspace(first, first + np.clip(last - first, -0.8, 0.8), n)


def assert_verified(robot: Robot, path: JointPath, poses: np.ndarray, position_only: bool = False) -> None:
    for q, pose in zip(path.positions[path.valid], poses[path.valid], strict=True):
        position, orientation = robot.pose_errors(q, pose)
        assert position[0] <= 1e-6
        assert position_only or orientation[0] <= 1e-6
        assert robot.within_limits(q).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "kind"), [("panda", "pose"), ("iiwa14", "position"), ("planar5", "position")])
def test_path_that_can_be_followed_is_followed(name: str, kind: str, seed: int) -> None:
    robot = arm_of(name)
    poses = robot.forward(motion(robot, seed))
    path = sample_path(sampler_of(name, kind), poses, random_seed=seed, timeout=ENOUGH)
    assert (path.error_code, path.valid.all()) == (ErrorCode.SUCCESS, True), path.message
    assert path.largest_step <= 0.3
    assert path.largest_step == pytest.approx(np.abs(np.diff(path.positions, axis=0)).max())
    assert_verified(robot, path, poses, kind == "position")


def test_path_begins_where_the_robot_is() -> None:
    robot = arm_of("panda")
    q = motion(robot, 5)
    path = sample_path(sampler_of("panda", "pose"), robot.forward(q[1:]), random_seed=0, near=q[0], timeout=ENOUGH)
    assert path.error_code == ErrorCode.SUCCESS
    assert np.abs(path.positions[0] - q[0]).max() <= path.largest_step < 0.1


def test_pose_out_of_reach_is_a_gap_that_is_told() -> None:
    robot = arm_of("panda")
    poses = robot.forward(motion(robot, 6, 12))
    poses[7, 0, 3] += 10.0
    path = sample_path(sampler_of("panda", "pose"), poses, n=16, random_seed=0, timeout=ENOUGH)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert path.message.startswith("1 of 12 poses have no solution, the first of them is pose 7, missed by ")
    assert (path.n_reached, path.nearest_miss) == (7, np.inf)
    np.testing.assert_array_equal(path.valid, np.arange(12) != 7)
    assert np.isnan(path.positions[7]).all()
    assert np.isinf(path.position_error[7])
    assert_verified(robot, path, poses)


def test_jump_that_cannot_be_avoided_is_told() -> None:
    robot = arm_of("planar5")
    poses = robot.forward(
        np.array([[0.0, 0.1, 0.1, 0.1, 0.1], [2.5, 0.1, 0.1, 0.1, 0.1]])
    )  # nearly stretched: far apart
    path = sample_path(sampler_of("planar5", "position"), poses, random_seed=0, timeout=ENOUGH)
    assert path.valid.all()
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert path.message.startswith("the path jumps 1 times, by up to ")
    assert path.largest_step > 0.3
    assert path.n_reached == 1
    assert 0.3 < path.nearest_miss <= path.largest_step
    assert "lead as far as pose 0, and from there to pose 1 one of at least" in path.message


def test_continuous_joints_step_across_pi() -> None:
    robot = arm_of("all_types")
    turning = int(np.flatnonzero(robot.continuous)[0])
    q = np.repeat((0.5 * (robot.lower + robot.upper) + 0.1)[None], 20, axis=0)
    q[:, turning] = np.linspace(2.9, 3.4, 20)
    path = sample_path(sampler_of("all_types", "pose"), robot.forward(q), random_seed=0, near=q[0], timeout=ENOUGH)
    assert path.error_code == ErrorCode.SUCCESS, path.message
    assert (np.abs(path.positions[:, turning]) <= np.pi).all()


def test_seed_decides_the_path() -> None:
    robot = arm_of("panda")
    poses = robot.forward(motion(robot, 7, 15))
    first, again = (sample_path(sampler_of("panda", "pose"), poses, random_seed=3, timeout=ENOUGH) for _ in range(2))
    np.testing.assert_array_equal(first.positions, again.positions)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"random_seed": -1}, "random seed must be at least 0"),
        ({"n": 0}, "n must be at least 1"),
        ({"timeout": np.nan}, "timeout must not be negative"),
        ({"position_tolerance": np.nan}, "position tolerance must be positive"),
    ],
)
def test_bad_numbers_are_refused_without_time_too(arguments: dict[str, float], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        sample_path(sampler_of("gantry", "position"), np.eye(4)[None], **{"timeout": 0.0, **arguments})


def test_no_time_is_an_answer_too() -> None:
    robot = arm_of("panda")
    path = sample_path(sampler_of("panda", "pose"), robot.forward(motion(robot, 8, 15)), random_seed=0, timeout=0.0)
    assert path.error_code == ErrorCode.TIMED_OUT
    assert path.message == "timed out: 15 of 15 poses have no solution, the first of them is pose 0"
    assert not path.valid.any()


def test_path_is_followed_by_one_solution_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, n_followed, sampled = arm_of("panda"), [], Sampler.sample
    followed = Goal.refined

    def noted(goal: Goal, positions: np.ndarray, *others: Any) -> Pool:
        n_followed.append(len(positions))
        return followed(goal, positions, *others)

    def sample_and_stop(sampler: Sampler, *asked: Any, **options: Any) -> Samples:
        samples = sampled(sampler, *asked, **options)
        monkeypatch.setattr(PathSearch, "out_of_time", True)
        monkeypatch.setattr(Goal, "refined", noted)
        return samples

    monkeypatch.setattr(Sampler, "sample", sample_and_stop)
    poses = robot.forward(motion(robot, 8, 15))
    path = sample_path(sampler_of("panda", "pose"), poses, random_seed=0, timeout=ENOUGH)
    assert n_followed == [1] * 14
    assert_verified(robot, path, poses)


def test_bad_arguments_are_refused() -> None:
    sampler, pose = sampler_of("panda", "pose"), np.eye(4)
    for poses in (pose, np.empty((0, 4, 4)), np.zeros((2, 3, 4))):
        with pytest.raises(PoseError, match="expected poses of shape"):
            sample_path(sampler, poses)
    with pytest.raises(PoseError):
        sample_path(sampler, np.full((1, 4, 4), np.nan))
    with pytest.raises(ConfigurationError, match="largest step"):
        sample_path(sampler, pose[None], largest_step=0.0)
    with pytest.raises(JointStateError):
        sample_path(sampler, pose[None], near=np.zeros(3))


def test_constraints_hold_along_the_path() -> None:
    robot = arm_of("iiwa14")
    name = robot.joint_names[2]
    q = motion(robot, 3, 15)
    q[:, 2] = 0.2
    poses = robot.forward(q)
    clear = Sphere(robot.forward(q[7])[:3, 3] + [0.0, 0.0, 0.5], 0.05)
    constraints = Constraints(fixed={name: 0.2}, self_collision=True, obstacles=(clear,))
    path = sample_path(
        sampler_of("iiwa14", "position"),
        poses,
        random_seed=0,
        timeout=ENOUGH,
        position_only=True,
        constraints=constraints,
    )
    assert path.valid.all(), path.message
    assert (path.positions[:, 2] == 0.2).all()
    assert not constraints.scene(robot).colliding(path.positions).any()
    assert_verified(robot, path, poses, position_only=True)


def test_obstacle_around_a_pose_makes_a_gap() -> None:
    robot = arm_of("panda")
    poses = robot.forward(motion(robot, 6, 6))
    constraints = Constraints(obstacles=(Sphere(poses[3, :3, 3], 0.02),))
    path = sample_path(sampler_of("panda", "pose"), poses, n=16, random_seed=0, timeout=ENOUGH, constraints=constraints)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert not path.valid[3]


def test_free_turn_about_the_tool_is_used_along_the_path() -> None:
    robot = arm_of("ur5")
    poses = robot.forward(motion(robot, 2, 10))
    turned = poses.copy()
    turned[5:, :3, :2] = np.array([-poses[5:, :3, 1], poses[5:, :3, 0]]).transpose(1, 2, 0)  # by a quarter, at once
    tolerances = np.array([0.0] * 5 + [np.inf])
    sampler = sampler_of("ur5", "pose")
    path = sample_path(sampler, turned, random_seed=0, timeout=ENOUGH, constraints=Constraints(tolerances=tolerances))
    assert path.error_code == ErrorCode.SUCCESS, path.message
    for q, pose in zip(path.positions, turned, strict=True):
        assert np.max(robot.pose_errors(q, pose, tolerances)) <= 1e-6


def brute_force_reach(robot: Robot, poses: np.ndarray, largest_step: float, n: int) -> int:
    """Poses that steps within the largest lead to, among solutions from n uniform seeds of each and those between."""
    rng, reached = np.random.default_rng(99), None
    for index, pose in enumerate(poses):
        refined = robot.refine(robot.sample_configurations(n, rng), pose, patience=3)
        roots = refined.positions[refined.converged]
        if not len(roots):
            return index
        dense = robot.spread(roots[::4], pose, 3000, rng, finest=0.008) if robot.dof > 6 else roots[:0]
        solutions = np.concatenate([roots, dense])
        if reached is not None:
            near = cKDTree(solutions).query_ball_point(reached, largest_step, p=np.inf)
            solutions = solutions[sorted({i for some in near for i in some})]
            if not len(solutions):
                return index
        reached = solutions
    return len(poses)


@pytest.mark.parametrize(
    ("name", "largest_step", "seeds"), [("panda", 0.05, (1, 2, 4)), ("iiwa14", 0.05, (1, 2)), ("ur5", 0.1, (3, 4))]
)
def test_there_is_a_path_where_brute_force_has_one_and_only_there(
    name: str, largest_step: float, seeds: tuple[int, ...]
) -> None:
    robot, rng, outcomes = arm_of(name), np.random.default_rng(3), []
    for seed in range(5):
        poses = np.repeat(robot.forward(robot.sample_configurations(1, rng)), 10, axis=0)
        poses[:, :3, 3] += np.linspace(0.0, 0.15, 10)[:, None] * np.array([[0.6, -0.64, -0.48]])
        if seed not in seeds:
            continue
        path = sample_path(Sampler.of(robot), poses, random_seed=seed, largest_step=largest_step, timeout=ENOUGH)
        expected = brute_force_reach(robot, poses, largest_step, 600)
        outcomes.append(expected == len(poses))
        assert (path.error_code == ErrorCode.SUCCESS) == (expected == len(poses)), path.message
        assert path.n_reached >= expected
        steps = np.abs(np.diff(path.positions, axis=0)).max(axis=1)
        assert (steps[: path.n_reached - 1] <= largest_step).all() or path.error_code != ErrorCode.SUCCESS
    assert len(set(outcomes)) == 2  # both kinds were met
