"""Collision geometries of shapes and obstacles for coal, their placement on a chain, and containment tests.

Each shape has an outer geometry that contains it: a primitive, a convex hull or a cloud. A mesh also has a surface,
which is checked only if the hull collides. A cloud consists of tiny triangles at its points, which are checked with the
radius of the balls as a margin. The resulting error is at most POINT_SIZE.

Coal only detects contact with the triangles of a mesh, so points inside a mesh are found separately. A point p is
inside if the generalised winding number w(p) = sum_f Omega_f(p) / (4 pi) has an absolute value above 1/2. Omega_f is
the solid angle of triangle f (van Oosterom and Strackee 1983; Jacobson et al. 2013). The test is exact for closed
surfaces, and a reasonable approximation for surfaces with holes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.deadlines import NEVER, Effort, check_time
from eim_ros.core.errors import MeshError
from eim_ros.kinematics.obstacles import Box, Capsule, Cylinder, Mesh, Obstacle, PointCloud, Shape, Sphere, Thinning

AT_ONCE = 200_000  # maximum number of triangles times points per call, to limit memory
MIDDLE_AND_ENDS = np.concatenate([np.zeros((1, 3)), 0.5 * np.eye(3), -0.5 * np.eye(3)])
FLAT = 1e-6  # ratio of thickness to length below which a mesh is flat; building a hull fails below 1e-7
ROUNDING = 1e-12  # ratio of thickness to distance from the origin below which a mesh is flat
POINTS_AT_ONCE = 4000  # maximum number of points in one piece of a cloud; preparing it takes a few milliseconds
LARGEST = 2**62
POINT_SIZE = 1e-8  # size of triangles [m]; coal computes wrong distances from spheres to triangles without area
_mesh_effort = Effort(8e-7)  # [s] per triangle
Pair: TypeAlias = tuple[int, int]  # the numbers of two shapes


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles (m, 3, 3) [m] that enclose a solid, with their bounding box."""

    triangles: FloatArray
    lower: FloatArray = field(init=False)
    upper: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", self.triangles.min(axis=(0, 1)))
        object.__setattr__(self, "upper", self.triangles.max(axis=(0, 1)))

    def encloses(self, witnesses: FloatArray) -> bool:
        """Return whether any of n parts is inside.

        Each part is represented by k of its points (n, k, 3) and must not touch the surface.
        """
        within = ((witnesses >= self.lower) & (witnesses <= self.upper)).all(axis=(1, 2))
        points = witnesses[within, 0]
        step = max(1, AT_ONCE // len(self.triangles))
        return any(
            bool((np.abs(winding_numbers(points[first : first + step], self.triangles)) > 0.5).any())
            for first in range(0, len(points), step)
        )


def winding_numbers(points: FloatArray, triangles: FloatArray) -> FloatArray:
    """Compute the winding numbers (n,) of points (n, 3) with respect to triangles (m, 3, 3)."""
    a, b, c = (triangles[None, :, i] - points[:, None] for i in range(3))
    x, y, z = (np.linalg.norm(corner, axis=2) for corner in (a, b, c))
    volume = np.einsum("nmi,nmi->nm", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("nmi,nmi->nm", first, second) for first, second in ((a, b), (b, c), (c, a)))
    return np.asarray(np.arctan2(volume, x * y * z + ab * z + bc * x + ca * y).sum(axis=1) / (2.0 * np.pi))


def parts(vertices: FloatArray, faces: IntArray) -> list[FloatArray]:
    """Return the vertices of each connected part of a surface. Vertices with equal coordinates are merged."""
    places, of_vertex = np.unique(vertices, axis=0, return_inverse=True)
    corners = of_vertex.reshape(-1)[faces]
    labels = np.arange(len(places))
    while True:  # spread the least label over each triangle, then replace labels by the label of their vertex
        lower = labels.copy()
        for column in corners.T:
            np.minimum.at(lower, column, labels[corners].min(axis=1))
        lower = lower[lower]
        if np.array_equal(lower, labels):
            break
        labels = lower
    used = np.unique(corners)
    order = used[np.argsort(labels[used], kind="stable")]
    return np.split(places[order], np.flatnonzero(np.diff(labels[order])) + 1)


@dataclass(frozen=True, eq=False)
class Solid:
    """Collision geometries of a shape, in the frame of its pose."""

    outer: Any  # geometry that contains the shape
    exact: Any  # surface of a mesh; otherwise the outer geometry
    surface: Surface | None  # surface of a mesh that is not replaced by its hull
    witnesses: FloatArray = field(repr=False)  # (n, k, 3), coordinates of k points of each connected part [m]
    margin: float = 0.0  # distance [m] below which other shapes count as colliding


_made: WeakKeyDictionary[Obstacle, Forms] = WeakKeyDictionary()  # cache, because obstacles are often reused


class Forms:
    """Collision geometries of an obstacle, built step by step. A large cloud has one geometry for each piece."""

    def __init__(self, obstacle: Obstacle, deadline: float) -> None:
        self._solids: list[Solid] = []
        self._rest: list[FloatArray] = []  # groups of points (n, 3) of a cloud that have no geometry yet
        self._margin, self._n_balls = 0.0, 0
        self._thinning: Thinning | None = None
        self._lock = threading.Lock()
        if isinstance(obstacle, PointCloud):
            if obstacle.resolution > 0.0:
                self._thinning = Thinning(obstacle)
            else:
                self._begin(*obstacle.balls)
        elif isinstance(obstacle, Mesh):
            n_faces, began = len(np.asarray(obstacle.faces)), perf_counter()
            check_time(deadline, f"prepare a mesh of {n_faces} triangles", _mesh_effort.seconds(n_faces))
            self._solids.append(_solid_of_mesh(obstacle))
            _mesh_effort.took(n_faces, perf_counter() - began)
        else:
            self._solids.append(_of_primitive(obstacle))

    def _begin(self, centres: FloatArray, radius: float) -> None:
        self._rest, self._n_balls, self._margin = [centres], len(centres), radius

    def n_balls(self, most: int, deadline: float) -> int:
        """Return the number of balls of a cloud after thinning by its resolution; 0 for other obstacles.

        Thinning stops when there are more than `most` balls, so a result above `most` is only a lower bound. If time
        runs out, `OutOfTime` is raised and the progress is kept.
        """
        while (thinning := self._thinning) is not None:
            with self._lock:
                if len(thinning) > most:
                    return len(thinning)
                if thinning.n_left:
                    check_time(deadline, f"thin a point cloud ({thinning.n_left} points are left)")
                    thinning.step()
                elif self._thinning is not None:
                    self._begin(*thinning.balls)
                    self._thinning = None
        return self._n_balls

    def finished(self, deadline: float = NEVER) -> tuple[Solid, ...]:
        """Return all geometries. If time runs out, raise `OutOfTime` and keep the finished geometries."""
        self.n_balls(LARGEST, deadline)
        while self._rest:
            with self._lock:
                if not self._rest:
                    break
                n_left = sum(map(len, self._rest))
                check_time(deadline, f"prepare a point cloud ({n_left} points are left)")
                points = self._rest[-1]
                if len(points) <= POINTS_AT_ONCE:
                    self._solids.append(_of_points(points, self._margin))
                    self._rest.pop()
                    continue
                axis, middle = int(np.ptp(points, axis=0).argmax()), len(points) // 2
                points = points[
                    np.argpartition(points[:, axis], middle)
                ]  # halving the longest side gives compact pieces
                self._rest[-1:] = [points[:middle], points[middle:]]
        return tuple(self._solids)


def forms_of(obstacle: Obstacle, deadline: float = NEVER) -> Forms:
    """Return the collision geometries of an obstacle.

    Geometries are cached until the obstacle is deleted, because meshes and clouds take long to prepare.

    Raises
    ------
    OutOfTime
        If the deadline, a time of `perf_counter` [s], does not leave enough time for a mesh.
    """
    known = _made.get(obstacle)
    if known is None:
        known = _made[obstacle] = Forms(obstacle, deadline)
    return known


def _of_primitive(shape: Shape) -> Solid:
    from pinocchio import coal  # deferred because the import is slow

    if isinstance(shape, Box):
        edges = np.asarray(shape.size, dtype=np.float64)
        geometry = coal.Box(*edges.tolist())
    elif isinstance(shape, Sphere):
        edges = np.full(3, 2.0 * float(shape.radius))
        geometry = coal.Sphere(float(shape.radius))
    else:
        assert isinstance(shape, (Capsule, Cylinder))
        edges = np.array([2.0 * shape.radius, 2.0 * shape.radius, shape.length])
        kind = coal.Cylinder if isinstance(shape, Cylinder) else coal.Capsule
        geometry = kind(float(shape.radius), float(shape.length))
    return Solid(geometry, geometry, None, (MIDDLE_AND_ENDS * edges)[None])


def _solid_of_mesh(mesh: Mesh) -> Solid:
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    if not np.ptp(vertices, axis=0).all():  # pinocchio's broad phase ignores shapes in a coordinate plane
        faces = np.concatenate([faces, len(vertices) + np.arange(3)[None]])
        vertices = np.concatenate([vertices, vertices[faces[0, 0]] + POINT_SIZE * np.eye(3)])
    exact = _triangles(vertices, faces)
    ends = [(part, [*part.argmin(axis=0), *part.argmax(axis=0)]) for part in parts(vertices, faces)]
    witnesses = np.array([part[farthest] for part, farthest in ends])  # the extreme points of each part
    if not _spans_volume(np.asarray(mesh.vertices)):  # coal 3.0 crashes on hulls of flat meshes
        return Solid(exact, exact, None, witnesses)
    hull = _hull(exact, mesh.name)
    if mesh.convex:
        return Solid(hull, hull, None, witnesses)
    return Solid(hull, exact, Surface(np.ascontiguousarray(vertices[faces])), witnesses)


def _hull(triangles: Any, name: str) -> Any:
    """Return the convex hull of triangles.

    Coal stores at most 255 neighbours of a vertex. Qhull with the option Qt divides a flat face into a fan of
    triangles, so a vertex of a round face may have more neighbours. In this case, the option QJ joggles the input, and
    the hull has no flat faces.
    """
    for option in ("Qt", "QJ"):
        try:
            triangles.buildConvexHull(True, option)
        except RuntimeError as error:
            cause = " ".join(str(error).rpartition("message:")[2].split())
        else:
            return triangles.convex
    raise MeshError(f"mesh {name!r} has no convex hull for collision checks ({cause}): simplify the mesh", name)


def _spans_volume(points: FloatArray) -> bool:
    """Return whether points (n, 3) deviate enough from a plane for their convex hull to be computed."""
    around = points - points.mean(axis=0)
    extents = np.linalg.svd(around, compute_uv=False)
    thinnest = float(extents[-1]) if len(extents) == 3 else 0.0
    return thinnest > FLAT * float(extents[0]) and thinnest > ROUNDING * float(np.abs(points).max())


def _of_points(centres: FloatArray, radius: float) -> Solid:
    points = (centres[:, None] + POINT_SIZE * np.eye(3)).reshape(-1, 3)
    geometry = _triangles(points, np.arange(len(points)).reshape(-1, 3))
    return Solid(geometry, geometry, None, centres[:, None], radius)


def _triangles(vertices: FloatArray, faces: IntArray) -> Any:
    """Return a bounding volume hierarchy of triangles."""
    from pinocchio import coal

    model = coal.BVHModelOBBRSS()
    model.beginModel(len(faces), len(vertices))
    model.addVertices(vertices)
    model.addTriangles(faces)
    model.endModel()
    return model


class SolidSet:
    """Numbered set of shapes, each attached to a body of a chain. The chain is a pinocchio model with a fixed body 0.

    Attributes
    ----------
    bodies, names, solids, placements : list of int, str, Solid and (4, 4) array
        For each shape: its body, the name of its link or obstacle, its geometries, and its pose in the body's frame.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.bodies: list[int] = []
        self.names: list[str] = []
        self.solids: list[Solid] = []
        self.placements: list[FloatArray] = []

    def add(self, body: int, pose: FloatArray, solid: Solid, name: str) -> int:
        """Add a shape at a pose (4, 4) in the frame of its body, and return its number."""
        self.bodies.append(body)
        self.names.append(name)
        self.solids.append(solid)
        self.placements.append(np.array(pose, dtype=np.float64))
        return len(self.bodies) - 1

    def named(self, name: str) -> int:
        """Add only the name of a shape, which is checked elsewhere, and return its number."""
        self.names.append(name)
        return len(self.names) - 1

    def copy(self) -> SolidSet:
        """Return a copy with new lists that contain the same shapes."""
        copy = SolidSet(self.model)
        for name in ("bodies", "names", "solids", "placements"):
            setattr(copy, name, list(getattr(self, name)))
        return copy

    @property
    def has_surfaces(self) -> bool:
        """Whether any shape has a surface in addition to its outer geometry."""
        return any(solid.surface is not None for solid in self.solids)

    def checker(self, margins: Mapping[Pair, float], exact: bool) -> Checker:
        """Return a checker for pairs of shapes, each with its margin [m]."""
        import pinocchio  # deferred because the import is slow

        shapes = pinocchio.GeometryModel()
        for i, (body, placement, solid) in enumerate(zip(self.bodies, self.placements, self.solids, strict=True)):
            geometry, place = (solid.exact if exact else solid.outer), pinocchio.SE3(placement)
            shapes.addGeometryObject(pinocchio.GeometryObject(f"shape_{i}", body, place, geometry))
        wanted = np.zeros((len(self.solids),) * 2, dtype=np.bool_)
        closest = np.zeros(wanted.shape)
        if margins:
            rows, columns = np.sort(np.array(list(margins)), axis=1).T
            own = np.array([solid.margin for solid in self.solids])
            wanted[rows, columns] = True
            closest[rows, columns] = np.array(list(margins.values())) + own[rows] + own[columns]
        shapes.setCollisionPairs(wanted)
        return Checker(self.model, shapes, closest)


class Checker:
    """Collision check of pairs of geometries by pinocchio and coal.

    One configuration is checked pair by pair. Many configurations are checked with a broad phase, which is faster.
    """

    def __init__(self, model: Any, shapes: Any, margins: FloatArray) -> None:
        import pinocchio

        self._model, self._shapes = model, shapes
        self._data, self._results = model.createData(), shapes.createData()
        self._results.setSecurityMargins(shapes, margins)
        for request in self._results.collisionRequests:
            request.enable_contact = True  # otherwise coal 3.0 misses boxes deep inside each other
        # the pool copies placements and margins; its boxes would otherwise be misplaced or too small
        pinocchio.updateGeometryPlacements(model, self._data, shapes, self._results, np.zeros(model.nq))
        self._pool = pinocchio.BroadPhaseManagerPool_DynamicAABBTreeCollisionManager(model, shapes, 1)
        self._pool.update(self._results)

    def colliding(self, values: FloatArray) -> BoolArray:
        """Return whether any pair collides, for values (n, m) of the chain's joints."""
        import pinocchio

        columns = np.asfortranarray(values.T)
        return np.array(pinocchio.computeCollisionsInParallel(1, self._pool, columns, True, False), dtype=np.bool_)

    def pairs(self, values: FloatArray) -> list[Pair]:
        """Return all pairs that collide, for values (m,) of the chain's joints."""
        import pinocchio

        pinocchio.computeCollisions(self._model, self._data, self._shapes, self._results, values, False)
        results, pairs = self._results.collisionResults, self._shapes.collisionPairs
        return [(pairs[k].first, pairs[k].second) for k in range(len(pairs)) if results[k].isCollision()]

    def placement(self, shape: int) -> FloatArray:
        """Return the pose (4, 4) of a shape in the base frame, in the configuration of the last call of `pairs`."""
        return np.asarray(self._results.oMg[shape].homogeneous)
