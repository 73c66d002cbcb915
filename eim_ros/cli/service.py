"""Ask a running `ik_server` instead of a sampler in this process: one request for each verb of `sample.py`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eim_ros.core.errors import ConfigurationError

if TYPE_CHECKING:
    from eim_ros.ik import Constraints

PATIENCE = 5.0  # time after the timeout of a request for requests that arrived earlier [s]
SERVER_TIMEOUT = 30.0  # at least the default of the server, which is not known here [s]
BOUND, CERTIFIED = 1, 2  # constants of IKGuarantee
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "solve": ("SampleIK", "sample_ik", {"n_samples": 1}),
    "sample": ("SampleIK", "sample_ik", {}),
    "solve_all": ("SolveAllIK", "solve_all_ik", {}),
    "solve_nearest_pose": ("SolveNearestIK", "solve_nearest_ik", {}),
    "draw": ("DrawIK", "draw_ik", {}),
    "propose": ("DrawIK", "draw_ik", {"density": "proposal"}),
    "follow": ("FollowIK", "follow_ik", {}),
}  # operation: type and name of the service, and fields of its request that no flag sets


def ask(verb: Any, target: Any, arguments: Mapping[str, Any], constraints: Constraints) -> Any:
    """Return the answer of the node. The target is a pose (4, 4), or a list of them for a path."""
    flags, timeout = verb.server, arguments.get("timeout", SERVER_TIMEOUT)
    if verb.source.model or verb.source.robot or verb.source.base:
        raise ConfigurationError("--service uses the robot of the node: give no --model, --robot or --base")
    for flag, value in (("--wait", flags.wait), ("--timeout", timeout)):
        if not (math.isfinite(value) and value >= 0.0):
            raise ConfigurationError(f"{flag} must be at least 0, got {value}", value)
    from eim_ros.nodes import IKClient, solutions_of
    from eim_ros.nodes.common import interfaces

    kind, service, _ = REQUESTS[verb.operation]
    service_type = getattr(interfaces, kind)
    with IKClient(service_type, f"/{(flags.service or '').strip('/')}/{service}", flags.wait) as client:
        request = service_type.Request()
        fill(request, verb, target, arguments, client)
        fill_constraints(request.constraints, verb, constraints)
        response = client.call(request, timeout + PATIENCE)
    if verb.operation == "follow":
        return path_of(response)
    if verb.operation == "solve_nearest_pose":
        return nearest_pose_of(response)
    return solutions_of(response) if len(response.solutions.n_per_pose) else refusal_of(response)


def refusal_of(response: Any) -> Any:
    """Return an empty answer with the error code of a response that contains no pose."""
    from eim_ros.ik import Solutions

    code = response.solutions.error_code
    return dataclasses.replace(Solutions.empty((), 1, code.message), error_codes=np.array([code.val]))


def fill(request: Any, verb: Any, target: Any, arguments: Mapping[str, Any], client: Any) -> None:
    """Fill a request with the target and the given flags, except the constraints."""
    from eim_ros.nodes.common.messages import pose_message

    request.header.frame_id = verb.server.frame
    request.poses = [pose_message(pose) for pose in (target if isinstance(target, list) else [target])]
    request.seed = -1  # a fresh one, unless --seed is given
    for name, value in {**REQUESTS[verb.operation][2], **arguments}.items():
        if name == "near":
            _fill_state(request.near, by_name(value, client))
        elif name == "posture" or (name == "density" and not isinstance(value, str)):
            _fill_state(request.posture, value.positions)
            request.posture_weights = list(value.weights.values())
            if name == "density":
                request.density = "posture"
        elif name == "order":
            request.order, request.order_weights = list(value), list(value.values())
        elif name == "guarantee" and value == "certified":
            request.guarantee.kind = CERTIFIED
        elif name == "guarantee":
            message = request.guarantee
            message.kind, message.confidence, message.missed_share = BOUND, value.confidence, value.missed_share
        elif name == "max_step":
            request.max_step = [value] if isinstance(value, float) else list(_steps(value, client))
        elif name == "priority" and not isinstance(value, str):
            request.weights = list(value)
        elif name == "objective":
            if value != "squares":
                raise ConfigurationError("the service has no --objective: leave it out, or do without --service", value)
        else:
            setattr(request, "n_samples" if name == "n" else name, value)


def fill_constraints(message: Any, verb: Any, constraints: Constraints) -> None:
    """Fill an `IKConstraints`."""
    from eim_ros.nodes.common.messages import pose_message
    from eim_ros.nodes.ik_server import constraints as messages

    messages.fill_constraints(message, constraints)
    message.tip_link = verb.source.tip or ""
    if verb.source.tool is not None:
        message.tool = pose_message(verb.source.tool_pose())
    message.position_tolerance = verb.constraints.position_tolerance or 0.0  # 0: the server's default
    message.orientation_tolerance = verb.constraints.orientation_tolerance or 0.0


def by_name(near: list[float] | dict[str, float], client: Any) -> dict[str, float]:
    """Return a configuration by joint names. If no names are given, the server is asked for them."""
    if isinstance(near, dict):
        return near
    names = client.joint_names()
    if len(near) != len(names):
        raise ConfigurationError(f"--near needs {len(names)} values ({' '.join(names)}), got {len(near)}", near)
    return dict(zip(names, near, strict=True))


def _steps(values: list[float] | dict[str, float], client: Any) -> list[float]:
    """Return the largest step of each joint, in the order of the server."""
    if not isinstance(values, dict):
        return values
    names = client.joint_names()
    if set(names) != set(values):
        raise ConfigurationError(f"--max-step must name all joints of the server: {' '.join(names)}", values)
    return [values[name] for name in names]


def _fill_state(message: Any, values: Mapping[str, float]) -> None:
    message.name, message.position = list(values), list(values.values())


def nearest_pose_of(response: Any) -> Any:
    """Return the `NearestPose` of a response with one target; the service does not report other minima."""
    from eim_ros.core.errors import ServiceError
    from eim_ros.ik import ErrorCode
    from eim_ros.ik.nearest_pose import NearestPose

    code = ErrorCode(response.error_code.val)
    if not response.n:
        raise ServiceError(f"{code.name}: {response.error_code.message}", code)
    q = np.array(response.positions)
    return NearestPose(
        joint_names=tuple(response.joint_names),
        q=q,
        pose=np.full((4, 4), np.nan),
        position_error=response.position_error[0],
        orientation_error=response.orientation_error[0],
        is_exact=response.exact[0],
        others=np.empty((0, len(q))),
        in_time=code != ErrorCode.TIMED_OUT,
    )


def path_of(response: Any) -> Any:
    """Return the `JointPath` of a response."""
    from eim_ros.ik import ErrorCode, JointPath

    code = ErrorCode(response.error_code.val)
    is_whole = code == ErrorCode.SUCCESS
    return JointPath(
        joint_names=tuple(response.joint_names),
        q=np.array(response.positions).reshape(response.n, len(response.joint_names)),
        position_error=np.array(response.position_error),
        orientation_error=np.array(response.orientation_error),
        valid=np.array(response.valid, dtype=bool),
        examined=np.array(response.examined, dtype=bool),
        max_step=response.max_step,
        n_reached=response.n if is_whole else 0,
        nearest_miss=0.0 if is_whole else math.nan,  # the service does not report it
        jumps=np.empty(0, dtype=np.int64) if is_whole else None,
        error_code=code,
        message=response.error_code.message,
        elapsed=response.elapsed,
    )
