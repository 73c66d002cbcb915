"""Shapes on the bodies of a chain, by number: pinocchio's geometry, in the outer form of each and in the exact one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.solids import Solid

__all__ = ["Checker", "Pair", "SolidSet"]

FloatArray = npt.NDArray[np.float64]
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
