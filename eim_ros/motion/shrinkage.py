"""Densities of few motions: covariances of experts that are shrunk towards their mean.

A few demonstrations per expert do not determine a covariance of all weights. Experts share what they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eim_ros.learning.models import LinearExperts, MixtureOfExperts


@dataclass(frozen=True)
class Shrinkage:
    """Weight of the prior information on covariances.

    Attributes
    ----------
    scales : Tensor (n_weights,)
        Weights per coordinate [rad or m], see `LatentSpace`.
    noise_floor : float
        Standard deviation to add to the weights in all directions [rad or m].
    to_mean, to_identity : float
        Number of motions that each shrinkage counts as, divided by half the number of weights.
    """

    scales: Tensor
    noise_floor: float
    to_mean: float = 1.0
    to_identity: float = 1.0


def with_all_coordinates(
    model: MixtureOfExperts, context: Tensor, coordinates: Tensor, shrinkage: Shrinkage
) -> MixtureOfExperts:
    """Extend a model of the first coordinates of few motions to all coordinates, with shrunk covariances.

    The covariance of an expert with n_k motions is shrunk towards the mean C of all experts, and C towards a multiple
    of the identity, in units of the weights:

        C_k = (1 + p / n_k) (S_k + m Q) / (d_k + m),  Q = (1 - l) C + l tr(C) / n_weights I,  C = sum_k S_k / sum_k d_k

    S_k is the scatter of the expert's motions around its mean. They have d_k = n_k - p degrees of freedom, because each
    expert is a regression on the context with p = 1 + n_context coefficients. Q counts as much as m motions, and the
    identity as much as m' motions, so that l = m' / (m' + sum_k d_k). The factor with p / n_k is for the error of the
    mean.

    Parameters
    ----------
    model : MixtureOfExperts
        Linear experts of the first coordinates, which assign the motions to experts. The covariances are replaced.
    context : Tensor (n, n_context)
    coordinates : Tensor (n, n_weights)
        See `LatentSpace.coordinates`. The means of coordinates that the model lacks do not depend on the context.
    shrinkage : Shrinkage
    """
    experts = model.experts
    assert isinstance(experts, LinearExperts)
    n_latent, n_weights, n_parameters = experts.n_dims, coordinates.shape[1], 1 + context.shape[1]
    share = model.log_responsibilities(context, coordinates[:, :n_latent]).exp()
    n_motions = share.sum(0)
    rest = coordinates[:, n_latent:]
    offsets = share.mT @ rest / n_motions.clamp_min(torch.finfo(rest.dtype).tiny)[:, None]
    biases = torch.cat([experts.biases, offsets], 1)
    slopes = torch.cat([experts.weights, experts.weights.new_zeros(*offsets.shape, context.shape[1])], 1)
    means = torch.einsum("kwc,nc->nkw", slopes, context) + biases
    residuals = (coordinates[:, None] - means) * shrinkage.scales
    scatters = torch.einsum("nk,nkv,nkw->kvw", share, residuals, residuals)
    freedom = (n_motions - n_parameters).clamp_min(0.0)
    strength, identity_strength = (0.5 * n_weights * each for each in (shrinkage.to_mean, shrinkage.to_identity))
    mean = scatters.sum(0) / freedom.sum().clamp_min(1.0)
    isotropy = identity_strength / (identity_strength + freedom.sum())
    identity = torch.eye(n_weights).to(mean)
    prior = (1.0 - isotropy) * mean + isotropy * mean.trace() / n_weights * identity
    shrunk = (scatters + strength * prior) / (freedom + strength)[:, None, None]
    shrunk = shrunk * (1.0 + n_parameters / n_motions.clamp_min(1.0))[:, None, None]
    factors = torch.linalg.cholesky(shrunk + shrinkage.noise_floor**2 * identity) / shrinkage.scales[:, None]
    return replace(model, experts=LinearExperts(slopes, biases, factors))


def marginal(model: MixtureOfExperts, n_dims: int) -> MixtureOfExperts:
    """Return the model of the first `n_dims` coordinates."""
    experts = model.experts
    assert isinstance(experts, LinearExperts)
    weights, biases = experts.weights[:, :n_dims], experts.biases[:, :n_dims]
    return replace(model, experts=LinearExperts(weights, biases, experts.scale_trils[:, :n_dims, :n_dims]))


def with_marginal(model: MixtureOfExperts, first: MixtureOfExperts) -> MixtureOfExperts:
    """Return the model with another distribution of the first coordinates.

    The distribution of the others given the first ones and the expert stays the same.
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
