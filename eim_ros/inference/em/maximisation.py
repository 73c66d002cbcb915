"""M-step of EM from expected moments: experts by weighted least squares, gating by softmax regression.

Neither ever lowers the expected log-likelihood, whatever the moments: an expert or a gating that would not be improved
is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.standardisation import linear_parts
from eim_ros.projections.gating import fit_gating_to_moments
from eim_ros.projections.maximum_likelihood import improve_experts

__all__ = ["Maximisation", "maximise"]


@dataclass(frozen=True)
class Maximisation:
    """Outcome of an M-step.

    Attributes
    ----------
    model : MixtureOfExperts
    log_normaliser : float
        Mean log normaliser A(y) of the old gating's logits over the data [nat]; with it the E-step's sums become
        likelihoods.
    """

    model: MixtureOfExperts
    log_normaliser: float


def maximise(
    model: MixtureOfExperts, moments: Tensor, context: Tensor, *, covariance_floor: float, gating_iterations: int
) -> Maximisation:
    """Improve a model.

    Parameters
    ----------
    model : MixtureOfExperts
        The old one, linear, in standardised coordinates.
    moments : Tensor (n_components, n_dims + n_context + 1, n_dims + n_context + 1)
        Expected sums of e e' for e = [x, y, 1].
    context : Tensor (n_samples, n_context)
        Standardised.
    covariance_floor : float
        Least variance in any direction.
    gating_iterations : int
        L-BFGS iterations of the gating.
    """
    gating, experts = linear_parts(model)
    improved = improve_experts(experts, moments, covariance_floor)
    fit = fit_gating_to_moments(
        gating, context, moments[:, model.n_dims :, model.n_dims :], max_iterations=gating_iterations
    )
    return Maximisation(MixtureOfExperts(fit.gating, improved), fit.log_normaliser)
