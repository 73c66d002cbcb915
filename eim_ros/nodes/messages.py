"""Between `SampleIK` messages and the sampler: parse a request into a query, fill a response from samples.

Pure functions of messages. Everything a client may have got wrong is refused here, with an error code and a message
that names the cause and what was expected.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from sensor_msgs.msg import JointState

from eim_ros.errors import EimError, PoseError
from eim_ros.ik import ErrorCode, Samples
from eim_ros.kinematics import Robot
from eim_ros.kinematics.pose import pose_from
from eim_ros.nodes.interfaces import SampleIK
from eim_ros.nodes.settings import IkServerSettings

__all__ = ["Query", "RequestError", "fill", "parse", "refuse"]


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
    position_only: bool
    refine: bool
    distinct: bool
    position_tolerance: float
    orientation_tolerance: float
    timeout: float


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
    _check_links(request, robot)
    return Query(
        pose=_pose(request),
        n=_count(request.n_samples, settings.max_samples),
        seed=int(request.random_seed) if request.random_seed >= 0 else None,
        near=_configuration(request.seed, robot.joint_names),
        position_only=bool(request.position_only),
        refine=bool(request.refine),
        distinct=bool(request.distinct),
        position_tolerance=_positive(
            "position_tolerance", request.position_tolerance, settings.default_position_tolerance
        ),
        orientation_tolerance=_positive(
            "orientation_tolerance", request.orientation_tolerance, settings.default_orientation_tolerance
        ),
        timeout=_timeout(request.timeout, settings),
    )


def fill(response: SampleIK.Response, samples: Samples) -> None:
    """Copy samples into a response as flat row-major arrays (a list per sample would cost milliseconds)."""
    response.error_code = int(samples.error_code)
    response.message = samples.message
    response.joint_names = list(samples.joint_names)
    response.n = len(samples.positions)
    response.positions.frombytes(_float64(samples.positions))
    response.log_prob.frombytes(_float64(samples.log_prob))
    response.position_error.frombytes(_float64(samples.position_error))
    response.orientation_error.frombytes(_float64(samples.orientation_error))
    response.valid = samples.valid.tolist()
    response.expert.frombytes(np.ascontiguousarray(samples.expert, dtype=np.uint32).tobytes())


def refuse(response: SampleIK.Response, code: ErrorCode, message: str, joint_names: tuple[str, ...] = ()) -> None:
    """Make it an answer without samples."""
    response.error_code = int(code)
    response.message = message
    response.joint_names = list(joint_names)
    response.n = 0


def _check_links(request: SampleIK.Request, robot: Robot) -> None:
    frame = request.pose.header.frame_id
    if frame != robot.base_link:
        raise RequestError(
            ErrorCode.FRAME_TRANSFORM_FAILURE,
            f"pose.header.frame_id is '{frame}', expected the base link '{robot.base_link}'",
            frame,
        )
    if request.tip_link and request.tip_link != robot.tip_link:
        raise RequestError(
            ErrorCode.INVALID_LINK_NAME,
            f"tip_link is '{request.tip_link}', expected '{robot.tip_link}' or nothing",
            request.tip_link,
        )


def _pose(request: SampleIK.Request) -> np.ndarray:
    position, quaternion = request.pose.pose.position, request.pose.pose.orientation
    try:
        return pose_from((position.x, position.y, position.z), (quaternion.x, quaternion.y, quaternion.z, quaternion.w))
    except PoseError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"pose: {error}", error.value) from error


def _count(n: int, maximum: int) -> int:
    if not 1 <= n <= maximum:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS, f"n_samples is {n}, expected 1 to {maximum} (parameter max_samples)", n
        )
    return int(n)


def _positive(name: str, value: float, default: float) -> float:
    """The value, or the default for 0."""
    if not (math.isfinite(value) and value >= 0.0):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"{name} is {value}, expected a positive number, or 0 for {default}",
            value,
        )
    return float(value) or default


def _timeout(value: float, settings: IkServerSettings) -> float:
    timeout = _positive("timeout", value, settings.default_timeout)
    if timeout > settings.max_timeout:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"timeout is {timeout} s, expected at most {settings.max_timeout} s (parameter max_timeout)",
            timeout,
        )
    return timeout


def _configuration(state: JointState, joint_names: tuple[str, ...]) -> np.ndarray | None:
    """Joint values (dof,) in the order of `joint_names`, matched by name; None for an empty state."""
    names, values = list(state.name), state.position
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


def _float64(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values, dtype=np.float64).tobytes()
