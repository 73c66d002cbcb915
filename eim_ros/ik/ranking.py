"""In which order solutions come: by density, distance, posture, manipulability, limits, or a mix of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, did_you_mean
from eim_ros.ik.pool import Pool
from eim_ros.ik.posture import Posture
from eim_ros.ik.selection import distance_to
from eim_ros.kinematics import Robot
from eim_ros.numerics.arguments import LARGEST, as_number

if TYPE_CHECKING:
    from eim_ros.ik.request import SampleRequest

__all__ = ["ORDERS", "UNORDERED", "Order", "Ranking", "check_order", "limit_margin"]

FloatArray = npt.NDArray[np.float64]
Order: TypeAlias = str | Mapping[str, float]

UNORDERED = "none"
ORDERS = ("density", "distance", "posture", "manipulability", "limits", UNORDERED)


@dataclass(frozen=True, eq=False)
class Ranking:
    """An order of configurations.

    Attributes
    ----------
    order : str or mapping of str to float
        "density": likeliest under the model first; "distance": nearest to `reference` first; "posture": least cost of
        `posture` first; "manipulability": farthest from singular first; "limits": farthest from a joint limit first;
        "none": as they were found, a fair sample of what the search finds. A mapping weighs several of them: each is
        scaled to 0 (best) to 1 (worst) among the configurations at hand, and the weighted sum decides.
    reference : (dof,), optional
        Configuration for "distance".
    position_only : bool
        Whether manipulability is that of the position alone.
    posture : Posture, optional
        For "posture".
    """

    order: Order
    reference: FloatArray | None = None
    position_only: bool = False
    posture: Posture | None = None

    def __post_init__(self) -> None:
        check_order(self.order)
        if "distance" in self.weights and self.reference is None:
            raise ConfigurationError("ordering by distance needs a configuration to be near", self.order)
        if "posture" in self.weights and self.posture is None:
            raise ConfigurationError("ordering by posture needs a preferred posture", self.order)

    @classmethod
    def of(cls, wanted: SampleRequest, prefers: bool) -> Ranking:
        """The order that a request asks for, or the natural one, of a model that prefers some configurations or not."""
        natural = "density" if prefers else UNORDERED
        natural = natural if wanted.near is None else "distance"
        preferred = natural if wanted.posture is None else "posture"
        order = preferred if wanted.order is None else wanted.order
        return cls(order, wanted.reference, bool(wanted.position_only), wanted.preference)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each criterion."""
        return {self.order: 1.0} if isinstance(self.order, str) else dict(self.order)

    @property
    def is_fair(self) -> bool:
        """Whether the first solutions found are to be kept whatever their rank: else the sample would be biased."""
        return set(self.weights) <= {"density", UNORDERED}

    @property
    def criterion(self) -> str | None:
        """The only one that counts, empty where none does; None where there are several."""
        if self.order == UNORDERED:
            return ""
        criteria = tuple(self._criteria)
        return None if len(criteria) > 1 else "".join(criteria)

    @property
    def needs_density(self) -> bool:
        """Whether log densities are needed."""
        return "density" in self._criteria

    def rows(
        self, robot: Robot, pool: Pool, n: int, log_prob: FloatArray | None = None
    ) -> npt.NDArray[np.int64] | slice:
        """Rows of the best n of a pool, best first, those that are not valid last.

        Parameters
        ----------
        robot : Robot
        pool : Pool
        n : int
        log_prob : (len(pool),), optional
            Log densities; needed where `needs_density`.
        """
        kept = min(n, len(pool)) if self.is_fair else len(pool)
        valid = pool.valid[:kept]
        if not self._criteria and valid.all():
            return slice(kept if self.is_fair else n)
        ranks = np.argsort(
            self.costs(robot, pool.positions[:kept], None if log_prob is None else log_prob[:kept]), kind="stable"
        )
        return ranks[np.argsort(~valid[ranks], kind="stable")][:n]

    @property
    def _criteria(self) -> dict[str, float]:
        """Those that count, with their weights."""
        if self.order == UNORDERED:
            return {}
        return {name: weight for name, weight in self.weights.items() if name != UNORDERED and weight > 0.0}

    def costs(self, robot: Robot, positions: FloatArray, log_prob: FloatArray | None = None) -> FloatArray:
        """Cost (n,) of configurations (n, dof), best lowest; log densities (n,) are needed where `needs_density`."""
        weights = self._criteria
        parts = [weight * self._cost(name, robot, positions, log_prob) for name, weight in weights.items()]
        if len(parts) == 1:
            return parts[0]
        costs = np.zeros(len(positions))
        for part, weight in zip(parts, weights.values(), strict=True):
            extent = np.ptp(part) if len(part) else 0.0
            costs += weight * (part - part.min()) / extent if extent > 0.0 else 0.0
        return costs

    def _cost(self, name: str, robot: Robot, positions: FloatArray, log_prob: FloatArray | None) -> FloatArray:
        if name == "density":
            assert log_prob is not None
            return -log_prob
        if name == "distance":
            assert self.reference is not None
            return distance_to(robot, positions, self.reference)
        if name == "posture":
            assert self.posture is not None
            return self.posture.costs(robot, positions)
        if name == "manipulability":
            return -robot.manipulability(positions, self.position_only)
        return -limit_margin(robot, positions)


def check_order(order: Order) -> None:
    """Refuse what is no order: `ConfigurationError`."""
    if isinstance(order, str) and order in ORDERS:
        return
    if not isinstance(order, str | Mapping):
        raise ConfigurationError(f"an order is a name or a mapping of names to weights, got {order!r}", order)
    for name, weight in ({order: 1.0} if isinstance(order, str) else order).items():
        if name not in ORDERS:
            known = ", ".join(ORDERS) + did_you_mean(str(name), ORDERS)
            raise ConfigurationError(f"unknown order {name!r}; known: {known}", name)
        if not 0.0 <= as_number(weight) <= LARGEST:
            raise ConfigurationError(f"the weight of order {name!r} must be finite and not negative", weight)


def limit_margin(robot: Robot, positions: FloatArray) -> FloatArray:
    """Distance (n,) to the nearest joint limit, as a share of half the joint's range: 1 amid all ranges, 0 at a limit.

    Continuous joints, and such as cannot move, have none; without any other joint it is 1.
    """
    half = 0.5 * (robot.upper - robot.lower)
    counts = ~robot.continuous & (half > 0.0)
    if not counts.any():
        return np.ones(len(positions))
    margin = np.minimum(positions - robot.lower, robot.upper - positions)[:, counts] / half[counts]
    return np.asarray(margin.min(axis=1))
