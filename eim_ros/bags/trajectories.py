"""Motions from trajectory messages: each is one, with times of its own, whenever it came.

Between its points a trajectory is taken to be straight in the joints, as controllers take one without velocities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.data.joint_matching import JointMatcher
from eim_ros.data.resampling import interpolated

__all__ = ["TRAJECTORY", "Timeline", "trajectory_rows"]

TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
PERIOD = 0.01  # [s] of the rows that are made of a trajectory
APART = 1_000_000_000  # [ns] by which trajectories that were sent over each other are set apart

Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


def trajectory_rows(message: Any, matcher: JointMatcher) -> tuple[Rows | None, str]:
    """Times from its start (n,) [ns] and positions (n, n_joints) of a trajectory, or why it is none."""
    times, positions = [], []
    for point in message.points:
        values, problem = matcher.match(message.joint_names, point.positions)
        if values is None:
            return None, problem
        times.append(point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec)
        positions.append(values)
    if len(times) < 2:
        return None, "of less than 2 points"
    if (np.diff(times) <= 0.0).any():
        return None, "whose points are not in the order of their times"
    moments = np.unique(np.concatenate([np.arange(times[0], times[-1], PERIOD), times]))
    moments = moments[np.diff(moments, prepend=-1.0) > 1e-6]
    rows = interpolated(np.array(times), np.array(positions), moments, "linear")
    return (np.round(1e9 * moments).astype(np.int64), rows), ""


class Timeline:
    """Trajectories one after the other, each where it came or, if the one before lasts longer, soon after that."""

    def __init__(self) -> None:
        self.times: list[npt.NDArray[np.int64]] = []
        self.values: list[npt.NDArray[np.float64]] = []
        self.arrivals: list[int] = []
        self.begins: list[int] = []

    def add(self, arrival: int, rows: Rows) -> None:
        """One that came [ns] then."""
        begin = max(arrival, int(self.times[-1][-1]) + APART if self.times else arrival)
        self.arrivals.append(arrival)
        self.begins.append(begin)
        self.times.append(begin + rows[0] - rows[0][0])
        self.values.append(rows[1])

    def labels(self, told: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Begin of each, and the label that was told last when it came."""
        known = sorted(told)
        moments = [moment for moment, _ in known]
        rows = np.searchsorted(moments, self.arrivals, side="right") - 1
        names = [known[row][1] if row >= 0 else "" for row in rows]
        return list(zip(self.begins, names, strict=True))
