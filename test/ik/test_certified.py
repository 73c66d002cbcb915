"""A closed form with one fixed joint certifies that no component is missing. It reports doubtful cases."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from kinematics.descriptions import chain_urdf, joint
from kinematics.seven_revolute_arms import calibrated, random_seven
from scipy.spatial import cKDTree

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Completeness, Constraints, ErrorCode, Sampler, Solutions
from eim_ros.kinematics import Robot, pose_from, refine

ARMS = ("panda", "iiwa14")
MISSED = 0.05  # a solution farther than this from all rows of a dense answer is not on its curves [rad]
DENSE = 0.04  # spacing of a dense answer [rad]


@functools.lru_cache
def sampler_of(name: str) -> Sampler:
    return Sampler(name)


def poses_of(robot: Robot, n: int, seed: int) -> np.ndarray:
    return robot.fk(robot.random(n, np.random.default_rng(seed)))


def embedded(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Return configurations with sine and cosine of each continuous joint, so that distances are those on circles."""
    circles = [np.sin(q[:, robot.continuous]), np.cos(q[:, robot.continuous])]
    return np.concatenate([q[:, ~robot.continuous], *circles], axis=1)


def farthest_missed(sampler: Sampler, answer: Solutions, pose: np.ndarray, n: int, constraints: Constraints) -> float:
    """Refine n seeds within the limits, and return the largest distance of a solution from the answer [rad]."""
    robot = sampler.robot
    lower, upper = constraints.bounds(robot)
    seeds = np.random.default_rng(0).uniform(lower, upper, (n, robot.dof))
    refined = refine(robot, seeds, pose, lower=lower, upper=upper)
    found = refined.positions[refined.converged]
    if not len(found):
        return 0.0
    if not answer.valid.any():
        return math.inf
    return float(cKDTree(embedded(robot, answer.q)).query(embedded(robot, found))[0].max())


@pytest.mark.parametrize("name", ARMS)
def test_certified_components_are_those_that_tracing_finds(name: str) -> None:
    sampler = sampler_of(name)
    n_compared = 0
    for index, pose in enumerate(poses_of(sampler.robot, 25, 41)):
        proven = sampler.solve_all(pose, guarantee="certified")
        assert proven.certified, proven.message
        assert proven.completeness.is_complete
        assert proven.completeness.missed_share == 0.0
        traced = sampler.sample(pose, 20, diversity=1.0, seed=index).completeness
        if not traced.traced.all():
            continue  # nearly singular: the curves are known, but cannot be traced
        n_compared += 1
        lengths = np.sort(proven.completeness.lengths), np.sort(traced.lengths)
        np.testing.assert_allclose(*lengths, atol=0.01)  # the cubics are within 0.001 rad of the curves
        assert proven.completeness.closed.sum() == traced.closed.sum()
    assert n_compared >= 22


NARROWER = {  # limits by index of the joint [rad]
    "panda": {0: (-1.0, 2.0), 3: (-2.5, -1.0), 6: (-1.0, 2.5)},
    "iiwa14": {0: (-1.5, 1.0), 5: (-1.0, 2.0), 6: (-2.0, 2.0)},
}


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("how", ["as it is", "narrower limits", "with a tool"])
def test_no_refined_seed_is_off_the_certified_components(name: str, how: str) -> None:
    sampler, constraints = sampler_of(name), Constraints()
    if how == "with a tool":
        sampler = sampler.with_tool(pose_from([0.05, -0.1, 0.15], rpy=[0.4, -0.3, 1.0]))
    if how == "narrower limits":
        names = sampler.robot.joint_names
        constraints = Constraints(limits={names[i]: ends for i, ends in NARROWER[name].items()})
    robot = sampler.robot
    lower, upper = constraints.bounds(robot)
    for q in np.random.default_rng(42).uniform(lower, upper, (6, 7)):
        pose = robot.fk(q)
        answer = sampler.with_constraints(constraints).solve_all(pose, DENSE, guarantee="certified", seed=0)
        assert answer.certified, answer.message
        assert answer and answer.valid.all()
        assert robot.within_limits(answer.q).all()
        assert farthest_missed(sampler, answer, pose, 1500, constraints) < MISSED


def random_arm(seed: int, ball_first: bool, continuous: tuple[int, ...] = ()) -> Robot:
    """Return a random arm in which three axes at one end meet in a point, and two axes near the other end meet."""
    rng = np.random.default_rng(seed)
    meets = (1, 2, 5) if ball_first else (2, 5, 6)  # joints that share the origin of the previous joint
    joints = []
    for i in range(7):
        axis, xyz = rng.normal(size=3), 0.0 * np.ones(3) if i in meets else rng.uniform(-0.3, 0.3, 3)
        words = [" ".join(map(str, values)) for values in (xyz, axis)]
        extra = f'<origin xyz="{words[0]}"/><axis xyz="{words[1]}"/>'
        if i not in continuous:
            extra += '<limit lower="-2.5" upper="2.5" effort="1" velocity="1"/>'
        joints.append(joint(f"j{i}", "continuous" if i in continuous else "revolute", f"l{i}", f"l{i + 1}", extra))
    return Robot(chain_urdf(*joints))


@pytest.mark.parametrize("ball_first", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_arms_of_random_axes_are_certified(ball_first: bool, seed: int) -> None:
    held = 6 if ball_first else 0
    robot = random_arm(seed, ball_first, continuous=((), (held,), (held, 3), (1, 2, 4))[seed])
    sampler = Sampler(robot)
    n_certified = 0
    for pose in poses_of(robot, 3, seed):
        answer = sampler.solve_all(pose, DENSE, guarantee="certified", seed=0)
        n_certified += answer.certified
        assert answer and answer.valid.all()
        assert farthest_missed(sampler, answer, pose, 1000, Constraints()) < MISSED
    assert n_certified >= 2


def test_nothing_depends_on_the_random_seed_but_where_on_curves_the_answer_is() -> None:
    sampler = sampler_of("iiwa14")
    pose = poses_of(sampler.robot, 1, 43)[0]
    first, second = (sampler.solve_all(pose, guarantee="certified", seed=seed).completeness for seed in (0, 1))
    np.testing.assert_array_equal(first.lengths, second.lengths)


@pytest.mark.parametrize("q", [np.zeros(7), np.array([0.3, 0.5, 0.2, 0.0, 0.4, 0.8, 0.1])])
def test_singular_poses_are_not_certified(q: np.ndarray) -> None:
    """The elbow of a stretched arm cannot move while the tip is fixed. Solutions form surfaces or a single point."""
    sampler = sampler_of("iiwa14")
    answer = sampler.solve_all(sampler.robot.fk(q), guarantee="certified", max_solutions=200, seed=0)
    assert not answer.certified
    assert "not certified" in answer.message
    assert answer and answer.valid.all()
    assert len(answer) > 0


def test_that_there_is_no_solution_is_certified() -> None:
    sampler = sampler_of("panda")
    for away in (0.95, 3.0):  # the limits exclude the first pose, and the second is out of reach
        answer = sampler.solve_all(pose_from([0.0, 0.0, away], [0.0, 0.0, 1.0, 0.0]), guarantee="certified", seed=0)
        assert answer.error_code == ErrorCode.NO_IK_SOLUTION
        assert answer.certified
        assert "there is no solution" in answer.message


def test_a_bound_that_tracing_cannot_give_is_given_by_closed_form() -> None:
    sampler = sampler_of("panda")
    for pose in poses_of(sampler.robot, 300, 0):
        if sampler.sample(pose, 20, seed=0).completeness.traced.all():
            continue
        answer = sampler.solve_all(pose, guarantee=Completeness(), seed=0)
        assert answer.error_code == ErrorCode.SUCCESS
        assert answer.completeness.is_complete
        assert answer.completeness.certified
        return
    pytest.fail("no pose is close to singular")


def test_the_nearest_and_draws_are_those_of_certified_components() -> None:
    sampler = sampler_of("panda")
    robot, pose = sampler.robot, poses_of(sampler.robot, 1, 45)[0]
    dense = sampler.solve_all(pose, 0.01, guarantee="certified", seed=0)
    near = robot.random(1, np.random.default_rng(45))[0]
    ordered = sampler.solve_all(pose, guarantee="certified", near=near, seed=0)
    distances = np.linalg.norm(ordered.q - near, axis=1)
    assert ordered.certified and (np.diff(distances) >= 0.0).all()
    nearest = sampler.solve(pose, near, timeout=60.0, seed=0)
    least = min(distances[0], np.linalg.norm(dense.q - near, axis=1).min())
    assert np.linalg.norm(nearest[0] - near) <= least + 1e-9
    drawn = sampler.draw(pose, 50, guarantee="certified", seed=0)
    assert drawn.certified
    assert cKDTree(dense.q).query(drawn.q)[0].max() < 0.02


@pytest.mark.parametrize(
    ("name", "pose", "options", "expected"),
    [
        ("planar5", np.eye(4), {}, "seven revolute joints"),
        ("panda", [0.4, 0.1, 0.5], {}, "closed form"),
        ("panda", np.eye(4), {"tolerances": (0, 0, 0, 0, 0, 0.1)}, "closed form"),
    ],
)
def test_what_cannot_be_certified_is_refused(name: str, pose: object, options: dict, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        sampler_of(name).with_constraints(**options).solve_all(pose, guarantee="certified")


def test_limits_of_more_than_a_turn_are_certified() -> None:
    turning = '<limit lower="-6.5" upper="6.5" effort="1" velocity="1"/>'
    urdf = chain_urdf(
        *(
            joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>{turning}')
            for i, (axis, xyz) in enumerate(
                zip(
                    ("0 0 1", "0 1 0") * 3 + ("0 0 1",),
                    ("0 0 .3", "0 0 0", "0 0 .4", "0 0 0", "0 0 .4", "0 0 0", "0 0 0"),
                    strict=True,
                )
            )
        )
    )
    sampler = Sampler(Robot(urdf))
    pose = sampler.robot.fk(np.array([0.3, 0.8, -0.4, 1.1, 0.6, -0.9, 0.2]))
    narrow = Constraints(limits={f"j{i}": (-3.0, 3.0) for i in range(7)})
    wanted = {"guarantee": "certified", "max_solutions": 100_000, "max_spacing": 1.0, "timeout": 60.0}
    within = sampler.with_constraints(narrow).solve_all(pose, **wanted)
    answer = sampler.solve_all(pose, **wanted)
    assert within.certified and answer.certified, answer.message
    assert answer.completeness.n_components > within.completeness.n_components
    assert np.abs(answer.q).max() > np.pi


@pytest.mark.parametrize("name", ["xarm7", "sawyer", "fetch"])
def test_included_arms_of_seven_joints_are_certified(name: str) -> None:
    robot = Robot(name, base="torso_lift_link") if name == "fetch" else Robot(name)
    sampler, n_certified = Sampler(robot), 0
    for pose in poses_of(robot, 4, 46):
        answer = sampler.solve_all(pose, DENSE, guarantee="certified", seed=0, max_solutions=100_000, timeout=60.0)
        n_certified += answer.certified
        if answer.certified:
            assert farthest_missed(sampler, answer, pose, 1000, Constraints()) < MISSED
    assert n_certified >= 3


@pytest.mark.parametrize(
    ("name", "off"), [("gen3", 0.0), ("panda", 1e-5), ("panda", 1e-3), ("iiwa14", 1e-3), ("xarm7", 1e-5)]
)
def test_arms_whose_axes_nearly_meet_are_certified(name: str, off: float) -> None:
    """Such arms have as many curves of solutions as an arm whose axes meet exactly."""
    robot = calibrated(Robot(name), off)
    assert robot.parameterised_form is None
    sampler, n_certified = Sampler(robot), 0
    for pose in poses_of(robot, 5, 46):
        answer = sampler.solve_all(pose, DENSE, guarantee="certified", seed=0, max_solutions=100_000, timeout=60.0)
        n_certified += answer.certified
        if answer.certified:
            assert farthest_missed(sampler, answer, pose, 1500, Constraints()) < MISSED
    assert n_certified >= 3


def test_curves_that_cannot_be_traced_are_those_of_the_nominal_arm() -> None:
    """Near a singularity, tracing fails. The curves of the nominal arm are then moved to the pose of the actual arm."""
    sampler, n_certified = Sampler(calibrated(Robot("panda"), 1e-5)), 0
    for index, pose in enumerate(poses_of(sampler.robot, 60, 7101)):
        traced = sampler.solve_all(pose, 1.0, seed=index).completeness
        if traced.traced.all():
            continue
        answer = sampler.solve_all(pose, DENSE, guarantee="certified", seed=0, max_solutions=100_000, timeout=60.0)
        if answer.certified:
            n_certified += 1
            assert answer.completeness.traced.all()
            assert farthest_missed(sampler, answer, pose, 2000, Constraints()) < MISSED
    assert n_certified >= 1


def test_curves_that_were_moved_but_not_proven_are_forgotten() -> None:
    """Here, the moved curves allow no certificate. Elimination then continues with the traced curves."""
    sampler = sampler_of("iiwa14")
    q = np.array([-0.870214152, 2 * math.pi / 3, -math.pi / 2, 1.78105661, 1.45758076, -2.15601596e-05, math.pi / 2])
    pose = sampler.robot.fk(q)
    for seed in range(345, 355):
        answer = sampler.solve_all(pose, 0.3, guarantee="certified", seed=seed, max_solutions=10_000, timeout=0.05)
        assert answer.valid.any()


@pytest.mark.parametrize("seed", range(4))
def test_arms_without_special_geometry_are_certified(seed: int) -> None:
    robot = Robot(random_seven(100 + seed))
    sampler, n_certified = Sampler(robot), 0
    assert robot.parameterised_form is None
    for pose in poses_of(robot, 3, seed):
        answer = sampler.solve_all(pose, DENSE, guarantee="certified", seed=0, timeout=60.0)
        n_certified += answer.certified
        if answer.certified:
            assert farthest_missed(sampler, answer, pose, 1500, Constraints()) < MISSED
    assert n_certified >= 2


def crossing_arm(seed: int) -> Robot:
    """Return an arm whose axes 3, 4 and 5 meet. With joint 4 at 0, axes 3 and 5 align, and self-motions cross."""
    rng = np.random.default_rng(seed)
    line, other = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    axes, joints = rng.normal(size=(7, 3)), []
    axes[[2, 4]], axes[3] = line, other
    for i, axis in enumerate(axes):
        xyz = np.zeros(3) if i in (3, 4) else rng.uniform(-0.3, 0.3, 3)
        words = [" ".join(map(str, values)) for values in (xyz, axis)]
        limits = '<limit lower="-2.9" upper="2.9" effort="1" velocity="1"/>'
        extra = f'<origin xyz="{words[0]}"/><axis xyz="{words[1]}"/>{limits}'
        joints.append(joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", extra))
    return Robot(chain_urdf(*joints))


@pytest.mark.parametrize("seed", range(3))
def test_self_motions_that_cross_are_not_certified(seed: int) -> None:
    """The crossing self-motions form one connected set, but a search may find only one of its curves."""
    robot = crossing_arm(seed)
    assert robot.general_7r is not None
    q = np.random.default_rng(seed).uniform(-2.0, 2.0, 7)
    q[3] = 0.0
    answer = Sampler(robot).solve_all(robot.fk(q), guarantee="certified", seed=0, timeout=60.0)
    assert not answer.certified
    assert "not certified" in answer.message
    q[3] = 0.4
    assert Sampler(robot).solve_all(robot.fk(q), guarantee="certified", seed=0, timeout=60.0).certified


def test_a_proof_that_lacks_time_is_no_proof() -> None:
    sampler = sampler_of("sawyer")
    pose = poses_of(sampler.robot, 1, 47)[0]
    answer = sampler.solve_all(pose, guarantee="certified", seed=0, timeout=0.002)
    assert not answer.certified
    assert not answer.completeness.certified
