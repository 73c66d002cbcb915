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
from eim_ros.kinematics.crowd import Crowd
from eim_ros.kinematics.deadlines import NEVER, check_time, is_past
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.solid_set import Checker, Pair, SolidSet

__all__ = ["CollisionScene"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

AT_ONCE, AT_ONCE_LATE = 64, 8  # configurations between two looks at the clock; and when there is no time left


class CollisionScene:
    """Checks configurations; not to be shared by threads.

    Parameters
    ----------
    robot : Robot
    shapes : SolidSet
        Of the robot, and obstacles.
    margins : mapping of (int, int) to float
        Pairs of shapes that are checked, and how close they may not come [m].
    crowd : Crowd, optional
        Further obstacles, whose numbers are those of shapes that are in no pair.

    Attributes
    ----------
    n_colliding : int
        Configurations that were found to collide so far.
    n_unchecked : int
        Configurations for which there was no time so far.
    """

    def __init__(
        self, robot: Robot, shapes: SolidSet, margins: Mapping[Pair, float], crowd: Crowd | None = None
    ) -> None:
        self.n_colliding = self.n_unchecked = 0
        self._robot, self._shapes, self._margins, self._crowd = robot, shapes, margins, crowd

    def again(self) -> CollisionScene:
        """The same, from the begin; what was prepared is shared."""
        self.prepare()
        again = copy.copy(self)
        again.n_colliding = again.n_unchecked = 0
        return again

    def prepare(self, deadline: float = NEVER) -> None:
        """Make now what the first check would have to wait for; `OutOfTime` if the deadline is over before."""
        check_time(deadline, "prepare the collision check")
        _ = self._outer
        if self._shapes.has_surfaces:
            check_time(deadline, "prepare the collision check of meshes")
            _ = self._exact

    def colliding(self, q: FloatArray, deadline: float = NEVER) -> BoolArray:
        """Whether each configuration (n, dof) collides; touching counts.

        What there is no time to check until the deadline, a time of `perf_counter` [s], counts as colliding, so that
        nothing is taken for free that was not checked. A few configurations are checked in any case.
        """
        values, found = self._values(q), np.ones(len(q), dtype=np.bool_)
        first, step = 0, AT_ONCE_LATE if is_past(deadline) else AT_ONCE
        while first < len(q) and not (first and is_past(deadline)):
            rows = slice(first, first + step)
            found[rows], n_unchecked = self._colliding(q[rows], values[rows], deadline)
            first += step
            self.n_unchecked += n_unchecked
            self.n_colliding += int(found[rows].sum()) - n_unchecked
        self.n_unchecked += max(len(q) - first, 0)
        return found

    def _colliding(self, q: FloatArray, values: FloatArray, deadline: float) -> tuple[BoolArray, int]:
        """Whether each of a few collides, and how many of these there was no time to look at closely."""
        found = self._outer.colliding(values) if self._margins else np.zeros(len(q), dtype=np.bool_)
        n_unchecked = 0
        if self._shapes.has_surfaces and found.any():
            doubtful = np.flatnonzero(found)
            found[doubtful] = self._exact.colliding(values[doubtful])
            for n_looked_at, row in enumerate(doubtful := doubtful[~found[doubtful]]):
                if n_looked_at and is_past(deadline):
                    n_unchecked = len(doubtful) - n_looked_at
                    found[doubtful[n_looked_at:]] = True
                    break
                found[row] = bool(self._enclosed(values[row], first=True))
        if self._crowd is not None and not found.all():
            free = np.flatnonzero(~found)
            found[free], n_late = self._crowd.colliding(q[free], deadline)
            n_unchecked += n_late
        return found, n_unchecked

    def pairs(self, q: FloatArray) -> list[Pair]:
        """All pairs of shapes that collide in one configuration (dof,)."""
        row = self._values(q[None])[0]
        among = [] if self._crowd is None else self._crowd.pairs(q)
        if not self._shapes.has_surfaces:
            return self._outer.pairs(row) + among
        return sorted({*self._exact.pairs(row), *self._enclosed(row, first=False), *among})

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
