"""EM and variational Bayes of scikit-learn, from their own k-means start (of the extra `experiments`)."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture

__all__ = ["fit_by_em", "fit_by_variational_bayes"]


def fit_by_em(data: Tensor, n_components: int, seed: int) -> GaussianMixture:
    """`sklearn.mixture.GaussianMixture`, settings of its own.

    Parameters
    ----------
    data : Tensor (n_samples, n_dims)
    n_components : int
    seed : int
    """
    from sklearn.mixture import GaussianMixture as Learner

    return _fitted(Learner(n_components, random_state=seed), data)


def fit_by_variational_bayes(data: Tensor, n_components: int, seed: int) -> GaussianMixture:
    """`sklearn.mixture.BayesianGaussianMixture`, settings of its own; the mean of its posterior; arguments as above."""
    from sklearn.mixture import BayesianGaussianMixture as Learner

    return _fitted(Learner(n_components=n_components, random_state=seed), data)


def _fitted(learner: Any, data: Tensor) -> GaussianMixture:
    with warnings.catch_warnings():  # of runs that end at the bound on iterations
        warnings.simplefilter("ignore")
        learner.fit(data.numpy())
    weights, means, covariances = (
        torch.as_tensor(value, dtype=torch.float64)
        for value in (learner.weights_, learner.means_, learner.covariances_)
    )
    return GaussianMixture(weights.log(), means, torch.linalg.cholesky(covariances))
