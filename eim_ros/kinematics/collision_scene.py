"""Checks configurations for collisions: a fast pass over all, and a close look at those that it leaves in doubt.

The fast pass takes the hull of each mesh. What collides there is looked at again with the surfaces of the meshes, and
where no surfaces touch, for what is inside of a mesh altogether.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, SOURCE
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.solid_set import Checker, Pair, SolidSet

__all__ = ["CollisionScene"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class CollisionScene:
    """Checks configurations; not to be shared by threads.

    Parameters
    ----------
    robot : Robot
    shapes : SolidSet
        Of the robot, and obstacles.
    margins : mapping of (int, int) to float
        Pairs of shapes that are checked, and how close they may not come [m].

    Attributes
    ----------
    n_colliding : int
        Configurations that were found to collide so far.
    """

    def __init__(self, robot: Robot, shapes: SolidSet, margins: Mapping[Pair, float]) -> None:
        self.n_colliding = 0
        self._robot, self._shapes, self._margins = robot, shapes, margins

    def again(self) -> CollisionScene:
        """The same, from the begin; what was prepared is shared."""
        _ = self._outer, self._shapes.has_surfaces and self._exact
        again = copy.copy(self)
        again.n_colliding = 0
        return again

    def colliding(self, q: FloatArray) -> BoolArray:
        """Whether each configuration (n, dof) collides; touching counts."""
        values = self._values(q)
        found = self._outer.colliding(values) if len(values) else np.zeros(0, dtype=np.bool_)
        if self._shapes.has_surfaces and found.any():
            doubtful = np.flatnonzero(found)
            found[doubtful] = self._exact.colliding(values[doubtful])
            doubtful = doubtful[~found[doubtful]]
            found[doubtful] = [bool(self._enclosed(row, first=True)) for row in values[doubtful]]
        self.n_colliding += int(found.sum())
        return found

    def pairs(self, q: FloatArray) -> list[Pair]:
        """All pairs of shapes that collide in one configuration (dof,)."""
        row = self._values(q[None])[0]
        if not self._shapes.has_surfaces:
            return self._outer.pairs(row)
        return sorted({*self._exact.pairs(row), *self._enclosed(row, first=False)})

    def names_of_pairs(self, q: FloatArray) -> list[tuple[str, str]]:
        """The same by the names of links and obstacles."""
        names = self._shapes.names
        return list(dict.fromkeys((names[a], names[b]) for a, b in self.pairs(q)))

    @functools.cached_property
    def _outer(self) -> Checker:
        return self._shapes.checker(self._margins, exact=False)

    @functools.cached_property
    def _exact(self) -> Checker:
        return self._shapes.checker(self._margins, exact=True)

    def _enclosed(self, row: FloatArray, first: bool) -> list[Pair]:
        """Pairs of which one shape is inside of the other's surface and touches nothing; at most one where `first`."""
        found = []
        for pair in self._outer.pairs(row):
            for outer, inner in (pair, pair[::-1]):
                surface = self._shapes.solids[outer].surface
                if surface is None:
                    continue
                between = np.linalg.inv(self._outer.placement(outer)) @ self._outer.placement(inner)
                witnesses = self._shapes.solids[inner].witnesses @ between[:3, :3].T + between[:3, 3]
                if surface.encloses(witnesses):
                    found.append(pair)
                    if first:
                        return found
        return found

    def _values(self, q: FloatArray) -> FloatArray:
        """Values (n, m) of all moving joints, followers included."""
        rows = self._robot.links[:-1]
        return np.ascontiguousarray(q[:, rows[:, SOURCE].astype(np.int64)] * rows[:, MULTIPLIER] + rows[:, OFFSET])
