"""Options of the collision check: reading of meshes, pairs of links to skip, and maximum size of a scene."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from eim_ros.core.checks import whole_number, with_hints
from eim_ros.core.errors import ConstraintError, RobotError
from eim_ros.kinematics.obstacles import Mesh, Obstacle, PointCloud

MESHES = ("exact", "hulls", "none")
THINNED = 10  # a cloud with a resolution may have this many times as many points as one without
MOST_SURFACES = 500  # maximum number of exact meshes, because pinocchio prepares each pair with a link


@with_hints
@dataclass(frozen=True)
class CollisionOptions:
    """Options for the collision check of a robot. By default, meshes are used as they are.

    Attributes
    ----------
    meshes : {"exact", "hulls", "none"}
        "exact" uses the meshes as they are, and "hulls" uses their convex hulls, which is faster. With "none", only
        primitives are checked.
    package_paths : sequence of str or Path
        Folders that contain packages, or folders of packages. They are searched first, see `Robot`.
    srdf : str or Path
        Text of an SRDF, its path, or a name `package://NAME/...`. For a loaded robot, this attribute is the text. Pairs
        of links that the SRDF disables are skipped, and all other pairs are checked. If the SRDF is empty or disables
        no pair, neighbours in the chain and links that almost always collide are skipped.
    packages_only : bool
        Whether meshes must lie in packages. Set it to true for descriptions from a topic, see `find_mesh`.
    most_obstacles : int
        Maximum number of obstacles in a scene, 1 to 2**40. Larger scenes raise an error.
    most_points : int
        Maximum number of balls of all point clouds in a scene. There is a ball for each point, or for each occupied
        cube if the cloud has a `resolution`. Clouds with a resolution may have ten times as many points. Each ball
        needs about 1.2 kB of memory and 5 us of preparation.
    most_triangles : int
        Maximum number of triangles in a scene. The same limit applies to the meshes of the robot.
    most_mesh_bytes : int
        Maximum size of a mesh file [byte].

    Examples
    --------
    Use convex hulls instead of meshes, which makes the check faster:

    >>> from eim_ros.kinematics import CollisionOptions, Robot
    >>> robot = Robot("panda", collision=CollisionOptions(meshes="hulls"))
    >>> robot.collision.meshes
    'hulls'
    """

    meshes: str = "exact"
    package_paths: Sequence[str | Path] = ()
    srdf: str | Path = field(default="", repr=False)
    packages_only: bool = False
    most_obstacles: int = 20_000
    most_points: int = 200_000
    most_triangles: int = 200_000
    most_mesh_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        if not isinstance(self.meshes, str) or self.meshes not in MESHES:
            raise RobotError(f"meshes must be one of {', '.join(MESHES)}, got {self.meshes!r}", self.meshes)
        _check_folders(self.package_paths)
        if not isinstance(self.srdf, (str, Path)):
            raise RobotError(
                f"srdf must be the text of an SRDF, its path, or a name package://NAME/..., got {self.srdf!r}",
                self.srdf,
            )
        for name in ("most_obstacles", "most_points", "most_triangles", "most_mesh_bytes"):
            whole_number(getattr(self, name), 1, name, most=2**40)

    def with_package_paths(self, folders: Sequence[str | Path]) -> CollisionOptions:
        """Return the options with further folders of packages, which are searched first."""
        _check_folders(folders)
        return replace(self, package_paths=(*folders, *self.package_paths)) if folders else self


def _check_folders(folders: Sequence[str | Path]) -> None:
    is_list = isinstance(folders, Sequence) and not isinstance(folders, str)
    if not is_list or not all(isinstance(path, (str, Path)) for path in folders):
        raise RobotError(f"package_paths must be a list of folders, got {folders!r}", folders)


@dataclass(frozen=True)
class SceneSize:
    """Size of a scene: numbers of obstacles, points, triangles and non-convex meshes.

    `points` and `thinned_points` count the points in clouds without and with a resolution. `surfaces` counts the meshes
    that are not replaced by their convex hulls.
    """

    obstacles: int = 0
    points: int = 0
    thinned_points: int = 0
    triangles: int = 0
    surfaces: int = 0

    @classmethod
    def of(cls, obstacles: Sequence[Obstacle]) -> SceneSize:
        clouds = [obstacle for obstacle in obstacles if isinstance(obstacle, PointCloud)]
        meshes = [obstacle for obstacle in obstacles if isinstance(obstacle, Mesh)]
        return cls(
            len(obstacles),
            sum(len(np.asarray(cloud.points)) for cloud in clouds if cloud.resolution == 0.0),
            sum(len(np.asarray(cloud.points)) for cloud in clouds if cloud.resolution > 0.0),
            sum(len(np.asarray(mesh.faces)) for mesh in meshes),
            sum(not mesh.convex for mesh in meshes),
        )

    def check(self, options: CollisionOptions) -> None:
        """Raise `ConstraintError` if the scene exceeds the limits, before any geometry is prepared."""
        most, thinned = options.most_points, "points in clouds with a resolution"
        _at_most(self.obstacles, options.most_obstacles, "obstacles", "obstacles", "leave out obstacles out of reach")
        _at_most(self.points, most, "points in clouds", "points", "give the clouds a resolution")
        _at_most(self.thinned_points, THINNED * most, thinned, "points", "leave out points")
        _at_most(self.triangles, options.most_triangles, "triangles in meshes", "triangles", "simplify the meshes")
        if self.surfaces > MOST_SURFACES:
            raise ConstraintError(
                f"the scene has {self.surfaces} meshes that are not convex, but at most {MOST_SURFACES} are allowed: "
                "join meshes, or use their convex hulls (convex=True)",
                self.surfaces,
            )


def check_balls(options: CollisionOptions, n: int) -> None:
    """Raise `ConstraintError` if thinned point clouds have more balls than the options allow."""
    _at_most(n, options.most_points, "balls of thinned clouds", "points", "give the clouds a coarser resolution")


def _at_most(n: int, most: int, what: str, kind: str, remedy: str) -> None:
    if n > most:
        raise ConstraintError(
            f"the scene has {n} {what}, but at most {most} are allowed: {remedy}, or raise the limit "
            f"(CollisionOptions.most_{kind}, or the parameter max_{kind} of ik_server)",
            n,
        )


def disabled_pairs(srdf: str) -> Callable[[str, str], bool] | None:
    """Return a function that returns whether an SRDF disables the check of two links; None if it disables no pair.

    Raises
    ------
    RobotError
        If the text is not well-formed XML.
    """
    try:
        root = ElementTree.fromstring(srdf.strip() or "<robot/>")
    except (ElementTree.ParseError, ValueError) as error:
        raise RobotError(f"the SRDF is not well-formed XML: {error}", srdf[:200]) from error
    disabled, enabled = (
        {frozenset((pair.get("link1", ""), pair.get("link2", ""))) for pair in root.findall(f"{kind}_collisions")}
        for kind in ("disable", "enable")
    )
    if root.find("disable_collisions") is None and root.find("disable_default_collisions") is None:
        return None
    silent = {link.get("link", "") for link in root.findall("disable_default_collisions")}

    def is_disabled(first: str, second: str) -> bool:
        pair = frozenset((first, second))
        return pair in disabled or (bool(pair & silent) and pair not in enabled)

    return is_disabled
