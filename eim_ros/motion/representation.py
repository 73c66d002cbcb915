"""Motions as vectors: the weights of all joints stacked, joint by joint, w = [w_1 ... w_J] (ProMP).

Positions at a phase s are linear in them, y(s) = A(s) w with A(s) = diag(f(s)', ..., f(s)'). The weights of a motion
follow by ridge regression on a grid of phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eim_ros.errors import DataError
from eim_ros.motion.basis import Basis

__all__ = ["Representation"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Representation:
    """Maps motions to weights and back.

    Attributes
    ----------
    basis : Basis
        Of every joint.
    joint_names : tuple of str
    n_points : int
        Points of the grid of phases on which weights are fitted.
    ridge : float
        Penalty of the weights' squares, relative to the mean square error of the positions.
    """

    basis: Basis
    joint_names: tuple[str, ...]
    n_points: int
    ridge: float = 1e-10

    @property
    def n_joints(self) -> int:
        return len(self.joint_names)

    @property
    def n_weights(self) -> int:
        return self.n_joints * self.basis.n_functions

    @cached_property
    def grid(self) -> FloatArray:
        """Phases (n_points,), equally spaced from 0 to 1."""
        return np.linspace(0.0, 1.0, self.n_points)

    def weights(self, positions: FloatArray) -> FloatArray:
        """Weights (n, n_weights) of motions (n, n_points, n_joints) on the grid."""
        fitted = np.einsum("bp,npj->njb", self._regression, positions)
        return np.ascontiguousarray(fitted.reshape(len(positions), self.n_weights))

    def positions(self, weights: FloatArray, phases: FloatArray) -> FloatArray:
        """Motions (n, n_phases, n_joints) of weights (n, n_weights)."""
        by_joint = weights.reshape(len(weights), self.n_joints, self.basis.n_functions)
        return np.asarray(np.einsum("pb,njb->npj", self.basis(phases), by_joint))

    def residual(self, positions: FloatArray) -> FloatArray:
        """Root mean square difference (n,) [rad or m] of motions on the grid to what the basis can represent."""
        difference = positions - self.positions(self.weights(positions), self.grid)
        return np.asarray(np.sqrt(np.square(difference).mean(axis=(1, 2))))

    def design(self, phase: float, joints: Sequence[int]) -> FloatArray:
        """Rows (len(joints), n_weights) of A at a phase, for some joints by their numbers."""
        values = self.basis(np.array([phase]))[0]
        rows = np.zeros((len(joints), self.n_joints, len(values)))
        rows[np.arange(len(joints)), list(joints)] = values
        return rows.reshape(len(joints), self.n_weights)

    def resampled(self, times: FloatArray, positions: FloatArray) -> FloatArray:
        """One motion (n_points, n_joints) on the grid, by linear interpolation.

        Parameters
        ----------
        times : (n,)
            Strictly increasing [s], at least two; from any start.
        positions : (n, n_joints)
        """
        if len(times) < 2 or not (np.diff(times) > 0.0).all():
            raise DataError("a motion needs at least 2 points at increasing times", times)
        phases = (times - times[0]) / (times[-1] - times[0])
        return np.stack([np.interp(self.grid, phases, column) for column in positions.T], axis=1)

    @cached_property
    def _regression(self) -> FloatArray:
        """Matrix (n_functions, n_points) from the positions of a joint on the grid to its weights."""
        design, n = self.basis(self.grid), self.basis.n_functions
        penalty = np.sqrt(self.ridge * self.n_points) * np.eye(n)
        wanted = np.concatenate([np.eye(self.n_points), np.zeros((n, self.n_points))])
        return np.asarray(np.linalg.lstsq(np.concatenate([design, penalty]), wanted, rcond=None)[0])
