"""The solution respects each field of a `PositionIKRequest`, or an error names the field and has MoveIt's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped, Vector3
from ik.arms import sampler_of
from nodes.ik_server.serving import served, state_of
from nodes.ik_server.workcell import GROUPS, request_for, sampler, sampler_without_shapes
from scipy.spatial.transform import Rotation
from shape_msgs.msg import SolidPrimitive

from eim_ros.ik import Constraints, ErrorCode, Sampler
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.links import fixed_links, link_poses
from eim_ros.msg import JointConstraint, OrientationConstraint, PositionConstraint
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.ik_server.handlers import _nearest
from eim_ros.nodes.ik_server.messages import RequestContext, RequestError
from eim_ros.nodes.ik_server.moveit import parse_nearest
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.srv import GetPositionIK

SETTINGS = IkServerSettings(groups=GROUPS)
ROBOT = sampler().robot
Q = np.array([0.4, 0.6, -0.3, 1.2, 0.5, -0.9, 0.2])
POSE = ROBOT.fk(Q)
WHOLE = {**dict(zip(ROBOT.joint_names, (Q + 0.05).tolist(), strict=True)), "finger": 0.02, "mirror": 0.02, "lid": 9.0}
TOLERANCE = 2e-6  # default tolerance plus rounding in the tests [m, rad]


def solve(
    request: GetPositionIK.Request, by: Sampler | None = None, settings: IkServerSettings = SETTINGS, **options: Any
) -> GetPositionIK.Response:
    response: GetPositionIK.Response = served("get_position_ik", request, by or sampler(), settings, **options)
    return response


def named(robot: Robot, q: np.ndarray) -> dict[str, float]:
    return dict(zip(robot.joint_names, q.tolist(), strict=True))


def solution(request: GetPositionIK.Request) -> np.ndarray:
    state = solve(request).solution.joint_state
    values = dict(zip(state.name, state.position, strict=True))
    return np.array([values[name] for name in ROBOT.joint_names])


def assert_reached(q: np.ndarray, pose: np.ndarray) -> None:
    assert max(error[0] for error in ROBOT.pose_errors(q, pose)) <= TOLERANCE


def refusal(request: GetPositionIK.Request) -> RequestError:
    with pytest.raises(RequestError) as caught:
        solve(request)
    return caught.value


def limited(name: str, value: float, below: float = 0.01, above: float = 0.01) -> JointConstraint:
    return JointConstraint(joint_name=name, position=value, tolerance_below=below, tolerance_above=above)


def within(link: str, centre: np.ndarray, radius: float, frame: str = "") -> PositionConstraint:
    result = PositionConstraint(link_name=link)
    result.header.frame_id = frame
    result.constraint_region.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[radius])]
    place = np.eye(4)
    place[:3, 3] = centre
    result.constraint_region.primitive_poses = [pose_message(place)]
    return result


def turned(link: str, rotation: np.ndarray, tolerances: tuple[float, ...], frame: str = "") -> OrientationConstraint:
    result = OrientationConstraint(link_name=link)
    result.header.frame_id = frame
    turn = result.orientation
    turn.x, turn.y, turn.z, turn.w = Rotation.from_matrix(rotation).as_quat().tolist()
    for axis, tolerance in zip("xyz", tolerances, strict=True):
        setattr(result, f"absolute_{axis}_axis_tolerance", tolerance)
    return result


# Pose, link and group.


def test_empty_frame_is_the_base_and_an_empty_link_the_tip() -> None:
    assert_reached(solution(request_for(POSE)), POSE)


@pytest.mark.parametrize("frame", ["base", "world"])
def test_pose_is_taken_in_its_frame(frame: str) -> None:
    request = request_for(np.linalg.inv(fixed_links(ROBOT, "base")[frame]) @ POSE)
    request.ik_request.pose_stamped.header.frame_id = frame
    assert_reached(solution(request), POSE)


@pytest.mark.parametrize(
    ("group", "link", "reaching"),
    [("arm", "", "flange"), ("manipulator", "", "tool"), ("", "tool", "tool"), ("manipulator", "flange", "flange")],
)
def test_link_that_reaches_the_pose_is_the_one_named_or_the_groups_tip(group: str, link: str, reaching: str) -> None:
    request = request_for(POSE @ fixed_links(ROBOT, "flange")[reaching])
    request.ik_request.group_name, request.ik_request.ik_link_name = group, link
    assert_reached(solution(request), POSE)


def test_one_pose_in_the_vector_is_used_instead_of_the_single_one() -> None:
    other = ROBOT.fk(Q + 0.3)
    request = request_for(other)
    request.ik_request.ik_link_name = "nose"  # also ignored
    request.ik_request.pose_stamped_vector = [
        PoseStamped(pose=pose_message(POSE @ fixed_links(ROBOT, "flange")["tool"]))
    ]
    request.ik_request.ik_link_names = ["tool"]
    assert_reached(solution(request), POSE)


@pytest.mark.parametrize(
    ("sec", "nanosec", "expected"), [(0, 0, SETTINGS.default_timeout), (0, 250_000_000, 0.25), (2, 500_000_000, 2.5)]
)
def test_timeout_of_zero_is_the_default_and_fractions_count(sec: int, nanosec: int, expected: float) -> None:
    request = request_for(POSE)
    request.ik_request.timeout.sec, request.ik_request.timeout.nanosec = sec, nanosec
    assert parse_nearest(request.ik_request, RequestContext(ROBOT), SETTINGS).timeout == expected


def test_pose_out_of_reach_has_no_solution_and_none_is_found_without_time() -> None:
    far, late = POSE.copy(), POSE.copy()
    far[0, 3], late[:3, 3] = 9.0, 0.0  # the solver only searches for the second pose
    assert refusal(request_for(far)).code == ErrorCode.NO_IK_SOLUTION
    with pytest.raises(RequestError) as caught:
        solve(request_for(late), left=0.0)
    assert caught.value.code == ErrorCode.TIMED_OUT


# State


def test_solution_is_near_to_a_whole_state_and_gives_all_its_joints_back() -> None:
    request = request_for(POSE, **WHOLE)
    state = solve(request).solution.joint_state
    assert list(state.name) == list(WHOLE)
    values = dict(zip(state.name, state.position, strict=True))
    q = np.array([values[name] for name in ROBOT.joint_names])
    assert_reached(q, POSE)
    assert np.linalg.norm(q - (Q + 0.05)) <= np.linalg.norm(np.full(7, 0.05)) + 1e-6
    assert (values["finger"], values["mirror"]) == (0.02, 0.02)
    assert values["lid"] == -2.0 * values["j2"] + 0.1  # a mimic joint of the chain


@pytest.mark.parametrize("seed", [690, 1110])  # of 1200 seeds, these two have short collision-free curves
def test_nearest_solution_without_collisions_is_found_in_a_narrow_gap(seed: int) -> None:
    panda, rng = Robot("panda"), np.random.default_rng(seed)
    q = panda.random(1, rng)[0]
    state = np.clip(q + rng.normal(0.0, 0.3, panda.dof), panda.lower, panda.upper)
    pose = panda.fk(q)
    free = Constraints(self_collision=True)
    known = Sampler(panda).with_constraints(free).sample(pose, 2000, timeout=20.0, seed=0).q
    request = request_for(pose, **named(panda, state))
    request.ik_request.avoid_collisions = True
    found = np.array(solve(request, Sampler(panda)).solution.joint_state.position)
    assert not free.scene(panda).colliding(found[None])[0]
    assert np.linalg.norm(found - state) <= np.linalg.norm(known - state, axis=1).min() + 1e-6


@pytest.mark.parametrize("seed", [529, 1464])
def test_of_an_arm_with_a_closed_form_no_solution_is_nearer_to_the_joints_that_are_named(seed: int) -> None:
    arm = Robot("ur5e")
    q, state = arm.random(2, np.random.default_rng(seed))
    pose, named = arm.fk(q), dict(zip(arm.joint_names[3:5], state[3:5].tolist(), strict=True))
    every = Sampler(arm).sample(pose, 100, timeout=20.0, seed=0).q
    found = np.array(solve(request_for(pose, **named), Sampler(arm)).solution.joint_state.position)
    order = [[*named, *(name for name in arm.joint_names if name not in named)].index(name) for name in arm.joint_names]
    away = np.linalg.norm(every[:, 3:5] - state[3:5], axis=1)
    assert np.linalg.norm(found[order][3:5] - state[3:5]) <= away.min() + 1e-6


def test_time_that_did_not_suffice_to_look_at_all_solutions_is_told() -> None:
    state = named(ROBOT, Q + 0.05)
    late = "timed out: there may be a nearer solution; request a longer timeout"
    for given, told in ((state, late), ({"j3": 0.2}, late), ({}, "")):  # without a state, any solution is correct
        response = solve(request_for(POSE, **given), left=0.0)
        assert response.error_code.val == ErrorCode.SUCCESS
        assert response.error_code.message == told
        assert solve(request_for(POSE, **given)).error_code.message == ""


@pytest.mark.parametrize("is_diff", [False, True])
def test_partial_state_draws_the_solution_to_the_joints_that_it_names(is_diff: bool) -> None:
    for wanted, nearest in ((-0.2, -0.2), (0.1, 0.1), (1.0, 0.3024)):  # the last value is out of reach
        request = request_for(POSE, j3=wanted, finger=0.03)
        request.ik_request.robot_state.is_diff = is_diff
        answer = solve(request).solution
        values = dict(zip(answer.joint_state.name, answer.joint_state.position, strict=True))
        assert abs(values["j3"] - nearest) < 1e-3
        assert set(values) == {*ROBOT.joint_names, "finger"}
        assert answer.is_diff == is_diff
        assert_reached(np.array([values[name] for name in ROBOT.joint_names]), POSE)


def test_other_joints_are_given_back_alone_and_next_to_those_of_the_chain() -> None:
    alone = solve(request_for(POSE, finger=0.01)).solution.joint_state
    assert (list(alone.name), alone.position[0]) == (["finger", *ROBOT.joint_names], 0.01)
    answer = solve(request_for(POSE, left_j1=0.3, **named(ROBOT, Q))).solution.joint_state
    values = dict(zip(answer.name, answer.position, strict=True))
    assert values["left_j1"] == 0.3
    assert_reached(np.array([values[name] for name in ROBOT.joint_names]), POSE)


def test_collisions_that_cannot_be_checked_are_told_in_the_message() -> None:
    request = request_for(POSE)
    request.ik_request.avoid_collisions = True
    assert solve(request).error_code.message == ""
    unchecked = solve(request, sampler_without_shapes())
    assert unchecked.error_code.val == ErrorCode.SUCCESS
    assert "avoid_collisions: collisions were not checked" in unchecked.error_code.message


def test_collisions_are_avoided_only_where_asked() -> None:
    """In every state that reaches the pose, the wrist is inside the base."""
    iiwa = sampler_of("iiwa14", "pose")
    q = iiwa.robot.random(5000, np.random.default_rng(0))
    crossed = q[np.flatnonzero(collision_model(iiwa.robot).scene(True).colliding(q))[0]]
    request = request_for(iiwa.robot.fk(crossed), **named(iiwa.robot, crossed))
    assert solve(request, iiwa, IkServerSettings()).error_code.val == ErrorCode.SUCCESS
    request.ik_request.avoid_collisions = True
    with pytest.raises(RequestError, match="collide") as caught:
        solve(request, iiwa, IkServerSettings())
    assert caught.value.code == ErrorCode.GOAL_IN_COLLISION


# Fields that exist only in MoveIt's messages.


def as_moveit(request: GetPositionIK.Request, **more: Any) -> SimpleNamespace:
    """Return the request with additional fields of MoveIt's messages in its state or its constraints."""
    wanted = request.ik_request
    fields = {name: getattr(wanted, name) for name in wanted.get_fields_and_field_types()}
    state = SimpleNamespace(
        joint_state=wanted.robot_state.joint_state, is_diff=wanted.robot_state.is_diff, multi_dof_joint_state="pose",
        attached_collision_objects=more.pop("attached_collision_objects", []),
    )  # fmt: skip
    names = ("joint_constraints", "position_constraints", "orientation_constraints")
    constraints = SimpleNamespace(**{name: getattr(wanted.constraints, name) for name in names}, **more)
    return SimpleNamespace(**{**fields, "robot_state": state, "constraints": constraints})


def test_attached_objects_are_refused_only_where_they_would_have_to_be_checked() -> None:
    request = request_for(POSE)
    parse_nearest(as_moveit(request, attached_collision_objects=["box"]), RequestContext(ROBOT), SETTINGS)
    request.ik_request.avoid_collisions = True
    with pytest.raises(RequestError, match="attached_collision_objects cannot be checked") as caught:
        parse_nearest(as_moveit(request, attached_collision_objects=["box"]), RequestContext(ROBOT), SETTINGS)
    assert caught.value.code == ErrorCode.INVALID_ROBOT_STATE


def test_visibility_constraints_and_meshes_are_refused() -> None:
    request = request_for(POSE)
    with pytest.raises(RequestError, match="visibility_constraints are not supported"):
        parse_nearest(as_moveit(request, visibility_constraints=["cone"]), RequestContext(ROBOT), SETTINGS)
    region = SimpleNamespace(primitives=[], primitive_poses=[], meshes=["mesh"], mesh_poses=["pose"])
    constraint = SimpleNamespace(
        link_name="l4",
        constraint_region=region,
        target_point_offset=Vector3(),
        header=request.ik_request.pose_stamped.header,
    )
    message = as_moveit(request)
    message.constraints.position_constraints = [constraint]
    with pytest.raises(RequestError, match="of link 'l4' has a mesh"):
        parse_nearest(message, RequestContext(ROBOT), SETTINGS)


# Constraints


def test_joint_constraint_holds_as_narrow_as_it_is() -> None:
    for value in (-0.25, 0.28):
        request = request_for(POSE, **WHOLE)
        request.ik_request.constraints.joint_constraints = [limited("j3", value)]
        q = solution(request)
        assert abs(q[2] - value) <= 0.01 + 1e-12
        assert_reached(q, POSE)


@pytest.mark.parametrize("value", [3.1, -3.2, 3.1 + 4.0 * np.pi])
def test_range_of_a_continuous_joint_goes_over_half_a_turn(value: float) -> None:
    """The range includes pi, and the solution is on the side of pi that is nearer to the state."""
    for side in (3.0, -3.08):
        q = np.array([side, *Q[1:]])
        request = request_for(ROBOT.fk(q), **named(ROBOT, q))
        request.ik_request.constraints.joint_constraints = [limited("j1", value, 0.2, 0.2)]
        found = solution(request)
        np.testing.assert_allclose(found, q, atol=1e-4)


def test_several_constraints_of_a_joint_all_hold_and_a_follower_limits_its_source() -> None:
    request = request_for(POSE, **WHOLE)
    # lid = -2 j2 + 0.1 limits j2 to 0.55 to 0.75
    request.ik_request.constraints.joint_constraints = [limited("j2", 0.5, 9.0, 0.2), limited("lid", -1.2, 0.2, 0.2)]
    q = solution(request)
    assert 0.55 <= q[1] <= 0.7


def test_constraint_of_a_joint_that_the_chain_does_not_move_is_compared_with_the_state() -> None:
    request = request_for(POSE, **WHOLE)
    request.ik_request.constraints.joint_constraints = [limited("finger", 0.02)]
    assert_reached(solution(request), POSE)
    request.ik_request.constraints.joint_constraints = [limited("finger", 0.04)]
    error = refusal(request)
    assert error.code == ErrorCode.NO_IK_SOLUTION
    assert "is 0.03 to 0.05, but this chain cannot move the joint, and robot_state has it at 0.02" in str(error)


@pytest.mark.parametrize("frame", ["", "world"])
def test_point_of_a_link_is_kept_in_its_region(frame: str) -> None:
    others = [q for q in sampler().sample(POSE, 50, timeout=20.0, seed=0).q if abs(q[2] - Q[2]) > 1.0]
    elbow = (link_poses(ROBOT, "l5")(others[0][None])[0] @ [0.0, 0.1, -0.2, 1.0])[:3]
    to_frame = np.linalg.inv(fixed_links(ROBOT, "base")[frame or "base"])
    request = request_for(POSE, **WHOLE)
    constraint = within("l5", (to_frame @ [*elbow, 1.0])[:3], 0.03, frame)
    constraint.target_point_offset = Vector3(x=0.0, y=0.1, z=-0.2)
    request.ik_request.constraints.position_constraints = [constraint]
    q = solution(request)
    assert_reached(q, POSE)
    assert np.linalg.norm((link_poses(ROBOT, "l5")(q[None])[0] @ [0.0, 0.1, -0.2, 1.0])[:3] - elbow) <= 0.03


@pytest.mark.parametrize("kind", ["XYZ_EULER_ANGLES", "ROTATION_VECTOR"])
def test_link_is_turned_no_farther_than_allowed(kind: str) -> None:
    others = [q for q in sampler().sample(POSE, 50, timeout=20.0, seed=0).q if abs(q[2] - Q[2]) > 1.0]
    wanted = link_poses(ROBOT, "l4")(others[0][None])[0][:3, :3]
    in_base = fixed_links(ROBOT, "base")["world"][:3, :3]
    request = request_for(POSE, **WHOLE)
    constraint = turned("l4", in_base.T @ wanted, (0.2, 0.3, 0.1), "world")
    constraint.parameterization = getattr(OrientationConstraint, kind)
    request.ik_request.constraints.orientation_constraints = [constraint]
    q = solution(request)
    assert_reached(q, POSE)
    turn = Rotation.from_matrix(wanted.T @ link_poses(ROBOT, "l4")(q[None])[0][:3, :3])
    vector = in_base.T @ wanted @ turn.as_rotvec()  # in the frame of the constraint
    assert (np.abs(turn.as_euler("XYZ") if kind == "XYZ_EULER_ANGLES" else vector) <= (0.2, 0.3, 0.1)).all()


# Refusals


def no_quaternion() -> OrientationConstraint:
    result = turned("l4", np.eye(3), (1.0, 1.0, 1.0))
    result.orientation.w = 0.0
    return result


def with_shapes(n: int) -> PositionConstraint:
    result = PositionConstraint()
    result.constraint_region.primitives = [SolidPrimitive()] * n
    return result


def put(path: str, value: object) -> Callable[[Any], None]:
    """Return a function that sets the field of a request at this path."""

    def change(request: Any) -> None:
        *owners, name = path.split(".")
        for owner in owners:
            request = getattr(request, owner)
        setattr(request, name, value)

    return change


def joints(*constraints: JointConstraint) -> Callable[[Any], None]:
    return put("constraints.joint_constraints", list(constraints))


def places(*constraints: PositionConstraint) -> Callable[[Any], None]:
    return put("constraints.position_constraints", list(constraints))


def turns(constraint: OrientationConstraint) -> Callable[[Any], None]:
    return put("constraints.orientation_constraints", [constraint])


def at(*values: float, **named: float) -> Callable[[Any], None]:
    """Return a function that sets a state with all `values` for j1, and values of other joints by name."""
    return put("robot_state.joint_state", state_of([*["j1"] * len(values), *named], [*values, *named.values()]))


GOAL, STATE, LINK = "INVALID_GOAL_CONSTRAINTS", "INVALID_ROBOT_STATE", "INVALID_LINK_NAME"
FRAME, NONE = "FRAME_TRANSFORM_FAILURE", "NO_IK_SOLUTION"
FOREIGN = {f"left_{name}": 0.1 for name in ROBOT.joint_names}


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (put("group_name", "leg"), "INVALID_GROUP_NAME", "'leg', but the groups of this server are arm, man"),
        (put("ik_link_name", "l6"), LINK, "ik_link_name is 'l6', expected 'flange'"),
        (put("pose_stamped.header.frame_id", "map"), FRAME, "pose_stamped is in"),
        (put("pose_stamped.header.frame_id", "tool"), FRAME, "frame 'tool'"),
        (put("pose_stamped_vector", [PoseStamped()] * 2), LINK, "has 2 poses"),
        (put("ik_link_names", ["flange", "tool"]), LINK, "ik_link_names has 2 names"),
        (put("pose_stamped.pose.orientation.w", 7.0), GOAL, "pose_stamped: "),
        (put("timeout.sec", -1), GOAL, "timeout is -1"),
        (put("timeout.sec", 31), GOAL, "at most 30.0 s"),
        (put("robot_state.joint_state.name", ["j1"]), STATE, "robot_state.joint_state has 1 names and 0 positions"),
        (at(0.0, 0.0), STATE, "robot_state.joint_state names a joint more than once"),
        (at(np.nan), STATE, "robot_state.joint_state is not finite for j1"),
        (at(**FOREIGN), STATE, "has no joint of this robot, only 'left_j1'"),
        (at(**FOREIGN), STATE, "the names of the chain, 'j1'"),
        (at(**FOREIGN), STATE, "leave joint_state empty"),
        (joints(limited("nose", 0.0)), GOAL, "'nose' is neither a joint of this chain nor in robot_state"),
        (joints(limited("j2", 3.0)), GOAL, "does not overlap the joint's limits from -2.1 to 2.1"),
        (joints(limited("j2", 0.0), limited("j2", 1.0)), GOAL, "the constraints of 'j2' contradict each other"),
        (joints(limited("j2", 0.0, -0.1)), GOAL, "tolerances of at least 0"),
        (joints(limited("j2", np.nan)), GOAL, "expected a finite position"),
        (places(within("nose", np.zeros(3), 1.0)), LINK, "no link 'nose'"),
        (places(within("left_finger", np.zeros(3), 1.0)), LINK, "moved by joint 'finger'"),
        (places(within("l4", np.zeros(3), 1.0, "map")), FRAME, "position_constraints: the constraint of link"),
        (places(within("l4", np.zeros(3), -1.0)), GOAL, "size of a sphere"),
        (places(within("flange", np.zeros(3), 0.01)), NONE, "have a link outside of its region"),
        (places(PositionConstraint(link_name="l4")), GOAL, "has no shape"),
        (places(*[PositionConstraint()] * 101), GOAL, "101 constraints on links, but at most 100 are allowed"),
        (places(with_shapes(1001)), GOAL, "1001 primitives, but at most 1000 are allowed"),
        (turns(turned("l4", np.eye(3), (1.0, -1.0, 1.0))), GOAL, "must be from 0 to inf"),
        (turns(turned("l4", np.eye(3), (1.0, 1.0, 1.0), "map")), FRAME, "orientation_constraints: "),
        (turns(no_quaternion()), GOAL, "quaternion is zero"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(change: Callable[[Any], None], code: str, reason: str) -> None:
    request = request_for(POSE)
    change(request.ik_request)
    error = refusal(request)
    assert error.code.name == code
    assert reason in str(error)


def test_alternatives_are_looked_at_while_there_is_time() -> None:
    """Even without time, the first alternative is searched."""
    asked: list[Constraints] = []

    class Counting:
        robot = ROBOT

        def with_constraints(self, constraints: Constraints) -> Sampler:
            asked.append(constraints)
            return sampler().with_constraints(constraints)

    wanted = parse_nearest(request_for(POSE).ik_request, RequestContext(ROBOT), SETTINGS)
    several = replace(wanted, alternatives=wanted.alternatives * 5)
    _, in_time = _nearest(Counting(), several, None, 0.0)  # type: ignore[arg-type]  # as far as it is asked, a sampler
    assert len(asked) == 1 and not in_time
