"""`MotionPriorServer`: a node that samples, scores and conditions motions by a motion prior.

Services `~/sample_motion`, `~/score_motion`, `~/condition`, and `~/load_model`, which loads another prior on a thread
of its own and then exchanges the two. Joints are matched by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from eim_ros.errors import EimError, ModelFileError
from eim_ros.motion import MotionPrior
from eim_ros.nodes.deferred_service import Exchange, create_deferred_service
from eim_ros.nodes.interfaces import ConditionMotion, LoadModel, SampleIK, SampleMotion, ScoreMotion
from eim_ros.nodes.motion_messages import condition_motion, sample_motion, score_motion
from eim_ros.nodes.motion_prior_server_settings import MotionPriorServerSettings
from eim_ros.nodes.parameters import NodeSettings
from eim_ros.nodes.qos import SERVICE_QOS
from eim_ros.nodes.request_queue import RequestQueue

__all__ = ["MotionPriorServer"]

_WAITING_MODELS = 3  # models that may wait for being loaded
_LONGEST_JOIN = 2.0  # [s]

Answer = Callable[[Any, Any, MotionPrior, MotionPriorServerSettings], None]
FAILURE, INVALID = SampleIK.Response.FAILURE, SampleIK.Response.INVALID_GOAL_CONSTRAINTS


class MotionPriorServer(Node):
    """See the module. Raises `ConfigurationError` on an unknown or bad parameter."""

    def __init__(self) -> None:
        super().__init__("motion_prior_server")
        self._node_settings = NodeSettings(self, MotionPriorServerSettings)
        self._prior: MotionPrior | None = None
        self._loader: RequestQueue[Exchange] = RequestQueue(self._load, n_threads=1, size=_WAITING_MODELS)

    @property
    def settings(self) -> MotionPriorServerSettings:
        """Present values of the parameters."""
        return self._node_settings.current

    def start(self) -> bool:
        """Load the prior, where one is given, and only then open the services; False if it is refused."""
        if self.settings.model:
            try:
                self._replace(self.settings.model)
            except Exception as error:  # whatever a file contains
                self.get_logger().error(f"cannot load the model: {_reason(error)}")
                return False
        for service_type, name, answer in (
            (SampleMotion, "~/sample_motion", sample_motion),
            (ScoreMotion, "~/score_motion", score_motion),
            (ConditionMotion, "~/condition", condition_motion),
        ):
            self.create_service(service_type, name, self._served(service_type, answer), qos_profile=SERVICE_QOS)
        create_deferred_service(self, LoadModel, "~/load_model", self._receive_model, SERVICE_QOS)
        self.get_logger().info("serving" if self._prior is not None else "waiting for a model")
        return True

    def close(self) -> bool:
        """Destroy the node; False when a model is still being loaded."""
        idle = self._loader.close(_LONGEST_JOIN)
        self.destroy_node()
        return idle

    def _served(self, service_type: Any, answer: Answer) -> Callable[[Any, Any], Any]:
        """The callback of a service: an answer comes, whatever happens."""

        def serve(request: Any, response: Any) -> Any:
            prior = self._prior
            try:
                if prior is None:
                    raise _NoModelError("no model is loaded: give the parameter model, or call load_model")
                answer(request, response, prior, self.settings)
            except Exception as error:
                response = service_type.Response()  # it may have been half filled
                wrong = isinstance(error, EimError) and not isinstance(error, _NoModelError)
                response.error_code = INVALID if wrong else FAILURE
                response.message = _reason(error)
                self.get_logger().warning(response.message)
            return response

        return serve

    def _receive_model(self, exchange: Exchange) -> None:
        """On the executor's thread: queue the wish for another model."""
        if not self._loader.offer(exchange):
            exchange.response.message = "other models are being loaded: try again later"
            self._send(exchange)

    def _load(self, exchange: Exchange) -> None:
        """On the loader's thread: load, then exchange; on failure the present prior stays."""
        path = exchange.request.path
        try:
            self._replace(path)
            exchange.response.success = True
        except Exception as error:
            exchange.response.message = _reason(error)
            self.get_logger().warning(f"model {path} refused: {exchange.response.message}")
        self._send(exchange)

    def _replace(self, path: str) -> None:
        began = time.monotonic()
        if not path:
            raise ModelFileError("the path of the model is empty", path)
        prior = MotionPrior.load(path)
        present = self._prior
        if present is not None and set(prior.joint_names) != set(present.joint_names):
            raise ModelFileError(
                f"{path} is a prior of joints {', '.join(prior.joint_names)}, this server's has "
                f"{', '.join(present.joint_names)}",
                prior.joint_names,
            )
        self._prior = prior
        self._node_settings.tell("prior.joint_names", list(prior.joint_names), "Joints of the motions.")
        self._node_settings.tell("prior.context_names", ", ".join(prior.context_names), "Numbers of a context.")
        self.get_logger().info(
            f"model {path} loaded in {time.monotonic() - began:.1f} s: {prior.mixture.n_components} experts, joints "
            f"{', '.join(prior.joint_names)}, context {', '.join(prior.context_names) or 'none'}"
        )

    def _send(self, exchange: Exchange) -> None:
        try:
            exchange.send()
        except Exception as error:  # the context is being shut down
            self.get_logger().error(f"an answer could not be sent: {_reason(error)}")


class _NoModelError(EimError):
    """The server has no prior yet."""


def _reason(error: Exception) -> str:
    """Message of an error that names its own cause, else with its type; one line."""
    known = isinstance(error, EimError) and str(error)
    return " ".join((str(error) if known else f"internal error: {type(error).__name__}: {error}").split())
