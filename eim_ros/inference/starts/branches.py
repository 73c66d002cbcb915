"""Start of nonlinear experts: branches of the data, each of which is followed over all contexts.

A linear expert is local, and clusters of the joint (context, sample) are a start for it. A nonlinear one can follow a
branch of the data through all contexts, as an inverse of a function has several. Branches are told apart by where the
samples lie relative to what one expert, fitted to all of them, takes for their mean and covariance at their context:
k-means clusters of the whitened residuals.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts, NeuralExperts, SoftmaxGating
from eim_ros.errors import DataError
from eim_ros.inference.model_family import FamilyConfig, with_networks
from eim_ros.inference.starts.clustering import k_means
from eim_ros.inference.starts.initial_model import initial_mixture_of_experts, mixture_of_clusters
from eim_ros.projections.neural_fit import FitSettings, fit_neural_experts

__all__ = ["branching_start", "closest_component"]

MOST_POINTS = 2000  # of which the single expert is fitted
FIT = FitSettings(60, 1e-4)


def branching_start(
    config: FamilyConfig,
    context: Tensor,
    sample: Tensor,
    n_components: int,
    generator: torch.Generator,
    covariance_floor: float = 0.0,
) -> MixtureOfExperts:
    """Neural experts that start as the linear regressions of the branches.

    Parameters
    ----------
    config : FamilyConfig
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    n_components : int
    generator : torch.Generator
    covariance_floor : float
        Least variance, relative to the data's.

    Raises
    ------
    DataError
        Fewer points than components.
    """
    if n_components > len(sample):
        raise DataError(f"{n_components} experts need at least as many points, got {len(sample)}", len(sample))
    linear = initial_mixture_of_experts(context, sample, 1, generator, covariance_floor)
    if n_components > 1:
        single = with_networks(linear, config, context, generator).experts
        assert isinstance(single, NeuralExperts)
        rows = torch.randperm(len(sample), generator=generator, device=generator.device)[:MOST_POINTS].to(sample.device)
        weights = sample.new_ones(1, len(rows), 1)
        single = fit_neural_experts(single, context[rows].unsqueeze(0), sample[rows][None, :, None], weights, FIT)
        residual = single(context).whiten(sample.unsqueeze(1)).squeeze(1)
        labels = k_means(residual, n_components, generator)
        linear = mixture_of_clusters(context, sample, labels, n_components, covariance_floor)
    return with_networks(linear, config, context, generator)


def closest_component(model: MixtureOfExperts, context: Tensor, generator: torch.Generator) -> MixtureOfExperts:
    """The one expert whose mean KL to the whole model is the least: a mode that it can stand for alone.

    Parameters
    ----------
    model : MixtureOfExperts
    context : Tensor (n_samples, n_context)
        Contexts over which the KL is averaged.
    generator : torch.Generator
    """
    experts = model.experts(context)
    sample = experts.sample(generator=generator)
    own = experts.log_prob(sample)
    repeated = context.unsqueeze(1).expand(*own.shape, -1).flatten(0, 1)
    whole = model.log_prob(repeated, sample.flatten(0, 1)).reshape(own.shape)
    best = (own - whole).mean(0).argmin().reshape(1)
    nobody = torch.zeros(1, model.n_context, dtype=model.dtype, device=model.device)
    return MixtureOfExperts(SoftmaxGating(nobody, nobody.new_zeros(1)), model.experts.take(best))
