"""`MotionPriorServer`: a lifecycle node that samples, scores and conditions motions with a motion prior.

The node provides the services `~/sample_motion`, `~/score_motion`, `~/condition` and `~/load_model`. The last one loads
another prior on a separate thread and then replaces the current one. Joints are matched by name. The node can also be
activated without a prior; it then waits for `~/load_model`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from eim_ros.core.errors import EimError, ModelFileError, ServiceError
from eim_ros.motion import MotionPrior
from eim_ros.nodes.common.interfaces import ConditionMotion, ErrorCodes, SampleMotion, ScoreMotion
from eim_ros.nodes.common.model_exchange import ModelExchange
from eim_ros.nodes.common.node import AnswerCounters, ManagedNode
from eim_ros.nodes.common.qos import SERVICE_QOS
from eim_ros.nodes.common.service import reason_of
from eim_ros.nodes.motion_prior_server.messages import condition_motion, sample_motion, score_motion
from eim_ros.nodes.motion_prior_server.settings import MotionPriorServerSettings

_NO_MODEL = "no model is loaded: give the parameter model, or call load_model"

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
        self._models.open()

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
        """Stop loading models; return False if one is still being loaded after `timeout` [s]."""
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
                response = service_type.Response()  # discards a partly filled response
                wrong = isinstance(error, EimError) and not isinstance(error, ServiceError)
                response.error_code.val = INVALID if wrong else FAILURE
                response.error_code.message = reason_of(error)
                self.get_logger().warning(response.error_code.message)
            self._counters.count(response.error_code.val, time.monotonic() - began)
            return response

        return serve

    def _replace(self, path: str) -> None:
        """Load another prior, then replace the current one; runs on the loader's thread."""
        if not path:
            raise ModelFileError("the path of the model is empty", path)
        if not self._is_configured:
            raise ServiceError(f"{self.inactivity}: it must be configured first", path)
        path = str(self.settings.data.readable(path))
        prior, present = MotionPrior.load(path), self._prior
        if present is not None and set(prior.joint_names) != set(present.joint_names):
            raise ModelFileError(
                f"{path} is a prior of joints {', '.join(prior.joint_names)}, this server's has "
                f"{', '.join(present.joint_names)}",
                prior.joint_names,
            )
        with self._exchange:
            if not self._is_configured or self._prior is not present:
                raise ServiceError(f"{self.get_name()} was configured again while the model was loaded", path)
            self._take(prior, path)

    def _take(self, prior: MotionPrior, path: str) -> None:
        """Make a prior the current one, and set the informational parameters that describe it."""
        self._prior = prior
        self._node_settings.put("model", path)
        self._node_settings.tell("prior.joint_names", list(prior.joint_names), "Joints of the motions.")
        self._node_settings.tell("prior.context_names", ", ".join(prior.context_names), "Numbers of a context.")
        self.get_logger().info(
            f"model {path}: {prior.mixture.n_components} experts, joints "
            f"{', '.join(prior.joint_names)}, context {', '.join(prior.context_names) or 'none'}"
        )
