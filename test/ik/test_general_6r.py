"""For six revolute joints without special geometry, elimination finds all solutions or reports that it may not."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from ik.arms import assert_no_solution
from ik.test_closed_form import by_brute_force, sorted_rows
from kinematics.oracle import Oracle
from kinematics.six_joint_arms import URDFS, urdf_of
from kinematics.six_revolute_arms import ARMS, CRAIG, calibrated, random_axes

from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot, pose_from, refine

FloatArray = npt.NDArray[np.float64]

ENOUGH = 60.0  # [s]
SAME = 1e-5  # error of a solution [rad]: rounding, which grows near singularities
REGULAR = 1e-4  # smallest singular value of the Jacobian at a regular solution
FINE = {"position_tolerance": 1e-9, "orientation_tolerance": 1e-9}
DEGREES_15 = math.pi / 12.0
ARM = ARMS["random axes, 0"]


def away(rows: FloatArray, q: FloatArray) -> FloatArray:
    """Return the largest difference of any joint on the circle [rad]."""
    return np.asarray(np.abs((rows - q + math.pi) % (2.0 * math.pi) - math.pi).max(axis=-1, initial=0.0))


def least_singular_value(robot: Robot, q: FloatArray) -> float:
    return float(np.linalg.svd(robot.jacobian(q[None])[0], compute_uv=False)[-1])


def roots_of(robot: Robot, pose: FloatArray, tolerance: float = SAME) -> tuple[FloatArray, bool, bool]:
    """Return the roots of a pose, whether they are complete, and whether the arm is singular in one of them."""
    assert robot.closed_form is not None
    roots = robot.closed_form.roots(robot.chain, robot.task(pose), tolerance)
    return roots.positions, roots.is_complete, roots.is_singular


@pytest.mark.parametrize("name", ARMS)
def test_each_configuration_is_among_the_complete_solutions_of_its_pose(name: str) -> None:
    urdf = ARMS[name]
    robot = Robot(urdf)
    oracle, n_complete = Oracle(urdf, robot), 0
    configurations = robot.random(200, np.random.default_rng(1))
    for q, pose in zip(configurations, robot.fk(configurations), strict=True):
        roots, is_complete, _ = roots_of(robot, pose)
        assert away(roots, q).min() < SAME
        assert max(max(oracle.errors(row, pose)) for row in roots) < 1e-9
        n_complete += is_complete
    assert n_complete >= 198


@pytest.mark.parametrize("name", ["UR5, off by 0.0001", *CRAIG, "Gen3 lite", "random axes, 1"])
def test_seeds_find_nothing_that_a_complete_set_lacks(name: str) -> None:
    robot, rng = Robot(ARMS[name]), np.random.default_rng(2)
    for pose in robot.fk(robot.random(3, rng)):
        roots, is_complete, _ = roots_of(robot, pose)
        refined = refine(robot, robot.random(4000, rng), pose, **FINE)
        found = refined.positions[refined.converged]
        assert is_complete
        assert len(found) > 200
        assert max(away(roots, row).min() for row in found) < 1e-3


@pytest.mark.parametrize("name", ["UR5, off by 1e-06", "UR5, off by 0.001", *CRAIG, "Gen3 lite"])
@pytest.mark.parametrize("step", [DEGREES_15, 3.0 * DEGREES_15])
def test_no_complete_set_lacks_a_special_configuration(name: str, step: float) -> None:
    robot, rng = Robot(ARMS[name]), np.random.default_rng(3)
    n_complete = 0
    for q in step * rng.integers(-12, 13, (150, 6)):
        roots, is_complete, _ = roots_of(robot, robot.fk(q))
        n_complete += is_complete
        if is_complete and least_singular_value(robot, q) > REGULAR:
            assert away(roots, q).min() < SAME, q.tolist()
    assert n_complete >= 50


@pytest.mark.parametrize("name", CRAIG)
def test_poses_near_singular_ones_are_complete_or_not_said_to_be(name: str) -> None:
    robot, rng = Robot(ARMS[name]), np.random.default_rng(4)
    for size in (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1):
        for q in rng.uniform(-math.pi, math.pi, (25, 6)):
            q[[2, 4]] = size * rng.standard_normal(2)
            roots, is_complete, _ = roots_of(robot, robot.fk(q))
            if is_complete and least_singular_value(robot, q) > REGULAR:
                assert away(roots, q).min() < SAME, q.tolist()


@pytest.mark.parametrize("name", CRAIG)
def test_attempts_do_not_depend_on_the_unit_of_length(name: str) -> None:
    urdf = ARMS[name]
    robot = Robot(urdf)
    q = robot.random(1, np.random.default_rng(6))[0]
    counts = set()
    for factor in (1e-3, 1.0, 1e3):
        rows = robot.links.copy()
        rows[:, 9:12] *= factor
        chain = type(robot.chain)(rows, 6)
        pose = robot.fk(q)
        pose[:3, 3] *= factor
        roots = type(robot.closed_form)(chain, -1).roots(chain, robot.task(pose), SAME)  # type: ignore[misc]
        counts.add((len(roots), roots.is_complete))
    assert len(counts) == 1


def test_a_continuum_of_solutions_is_found_singular_and_searched() -> None:
    rng = np.random.default_rng(9)
    axes, points = rng.standard_normal((6, 3)), rng.uniform(-0.5, 0.5, (6, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    axes[[0, 5]], points[[0, 5]] = [0.0, 0.0, 1.0], [[0.0, 0.0, 0.1], [0.0, 0.0, 0.6]]
    robot = Robot(urdf_of(axes, points, np.array([0.1, 0.2, 0.3])))
    q = np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.7])  # axes 1 and 6 coincide
    _, is_complete, is_singular = roots_of(robot, robot.fk(q))
    assert is_singular and not is_complete
    solutions = Sampler(robot).sample(robot.fk(q), 20, timeout=ENOUGH, seed=0)
    assert solutions and solutions.valid.all()
    assert np.isnan(solutions.n_total)
    assert not solutions.is_complete and not solutions.certified
    assert "the arm is singular there" in solutions.message


@pytest.mark.parametrize("name", ["Jaco 2", "random axes, 0", "UR5, off by 0.001"])
def test_answers_are_complete_but_not_certified(name: str) -> None:
    robot = Robot(ARMS[name])
    solutions = Sampler(robot).solve_all(robot.fk(np.full(6, 0.5)), seed=0)
    assert solutions.is_complete and not solutions.certified
    report = solutions.completeness
    assert report is not None
    assert (report.is_complete, report.certified, report.missed_share) == (True, False, 0.0)
    assert solutions.message == f"{len(solutions)} solutions, all that exist"
    assert str(report) == f"{len(solutions)} components, complete"


@pytest.mark.parametrize("name", sorted(ARMS))
def test_most_poses_are_certified_and_no_certified_one_lacks_a_root(name: str) -> None:
    robot = Robot(ARMS[name])
    sampler, n_certified = Sampler(robot), 0
    configurations = robot.random(40, np.random.default_rng(17))
    for q, pose in zip(configurations, robot.fk(configurations), strict=True):
        solutions = sampler.solve_all(pose, guarantee="certified", seed=0, max_solutions=10_000)
        assert solutions.certified != ("not certified" in solutions.message)
        if solutions.certified:
            assert solutions.is_complete
            assert np.abs(solutions.q - q).max(axis=1).min() < 1e-5
            n_certified += 1
    assert n_certified >= 38


def n_complete(robot: Robot, configurations: np.ndarray) -> int:
    """Assert that roots contain these configurations (n, 6), and return the number of poses with complete roots."""
    number = 0
    for q, pose in zip(configurations, robot.fk(configurations), strict=True):
        roots, is_complete, _ = roots_of(robot, pose)
        assert away(roots, q).min() < SAME
        number += is_complete
    return number


def test_solutions_with_nearly_the_same_angle_are_complete() -> None:
    """If the forearm of an xArm6 is nearly in its plane, eliminations have pairs of zeros that are 1e-5 rad apart."""
    robot, rng = Robot(ARMS["xArm6"]), np.random.default_rng(4)
    configurations = robot.random(100, rng)
    configurations[:, 3] = rng.uniform(-2e-3, 2e-3, 100)
    assert n_complete(robot, configurations) >= 98


def test_poses_near_a_continuum_of_a_rounded_arm_are_proven() -> None:
    """The URDF of an I2RT YAM is rounded. Near self-motions of the exact arm, resultants nearly vanish."""
    axes = np.array(
        [[0, 0, 1], [-7.3e-6, 1, -3.7e-6], [7.3e-6, -1, 6.3e-6], [7.3e-6, -1, 6.3e-6], [0, 0, -1], [1, 0, 0]]
    )
    axes[4:] += [[3.7e-6, -6.3e-6, 0.0], [0.0, 3.7e-6, 7.3e-6]]
    points = [[0, 0, 63.1], [20, 0, 104], [-244, 0, 104], [1, 0, 164], [75, 0, 203.5], [110.3, 0, 164]]  # [mm]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    robot, rng = Robot(urdf_of(axes, 1e-3 * np.array(points), np.array([0.1, 0.0, 0.1]))), np.random.default_rng(8)
    configurations = robot.random(200, rng)
    configurations[:, 4] = 0.5 * math.pi + rng.uniform(-3e-2, 3e-2, 200)
    assert n_complete(robot, configurations) >= 195


def test_poses_that_a_nearby_form_leaves_open_are_complete() -> None:
    """The approximate closed form of a calibrated arm certifies poses at which no roots meet."""
    robot = Robot(calibrated(URDFS["UR5"], 1e-4))
    sampler, n_certified = Sampler(robot), 0
    poses = robot.fk(robot.random(50, np.random.default_rng(7)))
    for pose in poses:
        solutions = sampler.solve_all(pose, guarantee="certified", seed=0)
        assert solutions.is_complete
        assert solutions.certified != ("not certified" in solutions.message)
        n_certified += solutions.certified
    assert n_certified > 40


@pytest.mark.parametrize("distance", [1.0, 1.2, 3.0, 1e3, 1e9])
def test_out_of_reach_there_is_none(distance: float) -> None:
    robot = Robot(ARMS["xArm6"])
    roots, is_complete, is_singular = roots_of(robot, pose_from([distance, 0.0, 0.2], [0, 0, 0, 1]))
    assert (len(roots), is_complete, is_singular) == (0, True, False)
    solutions = Sampler(robot).sample(pose_from([distance, 0.0, 0.2], [0, 0, 0, 1]), 5, seed=0, timeout=ENOUGH)
    assert solutions.error_code == ErrorCode.NO_IK_SOLUTION
    assert solutions.n_total == 0.0
    assert solutions.is_complete and solutions.certified  # the reach is an exact bound
    assert_no_solution(solutions)


def test_revolutions_are_those_of_brute_force() -> None:
    once, twice = Robot(ARM), Robot(ARM.replace(repr(math.pi), repr(2.0 * math.pi)))
    pose = once.fk(once.random(1, np.random.default_rng(0))[0])
    roots, is_complete, _ = roots_of(once, pose)
    assert is_complete
    solutions = Sampler(twice).sample(pose, 10_000)
    expected = by_brute_force(twice, roots)
    assert solutions.n_total == len(solutions) == len(expected) == 64 * len(roots)  # six angles in two revolutions each
    assert np.allclose(sorted_rows(solutions.q), sorted_rows(expected), rtol=0, atol=1e-9)


def test_limits_leave_some_of_the_solutions() -> None:
    robot = Robot(ARMS["Jaco 2"])
    pose = robot.fk(robot.random(1, np.random.default_rng(0))[0])
    everything = Sampler(robot).sample(pose, 100).q
    limits = (float(everything[0, 2]) - 0.1, float(everything[0, 2]) + 0.1)
    some = Sampler(robot).with_constraints(limits={"joint3": limits}).sample(pose, 100)
    assert some.is_complete
    assert 0 < len(some) < len(everything)
    assert np.allclose(
        sorted_rows(some.q),
        sorted_rows(everything[np.abs(everything[:, 2] - everything[0, 2]) <= 0.1]),
        rtol=0,
        atol=1e-9,
    )


def test_random_arms_are_complete() -> None:
    rng = np.random.default_rng(8)
    for seed in range(20):
        robot = Robot(random_axes(seed))
        assert robot.closed_form is not None
        assert (robot.closed_form.kind, robot.closed_form.certifies) == ("general", True)
        for q in robot.random(20, rng):
            roots, is_complete, _ = roots_of(robot, robot.fk(q))
            assert is_complete
            assert away(roots, q).min() < SAME


@pytest.mark.parametrize("name", [name for name in ARMS if "1e-0" not in name])
def test_no_set_is_complete_without_solutions_that_nearly_meet(name: str) -> None:
    """Near a singular configuration, where two solutions meet, rounding decides whether the solutions exist."""
    robot, rng = Robot(ARMS[name]), np.random.default_rng(5)
    sampler, n_complete = Sampler(robot), 0
    for _ in range(15):
        start, end = rng.uniform(-3.1, 3.1, (2, 6))
        shares = np.linspace(0.0, 1.0, 60)
        line = start + shares[:, None] * (end - start)
        signs = np.linalg.det(robot.jacobian(line)) > 0.0
        if (signs == signs[0]).all():
            continue
        low, high = line[np.argmax(signs != signs[0]) - 1 :][:2]
        for _ in range(60):
            middle = 0.5 * (low + high)
            is_before = (np.linalg.det(robot.jacobian(middle)) > 0.0) == signs[0]
            low, high = (middle, high) if is_before else (low, middle)
        direction = np.linalg.svd(robot.jacobian(low))[2][-1]
        for away in (1e-9, 1e-8, 1e-7, 1e-6, 1e-4):
            q = low + away * direction
            for guarantee in (None, "certified"):
                answer = sampler.solve_all(robot.fk(q), guarantee=guarantee, seed=0)
                if answer.is_complete:
                    n_complete += 1
                    gaps = np.abs((answer.q - q + np.pi) % (2.0 * np.pi) - np.pi).max(axis=1)
                    assert gaps.min(initial=np.inf) < max(2.5 * away, 3e-5)
    assert n_complete > 0
