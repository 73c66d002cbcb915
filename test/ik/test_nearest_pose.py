"""The nearest reachable pose agrees with brute force and respects priorities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from kinematics.short_arms import FIVE_JOINTS, FOUR_JOINTS
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot

FloatArray = npt.NDArray[np.float64]

ENOUGH = 120.0  # [s]
ARMS = {"five joints": FIVE_JOINTS, "four joints": FOUR_JOINTS, "panda": "panda"}


def brute_force(robot: Robot, pose: FloatArray, weights: tuple[float, float], n: int, seed: int) -> float:
    """Return the smallest weighted distance that least squares finds from n random starts."""

    def residual(q: FloatArray) -> FloatArray:
        reached = robot.fk(q)
        turn = Rotation.from_matrix(pose[:3, :3].T @ reached[:3, :3]).as_rotvec()
        return np.concatenate([weights[0] * (reached[:3, 3] - pose[:3, 3]), weights[1] * turn])

    ends = [
        least_squares(residual, start, bounds=(robot.lower, robot.upper), xtol=1e-9, ftol=1e-9, gtol=1e-9)
        for start in robot.random(n, np.random.default_rng(seed))
    ]
    return float(np.sqrt(2.0 * min(end.cost for end in ends)))


def targets(robot: Robot, n: int, seed: int) -> FloatArray:
    """Return poses with scaled positions and random orientations, which this arm barely reaches or misses."""
    rng = np.random.default_rng(seed)
    poses = robot.fk(robot.random(n, rng))
    poses[:, :3, 3] *= rng.uniform(0.7, 1.6, (n, 1))
    poses[:, :3, :3] = Rotation.random(n, random_state=seed).as_matrix()
    return poses


@pytest.mark.parametrize(
    ("name", "weights"),
    [("panda", (1.0, 0.2)), ("five joints", (1.0, 0.2)), ("five joints", (1.0, 0.0)), ("four joints", (1.0, 0.2))],
)
def test_no_start_leads_nearer(name: str, weights: tuple[float, float]) -> None:
    robot = Robot(ARMS[name])
    sampler = Sampler(robot)
    for i, pose in enumerate(targets(robot, 2, 3)):
        nearest = sampler.solve_nearest_pose(pose, weights, seed=i, timeout=ENOUGH)
        assert nearest.in_time
        assert robot.within_limits(nearest.q).all()
        position, orientation = (float(x[0]) for x in robot.pose_errors(nearest.q[None], pose))
        assert (position, orientation) == pytest.approx((nearest.position_error, nearest.orientation_error), abs=1e-12)
        distance = np.hypot(weights[0] * position, weights[1] * orientation)
        assert distance <= brute_force(robot, pose, weights, 6, i) + 1e-3


@pytest.mark.parametrize("name", ARMS)
def test_the_error_with_priority_is_the_smallest_one(name: str) -> None:
    robot = Robot(ARMS[name])
    sampler = Sampler(robot)
    for i, pose in enumerate(targets(robot, 1, 5)):
        by_position = sampler.solve_nearest_pose(pose, seed=i, timeout=ENOUGH)
        by_orientation = sampler.solve_nearest_pose(pose, "orientation", seed=i, timeout=ENOUGH)
        assert by_position.position_error <= brute_force(robot, pose, (1.0, 0.0), 8, i) + 1e-4
        assert by_orientation.orientation_error <= brute_force(robot, pose, (0.0, 1.0), 8, i) + 1e-4
        assert by_position.position_error <= by_orientation.position_error + 1e-5
        assert by_orientation.orientation_error <= by_position.orientation_error + 1e-5


def test_an_exact_position_is_kept_although_the_orientation_is_out_of_reach() -> None:
    robot = Robot(FIVE_JOINTS)
    sampler, rng = Sampler(robot), np.random.default_rng(8)
    for q in robot.random(3, rng):
        pose = robot.fk(q)
        pose[:3, :3] = Rotation.random(random_state=int(rng.integers(1000))).as_matrix()
        nearest = sampler.solve_nearest_pose(pose, seed=0, timeout=ENOUGH)
        assert nearest.position_error < 1e-5
        assert not nearest.is_exact
        assert nearest.orientation_error > 1e-3


def test_reachable_poses_are_exact_and_other_minima_follow() -> None:
    sampler = Sampler("panda")
    pose = sampler.robot.fk(sampler.robot.random(1, np.random.default_rng(2))[0])
    nearest = sampler.solve_nearest_pose(pose, seed=0, timeout=ENOUGH)
    assert nearest.is_exact
    assert max(nearest.position_error, nearest.orientation_error) <= 1e-6
    pose[:3, 3] += [2.0, 0.0, 0.0]
    nearest = sampler.solve_nearest_pose(pose, (1.0, 1.0), seed=0, timeout=ENOUGH)
    assert not nearest.is_exact
    assert len(nearest.others)
    position, orientation = sampler.robot.pose_errors(nearest.others, pose)
    assert (np.hypot(position, orientation) >= np.hypot(nearest.position_error, nearest.orientation_error)).all()


def test_free_roll_does_not_count() -> None:
    robot = Robot(FIVE_JOINTS)
    sampler = Sampler(robot).with_constraints(tolerances=(0.0, 0.0, 0.0, np.inf, 0.0, 0.0))
    pose = targets(robot, 1, 11)[0]
    nearest = sampler.solve_nearest_pose(pose, (1.0, 0.2), seed=0, timeout=ENOUGH)
    angle = np.arccos(np.clip(nearest.pose[:3, 0] @ pose[:3, 0], -1.0, 1.0))
    assert nearest.orientation_error == pytest.approx(angle, abs=1e-6)
    rolled = pose.copy()
    rolled[:3, :3] = pose[:3, :3] @ Rotation.from_rotvec([1.3, 0.0, 0.0]).as_matrix()
    again = sampler.solve_nearest_pose(rolled, (1.0, 0.2), seed=0, timeout=ENOUGH)
    first, second = (np.hypot(x.position_error, 0.2 * x.orientation_error) for x in (nearest, again))
    assert first == pytest.approx(second, abs=1e-3)


def test_a_position_has_no_orientation_error() -> None:
    nearest = Sampler("panda").solve_nearest_pose([0.0, 1.5, 0.3], seed=0, timeout=ENOUGH)
    assert nearest.orientation_error == 0.0
    assert 0.5 < nearest.position_error < 0.8


def test_without_time_the_answer_says_so() -> None:
    nearest = Sampler("panda").solve_nearest_pose([0.0, 1.5, 0.3, 1.0, 0.0, 0.0, 0.0], seed=0, timeout=0.0)
    assert not nearest.in_time
    assert not nearest.is_exact


@pytest.mark.parametrize("priority", ["speed", (1.0,), (0.0, 0.0), (-1.0, 1.0), (np.nan, 1.0), 3.0, None])
def test_wrong_priorities_are_named(priority: object) -> None:
    with pytest.raises(ConfigurationError, match="priority must be"):
        Sampler("panda").solve_nearest_pose([0.0, 1.5, 0.3], priority)  # type: ignore[arg-type]
