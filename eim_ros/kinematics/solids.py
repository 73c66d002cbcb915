"""Shapes and obstacles in the forms that coal checks.

Each has an outer form that contains it, a primitive, a convex hull or a cloud, and a mesh has its surface beside that:
what is free of the hull is free of the mesh. Clouds are triangles of no size about each point, checked with their
radius as a margin: exact to POINT_SIZE.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.containment import Surface, extremes, parts
from eim_ros.kinematics.deadlines import NEVER, Effort, check_time
from eim_ros.kinematics.obstacles import Mesh, Obstacle, PointCloud, Thinning
from eim_ros.kinematics.shapes import Box, Cylinder, Shape, Sphere

__all__ = ["Forms", "Solid", "forms_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIDDLE_AND_ENDS = np.concatenate([np.zeros((1, 3)), 0.5 * np.eye(3), -0.5 * np.eye(3)])
FLAT = 1e-6  # thickness of what has no volume, by its length; building a hull fails below 1e-7
ROUNDING = 1e-12  # thickness by the distance from the origin
POINTS_AT_ONCE = 4000  # of a cloud: one piece of it, which takes some milliseconds to prepare
LARGEST = 2**62
POINT_SIZE = 1e-8  # [m]; coal measures wrongly from a sphere to a triangle without any area


@dataclass(frozen=True, eq=False)
class Solid:
    """What is checked of a shape, in the frame of its pose.

    Attributes
    ----------
    outer : coal.CollisionGeometry
        Contains the shape.
    exact : coal.CollisionGeometry
        The same, or the surface of a mesh.
    surface : Surface or None
        Of a mesh that is not its hull.
    witnesses : (n, k, 3)
        Points of each connected part [m].
    margin : float
        What is closer than this collides [m].
    """

    outer: Any
    exact: Any
    surface: Surface | None
    witnesses: FloatArray = field(repr=False)
    margin: float = 0.0


_made: WeakKeyDictionary[Obstacle, Forms] = WeakKeyDictionary()  # a scene may be checked again and again
_mesh_effort = Effort(8e-7)  # [s] for each triangle


class Forms:
    """The forms of an obstacle, as far as they are made: one, or of a large cloud one for each of its pieces."""

    def __init__(self, obstacle: Obstacle, deadline: float) -> None:
        self._solids: list[Solid] = []
        self._rest: list[FloatArray] = []  # points (n, 3) of a cloud that belong to no form yet
        self._margin, self._n_balls = 0.0, 0
        self._thinning: Thinning | None = None
        self._lock = threading.Lock()
        if isinstance(obstacle, PointCloud):
            if obstacle.resolution > 0.0:
                self._thinning = Thinning(obstacle)
            else:
                self._begin(*obstacle.balls)
        elif isinstance(obstacle, Mesh):
            self._solids.append(_of_mesh(obstacle, deadline))
        else:
            self._solids.append(_of_primitive(obstacle))

    def _begin(self, centres: FloatArray, radius: float) -> None:
        self._rest, self._n_balls, self._margin = [centres], len(centres), radius

    def n_balls(self, most: int, deadline: float) -> int:
        """Balls of a cloud, thinned by its resolution, 0 of others; where there are more than `most` only so many.

        `OutOfTime` if there is no time to thin it, but what is thinned until then is kept.
        """
        while (thinning := self._thinning) is not None:
            with self._lock:
                if len(thinning) > most:
                    return len(thinning)
                if thinning.n_left:
                    check_time(deadline, f"thin a point cloud, {thinning.n_left} points of which are left")
                    thinning.step()
                elif self._thinning is not None:
                    self._begin(*thinning.balls)
                    self._thinning = None
        return self._n_balls

    def finished(self, deadline: float = NEVER) -> tuple[Solid, ...]:
        """All of them; `OutOfTime` if there is no time to make the rest, but what is made until then is kept."""
        self.n_balls(LARGEST, deadline)
        while self._rest:
            with self._lock:
                if not self._rest:
                    break
                n_left = sum(map(len, self._rest))
                check_time(deadline, f"prepare a point cloud, of which {n_left} points are left")
                points = self._rest[-1]
                if len(points) <= POINTS_AT_ONCE:
                    self._solids.append(_of_points(points, self._margin))
                    self._rest.pop()
                    continue
                axis, middle = int(np.ptp(points, axis=0).argmax()), len(points) // 2
                points = points[np.argpartition(points[:, axis], middle)]  # halves that are compact
                self._rest[-1:] = [points[:middle], points[middle:]]
        return tuple(self._solids)


def forms_of(obstacle: Obstacle, deadline: float = NEVER) -> Forms:
    """The forms of an obstacle, which are kept as long as it: those of meshes and clouds take long to make.

    Raises
    ------
    OutOfTime
        If there is no time to begin until the deadline, a time of `perf_counter` [s].
    """
    known = _made.get(obstacle)
    if known is None:
        known = _made[obstacle] = Forms(obstacle, deadline)
    return known


def _of_primitive(shape: Shape) -> Solid:
    from pinocchio import coal  # deferred: a slow import

    if isinstance(shape, Box):
        edges = np.asarray(shape.size, dtype=np.float64)
        geometry = coal.Box(*edges.tolist())
    elif isinstance(shape, Sphere):
        edges = np.full(3, 2.0 * float(shape.radius))
        geometry = coal.Sphere(float(shape.radius))
    else:
        edges = np.array([2.0 * shape.radius, 2.0 * shape.radius, shape.length])
        kind = coal.Cylinder if isinstance(shape, Cylinder) else coal.Capsule
        geometry = kind(float(shape.radius), float(shape.length))
    return Solid(geometry, geometry, None, (MIDDLE_AND_ENDS * edges)[None])


def _of_mesh(mesh: Mesh, deadline: float) -> Solid:
    n_faces = len(np.asarray(mesh.faces))
    check_time(deadline, f"prepare a mesh of {n_faces} triangles", _mesh_effort.seconds(n_faces))
    began = perf_counter()
    solid = _solid_of_mesh(mesh)
    _mesh_effort.took(n_faces, perf_counter() - began)
    return solid


def _solid_of_mesh(mesh: Mesh) -> Solid:
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    if not np.ptp(vertices, axis=0).all():  # pinocchio's broad phase leaves out what lies in a plane of the axes
        faces = np.concatenate([faces, len(vertices) + np.arange(3)[None]])
        vertices = np.concatenate([vertices, vertices[faces[0, 0]] + POINT_SIZE * np.eye(3)])
    exact = _triangles(vertices, faces)
    witnesses = np.array([extremes(part) for part in parts(vertices, faces)])
    if not _spans_volume(np.asarray(mesh.vertices)):  # nothing is inside, and building its hull crashes coal 3.0
        return Solid(exact, exact, None, witnesses)
    exact.buildConvexHull(True, "Qt")
    hull = exact.convex
    if mesh.convex:
        return Solid(hull, hull, None, witnesses)
    return Solid(hull, exact, Surface(np.ascontiguousarray(vertices[faces])), witnesses)


def _spans_volume(points: FloatArray) -> bool:
    """Whether points (n, 3) are far enough from lying in one plane for their convex hull to be computed."""
    around = points - points.mean(axis=0)
    extents = np.linalg.svd(around, compute_uv=False)
    thinnest = float(extents[-1]) if len(extents) == 3 else 0.0
    return thinnest > FLAT * float(extents[0]) and thinnest > ROUNDING * float(np.abs(points).max())


def _of_points(centres: FloatArray, radius: float) -> Solid:
    points = (centres[:, None] + POINT_SIZE * np.eye(3)).reshape(-1, 3)
    geometry = _triangles(points, np.arange(len(points)).reshape(-1, 3))
    return Solid(geometry, geometry, None, centres[:, None], radius)


def _triangles(vertices: FloatArray, faces: IntArray) -> Any:
    """A hierarchy of bounding volumes over triangles."""
    from pinocchio import coal

    model = coal.BVHModelOBBRSS()
    model.beginModel(len(faces), len(vertices))
    model.addVertices(vertices)
    model.addTriangles(faces)
    model.endModel()
    return model
