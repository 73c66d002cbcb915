"""Parsing of requests with MoveIt's fields, in our types or MoveIt's types.

A `PositionIKRequest` requests the solution of a pose that is nearest to a state. A `GetCartesianPath` request requests
a path along straight lines from a state.

All functions are pure. Each field is either used, or refused with MoveIt's error code and a message with the name of
the field. If the comments of the messages are ambiguous, a field has the same meaning as in MoveIt's service. Fields
that only MoveIt's messages contain are read if they exist.

If the range of a continuous joint contains pi or -pi, it is split into two ranges of values. Each combination of ranges
is one alternative. A solution satisfies one of the alternatives.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConstraintError, EimError, MeshError, RobotError
from eim_ros.ik import Constraints, ErrorCode, LinkOrientation, LinkPosition, Posture
from eim_ros.ik.constraints import MOST_CONSTRAINTS, MOST_SHAPES, LinkConstraint
from eim_ros.ik.joint_path import MAX_SLIDE, MAX_STEP
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.links import described_joints, following_joints, link_poses
from eim_ros.kinematics.poses import straight_lines
from eim_ros.kinematics.srdf import listed_groups, srdf_groups
from eim_ros.kinematics.urdf import Mimic, listed
from eim_ros.nodes.common.messages import seconds, transform_of
from eim_ros.nodes.ik_server.constraints import shape_of
from eim_ros.nodes.ik_server.messages import (
    RequestContext,
    RequestError,
    invalid,
    link_on_tip,
    pose_of,
    positive,
    timeout_of,
)
from eim_ros.nodes.settings import IkServerSettings

Frame = Callable[[Any, str], FloatArray]
"""Function that returns the pose (4, 4) of a frame in the base frame, from a header and the name of its owner."""
Range = tuple[float, float]
Understood = TypeVar("Understood")

MOST_ALTERNATIVES = 1024
TURN_PER_METRE = 3.5  # [rad/m] maximum rotation between two poses on a line, per metre of max_step, as in MoveIt
ROUNDING = 1e-9  # [rad] or [m] tolerance of the range of a joint outside the chain


def goal_constraints(
    message: Any,
    robot: Robot,
    state: Mapping[str, float],
    followers: Mapping[str, Mimic],
    frame: Frame,
    self_collision: bool,
) -> tuple[Constraints, ...]:
    """Return alternative constraints. A solution satisfies one of the alternatives.

    `state` contains the joint values of the request [rad] or [m]. `followers` are joints that mimic a joint of the
    chain. `RequestError` is raised if a field is malformed or not supported, or if the robot cannot satisfy the field.
    The message names the field.
    """
    if len(getattr(message, "visibility_constraints", ())):
        raise invalid("visibility_constraints are not supported: leave them empty", message.visibility_constraints)
    n_links = len(message.position_constraints) + len(message.orientation_constraints)
    if n_links > MOST_CONSTRAINTS:
        raise invalid(f"there are {n_links} constraints on links, but at most {MOST_CONSTRAINTS} are allowed", n_links)
    ranges: dict[str, list[Range]] = {}
    for constraint in message.joint_constraints:
        name, span = _source(constraint, followers)
        if name in robot.joint_names:
            ranges[name] = _both(ranges.get(name), _ranges(name, span, robot), name)
        else:
            _check_other(name, span, state)
    links: list[LinkConstraint] = [
        *(_position(constraint, frame) for constraint in message.position_constraints),
        *(_orientation(constraint, frame) for constraint in message.orientation_constraints),
    ]
    for name in dict.fromkeys(link.link for link in links):
        try:
            link_poses(robot, name)
        except RobotError as error:
            raise RequestError(
                ErrorCode.INVALID_LINK_NAME, f"a constraint names an invalid link: {error}", name
            ) from error
    if (n_alternatives := math.prod(map(len, ranges.values()))) > MOST_ALTERNATIVES:
        raise invalid(
            f"joint_constraints: continuous joints whose ranges contain pi or -pi give {n_alternatives} alternatives, "
            f"but at most {MOST_ALTERNATIVES} are allowed",
            n_alternatives,
        )
    alternatives = [
        Constraints(limits=dict(zip(ranges, choice, strict=True)), self_collision=self_collision, links=links)
        for choice in itertools.product(*ranges.values())
    ]
    try:
        alternatives[0].check(robot)
    except ConstraintError as error:
        raise invalid(str(error), error.value) from error
    return tuple(alternatives)


def _source(constraint: Any, followers: Mapping[str, Mimic]) -> tuple[str, Range]:
    """Return the constrained joint and its range [rad] or [m].

    For a joint that mimics another joint, the result is the other joint with the corresponding range.
    """
    name, value = str(constraint.joint_name), float(constraint.position)
    below, above = float(constraint.tolerance_below), float(constraint.tolerance_above)
    if not (math.isfinite(value) and below >= 0.0 and above >= 0.0):
        raise invalid(
            f"joint_constraints: {name!r} has position {value}, tolerance_below {below} and tolerance_above {above}; "
            "expected a finite position, and tolerances of at least 0",
            name,
        )
    span = (value - below, value + above)
    if name in followers and followers[name].multiplier != 0.0:
        mimic = followers[name]
        low, high = sorted((end - mimic.offset) / mimic.multiplier for end in span)
        return mimic.joint, (low, high)
    return name, span


def _ranges(name: str, span: Range, robot: Robot) -> list[Range]:
    """Return the ranges of a joint of the chain within its limits, at least one."""
    j = robot.joint_names.index(name)
    lower, upper = float(robot.lower[j]), float(robot.upper[j])
    low, high = span
    spans = [span]
    if robot.continuous[j]:
        if high - low >= 2.0 * math.pi:
            return [(-math.inf, math.inf)]
        turns = 2.0 * math.pi * math.floor((low + math.pi) / (2.0 * math.pi))
        spans = [(low - turns, high - turns), (low - turns - 2.0 * math.pi, high - turns - 2.0 * math.pi)]
    within = [(max(a, lower), min(b, upper)) for a, b in spans if max(a, lower) <= min(b, upper)]
    if not within:
        raise invalid(
            f"joint_constraints: the range of joint {name!r} from {low:.6g} to {high:.6g} does not overlap the joint's "
            f"limits from {lower:.6g} to {upper:.6g}",
            name,
        )
    return within


def _both(first: list[Range] | None, second: list[Range], name: str) -> list[Range]:
    """Return the intersections of the first ranges with the second ranges."""
    if first is None:
        return second
    common = [(max(a, c), min(b, d)) for (a, b), (c, d) in itertools.product(first, second) if max(a, c) <= min(b, d)]
    if not common:
        raise invalid(f"joint_constraints: the constraints of {name!r} contradict each other", name)
    return common


def _check_other(name: str, span: Range, state: Mapping[str, float]) -> None:
    """Check that a joint outside the chain is in its range. The joint keeps its value in the state."""
    if name not in state:
        raise invalid(f"joint_constraints: {name!r} is neither a joint of this chain nor in robot_state", name)
    if not span[0] - ROUNDING <= state[name] <= span[1] + ROUNDING:
        raise RequestError(
            ErrorCode.NO_IK_SOLUTION,
            f"joint_constraints: the range of {name!r} is {span[0]:.6g} to {span[1]:.6g}, but this chain cannot move "
            f"the joint, and robot_state has it at {state[name]:.6g}",
            name,
        )


def _position(constraint: Any, frame: Frame) -> LinkPosition:
    what = f"position_constraints: the constraint of link {constraint.link_name!r}"
    region, offset = constraint.constraint_region, constraint.target_point_offset
    if len(getattr(region, "meshes", ())):
        raise invalid(f"{what} has a mesh, which is not supported; use boxes, spheres or cylinders", region.meshes)
    if len(region.primitives) > MOST_SHAPES:
        raise invalid(f"{what} has {len(region.primitives)} primitives, but at most {MOST_SHAPES} are allowed", None)
    if len(region.primitives) != len(region.primitive_poses):
        raise invalid(
            f"{what} has {len(region.primitives)} primitives and {len(region.primitive_poses)} primitive_poses; "
            "expected equal numbers",
            len(region.primitives),
        )
    in_base = frame(constraint.header, what)
    return _understood(
        lambda: LinkPosition(
            constraint.link_name,
            [
                shape_of(primitive, in_base @ transform_of(pose), "a primitive")
                for primitive, pose in zip(region.primitives, region.primitive_poses, strict=True)
            ],
            (offset.x, offset.y, offset.z),
        ),
        what,
    )


def _orientation(constraint: Any, frame: Frame) -> LinkOrientation:
    what = f"orientation_constraints: the constraint of link {constraint.link_name!r}"
    if constraint.parameterization not in (constraint.XYZ_EULER_ANGLES, constraint.ROTATION_VECTOR):
        raise invalid(
            f"{what} has the parameterization {constraint.parameterization}, expected XYZ_EULER_ANGLES or "
            "ROTATION_VECTOR",
            constraint.parameterization,
        )
    turn, in_base = constraint.orientation, frame(constraint.header, what)
    tolerances = [getattr(constraint, f"absolute_{axis}_axis_tolerance") for axis in "xyz"]

    def read() -> LinkOrientation:
        in_frame = pose_from(np.zeros(3), (turn.x, turn.y, turn.z, turn.w))[:3, :3]
        axes = in_frame if constraint.parameterization == constraint.ROTATION_VECTOR else None
        return LinkOrientation(constraint.link_name, in_base[:3, :3] @ in_frame, tolerances, axes)

    return _understood(read, what)


def _understood(read: Callable[[], Understood], what: str) -> Understood:
    """Return the result of `read` for a constraint. Error messages begin with the name of the constraint."""
    try:
        return read()
    except EimError as error:
        raise invalid(f"{what}: {error}", error.value) from error


@dataclass(frozen=True, eq=False)
class NearestRequest:
    """A parsed request for the nearest solution."""

    pose: FloatArray  # (4, 4) array: pose of the tip of the chain in the base frame
    alternatives: tuple[Constraints, ...]  # a solution satisfies one of them
    near: Mapping[str, float]  # values of the joints of the chain in the state [rad] or [m]
    timeout: float  # time for all alternatives [s]
    remark: str  # text for the response about an unsatisfied field of the request; usually empty

    def cost(self, robot: Robot, q: FloatArray) -> float:
        """Return the squared distance of a solution (dof,) from the state, over the joints in `near`."""
        return float(Posture(dict(self.near)).costs(robot, q[None])[0]) if self.near else 0.0


def parse_nearest(request: Any, context: RequestContext, settings: IkServerSettings) -> NearestRequest:
    """Return the pose, constraints and reference of a request.

    The comments of the message explain units and defaults. If the request is invalid, `RequestError` with the error
    code of the response is raised.
    """
    robot = context.robot
    stamped, link = _goal(request)
    to_tip = np.linalg.inv(link_on_tip("ik_link_name", link, robot, _tip_of(request.group_name, robot, settings)))
    pose = context.in_base(stamped.header, "pose_stamped") @ pose_of(stamped.pose, "pose_stamped") @ to_tip
    state = _state(request.robot_state, "robot_state", context)
    timeout = timeout_of(seconds(request.timeout), settings)
    alternatives, unchecked = _alternatives(
        request.constraints, state, request.robot_state, bool(request.avoid_collisions), context, settings
    )
    named = {name: state[name] for name in robot.joint_names if name in state}
    unknown = context.unknown_joints if _is_now(request.robot_state) else ""
    return NearestRequest(pose, alternatives, named, timeout, "; ".join(filter(None, [unknown, unchecked])))


@dataclass(frozen=True, eq=False)
class LinesRequest:
    """A parsed request for a path along straight lines."""

    poses: FloatArray  # (n, 4, 4): poses of the tip of the chain in the base frame, without the start
    start: FloatArray  # (dof,): configuration before the first pose [rad] or [m]
    state: Mapping[str, float]  # all known joint values at the start [rad] or [m]
    alternatives: tuple[Constraints, ...]  # the path satisfies one of them
    max_steps: FloatArray  # (dof,): largest motion of each joint between two poses [rad] or [m]
    jump_threshold: float  # maximum joint motion between two poses as a multiple of the mean; 0: no limit
    velocities: FloatArray  # (dof,): largest velocities; infinite if a joint has no limit [rad/s] or [m/s]
    remark: str  # text about an unsatisfied field of the request; usually empty

    def n_before_jump(self, rows: FloatArray) -> int:
        """Return the number of configurations (n, dof) before the first motion that exceeds `jump_threshold`."""
        motions = np.abs(np.diff(np.concatenate([self.start[None], rows]), axis=0)).sum(axis=1)
        jumps = np.flatnonzero(motions > self.jump_threshold * motions.mean()) if len(rows) else motions
        return int(jumps[0]) if self.jump_threshold and len(jumps) else len(rows)


def parse_lines(request: Any, context: RequestContext, settings: IkServerSettings) -> LinesRequest:
    """Return the poses and conditions of a `GetCartesianPath` request.

    The comments of the message explain units and defaults. `RequestError` is raised if the request is invalid.
    """
    robot = context.robot
    if getattr(request, "max_cartesian_speed", 0.0) > 0.0:
        raise invalid("max_cartesian_speed is not supported: use max_velocity_scaling_factor", None)
    if not request.waypoints:
        raise invalid("there are no waypoints; expected at least one", 0)
    spacing, share = float(request.max_step), float(getattr(request, "max_velocity_scaling_factor", 0.0)) or 1.0
    if not (math.isfinite(spacing) and spacing > 0.0):
        raise invalid(f"max_step is {spacing}, expected a positive distance [m]", spacing)
    if not 0.0 < share <= 1.0:
        raise invalid(f"max_velocity_scaling_factor is {share}, expected 0 to 1", share)
    slide = positive("prismatic_jump_threshold", request.prismatic_jump_threshold, MAX_SLIDE)
    turn = positive("revolute_jump_threshold", request.revolute_jump_threshold, MAX_STEP)
    state = _state(request.start_state, "start_state", context)
    if missing := [name for name in robot.joint_names if name not in state]:
        reason = context.unknown_joints or f"start_state does not contain {', '.join(missing)}"
        raise RequestError(ErrorCode.INVALID_ROBOT_STATE, f"the start of the path is unknown: {reason}", missing)
    start = np.array([state[name] for name in robot.joint_names])
    alternatives, remark = _alternatives(
        request.path_constraints, state, request.start_state, bool(request.avoid_collisions), context, settings
    )
    on_tip = link_on_tip("ik_link_name", request.link_name, robot, _tip_of(request.group_name, robot, settings))
    in_base = context.in_base(request.header, "waypoints")
    waypoints = [in_base @ pose_of(pose, f"waypoint {index}") for index, pose in enumerate(request.waypoints)]
    corners = np.array([robot.fk(start) @ on_tip, *waypoints])
    with np.errstate(over="ignore"):
        lines = _understood(
            lambda: straight_lines(corners, spacing, TURN_PER_METRE * spacing, settings.max_samples),
            "waypoints (parameter max_samples)",
        )
    return LinesRequest(
        lines @ np.linalg.inv(on_tip),
        start,
        state,
        alternatives,
        np.where(robot.prismatic, slide, turn),
        positive("jump_threshold", request.jump_threshold, 0.0),
        share * robot.velocity_limits,
        remark,
    )


def _alternatives(
    message: Any,
    state: Mapping[str, float],
    given: Any,
    avoids: bool,
    context: RequestContext,
    settings: IkServerSettings,
) -> tuple[tuple[Constraints, ...], str]:
    """Return alternative constraints with the default tolerances, and the reason why collisions cannot be checked (or
    "").

    `given` is the state of the request.
    """
    robot = context.robot
    if avoids and len(getattr(given, "attached_collision_objects", ())):
        raise RequestError(
            ErrorCode.INVALID_ROBOT_STATE,
            "robot_state.attached_collision_objects cannot be checked for collisions: detach them, or set "
            "avoid_collisions to false",
        )
    unchecked = _why_unchecked(robot) if avoids else ""
    is_checked = avoids and not unchecked
    found = goal_constraints(message, robot, state, following_joints(robot), context.in_base, is_checked)
    tolerances = {
        "position_only": False,
        "position_tolerance": settings.default_position_tolerance,
        "orientation_tolerance": settings.default_orientation_tolerance,
    }
    return (
        tuple(replace(constraints, **tolerances) for constraints in found),  # type: ignore[arg-type]  # by name
        f"avoid_collisions: collisions were not checked, because {unchecked}" if unchecked else "",
    )


def check_groups(robot: Robot, settings: IkServerSettings) -> tuple[str, ...]:
    """Return the names of the served planning groups. Raise `RobotError` if a setting is wrong."""
    return tuple(_groups(robot, settings.groups))


@functools.lru_cache(maxsize=8)
def _groups(robot: Robot, listed: str) -> Mapping[str, str]:
    """Return the tip link of each planning group in the robot's SRDF and in the list."""
    return {**srdf_groups(robot, str(robot.collision.srdf)), **listed_groups(robot, listed)}


def _goal(request: Any) -> tuple[Any, str]:
    """Return the stamped pose, and the name of the link that must reach this pose. The name may be empty."""
    poses, links = list(request.pose_stamped_vector), list(request.ik_link_names)
    if len(poses) > 1 or len(links) > 1:
        raise RequestError(
            ErrorCode.INVALID_LINK_NAME,
            f"pose_stamped_vector has {len(poses)} poses and ik_link_names has {len(links)} names; expected at most "
            "one of each, because this server has one tip",
            links,
        )
    if poses:
        return poses[0], (links[0] if links else "")
    return request.pose_stamped, (links[0] if links else request.ik_link_name)


def _tip_of(group: str, robot: Robot, settings: IkServerSettings) -> str:
    if not group:
        return robot.tip_link
    groups = _groups(robot, settings.groups)
    if group not in groups:
        known = ", ".join(groups) or "none"
        raise RequestError(
            ErrorCode.INVALID_GROUP_NAME,
            f"group_name is {group!r}, but the groups of this server are {known} (parameters groups and "
            "robot_description_semantic)",
            group,
        )
    return groups[group]


def _is_now(message: Any) -> bool:
    """Return whether current values complete a state with missing joints."""
    return not len(message.joint_state.name) or bool(message.is_diff)


def _state(message: Any, field: str, context: RequestContext) -> dict[str, float]:
    """Return the values of all joints in a state [rad] or [m], completed by current values if the state allows it."""
    names, values = list(message.joint_state.name), list(message.joint_state.position)
    problem = ""
    if len(names) != len(values):
        problem = f"has {len(names)} names and {len(values)} positions; expected equal numbers"
    elif len(set(names)) != len(names):
        problem = "names a joint more than once; expected each joint once"
    elif wrong := [name for name, value in zip(names, values, strict=True) if not math.isfinite(value)]:
        problem = f"is not finite for {', '.join(wrong)}"
    if problem:
        raise RequestError(ErrorCode.INVALID_ROBOT_STATE, f"{field}.joint_state {problem}", names)
    given = dict(zip(names, values, strict=True))
    if _is_now(message) and context.joints is not None:
        return {**context.joints, **given}
    if names and not described_joints(context.robot) & given.keys():
        raise RequestError(
            ErrorCode.INVALID_ROBOT_STATE,
            f"{field}.joint_state has no joint of this robot, only {listed(names)}; use the names of the chain, "
            f"{listed(context.robot.joint_names)}, or leave joint_state empty",
            names,
        )
    return given


def _why_unchecked(robot: Robot) -> str:
    """Return why the robot has no shapes for collision checks, or an empty text if it has shapes."""
    try:
        none = "no link of the robot's description has a <collision> with a box, cylinder, sphere, capsule or mesh"
        return "" if collision_model(robot).n_shapes else none
    except MeshError as error:
        return str(error)
    except RobotError as error:
        raise invalid(f"avoid_collisions: {error}", error.value) from error
