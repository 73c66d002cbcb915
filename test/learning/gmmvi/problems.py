"""Small problems of variational inference: mixtures, quadratic targets, weighted samples."""

from __future__ import annotations

import itertools

import torch
from learning.models.random_models import generator_of, normal
from torch import Tensor

from eim_ros.learning.gmmvi.components import Components
from eim_ros.learning.gmmvi.gaussians import DiagonalComponents, FullComponents
from eim_ros.learning.gmmvi.gradients import LogRatio, log_ratio
from eim_ros.learning.gmmvi.samples import Selection
from eim_ros.learning.gmmvi.settings import LETTERS
from eim_ros.learning.models import GaussianMixture

__all__ = ["components_of", "quadratic", "ratio_at", "three_modes", "wide_start", "words"]


def words(rest: int) -> list[str]:
    """Return a third of the 432 combinations, selected by `rest`. It contains all choices of any three letters."""
    options = [list(letters) for _, letters in LETTERS]
    return [
        "".join(word)
        for word in itertools.product(*options)
        if sum(option.index(letter) for option, letter in zip(options, word, strict=True)) % 3 == rest
    ]


def three_modes() -> GaussianMixture:
    """Return three components in two dimensions, about four standard deviations apart."""
    means = torch.tensor([[-3.0, 0.0], [3.0, 1.0], [0.0, 4.0]]).double()
    factors = torch.tensor([[[1.0, 0.0], [0.3, 0.8]], [[0.6, 0.0], [0.0, 1.1]], [[0.9, 0.0], [-0.4, 0.7]]]).double()
    return GaussianMixture(torch.tensor([0.5, 0.3, 0.2]).double().log(), means, factors)


def wide_start(n_components: int, n_dims: int = 2, scale: float = 2.0, seed: int = 3) -> GaussianMixture:
    """Return components with random means, equal weights and the covariance scale^2 I."""
    means = scale * normal(generator_of(seed), n_components, n_dims)
    factors = scale * torch.eye(n_dims).double().expand(n_components, n_dims, n_dims)
    return GaussianMixture(torch.zeros(n_components).double(), means, factors)


def components_of(kind: str, n_components: int, n_dims: int, seed: int = 0) -> Components:
    """Return random components with full or diagonal covariances."""
    generator = generator_of(seed)
    means, scales = normal(generator, n_components, n_dims), 0.5 + normal(generator, n_components, n_dims).abs()
    if kind == "diagonal":
        return DiagonalComponents(means, scales)
    lower = 0.3 * normal(generator, n_components, n_dims, n_dims).tril(-1)
    return FullComponents(means, lower + torch.diag_embed(scales))


def quadratic(n_dims: int, seed: int = 5) -> tuple[Tensor, Tensor]:
    """Return the symmetric matrix A and the vector b of a function -1/2 x'Ax + b'x."""
    matrix = normal(generator_of(seed), n_dims, n_dims)
    return matrix @ matrix.T + 0.5 * torch.eye(n_dims).double(), normal(generator_of(seed + 1), n_dims)


def ratio_at(
    components: Components, log_weights: Tensor, n_samples: int, matrix: Tensor, vector: Tensor, **options: bool
) -> tuple[LogRatio, Selection]:
    """Return R = -1/2 x'Ax + b'x - log q at `n_samples` samples of each component."""
    counts = torch.full((components.n_components,), n_samples)
    sample, component = components.sample(counts, generator_of(11))
    value = -0.5 * ((sample @ matrix) * sample).sum(-1) + sample @ vector
    selection = Selection(sample, value, vector - sample @ matrix, counts.double(), component, None)
    return log_ratio(components, log_weights, selection, 1.0, 20.0, **options), selection
