"""From the messages of `ik_server` to a `SampleRequest`.

Pure functions of messages. Everything a client may have got wrong is refused here, with an error code and a message
that names the cause and what was expected.
"""

from __future__ import annotations

import numpy as np

from eim_ros.errors import ConfigurationError, EimError, JointStateError
from eim_ros.ik import Completeness, ErrorCode, Posture
from eim_ros.ik.ranking import Ranking
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.interfaces import SampleIK, SampleIKBatch
from eim_ros.nodes.ik_server.fields import (
    RequestError,
    constraints_for,
    count_of,
    pose_of,
    poses_of,
    positive,
    random_seed_of,
    timeout_of,
)
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.nodes.ik_server.surroundings import Surroundings

__all__ = ["parse", "parse_batch"]


def parse(request: SampleIK.Request, around: Surroundings, settings: IkServerSettings) -> SampleRequest:
    """What a request asks of the sampler.

    Parameters
    ----------
    request : SampleIK.Request
        As received; see the comments of the service type for units and defaults.
    around : Surroundings
        Robot of the server, whose joints the request must name, and the frames around it.
    settings : IkServerSettings
        Defaults and limits.

    Raises
    ------
    RequestError
        With the error code to answer.
    """
    in_base = around.in_base(request.pose.header, "pose")
    return _wanted(request, in_base @ pose_of(request.pose.pose, "pose"), around, settings)


def parse_batch(
    request: SampleIKBatch.Request, around: Surroundings, settings: IkServerSettings
) -> tuple[np.ndarray, SampleRequest]:
    """Poses (n_poses, 4, 4) of a request, and what it asks, for the first of them; raises as `parse`."""
    deadline = around.deadline(timeout_of(request.timeout, settings))
    poses = around.in_base(request.header, "poses") @ poses_of(request.poses, settings, deadline)
    n = count_of(request.n_samples, settings.max_samples)
    if n * len(poses) > settings.max_samples:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"{n} configurations for each of {len(poses)} poses are {n * len(poses)}, expected at most "
            f"{settings.max_samples} (parameter max_samples)",
            n * len(poses),
        )
    return poses, _wanted(request, poses[0], around, settings)


def _wanted(
    request: SampleIK.Request | SampleIKBatch.Request,
    pose: np.ndarray,
    around: Surroundings,
    settings: IkServerSettings,
) -> SampleRequest:
    robot, is_drawn = around.robot, bool(request.distribution)
    near = None if is_drawn and not request.near.name else around.near(request.near)
    posture = _posture(request, robot)
    timeout = timeout_of(request.timeout, settings)
    try:
        return SampleRequest(
            pose,
            count_of(request.n_samples, settings.max_samples),
            random_seed_of(request.random_seed),
            near=near,
            order=_order(request, near, posture),
            position_only=bool(request.position_only),
            refine=bool(request.refine),
            distinct=None if is_drawn else bool(request.distinct),
            position_tolerance=positive(
                "position_tolerance", request.position_tolerance, settings.default_position_tolerance
            ),
            orientation_tolerance=positive(
                "orientation_tolerance", request.orientation_tolerance, settings.default_orientation_tolerance
            ),
            timeout=timeout,
            explore=_explore(request.explore),
            constraints=constraints_for(request, robot, settings.data, around.deadline(timeout)),
            posture=posture,
            until=_until(request),
            separation=request.separation or None,
            distribution=request.distribution or None,
            temperature=request.temperature or 1.0,
        )
    except RequestError:
        raise
    except EimError as error:
        is_state = isinstance(error, JointStateError)
        code = ErrorCode.INVALID_ROBOT_STATE if is_state else ErrorCode.INVALID_GOAL_CONSTRAINTS
        raise RequestError(code, str(error), error.value) from error


def _until(request: SampleIK.Request | SampleIKBatch.Request) -> Completeness | None:
    """How whole the answer is to be, if that is asked."""
    if request.confidence == 0.0 and request.missed_share == 0.0:
        return None
    return Completeness(request.confidence, request.missed_share)


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
