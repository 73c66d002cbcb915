"""A set of solutions as places that stand for parts of it, and draws from distributions on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.completeness import FoundFamilies

__all__ = ["Drawn", "MeasuredSet", "effective_size"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Solutions drawn at random.

    Attributes
    ----------
    positions : (n, dof)
    log_prob : (n,)
        Log density of each, normalised on the set [nat].
    effective_size : float
        As many independent draws as these are worth.
    """

    positions: FloatArray
    log_prob: FloatArray
    effective_size: float


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """Places on a set.

    Attributes
    ----------
    positions : (n, dof)
        Those that satisfy the goal.
    log_mass : (n,)
        Log of the length, area, volume or number of solutions that each stands for.
    slices : (n,) of int, optional
        Which places were found together, where these are a sample of the set; None where the set was divided as a
        whole.
    families : FoundFamilies, optional
        Where the set is curves.
    is_late : bool
        Whether time was up before the sample was as large as wanted.
    is_fair : bool
        Whether places represent the set; not where time was up while it was divided.
    """

    positions: FloatArray
    log_mass: FloatArray
    slices: IntArray | None = None
    families: FoundFamilies | None = None
    is_late: bool = False
    is_fair: bool = True

    def draw(self, log_density: FloatArray, n: int, rng: np.random.Generator) -> Drawn | None:
        """n places, by log densities on the set (n_places,), which need not be normalised; None where there are none.

        From a set that was divided they are independent, and one may come more than once. From a sample they are spread
        over it (systematic resampling, Kitagawa 1996): of no place come many more than its share.
        """
        log_weights = self.log_mass + log_density
        log_total = np.logaddexp.reduce(log_weights)  # scipy's logsumexp takes as long to import as all of this package
        if not np.isfinite(log_total):
            return None
        weights = np.exp(log_weights - log_total)
        if self.slices is None:
            rows = rng.choice(len(weights), size=n, p=weights / weights.sum())
            worth = float(n)
        else:
            ends = np.cumsum(weights)
            rows = np.searchsorted(ends, (np.arange(n) + rng.random()) / n * ends[-1], side="right")
            rows = rng.permutation(np.minimum(rows, len(weights) - 1))
            with np.errstate(divide="ignore"):
                size = effective_size(np.log(np.bincount(self.slices, weights)))
            worth = n * size / (n + size)  # variances of draws from the slices, and of these, add up
        return Drawn(self.positions[rows], log_density[rows] - log_total, worth)


def effective_size(log_weights: FloatArray) -> float:
    """(sum w)^2 / sum w^2 of the weights of slices, whose places are found together (Kong 1992); 0 of none."""
    log_sums = [np.logaddexp.reduce(power * log_weights) for power in (1, 2)]
    return float(np.exp(2.0 * log_sums[0] - log_sums[1])) if np.isfinite(log_sums[0]) else 0.0
