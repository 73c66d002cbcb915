"""Ask a running `ik_server` instead of a sampler in this process: one request for each verb of `sample.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eim_ros.core.errors import ConfigurationError

if TYPE_CHECKING:
    from eim_ros.cli.sample import Operation
    from eim_ros.ik import Constraints

PATIENCE = 35.0  # [s] to wait for an answer whose timeout is the server's; 5 s of it for requests before this one


def ask(verb: Operation, target: Any, arguments: dict[str, Any], constraints: Constraints) -> Any:
    """Return the answer of the node.

    Parameters
    ----------
    verb : Operation
    target : pose or list of poses
        First argument of the method of `Sampler`.
    arguments : dict
        Keywords of the method that were given.
    constraints : Constraints
    """
    flags = verb.server
    if verb.source.model or verb.source.robot or verb.source.base:
        raise ConfigurationError("--service has a robot of its own: give no --model, --robot or --base")
    if not (math.isfinite(flags.wait) and flags.wait >= 0.0):
        raise ConfigurationError(f"--wait must be at least 0, got {flags.wait}", flags.wait)
    timeout = arguments.get("timeout", PATIENCE - 5.0)
    if not (math.isfinite(timeout) and timeout >= 0.0):
        raise ConfigurationError(f"--timeout must be at least 0, got {timeout}", timeout)
    from eim_ros.nodes import SampleIKClient, samples_of
    from eim_ros.nodes.common.interfaces import SampleIK, SampleIKPath

    is_path = verb.operation == "follow"
    kind, suffix = (SampleIKPath, "sample_ik_path") if is_path else (SampleIK, "sample_ik")
    name = f"/{(flags.service or '').strip('/')}/{suffix}"
    with SampleIKClient(name, flags.wait, service_type=kind) as client:
        request = kind.Request()
        _fill_common(request, verb, arguments, constraints, client)
        REQUESTS[verb.operation](request, target, arguments)
        response = client.sample(request, timeout + 5.0)
    return path_of(response) if is_path else samples_of(response)


def solve(request: Any, pose: Any, arguments: dict[str, Any]) -> None:
    """Fill the request for the closest solution."""
    _fill_pose(request, pose)
    request.n_samples = 1


def sample(request: Any, pose: Any, arguments: dict[str, Any]) -> None:
    """Fill the request for distinct solutions."""
    _fill_pose(request, pose)
    request.n_samples = arguments["n"]
    request.explore = arguments.get("diversity", -1.0)
    _fill_order(request, arguments)
    _fill_posture(request, arguments.get("posture"))


def solve_all(request: Any, pose: Any, arguments: dict[str, Any]) -> None:
    """Fill the request for all solutions."""
    _fill_pose(request, pose)
    request.n_samples = 1
    request.separation = arguments["max_spacing"]
    _fill_order(request, arguments)
    _fill_guarantee(request, arguments.get("guarantee"))


def draw(request: Any, pose: Any, arguments: dict[str, Any]) -> None:
    """Fill the request for random draws."""
    _fill_pose(request, pose)
    request.n_samples, request.temperature = arguments["n"], arguments["temperature"]
    density = arguments["density"]
    request.distribution = density if isinstance(density, str) else "posture"
    if not isinstance(density, str):
        _fill_posture(request, density)
    _fill_guarantee(request, arguments.get("guarantee"))


def propose(request: Any, pose: Any, arguments: dict[str, Any]) -> None:
    """Fill the request for raw draws of the model."""
    _fill_pose(request, pose)
    request.n_samples, request.refine, request.distinct = arguments["n"], False, False


def follow(request: Any, poses: Any, arguments: dict[str, Any]) -> None:
    """Fill the request for a joint path."""
    from eim_ros.nodes.common.messages import pose_message

    request.poses = [pose_message(pose) for pose in poses]
    request.largest_step, request.n_samples = arguments["max_step"], arguments["n_candidates"]


REQUESTS: dict[str, Callable[[Any, Any, dict[str, Any]], None]] = {
    "solve": solve,
    "sample": sample,
    "solve_all": solve_all,
    "draw": draw,
    "propose": propose,
    "follow": follow,
}


def _fill_common(
    request: Any, verb: Operation, arguments: dict[str, Any], constraints: Constraints, client: Any
) -> None:
    """Fill what all requests have: frame, tip, tool, near, seed, timeout and constraints."""
    from eim_ros.nodes.common.messages import pose_message
    from eim_ros.nodes.ik_server.constraints import fill_constraints

    header = request.header if verb.operation == "follow" else request.pose.header
    header.frame_id = verb.server.frame
    request.tip_link = verb.source.tip or ""
    if verb.source.tool is not None:
        request.tool = pose_message(verb.source.tool_pose())
    request.random_seed = arguments.get("seed", -1)
    request.timeout = arguments.get("timeout", 0.0)
    request.position_tolerance = verb.constraints.position_tolerance or 0.0
    request.orientation_tolerance = verb.constraints.orientation_tolerance or 0.0
    request.position_only = bool(constraints.position_only)
    fill_constraints(request, constraints)
    near = arguments.get("near")
    if isinstance(near, list):
        names = client.joint_names()
        if len(near) != len(names):
            expected = f"{len(names)} values ({' '.join(names)})"
            raise ConfigurationError(f"--near needs {expected}, got {len(near)}", near)
        near = dict(zip(names, near, strict=True))
    request.near.name, request.near.position = list(near or ()), list((near or {}).values())


def _fill_pose(request: Any, pose: Any) -> None:
    from eim_ros.nodes.common.messages import pose_message

    request.pose.pose = pose_message(pose)


def _fill_order(request: Any, arguments: dict[str, Any]) -> None:
    order = arguments.get("order", {})
    request.order, request.order_weights = list(order), list(order.values())


def _fill_posture(request: Any, posture: Any) -> None:
    if posture is not None:
        request.posture.name, request.posture.position = list(posture.positions), list(posture.positions.values())
        request.posture_weights = list(posture.weights.values())


def _fill_guarantee(request: Any, guarantee: Any) -> None:
    if guarantee == "certified":
        raise ConfigurationError("the service gives no certified answers: leave out --service", guarantee)
    if guarantee is not None:
        request.confidence, request.missed_share = guarantee.confidence, guarantee.missed_share


def path_of(response: Any) -> Any:
    """Return the `JointPath` of a response."""
    import numpy as np

    from eim_ros.ik import ErrorCode, JointPath

    shape = (response.n, len(response.joint_names))
    return JointPath(
        joint_names=tuple(response.joint_names),
        positions=np.array(response.positions).reshape(shape),
        position_error=np.array(response.position_error),
        orientation_error=np.array(response.orientation_error),
        valid=np.array(response.valid, dtype=bool),
        examined=np.array(response.examined, dtype=bool),
        largest_step=response.largest_step,
        n_reached=response.n if response.error_code == ErrorCode.SUCCESS else 0,
        nearest_miss=0.0 if response.error_code == ErrorCode.SUCCESS else math.nan,
        error_code=ErrorCode(response.error_code),
        message=response.message,
        elapsed=response.elapsed,
    )
