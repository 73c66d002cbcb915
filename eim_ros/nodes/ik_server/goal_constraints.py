"""From the constraints of a `PositionIKRequest`, ours or MoveIt's, to those of the sampler.

A range of a continuous joint that goes over half a turn is two ranges of its values: each combination of such ranges is
one alternative, and a solution obeys one of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError, EimError, RobotError
from eim_ros.ik import Constraints, ErrorCode, LinkOrientation, LinkPosition
from eim_ros.ik.link_constraints import MOST_CONSTRAINTS, MOST_SHAPES, LinkConstraint
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.attachments import link_poses
from eim_ros.kinematics.link_tree import Mimic
from eim_ros.nodes.common.pose_messages import transform_of
from eim_ros.nodes.ik_server.constraint_messages import shape_of
from eim_ros.nodes.ik_server.fields import RequestError

__all__ = ["goal_constraints"]

FloatArray = npt.NDArray[np.float64]
Frame = Callable[[Any, str], FloatArray]
"""Called with a header and what it is of: the pose (4, 4) of its frame in that of the base."""
Range = tuple[float, float]
Understood = TypeVar("Understood")

MOST_ALTERNATIVES = 1024
ROUNDING = 1e-9  # [rad] or [m] by which a joint that this chain does not move may be beyond its range


def goal_constraints(
    message: Any,
    robot: Robot,
    state: Mapping[str, float],
    followers: Mapping[str, Mimic],
    frame: Frame,
    self_collision: bool,
) -> tuple[Constraints, ...]:
    """Alternatives of which a solution obeys one.

    Parameters
    ----------
    message : Constraints
    robot : Robot
    state : mapping of str to float
        Values of joints in the request's state [rad] or [m].
    followers : mapping of str to Mimic
        Joints that follow one of the chain.
    frame : callable
        See `Frame`.
    self_collision : bool
        Of the constraints.

    Raises
    ------
    RequestError
        Naming the field: one that is malformed, that the robot cannot obey, or that is not supported.
    """
    if len(getattr(message, "visibility_constraints", ())):
        raise _wrong("visibility_constraints are not supported; leave them away", message.visibility_constraints)
    n_links = len(message.position_constraints) + len(message.orientation_constraints)
    if n_links > MOST_CONSTRAINTS:
        raise _wrong(f"there are {n_links} constraints of links, at most {MOST_CONSTRAINTS} are allowed", n_links)
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
            raise RequestError(ErrorCode.INVALID_LINK_NAME, f"a constrained link: {error}", name) from error
    if (n_alternatives := math.prod(map(len, ranges.values()))) > MOST_ALTERNATIVES:
        raise _wrong(
            f"joint_constraints: ranges over half a turn of continuous joints make {n_alternatives} alternatives, at "
            f"most {MOST_ALTERNATIVES} are allowed",
            n_alternatives,
        )
    alternatives = [
        Constraints(limits=dict(zip(ranges, choice, strict=True)), self_collision=self_collision, links=links)
        for choice in itertools.product(*ranges.values())
    ]
    try:
        alternatives[0].check(robot)
    except ConstraintError as error:
        raise _wrong(str(error), error.value) from error
    return tuple(alternatives)


def _source(constraint: Any, followers: Mapping[str, Mimic]) -> tuple[str, Range]:
    """Joint and range [rad] or [m]; of a joint that follows another, what it asks of that one."""
    name, value = str(constraint.joint_name), float(constraint.position)
    below, above = float(constraint.tolerance_below), float(constraint.tolerance_above)
    if not (math.isfinite(value) and below >= 0.0 and above >= 0.0):
        raise _wrong(
            f"joint_constraints: {name!r} is at {value} - {below} + {above}; expected a finite position and tolerances "
            "of at least 0",
            name,
        )
    span = (value - below, value + above)
    if name in followers and followers[name].multiplier != 0.0:
        mimic = followers[name]
        low, high = sorted((end - mimic.offset) / mimic.multiplier for end in span)
        return mimic.joint, (low, high)
    return name, span


def _ranges(name: str, span: Range, robot: Robot) -> list[Range]:
    """Ranges of a joint of the chain within its limits, at least one."""
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
        raise _wrong(
            f"joint_constraints: {name!r} is to be from {low:.6g} to {high:.6g}, outside of its limits {lower:.6g} to "
            f"{upper:.6g}",
            name,
        )
    return within


def _both(first: list[Range] | None, second: list[Range], name: str) -> list[Range]:
    """What is in one of the first and one of the second ranges."""
    if first is None:
        return second
    common = [(max(a, c), min(b, d)) for (a, b), (c, d) in itertools.product(first, second) if max(a, c) <= min(b, d)]
    if not common:
        raise _wrong(f"joint_constraints: those of {name!r} exclude each other", name)
    return common


def _check_other(name: str, span: Range, state: Mapping[str, float]) -> None:
    """A joint that the chain does not move stays where the state says, which is in the range or not."""
    if name not in state:
        raise _wrong(f"joint_constraints: {name!r} is neither a joint of this chain nor in robot_state", name)
    if not span[0] - ROUNDING <= state[name] <= span[1] + ROUNDING:
        raise RequestError(
            ErrorCode.NO_IK_SOLUTION,
            f"joint_constraints: {name!r} is to be from {span[0]:.6g} to {span[1]:.6g}, and is at {state[name]:.6g} in "
            "robot_state; no joint of this chain moves it",
            name,
        )


def _position(constraint: Any, frame: Frame) -> LinkPosition:
    what = f"position_constraints: that of link {constraint.link_name!r}"
    region, offset = constraint.constraint_region, constraint.target_point_offset
    if len(getattr(region, "meshes", ())):
        raise _wrong(f"{what} has a mesh, which is not supported; give boxes, spheres or cylinders", region.meshes)
    if len(region.primitives) > MOST_SHAPES:
        raise _wrong(f"{what} has {len(region.primitives)} primitives, at most {MOST_SHAPES} are allowed", None)
    if len(region.primitives) != len(region.primitive_poses):
        raise _wrong(
            f"{what} has {len(region.primitives)} primitives and {len(region.primitive_poses)} primitive_poses; "
            "expected as many",
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
    what = f"orientation_constraints: that of link {constraint.link_name!r}"
    if constraint.parameterization not in (constraint.XYZ_EULER_ANGLES, constraint.ROTATION_VECTOR):
        raise _wrong(
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
    """What is read of a constraint; where it is malformed, its name is told."""
    try:
        return read()
    except EimError as error:
        raise _wrong(f"{what}: {error}", error.value) from error


def _wrong(message: str, value: object) -> RequestError:
    return RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, message, value)
