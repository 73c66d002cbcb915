"""A distribution of motions for one context and given via points: a Gaussian mixture of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.distributions.gaussian import triangular_factor
from eim_ros.distributions.parameters import checked_generator
from eim_ros.motion.representation import Representation
from eim_ros.numerics.arguments import checked_whole

__all__ = ["MotionDistribution", "MotionSamples"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MotionSamples:
    """Motions with their densities.

    Attributes
    ----------
    positions : (n, n_points, n_joints)
        [rad] or [m].
    log_prob : (n,)
        Log density of the weights under the distribution that they were drawn from [nat].
    component : (n,) of int64
        Which drew each.
    valid : (n,) of bool
        Whether all points are within the joint limits.
    """

    positions: FloatArray
    log_prob: FloatArray
    component: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class MotionDistribution:
    """Distribution of motions.

    Attributes
    ----------
    representation : Representation
    mixture : GaussianMixture
        Of the weights, float64, no batch.
    lower, upper : (n_joints,)
        Joint limits.
    log_evidence : float
        Log density [nat] of the via points it was conditioned on; 0 without.
    """

    representation: Representation
    mixture: GaussianMixture
    lower: FloatArray
    upper: FloatArray
    log_evidence: float = 0.0

    @property
    def n_components(self) -> int:
        return self.mixture.n_components

    def sample(
        self, n_samples: int, generator: torch.Generator | None = None, n_points: int | None = None
    ) -> MotionSamples:
        """Draw motions.

        Parameters
        ----------
        n_samples : int
        generator : torch.Generator, optional
            That of torch if missing.
        n_points : int, optional
            Points of each, equally spaced in time; as demonstrated if missing.
        """
        n_samples = checked_whole(n_samples, 0, "the number of motions")
        checked_generator(generator)
        probability = self.mixture.weights
        component = torch.multinomial(probability, n_samples, replacement=True, generator=generator)
        weights = torch.randn(n_samples, self.mixture.n_dims, generator=generator, dtype=torch.float64)
        for index in component.unique().tolist():  # a factor for each sample would take gigabytes
            rows = component == index
            weights[rows] = self.mixture.means[index] + weights[rows] @ self.mixture.scale_trils[index].mT
        positions = self.representation.positions(weights.numpy(), self._phases(n_points))
        within = ((positions >= self.lower) & (positions <= self.upper)).reshape(n_samples, -1)
        return MotionSamples(
            positions, self.log_prob(weights).numpy(), component.numpy(), np.asarray(within.all(axis=1))
        )

    def log_prob(self, weights: Tensor) -> Tensor:
        """Log density (n,) [nat] of weights (n, n_weights)."""
        model = MixtureOfExperts.from_mixture(self.mixture)
        return model.log_prob(weights.new_zeros(len(weights), 0), weights)

    def marginal(self, phase: float) -> GaussianMixture:
        """Mixture of the joint positions at a phase: a prior of configurations, (n_components, n_joints)."""
        joints = range(self.representation.n_joints)
        design = torch.from_numpy(self.representation.design(phase, joints))
        factors = triangular_factor(design @ self.mixture.scale_trils)
        return GaussianMixture(self.mixture.log_weights, self.mixture.means @ design.mT, factors)

    def component_motions(self, n_points: int | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log weights (n_components,), means and standard deviations (n_components, n_points, n_joints)."""
        phases = self._phases(n_points)
        means = self.representation.positions(self.mixture.means.numpy(), phases)
        n_functions, n_joints = self.representation.basis.n_functions, self.representation.n_joints
        factors = self.mixture.scale_trils.numpy().reshape(self.n_components, n_joints, n_functions, -1)
        spread = np.einsum("pb,kjbw->kpjw", self.representation.basis(phases), factors)
        return self.mixture.log_weights.numpy(), means, np.sqrt(np.square(spread).sum(axis=-1))

    def _phases(self, n_points: int | None) -> FloatArray:
        if n_points is None:
            return self.representation.grid
        return np.linspace(0.0, 1.0, checked_whole(n_points, 0, "the number of points"))
