"""Between messages and the sampler: parse a `SampleRequest`, fill a response from samples.

Pure functions of messages. Everything a client may have got wrong is refused here, with an error code and a message
that names the cause and what was expected.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState

from eim_ros.errors import ConfigurationError, EimError, JointStateError, PoseError
from eim_ros.ik import Constraints, ErrorCode, Posture, Samples
from eim_ros.ik.ranking import Ranking
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.pose import pose_from
from eim_ros.nodes.constraint_messages import constraints_of
from eim_ros.nodes.interfaces import SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.settings import IkServerSettings

__all__ = [
    "RequestError",
    "check_frame",
    "check_tip",
    "configuration_of",
    "constraints_for",
    "count_of",
    "fill",
    "fill_batch",
    "float64_bytes",
    "parse",
    "parse_batch",
    "pose_of",
    "poses_of",
    "positive",
    "random_seed_of",
    "timeout_of",
]


class RequestError(EimError):
    """A request that cannot be served as it is; `code` is the error code to answer with."""

    def __init__(self, code: ErrorCode, message: str, value: object = None) -> None:
        super().__init__(message, value)
        self.code = code


def parse(request: SampleIK.Request, robot: Robot, settings: IkServerSettings) -> SampleRequest:
    """What a request asks of the sampler.

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
    return _wanted(request, pose_of(request.pose.pose, "pose"), robot, settings)


def parse_batch(
    request: SampleIKBatch.Request, robot: Robot, settings: IkServerSettings
) -> tuple[np.ndarray, SampleRequest]:
    """Poses (n_poses, 4, 4) of a request, and what it asks, for the first of them; raises as `parse`."""
    check_frame(request.header.frame_id, robot, "header.frame_id")
    check_tip(request.tip_link, robot)
    poses = poses_of(request.poses, settings)
    n = count_of(request.n_samples, settings.max_samples)
    if n * len(poses) > settings.max_samples:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"{n} configurations for each of {len(poses)} poses are {n * len(poses)}, expected at most "
            f"{settings.max_samples} (parameter max_samples)",
            n * len(poses),
        )
    return poses, _wanted(request, poses[0], robot, settings)


def _wanted(
    request: SampleIK.Request | SampleIKBatch.Request, pose: np.ndarray, robot: Robot, settings: IkServerSettings
) -> SampleRequest:
    near, posture = configuration_of(request.seed, robot.joint_names), _posture(request, robot)
    try:
        return SampleRequest(
            pose,
            count_of(request.n_samples, settings.max_samples),
            random_seed_of(request.random_seed),
            near=near,
            order=_order(request, near, posture),
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
            explore=_explore(request.explore),
            constraints=constraints_for(request, robot),
            posture=posture,
        )
    except RequestError:
        raise
    except EimError as error:
        is_state = isinstance(error, JointStateError)
        code = ErrorCode.INVALID_ROBOT_STATE if is_state else ErrorCode.INVALID_GOAL_CONSTRAINTS
        raise RequestError(code, str(error), error.value) from error


def fill(response: SampleIK.Response, wanted: SampleRequest, samples: Samples, deadline: float) -> None:
    """Copy samples into a response as flat row-major arrays (a list per sample would cost milliseconds).

    Log densities are left out of one configuration in the default order, and where they would take longer than until
    the deadline, a time of `perf_counter` [s].
    """
    response.error_code = int(samples.error_code)
    response.message = samples.message
    _write(response, wanted, [samples], deadline)


def fill_batch(
    response: SampleIKBatch.Response, wanted: SampleRequest, answers: Sequence[Samples], deadline: float
) -> None:
    """Copy the samples of each pose into a response, one after the other; log densities of all, or of none."""
    failed = [index for index, samples in enumerate(answers) if samples.error_code != ErrorCode.SUCCESS]
    first = failed[0] if failed else 0
    response.error_code, response.message = int(answers[first].error_code), answers[first].message
    if failed:
        response.message = f"{len(failed)} of {len(answers)} poses, the first of them pose {first}: {response.message}"
    response.n_per_pose = [len(samples) for samples in answers]
    response.error_codes = [int(samples.error_code) for samples in answers]
    _write(response, wanted, answers, deadline)


def _write(
    response: SampleIK.Response | SampleIKBatch.Response,
    wanted: SampleRequest,
    answers: Sequence[Samples],
    deadline: float,
) -> None:
    response.joint_names = list(answers[0].joint_names)
    response.n = sum(map(len, answers))
    columns = ["positions", "position_error", "orientation_error"]
    if _has_densities(wanted, answers, deadline):
        columns.append("log_prob")
    for name in columns:
        getattr(response, name).frombytes(b"".join(float64_bytes(getattr(samples, name)) for samples in answers))
    response.valid = [valid for samples in answers for valid in samples.valid.tolist()]
    response.expert.frombytes(np.concatenate([samples.expert for samples in answers], dtype=np.uint32).tobytes())


def _has_densities(wanted: SampleRequest, answers: Sequence[Samples], deadline: float) -> bool:
    """Whether log densities are told: they are known already, or somebody may want them and there is time left."""
    seconds = sum(samples.seconds_of_density for samples in answers)
    is_wanted = wanted.n > 1 or wanted.order is not None
    return seconds == 0.0 or (is_wanted and time.perf_counter() + seconds < deadline)


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


def poses_of(poses: Sequence[Pose], settings: IkServerSettings) -> np.ndarray:
    """Transforms (n, 4, 4) of as many messages as are allowed."""
    if not 1 <= len(poses) <= settings.max_samples:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"there are {len(poses)} poses, expected 1 to {settings.max_samples} (parameter max_samples)",
            len(poses),
        )
    return np.array([pose_of(pose, f"pose {index}") for index, pose in enumerate(poses)])


def random_seed_of(value: int) -> int | None:
    """None where it is negative."""
    return int(value) if value >= 0 else None


def _order(
    request: SampleIK.Request | SampleIKBatch.Request, near: np.ndarray | None, posture: Posture | None
) -> str | dict[str, float] | None:
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
        Ranking(order, near, posture=posture)
    except ConfigurationError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"order: {error}", names) from error
    return order


def _posture(request: SampleIK.Request | SampleIKBatch.Request, robot: Robot) -> Posture | None:
    """Preferred posture of the request, if it has one."""
    names, values, weights = list(request.posture.name), list(request.posture.position), list(request.posture_weights)
    if not names and not values and not weights:
        return None
    weights = weights or [1.0] * len(names)
    if not len(names) == len(values) == len(weights) or len(set(names)) != len(names):
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"posture has {len(names)} names and {len(values)} positions, and there are {len(weights)} "
            "posture_weights; expected as many of each, each joint once, or no posture_weights",
            names,
        )
    posture = Posture(dict(zip(names, values, strict=True)), dict(zip(names, weights, strict=True)))
    try:
        posture.of(robot)
    except ConfigurationError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, str(error), error.value) from error
    return posture


def _explore(value: float) -> float | None:
    """None where it is negative."""
    if not value <= 1.0:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"explore is {value}, expected 0 to 1, or a negative number for the model's default",
            value,
        )
    return float(value) if value >= 0.0 else None


def constraints_for(
    request: SampleIK.Request | SampleIKBatch.Request | SampleIKPath.Request, robot: Robot
) -> Constraints:
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
