"""`IkServer`: a lifecycle node that answers requests for verified joint configurations.

`configure` loads the model, or only the robot. `activate` starts serving. In all other states, services answer that the
node is not active. Requests, transitions and the loading of another model run on separate threads, to keep the
executor's thread free. During a replacement of the model, each request uses either the old or the new model.

Model file, robot, base link and tip link must match. Without a model, all solutions of the robot have equal weight.
"""

from __future__ import annotations

import threading
import time

from eim_ros.core.errors import ConfigurationError, ModelFileError
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.ik.prior import DEFAULT_MODEL, SHIPPED_MODELS
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.nodes.common import robot_source
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.frames import JointPositions, Transforms
from eim_ros.nodes.common.node import ManagedNode
from eim_ros.nodes.common.robot_source import RobotDescription
from eim_ros.nodes.common.service import ModelExchange
from eim_ros.nodes.ik_server.handlers import Handlers
from eim_ros.nodes.ik_server.messages import RequestContext, RequestError
from eim_ros.nodes.ik_server.moveit import check_groups
from eim_ros.nodes.ik_server.planning_scene import PlanningSceneTopic, SceneConditions
from eim_ros.nodes.settings import IkServerSettings

NO_MODEL = "none"  # value of the parameter `model`


def load_sampler(settings: IkServerSettings, description: str = "") -> Sampler:
    """Load the model, and check that it matches the given robot. Without a model, load only the robot.

    `description` is the URDF text from the parameter or the topic. If it is empty, `settings.robot` is used. If that is
    empty too, the robot in the model file is used. `EimError` is raised if the model file is missing, truncated, of
    another schema or format, or for another robot. The error is also raised if the robot cannot be read, or if there is
    neither a model nor a robot.
    """
    source = settings.robot or description
    model = settings.model or ("" if source else DEFAULT_MODEL)
    if model == NO_MODEL:
        if not source:
            raise ConfigurationError(
                "there is neither a model nor a robot: set the parameter model, robot, robot_description or "
                "use_robot_description_topic",
                model,
            )
        model = ""
    sampler = robot_source.load_sampler(model, settings, description)
    sampler = sampler.with_collision_options(settings.collision)
    if settings.tool:
        sampler = sampler.with_tool(settings.tool_pose)
    sampler.prepare()
    return sampler


def name_of_model(settings: IkServerSettings, sampler: Sampler) -> str:
    """Return the name of the loaded model in the form of the parameter `model`."""
    return (settings.model or DEFAULT_MODEL) if sampler.n_experts else NO_MODEL


def load_replacement(path: str, present: Sampler, data: DataDirectory) -> tuple[Sampler, str]:
    """Load another model of the same robot. Return its sampler and its name.

    `path` is the name of an included model, or a file in the data directory. `EimError` is raised as in `load_sampler`.
    A model of another robot is refused, because clients know the joints and frames of this robot.
    """
    if not path:
        raise ModelFileError("the path of the model is empty: give the path of a file", path)
    name = path if path in SHIPPED_MODELS else str(data.readable(path))
    sampler = Sampler.load(name, robot=present.robot)
    sampler.prepare()
    return sampler, name


class IkServer(ManagedNode[IkServerSettings]):
    """The node `ik_server`; see the docstring of the module."""

    def __init__(self) -> None:
        super().__init__("ik_server", IkServerSettings, "sample_ik", takes_long=True)
        self._loaded: Sampler | None = None
        self._serving: Sampler | None = None
        self._exchange = threading.Lock()  # held by transitions and by `~/load_model` while they replace the model
        self._model = ""
        self._description = RobotDescription(self, self.settings)
        self._transforms = Transforms(self) if self.settings.use_tf else None
        topic = self.settings.joint_states_topic
        self._joint_positions = JointPositions(self, topic) if topic else None
        self._scene: PlanningSceneTopic | None = None
        self._service = Handlers(
            self, lambda: self.settings, self._active_sampler, self._request_context, self._scene_conditions
        )
        self._models = ModelExchange(self, self._replace)

    # Lifecycle

    def configure(self) -> None:
        """Load the model, or only the robot."""
        began = time.monotonic()
        self.get_logger().info(f"configuring with model {self.settings.model or '(default)'}")
        self._loaded = load_sampler(self.settings, self._description.urdf())
        self._model = name_of_model(self.settings, self._loaded)
        self._node_settings.put("model", self._model)
        robot = self._loaded.robot
        self._listen_to_scene(robot)
        groups = check_groups(robot, self.settings)
        self._node_settings.tell_chain(robot, "Link in whose frame poses are given.", "Link that reaches the pose.")
        is_default = not self.settings.tip_link and self._loaded.model is None
        chain = robot_source.chain_of(robot, is_default=is_default)
        self.get_logger().info(
            f"configured in {time.monotonic() - began:.1f} s: model {self._model} with {self._loaded.n_experts} "
            "experts and "
            f"context {self._loaded.context_kind}, robot {chain}, groups: {', '.join(groups) or 'none'}"
        )

    def activate(self) -> None:
        with self._exchange:
            self._serving = self._loaded

    def deactivate(self) -> None:
        """Stop serving. A request that is being solved will be answered."""
        with self._exchange:
            self._serving = None

    def cleanup(self) -> None:
        with self._exchange:
            self._loaded = None

    def end(self, timeout: float) -> bool:
        """Answer all open requests. Return False if a request is still being solved or a model is being loaded."""
        self._description.close()
        end = time.monotonic() + timeout
        idle = self._service.stop(timeout)
        self._serving = None
        return self._models.close(max(0.0, end - time.monotonic())) and idle

    # Serving

    def _listen_to_scene(self, robot: Robot) -> None:
        """Subscribe to the planning scene again, if planning_scene_topic is set."""
        if self._scene is not None:
            self._scene.close()
            self._scene = None
        if not self.settings.planning_scene_topic:
            return
        if not collision_model(robot).n_shapes:
            raise ConfigurationError(
                "planning_scene_topic is set, but the robot has no collision shapes: leave planning_scene_topic "
                "empty, or add <collision> to links",
                robot.name,
            )
        self._scene = PlanningSceneTopic(self, self.settings.planning_scene_topic, robot)

    def _scene_conditions(self) -> SceneConditions | None:
        """Return the obstacles and allowed collisions of the planning scene, or None without a planning scene."""
        return None if self._scene is None else self._scene.objects.conditions

    def _active_sampler(self) -> Sampler:
        sampler = self._serving
        if sampler is None:
            raise RequestError(ErrorCode.FAILURE, self.inactivity)
        return sampler

    def _request_context(self, robot: Robot) -> RequestContext:
        joints = None if self._joint_positions is None else self._joint_positions.now
        return RequestContext(robot, self._transforms, self.settings.frame_prefix, joints)

    def _replace(self, path: str) -> None:
        """Load another model as the current model. The loader's thread calls this function."""
        present = self._loaded
        if present is None:
            raise ConfigurationError(self.inactivity)
        following, path = load_replacement(path, present, self.settings.data)
        with self._exchange:
            if self._loaded is not present:
                raise ConfigurationError(
                    f"{self.get_name()} was configured again in the meantime: call load_model again"
                )
            self._loaded, self._model = following, path
            if self._serving is not None:
                self._serving = following
            self._node_settings.put("model", path)

    def facts(self) -> dict[str, str]:
        return {"model": self._model or "not loaded", **self._service.facts()}
