"""The collision shapes of a robot, and which of them are checked against each other and against obstacles.

Shapes are those of `link_shapes.py`, in the forms of `solids.py`. Two bodies of the robot are checked against each
other unless they are neighbours (no body with a shape lies between them in the chain), or collide in at least ALWAYS of
N_TRIALS random configurations: then their shapes overlap by design. Where the robot has an SRDF, that tells which links
are not checked instead. Obstacles are checked against all bodies but the base, which does not move.

A clearance is kept from obstacles, and between bodies but those that are closer than it in ALWAYS of the trials: these
are checked for touching.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError, EimError, MeshError, RobotError
from eim_ros.kinematics.arguments import number_from_zero
from eim_ros.kinematics.body_shapes import body_shapes
from eim_ros.kinematics.chain import PRISMATIC, TRANSLATION
from eim_ros.kinematics.collision_options import disabled_pairs
from eim_ros.kinematics.collision_scene import CollisionScene
from eim_ros.kinematics.link_shapes import MeshReference, link_shapes
from eim_ros.kinematics.mesh_files import find_mesh, read_mesh
from eim_ros.kinematics.obstacles import Mesh, Obstacle, checked_obstacles
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.solid_set import Pair, SolidSet
from eim_ros.numerics.arguments import checked_flag, expect

__all__ = ["CollisionModel", "CollisionScene", "collision_model", "collisions"]

FloatArray = npt.NDArray[np.float64]

ALWAYS = 0.95
N_TRIALS = 400


class CollisionModel:
    """The shapes of a robot, and which of its bodies are checked against each other.

    Parameters
    ----------
    robot : Robot
        Of which `collision` tells how meshes are read.

    Attributes
    ----------
    pairs : list of (int, int)
        Bodies that are checked against each other, with some of their shapes at least.

    Raises
    ------
    RobotError
        If a shape is malformed, or the SRDF is none; `MeshError` if a mesh is not there or cannot be read.
    """

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self._model = _chain(robot)
        self._shapes = SolidSet(self._model)
        read = functools.lru_cache(maxsize=None)(functools.partial(_mesh, robot))
        for placed in body_shapes(robot, link_shapes(robot.urdf)):
            shape = placed.shape
            if not isinstance(shape, MeshReference):
                self._shapes.add(placed.body, placed.pose, shape, placed.link)
            elif robot.collision.meshes != "none":
                scale = tuple(np.asarray(shape.scale, dtype=np.float64).tolist())
                self._shapes.add(placed.body, placed.pose, read(placed.link, shape.filename, scale), placed.link)
        self._checked = self._checked_pairs()
        self._close_by_design = functools.lru_cache(maxsize=16)(functools.partial(self._often, self._checked))
        self._alone = threading.local()
        bodies = self._shapes.bodies
        self.pairs = sorted({(bodies[a], bodies[b]) for a, b in self._checked})

    @property
    def n_shapes(self) -> int:
        return len(self._shapes.bodies)

    def scene(self, self_collision: bool, obstacles: Sequence[Obstacle] = (), clearance: float = 0.0) -> CollisionScene:
        """What configurations are checked for.

        Parameters
        ----------
        self_collision : bool
            Whether pairs of the robot's own bodies are checked.
        obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
            In the base frame.
        clearance : float
            What comes closer than this [m], collides.

        Raises
        ------
        ConstraintError
            If the robot has no shapes: nothing would ever collide.
        """
        bodies = self._shapes.bodies
        if not bodies:
            unread = ", and its meshes are not to be read" if self.robot.collision.meshes == "none" else ""
            raise ConstraintError(
                f"robot {self.robot.name!r} cannot be checked for collisions: its description has no collision shape "
                f"that is a box, cylinder, sphere, capsule or mesh{unread}",
                self.robot.name,
            )
        if not obstacles and self_collision:
            return self._without_obstacles(clearance)
        shapes = self._shapes.copy()
        margins = self._own_margins(clearance) if self_collision else {}
        for number, obstacle in enumerate(obstacles):
            index = shapes.add(0, np.asarray(obstacle.pose), obstacle, obstacle.name or f"obstacle {number}")
            margins.update({(own, index): clearance for own, body in enumerate(bodies) if body})
        return CollisionScene(self.robot, shapes, margins)

    def _without_obstacles(self, clearance: float) -> CollisionScene:
        """What checks the robot alone is made once for each thread: that takes longer than an easy request."""
        if getattr(self._alone, "clearance", None) != clearance:
            self._alone.scene = CollisionScene(self.robot, self._shapes, self._own_margins(clearance))
            self._alone.clearance = clearance
        scene: CollisionScene = self._alone.scene
        return scene.again()

    def _own_margins(self, clearance: float) -> dict[Pair, float]:
        margins = dict.fromkeys(self._checked, clearance)
        if clearance:
            margins.update(dict.fromkeys(self._close_by_design(clearance), 0.0))
        return margins

    def _checked_pairs(self) -> list[Pair]:
        """Pairs of shapes by the rule above."""
        bodies, names = self._shapes.bodies, self._shapes.names
        is_disabled = disabled_pairs(self.robot.collision.srdf)
        if is_disabled is not None:
            every = [(a, b) for a in range(len(bodies)) for b in range(len(bodies)) if bodies[a] < bodies[b]]
            return [(a, b) for a, b in every if not is_disabled(names[a], names[b])]
        present = sorted(set(bodies))
        apart = {(a, b) for i, a in enumerate(present) for b in present[i + 2 :]}
        pairs = [(a, b) for a in range(len(bodies)) for b in range(len(bodies)) if (bodies[a], bodies[b]) in apart]
        overlapping = self._often(pairs, 0.0)
        return [pair for pair in pairs if pair not in overlapping]

    def _often(self, pairs: Sequence[Pair], clearance: float) -> set[Pair]:
        """Pairs of whose bodies some shapes collide in ALWAYS of the trials."""
        if not pairs:
            return set()
        scene = CollisionScene(self.robot, self._shapes.copy(), dict.fromkeys(pairs, clearance))
        trials = self.robot.sample_configurations(N_TRIALS, np.random.default_rng(0))
        counts: dict[Pair, int] = {}
        bodies = self._shapes.bodies
        for found in map(scene.pairs, trials):
            for owners in {(bodies[a], bodies[b]) for a, b in found}:
                counts[owners] = counts.get(owners, 0) + 1
        often = {owners for owners, count in counts.items() if count >= ALWAYS * N_TRIALS}
        return {(a, b) for a, b in pairs if (bodies[a], bodies[b]) in often}


@functools.lru_cache(maxsize=8)
def collision_model(robot: Robot) -> CollisionModel:
    """The collision model of a robot, made once: it takes some ten milliseconds, with meshes up to seconds."""
    return CollisionModel(robot)


def collisions(
    robot: Robot,
    q: npt.ArrayLike,
    obstacles: Sequence[Obstacle] = (),
    *,
    self_collision: bool = True,
    clearance: float = 0.0,
) -> list[tuple[str, str]]:
    """What collides with what in one configuration.

    Parameters
    ----------
    robot : Robot
    q : (dof,) array_like
        [rad] or [m].
    obstacles, self_collision, clearance
        See `CollisionModel.scene`.

    Returns
    -------
    list of (str, str)
        Names of a link, and of another one or an obstacle: its name, or "obstacle 2", counted from 0.
    """
    expect(robot, Robot, "robot", RobotError)
    rows = robot._finite_rows(q, "configurations")
    if len(rows) != 1:
        raise RobotError(f"collisions are of one configuration, got {len(rows)}", q)
    self_collision = checked_flag(self_collision, "self_collision", ConstraintError)
    checked = checked_obstacles(obstacles), number_from_zero(clearance, "the clearance")
    return collision_model(robot).scene(self_collision, *checked).names_of_pairs(rows[0])


def _chain(robot: Robot) -> Any:
    """The chain as `chain.py` describes it: all joints about or along their z axes, followers on their own."""
    import pinocchio

    model, parent = pinocchio.Model(), 0
    for i, row in enumerate(robot.links[:-1]):
        joint = pinocchio.JointModelPZ() if row[PRISMATIC] else pinocchio.JointModelRZ()
        placement = pinocchio.SE3(row[:9].reshape(3, 3), row[TRANSLATION])
        parent = model.addJoint(parent, joint, placement, f"joint_{i}")
    return model


def _mesh(robot: Robot, link: str, filename: str, scale: tuple[float, ...]) -> Mesh:
    """A collision mesh of a link, or its hull."""
    try:
        options = robot.collision
        path = find_mesh(filename, robot.folder, options.package_paths, packages_only=options.packages_only)
        return Mesh(np.eye(4), *read_mesh(path, scale), convex=options.meshes == "hulls")
    except MeshError as error:
        raise MeshError(f"a collision shape of link {link!r}: {error}", link) from error
    except EimError as error:
        raise RobotError(f"a collision shape of link {link!r}: {error}", link) from error
