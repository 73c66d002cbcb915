"""Requests to a running `ik_server` instead of a sampler in this process, one for each verb of `sample.py`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from eim_ros.core.errors import ConfigurationError

if TYPE_CHECKING:
    from eim_ros.cli.options import RequestSettings, Source
    from eim_ros.ik import Constraints

PATIENCE = 5.0  # extra time after the timeout, because the node may answer earlier requests first [s]
SERVER_TIMEOUT = 30.0  # upper bound of the server's default timeout, which is unknown here [s]
WAIT = 5.0  # longest time to wait until the node is active [s]
NAMES = {"n": "n_samples"}  # fields of requests whose names differ from the keywords
BOUND, CERTIFIED = 1, 2  # constants of IKGuarantee
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "solve": ("SampleIK", "sample_ik", {"n_samples": 1}),
    "sample": ("SampleIK", "sample_ik", {}),
    "solve_all": ("SolveAllIK", "solve_all_ik", {}),
    "solve_nearest_pose": ("SolveNearestIK", "solve_nearest_ik", {}),
    "draw": ("DrawIK", "draw_ik", {}),
    "propose": ("DrawIK", "draw_ik", {"density": "proposal"}),
    "follow": ("FollowIK", "follow_ik", {}),
}  # for each operation: type and name of its service, and fields of its request without a keyword


class Operation(Protocol):
    """Fields and methods of a verb that a request needs."""

    operation: ClassVar[str]

    @property
    def source(self) -> Source:
        """The robot and the model."""
        ...

    @property
    def service(self) -> str | None:
        """Name of the node."""
        ...


def ask(
    verb: Operation, target: Any, arguments: Mapping[str, Any], constraints: Constraints, settings: RequestSettings
) -> Any:
    """Return the answer of the node. The target is a pose (4, 4), or a list of poses of a path."""
    wait, timeout = settings.others.get("wait", WAIT), arguments.get("timeout", SERVER_TIMEOUT)
    if verb.source.model or verb.source.robot or verb.source.base:
        raise ConfigurationError("--service uses the robot of the node: leave out --model, --robot and --base")
    for name, value in (("wait", wait), ("timeout", timeout)):
        if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0.0):
            raise ConfigurationError(f"{name} must be a number of at least 0, got {value}", value)
    from eim_ros.nodes import IKClient, solutions_of
    from eim_ros.nodes.common import interfaces

    kind, service, _ = REQUESTS[verb.operation]
    service_type = getattr(interfaces, kind)
    with IKClient(service_type, f"/{(verb.service or '').strip('/')}/{service}", wait) as client:
        request = service_type.Request()
        request.header.frame_id = str(settings.others.get("frame", ""))
        fill(request, verb.operation, target, arguments, client)
        fill_constraints(request.constraints, verb, constraints, settings)
        response = client.call(request, timeout + PATIENCE)
    if verb.operation == "follow":
        return path_of(response)
    if verb.operation == "solve_nearest_pose":
        return nearest_pose_of(response)
    return solutions_of(response) if len(response.solutions.n_per_pose) else refusal_of(response)


def refusal_of(response: Any) -> Any:
    """Return an empty answer with the error code of a response without poses."""
    from eim_ros.ik import Solutions

    code = response.solutions.error_code
    return Solutions.empty((), 1, code.message, code=code.val)


def fill(request: Any, operation: str, target: Any, arguments: Mapping[str, Any], client: Any) -> None:
    """Fill a request with the target and the keywords of the operation, but not with the constraints."""
    from eim_ros.nodes.common.messages import pose_message

    request.poses = [pose_message(pose) for pose in (target if isinstance(target, list) else [target])]
    request.seed = -1  # the server chooses a seed, unless --seed is given
    for name, value in {**REQUESTS[operation][2], **arguments}.items():
        if name == "near":
            _fill_state(request.near, by_name(value, client))
        elif name == "posture" or (name == "density" and not isinstance(value, str)):
            _fill_state(request.posture, value.positions)
            request.posture_weights = _numbers(name, (value.weights.get(joint, 1.0) for joint in value.positions))
            if name == "density":
                request.density = "posture"
        elif name == "order":
            weights = {value: 1.0} if isinstance(value, str) else value
            request.order, request.order_weights = list(weights), _numbers(name, weights.values())
        elif name == "guarantee" and value == "certified":
            request.guarantee.kind = CERTIFIED
        elif name == "guarantee":
            message = request.guarantee
            message.kind, message.confidence, message.missed_share = BOUND, value.confidence, value.missed_share
        elif name == "max_step":
            request.max_step = _numbers(name, [value] if isinstance(value, int | float) else _steps(value, client))
        elif name == "priority" and not isinstance(value, str):
            request.weights = _numbers(name, value)
        elif name == "objective":
            if value != "squares":
                raise ConfigurationError(
                    "the service does not support the setting objective: leave out objective or --service", value
                )
        else:
            _set(request, NAMES.get(name, name), value)


def _set(request: Any, name: str, value: Any) -> None:
    """Set a field of a request. Raise `ConfigurationError` if the field does not exist or has another type."""
    kind = request.get_fields_and_field_types().get(name)
    try:
        setattr(request, name, float(value) if kind == "double" else value)
    except (AttributeError, AssertionError, TypeError, ValueError) as error:
        expected = f"{name} must be of type {kind}" if kind else f"the service has no setting {name}"
        raise ConfigurationError(f"{expected}, got {value!r}", value) from error


def fill_constraints(message: Any, verb: Operation, constraints: Constraints, settings: RequestSettings) -> None:
    """Fill an `IKConstraints` with the constraints, tip and tool of a request."""
    from eim_ros.nodes.common.messages import pose_message
    from eim_ros.nodes.ik_server import constraints as messages

    messages.fill_constraints(message, constraints)
    message.tip_link = verb.source.tip or ""
    if (tool := settings.tool()) is not None:
        message.tool = pose_message(tool)
    for name in ("position_tolerance", "orientation_tolerance"):
        if name not in settings.constraints:
            setattr(message, name, 0.0)  # the server's default


def by_name(near: list[float] | dict[str, float], client: Any) -> dict[str, float]:
    """Return a configuration by joint names. A configuration without names gets the joint names of the server."""
    if isinstance(near, dict):
        return near
    names = client.joint_names()
    if len(near) != len(names):
        raise ConfigurationError(f"--near needs {len(names)} values ({' '.join(names)}), got {len(near)}", near)
    return dict(zip(names, near, strict=True))


def _steps(values: list[float] | dict[str, float], client: Any) -> list[float]:
    """Return the largest step of each joint, in the order of the server's joints."""
    if not isinstance(values, dict):
        return values
    names = client.joint_names()
    if set(names) != set(values):
        raise ConfigurationError(f"max_step needs one value for each joint of the server: {' '.join(names)}", values)
    return [values[name] for name in names]


def _fill_state(message: Any, values: Mapping[str, float]) -> None:
    message.name, message.position = list(values), _numbers("a configuration", values.values())


def _numbers(name: str, values: Iterable[Any]) -> list[float]:
    numbers = list(values)
    try:
        return [float(number) for number in numbers]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} needs numbers, got {numbers}", numbers) from error


def nearest_pose_of(response: Any) -> Any:
    """Return the `NearestPose` of a response with one target. The service does not report other minima."""
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
        nearest_miss=0.0 if is_whole else math.nan,  # not reported by the service
        jumps=np.empty(0, dtype=np.int64) if is_whole else None,
        error_code=code,
        message=response.error_code.message,
        elapsed=response.elapsed,
    )
