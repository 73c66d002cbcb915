"""Self-motions are traced from end to end, answers cover all of them, and claims are limited to proofs or findings."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from ik.arms import iiwa_on_a_turning_joint
from kinematics.robots import resized
from scipy.spatial import cKDTree

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Completeness, Constraints, ErrorCode, Sampler
from eim_ros.ik.order import distance_to, nearest
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics import Box, Robot, pose_from, refine

ARMS = ("panda", "iiwa14")
MISSED = 0.05  # a solution farther than this from all rows of a dense answer is not on its curves [rad]


@functools.lru_cache
def sampler_of(name: str) -> Sampler:
    return Sampler(name)


def truth_of(robot: Robot, pose: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return the solutions that refinement finds from n uniform seeds within the limits."""
    refined = refine(robot, robot.random(n, np.random.default_rng(seed)), pose)
    return refined.positions[refined.converged]


def poses_of(robot: Robot, n: int, seed: int) -> np.ndarray:
    return robot.fk(robot.random(n, np.random.default_rng(seed)))


@pytest.mark.parametrize("name", ARMS)
def test_what_is_said_to_be_complete_leaves_no_solution_out(name: str) -> None:
    sampler = sampler_of(name)
    n_complete = 0
    for index, pose in enumerate(poses_of(sampler.robot, 12, 21)):
        answer = sampler.solve_all(pose, 0.04, guarantee=Completeness(), timeout=60.0, seed=index)
        assert answer.error_code == ErrorCode.SUCCESS
        if not answer.completeness.is_complete:
            continue
        n_complete += 1
        away, _ = cKDTree(answer.q).query(truth_of(sampler.robot, pose, 2000, index))
        assert away.max() < MISSED
    assert n_complete >= 10  # the remaining poses are nearly singular


def test_components_are_those_that_links_of_solutions_tell() -> None:
    """In a dense answer, steps of 0.04 rad connect the points of each component, unless poses are nearly singular."""
    sampler = sampler_of("panda")
    agreed = 0
    for index, pose in enumerate(poses_of(sampler.robot, 12, 23)):
        answer = sampler.solve_all(pose, 0.02, seed=index)
        pairs = cKDTree(answer.q).query_pairs(0.04, output_type="ndarray")
        label = np.arange(len(answer))
        for _ in range(len(answer)):
            lower = label.copy()
            np.minimum.at(lower, pairs[:, 0], label[pairs[:, 1]])
            np.minimum.at(lower, pairs[:, 1], label[pairs[:, 0]])
            if np.array_equal(lower, label):
                break
            label = lower
        agreed += len(np.unique(label)) == answer.completeness.n_components
    assert agreed >= 10  # some components may be closer to each other than a step


def test_solutions_are_no_farther_apart_than_the_separation() -> None:
    sampler = sampler_of("iiwa14")
    pose = poses_of(sampler.robot, 1, 24)[0]
    coarse, fine = (sampler.solve_all(pose, step, seed=0) for step in (0.3, 0.02))
    nearest, _ = cKDTree(coarse.q).query(fine.q)
    assert nearest.max() < 0.5 * 0.3 + 0.02
    least = coarse.completeness.lengths.sum() / 0.3
    assert least <= len(coarse) <= least + coarse.completeness.n_components


def test_few_are_one_of_each_component_and_all_differ() -> None:
    sampler = sampler_of("iiwa14")
    pose = poses_of(sampler.robot, 1, 25)[0]
    n = sampler.sample(pose, seed=0).completeness.n_components
    few = sampler.sample(pose, max(n, 16), seed=0)
    assert len(few) == max(n, 16)
    many = sampler.sample(pose, 1000, seed=0)
    apart = np.abs(many.q[:, None] - many.q).max(axis=-1) + np.eye(len(many))
    assert apart.min() > DISTINCT_TOLERANCE
    assert len(many) > 900


def test_a_bound_that_time_did_not_allow_is_not_claimed() -> None:
    sampler = sampler_of("panda")
    pose = poses_of(sampler.robot, 1, 26)[0]
    answer = sampler.solve_all(pose, guarantee=Completeness(0.999, 1e-6), timeout=0.0, seed=0)
    assert answer.error_code == ErrorCode.TIMED_OUT
    assert not answer.completeness.is_complete
    assert answer.completeness.missed_share > 1e-6
    assert "complete" not in answer.message
    assert answer and answer.valid.all()


def test_without_being_asked_nothing_is_claimed() -> None:
    sampler = sampler_of("panda")
    answer = sampler.sample(poses_of(sampler.robot, 1, 26)[0], seed=0)
    assert not answer.completeness.is_complete
    assert answer.completeness.missed_share > 0.01


def test_the_bound_is_told_in_words() -> None:
    sampler = sampler_of("panda")
    answer = sampler.solve_all(poses_of(sampler.robot, 1, 26)[0], guarantee=Completeness(0.95, 0.01), seed=0)
    assert answer.message.endswith(f"; {answer.completeness.n_components} components, complete with 95 % confidence")


def test_narrower_limits_leave_pieces_of_the_same_curves() -> None:
    sampler = sampler_of("panda")
    robot = sampler.robot
    pose = poses_of(robot, 1, 28)[0]
    everything = sampler.solve_all(pose, 0.02, seed=0).q
    within = Constraints(limits={"panda_joint1": (-1.0, 1.0), "panda_joint7": (-2.0, 0.5)})
    some = sampler.with_constraints(within).solve_all(pose, 0.02, seed=0).q
    expected = everything[(np.abs(everything[:, 0]) <= 1.0) & (everything[:, 6] >= -2.0) & (everything[:, 6] <= 0.5)]
    assert len(expected) > 10
    assert cKDTree(some).query(expected)[0].max() < 0.03
    assert cKDTree(everything).query(some)[0].max() < 0.03


def test_revolutions_are_found_where_limits_are_wide() -> None:
    robot = Robot("xarm7")  # four of its joints turn by two revolutions
    pose = poses_of(robot, 1, 29)[0]
    answer = Sampler(robot).solve_all(pose, 0.1, seed=0)
    away, _ = cKDTree(answer.q).query(truth_of(robot, pose, 1500, 0))
    assert away.max() < 0.1


def test_no_solution_collides_where_none_may() -> None:
    sampler = sampler_of("panda")
    constraints = Constraints(obstacles=(Box(pose_from([0.2, 0.35, 0.6]), (0.2, 0.2, 0.4)),))
    pose = pose_from([0.5, 0.0, 0.5], [1.0, 0.0, 0.0, 0.0])
    free, answer = (sampler.with_constraints(asked).sample(pose, 40, seed=0) for asked in (None, constraints))
    colliding = constraints.scene(sampler.robot).colliding(free.q)
    assert 0 < colliding.sum() < 40
    assert answer and answer.valid.all()
    assert len(answer) == 40
    assert not constraints.scene(sampler.robot).colliding(answer.q).any()
    near = free.q[np.argmax(colliding)]
    nearest = sampler.with_constraints(constraints).sample(pose, 1, near=near, seed=0).q[0]
    assert not constraints.scene(sampler.robot).colliding(nearest[None])[0]
    distances = np.linalg.norm(answer.q - near, axis=1)
    assert np.linalg.norm(nearest - near) <= distances.min() + 0.01  # none of the 40 solutions is much nearer


def test_joint_that_wraps_is_near_at_either_end_of_narrower_limits() -> None:
    """The range of a continuous joint is opposite to the reference, so both ends are about equally far away."""
    sampler = sampler_of("gen3")
    robot, rng = sampler.robot, np.random.default_rng(34)
    for index, pose in enumerate(poses_of(robot, 8, 34)):
        near = robot.random(1, rng)[0]
        around = (near[0] + 2.0 * math.pi) % (2.0 * math.pi) - math.pi  # opposite
        ends = max(around - 0.8, -math.pi), min(around + 0.8, math.pi)
        narrowed = sampler.with_constraints(limits={robot.joint_names[0]: ends})
        found = narrowed.solve(pose, near, seed=index)
        dense = narrowed.solve_all(pose, 0.01, guarantee=Completeness(), near=near, seed=index).q
        least = distance_to(robot, dense, near).min()
        assert distance_to(robot, found.q, near)[0] <= least + 1e-4  # a solution at a limit may be slightly inside


@pytest.mark.parametrize("max_spacing", [None, 0.1, 0.01])
def test_what_comes_with_the_nearest_and_what_is_evenly_apart_differs(max_spacing: float | None) -> None:
    sampler = Sampler("sawyer")
    robot, rng = sampler.robot, np.random.default_rng(33)
    for pose in (*poses_of(robot, 4, 33), robot.fk(np.zeros(robot.dof))):
        near = robot.random(1, rng)[0]
        if max_spacing is None:
            rows, alike = sampler.sample(pose, 100, near=near, seed=0).q, 0.01
        else:
            rows = sampler.solve_all(pose, max_spacing, near=near, max_solutions=100_000, seed=0).q
            alike = min(0.01, max_spacing / (4.0 * math.sqrt(robot.dof)))
        assert not cKDTree(rows).query_pairs(alike, p=np.inf)


def test_a_solution_next_to_where_the_robot_is_needs_no_search() -> None:
    sampler = sampler_of("iiwa14")
    robot, rng = sampler.robot, np.random.default_rng(32)
    q = robot.random(1, rng)[0]
    near = np.clip(q + rng.normal(0.0, 0.02, robot.dof), robot.lower, robot.upper)
    answer = sampler.sample(robot.fk(q[None])[0], 1, near=near)
    assert np.linalg.norm(answer.q[0] - near) <= np.linalg.norm(q - near)
    assert answer.completeness is None


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, np.nan, "some"])
def test_shares_and_confidences_between_0_and_1_only(share: float) -> None:
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        Completeness(missed_share=share)
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        Completeness(confidence=share)


@pytest.mark.parametrize("separation", [0.0, -1.0, np.inf, "far"])
def test_separations_that_can_be_kept_only(separation: float) -> None:
    with pytest.raises(ConfigurationError, match="max_spacing"):
        sampler_of("panda").solve_all(np.eye(4), separation)


def test_until_is_refused_where_nothing_could_be_said() -> None:
    with pytest.raises(ConfigurationError, match="curves"):
        sampler_of("panda").solve_all([0.4, 0.1, 0.5], guarantee=Completeness())


def test_near_duplicates_are_made_up_for() -> None:
    """If two revolutions of a joint meet at its limits, solutions of two components may be near-duplicates."""
    robot = Robot("sawyer")
    pose = robot.fk(np.clip(np.zeros(7), robot.lower, robot.upper))
    for n in (50, 100, 200):
        samples = Sampler(robot).sample(pose, n, seed=0)
        assert len(samples) == n
        assert samples and samples.valid.all()


def test_an_arm_with_one_joint_held_has_the_components_of_the_arm_on_it() -> None:
    """The value of the fixed joint cannot be represented in single precision."""
    arm, below = Robot("iiwa14"), iiwa_on_a_turning_joint()
    held = 0.1234567890123
    base = below.fk(np.r_[held, np.zeros(7)]) @ np.linalg.inv(arm.fk(np.zeros(7)))
    for index, pose in enumerate(poses_of(arm, 3, 33)):
        alone = sampler_of("iiwa14").sample(pose, 200, seed=index).completeness
        held_there = Constraints(fixed={"turn": held})
        joined = Sampler(below).with_constraints(held_there).sample(base @ pose, 200, seed=index)
        assert (joined.q[:, 0] == held).all()
        np.testing.assert_allclose(np.sort(joined.completeness.lengths), np.sort(alone.lengths), rtol=1e-3, atol=1e-3)


SINGULAR = {  # solutions form surfaces, double curves, or almost a single point
    "stretched out": ("iiwa14", np.zeros(7)),
    "elbow stretched": ("iiwa14", np.array([0.3, 0.5, 0.2, 0.0, 0.4, 0.8, 0.1])),
    "shoulder and wrist aligned": ("iiwa14", np.array([0.3, 0.0, 0.2, -0.9, 0.4, 0.0, 0.1])),
    "nearly stretched out": ("gen3", np.zeros(7)),
}


@pytest.mark.parametrize("case", SINGULAR)
@pytest.mark.parametrize("until", [None, Completeness()])
def test_what_is_singular_is_counted_once_and_not_called_complete(case: str, until: Completeness | None) -> None:
    name, q = SINGULAR[case]
    sampler = sampler_of(name)
    if until is None:
        answer = sampler.sample(sampler.robot.fk(q), 100, timeout=60.0, seed=0)
    else:
        answer = sampler.solve_all(sampler.robot.fk(q), guarantee=until, timeout=60.0, seed=0)
    assert answer.error_code == ErrorCode.SUCCESS
    found = answer.completeness
    assert not found.is_complete
    assert np.count_nonzero(~found.traced) == 1
    assert found.n_components <= 20
    assert found.is_singular == (case != "elbow stretched")  # these curves meet, but form no surface
    expected = "not all solutions were returned" if found.is_singular else "near a singularity"
    assert expected in answer.message
    if until is not None:  # the tolerances allow regions that are smaller than the default spacing
        closer = sampler.solve_all(sampler.robot.fk(q), 0.01, until, timeout=60.0, seed=0)
        assert len(closer) >= 100 and not closer.completeness.is_complete
    assert len(answer) == 100 if until is None else len(answer) > 2  # distinct solutions within tolerances
    assert answer and answer.valid.all()
    apart = np.abs(answer.q[:, None] - answer.q).max(axis=-1) + np.eye(len(answer))
    assert apart.min() > DISTINCT_TOLERANCE


@pytest.mark.parametrize("n", [200, 2000])
def test_answer_to_an_aligned_shoulder_and_wrist_says_that_it_is_a_part(n: int) -> None:
    """Joints 1 and 3 can turn against each other, and so can 5 and 7. No number of solutions covers this surface."""
    name, q = SINGULAR["shoulder and wrist aligned"]
    sampler = sampler_of(name)
    answer = sampler.sample(sampler.robot.fk(q), n, timeout=60.0, seed=0)
    assert "not all solutions were returned" in answer.message
    more = sampler.sample(
        sampler.robot.fk(q), n, timeout=60.0, seed=1
    )  # another seed finds other points of the surface
    away, _ = nearest(sampler.robot, more.q, answer.q)
    assert (away > 0.3).any()


def test_regular_pose_is_not_called_singular() -> None:
    sampler, (_, q) = sampler_of("iiwa14"), SINGULAR["shoulder and wrist aligned"]
    regular = q + [0.0, 0.6, 0.0, 0.0, 0.0, 0.7, 0.0]
    answer = sampler.sample(sampler.robot.fk(regular), 200, timeout=60.0, seed=0)
    assert not answer.completeness.is_singular
    assert "singular" not in answer.message


@pytest.mark.parametrize("factor", [1e-3, 50.0])
def test_components_of_arms_of_any_size_are_those_of_the_arm(factor: float) -> None:
    """The arm has no closed form, so all components are traced."""
    arm, other = (Sampler(resized("xarm7", size)) for size in (1.0, factor))
    for index, q in enumerate(arm.robot.random(3, np.random.default_rng(23))):
        found, same = (
            sampler.solve_all(sampler.robot.fk(q), guarantee=Completeness(), timeout=60.0, seed=index).completeness
            for sampler in (arm, other)
        )
        assert found.is_complete
        assert same.is_complete
        np.testing.assert_allclose(np.sort(same.lengths), np.sort(found.lengths), atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_component_along_a_limit_is_found_and_nothing_is_called_complete(seed: int) -> None:
    """With joint 2 at zero, joints 1 and 3 can turn against each other while joint 4 stays at its limit."""
    sampler = sampler_of("panda")
    robot = sampler.robot
    q = np.clip([0.4, 0.0, 0.3, 0.0, 0.2, 0.0, 0.1], robot.lower, robot.upper)
    answer = sampler.solve_all(robot.fk(q), 0.05, guarantee=Completeness(), timeout=60.0, seed=seed)
    assert answer.error_code == ErrorCode.SUCCESS
    assert not answer.completeness.is_complete
    assert "touches a limit" in answer.message
    turned = np.linspace(-2.0, 2.0, 41)[:, None] * [1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0]
    away, _ = cKDTree(answer.q).query(q + turned)
    assert away.max() < 0.2  # within the limits, some points cannot be moved onto the pose


@pytest.mark.parametrize(
    ("name", "constraints"),
    [("gen3", None), ("ur5", None), ("iiwa14", Constraints(fixed={"joint_a5": 0.0}))],
    ids=["curves", "points", "points of a held joint"],
)
def test_where_the_arm_is_singular_solutions_are_as_far_apart_as_asked(
    name: str, constraints: Constraints | None
) -> None:
    robot = sampler_of(name).robot
    pose = robot.fk(np.zeros(robot.dof))
    answer = sampler_of(name).with_constraints(constraints).solve_all(pose, 0.3, timeout=60.0, seed=0)
    assert answer.error_code == ErrorCode.SUCCESS
    assert answer and answer.valid.all()
    assert 1 < len(answer) < 1000
    apart = np.abs(answer.q[:, None] - answer.q).max(axis=-1) + np.eye(len(answer))
    has_curves = answer.completeness is not None and bool(answer.completeness.lengths.any())
    assert apart.min() > (0.01 if has_curves else 0.3)  # on a curve, the spacing is an upper bound
    restarts = sampler_of(name).with_constraints(constraints).sample(pose, 600, timeout=60.0, seed=1, diversity=0.0)
    truth = restarts.q[restarts.valid]
    assert np.abs(truth[:, None] - answer.q).max(axis=-1).min(axis=1).max() < 0.4


def test_curves_that_lead_along_aligned_axes_are_traced_as_any() -> None:
    """Two aligned joints can turn against each other, which adds a direction of motion.

    Here, the axes align only at single points of the curves.
    """
    sampler = sampler_of("iiwa14")
    answer = sampler.sample(sampler.robot.fk(np.array([0.3, 0.0, 0.2, -0.9, 0.4, 0.8, 0.1])), 100, seed=0)
    assert answer.completeness.traced.all()
    assert answer and answer.valid.all()


def test_a_root_that_newtons_method_comes_close_to_but_not_onto_is_given_up() -> None:
    pose = np.array(
        [
            [0.7766225509124866, 0.11365922107211884, -0.6196281101430614, -0.5590092855230353],
            [-0.1343887594015738, 0.9908392624006297, 0.0133123037781634, 0.0365156017336811],
            [0.6154649256949486, 0.07293241769374854, 0.7847826372242547, 0.9929182069317252],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )  # a singular pose at which the search of an earlier version did not end
    assert sampler_of("gen3").sample(pose, 30, seed=32224551).valid.all()
