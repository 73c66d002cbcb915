"""Joint trajectories of a planar arm: checked against it once, evaluated at any time.

Between two points a joint follows a line, or a cubic where the points have velocities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.errors import EimError
from eim_ros.planar.arm import PlanarArm

__all__ = ["Trajectory", "TrajectoryError", "checked_trajectory"]

Array = npt.NDArray[np.float64]

SUBDIVISION = 16  # parts of a segment at whose ends a cubic is checked
ROUNDING = 1e-9  # share by which a limit may be passed: rounding of whoever computed the trajectory


class TrajectoryError(EimError):
    """A trajectory names other joints, leaves the limits, or its times or values make no sense."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Points of all joints of an arm, in its order.

    Attributes
    ----------
    times : (n_points,) float64
        From the start of the trajectory [s], ascending.
    positions : (n_points, n_links) float64
        [rad].
    velocities : (n_points, n_links) float64 or None
        [rad/s].
    """

    times: Array
    positions: Array
    velocities: Array | None = None

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return float(self.times[-1])

    def at(self, time: float) -> Array:
        """Positions (n_links,) [rad] at a time [s]; those of the first or last point before and after."""
        after = int(np.searchsorted(self.times, time, side="right"))
        if after == 0 or after == len(self.times):
            return np.asarray(self.positions[min(after, len(self.times) - 1)])
        begin, span = self.times[after - 1], self.times[after] - self.times[after - 1]
        return self._within(after - 1, (time - begin) / span, span)

    def _within(self, segment: int, share: float, span: float) -> Array:
        first, last = self.positions[segment : segment + 2]
        if self.velocities is None:
            return np.asarray(first + share * (last - first))
        leaving, arriving = span * self.velocities[segment : segment + 2]
        s2, s3 = share**2, share**3
        cubic = (2 * s3 - 3 * s2 + 1) * first + (s3 - 2 * s2 + share) * leaving
        return np.asarray(cubic + (3 * s2 - 2 * s3) * last + (s3 - s2) * arriving)

    def starting_from(self, q: Array) -> Trajectory:
        """The same, on the way from q (n_links,) until the first point where that is not at time 0."""
        if self.times[0] <= 0.0:
            return self
        still = None if self.velocities is None else np.vstack([np.zeros_like(q), self.velocities])
        return Trajectory(np.concatenate([[0.0], self.times]), np.vstack([q, self.positions]), still)


def checked_trajectory(
    arm: PlanarArm,
    joint_names: Sequence[str],
    times: Sequence[float],
    positions: Sequence[Sequence[float]],
    velocities: Sequence[Sequence[float]] = (),
) -> Trajectory:
    """Trajectory from the parts of a message; `TrajectoryError` says why one is refused.

    Parameters
    ----------
    arm : PlanarArm
    joint_names : sequence of str
        All joints of the arm, in any order: that of the columns.
    times : sequence of float
        From the start [s], ascending, not negative.
    positions : sequence of sequence of float
        One row for each time, a column for each joint [rad].
    velocities : sequence of sequence of float
        The same [rad/s]; empty, or empty rows, for none.
    """
    order = _order(arm, list(joint_names))
    n_points = len(times)
    if n_points == 0 or len(positions) != n_points:
        raise TrajectoryError(f"a trajectory needs points, and a time for each, got {n_points} times", n_points)
    when = np.array(times, dtype=np.float64)
    if not np.isfinite(when).all() or when[0] < 0.0 or (np.diff(when) <= 0.0).any():
        raise TrajectoryError("the times of a trajectory must ascend from 0 or later", when.tolist())
    where = _table("positions", positions, arm)[:, order]
    given = [len(row) > 0 for row in velocities]
    if any(given) and (len(given) != n_points or not all(given)):
        raise TrajectoryError("either all points of a trajectory have velocities or none", sum(given))
    speed = _table("velocities", velocities, arm)[:, order] if any(given) else None
    trajectory = Trajectory(when, where, speed)
    _check_limits(arm, trajectory)
    return trajectory


def _order(arm: PlanarArm, names: list[str]) -> list[int]:
    """Columns of the arm's joints."""
    missing, unknown = sorted(set(arm.joint_names) - set(names)), sorted(set(names) - set(arm.joint_names))
    if missing or unknown or len(names) != len(set(names)):
        said = [f"{what} {', '.join(some)}" for what, some in (("lacks", missing), ("names unknown", unknown)) if some]
        raise TrajectoryError(f"the trajectory {' and '.join(said) or 'names a joint twice'}", names)
    return [names.index(name) for name in arm.joint_names]


def _table(what: str, rows: Sequence[Sequence[float]], arm: PlanarArm) -> Array:
    for number, row in enumerate(rows):
        if len(row) != arm.n_links:
            raise TrajectoryError(f"point {number} has {len(row)} {what} for {arm.n_links} joints", number)
    table = np.array([list(row) for row in rows], dtype=np.float64)
    if not np.isfinite(table).all():
        raise TrajectoryError(f"{what} of a trajectory must be finite", what)
    return table


def _check_limits(arm: PlanarArm, trajectory: Trajectory) -> None:
    when = trajectory.times
    if trajectory.velocities is not None:
        shares = np.arange(SUBDIVISION) / SUBDIVISION
        when = np.append((when[:-1, None] + shares * np.diff(when)[:, None]).ravel(), when[-1])
    where = np.array([trajectory.at(time) for time in when])
    most = np.abs(where)
    if (most > arm.joint_limit * (1.0 + ROUNDING)).any():
        row, joint = np.unravel_index(most.argmax(), most.shape)
        raise TrajectoryError(
            f"{arm.joint_names[joint]} would be at {where[row, joint]:.4g} rad after {when[row]:.4g} s; its limit is "
            f"{arm.joint_limit:.4g} rad",
            float(where[row, joint]),
        )
    speed = np.abs(np.diff(where, axis=0)) / np.diff(when)[:, None]
    if (speed > arm.velocity_limit * (1.0 + ROUNDING)).any():
        row, joint = np.unravel_index(speed.argmax(), speed.shape)
        raise TrajectoryError(
            f"{arm.joint_names[joint]} would move at {speed[row, joint]:.4g} rad/s after {when[row]:.4g} s; its limit "
            f"is {arm.velocity_limit:.4g} rad/s",
            float(speed[row, joint]),
        )
