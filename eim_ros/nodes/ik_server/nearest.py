"""One solution of one pose, the nearest to a state: from a `PositionIKRequest`, ours or MoveIt's, to what is sampled.

Pure functions of messages. Each field is obeyed, or refused by its name with MoveIt's error code for that; where the
comments of the messages leave it open, it means what it means to MoveIt's own service. Fields that only MoveIt's
messages have are read where they are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import MeshError, RobotError
from eim_ros.ik import ErrorCode, Posture
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.attachments import fixed_links, following_joints
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.planning_groups import listed_groups, srdf_groups
from eim_ros.nodes.ik_server.fields import RequestError, pose_of, timeout_of
from eim_ros.nodes.ik_server.goal_constraints import goal_constraints
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.nodes.ik_server.surroundings import Surroundings

__all__ = ["NearestRequest", "check_groups", "parse_nearest"]

FloatArray = npt.NDArray[np.float64]

PARTIAL_SAMPLES = 64  # solutions of which the nearest to a state of some joints is returned


@dataclass(frozen=True, eq=False)
class NearestRequest:
    """What is asked for.

    Attributes
    ----------
    alternatives : tuple of SampleRequest
        A solution of any of them will do; they differ in their constraints.
    state : Posture, optional
        Of the joints of the chain that the state names; None where it names none.
    timeout : float
        [s] for all of them.
    remark : str
        What could not be obeyed, for the answer's message; empty mostly.
    """

    alternatives: tuple[SampleRequest, ...]
    state: Posture | None
    timeout: float
    remark: str

    def cost(self, robot: Robot, q: FloatArray) -> float:
        """How far a solution (dof,) is from the state, in the joints that it names; 0 where it names none."""
        return 0.0 if self.state is None else float(self.state.costs(robot, q[None])[0])


def parse_nearest(request: Any, around: Surroundings, settings: IkServerSettings) -> NearestRequest:
    """What a request asks of the sampler.

    Parameters
    ----------
    request : PositionIKRequest
        As received; see the comments of the message for units and defaults.
    around : Surroundings
        Robot of the server, the frames around it, and where it is.
    settings : IkServerSettings
        Groups, defaults and limits.

    Raises
    ------
    RequestError
        With the error code to answer.
    """
    robot = around.robot
    stamped, link = _goal(request)
    to_tip = np.linalg.inv(_link_on_tip(link, _tip_of(request.group_name, robot, settings), robot))
    pose = around.in_base(stamped.header, "pose_stamped") @ pose_of(stamped.pose, "pose_stamped") @ to_tip
    state = _state(request.robot_state)
    is_now = not state or bool(request.robot_state.is_diff)
    if is_now:
        state = {**(around.joints or {}), **state}
    timeout = timeout_of(request.timeout.sec + 1e-9 * request.timeout.nanosec, settings)
    avoids = bool(request.avoid_collisions)
    if avoids and len(getattr(request.robot_state, "attached_collision_objects", ())):
        raise RequestError(
            ErrorCode.INVALID_ROBOT_STATE,
            "robot_state.attached_collision_objects cannot be checked for collisions: detach them, or leave "
            "avoid_collisions false",
        )
    unchecked = _why_unchecked(robot) if avoids else ""
    is_checked = avoids and not unchecked
    nothing = f"avoid_collisions: nothing was checked, for {unchecked}" if unchecked else ""
    remarks = [around.unknown_joints if is_now else "", nothing]
    alternatives = goal_constraints(
        request.constraints,
        robot,
        state,
        following_joints(robot),
        around.in_base,
        is_checked,
    )
    named = {name: state[name] for name in robot.joint_names if name in state}
    wanted = SampleRequest(
        pose,
        random_seed=0,
        position_only=False,
        position_tolerance=settings.default_position_tolerance,
        orientation_tolerance=settings.default_orientation_tolerance,
        **_seed(named, robot),
    )
    return NearestRequest(
        tuple(replace(wanted, constraints=constraints) for constraints in alternatives),
        Posture(named) if named else None,
        timeout,
        "; ".join(filter(None, remarks)),
    )


def check_groups(robot: Robot, settings: IkServerSettings) -> tuple[str, ...]:
    """Names of the planning groups that are served; `RobotError` where one of the settings is wrong."""
    return tuple(_groups(robot, settings.groups, settings.robot_description_semantic))


@functools.lru_cache(maxsize=8)
def _groups(robot: Robot, listed: str, srdf: str) -> Mapping[str, str]:
    """Tip of each planning group."""
    return {**srdf_groups(robot, srdf), **listed_groups(robot, listed)}


def _goal(request: Any) -> tuple[Any, str]:
    """The stamped pose and the name of the link that is to reach it, which may be empty."""
    poses, links = list(request.pose_stamped_vector), list(request.ik_link_names)
    if len(poses) > 1 or len(links) > 1:
        raise RequestError(
            ErrorCode.INVALID_LINK_NAME,
            f"pose_stamped_vector has {len(poses)} poses and ik_link_names {len(links)} names; expected one of each at "
            "most, for this server has one tip",
            links,
        )
    if poses:
        return poses[0], (links[0] if links else "")
    return request.pose_stamped, (links[0] if links else request.ik_link_name)


def _tip_of(group: str, robot: Robot, settings: IkServerSettings) -> str:
    if not group:
        return robot.tip_link
    groups = _groups(robot, settings.groups, settings.robot_description_semantic)
    if group not in groups:
        known = ", ".join(groups) or "none"
        raise RequestError(
            ErrorCode.INVALID_GROUP_NAME,
            f"group_name is {group!r}; the groups of this server: {known} (parameters groups and "
            "robot_description_semantic)",
            group,
        )
    return groups[group]


def _link_on_tip(link: str, tip: str, robot: Robot) -> FloatArray:
    """Pose (4, 4) of the link that is to reach the pose, the group's tip unless named, in the frame of the chain's."""
    attached = fixed_links(robot, robot.tip_link)
    if (link or tip) not in attached:
        raise RequestError(
            ErrorCode.INVALID_LINK_NAME,
            f"ik_link_name is {link!r}, expected {robot.tip_link!r}, a link that is fixed to it "
            f"({', '.join(list(attached)[1:]) or 'there is none'}), or nothing",
            link,
        )
    return attached[link or tip]


def _state(message: Any) -> dict[str, float]:
    """Values of all joints that a state names [rad] or [m]."""
    names, values = list(message.joint_state.name), list(message.joint_state.position)
    problem = ""
    if len(names) != len(values):
        problem = f"has {len(names)} names and {len(values)} positions; expected as many"
    elif len(set(names)) != len(names):
        problem = "names a joint twice; expected each once"
    elif wrong := [name for name, value in zip(names, values, strict=True) if not math.isfinite(value)]:
        problem = f"is not finite for {', '.join(wrong)}"
    if problem:
        raise RequestError(ErrorCode.INVALID_ROBOT_STATE, f"robot_state.joint_state {problem}", names)
    return dict(zip(names, values, strict=True))


def _seed(named: Mapping[str, float], robot: Robot) -> dict[str, Any]:
    """How the nearest solution is asked for.

    Of a whole state directly; where joints are free, as the nearest of many that were moved as near to it as can be.
    """
    middle = 0.5 * (robot.lower + robot.upper)
    near = np.array([named.get(name, middle[j]) for j, name in enumerate(robot.joint_names)])
    if len(named) == robot.dof:
        return {"n": 1, "near": near}
    if not named:
        return {"n": 1}
    # without a closed form an arm with fewer solutions than samples would be searched to the end
    is_distinct = robot.closed_form is not None
    return {"n": PARTIAL_SAMPLES, "near": near, "posture": Posture(named), "distinct": is_distinct}


def _why_unchecked(robot: Robot) -> str:
    """Why the robot's description has no shapes that can be checked for collisions; empty where it has."""
    try:
        none = "the robot's description has no collision shape that is a box, cylinder, sphere, capsule or mesh"
        return "" if collision_model(robot).n_shapes else none
    except MeshError as error:
        return str(error)
    except RobotError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"avoid_collisions: {error}", error.value) from error
