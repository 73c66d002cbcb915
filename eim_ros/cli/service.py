"""Ask a running `ik_server` instead of a sampler in this process: one request for each verb of `sample.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from eim_ros.core.errors import ConfigurationError

if TYPE_CHECKING:
    from eim_ros.ik import Constraints, Posture

PATIENCE = 5.0  # time after the timeout of a request for requests that arrived earlier [s]
SERVER_TIMEOUT = 30.0  # at least the default of the server, which is not known here [s]
BOUND, CERTIFIED = 1, 2  # constants of IKGuarantee


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

    kind, service, fill = REQUESTS[verb.operation]
    service_type = getattr(interfaces, kind)
    with IKClient(service_type, f"/{(flags.service or '').strip('/')}/{service}", flags.wait) as client:
        request = service_type.Request()
        fill_common(request, verb, target, arguments)
        fill_constraints(request.constraints, verb, constraints)
        if "near" in arguments:
            fill_state(request.near, by_name(arguments["near"], client))
        fill(request, arguments)
        response = client.call(request, timeout + PATIENCE)
    if verb.operation == "follow":
        return path_of(response)
    return solutions_of(response) if len(response.solutions.n_per_pose) else refusal_of(response)


def refusal_of(response: Any) -> Any:
    """Return an empty answer with the error code of a response that contains no pose."""
    from dataclasses import replace

    import numpy as np

    from eim_ros.ik import Solutions

    code = response.solutions.error_code
    return replace(Solutions.empty((), 1, code.message), error_codes=np.array([code.val]))


def fill_common(request: Any, verb: Any, target: Any, arguments: Mapping[str, Any]) -> None:
    """Fill the frame, the poses, the seed and the timeout."""
    from eim_ros.nodes.common.messages import pose_message

    request.header.frame_id = verb.server.frame
    request.poses = [pose_message(pose) for pose in (target if isinstance(target, list) else [target])]
    request.seed = arguments.get("seed", -1)
    request.timeout = arguments.get("timeout", 0.0)


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


def fill_solve(request: Any, arguments: Mapping[str, Any]) -> None:
    """Fill a `SampleIK` request for one solution."""
    request.n_samples = 1


def fill_sample(request: Any, arguments: Mapping[str, Any]) -> None:
    """Fill a `SampleIK` request."""
    request.n_samples = arguments["n"]
    request.diversity = arguments.get("diversity", -1.0)
    _fill_order(request, arguments)
    _fill_posture(request, arguments.get("posture"))


def fill_solve_all(request: Any, arguments: Mapping[str, Any]) -> None:
    """Fill a `SolveAllIK` request."""
    request.max_spacing, request.max_solutions = arguments["max_spacing"], arguments["max_solutions"]
    _fill_order(request, arguments)
    _fill_guarantee(request.guarantee, arguments.get("guarantee"))


def fill_draw(request: Any, arguments: Mapping[str, Any]) -> None:
    """Fill a `DrawIK` request."""
    density = arguments["density"]
    request.n_samples, request.temperature = arguments["n"], arguments["temperature"]
    request.density = density if isinstance(density, str) else "posture"
    _fill_posture(request, None if isinstance(density, str) else density)
    _fill_guarantee(request.guarantee, arguments.get("guarantee"))


def fill_propose(request: Any, arguments: Mapping[str, Any]) -> None:
    """Fill a `DrawIK` request for raw draws of the model."""
    request.n_samples, request.density = arguments["n"], "proposal"


def fill_follow(request: Any, arguments: Mapping[str, Any]) -> None:
    """Fill a `FollowIK` request."""
    request.max_step, request.n_candidates = [arguments["max_step"]], arguments["n_candidates"]


REQUESTS: dict[str, tuple[str, str, Callable[[Any, Mapping[str, Any]], None]]] = {
    "solve": ("SampleIK", "sample_ik", fill_solve),
    "sample": ("SampleIK", "sample_ik", fill_sample),
    "solve_all": ("SolveAllIK", "solve_all_ik", fill_solve_all),
    "draw": ("DrawIK", "draw_ik", fill_draw),
    "propose": ("DrawIK", "draw_ik", fill_propose),
    "follow": ("FollowIK", "follow_ik", fill_follow),
}  # operation: type and name of the service, and the function that fills its request


def by_name(near: list[float] | dict[str, float], client: Any) -> dict[str, float]:
    """Return a configuration by joint names. If no names are given, the server is asked for them."""
    if isinstance(near, dict):
        return near
    names = client.joint_names()
    if len(near) != len(names):
        raise ConfigurationError(f"--near needs {len(names)} values ({' '.join(names)}), got {len(near)}", near)
    return dict(zip(names, near, strict=True))


def fill_state(message: Any, values: Mapping[str, float]) -> None:
    """Fill a `JointState`."""
    message.name, message.position = list(values), list(values.values())


def _fill_order(request: Any, arguments: Mapping[str, Any]) -> None:
    order = arguments.get("order", {})
    request.order, request.order_weights = list(order), list(order.values())


def _fill_posture(request: Any, posture: Posture | None) -> None:
    if posture is not None:
        fill_state(request.posture, posture.positions)
        request.posture_weights = list(posture.weights.values())


def _fill_guarantee(message: Any, guarantee: Any) -> None:
    if guarantee == "certified":
        message.kind = CERTIFIED
    elif guarantee is not None:
        message.kind, message.confidence, message.missed_share = BOUND, guarantee.confidence, guarantee.missed_share


def path_of(response: Any) -> Any:
    """Return the `JointPath` of a response."""
    import numpy as np

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
        error_code=code,
        message=response.error_code.message,
        elapsed=response.elapsed,
    )
