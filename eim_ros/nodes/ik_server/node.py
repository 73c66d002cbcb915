"""`IkServer`: a lifecycle node that answers requests for sampled, refined and verified joint configurations.

configure loads the model, or the robot alone, activate starts serving. In every other state, from the first one on, the
services answer that the node is not active. The executor's thread is always there: `Serving` has requests solved on
worker threads, `Transitions` configures on a thread of its own, and `ModelExchange` loads another model on one more: no
request waits for it, and each is answered by one of the two models.
"""

from __future__ import annotations

import threading
import time

from eim_ros.errors import ConfigurationError
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.nodes.common.description_topic import DescriptionTopic, urdf_text
from eim_ros.nodes.common.joint_positions import JointPositions
from eim_ros.nodes.common.managed_node import ManagedNode
from eim_ros.nodes.common.model_exchange import ModelExchange
from eim_ros.nodes.common.transforms import Transforms
from eim_ros.nodes.ik_server.fields import RequestError
from eim_ros.nodes.ik_server.loading import load_replacement, load_sampler, name_of_model
from eim_ros.nodes.ik_server.nearest import check_groups
from eim_ros.nodes.ik_server.planning_scene_topic import PlanningSceneTopic
from eim_ros.nodes.ik_server.serving import Serving
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.nodes.ik_server.surroundings import Surroundings

__all__ = ["IkServer"]


class IkServer(ManagedNode[IkServerSettings]):
    """See the module. Raises `ConfigurationError` on an unknown or bad parameter."""

    def __init__(self) -> None:
        super().__init__("ik_server", IkServerSettings, "sample_ik", takes_long=True)
        self._loaded: Sampler | None = None
        self._serving: Sampler | None = None
        self._exchange = threading.Lock()  # of the two models, by transitions and by `~/load_model`
        self._model = ""
        self._description = DescriptionTopic(self) if self.settings.use_robot_description_topic else None
        self._transforms = Transforms(self) if self.settings.use_tf else None
        topic = self.settings.joint_states_topic
        self._joint_positions = JointPositions(self, topic) if topic else None
        self._scene: PlanningSceneTopic | None = None
        self._service = Serving(self, lambda: self.settings, self._active_sampler, self._around, self._among)
        self._models = ModelExchange(self, self._replace)
        self._models.open()

    # Lifecycle

    def configure(self) -> None:
        """Load the model, or the robot alone."""
        began = time.monotonic()
        self.get_logger().info(f"configuring with model {self.settings.model or 'by default'}")
        self._loaded = load_sampler(self.settings, urdf_text(self.settings, self._description))
        self._model = name_of_model(self.settings, self._loaded)
        self._node_settings.put("model", self._model)
        robot = self._loaded.robot
        self._listen_to_scene(robot)
        groups = check_groups(robot, self.settings)
        self._node_settings.tell("chain.base_link", robot.base_link, "Link in whose frame poses are given.")
        self._node_settings.tell("chain.tip_link", robot.tip_link, "Link that reaches the pose.")
        self._node_settings.tell("chain.joint_names", list(robot.joint_names), "Joints from base to tip.")
        self.get_logger().info(
            f"configured in {time.monotonic() - began:.1f} s: model {self._model}, {self._loaded.n_experts} experts, "
            f"{self._loaded.context_kind} context, robot '{robot.name}' from '{robot.base_link}' to '{robot.tip_link}'"
            f", groups: {', '.join(groups) or 'none'}"
        )

    def activate(self) -> None:
        """Start serving."""
        with self._exchange:
            self._serving = self._loaded

    def deactivate(self) -> None:
        """Stop serving; a request that is being solved is still answered."""
        with self._exchange:
            self._serving = None

    def cleanup(self) -> None:
        """Forget the model."""
        with self._exchange:
            self._loaded = None

    def end(self, timeout: float) -> bool:
        """Answer all that is open; False when a request is still being solved, or a model loaded."""
        self._serving = None
        if self._description is not None:
            self._description.close()
        end = time.monotonic() + timeout
        idle = self._service.stop(timeout)
        return self._models.close(max(0.0, end - time.monotonic())) and idle

    # Serving

    def _listen_to_scene(self, robot: Robot) -> None:
        """Begin, where the settings say so, or begin anew."""
        if self._scene is not None:
            self._scene.close()
            self._scene = None
        if not self.settings.planning_scene_topic:
            return
        if not collision_model(robot).n_shapes:
            raise ConfigurationError(
                "planning_scene_topic is given, but the robot has no collision shapes to check", robot.name
            )
        self._scene = PlanningSceneTopic(self, self.settings.planning_scene_topic, robot)

    def _among(self, sampler: Sampler) -> Sampler:
        """Among the obstacles of the planning scene."""
        return sampler if self._scene is None else sampler.among(self._scene.objects.obstacles)

    def _active_sampler(self) -> Sampler:
        sampler = self._serving
        if sampler is None:
            raise RequestError(ErrorCode.FAILURE, self.inactivity)
        return sampler

    def _around(self, robot: Robot) -> Surroundings:
        joints = None if self._joint_positions is None else self._joint_positions.now
        return Surroundings(robot, self._transforms, self.settings.frame_prefix, joints)

    def _replace(self, path: str) -> None:
        """On the loader's thread: load another model and exchange the two."""
        present = self._loaded
        if present is None:
            raise ConfigurationError(f"{self.inactivity}: it must be configured first")
        following, path = load_replacement(path, present, self.settings.data)
        with self._exchange:
            if self._loaded is not present:
                raise ConfigurationError(f"{self.get_name()} was configured anew meanwhile")
            self._loaded, self._model = following, path
            if self._serving is not None:
                self._serving = following
            self._node_settings.put("model", path)

    def facts(self) -> dict[str, str]:
        """Model, requests and answers."""
        return {"model": self._model or "not loaded", **self._service.facts()}
