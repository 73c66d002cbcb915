"""Motions as vectors of weights of basis functions (ProMP; Paraschos et al. 2013), and their latent coordinates.

The position of a joint is y(s) = sum_b w_b f_b(s). The phase s is 0 at the start and 1 at the end of the motion, so the
weights do not depend on the duration. Two kinds of basis functions are available:

    gaussian f_b(s) = g_b(s) / sum_c g_c(s), g_b(s) = exp(-(s - c_b)^2 / 2 h^2) via-points f_b is the natural cubic
    spline that is 1 at s_b and 0 at all other s_c; w_b is the position at s_b

Both kinds sum to one at every phase, so a joint at rest has equal weights. `Representation` stacks the weights of all
joints. `LatentSpace` reduces them to a few coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import checked_whole, is_number
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.models.gaussian import LOG_TWO_PI, triangular_factor

BASES = ("gaussian", "via-points")


@dataclass(frozen=True)
class Basis:
    """Basis functions of the phase.

    Attributes
    ----------
    kind : str
        "gaussian" or "via-points".
    n_functions : int
        At least 1.
    width : float
        Standard deviation h of the Gaussians, in units of the distance between their centres.

    Examples
    --------
    >>> from eim_ros.motion import Basis
    >>> Basis("via-points", n_functions=3)([0.0, 0.25, 0.5]).round(3).tolist()
    [[1.0, 0.0, 0.0], [0.406, 0.688, -0.094], [0.0, 1.0, 0.0]]
    """

    kind: str = "gaussian"
    n_functions: int = 10
    width: float = 0.7

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in BASES:
            raise ConfigurationError(f"a basis must be one of {', '.join(BASES)}, got {self.kind!r}", self.kind)
        checked_whole(self.n_functions, 1, "the number of functions of a basis")
        if not (is_number(self.width) and 0.0 < self.width < np.inf):
            raise ConfigurationError(f"the width of basis functions must be positive, got {self.width}", self.width)

    def __call__(self, phase: npt.ArrayLike) -> FloatArray:
        """Return the values (n, n_functions) at phases (n,) in [0, 1]."""
        phases = np.asarray(phase, dtype=np.float64)
        if self.n_functions == 1:
            return np.ones((len(phases), 1))
        return self._gaussians(phases) if self.kind == "gaussian" else self._splines(phases)

    @property
    def centers(self) -> FloatArray:
        """Phases of the centres (n_functions,).

        If there are more than three Gaussians, one centre lies before the start and one after the end of the motion.
        """
        n = self.n_functions
        if self.kind == "gaussian" and n > 3:
            return np.asarray((np.arange(n) - 1.0) / (n - 3.0), dtype=np.float64)
        return np.linspace(0.0, 1.0, n)

    def to_mapping(self) -> dict[str, Any]:
        """Return a JSON-compatible mapping; `Basis(**mapping)` is the inverse."""
        return {"kind": self.kind, "n_functions": self.n_functions, "width": self.width}

    def _gaussians(self, phases: FloatArray) -> FloatArray:
        centers = self.centers
        deviation = self.width * (centers[1] - centers[0])
        exponent = -0.5 * ((phases[:, None] - centers) / deviation) ** 2
        value = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return np.asarray(value / value.sum(axis=1, keepdims=True))

    def _splines(self, phases: FloatArray) -> FloatArray:
        spline = CubicSpline(self.centers, np.eye(self.n_functions), bc_type="natural")
        return np.asarray(spline(phases), dtype=np.float64)


@dataclass(frozen=True)
class Representation:
    """Linear map between motions and weights.

    The weights of all joints are stacked joint by joint, w = [w_1 ... w_J]. Positions at a phase s are linear in the
    weights: y(s) = A(s) w with A(s) = diag(f(s)', ..., f(s)'). Ridge regression on a grid of phases gives the weights
    of a motion.

    Attributes
    ----------
    basis : Basis
        Basis functions of every joint.
    joint_names : tuple of str
    n_points : int
        Number of phases in the grid on which weights are computed.
    ridge : float
        Penalty on the squared weights. The penalty is relative to the mean square error of the positions.

    Examples
    --------
    Weights of a motion that moves one joint from 0 to 1 rad at constant velocity:

    >>> import numpy as np
    >>> from eim_ros.motion import Basis, Representation
    >>> representation = Representation(Basis("via-points", n_functions=3), ("elbow",), n_points=11)
    >>> weights = representation.weights(np.linspace(0.0, 1.0, 11).reshape(1, 11, 1))
    >>> (weights.round(3) + 0.0).tolist()
    [[0.0, 0.5, 1.0]]
    >>> representation.positions(weights, np.array([0.75])).round(3).tolist()
    [[[0.75]]]
    """

    basis: Basis
    joint_names: tuple[str, ...]
    n_points: int
    ridge: float = 1e-12

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
        """Return the weights (n, n_weights) of motions (n, n_points, n_joints) on the grid."""
        fitted = np.einsum("bp,npj->njb", self._regression, positions)
        return np.ascontiguousarray(fitted.reshape(len(positions), self.n_weights))

    def positions(self, weights: FloatArray, phases: FloatArray) -> FloatArray:
        """Return the motions (n, n_phases, n_joints) with weights (n, n_weights)."""
        by_joint = weights.reshape(len(weights), self.n_joints, self.basis.n_functions)
        return np.asarray(np.einsum("pb,njb->npj", self.basis(phases), by_joint))

    def residual(self, positions: FloatArray) -> FloatArray:
        """Return the root mean square error (n,) [rad or m] of the basis for motions on the grid."""
        difference = positions - self.positions(self.weights(positions), self.grid)
        return np.asarray(np.sqrt(np.square(difference).mean(axis=(1, 2))))

    def design(self, phase: float, joints: Sequence[int]) -> FloatArray:
        """Return the rows (len(joints), n_weights) of A at a phase, for the joints with these indices."""
        values = self.basis(np.array([phase]))[0]
        rows = np.zeros((len(joints), self.n_joints, len(values)))
        rows[np.arange(len(joints)), list(joints)] = values
        return rows.reshape(len(joints), self.n_weights)

    def resampled(self, times: FloatArray, positions: FloatArray) -> FloatArray:
        """Resample positions (n, n_joints) at increasing times (n,) [s] to the grid by linear interpolation."""
        if len(times) < 2 or not (np.diff(times) > 0.0).all():
            raise DataError("a motion needs at least 2 points at increasing times", times)
        phases = (times - times[0]) / (times[-1] - times[0])
        return np.stack([np.interp(self.grid, phases, column) for column in positions.T], axis=1)

    @cached_property
    def _regression(self) -> FloatArray:
        """Matrix (n_functions, n_points) that maps the positions of a joint on the grid to its weights."""
        design, n = self.basis(self.grid), self.basis.n_functions
        penalty = np.sqrt(self.ridge * self.n_points) * np.eye(n)
        wanted = np.concatenate([np.eye(self.n_points), np.zeros((n, self.n_points))])
        return np.asarray(np.linalg.lstsq(np.concatenate([design, penalty]), wanted, rcond=None)[0])


@dataclass(frozen=True, eq=False)
class LatentSpace:
    """Probabilistic principal components of the weights (Tipping and Bishop 1999).

    A few whitened coordinates z represent many weights:

        w = m + V [S z; sigma e],   z ~ a mixture,   e ~ N(0, I)

    The columns of V are the principal axes of the demonstrated weights. S contains the standard deviations along the
    first axes. The entries of sigma are the standard deviations along the other axes, shrunk towards their mean. The
    density of w is proper in all directions. Therefore, a motion outside the subspace of the demonstrations is
    unlikely, even if its projection onto this subspace is likely.
    """

    center: Tensor  # m (n_weights,), mean
    axes: Tensor  # V (n_weights, n_weights), with orthonormal columns
    scales: Tensor  # S (n_weights,), followed by sigma for each of the other axes
    n_latent: int  # length of z

    @classmethod
    def from_weights(cls, weights: Tensor, share: float, most: int, floor: float) -> LatentSpace:
        """Compute the latent space of demonstrated weights (n, n_weights).

        The vector z explains at least `share` of the variance, but has at most `most` entries. `floor` is the minimum
        standard deviation of any axis [rad or m].
        """
        center = weights.mean(0)
        triangle = torch.linalg.qr(weights - center, mode="r").R  # has at most n_weights rows
        _, singular, rows = torch.linalg.svd(triangle, full_matrices=True)
        variances = weights.new_zeros(weights.shape[1])
        variances[: len(singular)] = singular.square() / len(weights)
        explained = variances.cumsum(0) / variances.sum().clamp_min(torch.finfo(variances.dtype).tiny)
        enough = int((explained < share).sum()) + 1
        n_latent = max(1, min(enough, most, len(variances)))
        rest = variances[n_latent:]
        if len(rest):  # few motions determine an axis poorly; shrink to the mean, which counts as n_weights motions
            n, n_weights = weights.shape
            unbiased = rest * (n / max(n - 1 - n_latent, 1))  # degrees of freedom without the mean and z
            rest = (n * unbiased + n_weights * unbiased.mean()) / (n + n_weights)
        squares = torch.cat([variances[:n_latent], rest])
        return cls(center, rows.mT.contiguous(), squares.sqrt().clamp_min(floor), n_latent)

    def coordinates(self, weights: Tensor) -> Tensor:
        """Return the coordinates [z, e] (n, n_weights) of weights (n, n_weights)."""
        return (weights - self.center) @ self.axes / self.scales

    def log_prob(self, mixture: MixtureOfExperts, context: Tensor, weights: Tensor) -> Tensor:
        """Return the log density (n,) [nat] of weights (n, n_weights) under a mixture of z given the contexts."""
        coordinates = self.coordinates(weights)
        latent, rest = coordinates[:, : self.n_latent], coordinates[:, self.n_latent :]
        of_rest = -0.5 * (rest.square().sum(-1) + rest.shape[1] * LOG_TWO_PI)
        return mixture.log_prob(context, latent) + of_rest - self.scales.log().sum()

    def lifted(self, mixture: GaussianMixture) -> GaussianMixture:
        """Return the mixture of the weights for a mixture of z. Both have no batch dimensions."""
        n, n_weights = self.n_latent, len(self.center)
        scaled = self.axes * self.scales
        rows = scaled.expand(mixture.n_components, n_weights, n_weights).clone()
        rows[:, :, :n] = scaled[:, :n] @ mixture.scale_trils
        means = self.center + mixture.means @ scaled[:, :n].mT
        return GaussianMixture(mixture.log_weights, means, triangular_factor(rows))

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""
        return {"center": self.center, "axes": self.axes, "scales": self.scales}
