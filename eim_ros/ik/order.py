"""Ordering of solutions, and distances between configurations.

Solutions are ordered by density, distance, posture, manipulability, distance from limits, or a weighted mix of these. A
posture prefers values p_j of joints by the cost

    c(q) = sum_j w_j (q_j - p_j)^2,    where the differences of continuous joints are taken on the circle.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import eim_ros.solver as solver
from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import LARGEST, as_number, expect_mapping, is_number, with_hints
from eim_ros.core.deadlines import Effort
from eim_ros.core.errors import ConfigurationError, did_you_mean
from eim_ros.ik.candidates import Candidates
from eim_ros.kinematics import Robot

Order: TypeAlias = str | Mapping[str, float]
UNORDERED = "none"
# Estimated time of each criterion except the density [s].
_EFFORTS = {"distance": Effort(2e-8), "posture": Effort(4e-8), "manipulability": Effort(3e-7), "limits": Effort(2e-8)}
FAIR = {UNORDERED, "density"}  # orders that have no influence on which solutions are kept
ORDERS = ("density", "distance", "posture", "manipulability", "limits", UNORDERED)


def distance_to(robot: Robot, q: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the Euclidean distance (n,) [rad, m] of configurations (n, dof) from a configuration (dof,).

    Continuous joints are compared on the circle.
    """
    difference = q - reference
    if np.count_nonzero(robot.continuous):
        wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
        difference = np.where(robot.continuous, wrapped, difference)
    return np.asarray(np.sqrt(np.add.reduce(difference * difference, axis=1)))


def distinct_rows(robot: Robot, q: FloatArray, tolerance: float) -> npt.NDArray[np.int64]:
    """Return the indices of the configurations (n, dof) that are not near-duplicates of an earlier configuration.

    Two configurations are near-duplicates if no joint differs by more than the tolerance [rad or m].
    """
    return solver.distinct_rows(robot.bounds, q, tolerance, math.inf)[0]


def distinct_in_time(
    robot: Robot, q: FloatArray, tolerance: float, deadline: float
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the result of `distinct_rows` for the rows that can be compared in time, and whether these are all rows.

    The deadline is a time of `perf_counter` [s]. The time for a comparison grows with the square of the number of rows.
    """
    kept, n_seen = solver.distinct_rows(robot.bounds, q, tolerance, deadline)
    return kept, n_seen == len(q)


def farthest_rows(robot: Robot, q: FloatArray, n: int, deadline: float = math.inf) -> npt.NDArray[np.int64]:
    """Return the indices of n configurations that are spread evenly over all configurations (n_all, dof).

    Each choice is the configuration with the largest Euclidean distance from all previous choices. Gaps are therefore
    at most twice as large as for the best possible choice (Gonzalez 1985). Each chosen configuration is then replaced
    by the one closest to the mean of its cluster. The result has fewer than n rows if all other configurations are
    duplicates. After the deadline, a time of `perf_counter` [s], the result is completed with the first configurations
    that are not chosen yet.
    """
    return solver.farthest_rows(robot.bounds, q, n, deadline)


def on_torus(robot: Robot, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points (n, dof) and periods (dof,) for a periodic `cKDTree`.

    Continuous joints are in [0, 2 pi). Other joints are shifted to begin at 0, and have the period 0, because they are
    not periodic.
    """
    period = np.where(robot.continuous, 2.0 * np.pi, 0.0)
    points = np.where(robot.continuous, np.mod(q, 2.0 * np.pi), q)
    points = np.where(robot.continuous & (points >= 2.0 * np.pi), 0.0, points)  # mod rounds -1e-20 up to 2 pi
    return points - np.where(robot.continuous, 0.0, points.min(axis=0)), period


def is_within(robot: Robot, q: FloatArray, others: FloatArray, distance: float) -> npt.NDArray[np.bool_]:
    """Return whether one of `others` (m, dof) is within a distance of each configuration (n, dof) in every joint."""
    return solver.is_within(robot.bounds, q, others, distance)


def nearest(robot: Robot, q: FloatArray, others: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Find the nearest of other configurations (m, dof) for each configuration (n, dof).

    Returns
    -------
    (n,) array
        Largest difference of a joint [rad or m]; infinite if there are no others.
    (n,) array of int
        Index of the nearest configuration; m if there are no others.

    Examples
    --------
    Angles that differ by full revolutions are equal if the joint may turn that far:

    >>> from eim_ros import Robot
    >>> from eim_ros.ik import nearest
    >>> robot = Robot("planar3")
    >>> distance, index = nearest(robot, np.zeros((1, 3)), np.array([[0.5, 0.0, 0.0], [0.1, 0.2, 0.0]]))
    >>> distance.tolist(), index.tolist()
    ([0.2], [1])
    """
    if not len(q) or not len(others):
        return np.full(len(q), np.inf), np.full(len(q), len(others), dtype=np.int64)
    from scipy.spatial import cKDTree  # imported here, because the import takes a third of a second

    points, period = on_torus(robot, np.concatenate([q, others]))
    tree = cKDTree(points[len(q) :], boxsize=period)
    away, index = tree.query(points[: len(q)], p=np.inf)
    return np.asarray(away, dtype=np.float64), np.asarray(index, dtype=np.int64)


@with_hints
@dataclass(frozen=True, eq=False)
class Posture:
    """Preferred values of some joints.

    Attributes
    ----------
    positions : mapping of str to float
        Preferred values of joints by name [rad] or [m]. They may be outside the limits. Other joints have no
        preference.
    weights : mapping of str to float
        Weights of these joints, at least 0 and not all 0. A joint that is not in the mapping has the weight 1.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> from eim_ros.ik import Posture
    >>> posture = Posture({"panda_joint3": 0.0, "panda_joint4": -2.0}, weights={"panda_joint4": 0.1})
    >>> solutions = Sampler("panda").sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], 10, posture=posture, seed=0)
    >>> bool(abs(solutions.q[0, 2]) < 0.01)  # the solution with the lowest cost comes first
    True
    """

    positions: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect_mapping(self.positions, "the positions of a posture")
        expect_mapping(self.weights, "the weights of a posture")

    @classmethod
    def at(cls, robot: Robot, q: FloatArray) -> Posture:
        """Return the posture that prefers a configuration (dof,), with equal weights."""
        return cls(dict(zip(robot.joint_names, q.tolist(), strict=True)))

    def of(self, robot: Robot) -> tuple[FloatArray, FloatArray]:
        """Return the preferred values (dof,) and weights (dof,) of all joints, both 0 without a preference.

        Raises
        ------
        ConfigurationError
            If a joint is unknown, a value is not finite, or no joint has a weight.
        """
        if unknown := [name for name in self.positions if name not in robot.joint_names]:
            known = ", ".join(robot.joint_names) + did_you_mean(unknown[0], robot.joint_names)
            raise ConfigurationError(f"posture: the robot has no joint {unknown[0]!r}; its joints are {known}", unknown)
        if extra := [name for name in self.weights if name not in self.positions]:
            raise ConfigurationError(
                f"posture: joint {extra[0]!r} has a weight, but no preferred value: give one", extra
            )
        preferred, weights = np.zeros(robot.dof), np.zeros(robot.dof)
        for name, value in self.positions.items():
            weight = self.weights.get(name, 1.0)
            if not (is_number(value) and is_number(weight)):
                raise ConfigurationError(
                    f"posture: joint {name!r} needs a number as value and as weight, got {value!r} and {weight!r}",
                    value,
                )
            if not (abs(as_number(value)) <= LARGEST and 0.0 <= as_number(weight) <= LARGEST):
                raise ConfigurationError(
                    f"posture: joint {name!r} needs a finite value and a weight of at least 0, got {value} and "
                    f"{weight}",
                    (value, weight),
                )
            j = robot.joint_names.index(name)
            preferred[j], weights[j] = value, weight
        if not weights.any():
            raise ConfigurationError("posture: at least one joint needs a weight above 0", self.weights)
        return preferred, weights

    def costs(self, robot: Robot, q: FloatArray) -> FloatArray:
        """Return the cost (n,) of configurations (n, dof)."""
        preferred, weights = self.of(robot)
        difference = q - preferred
        wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
        squares = np.where(robot.continuous, wrapped, difference) ** 2
        return np.asarray(np.add.reduce(squares * weights, axis=1))


def _of_weights(given: dict[str, float]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return weights of criteria, and the attributes of `Ordering` that follow from them."""
    weights = {name: weight for name, weight in given.items() if name != UNORDERED and weight > 0.0}
    criterion = None if len(weights) > 1 else "".join(weights)
    return given, {"weights": weights, "criterion": criterion, "is_fair": given.keys() <= FAIR}


@functools.lru_cache(maxsize=32)
def _of_name(order: str) -> tuple[dict[str, float], dict[str, Any]]:
    check_order(order)
    return _of_weights({order: 1.0})


@dataclass(frozen=True, eq=False)
class Ordering:
    """Order of the solutions in an answer.

    Attributes
    ----------
    order : str or mapping of str to float
        The order "density" puts the most likely solution under the model first, "distance" the nearest to `reference`,
        and "posture" the solution with the lowest cost of `posture`. The order "manipulability" puts the solution
        farthest from a singularity first, and "limits" the solution farthest from a joint limit. The order "none" keeps
        the order of the search, which gives a fair sample. A mapping contains weights of several criteria. Each
        criterion is scaled to values from 0 (best) to 1 (worst of the solutions found), and the weighted sum decides.
    reference : (dof,), optional
        Configuration for "distance". A search also uses it as its first seed.
    posture : Posture, optional
        Preferred posture for "posture".
    moves : bool
        Whether solutions are moved along the null space to a local minimum of the cost of the posture.
    weights : mapping of str to float
        Weight of each criterion that has a weight.
    criterion : str or None
        Name of the criterion; empty without a criterion, None if there are several.
    is_fair : bool
        Whether the first solutions found are kept, regardless of their rank, to avoid a bias of the sample.
    """

    order: Order
    reference: FloatArray | None = None
    posture: Posture | None = None
    moves: bool = True
    weights: Mapping[str, float] = field(init=False)
    criterion: str | None = field(init=False)
    is_fair: bool = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.order, str):
            given, derived = _of_name(self.order)
        else:
            check_order(self.order)
            given, derived = _of_weights(dict(self.order))
        if self.reference is None and "distance" in given:
            raise ConfigurationError("ordering by distance needs a reference configuration: give near", self.order)
        if self.posture is None and "posture" in given:
            raise ConfigurationError("ordering by posture needs a preferred posture: give posture", self.order)
        self.__dict__.update(derived)  # the class is frozen, and this is faster than three calls of object.__setattr__

    @property
    def needs_density(self) -> bool:
        """Whether log densities are needed."""
        return "density" in self.weights

    @property
    def seconds_factor(self) -> float:
        """Time to order n candidates, divided by n log2(n + 2) [s]. The time for log densities is excluded."""
        return sum(_EFFORTS[name].factor for name in self.weights if name in _EFFORTS)

    def rows(
        self,
        robot: Robot,
        found: Candidates,
        n: int,
        log_prob: FloatArray | None = None,
        position_only: bool = False,
    ) -> npt.NDArray[np.int64] | slice:
        """Return the rows of the best `n` candidates, the best first and invalid ones last.

        Parameters
        ----------
        robot : Robot
        found : Candidates
        n : int
        log_prob : (len(found),), optional
            Log densities; required if `needs_density`.
        position_only : bool
            Whether manipulability refers to the position alone.
        """
        kept = min(n, len(found)) if self.is_fair else len(found)
        valid = found.valid[:kept]
        is_valid = np.count_nonzero(valid) == kept
        if not self.weights and is_valid:
            return slice(kept if self.is_fair else n)
        log_prob = None if log_prob is None else log_prob[:kept]
        ranks = np.argsort(self.costs(robot, found.q[:kept], log_prob, position_only), kind="stable")
        return (ranks if is_valid else ranks[np.argsort(~valid[ranks], kind="stable")])[:n]

    def costs(
        self, robot: Robot, q: FloatArray, log_prob: FloatArray | None = None, position_only: bool = False
    ) -> FloatArray:
        """Return the cost (n,) of configurations (n, dof), which is lowest for the best. See `rows` for parameters."""
        weights = self.weights
        parts = []
        for name, weight in weights.items():
            began = time.perf_counter()
            parts.append(weight * self._cost(name, robot, q, log_prob, position_only))
            if name in _EFFORTS:
                _EFFORTS[name].took(len(q), time.perf_counter() - began)
        if len(parts) == 1:
            return parts[0]
        costs = np.zeros(len(q))
        for part, weight in zip(parts, weights.values(), strict=True):
            extent = np.ptp(part) if len(part) else 0.0
            costs += weight * (part - part.min()) / extent if extent > 0.0 else 0.0
        return costs

    def _cost(
        self, name: str, robot: Robot, q: FloatArray, log_prob: FloatArray | None, position_only: bool
    ) -> FloatArray:
        if name == "density":
            assert log_prob is not None
            return -log_prob
        if name == "distance":
            assert self.reference is not None
            return distance_to(robot, q, self.reference)
        if name == "posture":
            assert self.posture is not None
            return self.posture.costs(robot, q)
        if name == "manipulability":
            return -robot.manipulability(q, position_only)
        return -limit_margin(robot, q)


def check_order(order: Order) -> None:
    """Raise `ConfigurationError` if the value is not a valid order."""
    if isinstance(order, str) and order in ORDERS:
        return
    if not isinstance(order, str | Mapping):
        raise ConfigurationError(f"an order must be a name or a mapping of names to weights, got {order!r}", order)
    for name, weight in ({order: 1.0} if isinstance(order, str) else order).items():
        if name not in ORDERS:
            known = ", ".join(ORDERS) + did_you_mean(str(name), ORDERS)
            raise ConfigurationError(f"unknown order {name!r}; the orders are {known}", name)
        if not 0.0 <= as_number(weight) <= LARGEST:
            raise ConfigurationError(
                f"the weight of order {name!r} must be finite and at least 0, got {weight}", weight
            )


def limit_margin(robot: Robot, q: FloatArray) -> FloatArray:
    """Return the distance (n,) to the nearest joint limit, as a share of half the joint's range.

    The distance is 1 if all joints are in the middle of their ranges, and 0 at a limit. Continuous joints and fixed
    joints are ignored. If all joints are ignored, the distance is 1.
    """
    half = 0.5 * (robot.upper - robot.lower)
    counts = ~robot.continuous & (half > 0.0)
    if not counts.any():
        return np.ones(len(q))
    margin = np.minimum(q - robot.lower, robot.upper - q)[:, counts] / half[counts]
    return np.asarray(margin.min(axis=1))


AS_FOUND = Ordering(UNORDERED)
"""The order in which solutions were found."""
BY_DENSITY = Ordering("density")
