"""Start of EM: k-means clusters of the standardised joint (context, sample), each with the regression of its points."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions.gating import SoftmaxGating
from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.quadratic_form import products_of_coordinates, symmetric_from_products
from eim_ros.distributions.standardisation import Standardisation
from eim_ros.errors import DataError
from eim_ros.inference.starts.clustering import k_means
from eim_ros.projections.gating import fit_gating_to_moments
from eim_ros.projections.maximum_likelihood import experts_from_moments

__all__ = ["initial_mixture_of_experts", "mixture_of_clusters"]

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
