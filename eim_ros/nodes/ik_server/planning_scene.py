"""MoveIt's planning scene as obstacles and allowed collisions.

The obstacles are the collision objects of the scene's world. Full scenes and differences update them. Planes, octrees
and objects in frames that are not fixed to the base cannot be checked for collisions. While the scene contains such an
object, requests with collision checks are refused. Pairs in the allowed collision matrix are not checked.

The node requests the full scene from move_group once, because the topic may contain only differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from eim_ros.core.errors import ConfigurationError, EimError, shortened
from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Obstacle, Robot, Sphere
from eim_ros.kinematics.links import fixed_links, link_shapes
from eim_ros.nodes.common.interfaces import MoveItGetPlanningScene, MoveItPlanningScene
from eim_ros.nodes.common.messages import transform_of
from eim_ros.nodes.ik_server.constraints import mesh_of, shape_of
from eim_ros.nodes.ik_server.messages import RequestError

ADD, REMOVE, APPEND, MOVE = range(4)
_DEPTH = 100  # maximum number of waiting messages, as in move_group
_PERIOD = 1.0  # [s] time between two searches for move_group
WORLD_NAMES, WORLD_GEOMETRY, OCTOMAP, ALLOWED_COLLISIONS = 8, 16, 32, 128  # values of PlanningSceneComponents


@dataclass(frozen=True, eq=False)
class _Object:
    """A collision object: its pose (4, 4) in the base frame, and its shapes with poses in the frame of the object."""

    pose: np.ndarray
    parts: tuple[Obstacle, ...] = ()
    problem: str = ""
    placed: tuple[Obstacle, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "placed", tuple(_moved(part, self.pose) for part in self.parts))


@dataclass(frozen=True)
class SceneConditions:
    """Obstacles of a planning scene, and pairs of names that may collide."""

    obstacles: tuple[Obstacle, ...]
    allowed_collisions: tuple[tuple[str, str], ...] = ()


class PlanningSceneObjects:
    """Obstacles and allowed collisions of a planning scene. One thread may update them while other threads read them.

    `frames` contains the poses (4, 4) of the base and of links that are fixed to the base, in the base frame. `links`
    contains the names of the robot's links.
    """

    def __init__(self, frames: Mapping[str, np.ndarray], links: Iterable[str]) -> None:
        self._frames, self._links = frames, frozenset(links)
        self._objects: dict[str, _Object] = {}
        self._octree = ""
        self._matrix = _AllowedCollisions()
        self._matrix_problem = ""
        self._state: tuple[SceneConditions, str] | None = None

    def update(self, scene: Any) -> None:
        """Update the obstacles from a `moveit_msgs/PlanningScene`, which is a full scene or a difference."""
        if not scene.is_diff:
            self._objects, self._octree = {}, ""
        matrix = scene.allowed_collision_matrix
        if not scene.is_diff or len(matrix.entry_names) or len(matrix.default_entry_names):
            self._change_matrix(matrix)
        for message in scene.world.collision_objects:
            self._change(message)
        if len(scene.world.octomap.octomap.data):
            self._octree = (
                "its octomap cannot be checked: clear the octomap (service clear_octomap), or disable its updates"
            )
        problems = [f"object {name!r}: {each.problem}" for name, each in self._objects.items() if each.problem]
        problems += filter(None, [self._octree, self._matrix_problem])
        obstacles = tuple(part for each in self._objects.values() for part in each.placed)
        allowed = self._matrix.pairs(self._links, self._objects)
        self._state = SceneConditions(obstacles, allowed), shortened("; ".join(problems))

    @property
    def conditions(self) -> SceneConditions:
        """Obstacles in the base frame, and allowed collisions.

        `RequestError` is raised if no scene has arrived yet, or if an object in the scene cannot be checked.
        """
        if self._state is None:
            raise RequestError(ErrorCode.FAILURE, "no planning scene has arrived on planning_scene_topic yet")
        conditions, problem = self._state
        if problem:
            raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"the planning scene cannot be checked: {problem}")
        return conditions

    def _change_matrix(self, message: Any) -> None:
        try:
            self._matrix, self._matrix_problem = _AllowedCollisions.of(message), ""
        except ValueError:
            self._matrix_problem = "its allowed collision matrix has rows whose length differs from that of entry_names"

    def _change(self, message: Any) -> None:
        operation = message.operation
        operation = operation[0] if isinstance(operation, bytes) else int(operation)
        known = self._objects.get(message.id)
        if operation == REMOVE:
            if message.id:
                self._objects.pop(message.id, None)
            else:
                self._objects.clear()
            return
        try:
            self._objects[message.id] = self._changed(message, operation, known)
        except (EimError, ValueError) as error:  # ValueError: lists of different lengths
            self._objects[message.id] = _Object(np.eye(4), (), str(error))

    def _changed(self, message: Any, operation: int, known: _Object | None) -> _Object:
        frame = message.header.frame_id
        if frame and frame not in self._frames:
            expected = ", ".join(self._frames)
            raise EimError(f"it is in frame {frame!r}, expected a frame that is fixed to the base: {expected}", frame)
        pose = np.eye(4) if not frame else self._frames[frame]
        pose = pose @ transform_of(message.pose)
        if operation == MOVE:
            if known is None:
                raise EimError("it was moved before it was added to the scene", message.id)
            return known if known.problem else _Object(pose, known.parts)
        if len(message.planes):
            raise EimError("a plane cannot be checked: use a box instead", message.id)
        parts = [
            shape_of(primitive, transform_of(each), "a primitive")
            for primitive, each in zip(message.primitives, message.primitive_poses, strict=True)
        ]
        named: list[Obstacle] = [replace(part, name=message.id) for part in parts]
        named += [
            mesh_of(mesh, transform_of(each), name=message.id)
            for mesh, each in zip(message.meshes, message.mesh_poses, strict=True)
        ]
        if operation == APPEND and known is not None:
            return _Object(known.pose, (*known.parts, *named), known.problem)
        return _Object(pose, tuple(named))


@dataclass(frozen=True)
class _AllowedCollisions:
    """An allowed collision matrix: entries for pairs of names, and defaults for single names.

    As in recent releases of MoveIt, an entry takes precedence over defaults. If both names have a default, both must
    allow the collision.
    """

    entries: Mapping[frozenset[str], bool] = field(default_factory=dict)
    defaults: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, message: Any) -> _AllowedCollisions:
        """Return the entries of a `moveit_msgs/AllowedCollisionMatrix`."""
        names = list(message.entry_names)
        entries = {
            frozenset((name, other)): bool(enabled)
            for name, row in zip(names, message.entry_values, strict=True)
            for other, enabled in zip(names, row.enabled, strict=True)
        }
        return cls(entries, dict(zip(message.default_entry_names, message.default_entry_values, strict=True)))

    def pairs(self, links: frozenset[str], objects: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the pairs that may collide. Each pair consists of a link and another link or an object."""
        allowed = {pair for pair, is_allowed in self.entries.items() if is_allowed and len(pair) == 2}
        names = (*links, *objects)
        for name in (name for name, is_allowed in self.defaults.items() if is_allowed):
            pairs = {frozenset((name, other)) for other in names if other != name and self.defaults.get(other, True)}
            allowed |= pairs - self.entries.keys()
        return tuple((first, second) for first, second in sorted(map(sorted, allowed)) if {first, second} & links)


def _moved(part: Obstacle, pose: np.ndarray) -> Obstacle:
    placed = pose @ np.asarray(part.pose)
    if isinstance(part, Sphere):
        return replace(part, centre=placed[:3, 3])
    return replace(part, pose=placed)


class PlanningSceneTopic:
    """Subscription to a planning scene, with its obstacles.

    The service `get_planning_scene` in the namespace of the topic returns the full scene. Obstacles are in the robot's
    base frame. The constructor raises `ConfigurationError` if moveit_msgs is not installed.
    """

    def __init__(self, node: Node, topic: str, robot: Robot) -> None:
        if MoveItPlanningScene is None:
            raise ConfigurationError(
                "planning_scene_topic needs moveit_msgs, which cannot be imported: source a workspace with MoveIt",
                topic,
            )
        self._node = node
        self.objects = PlanningSceneObjects(fixed_links(robot, robot.base_link), link_shapes(robot.urdf))
        qos = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        self._subscription = node.create_subscription(MoveItPlanningScene, topic, self.objects.update, qos)
        service = f"{topic.rpartition('/')[0]}/get_planning_scene" if "/" in topic else "get_planning_scene"
        self._client = node.create_client(MoveItGetPlanningScene, service)
        self._timer = node.create_timer(_PERIOD, self._ask)

    def close(self) -> None:
        """End the subscription."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_client(self._client)
        self._node.destroy_subscription(self._subscription)

    def _ask(self) -> None:
        if self._client.service_is_ready():
            self._timer.cancel()
            request = MoveItGetPlanningScene.Request()
            request.components.components = WORLD_NAMES | WORLD_GEOMETRY | OCTOMAP | ALLOWED_COLLISIONS
            self._client.call_async(request).add_done_callback(self._take)

    def _take(self, future: Any) -> None:
        if future.exception() is None and future.result() is not None:
            self.objects.update(future.result().scene)
