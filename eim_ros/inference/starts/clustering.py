"""k-means clusters of points: the start of EM.

Seeds by k-means++ (Arthur and Vassilvitskii 2007), then Lloyd's iterations, in which the nearest centre of every point
is found by one matrix product, |x - c|^2 = |x|^2 - 2 x'c + |c|^2.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["k_means"]

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
