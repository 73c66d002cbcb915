"""One iteration of EM for a mixture of few components, with little overhead.

It computes the same as `expect` and `maximised`, for Gaussian mixtures on the CPU. A compiled routine whitens each
point with each component, which makes it accurate in the original coordinates. It fits full covariances. Those of
another kind, or below the floor, are computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.learning.data import Pairs
from eim_ros.learning.models import native
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.standardisation import Standardisation, linear_parts
from eim_ros.learning.projections.likelihood import constrained_factors

NO_FLOOR = -1.0
MOST_RESPONSIBILITIES = 262_144  # number of points times components; for more, matrix products are faster


@dataclass(frozen=True)
class CompactStep:
    """One iteration of EM on fixed data."""

    points: Tensor  # (n_dims, n_samples)
    weight: Tensor | None  # (n_samples,), weights of the samples, with a mean of one
    scale: Tensor  # (n_dims,), standard deviations of the data
    covariance_floor: float  # minimum variance in any direction, relative to the variances of the data
    covariance: str = "full"  # kind of the covariances, as in `EMConfig`

    @classmethod
    def from_data(
        cls, units: Standardisation, data: Pairs, covariance_floor: float, covariance: str = "full"
    ) -> CompactStep | None:
        """Return the iteration for samples without contexts, or None if they are not in float64 on the CPU."""
        if data.sample.device.type != "cpu" or data.sample.dtype != torch.float64:
            return None
        return cls(data.sample.T.contiguous(), data.weight, units.sample_scale, covariance_floor, covariance)

    def __call__(self, model: MixtureOfExperts) -> tuple[MixtureOfExperts, float] | None:
        """Return the updated model, and the mean log-likelihood of the old one [nat].

        None means that the complete implementation is needed: there are too many components, or one of them is
        singular or has no weight.
        """
        gating, experts = linear_parts(model)
        if experts.n_components * self.points.shape[1] > MOST_RESPONSIBILITIES:
            return None
        updated = self._updated(gating, experts, self.covariance_floor) if self.covariance == "full" else None
        constrained = updated is None
        if updated is None:
            updated = self._updated(gating, experts, NO_FLOOR)
        if updated is None:
            return None
        log_weights, means, factors = (torch.from_numpy(part) for part in updated[1:])
        if constrained:
            factors = constrained_factors(
                factors, log_weights.exp(), self.covariance, self.covariance_floor, self.scale
            )
        following = MixtureOfExperts(
            SoftmaxGating(gating.weights, log_weights), LinearExperts(experts.weights, means, factors)
        )
        return following, updated[0]

    def _updated(self, gating: SoftmaxGating, experts: LinearExperts, floor: float) -> Any:
        """Return the mean log-likelihood and the updated parameters, or None if a covariance is below the floor."""
        return native.em_step(
            self.points.numpy(),
            None if self.weight is None else self.weight.numpy(),
            gating.biases.detach().numpy(),
            experts.biases.detach().numpy(),
            experts.scale_trils.detach().numpy(),
            self.scale.numpy(),
            floor,
        )
