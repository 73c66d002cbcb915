"""One iteration of EM for models with neural parts: the M-step is a few steps of weighted maximum likelihood.

That makes it generalised EM: the likelihood, less the penalty on the networks' weights, never falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import Experts, Gating, LinearExperts, MixtureOfExperts, NeuralExperts, NeuralGating
from eim_ros.distributions.gating import SoftmaxGating
from eim_ros.distributions.standardisation import Standardisation
from eim_ros.errors import DistributionError
from eim_ros.inference.training_data import Pairs
from eim_ros.projections.gating import fit_gating
from eim_ros.projections.maximum_likelihood import fit_experts
from eim_ros.projections.neural_fit import FitSettings, fit_neural_experts, fit_neural_gating

__all__ = ["NeuralIteration", "iterate"]


@dataclass(frozen=True)
class NeuralIteration:
    """Outcome of an iteration.

    Attributes
    ----------
    model : MixtureOfExperts
    log_likelihood : float
        Mean over the data under the old model [nat].
    free_energy : float
        The same with each point's most probable component alone, for hard EM; the log-likelihood otherwise.
    """

    model: MixtureOfExperts
    log_likelihood: float
    free_energy: float


def iterate(
    model: MixtureOfExperts,
    data: Pairs,
    settings: FitSettings,
    *,
    covariance_floor: float,
    gating_iterations: int,
    hard: bool = False,
) -> NeuralIteration:
    """E-step and M-step.

    Parameters
    ----------
    model : MixtureOfExperts
        With a neural gating, neural experts or both.
    data : Pairs
    settings : FitSettings
        Of the networks.
    covariance_floor : float
        Least variance of an expert, relative to the data's variances.
    gating_iterations : int
        L-BFGS iterations of a linear gating.
    hard : bool
        Give each point to its most probable expert alone.
    """
    log_joint = model.log_joint(data.context, data.sample)
    log_prob, best = torch.logsumexp(log_joint, -1), log_joint.amax(-1)
    if hard:
        responsibilities = torch.nn.functional.one_hot(log_joint.argmax(-1), model.n_components).to(log_joint)
    else:
        responsibilities = (log_joint - log_prob.unsqueeze(-1)).exp()
    improved = MixtureOfExperts(
        _fit_gating(model.gating, data.context, responsibilities, settings, gating_iterations),
        _fit_experts(model.experts, data, responsibilities, settings, covariance_floor),
    )
    likelihood = float(log_prob.mean())
    return NeuralIteration(improved, likelihood, float(best.mean()) if hard else likelihood)


def _fit_gating(old: Gating, context: Tensor, targets: Tensor, settings: FitSettings, n_iterations: int) -> Gating:
    if old.n_components == 1:
        return old
    if isinstance(old, NeuralGating):
        return fit_neural_gating(old, context, targets, settings)
    if isinstance(old, SoftmaxGating):
        return fit_gating(old, context, targets, max_iterations=n_iterations)
    raise DistributionError(f"no fit of a {type(old).__name__} is known", type(old).__name__)


def _fit_experts(
    old: Experts, data: Pairs, responsibilities: Tensor, settings: FitSettings, covariance_floor: float
) -> Experts:
    if isinstance(old, LinearExperts):
        return fit_experts(data.context, data.sample, responsibilities, covariance_floor=covariance_floor)
    if not isinstance(old, NeuralExperts):
        raise DistributionError(f"no fit of {type(old).__name__} is known", type(old).__name__)
    k = old.n_components
    context, sample = data.context.expand(k, -1, -1), data.sample.unsqueeze(1).expand(k, -1, -1, -1)
    weights = responsibilities.T.unsqueeze(-1)
    floor = covariance_floor * Standardisation.from_data(data.context, data.sample).sample_scale.square()
    return fit_neural_experts(old, context, sample, weights, settings, variance_floor=floor)
