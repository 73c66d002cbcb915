"""For all kinds of requests, no dense sample of the surfaces or curves is nearer than the nearest solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eim_ros.ik import Constraints, Sampler
from eim_ros.ik.order import distance_to
from eim_ros.kinematics import Sphere
from eim_ros.kinematics.links import link_poses

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("fetch", {}),  # eight joints
    ("panda", {"position_only": True}),
    ("iiwa14", {"tolerances": [0.0, 0.0, 0.0, 0.1, 0.1, np.inf]}),
    ("ur5", {"position_only": True, "limits": {"elbow_joint": (0.0, 3.0)}}),
]


def least_distance(sampler: Sampler, pose: np.ndarray, near: np.ndarray, asked: dict[str, Any]) -> float:
    """Return the smallest distance from `near` among dense solutions, each moved to a local minimum."""
    posture = dict(zip(sampler.robot.joint_names, near.tolist(), strict=True))
    n = 1000 if asked.get("position_only") or not asked else 100  # with tolerances, each descent takes 2 ms
    asked_for = sampler.with_constraints(**asked)
    dense = asked_for.sample(pose, n, posture=posture, diversity=0.0, seed=5, timeout=60.0)
    return float(distance_to(sampler.robot, dense.q, near).min())


@pytest.mark.parametrize(("name", "asked"), REQUESTS)
def test_nothing_nearer_is_found_among_many(name: str, asked: dict[str, Any]) -> None:
    sampler, rng = Sampler(name), np.random.default_rng(41)
    robot = sampler.robot
    for index in range(4):
        q, near = np.clip(robot.random(2, rng), -np.pi, np.pi)
        if "limits" in asked:
            q[robot.joint_names.index("elbow_joint")] = 1.5
        found = sampler.with_constraints(**asked).solve(robot.fk(q), near, seed=index, timeout=60.0)
        assert found and found.valid.all()
        distance = distance_to(robot, found.q, near)[0]
        assert distance <= least_distance(sampler, robot.fk(q), near, asked) + 1e-3


def test_several_differ_and_come_the_nearest_first() -> None:
    sampler, rng = Sampler("panda"), np.random.default_rng(42)
    robot = sampler.robot
    q, near = robot.random(2, rng)
    found = sampler.with_constraints(position_only=True).sample(robot.fk(q), 50, near=near, seed=0)
    distances = distance_to(robot, found.q, near)
    assert len(found) == 50
    assert found and found.valid.all()
    assert (np.diff(distances) >= 0.0).all()
    apart = np.abs(found.q[:, None] - found.q).max(axis=2)
    assert apart[~np.eye(50, dtype=bool)].min() >= 0.01


def test_a_solution_next_to_where_the_robot_is_is_moved_no_farther_than_it_takes() -> None:
    sampler, rng = Sampler("fetch"), np.random.default_rng(43)
    robot = sampler.robot
    for q in np.clip(robot.random(5, rng), -3.0, 3.0):
        near = np.clip(q + rng.normal(0.0, 0.02, robot.dof), robot.lower, robot.upper)
        found = sampler.sample(robot.fk(q), 1, near=near)
        assert found and found.valid.all()
        assert distance_to(robot, found.q, near)[0] <= np.linalg.norm(q - near) + 1e-6


def test_where_an_obstacle_is_in_the_way_the_nearest_that_is_free_is_returned() -> None:
    sampler, rng = Sampler("panda"), np.random.default_rng(44)
    robot = sampler.robot
    q, near = robot.random(2, rng)
    sampler = sampler.with_constraints(position_only=True)
    free = sampler.solve(robot.fk(q), near, seed=0)
    elbow = link_poses(robot, "panda_link4")(free.q)[0, :3, 3]
    constraints = Constraints(obstacles=[Sphere(elbow, 0.05)])
    found = sampler.with_obstacles(constraints.obstacles).solve(robot.fk(q), near, seed=0, timeout=60.0)
    others = sampler.with_constraints(constraints, position_only=True).sample(robot.fk(q), 300, seed=1)
    assert found and found.valid.all()
    assert not constraints.scene(robot).colliding(found.q).any()
    distance = distance_to(robot, found.q, near)[0]
    assert distance_to(robot, free.q, near)[0] < distance <= distance_to(robot, others.q, near).min()


@pytest.mark.parametrize("name", ["panda", "iiwa14", "xarm7"])
def test_the_nearest_of_seven_joints_is_nearer_than_dense_curves(name: str) -> None:
    sampler, rng = Sampler(name), np.random.default_rng(45)
    robot, n_traced = sampler.robot, 0
    for _ in range(8):
        q, near = robot.random(2, rng)
        found = sampler.solve(robot.fk(q), near)
        n_traced += found.completeness is not None
        dense = sampler.solve_all(robot.fk(q), 0.02, near=near, max_solutions=100_000, timeout=60.0)
        assert found and found.valid.all()
        least = distance_to(robot, dense.q, near).min()
        assert distance_to(robot, found.q, near)[0] <= least + 1e-5  # within the tolerance, a row may be nearer
    assert n_traced <= 1  # curves are traced only near singularities


def test_the_nearest_of_seven_joints_keeps_narrowed_limits_and_avoids_obstacles() -> None:
    rng = np.random.default_rng(46)
    sampler = Sampler("iiwa14")
    robot = sampler.robot
    q, near = robot.random(2, rng)
    free = sampler.solve(robot.fk(q), near)
    limits = {robot.joint_names[6]: (float(q[6]) - 0.05, float(q[6]) + 0.05)}
    narrowed = sampler.with_constraints(limits=limits)
    found = narrowed.solve(robot.fk(q), near)
    dense = narrowed.solve_all(robot.fk(q), 0.01, near=near, timeout=60.0)
    assert abs(found.q[0, 6] - q[6]) <= 0.05 + 1e-9
    assert distance_to(robot, found.q, near)[0] <= distance_to(robot, dense.q, near).min() + 1e-5
    elbow = link_poses(robot, "link_4")(free.q)
    obstacle = Sphere(elbow[0, :3, 3], 0.05)
    other = sampler.with_obstacles([obstacle]).solve(robot.fk(q), near, timeout=60.0)
    assert other and not Constraints(obstacles=[obstacle]).scene(robot).colliding(other.q).any()
    assert distance_to(robot, other.q, near)[0] > distance_to(robot, free.q, near)[0]
