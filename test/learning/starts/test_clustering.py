"""k-means finds separated clusters, assigns points to the nearest centre, and accepts any data."""

import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.learning.starts import k_means


def blobs(n_clusters: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = generator_of(seed)
    labels = torch.arange(40 * n_clusters) % n_clusters
    centers = 10.0 * torch.stack([torch.arange(n_clusters), torch.arange(n_clusters).square() % 7], -1).double()
    return centers[labels] + normal(generator, len(labels), 2), labels


@pytest.mark.parametrize("seed", range(5))
def test_separated_clusters_are_found(seed):
    points, expected = blobs(6)
    labels = k_means(points, 6, generator_of(seed))
    pairs = set(zip(labels.tolist(), expected.tolist(), strict=True))
    assert len(pairs) == 6  # one label for each cluster


def test_every_point_has_the_label_of_its_nearest_mean_and_more_iterations_do_not_help():
    points = normal(generator_of(1), 500, 3)
    labels = k_means(points, 7, generator_of(2), n_iterations=1000)
    means = torch.stack([points[labels == k].mean(0) for k in range(7)])
    assert torch.equal(torch.cdist(points, means).argmin(-1), labels)


@pytest.mark.parametrize("n_clusters", [1, 3, 10])
def test_as_many_points_as_clusters_and_duplicates_are_no_trouble(n_clusters):
    points = normal(generator_of(5), n_clusters, 2)
    assert k_means(points, n_clusters, generator_of(6)).unique().numel() == n_clusters
    assert set(k_means(points[:1].expand(20, -1), n_clusters, generator_of(7)).tolist()) <= set(range(n_clusters))
