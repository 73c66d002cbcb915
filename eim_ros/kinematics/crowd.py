"""Collision checks with many static obstacles.

Each link is checked against a tree of the bounding boxes of the obstacles, which coal provides. Pinocchio would prepare
every pair of a link and an obstacle, and its memory use would grow with the square of their number. A tree is built in
a few microseconds per obstacle. The search for the obstacles close to a link takes a few microseconds more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.deadlines import NEVER, check_time, is_past
from eim_ros.kinematics.links import body_poses
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.solids import Solid


class OwnShape:
    """Shape of the robot: its number, its body, its pose (4, 4) in the body's frame, and its geometries.

    `outer` and `exact` are coal objects for the geometries. They are moved for each check.
    """

    def __init__(self, number: int, body: int, pose: FloatArray, solid: Solid) -> None:
        from pinocchio import coal  # deferred because the import is slow

        self.number, self.body, self.pose, self.solid = number, body, pose, solid
        self.outer = coal.CollisionObject(solid.outer)
        self.exact = self.outer if solid.surface is None else coal.CollisionObject(solid.exact)


class _Group:
    """Obstacles that are checked with the same margin."""

    def __init__(self, margin: float) -> None:
        from pinocchio import coal

        self.margin = margin
        self.tree = coal.DynamicAABBTreeCollisionManager()
        self.found = coal.CollisionCallBackDefault()
        self.found.data.request.enable_contact = True  # otherwise coal misses deep overlaps, see `Checker`
        self.found.data.request.security_margin = margin

    def touches(self, query: Any, transform: Any) -> bool:
        """Return whether any obstacle touches a shape of the robot."""
        query.setTransform(transform)
        query.computeAABB()
        query.getAABB().expand(self.margin)
        self.found.init()
        self.tree.collide(query, self.found)
        return bool(self.found.data.result.isCollision())


class _InnerPoints:
    """One point of each connected part of all obstacles, used to find parts that lie inside a surface."""

    def __init__(self, obstacles: Sequence[tuple[int, FloatArray, Solid]]) -> None:
        self._obstacles = obstacles
        parts = [solid.witnesses[:, 0] @ pose[:3, :3].T + pose[:3, 3] for _, pose, solid in obstacles]
        self._points = np.concatenate(parts)
        self._owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])

    def within(self, query: OwnShape, pose: FloatArray, only: int | None = None) -> bool:
        """Return whether any obstacle, or the obstacle with index `only`, lies inside the surface of a shape."""
        surface = query.solid.surface
        if surface is None:
            return False
        local = (self._points - pose[:3, 3]) @ pose[:3, :3]
        near = self._owners[((local >= surface.lower) & (local <= surface.upper)).all(axis=1)]
        for k in dict.fromkeys(near.tolist()):
            if only is None or k == only:
                _, at, solid = self._obstacles[k]
                between = np.linalg.inv(pose) @ at
                if surface.encloses(solid.witnesses @ between[:3, :3].T + between[:3, 3]):
                    return True
        return False


class Crowd:
    """Collision check of the links of a robot with many static obstacles; not thread-safe.

    An obstacle is given by a number, a pose (4, 4) in the base frame, and a geometry. Meshes must be convex. Shapes
    closer than the clearance [m] count as colliding. The deadline is a time of `perf_counter` [s].

    Raises
    ------
    OutOfTime
        If the deadline passes before all obstacles are prepared.
    """

    def __init__(
        self,
        robot: Robot,
        own: Sequence[OwnShape],
        obstacles: Sequence[tuple[int, FloatArray, Solid]],
        clearance: float,
        deadline: float = NEVER,
    ) -> None:
        from pinocchio import coal

        self._robot, self._obstacles, self._clearance = robot, obstacles, clearance
        self._queries = own
        self._bodies = np.array([shape.body for shape in own], dtype=np.int64)
        self._placements = np.array([shape.pose for shape in own]).reshape(-1, 4, 4)
        self._objects: list[Any] = []  # keeps the objects alive, because the trees hold no references to them
        self._groups: dict[float, _Group] = {}
        for _, pose, solid in obstacles:
            check_time(deadline, "prepare the obstacles")
            margin = clearance + solid.margin
            if margin not in self._groups:
                self._groups[margin] = _Group(margin)
            each = coal.CollisionObject(solid.outer, coal.Transform3s(pose[:3, :3], pose[:3, 3]))
            self._objects.append(each)
            self._groups[margin].tree.registerObject(each)
        for group in self._groups.values():
            check_time(deadline, "prepare the obstacles")
            group.tree.setup()
        self._inner = _InnerPoints(obstacles) if any(shape.solid.surface is not None for shape in own) else None

    def colliding(self, q: FloatArray, deadline: float = NEVER) -> tuple[BoolArray, int]:
        """Return whether a link collides with an obstacle in each configuration (n, dof).

        Also return how many configurations at the end of `q` could not be checked before the deadline, at most n - 1.
        These configurations count as colliding.
        """
        found = np.ones(len(q), dtype=np.bool_)
        for row, poses in enumerate(self._placed(q)):
            if row and is_past(deadline):
                return found, len(q) - row
            found[row] = any(map(self._touches, self._queries, poses))
        return found, 0

    def pairs(self, q: FloatArray) -> list[tuple[int, int]]:
        """Return the numbers of the shapes and obstacles that collide in one configuration (dof,)."""
        from pinocchio import coal

        found = []
        request, result = coal.CollisionRequest(), coal.CollisionResult()
        request.enable_contact = True
        for query, pose in zip(self._queries, self._placed(q[None])[0], strict=True):
            transform, box = _transform(pose), query.outer
            box.setTransform(transform)
            box.computeAABB()
            low, high = np.asarray(box.getAABB().min_), np.asarray(box.getAABB().max_)
            boxes = np.array([(each.getAABB().min_, each.getAABB().max_) for each in self._objects])
            margins = np.array([self._clearance + solid.margin for _, _, solid in self._obstacles])[:, None]
            near = (boxes[:, 0] <= high + margins) & (boxes[:, 1] >= low - margins)
            for k in np.flatnonzero(near.all(axis=1)).tolist():
                number, at, solid = self._obstacles[k]
                request.security_margin = float(margins[k, 0])
                result.clear()
                coal.collide(query.solid.exact, transform, solid.outer, _transform(at), request, result)
                if result.isCollision() or (self._inner is not None and self._inner.within(query, pose, k)):
                    found.append((query.number, number))
        return found

    def _placed(self, q: FloatArray) -> FloatArray:
        return np.asarray(body_poses(self._robot, q)[:, self._bodies] @ self._placements)

    def _touches(self, query: OwnShape, pose: FloatArray) -> bool:
        transform = _transform(pose)
        hit = [group for group in self._groups.values() if group.touches(query.outer, transform)]
        if not hit or query.solid.surface is None:
            return bool(hit)
        if any(group.touches(query.exact, transform) for group in hit):
            return True
        return self._inner is not None and self._inner.within(query, pose)


def _transform(pose: FloatArray) -> Any:
    from pinocchio import coal

    return coal.Transform3s(pose[:3, :3], pose[:3, 3])
