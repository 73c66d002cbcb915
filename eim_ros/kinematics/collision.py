"""Whether configurations of a robot collide, with themselves or with obstacles: pinocchio and coal on primitive shapes.

Bodies are those of `link_shapes.py`. Two bodies of the robot are checked against each other unless they are neighbours
(no body with a shape lies between them in the chain), or collide in at least ALWAYS of N_TRIALS random configurations:
then their shapes overlap by design. Obstacles are checked against all bodies but the base, which does not move.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError
from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION
from eim_ros.kinematics.link_shapes import link_placements, link_shapes
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.shapes import Box, Cylinder, Shape, Sphere
from eim_ros.kinematics.urdf import parse_urdf

__all__ = ["CollisionModel", "CollisionScene", "collision_model"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

ALWAYS = 0.95
N_TRIALS = 400


class CollisionModel:
    """The shapes of a robot, and which of its bodies are checked against each other.

    Parameters
    ----------
    robot : Robot
    """

    def __init__(self, robot: Robot) -> None:
        import pinocchio  # deferred: a slow import

        self.robot = robot
        self._model = _chain(robot)
        self._shapes = pinocchio.GeometryModel()
        self._bodies: list[int] = []
        data = self._model.createData()
        pinocchio.forwardKinematics(self._model, data, np.zeros(self._model.nq))
        placements, shapes = (
            link_placements(parse_urdf(robot.urdf), robot.base_link, robot.tip_link),
            link_shapes(robot.urdf),
        )
        for link, (body, pose) in placements.items():
            for shape in shapes[link]:
                in_body = data.oMi[body].actInv(pinocchio.SE3(pose @ np.asarray(shape.pose)))
                self._add(self._shapes, body, in_body, shape)
                self._bodies.append(body)
        self.pairs = self._checked_pairs()
        self._paired = self._shapes.copy()
        self._add_pairs(self._paired, self.pairs)

    @property
    def n_shapes(self) -> int:
        return len(self._bodies)

    def scene(self, self_collision: bool, obstacles: Sequence[Shape] = ()) -> CollisionScene:
        """What configurations are checked for.

        Parameters
        ----------
        self_collision : bool
            Whether pairs of the robot's own bodies are checked.
        obstacles : sequence of Box, Sphere, Cylinder or Capsule
            In the base frame.

        Raises
        ------
        ConstraintError
            If the robot has no shapes: nothing would ever collide.
        """
        import pinocchio

        if not self._bodies:
            raise ConstraintError(
                f"robot {self.robot.name!r} cannot be checked for collisions: its description has no collision shape "
                "that is a box, cylinder, sphere or capsule (meshes are not read)",
                self.robot.name,
            )
        shapes = (self._paired if self_collision else self._shapes).copy()
        for obstacle in obstacles:
            index = self._add(shapes, 0, pinocchio.SE3(np.array(obstacle.pose, dtype=np.float64)), obstacle)
            for own, body in enumerate(self._bodies):
                if body:
                    shapes.addCollisionPair(pinocchio.CollisionPair(own, index))
        return CollisionScene(self.robot, self._model, shapes)

    def _checked_pairs(self) -> list[tuple[int, int]]:
        """Pairs of bodies by the rule above."""
        present = sorted(set(self._bodies))
        pairs = [(a, b) for i, a in enumerate(present) for b in present[i + 2 :]]
        if not pairs:
            return []
        shapes = self._shapes.copy()
        owners = self._add_pairs(shapes, pairs)
        scene = CollisionScene(self.robot, self._model, shapes)
        often = scene.share_of_pairs(self.robot.sample_configurations(N_TRIALS, np.random.default_rng(0)), owners)
        return [pair for pair in pairs if often[pair] < ALWAYS]

    def _add_pairs(self, shapes: Any, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Check the shapes of these bodies against each other; returns the pair of bodies of each pair of shapes."""
        import pinocchio

        owners = []
        for first, second in pairs:
            for a, b in itertools.product(*(np.flatnonzero(np.equal(self._bodies, body)) for body in (first, second))):
                shapes.addCollisionPair(pinocchio.CollisionPair(int(a), int(b)))
                owners.append((first, second))
        return owners

    @staticmethod
    def _add(shapes: Any, body: int, placement: Any, shape: Shape) -> int:
        import pinocchio

        name = f"shape_{shapes.ngeoms}"
        return int(shapes.addGeometryObject(pinocchio.GeometryObject(name, body, placement, _solid(shape))))


class CollisionScene:
    """Checks configurations, one at a time; not to be shared by threads.

    Attributes
    ----------
    n_colliding : int
        Configurations that were found to collide so far.
    """

    def __init__(self, robot: Robot, model: Any, shapes: Any) -> None:
        self.n_colliding = 0
        self._robot, self._model, self._shapes = robot, model, shapes
        self._data, self._results = model.createData(), shapes.createData()

    def colliding(self, q: FloatArray) -> BoolArray:
        """Whether each configuration (n, dof) collides; touching counts."""
        import pinocchio

        check, model, data, shapes, results = (
            pinocchio.computeCollisions, self._model, self._data, self._shapes, self._results,
        )  # fmt: skip
        found = np.array([check(model, data, shapes, results, row, True) for row in self._values(q)], dtype=np.bool_)
        self.n_colliding += int(found.sum())
        return found

    def share_of_pairs(self, q: FloatArray, owners: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """In which share of the configurations some pair of shapes of each owner collides."""
        import pinocchio

        counts = dict.fromkeys(owners, 0)
        for row in self._values(q):
            pinocchio.computeCollisions(self._model, self._data, self._shapes, self._results, row, False)
            results = self._results.collisionResults
            for owner in {owners[k] for k in range(len(owners)) if results[k].isCollision()}:
                counts[owner] += 1
        return {owner: count / len(q) for owner, count in counts.items()}

    def _values(self, q: FloatArray) -> FloatArray:
        """Values (n, m) of all moving joints, followers included."""
        rows = self._robot.links[:-1]
        return np.ascontiguousarray(q[:, rows[:, SOURCE].astype(np.int64)] * rows[:, MULTIPLIER] + rows[:, OFFSET])


@functools.lru_cache(maxsize=8)
def collision_model(robot: Robot) -> CollisionModel:
    """The collision model of a robot, made once: it takes some ten milliseconds."""
    return CollisionModel(robot)


def _chain(robot: Robot) -> Any:
    """The chain as `chain.py` describes it: all joints about or along their z axes, followers on their own."""
    import pinocchio

    model, parent = pinocchio.Model(), 0
    for i, row in enumerate(robot.links[:-1]):
        joint = pinocchio.JointModelPZ() if row[PRISMATIC] else pinocchio.JointModelRZ()
        placement = pinocchio.SE3(row[:9].reshape(3, 3), row[TRANSLATION])
        parent = model.addJoint(parent, joint, placement, f"joint_{i}")
    return model


def _solid(shape: Shape) -> Any:
    from pinocchio import coal

    if isinstance(shape, Box):
        return coal.Box(*(float(edge) for edge in np.asarray(shape.size)))
    if isinstance(shape, Sphere):
        return coal.Sphere(float(shape.radius))
    kind = coal.Cylinder if isinstance(shape, Cylinder) else coal.Capsule
    return kind(float(shape.radius), float(shape.length))
