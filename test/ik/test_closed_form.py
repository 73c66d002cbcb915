"""Closed forms find every solution, enumerate revolutions, and report singular poses."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of, broad_model
from kinematics.oracle import Oracle
from kinematics.six_joint_arms import KINDS, URDFS, random_arm, urdf_of

from eim_ros.ik import Constraints, ErrorCode, Sampler
from eim_ros.kinematics import Robot, Sphere, refine
from eim_ros.solver import NO_EXPERT

TURN = 2.0 * math.pi
ENOUGH = 60.0  # [s]
ROUNDING = 1e-9  # rounding error of pinocchio's logarithm [rad, m]
FINE = {"position_tolerance": 1e-9, "orientation_tolerance": 1e-9}
IN_TWO_TURNS = URDFS["UR5, two turns"]


def away(rows: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the largest difference of any joint on the circle [rad]."""
    return np.abs((rows - q + math.pi) % TURN - math.pi).max(axis=-1)


def sorted_rows(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(np.round(rows, 6).T)]


def by_brute_force(robot: Robot, roots: np.ndarray) -> np.ndarray:
    """Return the roots with every combination of revolutions that is within the limits."""
    turns = TURN * np.array(list(itertools.product((-2, -1, 0, 1, 2), repeat=6)))
    rows = (roots[:, None] + turns).reshape(-1, 6)
    return rows[robot.within_limits(rows)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_each_configuration_is_among_the_solutions_of_its_pose(kind: str, seed: int) -> None:
    urdf = random_arm(kind, seed)
    robot = Robot(urdf)
    assert robot.closed_form is not None
    assert robot.closed_form.kind == kind
    sampler, oracle = Sampler(robot), Oracle(urdf, robot)
    for q in robot.random(100, np.random.default_rng(seed)):
        pose = robot.fk(q)
        found = sampler.solve_all(pose)
        assert found.certified, found.message
        assert away(found.q, q).min() < 1e-6
        errors = np.array([oracle.errors(row, pose) for row in found.q])
        assert errors.max() <= 1e-6 + ROUNDING
        assert robot.within_limits(found.q).all()


@pytest.mark.parametrize("name", ["UR5", "UR10e", "Puma 560", "KUKA KR 6 R700", "ABB IRB 120"])
def test_refined_seeds_find_nothing_that_is_missing(name: str) -> None:
    robot = Robot(URDFS[name])
    rng = np.random.default_rng(3)
    for q in robot.random(4, rng):
        pose = robot.fk(q)
        samples = Sampler(robot).sample(pose, 100)
        refined = refine(robot, robot.random(5000, rng), pose)
        found = refined.positions[refined.converged]
        assert len(found) > 500
        assert max(away(samples.q, row).min() for row in found) < 1e-3
        assert samples.message == f"{len(samples)} of 100 distinct solutions, all that exist"


def test_revolutions_are_those_of_brute_force() -> None:
    once, twice = Robot(URDFS["UR5"]), Robot(IN_TWO_TURNS)
    for q in once.random(5, np.random.default_rng(0)):
        pose = once.fk(q)
        roots = Sampler(once).sample(pose, 100).q
        samples = Sampler(twice).sample(pose, 10_000)
        expected = by_brute_force(twice, roots)
        assert samples.n_total == len(samples) == len(expected) == 64 * len(roots)  # each angle in two revolutions
        assert np.allclose(sorted_rows(samples.q), sorted_rows(expected), rtol=0, atol=1e-9)


def test_the_nearest_of_all_turns_come_first() -> None:
    robot = Robot(IN_TWO_TURNS)
    rng = np.random.default_rng(1)
    for q, near in zip(*(robot.random(20, rng) for _ in range(2)), strict=True):
        pose = robot.fk(q)
        everything = Sampler(robot).sample(pose, 10_000).q
        distances = np.sort(np.linalg.norm(everything - near, axis=1))
        samples = Sampler(robot).sample(pose, 7, near=near)
        assert np.allclose(np.linalg.norm(samples.q - near, axis=1), distances[:7], rtol=0, atol=1e-9)
        assert not samples.certified
        assert samples.message == f"7 of 7 distinct solutions of {len(everything)} that exist"


def test_without_anything_to_be_near_to_each_root_comes_before_further_turns_of_any() -> None:
    robot = Robot(IN_TWO_TURNS)
    q = robot.random(1, np.random.default_rng(2))[0]
    roots = Sampler(Robot(URDFS["UR5"])).sample(robot.fk(q), 100).q
    first = Sampler(robot).sample(robot.fk(q), len(roots)).q
    assert np.allclose(sorted_rows(first), sorted_rows(roots), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("q", "fixed"),
    [
        (
            [math.pi, -0.15, 0.16, 2.97, 0.5 * math.pi, 1.2],
            {},
        ),  # both revolutions of joint 1 are equally far from the middle of its limits
        ([0.5 * math.pi, math.pi, -1.5, 1.55, -0.65, math.pi], {"joint4": 1.55}),  # a single root
    ],
)
def test_turns_at_the_ends_of_the_limits_are_counted_once(q: list[float], fixed: dict[str, float]) -> None:
    robot = Robot(URDFS["UR5"])
    sampler, pose, constraints = Sampler(robot), robot.fk(np.array(q)), Constraints(fixed=fixed)
    everything = sampler.with_constraints(constraints).sample(pose, 100)
    assert everything.certified
    for n in range(1, len(everything)):
        some = sampler.with_constraints(constraints).sample(pose, n)
        assert (len(some), some.n_total) == (n, len(everything))
        assert len(np.unique(np.round(some.q, 6), axis=0)) == n


@pytest.mark.filterwarnings("ignore::eim_ros.core.errors.RobotWarning")
def test_of_numbers_beyond_memory_the_first_come() -> None:
    urdf = URDFS["UR5"].replace(repr(math.pi), repr(1000.0 * TURN))
    robot = Robot(urdf)
    near = np.full(6, 1234.5)
    pose = robot.fk(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    samples = Sampler(robot).sample(pose, 50, near=near)
    assert not np.isnan(samples.n_total)
    assert samples.n_total > 1e19
    assert (np.abs(samples.q - near) < 1.5 * TURN).all()
    root = samples.q[0]
    assert (np.abs(root - near) <= math.pi + 1e-9).all()


def test_limits_and_fixed_joints_leave_some_of_the_solutions() -> None:
    robot = Robot(URDFS["UR5"])
    q = robot.random(1, np.random.default_rng(0))[0]
    pose, sampler = robot.fk(q), Sampler(robot)
    everything = sampler.sample(pose, 100).q
    elbow = {"joint3": (0.0, math.pi)}
    some = sampler.with_constraints(limits=elbow).sample(pose, 100)
    assert some.certified
    assert 0 < len(some) < len(everything)
    assert np.allclose(sorted_rows(some.q), sorted_rows(everything[everything[:, 2] >= 0.0]), rtol=0, atol=1e-9)
    fixed = sampler.with_constraints(fixed={"joint2": float(q[1])}).sample(pose, 100)
    assert len(fixed) >= 1
    assert np.allclose(fixed.q[:, 1], q[1], rtol=0, atol=0)


def test_a_pose_of_a_configuration_at_its_limits_is_reached() -> None:
    robot = Robot(URDFS["KUKA KR 6 R700"])
    corner = np.array([math.pi, -0.5, 0.9, -math.pi, 0.7, math.pi])
    samples = Sampler(robot).sample(robot.fk(corner), 200)
    assert samples and samples.valid.all()
    assert np.abs(samples.q - corner).max(axis=1).min() < 1e-5


def test_what_collides_is_left_out_and_counted() -> None:
    robot = arm_of("ur5")
    q = robot.random(1, np.random.default_rng(4))[0]
    pose, sampler = robot.fk(q), Sampler(robot)
    everything = sampler.sample(pose, 100).q
    obstacle = Sphere(robot.skeleton(everything[0])[3], 0.02)  # a ball around the elbow of one solution
    kept = sampler.with_constraints(obstacles=[obstacle]).sample(pose, 100)
    assert kept.certified
    assert 0 < len(kept) < len(everything)
    assert f"; {len(everything) - len(kept)} more solutions collide" in kept.message
    assert away(kept.q, everything[0]).min() > 0.01


@pytest.mark.parametrize(
    ("name", "q"),
    [
        ("UR5", [0.3, -1.0, 1.2, 0.4, 0.0, 0.7]),  # axes 4 and 6 are parallel
        ("KUKA KR 6 R700", [0.3, -1.0, 1.2, 0.4, 0.0, 0.7]),  # axes 4 and 6 coincide
        ("KUKA KR 6 R700", [0.0] * 6),
        ("Puma 560", [0.5, 0.2, 0.4, 0.1, 0.0, 0.2]),
    ],
)
def test_where_joints_may_turn_while_the_tip_stays_it_is_said(name: str, q: list[float]) -> None:
    robot = Robot(URDFS[name])
    samples = Sampler(robot).sample(robot.fk(q), 60, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert np.isnan(samples.n_total)
    assert "can turn there while the tip stays" in samples.message
    assert len(samples) == 60  # there are infinitely many solutions
    assert samples and samples.valid.all()


def test_free_first_joint_of_an_arm_without_shoulder_offset_is_said() -> None:
    """The axes of the wrist meet on the first axis, so the first joint can turn while the tip is fixed."""
    axes = np.array([[0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float64)
    points = np.array([[0, 0, 0], [0, 0, 0.1], [0, 0, 0.5], [0, 0, 0.8], [0, 0, 0.9], [0, 0, 1.0]])
    robot = Robot(urdf_of(axes, points, np.array([0.0, 0.0, 1.1])))
    assert robot.closed_form is not None
    assert robot.closed_form.kind == "axes 2 to 4 are parallel"
    last = math.asin(-0.5 * math.sin(0.5))  # inclination of the last link [rad]
    q = np.array([0.3, 0.5, -1.0, last + 0.5, 0.7, 0.2])
    samples = Sampler(robot).sample(robot.fk(q), 60, timeout=ENOUGH, seed=0)
    assert np.isnan(samples.n_total)
    assert "can turn while the tip stays" in samples.message
    assert len(samples) == 60
    assert samples.valid.all()
    assert np.ptp(samples.q[:, 0]) > math.pi  # the first joint takes very different values


def test_a_stretched_arm_is_at_the_edge_of_its_reach() -> None:
    """Two solutions meet at a stretched elbow. Rounding must not remove both solutions."""
    robot = Robot(URDFS["UR5"])
    q = np.array([0.4, -0.8, 0.0, 0.5, 0.9, -0.3])
    samples = Sampler(robot).sample(robot.fk(q), 100, timeout=ENOUGH, seed=0)
    assert samples and samples.valid.all()
    assert away(samples.q, q).min() < 5e-3  # the pose error is quadratic in the joints there


def test_arms_without_closed_form_are_searched_and_certify_nothing() -> None:
    axes = np.array([[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=np.float64)
    points = np.array([[0, 0, 0], [0, 0, 0.1], [0.1, 0, 0.3], [0.1, 0, 0.7], [0.1, 0, 1.0], [0.1, 0.2, 1.1]])
    robot = Robot(urdf_of(axes, points, np.array([0.1, 0.2, 1.3])))  # axes 1 and 2 coincide
    assert robot.closed_form is None
    samples = Sampler(robot).sample(robot.fk(np.full(6, 0.5)), 20, timeout=ENOUGH, seed=0)
    assert np.isnan(samples.n_total)
    assert not samples.certified
    assert len(samples) >= 1


def rounded(urdf: str, size: float) -> str:
    """Return the URDF of an arm with random errors of this size in its distances [m] and axes."""
    rng = np.random.default_rng(0)

    def shifted(match: re.Match[str]) -> str:
        values = np.array(match[2].split(), dtype=np.float64) + rng.normal(scale=size, size=3)
        return match[1] + " ".join(repr(float(value)) for value in values)

    return re.sub(r'((?:<axis|<origin) xyz=")([^"]*)', shifted, urdf)


@pytest.mark.parametrize("name", ["UR5", "KUKA KR 6 R700", "Puma 560"])
@pytest.mark.parametrize("size", [3e-6, 1e-4])
def test_arms_that_are_not_quite_such_certify_only_where_no_roots_meet(name: str, size: float) -> None:
    urdf = rounded(URDFS[name], size)
    robot, rng = Robot(urdf), np.random.default_rng(1)
    assert robot.closed_form is not None
    assert size / 10.0 < robot.closed_form.deviation < 10.0 * size
    sampler, oracle, n_certified = Sampler(robot), Oracle(urdf, robot), 0
    for q in robot.random(12, rng):
        pose = robot.fk(q)
        samples = sampler.sample(pose, 100, timeout=ENOUGH, seed=0)
        assert max(max(oracle.errors(row, pose)) for row in samples.q) <= 1e-6 + ROUNDING
        assert away(samples.q, q).min() < 0.01
        if samples.certified:
            n_certified += 1
            refined = refine(robot, robot.random(2000, rng), pose, **FINE)
            found = refined.positions[refined.converged]
            assert max(away(samples.q, row).min() for row in found) < 0.01
    assert n_certified >= 1


@pytest.mark.parametrize(
    ("name", "joints"), [("panda", [4, 5, 6, 7]), ("iiwa14", [1, 2, 3, 5, 6, 7])], ids=["panda", "iiwa14"]
)
def test_an_arm_of_seven_joints_with_one_held_has_a_closed_form(name: str, joints: list[int]) -> None:
    """Joint 4 of the iiwa cannot be fixed, because it alone determines the distance from shoulder to wrist."""
    robot, oracle = arm_and_oracle(name)
    rng = np.random.default_rng(0)
    held = [j + 1 for j in range(7) if robot.closed_form_with_fixed(j) is not None]
    assert held == joints
    for joint, q in itertools.product(joints, robot.random(4, rng)):
        pose = robot.fk(q)
        value = float(q[joint - 1])
        constraints = Constraints(fixed={robot.joint_names[joint - 1]: value})
        samples = Sampler(robot).with_constraints(constraints).sample(pose, 100)
        assert samples.certified, samples.message
        assert (samples.q[:, joint - 1] == value).all()
        assert away(samples.q, q).min() < 0.01
        assert max(max(oracle.errors(row, pose)) for row in samples.q) <= 1e-6 + ROUNDING
        seeds = robot.random(2000, rng)
        ends = {"lower": robot.lower.copy(), "upper": robot.upper.copy()}
        for end in ends.values():
            end[joint - 1] = value
        refined = refine(robot, seeds, pose, **ends, **FINE)
        found = refined.positions[refined.converged]
        assert max((away(samples.q, row).min() for row in found), default=0.0) < 0.01


def test_what_asks_for_less_than_a_pose_is_searched() -> None:
    robot = Robot(URDFS["UR5"])
    pose = robot.fk(np.full(6, 0.5))
    free = Constraints(tolerances=[0, 0, 0, 0, 0, math.inf])
    for samples in (
        Sampler(robot).with_constraints(position_only=True).sample(pose, 20, timeout=ENOUGH, seed=0),
        Sampler(robot).with_constraints(free).sample(pose, 20, timeout=ENOUGH, seed=0),
    ):
        assert np.isnan(samples.n_total)
        assert len(samples) == 20


def test_model_supplies_samples_instead_of_the_closed_form() -> None:
    robot = Robot(URDFS["UR5"])
    sampler = Sampler(model=broad_model(robot, "pose"))
    assert sampler.has_preference
    pose = robot.fk(np.full(6, 0.5))
    everything, samples = sampler.solve_all(pose, seed=0), sampler.sample(pose, 100, seed=0)
    assert everything.certified and not samples.certified
    assert 0 < len(samples) <= len(everything)
    assert (samples.expert < sampler.n_experts).all() and (everything.expert == NO_EXPERT).all()
    assert (np.diff(samples.log_prob) <= 0.0).all()


def test_solve_with_a_model_takes_the_closed_form() -> None:
    robot = Robot(URDFS["UR5"])
    sampler = Sampler(model=broad_model(robot, "pose"))
    assert (sampler.solve(robot.fk(np.full(6, 0.5)), seed=0).expert == NO_EXPERT).all()
