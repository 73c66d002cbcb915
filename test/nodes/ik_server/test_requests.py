"""Requests over DDS: what good ones return, and how each bad one is refused while the server keeps serving."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kinematics.solids_by_formula import box_mesh
from nodes.client_node import NODE, ClientNode, joint_positions, request
from nodes.server_process import ServerProcess
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from eim_ros.core.errors import LONGEST_MESSAGE
from eim_ros.ik import ErrorCode, Solutions
from eim_ros.kinematics import Mesh, PointCloud, Robot, pose_from, quaternion_from_matrix
from eim_ros.kinematics.collision import collisions
from eim_ros.nodes.ik_server.constraints import fill_scene
from eim_ros.srv import DrawIK, SampleIK

# The server verifies in compiled code, the test with pinocchio: they agree to rounding, far below the tolerance.
ROUNDING = 1e-10


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(max_samples=1000, max_timeout=5.0)
    yield started
    assert started.stop() == 0, started.log


@pytest.fixture(scope="module")
def robot() -> Robot:
    return Robot("iiwa14")


def test_log_lines_and_messages_do_not_repeat_a_long_value(server: ServerProcess, client: ClientNode) -> None:
    message = request()
    message.header.frame_id = 1_000_000 * "a"
    answer = client.sample(server, message)
    assert answer.error_code.val == ErrorCode.FRAME_TRANSFORM_FAILURE
    assert len(answer.error_code.message) <= LONGEST_MESSAGE
    assert max(map(len, server.log.splitlines())) <= LONGEST_MESSAGE + 100  # time, level and name of the node


def tip_pose(robot: Robot, configuration: np.ndarray) -> np.ndarray:
    """Pose (4, 4) of the tip by pinocchio."""
    import pinocchio

    model = pinocchio.buildModelFromXML(robot.urdf)
    data = model.createData()
    q = np.zeros(model.nq)
    for name, value in zip(robot.joint_names, configuration, strict=True):
        q[model.joints[model.getJointId(name)].idx_q] = value
    pinocchio.framesForwardKinematics(model, data, q)
    base, tip = data.oMf[model.getFrameId(robot.base_link)], data.oMf[model.getFrameId(robot.tip_link)]
    return (base.inverse() * tip).homogeneous


def set_pose(message: SampleIK.Request, pose: np.ndarray) -> SampleIK.Request:
    point, rotation = message.poses[0].position, message.poses[0].orientation
    point.x, point.y, point.z = pose[:3, 3].tolist()
    rotation.x, rotation.y, rotation.z, rotation.w = quaternion_from_matrix(pose).tolist()
    return message


def seed_state(robot: Robot, values: np.ndarray) -> JointState:
    return JointState(name=list(robot.joint_names), position=[float(value) for value in values])


@pytest.mark.parametrize("n", [1, 10, 100, 1000])
def test_every_valid_configuration_reaches_the_position_within_limits(
    client: ClientNode, server: ServerProcess, robot: Robot, n: int
) -> None:
    target = robot.fk(robot.random(1, np.random.default_rng(n))[0])[:3, 3]
    answer = client.sample(server, request(tuple(target), n_samples=n))
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert answer.joint_names == list(robot.joint_names)
    positions = joint_positions(answer)
    assert answer.n == n == len(answer.expert)
    assert len(answer.log_prob) == (n if n > 1 else 0)  # of one there is nothing to compare it with
    assert len(answer.position_error) == len(answer.orientation_error) == n
    assert answer.n > 0
    assert not answer.valid  # all are
    assert robot.within_limits(positions).all()
    for row, error in zip(positions[:50], answer.position_error, strict=False):
        distance = np.linalg.norm(tip_pose(robot, row)[:3, 3] - target)
        assert distance <= 1e-6
        assert abs(distance - error) < ROUNDING
    assert set(answer.orientation_error) == {0.0}
    assert answer.elapsed > 0.0


def test_every_valid_configuration_reaches_the_whole_pose(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    pose = robot.fk(robot.random(1, np.random.default_rng(7))[0])
    answer = client.sample(server, set_pose(request(position_only=False, n_samples=20), pose))
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert answer.n > 0
    assert not answer.valid  # all are
    for row in joint_positions(answer):
        reached = tip_pose(robot, row)
        assert np.linalg.norm(reached[:3, 3] - pose[:3, 3]) <= 1e-6
        # the angle of a rotation from its antisymmetric part: exact for small angles
        difference = reached[:3, :3].T @ pose[:3, :3]
        assert np.linalg.norm(difference - difference.T) / (2 * math.sqrt(2)) <= 1e-6 + ROUNDING


def test_same_seed_gives_same_answer_and_a_negative_one_another(client: ClientNode, server: ServerProcess) -> None:
    first, second = (client.sample(server, request(seed=3)) for _ in range(2))
    assert first.positions == second.positions
    fresh = [client.sample(server, request(seed=-1)).positions for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_seed_ranks_by_distance_to_it(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    near = robot.random(1, np.random.default_rng(5))[0]
    shuffled = JointState(name=list(robot.joint_names)[::-1], position=[float(value) for value in near[::-1]])
    answer = client.sample(server, request(n_samples=50, near=shuffled))
    distances = np.linalg.norm(joint_positions(answer) - near, axis=1)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert (np.diff(distances) >= -1e-9).all()


def test_without_refinement_raw_samples_are_returned_with_their_true_errors(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    message = request(service_type=DrawIK, n_samples=30, density="proposal")
    answer = client.call(server, DrawIK, f"{NODE}/draw_ik", message).solutions
    assert len(answer.valid) == 30
    assert answer.n == 30
    for row, error in zip(joint_positions(answer), answer.position_error, strict=True):
        assert abs(np.linalg.norm(tip_pose(robot, row)[:3, 3] - (0.4, 0.1, 0.6)) - error) < ROUNDING


def test_solutions_are_distinct(client: ClientNode, server: ServerProcess) -> None:
    answer = client.sample(server, request(n_samples=100))
    positions = joint_positions(answer)
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=-1) + np.eye(len(positions))
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert distances.min() > 1e-3


def test_looser_tolerance_of_a_request_is_used(client: ClientNode, server: ServerProcess) -> None:
    answer = client.sample(server, request(n_samples=100, position_tolerance=1e-2))
    assert 1e-6 < max(answer.position_error) <= 1e-2


def test_quaternion_within_a_thousandth_of_unit_length_is_normalised(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    pose = robot.fk(robot.random(1, np.random.default_rng(8))[0])
    message = set_pose(request(position_only=False, n_samples=5), pose)
    for axis in "xyzw":
        rotation = message.poses[0].orientation
        setattr(rotation, axis, getattr(rotation, axis) * 1.0009)
    answer = client.sample(server, message)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    quaternion = quaternion_from_matrix(tip_pose(robot, joint_positions(answer)[0]))
    assert np.allclose(pose_from(pose[:3, 3], quaternion), pose, atol=1e-5)


def _position(axis: str, value: float) -> SampleIK.Request:
    message = request()
    setattr(message.poses[0].position, axis, value)
    return message


def _quaternion(*values: float) -> SampleIK.Request:
    message = request()
    rotation = message.poses[0].orientation
    rotation.x, rotation.y, rotation.z, rotation.w = values
    return message


def _frame(name: str) -> SampleIK.Request:
    message = request()
    message.header.frame_id = name
    return message


def _seed(names: list[str], positions: list[float]) -> SampleIK.Request:
    return request(near=JointState(name=names, position=positions))


JOINTS = list(Robot("iiwa14").joint_names)
GOAL, STATE = ErrorCode.INVALID_GOAL_CONSTRAINTS, ErrorCode.INVALID_ROBOT_STATE
BAD_REQUESTS: dict[str, tuple[Callable[[], SampleIK.Request], int, str]] = {
    "nan position": (lambda: _position("x", math.nan), GOAL, "finite"),
    "infinite position": (lambda: _position("z", -math.inf), GOAL, "finite"),
    "nan quaternion": (lambda: _quaternion(math.nan, 0.0, 0.0, 1.0), GOAL, "finite"),
    "zero quaternion": (lambda: _quaternion(0.0, 0.0, 0.0, 0.0), GOAL, "zero"),
    "long quaternion": (lambda: _quaternion(0.0, 0.0, 0.0, 1.002), GOAL, "length 1.002"),
    "short quaternion": (lambda: _quaternion(0.0, 0.0, 0.0, 0.5), GOAL, "length 0.5"),
    "unknown frame": (lambda: _frame("map"), ErrorCode.FRAME_TRANSFORM_FAILURE, "no node publishes on /tf"),
    "unknown tip": (lambda: request(tip_link="elbow"), ErrorCode.INVALID_LINK_NAME, "expected 'tool0'"),
    "no samples": (lambda: request(n_samples=0), GOAL, "n_samples is 0"),
    "too many samples": (lambda: request(n_samples=1001), GOAL, "expected 1 to 1000"),
    "most samples": (lambda: request(n_samples=2**32 - 1), GOAL, "expected 1 to 1000"),
    "unknown joint": (lambda: _seed([*JOINTS, "gripper"], [0.0] * 8), STATE, "unknown joints: gripper"),
    "missing joint": (lambda: _seed(JOINTS[:-1], [0.0] * 6), STATE, f"lacks joints: {JOINTS[-1]}"),
    "repeated joint": (lambda: _seed(JOINTS[:-1] + JOINTS[:1], [0.0] * 7), STATE, "twice"),
    "joint without value": (lambda: _seed(JOINTS, [0.0] * 6), STATE, "7 names and 6 positions"),
    "values without names": (lambda: _seed([], [0.0] * 7), STATE, "0 names and 7 positions"),
    "nan joint": (lambda: _seed(JOINTS, [math.nan] * 7), STATE, "finite"),
    "negative timeout": (lambda: request(timeout=-1.0), GOAL, "timeout"),
    "nan timeout": (lambda: request(timeout=math.nan), GOAL, "timeout"),
    "too long timeout": (lambda: request(timeout=5.1), GOAL, "at most 5.0 s"),
    "negative position tolerance": (lambda: request(position_tolerance=-1e-6), GOAL, "position_tolerance"),
    "infinite orientation tolerance": (lambda: request(orientation_tolerance=math.inf), GOAL, "orientation_tolerance"),
    "unreachable": (lambda: request((2.0, 0.0, 0.5)), ErrorCode.NO_IK_SOLUTION, "best"),
    "timeout before it is read": (lambda: request(timeout=1e-9), ErrorCode.TIMED_OUT, "timeout"),
    "timeout while searching": (  # a tenth of what it takes
        lambda: request(n_samples=1000, timeout=5e-4, avoid_self_collision=True),
        ErrorCode.TIMED_OUT,
        "",
    ),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_request_is_refused_with_its_cause_and_the_next_is_served(
    client: ClientNode, server: ServerProcess, name: str
) -> None:
    make, code, cause = BAD_REQUESTS[name]
    answer = client.sample(server, make())
    assert (answer.error_code.val, cause in answer.error_code.message) == (code, True), answer.error_code.message
    assert code == ErrorCode.TIMED_OUT or answer.n == 0  # what was found in time is returned
    assert len(answer.positions) == answer.n * len(answer.joint_names)
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS, server.log


def test_unreachable_pose_returns_nothing_but_its_best_attempt(
    client: ClientNode, server: ServerProcess, robot: Robot
) -> None:
    answer = client.sample(server, request((2.0, 0.0, 0.5)))
    assert answer.error_code.val == ErrorCode.NO_IK_SOLUTION
    assert (answer.n, answer.valid, len(answer.positions), len(answer.position_error)) == (0, [], 0, 0)
    samples = Solutions.from_message(answer)
    assert not samples
    assert list(samples) == []
    distance = np.linalg.norm(tip_pose(robot, samples.best_attempt)[:3, 3] - (2.0, 0.0, 0.5))
    assert answer.error_code.message.endswith(f"the best attempt is off by {distance:.3g} m and 0 rad")
    assert len(client.sample(server, request()).best_attempt) == 0


def test_seed_is_matched_by_name_not_by_order(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    values = robot.random(1, np.random.default_rng(9))[0]
    ordered = seed_state(robot, values)
    order = np.random.default_rng(1).permutation(robot.dof)
    shuffled: Any = JointState(name=[robot.joint_names[i] for i in order], position=[float(values[i]) for i in order])
    answers = [client.sample(server, request(near=state)) for state in (ordered, shuffled)]
    assert answers[0].positions == answers[1].positions


def test_constraints_of_a_request_hold_in_its_answer(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    q = np.array([0.2, 0.6, 0.1, 1.2, 0.3, 0.8, 0.0])
    message = set_pose(request((0.0, 0.0, 0.0), n_samples=50, position_only=False), robot.fk(q))
    message.constraints.fixed_joints = JointState(name=["joint_a3"], position=[0.1])
    limited = message.constraints
    limited.limited_joints, limited.lower_limits, limited.upper_limits = ["joint_a1"], [-1.0], [math.inf]
    message.constraints.tolerances = [0.0] * 5 + [math.inf]
    message.constraints.avoid_self_collision = True
    answer = client.sample(server, message)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    positions = joint_positions(answer)
    assert answer.n > 0
    assert not answer.valid  # all are
    assert (positions[:, 2] == 0.1).all()
    assert (positions[:, 0] >= -1.0).all()
    for row in positions:
        offset = np.linalg.inv(robot.fk(q)) @ tip_pose(robot, row)
        assert np.linalg.norm(offset[:3, 3]) <= 1e-6 + ROUNDING
        assert np.linalg.norm(offset[:2, 2]) <= 1e-6 + ROUNDING


def test_obstacle_around_the_goal_is_told(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    pose = robot.fk(np.full(7, 0.4))
    message = set_pose(request((0.0, 0.0, 0.0), n_samples=5, position_only=False), pose)
    message.constraints.scene.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.3])]
    message.constraints.scene.primitive_poses = message.poses
    answer = client.sample(server, message)
    assert answer.error_code.val == ErrorCode.GOAL_IN_COLLISION
    assert (answer.n, len(answer.positions), len(answer.best_attempt)) == (0, 0, 7)
    assert "collide" in answer.error_code.message


def test_meshes_and_points_of_a_request_are_avoided(client: ClientNode, server: ServerProcess, robot: Robot) -> None:
    """A block and a wall of points where elbows would be: what is valid is free of both, and without them is not."""
    pose = robot.fk(np.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.8, 0.0]))
    message = set_pose(request((0.0, 0.0, 0.0), n_samples=100, position_only=False, seed=0, timeout=5.0), pose)
    elbows = robot.skeleton(joint_positions(client.sample(server, message)))[:, 4]
    sides = elbows[np.argmax(elbows[:, 1])], elbows[np.argmin(elbows[:, 1])]
    vertices, faces = box_mesh((0.1, 0.1, 0.1))
    points = sides[1] + 0.05 * np.random.default_rng(0).uniform(-1.0, 1.0, (200, 3))
    obstacles = [Mesh(pose_from(sides[0]), vertices, faces), PointCloud(points, 0.01)]
    free = np.array([not collisions(robot, q, obstacles, self_collision=False, clearance=0.02)
                     for q in joint_positions(client.sample(server, message))])  # fmt: skip
    assert 0 < free.sum() < len(free)
    fill_scene(message.constraints.scene, obstacles)
    message.constraints.clearance = 0.02
    answer = client.sample(server, message)
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert answer.n > 0
    assert not answer.valid  # all are
    for q in joint_positions(answer):
        assert not collisions(robot, q, obstacles, self_collision=False, clearance=0.02)
    message.constraints.scene.mesh_poses.pop()
    assert client.sample(server, message).error_code.val == ErrorCode.INVALID_GOAL_CONSTRAINTS
