"""Shapes and obstacles in the forms that coal checks.

Each has an outer form that contains it, a primitive, a convex hull or a cloud, and a mesh has its surface beside that:
what is free of the hull is free of the mesh. Clouds are triangles of no size about each point, checked with their
radius as a margin: exact to POINT_SIZE.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.containment import Surface, extremes, parts
from eim_ros.kinematics.obstacles import Mesh, Obstacle, PointCloud
from eim_ros.kinematics.shapes import Box, Cylinder, Shape, Sphere

__all__ = ["Solid", "solid_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIDDLE_AND_ENDS = np.concatenate([np.zeros((1, 3)), 0.5 * np.eye(3), -0.5 * np.eye(3)])
FLAT = 1e-6  # thickness of what has no volume, by its length; building a hull fails below 1e-7
ROUNDING = 1e-12  # thickness by the distance from the origin
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


_made: WeakKeyDictionary[Obstacle, Solid] = WeakKeyDictionary()  # a scene may be checked again and again


def solid_of(obstacle: Obstacle) -> Solid:
    """The forms of an obstacle, which are kept as long as it: those of meshes and clouds take long to make."""
    known = _made.get(obstacle)
    if known is None:
        if isinstance(obstacle, Mesh):
            known = _of_mesh(obstacle)
        elif isinstance(obstacle, PointCloud):
            known = _of_cloud(obstacle)
        else:
            known = _of_primitive(obstacle)
        _made[obstacle] = known
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


def _of_mesh(mesh: Mesh) -> Solid:
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


def _of_cloud(cloud: PointCloud) -> Solid:
    centres, radius = cloud.balls
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
