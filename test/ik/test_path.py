"""A path of poses is solved and verified at every pose without jumps, or it is reported as impossible."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, sampler_of
from kinematics.six_joint_arms import URDFS
from scipy.spatial import cKDTree

from eim_ros.core.errors import ConfigurationError, JointStateError, PoseError
from eim_ros.ik import Constraints, ErrorCode, JointPath, Sampler
from eim_ros.ik.candidates import Candidates
from eim_ros.ik.path_search import NO_EDGES, PathSearch
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Problem
from eim_ros.ik.setup import Setup
from eim_ros.kinematics import Box, Robot, Sphere, refine, spread
from eim_ros.solver import path_reach, shortest_path

ENOUGH = 60.0  # [s]


def motion(robot: Robot, seed: int, n: int = 40) -> np.ndarray:
    """Return configurations on a straight line, well within the limits."""
    rng = np.random.default_rng(seed)
    first, last = 0.7 * robot.random(2, rng) + 0.15 * (robot.lower + robot.upper)
    return np.linspace(first, first + np.clip(last - first, -0.8, 0.8), n)


def assert_verified(robot: Robot, path: JointPath, poses: np.ndarray, position_only: bool = False) -> None:
    for q, pose in zip(path.q[path.valid], poses[path.valid], strict=True):
        position, orientation = robot.pose_errors(q, pose)
        assert position[0] <= 1e-6
        assert position_only or orientation[0] <= 1e-6
        assert robot.within_limits(q).all()


def assert_no_success(path: JointPath) -> None:
    """Assert that a path that must not be executed is empty and false, and that a loop over it does nothing."""
    assert not path
    assert len(path) == 0
    assert list(path) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "kind"), [("panda", "pose"), ("iiwa14", "position"), ("planar5", "position")])
def test_path_that_can_be_followed_is_followed(name: str, kind: str, seed: int) -> None:
    robot = arm_of(name)
    poses = robot.fk(motion(robot, seed))
    path = sampler_of(name, kind).follow(poses, timeout=ENOUGH, seed=seed)
    assert (path.error_code, path.valid.all()) == (ErrorCode.SUCCESS, True), path.message
    assert path.max_step <= 0.3
    assert path.max_step == pytest.approx(np.abs(np.diff(path.q, axis=0)).max())
    assert_verified(robot, path, poses, kind == "position")
    assert path
    assert path.examined.all()
    np.testing.assert_array_equal(list(path), path.q)


def test_path_begins_where_the_robot_is() -> None:
    robot = arm_of("panda")
    q = motion(robot, 5)
    path = sampler_of("panda", "pose").follow(robot.fk(q[1:]), near=q[0], timeout=ENOUGH, seed=0)
    assert path.error_code == ErrorCode.SUCCESS
    assert np.abs(path.q[0] - q[0]).max() <= path.max_step < 0.1


def test_pose_out_of_reach_is_a_gap_that_is_told() -> None:
    robot = arm_of("panda")
    poses = robot.fk(motion(robot, 6, 12))
    poses[7, 0, 3] += 10.0
    path = sampler_of("panda", "pose").follow(poses, timeout=ENOUGH, seed=0, n_candidates=16)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert path.message.startswith("1 of 12 poses have no solution (the first is pose 7, missed by ")
    assert (path.n_reached, path.nearest_miss) == (7, np.inf)
    np.testing.assert_array_equal(path.valid, np.arange(12) != 7)
    assert np.isnan(path.q[7]).all()
    assert np.isinf(path.position_error[7])
    assert path.examined.all()
    assert_no_success(path)
    assert_verified(robot, path, poses)


def test_jump_that_cannot_be_avoided_is_told() -> None:
    robot = arm_of("planar5")
    poses = robot.fk(np.array([[0.0, 0.1, 0.1, 0.1, 0.1], [2.5, 0.1, 0.1, 0.1, 0.1]]))  # nearly stretched
    path = sampler_of("planar5", "position").follow(poses, timeout=ENOUGH, seed=0)
    assert path.valid.all()
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert path.message.startswith("the path jumps 1 times, by up to ")
    assert path.max_step > 0.3
    assert_no_success(path)
    assert path.n_reached == 1
    assert 0.3 < path.nearest_miss <= path.max_step
    assert path.jumps is not None and path.jumps.tolist() == [1]
    assert "lead as far as pose 0, and the step from there to pose 1 is at least" in path.message


def test_continuous_joints_step_across_pi() -> None:
    robot = arm_of("all_types")
    turning = int(np.flatnonzero(robot.continuous)[0])
    q = np.repeat((0.5 * (robot.lower + robot.upper) + 0.1)[None], 20, axis=0)
    q[:, turning] = np.linspace(2.9, 3.4, 20)
    path = sampler_of("all_types", "pose").follow(robot.fk(q), near=q[0], timeout=ENOUGH, seed=0)
    assert path.error_code == ErrorCode.SUCCESS, path.message
    np.testing.assert_allclose(path.q[:, turning], q[:, turning], atol=1e-5)  # due to tolerances


@pytest.mark.parametrize("seed", range(6))
def test_continuous_joints_never_jump_by_a_turn(seed: int) -> None:
    robot = arm_of("gen3")
    rng = np.random.default_rng(seed)
    q = np.repeat(robot.random(1, rng), 40, axis=0)
    q[:, robot.continuous] += np.linspace(0.0, 1.0, 40)[:, None] * rng.uniform(-3.5, 3.5, int(robot.continuous.sum()))
    for near in (None, q[0] + 2.0 * np.pi * robot.continuous):
        path = Sampler(robot).follow(robot.fk(q), near=near, timeout=ENOUGH, seed=seed)
        assert path, path.message
        rows = path.q if near is None else np.concatenate([near[None], path.q])
        assert np.abs(np.diff(rows, axis=0)).max() == pytest.approx(path.max_step)
        assert path.max_step <= 0.3
        assert_verified(robot, path, robot.fk(q))


def ur5_of_two_turns(first: float, last: float) -> tuple[Robot, np.ndarray]:
    """Return a UR5 with limits of -2π and 2π, and a motion in which only the hand turns."""
    robot = Robot(URDFS["UR5, two turns"])
    q = np.tile([0.3, -1.2, 1.4, -0.8, 1.1, 0.0], (60, 1))
    q[:, 5] = np.linspace(first, last, 60)
    return robot, q


def test_joint_of_two_turns_begins_where_it_can_turn_to_the_end() -> None:
    robot, q = ur5_of_two_turns(-4.5, 4.9)
    for near in (None, q[0]):
        path = Sampler(robot).follow(robot.fk(q), near=near, timeout=ENOUGH, seed=0)
        assert path, path.message
        assert np.abs(np.diff(path.q, axis=0)).max() == pytest.approx(path.max_step)
        np.testing.assert_allclose(path.q[:, 5], q[:, 5], atol=1e-5)
        assert_verified(robot, path, robot.fk(q))


def test_joint_that_runs_into_its_limit_is_no_success() -> None:
    robot, q = ur5_of_two_turns(-4.5, 4.9)
    near = q[0] + [0.0, 0.0, 0.0, 0.0, 0.0, 2.0 * np.pi]  # the hand must turn by 9.4 rad, but only 4.5 rad are left
    path = Sampler(robot).follow(robot.fk(q), near=near, timeout=ENOUGH, seed=0)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert path.message.startswith("the path jumps 1 times, by up to ")
    assert path.valid.all()
    assert path.n_reached == 1 + np.flatnonzero(q[:, 5] + 2.0 * np.pi <= 2.0 * np.pi)[-1]
    assert np.abs(np.diff(path.q, axis=0)).max() == pytest.approx(path.max_step)
    assert_no_success(path)
    assert_verified(robot, path, robot.fk(q))


@pytest.mark.parametrize("seed", range(16))
def test_path_of_an_arm_of_two_turns_is_as_good_as_the_graph_of_all_its_solutions(seed: int) -> None:
    """The graph contains all solutions in closed form, up to 512 for each pose, and every small enough step."""
    robot, rng = Robot(URDFS["UR5, two turns"]), np.random.default_rng(seed)
    first, last = robot.random(2, rng)
    q = np.linspace(first, first + np.clip(last - first, -8.0, 8.0), 40)
    poses, sampler = robot.fk(q), Sampler(robot)
    near = q[0] - 2.0 * np.pi * np.sign(q[0]) * (rng.random(6) < 0.4) if seed % 2 else None  # other revolutions
    everything = [sampler.solve_all(pose, timeout=ENOUGH, seed=0) for pose in poses]
    assert all(answer.certified for answer in everything)
    layers = [answer.q for answer in everything] if near is None else [near[None], *map(np.asarray, everything)]
    counts = np.array([len(layer) for layer in layers])
    _, n_reached, nearest = path_reach(
        np.concatenate(layers), counts, np.zeros(6, dtype=bool), np.ones((len(counts), 6)), 0.3, NO_EDGES
    )
    path = sampler.follow(poses, near=near, timeout=ENOUGH, seed=0)
    assert bool(path) == (n_reached == len(layers)), path.message
    assert path.n_reached == n_reached - (near is not None)
    assert path or path.nearest_miss == pytest.approx(nearest, abs=1e-5)  # due to tolerances
    assert_verified(robot, path, poses)


def test_narrowed_continuous_joint_does_not_pass_its_limits() -> None:
    robot = arm_of("gen3")
    q = np.repeat((0.5 * (robot.lower + robot.upper) + 0.4)[None], 30, axis=0)
    q[:, 6] = np.linspace(2.8, 3.5, 30)  # across angles outside of the narrowed limits
    constraints = Constraints(limits={robot.joint_names[6]: (-3.0, 3.0)})
    path = Sampler(robot).with_constraints(constraints).follow(robot.fk(q), timeout=ENOUGH, seed=0)
    assert (np.abs(path.q[path.valid, 6]) <= 3.0).all()
    steps = np.abs(np.diff(path.q[path.valid], axis=0))
    assert steps.max() == pytest.approx(path.max_step)


@pytest.mark.parametrize(("name", "n_poses"), [("gen3", 120), ("panda", 200)])
def test_work_ends_with_the_time(name: str, n_poses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, looks, moved = arm_of(name), [0], list[int]()
    refined = Problem.solved

    def clock() -> float:
        looks[0] += 1
        return 0.01 * looks[0]

    def noted(problem: Problem, q: np.ndarray, *others: Any) -> Candidates:
        moved.append(looks[0])
        return refined(problem, q, *others)

    monkeypatch.setattr(Problem, "solved", noted)
    setup = Setup(robot, Constraints())
    poses = robot.fk(motion(robot, 3, n_poses))
    search = PathSearch(
        *(setup, Prior.none(robot.dof), Problem(setup, np.eye(4), False), poses, np.full((n_poses, robot.dof), 0.3)),
        *(np.random.default_rng(0), 48, 1.0),
        clock=clock,
    )
    search.follow(range(0, n_poses, 8))
    chosen = search.best()
    assert looks[0] <= 105  # the check at 1 s ends the search, and a few checks are made while the path is chosen
    assert max(moved) <= 101
    assert np.bincount(moved).max() <= 2  # at most two moves between two checks
    is_reached = ~np.isnan(chosen).any(axis=1)
    assert 10 < is_reached.sum() < n_poses
    np.testing.assert_array_equal(is_reached, search.examined)


def test_poses_that_time_did_not_suffice_for_are_not_said_to_have_no_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, n_looks = arm_of("panda"), [0]

    def out_of_time(_: PathSearch) -> bool:
        n_looks[0] += 1
        return n_looks[0] > 12

    poses = robot.fk(motion(robot, 6, 40))
    poses[5:8, 0, 3] += 10.0
    poses[20:, 2, 3] += 0.1  # so far that no solution can be moved there
    poses[20:, 0, 3] += 10.0
    monkeypatch.setattr(PathSearch, "out_of_time", property(out_of_time))
    path = sampler_of("panda", "pose").follow(poses, timeout=ENOUGH, seed=0, n_candidates=16)
    assert path.error_code == ErrorCode.TIMED_OUT
    without, unknown = path.examined & ~path.valid, ~path.examined
    np.testing.assert_array_equal(np.flatnonzero(without), [5, 6, 7])
    assert unknown[20:].all()
    assert "3 of 40 poses have no solution (the first is pose 5, missed by" in path.message
    assert f"; {unknown.sum()} of 40 poses were not examined (the first is pose" in path.message


def test_seed_decides_the_path() -> None:
    robot = arm_of("panda")
    poses = robot.fk(motion(robot, 7, 15))
    first, again = (sampler_of("panda", "pose").follow(poses, timeout=ENOUGH, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.q, again.q)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"seed": -1}, "seed must be at least 0"),
        ({"n_candidates": 0}, "n_candidates must be at least 1"),
        ({"timeout": np.nan}, "timeout must be at least 0"),
    ],
)
def test_bad_numbers_are_refused_without_time_too(arguments: dict[str, float], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        sampler_of("gantry", "position").follow(np.eye(4)[None], **{"timeout": 0.0, **arguments})


def test_no_time_is_an_answer_too() -> None:
    robot = arm_of("panda")
    path = sampler_of("panda", "pose").follow(robot.fk(motion(robot, 8, 15)), timeout=0.0, seed=0)
    assert path.error_code == ErrorCode.TIMED_OUT
    assert path.message == "timed out: 15 of 15 poses were not examined (the first is pose 0)"
    assert not path.valid.any()
    assert not path.examined.any()
    assert_no_success(path)


def test_bad_arguments_are_refused() -> None:
    sampler, pose = sampler_of("panda", "pose"), np.eye(4)
    for poses in (pose, np.empty((0, 4, 4)), np.zeros((2, 3, 4))):
        with pytest.raises(PoseError, match="expected poses of shape"):
            sampler.follow(poses)
    with pytest.raises(PoseError):
        sampler.follow(np.full((1, 4, 4), np.nan))
    with pytest.raises(ConfigurationError, match="max_step must be positive"):
        sampler.follow(pose[None], max_step=0.0)
    with pytest.raises(JointStateError):
        sampler.follow(pose[None], near=np.zeros(3))


def test_constraints_hold_along_the_path() -> None:
    robot = arm_of("iiwa14")
    name = robot.joint_names[2]
    q = motion(robot, 3, 15)
    q[:, 2] = 0.2
    poses = robot.fk(q)
    clear = Sphere(robot.fk(q[7])[:3, 3] + [0.0, 0.0, 0.5], 0.05)
    constraints = Constraints(fixed={name: 0.2}, self_collision=True, obstacles=(clear,))
    path = (
        sampler_of("iiwa14", "position")
        .with_constraints(constraints, position_only=True)
        .follow(poses, timeout=ENOUGH, seed=0)
    )
    assert path.valid.all(), path.message
    assert (path.q[:, 2] == 0.2).all()
    assert not constraints.scene(robot).colliding(path.q).any()
    assert_verified(robot, path, poses, position_only=True)


def test_obstacle_around_a_pose_makes_a_gap() -> None:
    robot = arm_of("panda")
    poses = robot.fk(motion(robot, 6, 6))
    constraints = Constraints(obstacles=(Sphere(poses[3, :3, 3], 0.02),))
    path = (
        sampler_of("panda", "pose").with_constraints(constraints).follow(poses, timeout=ENOUGH, seed=0, n_candidates=16)
    )
    assert path.error_code == ErrorCode.NO_IK_SOLUTION
    assert not path.valid[3]


def test_free_turn_about_the_tool_is_used_along_the_path() -> None:
    robot = arm_of("ur5")
    poses = robot.fk(motion(robot, 2, 10))
    turned = poses.copy()
    turned[5:, :3, :2] = np.array([-poses[5:, :3, 1], poses[5:, :3, 0]]).transpose(1, 2, 0)  # a sudden quarter turn
    tolerances = np.array([0.0] * 5 + [np.inf])
    sampler = sampler_of("ur5", "pose")
    path = sampler.with_constraints(tolerances=tolerances).follow(turned, timeout=ENOUGH, seed=0)
    assert path.error_code == ErrorCode.SUCCESS, path.message
    for q, pose in zip(path.q, turned, strict=True):
        assert np.max(robot.pose_errors(q, pose, tolerances)) <= 1e-6


def test_each_joint_keeps_its_own_largest_step() -> None:
    robot = arm_of("panda")
    q = motion(robot, 1)
    most = 1.2 * np.abs(np.diff(q, axis=0)).max(axis=0) + 0.01  # the motion q satisfies these limits
    path = Sampler(robot).follow(robot.fk(q), near=q[0], max_step=most, timeout=ENOUGH, seed=0)
    assert path, path.message
    steps = np.abs(np.diff(np.concatenate([q[:1], path.q]), axis=0))
    assert (steps.max(axis=0) <= most * (1.0 + 1e-9)).all()  # rounding of the steps
    assert path.max_step == steps.max()


def brute_force_reach(robot: Robot, poses: np.ndarray, largest_step: float, n: int) -> int:
    """Return how many poses are reached by small enough steps between continuations and solutions from n seeds."""
    rng, reached = np.random.default_rng(99), None
    for index, pose in enumerate(poses):
        refined = refine(robot, robot.random(n, rng), pose, patience=3)
        roots = refined.positions[refined.converged]
        if not len(roots):
            return index
        dense = spread(robot, roots[::4], pose, 3000, rng, finest=0.008) if robot.dof > 6 else roots[:0]
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
        poses = np.repeat(robot.fk(robot.random(1, rng)), 10, axis=0)
        poses[:, :3, 3] += np.linspace(0.0, 0.15, 10)[:, None] * np.array([[0.6, -0.64, -0.48]])
        if seed not in seeds:
            continue
        path = Sampler(robot).follow(poses, timeout=ENOUGH, seed=seed, max_step=largest_step)
        expected = brute_force_reach(robot, poses, largest_step, 600)
        outcomes.append(expected == len(poses))
        assert (path.error_code == ErrorCode.SUCCESS) == (expected == len(poses)), path.message
        assert path.n_reached >= expected
        steps = np.abs(np.diff(path.q, axis=0)).max(axis=1)
        assert (steps[: path.n_reached - 1] <= largest_step).all() or path.error_code != ErrorCode.SUCCESS
    assert len(set(outcomes)) == 2  # some paths exist and others do not


def test_largest_steps_by_name_leave_the_default_of_the_others() -> None:
    robot = arm_of("panda")
    poses = robot.fk(motion(robot, 2, 15))
    by_name = Sampler(robot).follow(poses, max_step={"panda_joint2": 0.1}, timeout=ENOUGH, seed=0)
    most = [0.3, 0.1, *[0.3] * 5]
    each = Sampler(robot).follow(poses, max_step=most, timeout=ENOUGH, seed=0)
    np.testing.assert_array_equal(by_name.q, each.q)
    with pytest.raises(ConfigurationError, match="max_step names 'elbow', which is not a joint"):
        Sampler(robot).follow(poses, max_step={"elbow": 0.1})


def fetch_line(n: int = 25) -> np.ndarray:
    poses = np.tile(np.eye(4), (n, 1, 1))
    poses[:, :3, 3] = np.array([0.7, 0.0, 0.8]) + np.linspace(-0.15, 0.15, n)[:, None] * np.array([0.0, 1.0, 0.3])
    return poses


def test_path_of_eight_joints_keeps_radians_and_metres_apart() -> None:
    robot, poses = Robot("fetch"), fetch_line()
    most = np.array([0.02, *[0.12] * 7])
    path = Sampler(robot).follow(poses, max_step=most, timeout=ENOUGH, seed=0)
    assert path, path.message
    assert (np.abs(np.diff(path.q, axis=0)).max(axis=0) <= most * (1.0 + 1e-8)).all()
    np.testing.assert_allclose(robot.fk(path.q), poses, atol=1e-5)
    assert robot.within_limits(path.q, 1e-12).all()


@pytest.mark.parametrize("name", ["panda", "gen3"])
def test_smoothing_reduces_the_chosen_cost(name: str) -> None:
    robot = arm_of(name)
    poses = robot.fk(motion(robot, 2, 30))
    rough = Sampler(robot).follow(poses, max_step=0.2, objective=None, timeout=ENOUGH, seed=0)
    costs = {
        "squares": lambda q: (np.diff(q, axis=0) ** 2).sum(),
        "length": lambda q: np.abs(np.diff(q, axis=0)).sum(),
        "largest_step": lambda q: np.abs(np.diff(q, axis=0)).max(),
        "time": lambda q: (np.abs(np.diff(q, axis=0)) / robot.velocity_limits).max(axis=1).sum(),
    }
    for objective, cost in costs.items():
        path = Sampler(robot).follow(poses, max_step=0.2, objective=objective, timeout=ENOUGH, seed=0)
        assert path, path.message
        assert cost(path.q) < cost(rough.q), objective
        np.testing.assert_allclose(robot.fk(path.q), poses, atol=1e-5)


def test_smoothed_path_avoids_obstacles() -> None:
    robot = arm_of("panda")
    poses = robot.fk(motion(robot, 2, 20))
    middle = robot.fk(Sampler(robot).follow(poses, timeout=ENOUGH, seed=0).q[10])[:3, 3]
    sampler = Sampler(robot).with_obstacles([Box((0.1, 0.1, 0.1), at=tuple(middle + [0.0, 0.0, -0.35]))])
    path = sampler.follow(poses, timeout=ENOUGH, seed=0, objective="length")
    scene = sampler.constraints.scene(robot)
    assert path and scene is not None, path.message
    assert not scene.colliding(path.q).any()


def test_unknown_objective_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="objective must be one of squares, length, largest_step, time"):
        Sampler("panda").follow(fetch_line(3), objective="energy")  # type: ignore[arg-type]


def test_shortest_time_needs_a_velocity_limit_of_each_joint() -> None:
    robot = Robot(URDFS["UR5, two turns"].replace('velocity="1"', 'velocity="0"', 1))
    with pytest.raises(ConfigurationError, match="needs velocity limits, but the URDF has none for"):
        Sampler(robot).follow(robot.fk(motion(robot, 2, 3)), objective="time")


@pytest.mark.parametrize("seed", range(20))
def test_shortest_path_has_the_fewest_jumps_of_all(seed: int) -> None:
    """The reference enumerates all paths through four layers of solutions. Some steps are blocked."""
    rng = np.random.default_rng(seed)
    layers = [rng.uniform(-1.0, 1.0, (4, 2)) for _ in range(4)]
    firsts, largest = 4 * np.arange(4), 0.4
    blocked = np.array(
        [(firsts[k] + i, firsts[k + 1] + j) for k in range(3) for i in range(4) for j in range(4) if rng.random() < 0.3]
    )
    scale = rng.uniform(0.5, 2.0, (4, 2))
    listed = {tuple(edge) for edge in blocked.tolist()}

    def cost(path: tuple[int, ...]) -> tuple[int, float]:
        n_jumps, squares = 0, 0.0
        for k in range(3):
            away = np.abs(layers[k + 1][path[k + 1]] - layers[k][path[k]])
            edge = (int(firsts[k]) + path[k], int(firsts[k + 1]) + path[k + 1])
            n_jumps += bool((scale[k + 1] * away).max() > largest or edge in listed)
            squares += float((away**2).sum())
        return n_jumps, squares

    graph = np.concatenate(layers), np.full(4, 4), np.zeros(2, dtype=bool), scale
    chosen = shortest_path(*graph, largest, 1e4, blocked)
    best = min(itertools.product(range(4), repeat=4), key=cost)
    assert cost(tuple(chosen.tolist())) == pytest.approx(cost(best))
    assert (path_reach(*graph, largest, blocked)[1] == 4) == (cost(best)[0] == 0)
