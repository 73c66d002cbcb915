"""For arms with sliding joints or fewer than six joints, sets of solutions are complete and claims are correct."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from ik.arms import assert_no_solution
from kinematics.oracle import Oracle
from kinematics.slide_arms import FREE_ROLL, SHORT, SLIDING, random_slides, urdf_of_joints

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler, Solutions
from eim_ros.kinematics import Robot, refine
from eim_ros.kinematics.tolerances import TaskOptions

FloatArray = npt.NDArray[np.float64]

SAME = 0.01  # solutions that are closer are merged [rad, m]
REGULAR = 1e-3  # smallest singular value of the Jacobian at a regular solution
FINE: TaskOptions = {"position_tolerance": 1e-9, "orientation_tolerance": 1e-9}
ONE_SLIDE = [name for name in SLIDING if name[:6].count("P") == 1]
COMPLETE = [*(name for name in SLIDING if not name.startswith("PRPRRR")), *SHORT]
ALL = SLIDING | SHORT


def away(robot: Robot, rows: FloatArray, q: FloatArray) -> FloatArray:
    """Return the largest difference of any joint [rad, m]; revolute joints are compared on the circle."""
    off = rows - q
    on_circle = (off + math.pi) % (2.0 * math.pi) - math.pi
    return np.asarray(np.abs(np.where(robot.prismatic, off, on_circle)).max(axis=-1, initial=0.0))


def is_complete(solutions: Solutions) -> bool:
    return solutions.completeness is not None and solutions.completeness.is_complete


def special(robot: Robot, n: int, rng: np.random.Generator) -> FloatArray:
    """Return configurations with angles on a grid of 15 degrees, and slides on a grid of 0.1 m."""
    angles = math.pi / 12.0 * rng.integers(-12, 13, (n, robot.dof))
    return np.clip(np.where(robot.prismatic, robot.random(n, rng).round(1), angles), robot.lower, robot.upper)


@pytest.mark.parametrize("name", COMPLETE)
def test_each_configuration_is_among_the_complete_solutions_of_its_pose(name: str) -> None:
    robot = Robot(ALL[name])
    oracle, sampler, n_complete = Oracle(ALL[name], robot), Sampler(robot), 0
    configurations = robot.random(25, np.random.default_rng(1))
    for q, pose in zip(configurations, robot.fk(configurations), strict=True):
        solutions = sampler.solve_all(pose, seed=0)
        assert away(robot, solutions.q, q).min() < SAME
        assert max(max(oracle.errors(row, pose)) for row in solutions.q) < 1e-9
        assert robot.within_limits(solutions.q).all()
        n_complete += is_complete(solutions)
    assert n_complete >= 24


@pytest.mark.parametrize("types", ["PRRRRR", "RPRRRR", "RRPRRR", "RRRPRR", "RRRRPR", "RRRRRP", "PRRPRP", "RPPPRR"])
def test_random_arms_with_a_slide_anywhere_are_solved(types: str) -> None:
    robot = Robot(random_slides(types, 3))
    sampler, configurations = Sampler(robot), robot.random(30, 3)
    for q, pose in zip(configurations, robot.fk(configurations), strict=True):
        solutions = sampler.solve_all(pose, seed=0)
        assert is_complete(solutions)
        assert away(robot, solutions.q, q).min() < SAME


@pytest.mark.parametrize("name", COMPLETE)
def test_seeds_find_nothing_that_a_complete_set_lacks(name: str) -> None:
    robot, rng = Robot(ALL[name]), np.random.default_rng(2)
    for pose in robot.fk(robot.random(2, rng)):
        solutions = Sampler(robot).solve_all(pose, seed=0)
        refined = refine(robot, robot.random(1000, rng), pose, **FINE)
        found = refined.positions[refined.converged]
        assert is_complete(solutions)
        assert max(away(robot, solutions.q, row).min() for row in found) < 1e-3


@pytest.mark.parametrize("name", COMPLETE)
def test_no_complete_set_lacks_a_special_configuration(name: str) -> None:
    robot, sampler = Robot(ALL[name]), Sampler(ALL[name])
    for q in special(robot, 40, np.random.default_rng(3)):
        solutions = sampler.solve_all(robot.fk(q), seed=0)
        is_regular = np.linalg.svd(robot.jacobian(q), compute_uv=False)[-1] > REGULAR
        assert not (is_complete(solutions) and is_regular) or away(robot, solutions.q, q).min() < SAME, q.tolist()


@pytest.mark.parametrize("name", [*ONE_SLIDE, "PPPRRR, gantry, spherical wrist"])
def test_solutions_of_arms_with_slides_are_certified(name: str) -> None:
    robot = Robot(SLIDING[name])
    poses = robot.fk(robot.random(20, 4))
    answers = [Sampler(robot).solve_all(pose, guarantee="certified", seed=0) for pose in poses]
    assert np.mean([a.completeness is not None and a.completeness.certified for a in answers]) >= 0.85


def test_free_roll_of_five_joints_is_certified() -> None:
    robot = Robot(SHORT["RRRRR, random axes"])
    sampler = Sampler(robot).with_constraints(tolerances=FREE_ROLL)
    turn = np.array([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    for q in robot.random(20, 5):
        solutions = sampler.solve_all(robot.fk(q) @ turn, guarantee="certified", seed=0)
        assert solutions.completeness is not None
        assert solutions.completeness.certified
        assert away(robot, solutions.q, q).min() < SAME


def test_complete_pose_of_five_joints_cannot_be_certified() -> None:
    robot = Robot(SHORT["RRRRR, like SO-100"])
    with pytest.raises(ConfigurationError, match="certified"):
        Sampler(robot).solve_all(robot.fk(robot.random(seed=0)), guarantee="certified")


def test_rounded_pose_of_five_joints_is_solved_but_not_complete() -> None:
    robot, rng = Robot(SHORT["RRRRR, like SO-100"]), np.random.default_rng(6)
    for pose in robot.fk(robot.random(20, rng)):
        pose[:3, 3] += rng.uniform(-3e-7, 3e-7, 3)
        solutions = Sampler(robot).solve_all(pose, seed=0)
        assert solutions.valid.all()
        assert len(solutions)
        assert not is_complete(solutions)


@pytest.mark.parametrize("name", ["RRRRR, like SO-100", "RRRRR, random axes", "RRRR, palletiser"])
def test_pose_beside_those_that_a_short_arm_reaches_has_no_solution(name: str) -> None:
    robot = Robot(SHORT[name])
    pose = robot.fk(robot.random(seed=7))
    pose[:3, :3] = pose[:3, :3] @ np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1.0]])  # turn about the z axis of the tip
    pose[:3, 3] += [0.01, 0.0, 0.02]
    solutions = Sampler(robot).solve_all(pose, seed=0)
    assert_no_solution(solutions)
    assert "there is no solution" in solutions.message


@pytest.mark.parametrize("offset", [1e-8, 1e-7, 1e-6, 1e-5, 1e-4])
def test_elbow_that_is_almost_stretched_is_not_lost_from_a_complete_set(offset: float) -> None:
    robot = Robot(SHORT["RRRR, palletiser"])  # a third angle of a quarter turn stretches the arm
    sampler = Sampler(robot).with_constraints(tolerances=FREE_ROLL)
    for q in robot.random(20, 10):
        q[2] = 0.5 * math.pi + offset
        solutions = sampler.solve_all(robot.fk(q), seed=0)
        assert not is_complete(solutions) or away(robot, solutions.q, q).min() < SAME


def test_solution_next_to_one_of_the_loop_only_is_kept() -> None:
    axes, points = np.array([[0, 0, 1.0], [0, 1, 0], [1, 0, 0]]), np.array([[0, 0, 0.3], [0, 0, 0.3], [0.3, 0, 0.3]])
    robot = Robot(urdf_of_joints("RRP", axes, points, np.array([0.4, 0.0, 0.3]), "0 0 0"))
    sampler = Sampler(robot).with_constraints(tolerances=FREE_ROLL)
    q = np.array([-2.35619449, 1.04719755, -0.5])
    assert away(robot, sampler.solve_all(robot.fk(q), seed=0).q, q).min() < SAME


def test_position_of_three_joints_has_all_solutions() -> None:
    robot = Robot(random_slides("RRR", 1))
    sampler = Sampler(robot).with_constraints(position_only=True)
    for q in robot.random(20, 8):
        pose = robot.fk(q)
        solutions = sampler.solve_all(pose, seed=0)
        refined = refine(robot, robot.random(200, 9), pose, **FINE | {"position_only": True})
        assert is_complete(solutions)
        assert away(robot, solutions.q, q).min() < SAME
        assert max(away(robot, solutions.q, row).min() for row in refined.positions[refined.converged]) < 1e-3


def test_roll_about_the_last_axis_is_not_reported_as_complete() -> None:
    robot = Robot(SHORT["RRRRR, like SO-100"])  # the last joint only rolls the tool, so it is redundant
    sampler = Sampler(robot).with_constraints(tolerances=FREE_ROLL)
    for pose in robot.fk(robot.random(10, 9)):
        assert not is_complete(sampler.solve_all(pose, seed=0, max_solutions=50))
