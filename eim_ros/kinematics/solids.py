"""Shapes and obstacles in the forms that coal checks.

Each has an outer form that contains it, a primitive, a convex hull or a cloud, and a mesh has its surface beside that:
what is free of the hull is free of the mesh. Clouds are triangles of no size about each point, checked with their
radius as a margin: exact to POINT_SIZE.

Shapes on the bodies of a chain, by number: pinocchio's geometry, in the outer form of each and in the exact one.

What is inside of a mesh without touching its surface, which is all that the triangles of a mesh tell.

A point is inside where the generalised winding number w(p) = sum_f Omega_f(p) / (4 pi) is more than 1/2, either way
round, with the solid angle Omega_f of triangle f (van Oosterom and Strackee 1983; Jacobson et al. 2013). It is exact
for closed surfaces, and reasonable for those with holes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import NEVER, Effort, check_time
from eim_ros.kinematics.obstacles import Box, Cylinder, Mesh, Obstacle, PointCloud, Shape, Sphere, Thinning

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

AT_ONCE = 200_000  # triangles times points


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles (m, 3, 3) [m] that enclose a solid, and what its parts span."""

    triangles: FloatArray
    lower: FloatArray = field(init=False)
    upper: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", self.triangles.min(axis=(0, 1)))
        object.__setattr__(self, "upper", self.triangles.max(axis=(0, 1)))

    def encloses(self, witnesses: FloatArray) -> bool:
        """Whether one of several parts is inside; each is known by k of its points: (n, k, 3), and touches nothing."""
        within = ((witnesses >= self.lower) & (witnesses <= self.upper)).all(axis=(1, 2))
        points = witnesses[within, 0]
        step = max(1, AT_ONCE // len(self.triangles))
        return any(
            bool((np.abs(winding_numbers(points[first : first + step], self.triangles)) > 0.5).any())
            for first in range(0, len(points), step)
        )


def winding_numbers(points: FloatArray, triangles: FloatArray) -> FloatArray:
    """Of points (n, 3) in a surface (m, 3, 3)."""
    a, b, c = (triangles[None, :, i] - points[:, None] for i in range(3))
    x, y, z = (np.linalg.norm(corner, axis=2) for corner in (a, b, c))
    volume = np.einsum("nmi,nmi->nm", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("nmi,nmi->nm", first, second) for first, second in ((a, b), (b, c), (c, a)))
    return np.asarray(np.arctan2(volume, x * y * z + ab * z + bc * x + ca * y).sum(axis=1) / (2.0 * np.pi))


def extremes(points: FloatArray) -> FloatArray:
    """Those (6, 3) of the points (n, 3) that lie farthest along the axes, either way."""
    which = np.concatenate([points.argmin(axis=0), points.argmax(axis=0)])
    return np.asarray(points[which])


def parts(vertices: FloatArray, faces: IntArray) -> list[FloatArray]:
    """Vertices of each connected part of a surface; vertices at the same place are one."""
    places, of_vertex = np.unique(vertices, axis=0, return_inverse=True)
    corners = of_vertex.reshape(-1)[faces]
    labels = np.arange(len(places))
    while True:  # each triangle takes its least label, and each label that of its own
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


BoolArray = npt.NDArray[np.bool_]
Pair: TypeAlias = tuple[int, int]  # of shapes


class SolidSet:
    """Shapes, each on a body of a chain.

    Parameters
    ----------
    model : pinocchio.Model
        The chain; body 0 does not move.

    Attributes
    ----------
    bodies : list of int
    names : list of str
        Of the link, or of the obstacle.
    solids : list of Solid
    placements : list of (4, 4) array
        Pose of each in the frame of its body.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.bodies: list[int] = []
        self.names: list[str] = []
        self.solids: list[Solid] = []
        self.placements: list[FloatArray] = []

    def add(self, body: int, pose: FloatArray, solid: Solid, name: str) -> int:
        """Number of a shape at a pose (4, 4) in the frame of its body."""
        self.bodies.append(body)
        self.names.append(name)
        self.solids.append(solid)
        self.placements.append(np.array(pose, dtype=np.float64))
        return len(self.bodies) - 1

    def named(self, name: str) -> int:
        """Number of a shape that is checked elsewhere, of which only the name is kept here."""
        self.names.append(name)
        return len(self.names) - 1

    def copy(self) -> SolidSet:
        """Of the lists; the shapes are the same."""
        copy = SolidSet(self.model)
        for name in ("bodies", "names", "solids", "placements"):
            setattr(copy, name, list(getattr(self, name)))
        return copy

    @property
    def has_surfaces(self) -> bool:
        """Whether some shape is more than its outer form."""
        return any(solid.surface is not None for solid in self.solids)

    def checker(self, margins: Mapping[Pair, float], exact: bool) -> Checker:
        """What checks these pairs, each with its margin [m]."""
        import pinocchio  # deferred: a slow import

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
    """Pairs of geometries, checked by pinocchio and coal: one configuration pair by pair, many by a broad phase."""

    def __init__(self, model: Any, shapes: Any, margins: FloatArray) -> None:
        import pinocchio

        self._model, self._shapes = model, shapes
        self._data, self._results = model.createData(), shapes.createData()
        self._results.setSecurityMargins(shapes, margins)
        for request in self._results.collisionRequests:
            request.enable_contact = True  # without it coal 3.0 misses boxes that are deep inside of each other
        # the pool is made from placements and margins: without these its boxes would be anywhere, or too small
        pinocchio.updateGeometryPlacements(model, self._data, shapes, self._results, np.zeros(model.nq))
        self._pool = pinocchio.BroadPhaseManagerPool_DynamicAABBTreeCollisionManager(model, shapes, 1)
        self._pool.update(self._results)

    def colliding(self, values: FloatArray) -> BoolArray:
        """Whether any pair collides, for values (n, m) of the chain's joints."""
        import pinocchio

        columns = np.asfortranarray(values.T)
        return np.array(pinocchio.computeCollisionsInParallel(1, self._pool, columns, True, False), dtype=np.bool_)

    def pairs(self, values: FloatArray) -> list[Pair]:
        """All pairs that collide, for values (m,)."""
        import pinocchio

        pinocchio.computeCollisions(self._model, self._data, self._shapes, self._results, values, False)
        results, pairs = self._results.collisionResults, self._shapes.collisionPairs
        return [(pairs[k].first, pairs[k].second) for k in range(len(pairs)) if results[k].isCollision()]

    def placement(self, shape: int) -> FloatArray:
        """Pose (4, 4) of a shape in the base frame, in the configuration of the last `pairs`."""
        return np.asarray(self._results.oMg[shape].homogeneous)
