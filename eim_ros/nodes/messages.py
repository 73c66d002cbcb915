"""Between `SampleIK` messages and the sampler: parse a request into a query, fill a response from samples.

Pure functions of messages. Everything a client may have got wrong is refused here, with an error code and a message
that names the cause and what was expected.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState

from eim_ros.errors import ConfigurationError, EimError, PoseError
from eim_ros.ik import Constraints, ErrorCode, Samples
from eim_ros.ik.ranking import Ranking
from eim_ros.kinematics import Robot
from eim_ros.kinematics.pose import pose_from
from eim_ros.nodes.constraint_messages import constraints_of
from eim_ros.nodes.interfaces import SampleIK
from eim_ros.nodes.settings import IkServerSettings

__all__ = [
    "Query",
    "RequestError",
    "check_frame",
    "check_tip",
    "configuration_of",
    "count_of",
    "fill",
    "float64_bytes",
    "parse",
    "pose_of",
    "positive",
    "random_seed_of",
    "timeout_of",
]


class RequestError(EimError):
    """A request that cannot be served as it is; `code` is the error code to answer with."""

    def __init__(self, code: ErrorCode, message: str, value: object = None) -> None:
        super().__init__(message, value)
        self.code = code


@dataclasses.dataclass(frozen=True)
class Query:
    """Arguments of `Sampler.sample`, under the same names and units."""

    pose: np.ndarray
    n: int
    seed: int | None
    near: np.ndarray | None
    order: str | dict[str, float] | None
    position_only: bool
    refine: bool
    distinct: bool
    position_tolerance: float
    orientation_tolerance: float
    timeout: float
    constraints: Constraints


def parse(request: SampleIK.Request, robot: Robot, settings: IkServerSettings) -> Query:
    """Query of a request.

    Parameters
    ----------
    request : SampleIK.Request
        As received; see the comments of the service type for units and defaults.
    robot : Robot
        Robot of the server, whose links and joints the request must name.
    settings : IkServerSettings
        Defaults and limits.

    Raises
    ------
    RequestError
        With the error code to answer.
    """
    check_frame(request.pose.header.frame_id, robot, "pose.header.frame_id")
    check_tip(request.tip_link, robot)
    near = configuration_of(request.seed, robot.joint_names)
    return Query(
        pose=pose_of(request.pose.pose, "pose"),
        n=count_of(request.n_samples, settings.max_samples),
        seed=random_seed_of(request.random_seed),
        near=near,
        order=_order(request, near is not None),
        position_only=bool(request.position_only),
        refine=bool(request.refine),
        distinct=bool(request.distinct),
        position_tolerance=positive(
            "position_tolerance", request.position_tolerance, settings.default_position_tolerance
        ),
        orientation_tolerance=positive(
            "orientation_tolerance", request.orientation_tolerance, settings.default_orientation_tolerance
        ),
        timeout=timeout_of(request.timeout, settings),
        constraints=_constraints(request, robot),
    )


def fill(response: SampleIK.Response, samples: Samples) -> None:
    """Copy samples into a response as flat row-major arrays (a list per sample would cost milliseconds)."""
    response.error_code = int(samples.error_code)
    response.message = samples.message
    response.joint_names = list(samples.joint_names)
    response.n = len(samples.positions)
    response.positions.frombytes(float64_bytes(samples.positions))
    response.log_prob.frombytes(float64_bytes(samples.log_prob))
    response.position_error.frombytes(float64_bytes(samples.position_error))
    response.orientation_error.frombytes(float64_bytes(samples.orientation_error))
    response.valid = samples.valid.tolist()
    response.expert.frombytes(np.ascontiguousarray(samples.expert, dtype=np.uint32).tobytes())


def check_frame(frame: str, robot: Robot, name: str) -> None:
    """Refuse a frame that is not the base link."""
    if frame != robot.base_link:
        raise RequestError(
            ErrorCode.FRAME_TRANSFORM_FAILURE, f"{name} is '{frame}', expected the base link '{robot.base_link}'", frame
        )


def check_tip(link: str, robot: Robot) -> None:
    """Refuse a link that is neither the tip nor empty."""
    if link and link != robot.tip_link:
        raise RequestError(
            ErrorCode.INVALID_LINK_NAME, f"tip_link is '{link}', expected '{robot.tip_link}' or nothing", link
        )


def pose_of(pose: Pose, name: str) -> np.ndarray:
    """Transform (4, 4) of a message."""
    position, quaternion = pose.position, pose.orientation
    try:
        return pose_from((position.x, position.y, position.z), (quaternion.x, quaternion.y, quaternion.z, quaternion.w))
    except PoseError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"{name}: {error}", error.value) from error


def random_seed_of(value: int) -> int | None:
    """None where it is negative."""
    return int(value) if value >= 0 else None


def _order(request: SampleIK.Request, has_seed: bool) -> str | dict[str, float] | None:
    """Order of the request; None for the sampler's own."""
    names, weights = list(request.order), list(request.order_weights)
    if not names and not weights:
        return None
    weights = weights or [1.0] * len(names)
    if len(names) != len(weights) or len(set(names)) != len(names):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"order has {len(names)} names and order_weights {len(weights)} numbers; expected as many, each name once",
            names,
        )
    order: str | dict[str, float] = names[0] if len(names) == 1 else dict(zip(names, weights, strict=True))
    try:
        Ranking(order, np.zeros(0) if has_seed else None)
    except ConfigurationError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"order: {error}", names) from error
    return order


def _constraints(request: SampleIK.Request, robot: Robot) -> Constraints:
    """Constraints that this robot can be asked for."""
    try:
        constraints = constraints_of(request)
        constraints.check(robot)
    except EimError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, str(error), error.value) from error
    return constraints


def count_of(n: int, maximum: int) -> int:
    """A number of samples within its bounds."""
    if not 1 <= n <= maximum:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS, f"n_samples is {n}, expected 1 to {maximum} (parameter max_samples)", n
        )
    return int(n)


def positive(name: str, value: float, default: float) -> float:
    """The value, or the default for 0."""
    if not (math.isfinite(value) and value >= 0.0):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"{name} is {value}, expected a positive number, or 0 for {default}",
            value,
        )
    return float(value) or default


def timeout_of(value: float, settings: IkServerSettings) -> float:
    """The timeout [s], or the default for 0."""
    timeout = positive("timeout", value, settings.default_timeout)
    if timeout > settings.max_timeout:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"timeout is {timeout} s, expected at most {settings.max_timeout} s (parameter max_timeout)",
            timeout,
        )
    return timeout


def configuration_of(
    state: JointState, joint_names: tuple[str, ...], others_allowed: bool = False
) -> np.ndarray | None:
    """Joint values (dof,) in the order of `joint_names`, matched by name; None for an empty state.

    Joints of other names are refused, or left out.
    """
    names, values = list(state.name), state.position
    if others_allowed and len(names) == len(values):
        chosen = [index for index, name in enumerate(names) if name in joint_names]
        names, values = [names[index] for index in chosen], [values[index] for index in chosen]
    if not names and not len(values):
        return None
    problem = ""
    if len(names) != len(values):
        problem = f"has {len(names)} names and {len(values)} positions"
    elif len(set(names)) != len(names):
        problem = f"names a joint twice: {', '.join(names)}"
    elif unknown := sorted(set(names) - set(joint_names)):
        problem = f"names unknown joints: {', '.join(unknown)}"
    elif missing := [name for name in joint_names if name not in names]:
        problem = f"lacks joints: {', '.join(missing)}"
    elif not all(map(math.isfinite, values)):
        problem = f"is not finite: {list(values)}"
    if problem:
        raise RequestError(
            ErrorCode.INVALID_ROBOT_STATE, f"seed {problem}; expected {', '.join(joint_names)}, each once", names
        )
    by_name = dict(zip(names, values, strict=True))
    return np.array([by_name[name] for name in joint_names], dtype=np.float64)


def float64_bytes(values: np.ndarray) -> bytes:
    """For `array.frombytes`: a list would cost milliseconds."""
    return np.ascontiguousarray(values, dtype=np.float64).tobytes()
