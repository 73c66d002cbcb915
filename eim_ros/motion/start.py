"""Start of EM that keeps different ways apart: clusters of what the context does not explain, in joint space.

In whitened coordinates two ways around an obstacle are no further apart than two goals, and k-means takes goals for
ways. With their linear dependence on the context taken off, and in the units of the joints, what differs most between
weights are ways.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.starts.clustering import k_means
from eim_ros.inference.starts.initial_model import mixture_of_clusters

__all__ = ["start_of_ways"]

N_CLUSTERINGS = 5  # k-means from so many seeds, of which the tightest is taken


def start_of_ways(
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    n_components: int,
    covariance_floor: float,
    generator: torch.Generator,
) -> MixtureOfExperts:
    """Experts and gating of clusters.

    Parameters
    ----------
    context : Tensor (n, n_context)
    weights : Tensor (n, n_weights)
        Weights of motions, as many as components at least.
    coordinates : Tensor (n, n_latent)
        What the experts are to model.
    n_components : int
    covariance_floor : float
        Least variance, relative to the data's.
    generator : torch.Generator
    """
    inputs = torch.cat([context, torch.ones_like(weights[:, :1])], -1)
    unexplained = weights - inputs @ torch.linalg.lstsq(inputs, weights, driver="gelsd").solution
    labels = [k_means(unexplained, n_components, generator) for _ in range(N_CLUSTERINGS)]
    best = min(labels, key=lambda each: _scatter(unexplained, each, n_components))
    return mixture_of_clusters(context, coordinates, best, n_components, covariance_floor)


def _scatter(points: Tensor, labels: Tensor, n_clusters: int) -> float:
    """Sum of squared distances to the clusters' means."""
    sums = points.new_zeros(n_clusters, points.shape[1]).index_add_(0, labels, points)
    means = sums / torch.bincount(labels, minlength=n_clusters).clamp_min(1).unsqueeze(-1)
    return float((points - means[labels]).square().sum())
