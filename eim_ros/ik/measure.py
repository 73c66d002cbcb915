"""Length, area and volume on the set of solutions, each joint scaled by its range: turns and slides count alike.

In u = q / r, with ranges r of the robot's joints, solutions of a pose have the dimension of the null space of the
Jacobian J_u = J diag(r). Where joints H are held, curves remain, and each piece of them stands for a part of the set
(the co-area formula, Federer 1969, 3.2.12):

    int_set g du = int du_H int_curve g / |du_H on the set| dl,
    |du_H on the set|^2 = det(J_R J_R^T) / det(J_u J_u^T),

with J_R the columns of J_u of the other joints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal

__all__ = ["ScaledMeasure"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

POSITION_ROWS, POSE_ROWS = 3, 6


@dataclass(frozen=True, eq=False)
class ScaledMeasure:
    """Of the solutions of a goal.

    Attributes
    ----------
    goal : Goal
    ranges : (dof,)
        By which joints are divided [rad, m]: those of the robot, whatever narrower limits the goal has.
    moving : (dof,) of bool
        Joints that the goal leaves free.
    n_rows : int
        Of the Jacobian: 3 where any orientation will do, else 6.
    """

    goal: Goal
    ranges: FloatArray
    moving: BoolArray
    n_rows: int

    @classmethod
    def of(cls, goal: Goal) -> ScaledMeasure:
        tolerances = goal.constraints.tolerances
        is_turned = tolerances is not None and bool((np.asarray(tolerances)[3:] >= math.pi).all())
        n_rows = POSITION_ROWS if goal.position_only or is_turned else POSE_ROWS
        return cls(goal, goal.robot.upper - goal.robot.lower, goal.lower < goal.upper, n_rows)

    @property
    def n_free(self) -> int:
        """Dimensions of the solutions of one pose; they may be negative."""
        return int(np.count_nonzero(self.moving)) - self.n_rows

    def jacobians(self, positions: FloatArray) -> FloatArray:
        """J_u (n, n_rows, n_moving) of configurations (n, dof)."""
        of = self.goal.robot.chain.jacobian(positions)[:, : self.n_rows]
        return np.asarray((of * self.ranges)[:, :, self.moving])

    def log_length(self, positions: FloatArray) -> FloatArray:
        """Log (n,) of the length of curves for each rad or m of them, where they are all of the set."""
        return self._log_length(positions, np.zeros(positions.shape, np.bool_))

    def log_share(self, positions: FloatArray, held: BoolArray) -> FloatArray:
        """The same of curves on which joints are held, (n, dof) of bool, times |du_H on the set|, the weight of one way
        to hold joints among all of as many: the squares of these add up to the dimension of the set.
        """
        rest = np.where(self.moving & ~held, self.ranges, 0.0)
        of_set = self._log_det(positions, np.where(self.moving, self.ranges, 0.0))
        return self._log_length(positions, held) + 0.5 * _difference(self._log_det(positions, rest), of_set)

    def log_rate(self, positions: FloatArray, rates: FloatArray, is_open: BoolArray) -> FloatArray:
        """Log (n,) of how fast open offsets change across the set of solutions, see `ToleranceBox.rates`.

        Parameters
        ----------
        positions : (n, dof)
        rates : (n, 6, 6)
            From velocities of the tip to those of the offsets.
        is_open : (6,) of bool
            Offsets that have a tolerance; the others are zero everywhere.
        """
        rows = slice(self.n_rows)
        of_offsets = rates[:, rows, rows] @ self.jacobians(positions)
        exact = of_offsets[:, ~is_open[rows]]
        with np.errstate(divide="ignore", invalid="ignore"):
            grams = (np.linalg.slogdet(each @ each.transpose(0, 2, 1))[1] for each in (of_offsets, exact))
            return np.asarray(0.5 * (next(grams) - next(grams)))

    def _log_length(self, positions: FloatArray, held: BoolArray) -> FloatArray:
        scales = np.where(self.moving & ~held, self.ranges, 0.0)
        scaled, plain = self._log_det(positions, scales), self._log_det(positions, np.sign(scales))
        return np.asarray(0.5 * _difference(scaled, plain) - np.log(np.where(scales > 0.0, scales, 1.0)).sum(axis=-1))

    def _log_det(self, positions: FloatArray, scales: FloatArray) -> FloatArray:
        weights = np.broadcast_to(scales, positions.shape) ** 2
        return self.goal.robot.chain.gram_log_dets(positions, weights, self.n_rows)


def _difference(a: FloatArray, b: FloatArray) -> FloatArray:
    """a - b (n,) of log determinants; minus infinity where the arm is singular: no part of a surface."""
    return np.where(np.isfinite(b), a, -np.inf) - np.where(np.isfinite(b), b, 0.0)
