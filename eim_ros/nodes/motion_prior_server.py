"""`MotionPriorServer`: a lifecycle node that samples, scores and conditions motions with a motion prior.

The node provides the services `~/sample_motion`, `~/score_motion`, `~/condition` and `~/load_model`. `~/load_model`
loads another prior on a separate thread and then replaces the current prior. Joints are matched by name. A node that is
activated without a prior waits for `~/load_model`.

The functions that parse requests and fill responses are pure. For an invalid request, these functions or the prior
raise an `EimError` that names the cause.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from rclpy.duration import Duration
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from eim_ros.core.errors import (
    ConfigurationError,
    DataError,
    EimError,
    JointStateError,
    ModelFileError,
    ServiceError,
)
from eim_ros.motion import MotionPrior, TipGoal, ViaPoint
from eim_ros.motion.tip_goal import DEFAULT_TOLERANCE
from eim_ros.nodes.common.interfaces import ConditionMotion, ErrorCodes, SampleMotion, ScoreMotion
from eim_ros.nodes.common.interfaces import TipGoal as TipGoalMessage
from eim_ros.nodes.common.interfaces import ViaPoint as ViaPointMessage
from eim_ros.nodes.common.messages import misnamed, put_arrays, seconds
from eim_ros.nodes.common.node import AnswerCounters, ManagedNode
from eim_ros.nodes.common.qos import SERVICE_QOS
from eim_ros.nodes.common.service import ModelExchange, reason_of
from eim_ros.nodes.settings import MotionPriorServerSettings

_LONGEST = 1e6  # [s] maximum duration of a motion
_LARGEST_SEED = 2**31
_NO_MODEL = "no model is loaded: set the parameter model, or call load_model"

Answer = Callable[[Any, Any, MotionPrior, MotionPriorServerSettings], None]
FAILURE, INVALID = ErrorCodes.FAILURE, ErrorCodes.INVALID_GOAL_CONSTRAINTS


class MotionPriorServer(ManagedNode[MotionPriorServerSettings]):
    """Node that serves a motion prior."""

    def __init__(self) -> None:
        super().__init__("motion_prior_server", MotionPriorServerSettings, "sample_motion", takes_long=True)
        self._prior: MotionPrior | None = None
        self._is_configured = False
        self._exchange = threading.Lock()  # held by transitions and `~/load_model` while they replace the prior
        self._counters = AnswerCounters()
        self._models = ModelExchange(self, self._replace)
        for service_type, name, answer in (
            (SampleMotion, "~/sample_motion", sample_motion),
            (ScoreMotion, "~/score_motion", score_motion),
            (ConditionMotion, "~/condition", condition_motion),
        ):
            self.create_service(service_type, name, self._served(service_type, answer), qos_profile=SERVICE_QOS)

    def configure(self) -> None:
        """Load the prior if the parameter `model` is set."""
        prior = MotionPrior.load(self.settings.model) if self.settings.model else None
        with self._exchange:
            self._is_configured = True
            if prior is not None:
                self._take(prior, self.settings.model)
        if prior is None:
            self.get_logger().info("waiting for a model")

    def cleanup(self) -> None:
        with self._exchange:
            self._is_configured, self._prior = False, None

    def end(self, timeout: float) -> bool:
        """Stop loading models. Return False if a model is still being loaded after `timeout` [s]."""
        return self._models.close(timeout)

    def facts(self) -> dict[str, str]:
        model = self.settings.model if self._prior is not None else "not loaded"
        return {"model": model, **self._counters.facts()}

    def warning(self) -> str:
        return _NO_MODEL if self._prior is None else ""

    def _served(self, service_type: Any, answer: Answer) -> Callable[[Any, Any], Any]:
        """Return a service callback that always responds, even after an unexpected error."""

        def serve(request: Any, response: Any) -> Any:
            began, prior = time.monotonic(), self._prior
            try:
                self.check_active()
                if prior is None:
                    raise ServiceError(_NO_MODEL, "")
                answer(request, response, prior, self.settings)
            except Exception as error:
                response = service_type.Response()  # the old response may be incomplete
                wrong = isinstance(error, EimError) and not isinstance(error, ServiceError)
                response.error_code.val = INVALID if wrong else FAILURE
                response.error_code.message = reason_of(error)
                self.get_logger().warning(response.error_code.message)
            self._counters.count(response.error_code.val, time.monotonic() - began)
            return response

        return serve

    def _replace(self, path: str) -> None:
        """Load another prior and make it the current prior, on the loader's thread."""
        if not path:
            raise ModelFileError("the path of the model is empty: give the path of a file", path)
        if not self._is_configured:
            raise ServiceError(self.inactivity, path)
        path = str(self.settings.data.readable(path))
        prior, present = MotionPrior.load(path), self._prior
        if present is not None and set(prior.joint_names) != set(present.joint_names):
            raise ModelFileError(
                f"{path} is a prior for the joints {', '.join(prior.joint_names)}, but this server needs a prior for "
                f"the joints {', '.join(present.joint_names)}",
                prior.joint_names,
            )
        with self._exchange:
            if not self._is_configured or self._prior is not present:
                raise ServiceError(
                    f"{self.get_name()} was configured again in the meantime: call load_model again", path
                )
            self._take(prior, path)

    def _take(self, prior: MotionPrior, path: str) -> None:
        """Make a prior the current prior, and set the informational parameters that describe it."""
        self._prior = prior
        self._node_settings.put("model", path)
        self._node_settings.tell("prior.joint_names", list(prior.joint_names), "Joints of the motions.")
        self._node_settings.tell("prior.context_names", ", ".join(prior.context_names), "Numbers of a context.")
        self.get_logger().info(
            f"model {path}: {prior.mixture.n_components} experts; its joints are "
            f"{', '.join(prior.joint_names)}, and its context is {', '.join(prior.context_names) or 'empty'}"
        )


def sample_motion(
    request: SampleMotion.Request,
    response: SampleMotion.Response,
    prior: MotionPrior,
    settings: MotionPriorServerSettings,
) -> None:
    """Fill the response with sampled motions. Raise `EimError` if the request is invalid."""
    n = _between("n_samples", request.n_samples, 1, settings.max_samples, "max_samples")
    n_points = _n_points(request.n_points, prior, settings)
    if not request.flat and n * n_points > settings.max_trajectory_points:
        raise ConfigurationError(
            f"{n} trajectories of {n_points} points have more than {settings.max_trajectory_points} points (parameter "
            "max_trajectory_points): request fewer trajectories, or set flat to true to remove this limit",
            n * n_points,
        )
    duration = _duration(request.duration, prior.mean_duration)
    goals = _tip_goals(request.tip_goals) if request.tip_goals or request.ignore_goals else None
    given = prior.condition(list(request.context), _via_points(request.via_points), goals)
    seed = request.seed if request.seed >= 0 else secrets.randbelow(_LARGEST_SEED)
    samples = given.sample(n, torch.Generator().manual_seed(seed), n_points)
    times = np.linspace(0.0, duration, n_points)
    response.joint_names = list(prior.joint_names)
    response.n, response.n_points = n, n_points
    put_arrays(response, positions=samples.positions, times=times)
    put_arrays(response, log_prob=samples.log_prob, component=samples.component)
    response.log_evidence, response.acceptance_rate = given.log_evidence, given.acceptance_rate
    if not request.flat:
        stamps = [Duration(nanoseconds=round(1e9 * time)).to_msg() for time in times]
        response.trajectories = [_trajectory(prior.joint_names, motion, stamps) for motion in samples.positions]
    response.error_code.val = ErrorCodes.SUCCESS


def score_motion(
    request: ScoreMotion.Request,
    response: ScoreMotion.Response,
    prior: MotionPrior,
    settings: MotionPriorServerSettings,
) -> None:
    """Fill the response with scores of the motions in the request. Raise `EimError` if the request is invalid."""
    n = _between("the number of trajectories", len(request.trajectories), 1, settings.max_samples, "max_samples")
    motions = np.empty((n, prior.representation.n_points, len(prior.joint_names)))
    for index, trajectory in enumerate(request.trajectories):
        try:
            times, positions = _motion(trajectory, prior.joint_names, settings.max_points)
            prior.check_motion(positions)
            motions[index] = prior.representation.resampled(times, positions)
        except EimError as error:
            raise DataError(f"motion {index}: {error}", index) from error
    scores = prior.score(motions, list(request.context))
    put_arrays(response, log_prob=scores.log_prob, quantile=scores.quantile, residual=scores.residual)
    response.outlier = (scores.quantile < settings.outlier_share).tolist()
    response.error_code.val = ErrorCodes.SUCCESS


def condition_motion(
    request: ConditionMotion.Request,
    response: ConditionMotion.Response,
    prior: MotionPrior,
    settings: MotionPriorServerSettings,
) -> None:
    """Fill the response with components of the conditioned prior. Raise `EimError` if the request is invalid."""
    n_points = _n_points(request.n_points, prior, settings)
    given = prior.condition(list(request.context), _via_points(request.via_points))
    log_weights, means, deviations = given.component_motions(n_points)
    response.joint_names = list(prior.joint_names)
    response.n_components, response.n_points = given.n_components, n_points
    put_arrays(response, log_weights=log_weights, means=means, standard_deviations=deviations)
    response.log_evidence = given.log_evidence
    response.error_code.val = ErrorCodes.SUCCESS


def _via_points(messages: Sequence[ViaPointMessage]) -> list[ViaPoint]:
    points = []
    for index, message in enumerate(messages):
        try:
            points.append(
                ViaPoint(
                    float(message.phase),
                    tuple(message.joint_names),
                    tuple(message.positions),
                    tuple(message.standard_deviations),
                )
            )
        except EimError as error:
            raise DataError(f"via point {index}: {error}", error.value) from error
    return points


def _tip_goals(messages: Sequence[TipGoalMessage]) -> list[TipGoal]:
    goals = []
    for index, message in enumerate(messages):
        try:
            goals.append(TipGoal(message.axis, message.value, message.tolerance or DEFAULT_TOLERANCE, message.phase))
        except EimError as error:
            raise DataError(f"tip goal {index}: {error}", error.value) from error
    return goals


def _motion(trajectory: JointTrajectory, joint_names: Sequence[str], max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times (n,) [s] and positions (n, n_joints) of a trajectory, with joints in the order of `joint_names`."""
    names, points = list(trajectory.joint_names), trajectory.points
    if problem := misnamed(names, joint_names):
        raise JointStateError(f"the trajectory {problem}; expected {', '.join(joint_names)}, each once", names)
    _between("the number of points", len(points), 2, max_points, "max_points")
    for index, point in enumerate(points):
        if len(point.positions) != len(names):
            raise JointStateError(
                f"point {index} has {len(point.positions)} positions for {len(names)} joints", list(point.positions)
            )
    times = np.array([seconds(point.time_from_start) for point in points])
    positions = np.array([point.positions for point in points], dtype=np.float64)
    return times, positions[:, [names.index(name) for name in joint_names]]


def _trajectory(joint_names: Sequence[str], motion: np.ndarray, stamps: list[Any]) -> JointTrajectory:
    points = [
        JointTrajectoryPoint(positions=positions, time_from_start=stamp)
        for positions, stamp in zip(motion.tolist(), stamps, strict=True)
    ]
    return JointTrajectory(joint_names=list(joint_names), points=points)


def _n_points(value: int, prior: MotionPrior, settings: MotionPriorServerSettings) -> int:
    wanted = int(value) or settings.default_points or prior.representation.n_points
    return _between("n_points", wanted, 2, settings.max_points, "max_points")


def _duration(value: float, default: float) -> float:
    if not (math.isfinite(value) and 0.0 <= value <= _LONGEST):
        raise ConfigurationError(
            f"duration is {value} s, expected a positive number up to {_LONGEST:.0f} s, or 0, which selects "
            f"{default:.3g} s",
            value,
        )
    return float(value) or default


def _between(name: str, value: int, least: int, most: int, parameter: str) -> int:
    if not least <= value <= most:
        raise ConfigurationError(f"{name} is {value}, expected {least} to {most} (parameter {parameter})", value)
    return int(value)
