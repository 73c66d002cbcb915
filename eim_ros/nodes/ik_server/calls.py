"""The services of `ik_server` that need its sampler: what each asks, and how it is answered.

~/sample_ik        many configurations for one pose
~/sample_ik_batch  many configurations for each of several poses
~/sample_ik_path   one configuration for each pose of a path
~/compute_ik       one configuration, the nearest to a state; the shape of MoveIt's GetPositionIK
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eim_ros.errors import ConfigurationError, RobotError
from eim_ros.ik import Constraints, ErrorCode, Sampler, sample_path
from eim_ros.ik.batch import answer_batch
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.nodes.common.flat_arrays import float64_bytes
from eim_ros.nodes.common.interfaces import GetPositionIK, SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.ik_server.fields import (
    RequestError,
    check_frame,
    check_tip,
    configuration_of,
    constraints_for,
    count_of,
    pose_of,
    poses_of,
    positive,
    random_seed_of,
    timeout_of,
)
from eim_ros.nodes.ik_server.requests import parse, parse_batch
from eim_ros.nodes.ik_server.responses import fill, fill_batch
from eim_ros.nodes.ik_server.settings import IkServerSettings

__all__ = ["CALLS", "Prepared", "outcome_of", "refuse"]

PATH_SAMPLES = 48
PATH_STEP = 0.3  # [rad] or [m]
NEAREST_SAMPLES = 32  # solutions of which the nearest is returned


@dataclass(frozen=True)
class Prepared:
    """A request that was understood.

    Attributes
    ----------
    timeout : float
        Time the client grants [s].
    solve : callable
        Called with the sampler and the time that is left [s]; fills the response.
    """

    timeout: float
    solve: Callable[[Sampler, float], None]


def prepare_samples(request: Any, response: Any, robot: Robot, settings: IkServerSettings) -> Prepared:
    """Of `SampleIK`."""
    wanted = parse(request, robot, settings)

    def solve(sampler: Sampler, left: float) -> None:
        deadline = time.perf_counter() + left
        with _refusing():
            samples = sampler.answer(replace(wanted, timeout=left))
        fill(response, wanted, samples, deadline)

    return Prepared(wanted.timeout, solve)


def prepare_batch(request: Any, response: Any, robot: Robot, settings: IkServerSettings) -> Prepared:
    """Of `SampleIKBatch`."""
    poses, wanted = parse_batch(request, robot, settings)

    def solve(sampler: Sampler, left: float) -> None:
        deadline = time.perf_counter() + left
        with _refusing():
            answers = answer_batch(sampler, poses, replace(wanted, timeout=left))
        fill_batch(response, wanted, answers, deadline)

    return Prepared(wanted.timeout, solve)


def prepare_path(request: Any, response: Any, robot: Robot, settings: IkServerSettings) -> Prepared:
    """Of `SampleIKPath`."""
    check_frame(request.header.frame_id, robot, "header.frame_id")
    check_tip(request.tip_link, robot)
    poses = poses_of(request.poses, settings)
    random_seed = random_seed_of(request.random_seed)
    n = count_of(int(request.n_samples) or PATH_SAMPLES, settings.max_samples)
    options: dict[str, Any] = {
        "near": configuration_of("near", request.near, robot.joint_names),
        "largest_step": positive("largest_step", request.largest_step, PATH_STEP),
        "position_only": bool(request.position_only),
        "position_tolerance": positive(
            "position_tolerance", request.position_tolerance, settings.default_position_tolerance
        ),
        "orientation_tolerance": positive(
            "orientation_tolerance", request.orientation_tolerance, settings.default_orientation_tolerance
        ),
        "constraints": constraints_for(request, robot),
    }

    def solve(sampler: Sampler, left: float) -> None:
        path = sample_path(sampler, poses, n, random_seed, timeout=left, **options)
        response.error_code, response.message = int(path.error_code), path.message
        response.joint_names, response.n = list(path.joint_names), len(path.positions)
        response.positions.frombytes(float64_bytes(path.positions))
        response.position_error.frombytes(float64_bytes(path.position_error))
        response.orientation_error.frombytes(float64_bytes(path.orientation_error))
        response.valid, response.largest_step = path.valid.tolist(), path.largest_step

    return Prepared(timeout_of(request.timeout, settings), solve)


def prepare_nearest(request: Any, response: Any, robot: Robot, settings: IkServerSettings) -> Prepared:
    """Of `GetPositionIK`, ours or MoveIt's."""
    wanted = request.ik_request
    check_frame(wanted.pose_stamped.header.frame_id, robot, "pose_stamped.header.frame_id")
    check_tip(wanted.ik_link_name, robot)
    pose = pose_of(wanted.pose_stamped.pose, "pose_stamped")
    near = configuration_of("robot_state", wanted.robot_state.joint_state, robot.joint_names, others_allowed=True)
    timeout = timeout_of(wanted.timeout.sec + 1e-9 * wanted.timeout.nanosec, settings)
    nearest = SampleRequest(
        pose,
        NEAREST_SAMPLES,
        random_seed=0,
        near=near,
        distinct=False,  # an arm with fewer solutions than samples would be searched to the end
        position_only=False,
        position_tolerance=settings.default_position_tolerance,
        orientation_tolerance=settings.default_orientation_tolerance,
        constraints=Constraints(self_collision=bool(wanted.avoid_collisions) and _has_shapes(robot)),
    )

    def solve(sampler: Sampler, left: float) -> None:
        found = sampler.answer(replace(nearest, timeout=left))
        if not found.valid.any():
            code = ErrorCode.NO_IK_SOLUTION if found.error_code == ErrorCode.SUCCESS else found.error_code
            raise RequestError(code, found.message)
        best = int(np.flatnonzero(found.valid)[0])
        response.solution.joint_state.name = list(found.joint_names)
        response.solution.joint_state.position = found.positions[best].tolist()
        response.error_code.val = int(ErrorCode.SUCCESS)

    return Prepared(timeout, solve)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What this sampler cannot be asked for, such as densities where there is no model, is the client's mistake."""
    try:
        yield
    except ConfigurationError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, str(error), error.value) from error


def _has_shapes(robot: Robot) -> bool:
    """Whether the robot's description has shapes that can be checked for collisions."""
    try:
        return collision_model(robot).n_shapes > 0
    except RobotError as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"avoid_collisions: {error}", error.value) from error


CALLS: dict[str, tuple[Any, Callable[[Any, Any, Robot, IkServerSettings], Prepared]]] = {
    "~/sample_ik": (SampleIK, prepare_samples),
    "~/sample_ik_batch": (SampleIKBatch, prepare_batch),
    "~/sample_ik_path": (SampleIKPath, prepare_path),
    "~/compute_ik": (GetPositionIK, prepare_nearest),
}
"""Type of each service, and what understands its requests."""


def refuse(response: Any, code: ErrorCode, message: str) -> None:
    """Make it an answer without a solution."""
    if isinstance(response, GetPositionIK.Response):
        response.error_code.val = int(code)
        if hasattr(response.error_code, "message"):  # MoveIt's has none in older releases
            response.error_code.message = message
        return
    response.error_code, response.message, response.n = int(code), message, 0


def outcome_of(response: Any) -> tuple[int, str]:
    """Error code and message of an answer."""
    if isinstance(response, GetPositionIK.Response):
        return int(response.error_code.val), str(getattr(response.error_code, "message", ""))
    return int(response.error_code), str(response.message)
