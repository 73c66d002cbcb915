"""`MotionPriorServer`: a node that samples, scores and conditions motions by a motion prior.

Services `~/sample_motion`, `~/score_motion`, `~/condition`, and `~/load_model`, which loads another prior on a thread
of its own and then exchanges the two. Joints are matched by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from eim_ros.errors import EimError, ModelFileError
from eim_ros.motion import MotionPrior
from eim_ros.nodes.common.interfaces import ConditionMotion, SampleIK, SampleMotion, ScoreMotion
from eim_ros.nodes.common.model_exchange import ModelExchange
from eim_ros.nodes.common.paced_service import create_paced_service
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.response_pacer import ResponsePacer
from eim_ros.nodes.motion_prior_server.messages import condition_motion, sample_motion, score_motion
from eim_ros.nodes.motion_prior_server.settings import MotionPriorServerSettings

__all__ = ["MotionPriorServer"]

_LONGEST_JOIN = 2.0  # [s]

Answer = Callable[[Any, Any, MotionPrior, MotionPriorServerSettings], None]
FAILURE, INVALID = SampleIK.Response.FAILURE, SampleIK.Response.INVALID_GOAL_CONSTRAINTS


class MotionPriorServer(Node):
    """See the module. Raises `ConfigurationError` on an unknown or bad parameter."""

    def __init__(self) -> None:
        super().__init__("motion_prior_server")
        self._node_settings = NodeSettings(self, MotionPriorServerSettings)
        self._prior: MotionPrior | None = None
        self._models = ModelExchange(self, self._replace)
        self._pacers: list[ResponsePacer] = []

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
                self.get_logger().error(f"cannot load the model: {reason_of(error)}")
                return False
        for service_type, name, answer in (
            (SampleMotion, "~/sample_motion", sample_motion),
            (ScoreMotion, "~/score_motion", score_motion),
            (ConditionMotion, "~/condition", condition_motion),
        ):
            self._pacers.append(create_paced_service(self, service_type, name, self._served(service_type, answer)))
        self._models.open()
        self.get_logger().info("serving" if self._prior is not None else "waiting for a model")
        return True

    def close(self) -> bool:
        """Destroy the node; False when a model is still being loaded."""
        idle = self._models.close(_LONGEST_JOIN)
        for pacer in self._pacers:
            pacer.close()
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
                response.message = reason_of(error)
                self.get_logger().warning(response.message)
            return response

        return serve

    def _replace(self, path: str) -> None:
        """Load a prior, and only then exchange the two."""
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
        self._node_settings.put("model", path)
        self._node_settings.tell("prior.joint_names", list(prior.joint_names), "Joints of the motions.")
        self._node_settings.tell("prior.context_names", ", ".join(prior.context_names), "Numbers of a context.")
        self.get_logger().info(
            f"serving {path}: {prior.mixture.n_components} experts, joints "
            f"{', '.join(prior.joint_names)}, context {', '.join(prior.context_names) or 'none'}"
        )


class _NoModelError(EimError):
    """The server has no prior yet."""
