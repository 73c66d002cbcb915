"""What passes between the engine and the solvers of many poses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.ik.solutions import Outcome


class Batch(NamedTuple):
    """Poses that are answered in one call, and what they have in common."""

    poses: FloatArray  # (m, 4, 4), checked
    seeds: Sequence[int | None]  # (m,): seeds of their random numbers; None for fresh ones
    reference: FloatArray | None  # (dof,): configuration to be near to
    deadline: float  # time of `perf_counter` [s]
    n_threads: int


class Rows(NamedTuple):
    """Solutions of the poses of a batch."""

    q: FloatArray  # (n, dof), of all poses in turn
    errors: FloatArray  # (2, n) [m], [rad]
    counts: IntArray | None  # (m,): rows of each pose; None if there is only one pose
    outcomes: Sequence[Outcome | None]  # (m,); None for a pose that stays open and has no rows
    valid: BoolArray | None = None  # (n,); None if all are
    expert: npt.NDArray[np.uint32] | None = None  # (n,); None if there are none
    log_prob: FloatArray | None = None  # (n,) [nat]


class Solver(Protocol):
    """Solves many poses in one compiled call, prepared for one request."""

    def solve(self, batch: Batch) -> Rows:
        """Return solutions; poses may stay open for strategies that solve one pose at a time."""
        ...


def without_open(rows: Rows) -> Rows:
    """Return the rows of poses that are not open."""
    is_open = np.array([each is None for each in rows.outcomes])
    if rows.counts is None:
        return rows._replace(q=rows.q[:0], errors=rows.errors[:, :0]) if is_open[0] else rows
    if not is_open.any():
        return rows
    kept = np.repeat(~is_open, rows.counts)
    columns = (rows.valid, rows.expert, rows.log_prob)
    valid, expert, log_prob = (None if column is None else column[kept] for column in columns)
    counts = np.where(is_open, 0, rows.counts)
    return Rows(rows.q[kept], rows.errors[:, kept], counts, rows.outcomes, valid, expert, log_prob)
