"""Where vehicles drive, by a kernel density of the positions of test vehicles (thesis 6.5).

Where hardly any vehicle has been seen is off the road: a position whose density is below that of all but a given share
of the positions of other vehicles. The density is that of normal kernels, binned: counts on a fine grid, blurred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from eim_ros.errors import DataError

__all__ = ["RoadMap"]

Array = npt.NDArray[np.float64]

BINS_PER_BANDWIDTH = 3.0
REACH = 4.0  # bandwidths beyond which a kernel is cut off
MOST_BINS = 4000  # along either axis


@dataclass(frozen=True)
class RoadMap:
    """Density on a grid.

    Attributes
    ----------
    origin : array (2,)
        Corner of the first cell [m].
    cell : float
        Width of a cell [m].
    density : array (n_x, n_y)
        [1/m^2]
    threshold : float
        A position of lower density is off the road [1/m^2].
    """

    origin: Array
    cell: float
    density: Array
    threshold: float

    @classmethod
    def from_positions(cls, positions: Array, others: Array, bandwidth: float, share_off: float) -> RoadMap:
        """Map of positions.

        Parameters
        ----------
        positions : array (n, 2)
            Of the test vehicles [m].
        others : array (m, 2)
            Of vehicles that are not in the test [m]; they set the threshold.
        bandwidth : float
            Standard deviation of the kernels [m].
        share_off : float
            Share of the others that counts as off the road.
        """
        if not len(positions) or not len(others):
            raise DataError("a road map needs positions of test vehicles and of others", (len(positions), len(others)))
        cell = bandwidth / BINS_PER_BANDWIDTH
        origin = positions.min(0) - REACH * bandwidth
        n_bins = np.ceil((positions.max(0) + REACH * bandwidth - origin) / cell).astype(int)
        if n_bins.max() > MOST_BINS:
            raise DataError(
                f"a bandwidth of {bandwidth:g} m is too narrow for an area of {n_bins.max() * cell:.0f} m", bandwidth
            )
        edges = [start + cell * np.arange(n + 1) for start, n in zip(origin, n_bins, strict=True)]
        counts = np.histogram2d(positions[:, 0], positions[:, 1], bins=edges)[0]
        blurred = gaussian_filter(counts, BINS_PER_BANDWIDTH, mode="constant", truncate=REACH)
        map_without = cls(origin, cell, blurred / (len(positions) * cell**2), 0.0)
        threshold = float(np.quantile(map_without.density_at(others), share_off))
        return cls(origin, cell, map_without.density, max(threshold, np.finfo(float).tiny))

    def density_at(self, positions: Array) -> Array:
        """Density at positions (..., 2) [1/m^2], (...); zero beyond the grid."""
        index = np.floor((positions - self.origin) / self.cell)
        inside = np.all((index >= 0) & (index < np.array(self.density.shape)), axis=-1)
        rows, columns = np.where(inside[..., None], index, 0).astype(int).transpose(-1, *range(index.ndim - 1))
        return np.where(inside, self.density[rows, columns], 0.0)

    def is_off(self, positions: Array) -> npt.NDArray[np.bool_]:
        """Whether positions (..., 2) [m] are off the road, (...)."""
        return np.asarray(self.density_at(positions) < self.threshold)
