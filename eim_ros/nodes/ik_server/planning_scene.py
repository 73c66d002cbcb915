"""MoveIt's planning scene as obstacles: the collision objects of its world, kept up to date by scenes and differences.

What cannot be checked, a plane, an octree, an object in a frame that is not fixed to the base, is a problem of the
scene, and no request that avoids collisions is answered while there is one: a collision with it would not be found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eim_ros.errors import EimError
from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Obstacle, Sphere
from eim_ros.nodes.common.pose_messages import transform_of
from eim_ros.nodes.ik_server.constraint_messages import shape_of
from eim_ros.nodes.ik_server.fields import RequestError
from eim_ros.nodes.ik_server.scene_messages import mesh_of

__all__ = ["PlanningSceneObjects"]

ADD, REMOVE, APPEND, MOVE = range(4)


@dataclass(frozen=True, eq=False)
class _Object:
    """A collision object: where it is in the base frame (4, 4), and its parts, posed in its own frame."""

    pose: np.ndarray
    parts: tuple[Obstacle, ...] = ()
    problem: str = ""
    placed: tuple[Obstacle, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "placed", tuple(_moved(part, self.pose) for part in self.parts))


class PlanningSceneObjects:
    """Obstacles of a planning scene; read by other threads than the one that updates it.

    Parameters
    ----------
    frames : mapping of str to (4, 4) array
        Poses of the links that are fixed to the base, and of the base itself, in its frame.
    """

    def __init__(self, frames: Mapping[str, np.ndarray]) -> None:
        self._frames = frames
        self._objects: dict[str, _Object] = {}
        self._octree = ""
        self._state: tuple[tuple[Obstacle, ...], str] | None = None

    def update(self, scene: Any) -> None:
        """Take a `moveit_msgs/PlanningScene`, whole or as a difference."""
        if not scene.is_diff:
            self._objects, self._octree = {}, ""
        for message in scene.world.collision_objects:
            self._change(message)
        if len(scene.world.octomap.octomap.data):
            self._octree = "its octomap cannot be checked; clear it (service clear_octomap), or do not make one"
        problems = [f"object {name!r}: {each.problem}" for name, each in self._objects.items() if each.problem]
        problems += [self._octree] if self._octree else []
        obstacles = tuple(part for each in self._objects.values() for part in each.placed)
        self._state = obstacles, "; ".join(problems)

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """In the base frame.

        Raises
        ------
        RequestError
            While no scene has arrived, or something in it cannot be checked.
        """
        if self._state is None:
            raise RequestError(ErrorCode.FAILURE, "no planning scene has arrived yet (parameter planning_scene_topic)")
        obstacles, problem = self._state
        if problem:
            raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, f"the planning scene cannot be checked: {problem}")
        return obstacles

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
        except (EimError, ValueError) as error:  # also of lists of different lengths
            self._objects[message.id] = _Object(np.eye(4), (), str(error))

    def _changed(self, message: Any, operation: int, known: _Object | None) -> _Object:
        frame = message.header.frame_id
        if frame and frame not in self._frames:
            expected = ", ".join(self._frames)
            raise EimError(f"it is in frame {frame!r}, expected one that is fixed to the base: {expected}", frame)
        pose = np.eye(4) if not frame else self._frames[frame]
        pose = pose @ transform_of(message.pose)
        if operation == MOVE:
            if known is None:
                raise EimError("it was moved before it was added", message.id)
            return known if known.problem else _Object(pose, known.parts)
        if len(message.planes):
            raise EimError("a plane cannot be checked; give a box", message.id)
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


def _moved(part: Obstacle, pose: np.ndarray) -> Obstacle:
    placed = pose @ np.asarray(part.pose)
    if isinstance(part, Sphere):
        return replace(part, centre=placed[:3, 3])
    return replace(part, pose=placed)
