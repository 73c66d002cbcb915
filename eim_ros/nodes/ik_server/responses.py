"""Fill the responses of `ik_server` from answers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from eim_ros.ik import ErrorCode, JointPath, Solutions
from eim_ros.kinematics import Robot
from eim_ros.kinematics.links import following_joints
from eim_ros.nodes.common.messages import float64_bytes

_BOOL = np.dtype(np.bool_)


def fill(message: Any, solutions: Solutions, deadline: float, wants_log_prob: bool) -> None:
    """Copy an answer into an `IKSolutions`; arrays are copied as bytes, which is faster than lists.

    Log densities are left out if they are neither requested nor known, or if computing them would exceed the deadline,
    a time of `perf_counter` [s].
    """
    wants_log_prob = wants_log_prob and time.perf_counter() + solutions.seconds_of_log_prob < deadline
    fields = solutions.to_message(wants_log_prob)
    code = fields.pop("error_code")
    message.error_code.val, message.error_code.message = code["val"], code["message"]
    for name, value in fields.items():
        if not isinstance(value, np.ndarray):
            setattr(message, name, value)
        elif value.dtype == _BOOL:
            setattr(message, name, value.tolist())
        elif value.size:
            getattr(message, name).frombytes(value.tobytes())


def fill_path(response: Any, path: JointPath) -> None:
    """Copy a path into a `FollowIK.Response`."""
    response.error_code.val, response.error_code.message = int(path.error_code), path.message
    response.joint_names, response.n = list(path.joint_names), len(path.q)
    response.positions.frombytes(float64_bytes(path.q))
    response.position_error.frombytes(float64_bytes(path.position_error))
    response.orientation_error.frombytes(float64_bytes(path.orientation_error))
    response.valid, response.examined = path.valid.tolist(), path.examined.tolist()
    response.max_step = path.max_step


def fill_nearest(response: Any, state: Any, robot: Robot, q: np.ndarray, remark: str) -> None:
    """Return a state with the chain's joints at a solution (dof,), and the joints that mimic them at matching values.

    Parameters
    ----------
    response : GetPositionIK.Response
        Ours or MoveIt's.
    state : RobotState
        State of the request; the rest of it is returned unchanged.
    robot : Robot
    q : (dof,) array
    remark : str
        Message of the response.
    """
    solved = dict(zip(robot.joint_names, q.tolist(), strict=True))
    followers = following_joints(robot)
    given = dict(zip(state.joint_state.name, state.joint_state.position, strict=True))
    for name in given.keys() & followers.keys():
        mimic = followers[name]
        given[name] = mimic.multiplier * solved[mimic.joint] + mimic.offset
    joints = {**given, **solved}
    solution = response.solution
    solution.joint_state.header = state.joint_state.header
    solution.joint_state.name, solution.joint_state.position = list(joints), list(joints.values())
    for field in ("multi_dof_joint_state", "attached_collision_objects", "is_diff"):
        if hasattr(state, field):  # only MoveIt's message has the first two fields
            setattr(solution, field, getattr(state, field))
    put_code(response, ErrorCode.SUCCESS, remark)


def error_code_of(response: Any) -> Any:
    """Return the `ErrorCodes` of a response, ours or MoveIt's."""
    return response.solutions.error_code if hasattr(response, "solutions") else response.error_code


def put_code(response: Any, code: ErrorCode, message: str) -> None:
    """Set the error code and message of a response."""
    field = error_code_of(response)
    field.val = int(code)
    if hasattr(field, "message"):  # older releases of MoveIt have no such field
        field.message = message
