"""Answers to requests for poses and paths agree with pinocchio. Bad requests are refused. The tests need no DDS."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Pose, Quaternion
from ik.arms import arm_and_oracle
from kinematics.solids_by_formula import box_mesh
from nodes.client_node import joint_positions, request
from nodes.ik_server.serving import refused, request_of, served, state_of
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import Header

from eim_ros.core.errors import EimError
from eim_ros.ik import ErrorCode, Sampler, Solutions
from eim_ros.ik.order import limit_margin
from eim_ros.kinematics import Mesh, PointCloud, pose_from, quaternion_from_matrix
from eim_ros.kinematics.collision import collisions
from eim_ros.nodes.ik_server.constraints import fill_scene
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.srv import DrawIK, FollowIK, SampleIK, SolveNearestIK

# The server verifies solutions with compiled code, and the tests with pinocchio. Their errors differ only by rounding.
ROUNDING = 1e-10
ROBOT, ORACLE = arm_and_oracle("iiwa14")
SUCCESS, GOAL, STATE = ErrorCode.SUCCESS, ErrorCode.INVALID_GOAL_CONSTRAINTS, ErrorCode.INVALID_ROBOT_STATE
FRAME, LINK = ErrorCode.FRAME_TRANSFORM_FAILURE, ErrorCode.INVALID_LINK_NAME
LIMITED = IkServerSettings(max_samples=1000, max_timeout=20.0)


def line(n: int) -> np.ndarray:
    first = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
    return np.linspace(first, first + 0.4, n)


def sampled(message: SampleIK.Request) -> Any:
    return served("sample_ik", message).solutions


# Configurations for one pose.


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_every_configuration_reaches_the_position_within_limits(n: int) -> None:
    target = ROBOT.fk(ROBOT.random(1, np.random.default_rng(n))[0])[:3, 3]
    answer = sampled(request(tuple(target), n_samples=n))
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert answer.joint_names == list(ROBOT.joint_names)
    positions = joint_positions(answer)
    assert answer.n == n == len(answer.expert)
    assert len(answer.log_prob) == (n if n > 1 else 0)  # a single solution has no density
    assert len(answer.position_error) == len(answer.orientation_error) == n
    assert not answer.valid  # empty: all rows are valid
    assert ROBOT.within_limits(positions).all()
    for row, error in zip(positions[:50], answer.position_error, strict=False):
        distance = np.linalg.norm(ORACLE.forward(row)[:3, 3] - target)
        assert distance <= 1e-6
        assert abs(distance - error) < ROUNDING
    assert set(answer.orientation_error) == {0.0}


@pytest.mark.parametrize("length", [1.0, 1.0009])  # lengths within 0.001 of 1 are accepted
def test_every_configuration_reaches_the_whole_pose(length: float) -> None:
    pose = ROBOT.fk(ROBOT.random(1, np.random.default_rng(7))[0])
    message = request_of(SampleIK, pose[None], n_samples=20)
    x, y, z, w = (length * quaternion_from_matrix(pose)).tolist()
    message.poses[0].orientation = Quaternion(x=x, y=y, z=z, w=w)
    answer = sampled(message)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert answer.n == 20
    for row in joint_positions(answer):
        assert max(ORACLE.errors(row, pose)) <= 1e-6 + ROUNDING


def test_proposals_are_returned_with_their_true_errors() -> None:
    answer = served("draw_ik", request(service_type=DrawIK, n_samples=30, density="proposal")).solutions
    assert len(answer.valid) == answer.n == 30
    for row, error in zip(joint_positions(answer), answer.position_error, strict=True):
        assert abs(np.linalg.norm(ORACLE.forward(row)[:3, 3] - (0.4, 0.1, 0.6)) - error) < ROUNDING


def test_looser_tolerance_of_a_request_is_used() -> None:
    answer = sampled(request(n_samples=100, position_tolerance=1e-2))
    assert 1e-6 < max(answer.position_error) <= 1e-2


def test_unreachable_pose_returns_nothing_but_its_best_attempt() -> None:
    answer = sampled(request((2.0, 0.0, 0.5)))
    assert answer.error_code.val == ErrorCode.NO_IK_SOLUTION
    assert (answer.n, answer.valid, len(answer.positions), len(answer.position_error)) == (0, [], 0, 0)
    samples = Solutions.from_message(answer)
    distance = np.linalg.norm(ORACLE.forward(samples.best_attempt)[:3, 3] - (2.0, 0.0, 0.5))
    assert answer.error_code.message.endswith(f"the best attempt is off by {distance:.3g} m and 0 rad")
    assert len(sampled(request()).best_attempt) == 0


def test_state_is_matched_by_name_and_ranks_by_distance() -> None:
    near = ROBOT.random(1, np.random.default_rng(5))[0]
    order = np.random.default_rng(1).permutation(ROBOT.dof)
    names = [ROBOT.joint_names[i] for i in order]
    plain, shuffled = (
        sampled(request(n_samples=50, near=state))
        for state in (state_of(ROBOT.joint_names, near), state_of(names, near[order]))
    )
    assert plain.positions == shuffled.positions
    distances = np.linalg.norm(joint_positions(plain) - near, axis=1)
    assert (np.diff(distances) >= -1e-9).all()


def test_solutions_come_in_the_order_asked_for() -> None:
    by_limits = joint_positions(sampled(request(order=["limits"])))
    assert (np.diff(limit_margin(ROBOT, by_limits)) <= 0.0).all()
    by_both = sampled(request(order=["limits", "manipulability"], order_weights=[0.0, 2.0]))
    assert (np.diff(ROBOT.manipulability(joint_positions(by_both), position_only=True)) <= 0.0).all()


def test_constraints_of_a_request_hold_in_its_answer() -> None:
    q = np.array([0.2, 0.6, 0.1, 1.2, 0.3, 0.8, 0.0])
    message = request_of(SampleIK, ROBOT.fk(q)[None], n_samples=50)
    limited = message.constraints
    limited.fixed_joints = state_of(["joint_a3"], [0.1])
    limited.limited_joints, limited.lower_limits, limited.upper_limits = ["joint_a1"], [-1.0], [math.inf]
    limited.tolerances = [0.0] * 5 + [math.inf]
    limited.avoid_self_collision = True
    answer = sampled(message)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    positions = joint_positions(answer)
    assert len(positions)
    assert (positions[:, 2] == 0.1).all()
    assert (positions[:, 0] >= -1.0).all()
    for row in positions:
        offset = np.linalg.inv(ROBOT.fk(q)) @ ORACLE.forward(row)
        assert np.linalg.norm(offset[:3, 3]) <= 1e-6 + ROUNDING
        assert np.linalg.norm(offset[:2, 2]) <= 1e-6 + ROUNDING


def test_obstacle_around_the_goal_is_told_unless_the_links_may_touch_it() -> None:
    pose = ROBOT.fk(line(1))
    message = request_of(SampleIK, pose, n_samples=5)
    message.constraints.scene.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.05])]
    message.constraints.scene.primitive_poses = message.poses
    answer = sampled(message)
    assert answer.error_code.val == ErrorCode.GOAL_IN_COLLISION
    assert (answer.n, len(answer.positions), len(answer.best_attempt)) == (0, 0, 7)
    assert "collide" in answer.error_code.message
    message.constraints.allowed_links = ["link_6", "link_7"]
    message.constraints.allowed_others = ["obstacle 0"] * 2
    assert sampled(message).error_code.val == SUCCESS


def test_meshes_and_points_of_a_request_are_avoided() -> None:
    """Some solutions collide with a block and a wall of points near the elbow, unless the request has the obstacles."""
    pose = ROBOT.fk(np.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.8, 0.0]))
    message = request_of(SampleIK, pose[None], n_samples=100)
    plain = joint_positions(sampled(message))
    elbows = ROBOT.skeleton(plain)[:, 4]
    sides = elbows[np.argmax(elbows[:, 1])], elbows[np.argmin(elbows[:, 1])]
    vertices, faces = box_mesh((0.1, 0.1, 0.1))
    points = sides[1] + 0.05 * np.random.default_rng(0).uniform(-1.0, 1.0, (200, 3))
    obstacles = [Mesh(pose_from(sides[0]), vertices, faces), PointCloud(points, 0.01)]

    def is_free(q: np.ndarray) -> bool:
        return not collisions(ROBOT, q, obstacles, self_collision=False, clearance=0.02)

    assert 0 < sum(map(is_free, plain)) < len(plain)
    fill_scene(message.constraints.scene, obstacles)
    message.constraints.clearance = 0.02
    answer = sampled(message)
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert answer.n > 0
    assert all(map(is_free, joint_positions(answer)))


# Several poses


def test_batch_has_the_solutions_of_each_pose_one_after_the_other() -> None:
    poses = ROBOT.fk(line(4))
    poses[2, 0, 3] = 9.0
    answer = sampled(request_of(SampleIK, poses, n_samples=12))
    assert answer.error_code.val == ErrorCode.NO_IK_SOLUTION
    assert answer.error_code.message.startswith("3 of 4 poses have a solution; pose 2: there is no solution")
    assert list(answer.error_codes) == [SUCCESS, SUCCESS, ErrorCode.NO_IK_SOLUTION, SUCCESS]
    assert list(answer.n_per_pose) == [12, 12, 0, 12]
    assert answer.n == 36 == len(answer.log_prob) == len(answer.expert)
    assert not answer.valid  # empty: all rows are valid
    assert ROBOT.within_limits(np.array(answer.best_attempt).reshape(1, ROBOT.dof)).all()  # for pose 2
    positions = joint_positions(answer)
    for index, rows in enumerate(np.split(np.arange(36), np.cumsum(answer.n_per_pose)[:-1])):
        position, orientation = ROBOT.pose_errors(positions[rows], poses[index])
        np.testing.assert_allclose(position, np.array(answer.position_error)[rows], atol=1e-10)
        np.testing.assert_allclose(orientation, np.array(answer.orientation_error)[rows], atol=1e-10)
        assert max(position.max(initial=0.0), orientation.max(initial=0.0)) <= 1e-6


def test_pose_of_a_batch_is_answered_as_it_is_alone() -> None:
    poses = ROBOT.fk(line(2))
    fields = {"posture": state_of(["joint_a3"], [0.5]), "diversity": 0.25, "n_samples": 12}
    batch = sampled(request_of(SampleIK, poses, **fields))
    assert batch.error_code.val == SUCCESS, batch.error_code.message
    answer = sampled(request_of(SampleIK, poses[1:], seed=1, **fields))
    np.testing.assert_array_equal(joint_positions(batch)[batch.n_per_pose[0] :], joint_positions(answer))


# Paths


@pytest.mark.parametrize("is_timed", [False, True])
def test_path_is_followed_from_where_the_robot_is_and_sent_as_a_trajectory(is_timed: bool) -> None:
    q, times = line(20), 0.5 * np.arange(1, 21)
    near = state_of(ROBOT.joint_names, q[0])
    poses = ROBOT.fk(q)
    answer = served("follow_ik", request_of(FollowIK, poses, near=near, times=times.tolist() if is_timed else []))
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert list(answer.valid) == list(answer.examined) == [True] * answer.n == [True] * 20
    rows = np.frombuffer(answer.positions).reshape(20, ROBOT.dof)
    steps = np.diff(np.concatenate([q[:1], rows]), axis=0)
    assert np.abs(steps).max() <= answer.max_step <= 0.3
    assert all(max(ORACLE.errors(row, pose)) <= 1e-6 + ROUNDING for row, pose in zip(rows, poses, strict=True))
    assert ROBOT.within_limits(rows).all()
    assert list(answer.trajectory.joint_names) == list(ROBOT.joint_names)
    np.testing.assert_array_equal([point.positions for point in answer.trajectory.points], rows)
    stamps = [point.time_from_start for point in answer.trajectory.points]
    found = np.array([stamp.sec + 1e-9 * stamp.nanosec for stamp in stamps])
    if is_timed:
        np.testing.assert_allclose(found, times)
    else:
        fastest = (np.abs(steps) / ROBOT.velocity_limits).max(axis=1)
        durations = np.diff(found, prepend=0.0)
        np.testing.assert_allclose(durations, fastest, atol=1e-5)  # the path adds 1 µs per step
        assert (durations[1:] > 0.0).all()


def test_pose_of_a_path_that_is_out_of_reach_is_named() -> None:
    poses = ROBOT.fk(line(4))
    poses[2, 0, 3] = 9.0
    answer = served("follow_ik", request_of(FollowIK, poses))
    assert answer.error_code.val == ErrorCode.NO_IK_SOLUTION
    assert "1 of 4 poses have no solution (the first is pose 2" in answer.error_code.message
    assert not answer.trajectory.points
    assert list(answer.valid) == [True, True, False, True]
    assert all(answer.examined)
    assert np.isnan(np.frombuffer(answer.positions).reshape(4, -1)[2]).all()


def test_poses_of_a_path_that_took_too_long_are_not_said_to_have_no_solution() -> None:
    answer = served("follow_ik", request_of(FollowIK, ROBOT.fk(line(200))), left=1e-9)
    assert answer.error_code.val == ErrorCode.TIMED_OUT
    assert not any(answer.valid)
    assert not any(answer.examined)
    assert "no solution" not in answer.error_code.message


def test_constraints_of_a_path_hold() -> None:
    fields = {"position_only": True, "avoid_self_collision": True, "fixed_joints": state_of(["joint_a7"], [0.3])}
    answer = served("follow_ik", request_of(FollowIK, ROBOT.fk(line(5)), **fields))
    assert all(answer.valid), answer.error_code.message
    assert (np.frombuffer(answer.positions).reshape(5, ROBOT.dof)[:, 6] == 0.3).all()


# The nearest pose.


def test_the_nearest_pose_is_answered_in_and_out_of_reach() -> None:
    targets = ROBOT.fk(line(2))
    targets[1, :3, 3] += [0.0, 3.0, 0.0]
    response = served("solve_nearest_ik", request_of(SolveNearestIK, targets, priority="position", seed=0))
    assert response.error_code.val == SUCCESS, response.error_code.message
    assert tuple(response.joint_names) == ROBOT.joint_names
    assert list(response.exact) == [True, False]
    q = np.array(response.positions).reshape(2, ROBOT.dof)
    assert ROBOT.within_limits(q).all()
    for row, target, *told in zip(q, targets, response.position_error, response.orientation_error, strict=True):
        assert ORACLE.errors(row, target) == pytest.approx(told, abs=1e-7)  # pinocchio's logarithm is inexact near 0
    assert response.position_error[1] < 3.0
    weighted = served("solve_nearest_ik", request_of(SolveNearestIK, targets[1:], weights=[1.0, 1.0], seed=0))
    distances = [np.hypot(x.position_error[-1], x.orientation_error[-1]) for x in (weighted, response)]
    assert distances[0] <= distances[1] + 1e-6


# Refusals


def pose_of(**parts: Any) -> dict[str, Any]:
    """Return the field `poses` with one pose in which these parts are replaced."""
    pose = Pose()
    for name, values in parts.items():
        for axis, value in zip("xyzw", values, strict=False):
            setattr(getattr(pose, name), axis, value)
    return {"poses": [pose]}


def near_of(names: Any, values: Any) -> dict[str, Any]:
    return {"near": state_of(names, values)}


def order_of(names: list[str], *weights: float) -> dict[str, Any]:
    return {"order": names, "order_weights": list(weights)}


WEIGHTLESS = {"posture": state_of(["joint_a1"], [1.0]), "posture_weights": [0.0]}
POSES = ROBOT.fk(line(3))
J = list(ROBOT.joint_names)
ONE: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "nan position": (pose_of(position=(math.nan, 0.0, 0.0)), GOAL, "finite"),
    "infinite position": (pose_of(position=(0.0, 0.0, -math.inf)), GOAL, "finite"),
    "nan quaternion": (pose_of(orientation=(math.nan, 0.0, 0.0, 1.0)), GOAL, "finite"),
    "zero quaternion": (pose_of(orientation=(0.0, 0.0, 0.0, 0.0)), GOAL, "zero"),
    "long quaternion": (pose_of(orientation=(0.0, 0.0, 0.0, 1.002)), GOAL, "length 1.002"),
    "short quaternion": (pose_of(orientation=(0.0, 0.0, 0.0, 0.5)), GOAL, "length 0.5"),
    "unknown tip": ({"tip_link": "elbow"}, LINK, "expected 'tool0'"),
    "no poses": ({"poses": []}, GOAL, "there are 0 poses"),
    "no samples": ({"n_samples": 0}, GOAL, "n_samples is 0"),
    "too many samples": ({"n_samples": 1001}, GOAL, "expected 1 to 1000"),
    "most samples": ({"n_samples": 2**32 - 1}, GOAL, "expected 1 to 1000"),
    "unknown joint": (near_of([*J, "gripper"], [0.0] * 8), STATE, "unknown joints: gripper"),
    "missing joint": (near_of(J[:-1], [0.0] * 6), STATE, f"lacks joints: {J[-1]}"),
    "repeated joint": (near_of(J[:-1] + J[:1], [0.0] * 7), STATE, "more than once"),
    "joint without value": (near_of(J, [0.0] * 6), STATE, "7 names and 6 positions"),
    "values without names": (near_of([], [0.0] * 7), STATE, "0 names and 7 positions"),
    "nan joint": (near_of(J, [math.nan] * 7), STATE, "finite"),
    "negative timeout": ({"timeout": -1.0}, GOAL, "timeout"),
    "nan timeout": ({"timeout": math.nan}, GOAL, "timeout"),
    "too long timeout": ({"timeout": 20.1}, GOAL, "at most 20.0 s"),
    "negative position tolerance": ({"position_tolerance": -1e-6}, GOAL, "position_tolerance"),
    "infinite orientation tolerance": ({"orientation_tolerance": math.inf}, GOAL, "orientation_tolerance"),
    "unknown order": ({"order": ["beauty"]}, GOAL, "unknown order 'beauty'; the orders are density"),
    "distance to nothing": ({"order": ["distance"]}, GOAL, "ordering by distance needs a reference configuration"),
    "order named twice": ({"order": ["limits", "limits"]}, GOAL, "each name once"),
    "no posture for the order": ({"order": ["posture"]}, GOAL, "ordering by posture needs a preferred posture"),
    "weights without order": (
        order_of(["limits"], 1.0, 2.0),
        GOAL,
        "order has 1 names, but order_weights has 2 numbers",
    ),
    "negative weight": (order_of(["limits", "density"], 1.0, -2.0), GOAL, "must be finite and at least 0, got -2"),
    "posture of another joint": ({"posture": state_of(["nose"], [1.0])}, GOAL, "no joint 'nose'"),
    "posture without value": ({"posture": JointState(name=["joint_a1"])}, GOAL, "1 names and 0 positions"),
    "nan posture": ({"posture": state_of(["joint_a1"], [math.nan])}, GOAL, "finite"),
    "posture without weight": (WEIGHTLESS, GOAL, "at least one joint needs a weight"),
    "weight without posture": ({"posture_weights": [1.0]}, GOAL, "0 positions, and there are 1 posture_weights"),
    "diversity": ({"diversity": 1.5}, GOAL, "diversity is 1.5, expected 0 to 1"),
    "nan diversity": ({"diversity": math.nan}, GOAL, "diversity is nan"),
}
SERVICES = {SampleIK: "sample_ik", FollowIK: "follow_ik", SolveNearestIK: "solve_nearest_ik", DrawIK: "draw_ik"}
BOTH = {"priority": "position", "weights": [1.0, 1.0]}
MANY = "500 configurations for each of 3 poses make 1500, expected at most 1000"
SEVERAL: dict[str, tuple[Any, dict[str, Any], ErrorCode, str]] = {
    "too many of a batch": (SampleIK, {"n_samples": 500}, GOAL, MANY),
    "path in another frame": (FollowIK, {"header": Header(frame_id="map")}, FRAME, "base link"),
    "tip of a path": (FollowIK, {"tip_link": "nose"}, LINK, "nose"),
    "step of a path": (FollowIK, {"max_step": [-1.0]}, GOAL, "max_step"),
    "times of a path": (FollowIK, {"times": [1.0]}, GOAL, "times"),
    "fixed joint of a path": (FollowIK, {"fixed_joints": state_of(["nose"], [0.3])}, GOAL, "nose"),
    "priority": (SolveNearestIK, {"priority": "speed"}, GOAL, "priority"),
    "weights": (SolveNearestIK, {"weights": [1.0]}, GOAL, "priority"),
    "both": (SolveNearestIK, BOTH, GOAL, "priority"),
}


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_bad_request_is_refused_with_its_cause(name: str) -> None:
    if name in ONE:
        fields, code, cause = ONE[name]
        service, message = "sample_ik", request(**fields)
    else:
        kind, fields, code, cause = SEVERAL[name]
        service, message = SERVICES[kind], request_of(kind, POSES, **fields)
    error = refused(service, message, settings=LIMITED)
    assert (error.code, cause in str(error)) == (code, True), str(error)


def test_bad_pose_of_a_path_is_named() -> None:
    message = request_of(FollowIK, POSES)
    message.poses[1].orientation.w = 7.0
    error = refused("follow_ik", message)
    assert (error.code, str(error).partition(": ")[0]) == (GOAL, "pose 1")


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        (SampleIK, {"order": ["density"]}, "ordering by density needs a model"),
        (DrawIK, {"density": "proposal"}, "proposals are draws from a model, and this sampler has no model"),
    ],
)
def test_what_needs_a_model_is_refused_without_one(kind: Any, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(EimError, match=reason):
        served(SERVICES[kind], request_of(kind, POSES[:1], **fields), Sampler(ROBOT))
