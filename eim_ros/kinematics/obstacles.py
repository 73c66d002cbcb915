"""Solid primitives: the collision shapes of a robot's links, and obstacles. Lengths in [m].

A shape may have a name, by which it is told what collides with it.

Obstacles that are no primitives: meshes, by arrays or from a file, and point clouds. Lengths in [m].

A mesh is the solid that its surface encloses, see `containment.py`; a point cloud is the union of balls about its
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import LARGEST, as_number, checked_flag, checked_path, expect, names_wrong_keywords, numbers_of
from eim_ros.core.errors import ConstraintError, MeshError
from eim_ros.kinematics.meshes import USUAL_LIMITS, MeshLimits, read_mesh
from eim_ros.kinematics.poses import check_pose, pose_from

FloatArray = npt.NDArray[np.float64]


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Box:
    """A box with its centre at the origin of `pose` (4, 4) and edges `size` (3,) [m] along its axes."""

    pose: npt.ArrayLike
    size: npt.ArrayLike
    name: str = ""

    def __post_init__(self) -> None:
        _put(self, "size", _positive(self, numbers_of(self.size, (3,), "the size of a box", ConstraintError)))
        _check(self)


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball about `centre` (3,) [m]."""

    centre: npt.ArrayLike
    radius: float
    name: str = ""

    def __post_init__(self) -> None:
        _put(self, "centre", pose_from(self.centre)[:3, 3].copy())
        _check(self, "radius")

    @property
    def pose(self) -> FloatArray:
        return pose_from(self.centre)


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Cylinder:
    """A cylinder along the z axis of `pose` (4, 4), with its centre at the origin."""

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "radius", "length")


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` of a segment of `length` along the z axis of `pose` (4, 4)."""

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "radius", "length")


Shape: TypeAlias = Box | Sphere | Cylinder | Capsule


def inside(shape: Shape, points: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each point (n, 3) [m] is within a shape, its surface included."""
    pose = np.asarray(shape.pose, dtype=np.float64)
    local = (points - pose[:3, 3]) @ pose[:3, :3]
    if isinstance(shape, Box):
        return np.asarray((2.0 * np.abs(local) <= np.asarray(shape.size)).all(axis=1))
    if isinstance(shape, Sphere):
        return np.asarray(np.linalg.norm(local, axis=1) <= shape.radius)
    beyond = np.maximum(np.abs(local[:, 2]) - 0.5 * shape.length, 0.0)
    across = np.hypot(local[:, 0], local[:, 1])
    if isinstance(shape, Cylinder):
        return np.asarray((across <= shape.radius) & (beyond == 0.0))
    return np.asarray(np.hypot(across, beyond) <= shape.radius)


def _check(shape: Shape, *lengths: str) -> None:
    """Store pose and lengths as numbers; `PoseError` or `ConstraintError` if they are no transform, or not positive."""
    if not isinstance(shape, Sphere):
        _put(shape, "pose", check_pose(shape.pose))
    expect(shape.name, str, "the name of a shape", ConstraintError)
    for name in lengths:
        length = as_number(getattr(shape, name))
        if not 0.0 < length <= LARGEST:
            raise ConstraintError(
                f"the size of a {_kind(shape)} must be positive and finite, got {getattr(shape, name)}", length
            )
        _put(shape, name, length)


def _positive(shape: Shape, lengths: FloatArray) -> FloatArray:
    if len(wrong := lengths[lengths <= 0.0]):
        raise ConstraintError(f"the size of a {_kind(shape)} must be positive and finite, got {wrong[0]}", lengths)
    return lengths


def _kind(shape: Shape) -> str:
    return type(shape).__name__.lower()


def _put(shape: Shape, name: str, value: object) -> None:
    object.__setattr__(shape, name, value)


FARTHEST = 1e30  # [m]: volumes must not overflow
THINNED_AT_ONCE = 50_000  # points between two looks at the clock: some 20 ms
HALF_DIAGONAL = 0.5 * np.sqrt(3.0)  # of a cube with edges of 1


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Mesh:
    """A solid within a surface of triangles.

    Attributes
    ----------
    pose : (4, 4) array_like
        Of the frame that the vertices are told in.
    vertices : (n, 3) array_like
        [m].
    faces : (m, 3) array_like of int
        Vertices of each triangle, in the same sense of rotation all over the surface. Triangles without area are left
        out.
    convex : bool
        Whether the convex hull is taken in place of the mesh: faster, and solid even where the surface has holes.
    """

    pose: npt.ArrayLike
    vertices: npt.ArrayLike = field(repr=False)
    faces: npt.ArrayLike = field(repr=False)
    convex: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        expect(self.name, str, "the name of a mesh", ConstraintError)
        object.__setattr__(self, "convex", checked_flag(self.convex, "convex", ConstraintError))
        vertices = _points(self.vertices, "the vertices of a mesh")
        try:
            faces = np.array(self.faces)
        except Exception as error:  # ragged, or the array interface of a foreign object fails
            raise ConstraintError("the faces of a mesh must be an (m, 3) array of whole numbers", self.faces) from error
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
            raise ConstraintError(
                f"the faces of a mesh must be an (m, 3) array of whole numbers, got {faces.dtype} of shape "
                f"{faces.shape}",
                self.faces,
            )
        if len(faces) and not 0 <= int(faces.min()) <= int(faces.max()) < len(vertices):
            raise ConstraintError(
                f"the faces of a mesh name vertices {faces.min()} to {faces.max()}; there are {len(vertices)}, from 0",
                self.faces,
            )
        corners = vertices[faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        faces = np.ascontiguousarray(faces[np.linalg.norm(normals, axis=1) > 0.0], dtype=np.int64)
        if not len(faces):
            raise ConstraintError("a mesh needs at least one triangle with an area", self.faces)
        for name, array in (("pose", check_pose(self.pose)), ("vertices", vertices), ("faces", faces)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def load(
        cls,
        path: str | Path,
        pose: npt.ArrayLike | None = None,
        scale: npt.ArrayLike = 1.0,
        *,
        convex: bool = False,
        name: str = "",
        limits: MeshLimits = USUAL_LIMITS,
    ) -> Mesh:
        """Read a mesh from a file: STL, OBJ, DAE and what else assimp reads.

        Parameters
        ----------
        path : str or Path
        pose : (4, 4) array_like, optional
            Default: the identity.
        scale : float or (3,) array_like
            Of lengths, along each axis; a COLLADA file's unit counts as well.
        convex, name
            See the class.
        limits : MeshLimits
            Default: files of up to 50 MB.

        Raises
        ------
        MeshError
            If it cannot be read.
        """
        vertices, faces = read_mesh(checked_path(path, MeshError), scale, limits)
        return cls(np.eye(4) if pose is None else pose, vertices, faces, convex, name)


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class PointCloud:
    """All that is within a radius of a point.

    Attributes
    ----------
    points : (n, 3) array_like
        [m].
    radius : float
        [m], about half of the distance of neighbouring points or more: between balls that do not touch, links fit.
    pose : (4, 4) array_like, optional
        Of the frame that the points are told in; default: the identity.
    resolution : float
        Above 0, points in the same cube with edges of this length [m] become one ball that contains theirs: its centre
        is the cube's, and the radius grows by half of the cube's diagonal. Fewer balls are checked faster.
    """

    points: npt.ArrayLike = field(repr=False)
    radius: float
    pose: npt.ArrayLike = field(default_factory=lambda: np.eye(4))
    resolution: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        expect(self.name, str, "the name of a point cloud", ConstraintError)
        for name in ("radius", "resolution"):
            value = getattr(self, name)
            if not 0.0 <= as_number(value) <= LARGEST:
                raise ConstraintError(f"the {name} of a point cloud must be finite and at least 0, got {value}", value)
            object.__setattr__(self, name, float(value))
        points = _points(self.points, "the points of a cloud")
        for name, array in (("pose", check_pose(self.pose)), ("points", points)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def balls(self) -> tuple[FloatArray, float]:
        """Centres (m, 3) and radius of the balls that are checked [m]."""
        if self.resolution == 0.0:
            return np.asarray(self.points), float(self.radius)
        thinning = Thinning(self)
        while thinning.n_left:
            thinning.step()
        return thinning.balls


class Thinning:
    """The cubes of a resolution that hold points of a cloud, found some points at a time.

    Parameters
    ----------
    cloud : PointCloud
        With a resolution.

    Attributes
    ----------
    n_left : int
        Points that were not looked at yet.
    """

    def __init__(self, cloud: PointCloud) -> None:
        points = np.asarray(cloud.points)
        # the cloud itself is not kept: what is made of it lives as long as it
        self._points, self._size, self._radius, self.n_left = points, cloud.resolution, cloud.radius, len(points)
        low, high = (np.floor(ends / cloud.resolution) for ends in (points.min(axis=0), points.max(axis=0)))
        self._lowest, extents = low, high - low + 1.0
        # one number for each cube: rows take ten times as long; of as many cubes as have no numbers, rows
        self._extents = extents.astype(np.int64) if float(np.prod(extents)) < 2.0**62 else None
        self._cells = np.empty(0, np.int64) if self._extents is not None else np.empty((0, 3))

    def __len__(self) -> int:
        """Cubes that were found."""
        return len(self._cells)

    def step(self) -> None:
        """Look at some more points."""
        some = self._points[len(self._points) - self.n_left :][:THINNED_AT_ONCE]
        cells = np.floor(some / self._size) - self._lowest
        if self._extents is not None:
            numbers = np.ravel_multi_index(tuple(cells.astype(np.int64).T), tuple(self._extents.tolist()))
            self._cells = np.union1d(self._cells, numbers)
        else:
            self._cells = np.unique(np.concatenate([self._cells, cells]), axis=0)
        self.n_left -= len(some)

    @property
    def balls(self) -> tuple[FloatArray, float]:
        """Centres (m, 3) and radius of the balls about the cubes that were found [m]."""
        cells = np.asarray(self._cells, dtype=np.float64)
        if self._extents is not None:
            numbers = np.asarray(self._cells, dtype=np.int64)
            cells = np.transpose(np.unravel_index(numbers, tuple(self._extents.tolist()))).astype(np.float64)
        return (cells + self._lowest + 0.5) * self._size, float(self._radius + HALF_DIAGONAL * self._size)


Obstacle: TypeAlias = Shape | Mesh | PointCloud


def checked_obstacles(obstacles: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    """The obstacles; `ConstraintError` unless they are a list of them."""
    if not isinstance(obstacles, Sequence) or not all(isinstance(each, Obstacle) for each in obstacles):
        expected = "Box, Sphere, Cylinder, Capsule, Mesh and PointCloud"
        raise ConstraintError(f"obstacles must be a list of {expected}, got {obstacles!r}", obstacles)
    return tuple(obstacles)


def _points(values: npt.ArrayLike, what: str) -> FloatArray:
    """A copy (n, 3) of finite points, n > 0."""
    points = numbers_of(values, (None, 3), what, ConstraintError, least=-FARTHEST, most=FARTHEST)
    if not len(points):
        raise ConstraintError(f"{what} must be an (n, 3) array of finite numbers, n > 0, got none", values)
    return np.array(points)
