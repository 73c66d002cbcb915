"""Shapes for collision checks: primitives, meshes and point clouds. Lengths are in [m].

Primitives describe obstacles and the collision shapes of a robot's links. A mesh, given by arrays or read from a file,
is the solid that its surface encloses (see `solids.py`). A point cloud is the union of balls around its points. An
optional name identifies a shape in the reported collisions. Primitives can also be made from their size and the keyword
`at`, a pose or a position: `Box((0.2, 0.2, 0.4), at=(0.5, 0.0, 0.2))`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import (
    LARGEST,
    as_number,
    checked_flag,
    checked_path,
    expect,
    is_number,
    numbers_of,
    with_hints,
)
from eim_ros.core.errors import ConstraintError, MeshError
from eim_ros.kinematics.meshes import USUAL_LIMITS, MeshLimits, read_mesh
from eim_ros.kinematics.poses import check_pose, is_position, pose_from

ShapeT = TypeVar("ShapeT", bound=type)
FARTHEST = 1e30  # the volume of larger shapes could overflow [m]
THINNED_AT_ONCE = 50_000  # number of points between two checks of the clock, about 20 ms
HALF_DIAGONAL = 0.5 * np.sqrt(3.0)  # half the diagonal of the unit cube


def _placed(shape: ShapeT) -> ShapeT:
    """Class decorator that also accepts the size of a shape and the keyword `at`, a pose in any form."""
    init = vars(shape)["__init__"]

    @functools.wraps(init)
    def init_at(self: Any, *args: Any, at: Any = None, **keywords: Any) -> None:
        if at is not None:
            args = (at, *args)
        elif (len(args) == 1 and not keywords.keys() - {"name"}) or not (args or keywords.keys() & {"pose", "centre"}):
            kind = shape.__name__
            raise ConstraintError(f"a {kind} takes a size and a position: {kind}(size, at=position)", args)
        elif args and is_number(args[0]):
            raise ConstraintError(
                f"a {shape.__name__} needs a position as its first argument or as the keyword at, got {args[0]!r}",
                args[0],
            )
        init(self, *args, **keywords)

    type.__setattr__(shape, "__init__", init_at)
    return shape


@_placed
@with_hints
@dataclass(frozen=True, eq=False)
class Box:
    """Box with its centre at the origin of `pose` (4, 4) and edges of lengths `size` (3,) [m] along its axes.

    Examples
    --------
    Create a table top of 1.2 m by 0.8 m, whose upper face is at a height of 0.7 m:

    >>> from eim_ros.kinematics import Box, pose_from
    >>> table = Box(pose_from((0.6, 0.0, 0.675)), (1.2, 0.8, 0.05), name="table")
    >>> table.size.tolist()
    [1.2, 0.8, 0.05]
    >>> Box((1.2, 0.8, 0.05), at=(0.6, 0.0, 0.675)).pose[2, 3].item()
    0.675
    """

    pose: npt.ArrayLike
    size: npt.ArrayLike
    name: str = ""

    def __post_init__(self) -> None:
        size = numbers_of(self.size, (3,), "the size of a box", ConstraintError)
        if (size <= 0.0).any():
            raise _wrong_size(self, size[size <= 0.0][0])
        _put(self, "size", size)
        _check(self)


@_placed
@with_hints
@dataclass(frozen=True, eq=False)
class Sphere:
    """Ball around `centre` (3,) [m] with radius `radius` [m].

    Examples
    --------
    >>> from eim_ros.kinematics import Sphere
    >>> Sphere((0.4, 0.0, 0.5), 0.1).pose[:3, 3].tolist()
    [0.4, 0.0, 0.5]
    """

    centre: npt.ArrayLike
    radius: float
    name: str = ""

    def __post_init__(self) -> None:
        _put(self, "centre", pose_from(self.centre)[:3, 3].copy())
        _check(self, "radius")

    @property
    def pose(self) -> FloatArray:
        return pose_from(self.centre)


@_placed
@with_hints
@dataclass(frozen=True, eq=False)
class Cylinder:
    """Cylinder along the z axis of `pose` (4, 4), with its centre at the origin of `pose`.

    Examples
    --------
    Create a pole with a height of 2 m that stands on the floor:

    >>> from eim_ros.kinematics import Cylinder, pose_from
    >>> pole = Cylinder(pose_from((0.5, 0.5, 1.0)), radius=0.05, length=2.0)
    >>> pole.length
    2.0
    """

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "radius", "length")


@_placed
@with_hints
@dataclass(frozen=True, eq=False)
class Capsule:
    """Set of all points within `radius` of a segment of `length` along the z axis of `pose` (4, 4).

    Examples
    --------
    Create a capsule along the x axis of the base, with a total length of 1 m:

    >>> from math import pi
    >>> from eim_ros.kinematics import Capsule, pose_from
    >>> bar = Capsule(pose_from((0.5, 0.0, 0.8), rpy=(0.0, pi / 2, 0.0)), radius=0.1, length=0.8)
    >>> bar.length + 2.0 * bar.radius
    1.0
    """

    pose: npt.ArrayLike
    radius: float
    length: float
    name: str = ""

    def __post_init__(self) -> None:
        _check(self, "radius", "length")


Shape: TypeAlias = Box | Sphere | Cylinder | Capsule
"""Shapes that are given by a formula, not by a mesh or a cloud."""


def inside(shape: Shape, points: FloatArray) -> npt.NDArray[np.bool_]:
    """Return whether each point (n, 3) [m] is inside a shape or on its surface.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.kinematics import Sphere
    >>> from eim_ros.kinematics.obstacles import inside
    >>> inside(Sphere((0.0, 0.0, 0.0), 1.0), np.array([[0.5, 0.0, 0.0], [2.0, 0.0, 0.0]])).tolist()
    [True, False]
    """
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
    assert isinstance(shape, Capsule)
    return np.asarray(np.hypot(across, beyond) <= shape.radius)


def _check(shape: Shape, *lengths: str) -> None:
    """Convert pose and lengths to numbers; raise `PoseError` for a bad pose, `ConstraintError` for a bad length."""
    if not isinstance(shape, Sphere):
        _put(shape, "pose", pose_from(shape.pose) if is_position(shape.pose) else check_pose(shape.pose))
    expect(shape.name, str, "the name of a shape", ConstraintError)
    for name in lengths:
        length = as_number(getattr(shape, name))
        if not 0.0 < length <= LARGEST:
            raise _wrong_size(shape, getattr(shape, name))
        _put(shape, name, length)


def _wrong_size(shape: Shape, length: Any) -> ConstraintError:
    kind = type(shape).__name__
    hint = "; the first argument is the pose: Box(pose, size), or Box(size, at=pose)" if isinstance(shape, Box) else ""
    return ConstraintError(f"the size of a {kind.lower()} must be positive and finite, got {length}{hint}", length)


def _put(shape: Shape, name: str, value: object) -> None:
    object.__setattr__(shape, name, value)


@with_hints
@dataclass(frozen=True, eq=False)
class Mesh:
    """Solid enclosed by a surface of triangles.

    Attributes
    ----------
    pose : (4, 4) array_like
        Pose of the vertices' frame.
    vertices : (n, 3) array_like
        Coordinates of the vertices [m].
    faces : (m, 3) array_like of int
        Vertex indices of each triangle. The orientation of triangles must be consistent over the surface. Triangles
        without area are removed.
    convex : bool
        Whether to use the convex hull instead of the mesh. Checks of the hull are faster, and the hull is solid even if
        the surface has holes.

    Examples
    --------
    Create a tetrahedron with edges of 0.1 m along the axes:

    >>> import numpy as np
    >>> from eim_ros.kinematics import Mesh
    >>> corners = 0.1 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> mesh = Mesh(np.eye(4), corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> len(mesh.faces)
    4
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
        wrong = "the faces of a mesh must be an (m, 3) array of integers"
        try:
            faces = np.array(self.faces)
        except Exception as error:  # ragged input, or a failing array interface
            raise ConstraintError(wrong, self.faces) from error
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
            raise ConstraintError(f"{wrong}, got {faces.dtype} of shape {faces.shape}", self.faces)
        if len(faces) and not 0 <= int(faces.min()) <= int(faces.max()) < len(vertices):
            raise ConstraintError(
                f"the faces of a mesh have vertex indices {faces.min()} to {faces.max()}, "
                f"expected 0 to {len(vertices) - 1}",
                self.faces,
            )
        corners = vertices[faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        faces = np.ascontiguousarray(faces[np.linalg.norm(normals, axis=1) > 0.0], dtype=np.int64)
        if not len(faces):
            raise ConstraintError("a mesh needs at least one triangle with an area above 0", self.faces)
        _freeze(self, pose=check_pose(self.pose), vertices=vertices, faces=faces)

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
        """Read a mesh from a file in a format that assimp supports, such as STL, OBJ or DAE.

        Parameters
        ----------
        path : str or Path
        pose : (4, 4) array_like, optional
            Pose of the vertices' frame; default: the identity.
        scale : float or (3,) array_like
            Factor for all lengths, or one factor per axis. The unit in a COLLADA file is also applied.
        convex, name
            See the class.
        limits : MeshLimits
            Maximum file size and number of triangles.

        Raises
        ------
        MeshError
            If the file cannot be read.
        """
        vertices, faces = read_mesh(checked_path(path, MeshError), scale, limits)
        return cls(np.eye(4) if pose is None else pose, vertices, faces, convex, name)


@with_hints
@dataclass(frozen=True, eq=False)
class PointCloud:
    """Union of balls around the points of a cloud.

    Attributes
    ----------
    points : (n, 3) array_like
        Coordinates of the points [m].
    radius : float
        Radius of the balls [m]. Use at least half the distance between neighbouring points, because otherwise a link
        may fit between the balls.
    pose : (4, 4) array_like, optional
        Pose of the points' frame; default: the identity.
    resolution : float
        Edge length [m] of the cubes that thin the cloud; 0 disables thinning. All points in a cube are replaced by one
        ball at the centre of the cube. Its radius is `radius` plus half the diagonal of the cube, so it contains the
        balls of these points. Fewer balls are checked faster.

    Examples
    --------
    Thin the point cloud of a wall, which replaces 10201 points by 36 balls:

    >>> import numpy as np
    >>> from eim_ros.kinematics import PointCloud
    >>> y, z = np.meshgrid(np.linspace(0.0, 1.0, 101), np.linspace(0.0, 1.0, 101))
    >>> wall = np.stack([np.full(y.size, 0.9), y.ravel(), z.ravel()], axis=1)
    >>> centres, radius = PointCloud(wall, radius=0.005, resolution=0.199).balls
    >>> centres.shape, round(radius, 3)
    ((36, 3), 0.177)
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
        _freeze(self, pose=check_pose(self.pose), points=_points(self.points, "the points of a cloud"))

    @property
    def balls(self) -> tuple[FloatArray, float]:
        """Centres (m, 3) and radius [m] of the balls that are checked for collisions."""
        if self.resolution == 0.0:
            return np.asarray(self.points), float(self.radius)
        thinning = Thinning(self)
        while thinning.n_left:
            thinning.step()
        return thinning.balls


class Thinning:
    """Incremental thinning of a cloud with a resolution above 0. It collects the cubes that contain points.

    `n_left` is the number of points that are not processed yet.
    """

    def __init__(self, cloud: PointCloud) -> None:
        points = np.asarray(cloud.points)
        # a reference to the cloud would keep it alive in the weak cache of `forms_of`
        self._points, self._size, self._radius, self.n_left = points, cloud.resolution, cloud.radius, len(points)
        low, high = (np.floor(ends / cloud.resolution) for ends in (points.min(axis=0), points.max(axis=0)))
        self._lowest, extents = low, high - low + 1.0
        # one number per cube is ten times faster than three indices, which are used only if int64 is too small
        self._extents = extents.astype(np.int64) if float(np.prod(extents)) < 2.0**62 else None
        self._cells = np.empty(0, np.int64) if self._extents is not None else np.empty((0, 3))

    def __len__(self) -> int:
        """Return the number of cubes found so far."""
        return len(self._cells)

    def step(self) -> None:
        """Process the next THINNED_AT_ONCE points."""
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
        """Centres (m, 3) and radius [m] of the balls around the cubes found so far."""
        cells = np.asarray(self._cells, dtype=np.float64)
        if self._extents is not None:
            numbers = np.asarray(self._cells, dtype=np.int64)
            cells = np.transpose(np.unravel_index(numbers, tuple(self._extents.tolist()))).astype(np.float64)
        return (cells + self._lowest + 0.5) * self._size, float(self._radius + HALF_DIAGONAL * self._size)


Obstacle: TypeAlias = Shape | Mesh | PointCloud
"""Anything that an arm must not touch."""


def checked_obstacles(obstacles: Sequence[Obstacle] | Obstacle) -> tuple[Obstacle, ...]:
    """Return one obstacle or a sequence of obstacles as a tuple; raise `ConstraintError` for other values."""
    if isinstance(obstacles, Obstacle):
        return (obstacles,)
    if not isinstance(obstacles, Sequence) or not all(isinstance(each, Obstacle) for each in obstacles):
        expected = "Box, Sphere, Cylinder, Capsule, Mesh and PointCloud"
        raise ConstraintError(f"obstacles must be a list of {expected}, got {obstacles!r}", obstacles)
    return tuple(obstacles)


def _freeze(obstacle: Mesh | PointCloud, **arrays: npt.NDArray[Any]) -> None:
    for name, array in arrays.items():
        array.flags.writeable = False
        object.__setattr__(obstacle, name, array)


def _points(values: npt.ArrayLike, what: str) -> FloatArray:
    """Return a copy (n, 3) of the points, which must be finite; n must be above 0."""
    points = numbers_of(values, (None, 3), what, ConstraintError, least=-FARTHEST, most=FARTHEST)
    if not len(points):
        raise ConstraintError(f"{what} must be an (n, 3) array with at least one row", values)
    return np.array(points)
