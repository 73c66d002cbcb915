"""Posterior of the weights of a small neural network that predicts a number (WINE: 11-8-8-1; seed 003, appendix J).

    log p~(x) = - sum_i (y_i - network_x(features_i))^2 - |x|^2 / (2 prior_scale^2)

with sigmoid hidden layers: the errors count as the authors count them, as if their variance were 1/2, and neither
density is normalised. The weights are in the order of the layers, each its matrix (inputs, outputs) by rows, then its
biases. The gradient is back-propagation, written out for many networks at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DataError
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import checked_samples

__all__ = ["NeuralRegression"]


@dataclass(frozen=True)
class NeuralRegression:
    """Density of the weights given features and values.

    Attributes
    ----------
    features : Tensor (n_data, n_features)
    values : Tensor (n_data,)
    hidden : tuple of int
        Widths of the hidden layers.
    prior_scale : float
        Standard deviation of each weight.
    """

    features: Tensor
    values: Tensor
    hidden: tuple[int, ...] = (8, 8)
    prior_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.features.dim() != 2 or self.values.shape != self.features.shape[:1] or len(self.values) == 0:
            raise DataError(
                f"expected features (n_data, n_features) and a value of each, got {tuple(self.features.shape)} and "
                f"{tuple(self.values.shape)}",
                self.features.shape,
            )
        if not bool(torch.isfinite(self.features).all() and torch.isfinite(self.values).all()):
            raise DataError("features and values must be finite: leave out rows with missing values", self.features)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer."""
        widths = (self.features.shape[1], *self.hidden, 1)
        return tuple(zip(widths[:-1], widths[1:], strict=True))

    @property
    def n_dims(self) -> int:
        return sum((inputs + 1) * outputs for inputs, outputs in self.shapes)

    @property
    def n_data(self) -> int:
        """Number of rows."""
        return self.features.shape[0]

    @property
    def start(self) -> MixtureStart:
        """Four components as wide as the prior."""
        return MixtureStart.isotropic(self.n_dims, 4, self.prior_scale, self.prior_scale**2)

    def log_prob(self, x: Tensor) -> Tensor:
        """Unnormalised log density [nat], (n_samples,)."""
        x = checked_samples(x, self.n_dims)
        error = self._forward(x, self.features)[-1].squeeze(-1) - self.values
        return self.log_prior(x) - error.square().sum(-1)

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the log density, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both, with the networks evaluated once."""
        x = checked_samples(x, self.n_dims)
        log_likelihood, score = self._likelihood(x, self.features, self.values)
        return log_likelihood + self.log_prior(x), score + self.score_of_prior(x)

    def log_prior(self, x: Tensor) -> Tensor:
        """Log prior without its normaliser [nat], (n_samples,)."""
        return -0.5 * x.square().sum(-1) / self.prior_scale**2

    def score_of_prior(self, x: Tensor) -> Tensor:
        """Its gradient, (n_samples, n_dims)."""
        return -x / self.prior_scale**2

    def log_likelihoods(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Of parts of the data, see `DataTarget`."""
        n_groups, n_samples, n_dims = x.shape
        features = self.features[rows].unsqueeze(1).expand(-1, n_samples, -1, -1)
        values = self.values[rows].unsqueeze(1)
        log_likelihood, score = self._likelihood(x, features, values)
        return log_likelihood, score

    def predict(self, weights: Tensor, features: Tensor) -> Tensor:
        """Mean prediction (n_rows,) over sampled weights (n_samples, n_dims), of features (n_rows, n_features)."""
        return self._forward(checked_samples(weights, self.n_dims), features)[-1].squeeze(-1).mean(0)

    def _layers(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Matrices (..., inputs, outputs) and biases (..., 1, outputs)."""
        layers = []
        start = 0
        for inputs, outputs in self.shapes:
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            matrix = x[..., start:middle].unflatten(-1, (inputs, outputs))
            layers.append((matrix, x[..., middle:end].unsqueeze(-2)))
            start = end
        return layers

    def _forward(self, x: Tensor, features: Tensor) -> list[Tensor]:
        """What each layer takes, and the prediction: (..., n_rows, width)."""
        values = [features]
        layers = self._layers(x)
        for i, (matrix, bias) in enumerate(layers):
            activation = values[-1] @ matrix + bias
            values.append(activation if i == len(layers) - 1 else torch.sigmoid(activation))
        return values

    def _likelihood(self, x: Tensor, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Log likelihood (...) of weights (..., n_dims) and its gradient."""
        values = self._forward(x, features)
        error = values[-1].squeeze(-1) - targets
        slope = -2.0 * error.unsqueeze(-1)
        parts: list[Tensor] = []
        for (matrix, _), value in zip(reversed(self._layers(x)), reversed(values[:-1]), strict=True):
            of_matrix = value.mT @ slope
            parts = [of_matrix.flatten(-2), slope.sum(-2), *parts]
            if value is not values[0]:
                slope = (slope @ matrix.mT) * value * (1.0 - value)
        return -error.square().sum(-1), torch.cat(parts, -1)
