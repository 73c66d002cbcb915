"""If a pose leaves a joint of an arm with a closed form free, solutions form curves, and none is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ik.arms import arm_of
from kinematics.oracle import Oracle
from kinematics.six_joint_arms import KINDS, URDFS, random_arm

from benchmarks.invariants import SPACING, checked, distance
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot, Sphere

ENOUGH = 60.0  # [s]
ROUNDING = 1e-9  # rounding error of pinocchio's logarithm [rad, m]
EQUAL = 1e-4  # largest distance between solutions that count as equal [rad]
UR, WRIST = "UR5", "Puma 560"
TWO_TURNS = "UR5, two turns"
SPECIAL = (0.0, math.pi, -math.pi)


def aligned(name: str, seed: int, fifth: float = 0.0) -> tuple[Sampler, np.ndarray]:
    """Return a sampler and a random configuration (6,), whose wrist is aligned if `fifth` is 0."""
    robot = Robot(URDFS[name])
    q = robot.random(1, np.random.default_rng(seed))[0]
    q[4] = fifth
    return Sampler(robot), q


@pytest.mark.parametrize("name", [UR, "UR10e", TWO_TURNS, WRIST, "KUKA KR 6 R700", "ABB IRB 120"])
@pytest.mark.parametrize("seed", range(4))
def test_solutions_of_an_aligned_wrist_are_curves_and_complete(name: str, seed: int) -> None:
    sampler, q = aligned(name, seed)
    robot, oracle = sampler.robot, Oracle(URDFS[name], sampler.robot)
    pose = robot.fk(q)
    found = sampler.solve_all(pose, SPACING, seed=seed, timeout=ENOUGH)
    assert found.is_complete and found.certified, found.message
    assert found.completeness is not None and found.completeness.lengths.any()
    assert "can turn there while the tip stays" in found.message
    assert np.isnan(found.n_total)
    assert distance(robot, found.q, q) <= SPACING
    assert robot.within_limits(found.q).all()
    rows = found.q[:: max(1, len(found) // 50)]
    assert max(max(oracle.errors(row, pose)) for row in rows) <= 1e-6 + ROUNDING


@pytest.mark.parametrize("name", [UR, WRIST, TWO_TURNS])
def test_curves_of_an_aligned_wrist_contain_all_configurations_that_reach_the_pose(name: str) -> None:
    """The answer also covers other points of the curve through q, found by fixing the free joint at many angles."""
    sampler, q = aligned(name, 7)
    robot, pose = sampler.robot, sampler.robot.fk(q)
    found = sampler.solve_all(pose, SPACING, seed=0, timeout=ENOUGH)
    n_members = 0
    for angle in np.linspace(-math.pi, math.pi, 60):
        seeds = robot.random(30, np.random.default_rng(3))
        seeds[:, 5] = angle
        fixed = sampler.with_constraints(fixed={robot.joint_names[5]: float(angle)})
        task = fixed._setup.task(pose, False)
        rows = robot.chain.refine(task, fixed._setup.effort_of(50), seeds)[0]
        members = rows[robot.chain.verify(task, rows)[1]]
        n_members += len(members)
        for row in members:
            assert distance(robot, found.q, row) <= SPACING
    assert n_members > 100


@pytest.mark.parametrize("name", [UR, TWO_TURNS, WRIST, "ABB IRB 120"])
@pytest.mark.parametrize("fifth", [0.0, math.pi, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3])
def test_nearest_solution_where_the_wrist_is_aligned_is_the_reference(name: str, fifth: float) -> None:
    sampler, q = aligned(name, 3, fifth)
    pose = sampler.robot.fk(q)
    nearest = sampler.solve(pose, near=q, seed=0, timeout=ENOUGH)
    assert np.abs(nearest.q[0] - q).max() < 1e-6
    rng = np.random.default_rng(1)
    for _ in range(5):
        reference = np.clip(q + rng.uniform(-0.1, 0.1, 6), sampler.robot.lower, sampler.robot.upper)
        other = sampler.solve(pose, near=reference, seed=0, timeout=ENOUGH)
        # the nearest point on a cubic along the curve has an error of second order
        assert np.linalg.norm(other.q[0] - reference) <= np.linalg.norm(q - reference) + 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_claims_of_random_arms_at_special_configurations_are_true(kind: str, seed: int) -> None:
    counts = checked(Sampler(Robot(random_arm(kind, seed))), 40, seed)
    assert not counts.n_wrong, counts.examples


@pytest.mark.parametrize("name", [UR, "UR10e", WRIST, "KUKA KR 6 R700", "ABB IRB 120", TWO_TURNS])
def test_claims_of_known_arms_at_special_configurations_are_true(name: str) -> None:
    counts = checked(Sampler(Robot(URDFS[name])), 150, 5)
    assert not counts.n_wrong, counts.examples
    assert counts.complete >= 0.9 * counts.checked  # 97 % in a run with 2000 configurations


def test_claims_of_six_joints_with_equal_links_are_true() -> None:
    """If the elbow is folded, the wrist centre is at the shoulder, so two joints are free."""
    counts = checked(Sampler(arm_of("six_joints")), 150, 2)
    assert not counts.n_wrong, counts.examples


@pytest.mark.parametrize("folded", [1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_elbows_folded_to_both_sides_of_half_a_turn_are_two_solutions(folded: float, side: float) -> None:
    sampler = Sampler(Robot(URDFS[UR]))
    q = np.array([0.3, -1.2, side * (math.pi - folded), -0.8, 1.1, 0.2])
    found = sampler.solve_all(sampler.robot.fk(q), seed=0, timeout=ENOUGH)
    assert found.is_complete
    assert distance(sampler.robot, found.q, q) < EQUAL
    elbows = found.q[np.abs(found.q[:, 0] - q[0]) < 0.01][:, 2]
    assert (elbows > 3.0).any() and (elbows < -3.0).any()


def test_solve_all_keeps_solutions_that_differ_by_less_than_a_sample_does() -> None:
    sampler = Sampler(Robot(URDFS[UR]))
    q = np.array([0.4, -0.8, 0.004, 0.5, 0.9, -0.3])  # the elbow is nearly straight
    pose = sampler.robot.fk(q)
    everything, sample = sampler.solve_all(pose, seed=0), sampler.sample(pose, 50, seed=0)
    assert everything.n_total == len(everything) == sample.n_total
    assert len(sample) < len(everything)  # rows of a sample differ by 0.01 rad
    gaps = np.abs(sample.q[:, None] - sample.q).max(axis=2)[~np.eye(len(sample), dtype=bool)]
    assert gaps.min() > 0.01
    assert sample.error_code == ErrorCode.SUCCESS


def test_wrist_centre_above_the_shoulder_frees_the_first_joint() -> None:
    robot = arm_of("six_joints")
    q = np.array([0.7, -0.6, 1.2, 0.3, 0.5, 0.2])  # both links are 0.4 m long, so the wrist centre is on the first axis
    found = Sampler(robot).solve_all(robot.fk(q), SPACING, seed=0, timeout=ENOUGH)
    assert robot.joint_names[0] in found.message
    assert found.certified
    assert distance(robot, found.q, q) <= SPACING


@pytest.mark.parametrize("n", [1, 3, 40])
def test_samples_of_an_aligned_wrist_are_valid_and_distinct(n: int) -> None:
    sampler, q = aligned(UR, 1)
    pose = sampler.robot.fk(q)
    samples = sampler.sample(pose, n, seed=0, timeout=ENOUGH)
    assert len(samples) == n and samples.valid.all()
    assert np.array_equal(samples.q, sampler.sample(pose, n, seed=0, timeout=ENOUGH).q)
    batch = sampler.sample_batch([pose], n, seed=0, timeout=ENOUGH)
    assert np.array_equal(batch.q, samples.q)


def test_obstacles_remove_solutions_from_curves() -> None:
    sampler = Sampler("ur5e")
    pose = sampler.robot.fk(np.array([0.3, -1.0, 1.2, 0.4, 0.0, 0.7]))
    free = sampler.solve_all(pose, 0.1, seed=0, timeout=ENOUGH)
    among = sampler.with_obstacles([Sphere([0.3, 0.3, 0.3], 0.15)])
    found = among.solve_all(pose, 0.1, seed=0, timeout=ENOUGH)
    assert 0 < len(found) < len(free)
    assert not among.constraints.scene(among.robot).colliding(found.q).any()


def test_six_joints_left_by_a_fixed_one_have_curves_too() -> None:
    """With joint 6 at 0, the wrist of an iiwa14 is aligned."""
    sampler = Sampler("iiwa14")
    name = sampler.robot.joint_names[2]
    for q in sampler.robot.random(10, np.random.default_rng(0)):
        q[5] = 0.0
        found = sampler.with_constraints(fixed={name: float(q[2])}).solve_all(
            sampler.robot.fk(q), SPACING, seed=0, timeout=ENOUGH
        )
        assert found.is_complete, found.message
        assert distance(sampler.robot, found.q, q) <= SPACING


def test_more_solutions_than_allowed_are_farther_apart_and_not_called_complete() -> None:
    sampler, q = aligned(TWO_TURNS, 2)
    found = sampler.solve_all(sampler.robot.fk(q), 0.01, max_solutions=200, seed=0, timeout=ENOUGH)
    assert 0 < len(found) <= 200
    assert not found.is_complete


def test_tight_tolerances_keep_every_row_within_them() -> None:
    sampler, q = aligned(UR, 4, 2e-7)
    sampler = sampler.with_constraints(position_tolerance=1e-9, orientation_tolerance=1e-9)
    found = sampler.solve_all(sampler.robot.fk(q), SPACING, seed=0, timeout=ENOUGH)
    assert (found.orientation_error <= 1e-9).all() and (found.position_error <= 1e-9).all()
    assert not found.is_complete or distance(sampler.robot, found.q, q) <= SPACING


@pytest.mark.parametrize(
    ("name", "words", "seed"),
    [  # failures that benchmarks/invariants.py found
        ("ur5", "0x1.93716c32a2c4dp+0 0x1.0c152382d7365p-2 -pi -pi 0x1.921f8eb45a416p+1 0x1.f390cef4aadd8p-2", 0),
        ("ur10e", "-0x1.2d97c7f3321d2p+1 pi -pi -0x1.07be7e3a19f2fp+1 -0x1.921f88b192090p+1 0x1.d524fe24f89f2p+0", 0),
        (
            "xarm7",
            "0x1.66b2ac89d722cp+1 0x1.945d2efe769b7p+0 0x1.0c04027318e93p+0 0 pi 0x1.62d5c1bd8bf9dp+0 -pi",
            300133,
        ),
    ],
)
def test_errors_do_not_decide_which_side_of_a_limit_a_claim_counts(name: str, words: str, seed: int) -> None:
    """Two joints are at limits. The elbow is folded and the wrist aligned, or the self-motion is a single point."""
    values = {"pi": math.pi, "-pi": -math.pi}
    q = np.array([values[word] if word in values else float.fromhex(word) for word in words.split()])
    sampler = Sampler(arm_of(name))
    pose = sampler.robot.fk(q)
    for guarantee in (None, "certified"):
        found = sampler.solve_all(pose, SPACING, guarantee=guarantee, seed=seed, timeout=5.0)
        if found.is_complete:
            assert distance(sampler.robot, found.q, q) <= (EQUAL if sampler.robot.dof == 6 else SPACING)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_continuous_joints_of_the_nearest_solution_take_the_short_way(side: float) -> None:
    sampler = Sampler(arm_of("gen3"))
    q = np.array([side * 3.13, 0.4, 0.3, -1.0, side * 3.1, 0.8, 0.2])
    reference = q + np.array([0.05, 0.0, 0.0, 0.0, 0.08, 0.0, 0.0]) * side  # some joints are beyond half a turn
    nearest = sampler.solve(sampler.robot.fk(q), near=reference, seed=0, timeout=ENOUGH).q[0]
    assert np.linalg.norm(nearest - reference) <= np.linalg.norm(q - reference) + EQUAL
