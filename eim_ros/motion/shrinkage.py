"""Linear experts of all weights. Their covariances are shrunk towards the mean covariance.

The demonstrations of one expert are usually too few for a covariance of all weights. Shrinkage lets the experts share
information.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eim_ros.learning.models import LinearExperts, MixtureOfExperts

RIDGE = 1e-3  # pseudo-observations per slope, because some experts have fewer motions than slopes


@dataclass(frozen=True)
class Regressions:
    """Regression of all coordinates on the context for each expert, with the scatter of the residuals.

    Attributes
    ----------
    model : MixtureOfExperts
        Model that assigns motions to experts. The result has the same gating.
    slopes : Tensor (n_experts, n_weights, n_context)
    biases : Tensor (n_experts, n_weights)
    scatters : Tensor (n_experts, n_weights, n_weights)
        Sums of products of the residuals, in units of the weights.
    n_motions : Tensor (n_experts,)
        Expected number of motions per expert.
    scales : Tensor (n_weights,)
        Weights per coordinate [rad or m]; see `LatentSpace`.
    """

    model: MixtureOfExperts
    slopes: Tensor
    biases: Tensor
    scatters: Tensor
    n_motions: Tensor
    scales: Tensor

    @classmethod
    def from_model(cls, model: MixtureOfExperts, context: Tensor, coordinates: Tensor, scales: Tensor) -> Regressions:
        """Fit the regressions to motions.

        Parameters
        ----------
        model : MixtureOfExperts
            Linear experts of the first coordinates, which assign the motions to experts.
        context : Tensor (n, n_context)
        coordinates : Tensor (n, n_weights)
            See `LatentSpace.coordinates`.
        scales : Tensor (n_weights,)
        """
        share = model.log_responsibilities(context, coordinates[:, : model.n_dims]).exp()
        inputs = torch.cat([context, torch.ones_like(coordinates[:, :1])], 1)
        penalty = torch.full_like(inputs[0], RIDGE)
        penalty[-1] = torch.finfo(inputs.dtype).eps  # avoids a singular system for an expert without motions
        coefficients, scatters = [], []
        for column in share.T:
            weighted = inputs * column[:, None]
            coefficients.append(torch.linalg.solve(weighted.T @ inputs + penalty.diag(), weighted.T @ coordinates))
            residuals = (coordinates - inputs @ coefficients[-1]) * scales * column[:, None].sqrt()
            scatters.append(residuals.T @ residuals)
        fitted = torch.stack(coefficients)
        slopes, biases = fitted[:, :-1].mT.contiguous(), fitted[:, -1]
        return cls(model, slopes, biases, torch.stack(scatters), share.sum(0), scales)

    def shrunk(self, to_mean: float, to_identity: float, noise_floor: float) -> MixtureOfExperts:
        """Return the model of all coordinates with shrunk covariances.

        In units of the weights, the covariance of an expert with n_k motions is shrunk towards the mean C of all
        experts. C is shrunk towards a multiple of the identity:

            C_k = (1 + p / n_k) (S_k + m Q) / (d_k + m)
            Q = (1 - l) C + l tr(C) / n_weights I
            C = sum_k S_k / sum_k d_k

        S_k is the scatter of the residuals of a fit with p = 1 + n_context coefficients. This scatter has d_k = n_k - p
        degrees of freedom. Q counts as m motions. The identity counts as m' motions: l = m' / (m' + sum_k d_k). The
        factor with p / n_k accounts for the error of the mean.

        Parameters
        ----------
        to_mean, to_identity : float
            Numbers of motions m and m', divided by half the number of weights.
        noise_floor : float
            Standard deviation to add to the weights in all directions [rad or m].
        """
        n_weights, n_coefficients = len(self.scales), 1 + self.slopes.shape[2]
        freedom = (self.n_motions - n_coefficients).clamp_min(0.0)
        strength, identity_strength = (0.5 * n_weights * each for each in (to_mean, to_identity))
        mean = self.scatters.sum(0) / freedom.sum().clamp_min(1.0)
        isotropy = identity_strength / (identity_strength + freedom.sum())
        identity = torch.eye(n_weights).to(mean)
        target = (1.0 - isotropy) * mean + isotropy * mean.trace() / n_weights * identity
        shrunk = (self.scatters + strength * target) / (freedom + strength)[:, None, None]
        shrunk = shrunk * (1.0 + n_coefficients / self.n_motions.clamp_min(1.0))[:, None, None]
        factors = torch.linalg.cholesky(shrunk + noise_floor**2 * identity) / self.scales[:, None]
        return replace(self.model, experts=LinearExperts(self.slopes, self.biases, factors))


def marginal(model: MixtureOfExperts, n_dims: int) -> MixtureOfExperts:
    """Return the model of the first `n_dims` coordinates."""
    experts = model.experts
    assert isinstance(experts, LinearExperts)
    weights, biases = experts.weights[:, :n_dims], experts.biases[:, :n_dims]
    return replace(model, experts=LinearExperts(weights, biases, experts.scale_trils[:, :n_dims, :n_dims]))


def with_marginal(model: MixtureOfExperts, first: MixtureOfExperts) -> MixtureOfExperts:
    """Return the model with another distribution of the first coordinates.

    The distribution of the other coordinates, given the first coordinates and the expert, stays the same.
    """
    old, new = model.experts, first.experts
    assert isinstance(old, LinearExperts) and isinstance(new, LinearExperts)
    n = new.n_dims
    gain = torch.linalg.solve_triangular(
        old.scale_trils[:, :n, :n], old.scale_trils[:, n:, :n], upper=False, left=False
    )
    rest_weights = old.weights[:, n:] + gain @ (new.weights - old.weights[:, :n])
    rest_biases = old.biases[:, n:] + (gain @ (new.biases - old.biases[:, :n])[..., None])[..., 0]
    factors = old.scale_trils.clone()
    factors[:, :n, :n] = new.scale_trils
    factors[:, n:, :n] = gain @ new.scale_trils
    experts = LinearExperts(torch.cat([new.weights, rest_weights], 1), torch.cat([new.biases, rest_biases], 1), factors)
    return replace(first, experts=experts)
