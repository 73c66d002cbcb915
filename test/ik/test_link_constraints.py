"""Constraints of links agree with scipy and pinocchio, and valid rows satisfy them."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of, assert_no_solution, sampler_of
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import ConstraintError
from eim_ros.ik import ErrorCode, LinkOrientation, LinkPosition
from eim_ros.ik.constraints import LinkCheck
from eim_ros.kinematics import Box, Capsule, Cylinder, Sphere, pose_from
from eim_ros.kinematics.obstacles import inside
from eim_ros.kinematics.poses import rotation_vectors

ELBOW = "panda_link4"
ENOUGH = 60.0  # [s]


def poses_of(rotations: np.ndarray) -> np.ndarray:
    poses = np.tile(np.eye(4), (len(rotations), 1, 1))
    poses[:, :3, :3] = rotations
    return poses


def test_rotation_vectors_are_those_of_scipy() -> None:
    vectors = np.concatenate([np.random.default_rng(0).normal(size=(50, 3)), np.zeros((1, 3)), [[1e-9, 0.0, 0.0]]])
    rotations = Rotation.from_rotvec(vectors).as_matrix()
    expected = Rotation.from_matrix(rotations).as_rotvec()
    np.testing.assert_allclose(rotation_vectors(rotations), expected, atol=1e-12)


def test_turns_are_split_into_intrinsic_angles_as_scipy_splits_them() -> None:
    wanted = Rotation.random(random_state=1)
    turns = Rotation.random(200, random_state=2)
    angles = np.abs(turns.as_euler("XYZ"))
    tolerances = np.array([2.0, 1.0, 2.0])
    constraint = LinkOrientation("link", wanted.as_matrix(), tolerances)
    held = constraint.holds(poses_of((wanted * turns).as_matrix()))
    np.testing.assert_array_equal(held, (angles <= tolerances).all(axis=1))
    assert 20 < held.sum() < 180


def test_turn_where_only_the_sum_of_two_angles_is_defined_is_taken_about_x() -> None:
    turn = Rotation.from_euler("XYZ", [0.3, 0.5 * np.pi, 0.0]).as_matrix()
    turn[0, :2] = turn[1:, 2] = 0.0  # remove rounding errors, so that the turn about y is exactly a quarter
    for tolerance, holds in ((0.31, True), (0.29, False)):
        constraint = LinkOrientation("link", np.eye(3), (tolerance, 2.0, 0.0))
        assert constraint.holds(poses_of(turn[None]))[0] == holds


def test_components_of_the_rotation_vector_are_along_the_given_axes() -> None:
    wanted, axes = Rotation.random(random_state=3), Rotation.random(random_state=4)
    vectors = np.random.default_rng(5).uniform(-1.0, 1.0, (100, 3))  # in the frame of the axes
    turns = Rotation.from_rotvec(axes.inv().apply(vectors))
    constraint = LinkOrientation("link", wanted.as_matrix(), (0.5, 0.8, np.inf), axes.as_matrix())
    held = constraint.holds(poses_of((wanted * turns).as_matrix()))
    np.testing.assert_array_equal(held, (np.abs(vectors[:, :2]) <= (0.5, 0.8)).all(axis=1))


@pytest.mark.parametrize(
    ("shape", "within", "beyond"),
    [
        (Box(np.eye(4), (2.0, 4.0, 6.0)), [(1.0, 2.0, 3.0), (-0.9, 0.0, -2.9)], [(1.1, 0, 0), (0, 2.1, 0), (0, 0, 4)]),
        (Sphere((0, 0, 0), 1.0), [(1.0, 0.0, 0.0), (0.5, 0.5, 0.7)], [(0.6, 0.6, 0.6)]),
        (Cylinder(np.eye(4), 1.0, 2.0), [(0.0, 1.0, 1.0), (0.7, 0.7, -1.0)], [(0, 0, 1.01), (0.8, 0.7, 0)]),
        (Capsule(np.eye(4), 1.0, 2.0), [(0.0, 0.0, 2.0), (0.7, 0.0, 1.7)], [(0.8, 0, 1.7), (0, 0, 2.01)]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_points_are_inside_of_a_shape_or_not_wherever_it_is(shape: object, within: list, beyond: list) -> None:
    moved = pose_from((3.0, -1.0, 2.0), Rotation.random(random_state=6).as_quat())
    points = np.array([*within, *beyond], dtype=float) @ moved[:3, :3].T * (1 - 1e-12) + moved[:3, 3]
    if isinstance(shape, Sphere):
        placed = Sphere(moved[:3, 3], shape.radius)
    else:
        sizes = {key: value for key, value in vars(shape).items() if key != "pose"}
        placed = type(shape)(pose=moved, **sizes)
    np.testing.assert_array_equal(inside(placed, points), [True] * len(within) + [False] * len(beyond))


def test_elbow_is_kept_in_a_region_and_at_an_orientation() -> None:
    robot, oracle = arm_and_oracle("panda")
    q = robot.random(1, np.random.default_rng(3))[0]
    pose, elbow = robot.fk(q), oracle.link_pose(q, ELBOW)
    sampler = sampler_of("panda", "pose")
    point = (0.1, 0.0, 0.05)
    centre = (elbow @ [*point, 1.0])[:3]
    free = sampler.sample(pose, 60, diversity=1.0, timeout=ENOUGH, seed=0)
    away = [np.linalg.norm((oracle.link_pose(row, ELBOW) @ [*point, 1.0])[:3] - centre) for row in free.q]
    assert np.mean(np.array(away) < 0.1) < 0.7
    links = [LinkPosition(ELBOW, [Sphere(centre, 0.1)], point), LinkOrientation(ELBOW, elbow[:3, :3], (0.4, 0.5, 0.6))]
    kept = sampler.with_constraints(links=links).sample(pose, 20, timeout=ENOUGH, seed=0)
    assert kept and kept.valid.all(), kept.message
    assert len(kept) > 5
    for row in kept.q:
        there = oracle.link_pose(row, ELBOW)
        assert np.linalg.norm((there @ [*point, 1.0])[:3] - centre) <= 0.1
        turn = Rotation.from_matrix(elbow[:3, :3].T @ there[:3, :3]).as_euler("XYZ")
        assert (np.abs(turn) <= (0.4, 0.5, 0.6)).all()


def test_pose_that_contradicts_a_constraint_of_the_tip_has_no_solution() -> None:
    robot = arm_of("panda")
    pose = robot.fk(robot.random(1, np.random.default_rng(3))[0])
    region = [Sphere(pose[:3, 3] + (0.0, 0.0, 0.3), 0.1)]
    links = [LinkPosition(robot.tip_link, region)]
    answer = sampler_of("panda", "pose").with_constraints(links=links).sample(pose, 5, timeout=ENOUGH, seed=0)
    assert answer.error_code == ErrorCode.NO_IK_SOLUTION
    assert "have a link outside of its region; the pose of the tip excludes all others" in answer.message
    assert_no_solution(answer)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkPosition(ELBOW, []),
        lambda: LinkPosition(ELBOW, [Sphere((0, 0, 0), 1.0)], (0.0, np.nan, 0.0)),
        lambda: LinkOrientation(ELBOW, np.eye(3), (1.0, 1.0)),
        lambda: LinkOrientation(ELBOW, np.eye(3), (1.0, -1.0, 1.0)),
        lambda: LinkOrientation(ELBOW, 2.0 * np.eye(3), (1.0, 1.0, 1.0)),
        lambda: LinkOrientation(ELBOW, "x", (1.0, 1.0, 1.0)),
        lambda: LinkCheck(arm_of("panda"), [LinkPosition("nose", [Sphere((0, 0, 0), 1.0)])]),
    ],
)
def test_malformed_constraints_are_refused(make: object) -> None:
    with pytest.raises(ConstraintError):
        make()
