"""Posterior of Bayesian logistic regression with a normal prior (seed 003, appendix J).

    log p~(x) = sum_i [y_i f_i - log(1 + exp f_i)] + log N(x; 0, prior_scale^2 I),   f_i = features_i . x

Its evidence is not known. The score is sum_i (y_i - sigmoid f_i) features_i - x / prior_scale^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from eim_ros.errors import DataError
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import checked_samples

__all__ = ["LogisticRegression"]

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class LogisticRegression:
    """Density of the weights given labelled data.

    Attributes
    ----------
    features : Tensor (n_data, n_dims)
        With a column of ones if there is to be an intercept.
    labels : Tensor (n_data,)
        0 or 1.
    prior_scale : float
        Standard deviation of each weight.
    """

    features: Tensor
    labels: Tensor
    prior_scale: float = 10.0

    def __post_init__(self) -> None:
        if self.features.dim() != 2 or self.labels.shape != self.features.shape[:1] or len(self.labels) == 0:
            raise DataError(
                f"expected features (n_data, n_dims) and a label of each, got {tuple(self.features.shape)} and "
                f"{tuple(self.labels.shape)}",
                self.features.shape,
            )
        if not bool(torch.isfinite(self.features).all()):
            raise DataError("features must be finite: leave out rows with missing values", self.features)
        if not bool(((self.labels == 0.0) | (self.labels == 1.0)).all()):
            raise DataError("labels must be 0 or 1", self.labels.unique())

    @property
    def n_dims(self) -> int:
        return self.features.shape[1]

    @property
    def n_data(self) -> int:
        """Number of labelled rows."""
        return self.features.shape[0]

    @property
    def start(self) -> MixtureStart:
        """One component as wide as the paper's prior."""
        return MixtureStart.isotropic(self.n_dims, 1, 10.0, 100.0)

    def log_prob(self, x: Tensor) -> Tensor:
        """Unnormalised log density [nat], (n_samples,)."""
        x = checked_samples(x, self.n_dims)
        logits = x @ self.features.T
        return logits @ self.labels - functional.softplus(logits).sum(-1) + self.log_prior(x)

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the log density, (n_samples, n_dims)."""
        x = checked_samples(x, self.n_dims)
        return (self.labels - torch.sigmoid(x @ self.features.T)) @ self.features + self.score_of_prior(x)

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both, with the logits computed once."""
        x = checked_samples(x, self.n_dims)
        log_likelihood, score = self._likelihood(x, self.features, self.labels)
        return log_likelihood + self.log_prior(x), score + self.score_of_prior(x)

    def log_prior(self, x: Tensor) -> Tensor:
        """Log prior [nat], (n_samples,)."""
        constant = self.n_dims * (math.log(self.prior_scale) + 0.5 * LOG_TWO_PI)
        return -0.5 * x.square().sum(-1) / self.prior_scale**2 - constant

    def score_of_prior(self, x: Tensor) -> Tensor:
        """Its gradient, (n_samples, n_dims)."""
        return -x / self.prior_scale**2

    def log_likelihoods(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Of parts of the data, see `DataTarget`."""
        return self._likelihood(x, self.features[rows], self.labels[rows])

    def accuracy(self, weights: Tensor) -> float:
        """Share of the data whose label is the more probable one, averaged over sampled weights (n_samples, n_dims)."""
        probability = torch.sigmoid(weights @ self.features.T).mean(0)
        return float(((probability > 0.5) == (self.labels == 1.0)).double().mean())

    def _likelihood(self, x: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Log likelihood (..., n_samples) and gradient (..., n_samples, n_dims)."""
        logits = x @ features.mT
        log_likelihood = (logits @ labels.unsqueeze(-1)).squeeze(-1) - functional.softplus(logits).sum(-1)
        return log_likelihood, (labels.unsqueeze(-2) - torch.sigmoid(logits)) @ features
