"""Continuation along curves leaves the limits and returns, fills gaps, and works for joints of all types."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from eim_ros.ik.evaluation import exact_solutions
from eim_ros.kinematics import Robot, refine, share_path, spread

RAIL = """<robot name="rail_arm"><link name="rail"/>{links}<link name="tip_link"/>
<joint name="slide" type="prismatic"><parent link="rail"/><child link="link_0"/><axis xyz="0 1 0"/>
<limit lower="-0.4" upper="0.4" effort="1" velocity="1"/></joint>{joints}
<joint name="flange" type="fixed"><parent link="link_6"/><child link="tip_link"/><origin xyz="0 0 0.1"/></joint>
</robot>"""
AXES = ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")


def rail_arm() -> Robot:
    """Return a robot with six revolute joints on a rail."""
    joints = "".join(
        f'<joint name="joint_{i + 1}" type="revolute"><parent link="link_{i}"/><child link="link_{i + 1}"/>'
        f'<origin xyz="{0.05 * (i % 2)} 0 {0.3 if i else 0.1}"/><axis xyz="{axis}"/>'
        f'<limit lower="-2.6" upper="2.6" effort="1" velocity="1"/></joint>'
        for i, axis in enumerate(AXES)
    )
    return Robot(RAIL.format(links="".join(f'<link name="link_{i}"/>' for i in range(7)), joints=joints))


def robot_of(name: str) -> Robot:
    return rail_arm() if name == "rail" else Robot(name)


def pose_and_solutions(robot: Robot, n_seeds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    pose = robot.fk(robot.random(1, rng)[0])
    refined = refine(robot, robot.random(n_seeds, rng), pose)
    return pose, refined.positions[refined.converged]


@pytest.mark.parametrize("name", ["panda", "iiwa14", "rail"])
@pytest.mark.parametrize("seed", range(4))
def test_gaps_are_divided_until_there_are_as_many_as_asked_for(name: str, seed: int) -> None:
    robot = robot_of(name)
    pose, known = pose_and_solutions(robot, 60, seed)
    coarse = spread(robot, known, pose, 400, np.random.default_rng(seed))
    found = spread(robot, known, pose, len(coarse) + 20, np.random.default_rng(seed), finest=0.02)
    assert len(coarse) < len(found) <= len(coarse) + 20
    distance, angle = robot.pose_errors(found, pose)
    assert max(distance.max(), angle.max()) <= 1e-6
    assert robot.within_limits(found).all()
    assert least_difference(known, found) > 0.02


@pytest.mark.parametrize("name", ["panda", "iiwa14", "rail"])
def test_gaps_are_divided_as_long_as_solutions_differ(name: str) -> None:
    """At distances of 0.05, fewer solutions exist than requested. Most solutions are within 0.1 of a result."""
    robot = robot_of(name)
    shares = []
    for seed in range(3):
        pose, known = pose_and_solutions(robot, 200, seed)
        found = spread(robot, known, pose, 5000, np.random.default_rng(seed), finest=0.05)
        assert len(found) < 2500
        assert least_difference(known, found) > 0.05
        truth = refine(robot, robot.random(500, np.random.default_rng(9)), pose)
        others = truth.positions[truth.converged]
        shares.append((cdist(others, np.concatenate([known, found]), "chebyshev").min(axis=1) < 0.1).mean())
    assert np.mean(shares) > 0.9


def least_difference(known: np.ndarray, found: np.ndarray) -> float:
    """Return the smallest distance of a found solution from any other, measured by the joint that differs most."""
    distances = cdist(found, np.concatenate([known, found]), "chebyshev")
    distances[np.arange(len(found)), len(known) + np.arange(len(found))] = np.inf
    return float(distances.min())


def test_walks_go_on_outside_the_limits_and_find_what_lies_behind() -> None:
    """From one solution, continuation finds other parts of its curve, although limits separate these parts."""
    n_reached = 0
    for name, seed in (("iiwa14", 1), ("iiwa14", 4), ("panda", 0), ("panda", 4)):
        robot, rng = Robot(name), np.random.default_rng(seed)
        pose = robot.fk(robot.random(1, rng)[0])
        truth = exact_solutions(robot, pose, 4000, rng)
        root = truth.positions[truth.component == truth.n_components - 1][:1]
        found = spread(robot, root, pose, 500, rng)
        n_reached += truth.share_of_components(np.concatenate([root, found])) * truth.n_components > 1.5
    assert n_reached == 4


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_few_solutions_and_walks_cover_nearly_all(name: str) -> None:
    robot, coverage = Robot(name), []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        pose = robot.fk(robot.random(1, rng)[0])
        truth = exact_solutions(robot, pose, 4000, rng)
        refined = refine(robot, robot.random(80, rng), pose)
        known = refined.positions[refined.converged]
        found = spread(robot, known, pose, 300, rng, finest=0.03)
        coverage.append((truth.coverage(known), truth.coverage(np.concatenate([known, found]))))
    before, after = np.mean(coverage, axis=0)
    assert before < 0.75
    assert after > 0.93


def test_limits_of_less_than_a_turn_are_entered_from_the_other_side() -> None:
    """If limits allow almost a revolution, continuation crosses the gap and finds solutions on the other side."""
    urdf = share_path("urdf/iiwa14.urdf").read_text(encoding="utf-8")
    continuous = Robot(urdf.replace('type="revolute"', 'type="continuous"'))
    limits = np.full(7, 3.1)
    pose, known = pose_and_solutions(continuous, 40, 3)
    inside = known[(np.abs(known) <= limits).all(axis=1)][:1]
    found = spread(continuous, inside, pose, 500, np.random.default_rng(0), lower=-limits, upper=limits)
    jumps = np.abs(np.diff(np.sort(found[:, [0, 2, 4, 6]], axis=0)[[0, -1]], axis=0)).max()
    assert len(found) > 10
    assert np.abs(found).max() <= 3.1
    assert jumps > 5.8  # one joint reaches both ends of its range


def test_fixed_joint_leaves_nothing_to_walk_along() -> None:
    robot = Robot("panda")
    pose, known = pose_and_solutions(robot, 60, 0)
    lower, upper = robot.lower.copy(), robot.upper.copy()
    lower[2] = upper[2] = known[0, 2]
    assert len(spread(robot, known[:1], pose, 20, np.random.default_rng(0), lower=lower, upper=upper)) == 0


def test_fixed_joint_among_eight_stays_where_it_is() -> None:
    urdf = share_path("urdf/panda.urdf").read_text(encoding="utf-8")
    rail = (
        '<link name="rail"/><joint name="slide" type="prismatic"><parent link="rail"/><child link="{base}"/>'
        '<axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>'
    )
    robot = Robot(urdf.replace("</robot>", rail.format(base=Robot("panda").base_link)))
    assert robot.dof == 8
    lower, upper = robot.lower.copy(), robot.upper.copy()
    lower[0] = upper[0] = 0.25
    rng = np.random.default_rng(1)
    pose = robot.fk(np.append(0.25, Robot("panda").random(1, rng)[0]))
    refined = refine(robot, robot.random(60, rng), pose, lower=lower, upper=upper)
    found = spread(robot, refined.positions[refined.converged], pose, 50, rng, lower=lower, upper=upper)
    assert len(found) > 5
    np.testing.assert_array_equal(found[:, 0], 0.25)


def test_loose_and_tight_tolerances_are_kept() -> None:
    robot = Robot("panda")
    pose, known = pose_and_solutions(robot, 60, 2)
    for tolerance in (1e-9, 1e-3):
        options = {"position_tolerance": tolerance, "orientation_tolerance": tolerance}
        roots = refine(robot, known, pose, **options)
        found = spread(robot, roots.positions[roots.converged], pose, 80, np.random.default_rng(0), **options)
        distance, angle = robot.pose_errors(found, pose)
        assert len(found) > 5
        assert max(distance.max(), angle.max()) <= tolerance
