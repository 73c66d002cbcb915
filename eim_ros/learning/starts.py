"""k-means clusters of points: the start of EM.

Seeds by k-means++ (Arthur and Vassilvitskii 2007), then Lloyd's iterations, in which the nearest centre of every point
is found by one matrix product, |x - c|^2 = |x|^2 - 2 x'c + |c|^2.

Start of EM: k-means clusters of the standardised joint (context, sample), each with the regression of its points.

Start of nonlinear experts: branches of the data, each of which is followed over all contexts.

A linear expert is local, and clusters of the joint (context, sample) are a start for it. A nonlinear one can follow a
branch of the data through all contexts, as an inverse of a function has several. Branches are told apart by where the
samples lie relative to what one expert, fitted to all of them, takes for their mean and covariance at their context:
k-means clusters of the whitened residuals.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.core.errors import DataError
from eim_ros.learning.families import FamilyConfig, with_networks
from eim_ros.learning.models.linear import SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.neural import NeuralExperts
from eim_ros.learning.models.quadratic_form import products_of_coordinates, symmetric_from_products
from eim_ros.learning.models.standardisation import Standardisation
from eim_ros.learning.projections.likelihood import experts_from_moments, fit_gating_to_moments
from eim_ros.learning.projections.neural import FitSettings, fit_neural_experts

CHUNK_ELEMENTS = 262_144  # distances at a time


def k_means(points: Tensor, n_clusters: int, generator: torch.Generator, n_iterations: int = 20) -> Tensor:
    """Labels (n_points,) of int64.

    Parameters
    ----------
    points : Tensor (n_points, n_dims)
        In units in which the columns are comparable; at least as many as clusters.
    n_clusters : int
    generator : torch.Generator
        Of any device.
    n_iterations : int
        Upper bound.

    Returns
    -------
    Tensor
        Clusters without points are possible where points are duplicated.
    """
    centers = _seeds(points, n_clusters, generator)
    labels = _nearest(points, centers)
    for _ in range(n_iterations):
        centers = _means(points, labels, centers)
        following = _nearest(points, centers)
        if torch.equal(following, labels):
            break
        labels = following
    return labels


def _seeds(points: Tensor, n_clusters: int, generator: torch.Generator) -> Tensor:
    """Points drawn one after the other with a probability proportional to the squared distance to the nearest seed."""
    uniform = torch.rand(n_clusters, generator=generator, dtype=torch.float64, device=generator.device).to(points)
    transposed = points.T.contiguous()
    seeds = torch.empty(n_clusters, dtype=torch.int64, device=points.device)
    squared = torch.ones_like(points[:, 0])
    for k in range(n_clusters):  # each draw depends on the one before
        cumulative = squared.cumsum(0)
        drawn = torch.searchsorted(cumulative, uniform[k] * cumulative[-1], right=True)
        seeds[k] = drawn.clamp_max(len(points) - 1)
        distance = (transposed - transposed[:, seeds[k]].unsqueeze(-1)).square_().sum(0)
        squared = distance if k == 0 else torch.minimum(squared, distance, out=squared)
    return points[seeds]


def _nearest(points: Tensor, centers: Tensor) -> Tensor:
    extended = torch.cat([points, torch.ones_like(points[:, :1])], -1)
    factors = torch.cat([-centers, 0.5 * centers.square().sum(-1, keepdim=True)], -1).T.contiguous()
    step = max(1, CHUNK_ELEMENTS // len(centers))
    buffer = points.new_empty(min(step, len(points)), len(centers))  # fresh memory each time would cost more
    labels = torch.empty(len(points), dtype=torch.int64, device=points.device)
    for start in range(0, len(points), step):
        rows = extended[start : start + step]
        labels[start : start + step] = torch.mm(rows, factors, out=buffer[: len(rows)]).min(-1).indices
    return labels


def _means(points: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
    """Means of the clusters; an empty one keeps its centre."""
    count = torch.bincount(labels, minlength=len(centers)).unsqueeze(-1)
    total = torch.zeros_like(centers).index_add_(0, labels, points)
    return torch.where(count > 0, total / count.clamp_min(1), centers)


LEAST_FLOOR = 1e-6  # of variances relative to the data's: a cluster may consist of one point
SOFTENING = 0.01  # share of every label that is spread over all components, for the gating
GATING_ITERATIONS, GATING_L2 = 30, 1e-4


def initial_mixture_of_experts(
    context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator, covariance_floor: float = 0.0
) -> MixtureOfExperts:
    """Experts and gating of clusters.

    Parameters
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    n_components : int
    generator : torch.Generator
    covariance_floor : float
        Least variance, relative to the data's; at least 1e-6 is taken here.

    Raises
    ------
    DataError
        Fewer points than components.
    """
    if n_components > len(sample):
        raise DataError(f"{n_components} experts need at least as many points, got {len(sample)}", len(sample))
    labels = k_means(Standardisation.from_data(context, sample).joint(context, sample), n_components, generator)
    return mixture_of_clusters(context, sample, labels, n_components, covariance_floor)


def mixture_of_clusters(
    context: Tensor, sample: Tensor, labels: Tensor, n_components: int, covariance_floor: float = 0.0
) -> MixtureOfExperts:
    """Experts and gating of given clusters.

    Parameters
    ----------
    context, sample, n_components, covariance_floor
        As in `initial_mixture_of_experts`.
    labels : Tensor (n_samples,) of int64
        Cluster of each point; one without points gets the overall distribution.
    """
    units = Standardisation.from_data(context, sample)
    joint = units.joint(context, sample)
    products = products_of_coordinates(joint)
    sums = products.new_zeros(n_components, products.shape[1]).index_add_(0, labels, products)
    overall = products.sum(0) / n_components
    soft = (1.0 - SOFTENING) * sums + SOFTENING * overall
    empty = sums[:, -1:] == 0.0  # a cluster without points, as duplicates give: the overall distribution
    width = joint.shape[1] + 1
    experts, _ = experts_from_moments(
        symmetric_from_products(torch.where(empty, overall, sums), width),
        units.n_dims,
        max(covariance_floor, LEAST_FLOOR),
    )
    blank = SoftmaxGating(context.new_zeros(n_components, context.shape[1]), context.new_zeros(n_components))
    moments = symmetric_from_products(soft, width)[:, units.n_dims :, units.n_dims :]
    gating = fit_gating_to_moments(
        blank, joint[:, units.n_dims :], moments, max_iterations=GATING_ITERATIONS, l2=GATING_L2
    ).gating
    return units.original(MixtureOfExperts(gating, experts))


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
