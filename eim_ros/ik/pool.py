"""Configurations with what was measured of them, while they are chosen among."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Pool"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pool:
    """Configurations with what was measured of them, row by row."""

    positions: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.positions)

    def pick(self, rows: npt.NDArray[np.int64] | slice) -> Pool:
        return Pool(
            self.positions[rows],
            self.position_error[rows],
            self.orientation_error[rows],
            self.valid[rows],
            self.expert[rows],
        )

    def chosen(self) -> Pool:
        """The valid rows."""
        return self if self.valid.all() else self.pick(np.flatnonzero(self.valid))

    def joined(self, other: Pool) -> Pool:
        if not len(self) or not len(other):
            return other if len(other) else self
        return Pool(
            np.concatenate([self.positions, other.positions]),
            np.concatenate([self.position_error, other.position_error]),
            np.concatenate([self.orientation_error, other.orientation_error]),
            np.concatenate([self.valid, other.valid]),
            np.concatenate([self.expert, other.expert]),
        )

    def best(self) -> Pool:
        """The one row with the least error, 1 m counted as 1 rad."""
        if not len(self):
            return self
        return self.pick(np.array([np.argmin(self.position_error + self.orientation_error)]))
