"""Posteriors of Bayesian regression, and their minibatch versions (Arenz et al. 2023, appendix J).

`LogisticRegression` has a normal prior on its weights x. Its evidence is not known:

    log p~(x) = sum_i [y_i f_i - log(1 + exp f_i)] + log N(x; 0, prior_scale^2 I),   f_i = features_i . x

`NeuralRegression` is the posterior of the weights of a small network with sigmoid hidden layers (WINE: 11-8-8-1):

    log p~(x) = - sum_i (y_i - network_x(features_i))^2 - |x|^2 / (2 prior_scale^2)

As in the authors' code, the errors have variance 1/2, and neither density is normalised. The weights are ordered by
layer: first the matrix (inputs, outputs) by rows, and then the biases. Gradients are back-propagated for many networks
at once.

`MinibatchTarget` shuffles the data in each iteration and splits them into disjoint batches. Sample i is evaluated on
batch i mod n_batches, with the log likelihood scaled to all data. Each log density is unbiased, and samples on
different batches do not share their noise (local reparameterisation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from eim_ros.core.errors import DataError
from experiments.targets.target import MixtureStart, Target, checked_samples

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class LogisticRegression:
    """Posterior density of the weights given labelled data.

    Attributes
    ----------
    features : Tensor (n_data, n_dims)
        Features, including a column of ones if the model has an intercept.
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
                f"expected features (n_data, n_dims) and one label per row, got {tuple(self.features.shape)} and "
                f"{tuple(self.labels.shape)}",
                self.features.shape,
            )
        if not bool(torch.isfinite(self.features).all()):
            raise DataError("features must be finite; remove rows with missing values", self.features)
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
        """One component with the covariance of the paper's prior."""
        return MixtureStart.isotropic(self.n_dims, 1, 10.0, 100.0)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density [nat], (n_samples,)."""
        x = checked_samples(x, self.n_dims)
        logits = x @ self.features.T
        return logits @ self.labels - functional.softplus(logits).sum(-1) + self.log_prior(x)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        x = checked_samples(x, self.n_dims)
        return (self.labels - torch.sigmoid(x @ self.features.T)) @ self.features + self.score_of_prior(x)

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient, with one evaluation of the logits."""
        x = checked_samples(x, self.n_dims)
        log_likelihood, score = self._likelihood(x, self.features, self.labels)
        return log_likelihood + self.log_prior(x), score + self.score_of_prior(x)

    def log_prior(self, x: Tensor) -> Tensor:
        """Return the log prior [nat], (n_samples,)."""
        constant = self.n_dims * (math.log(self.prior_scale) + 0.5 * LOG_TWO_PI)
        return -0.5 * x.square().sum(-1) / self.prior_scale**2 - constant

    def score_of_prior(self, x: Tensor) -> Tensor:
        """Return the gradient of the log prior, (n_samples, n_dims)."""
        return -x / self.prior_scale**2

    def log_likelihoods(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log likelihoods of subsets of the data and their gradients; see `DataTarget`."""
        return self._likelihood(x, self.features[rows], self.labels[rows])

    def accuracy(self, weights: Tensor) -> float:
        """Return the share of labels that the mean over sampled weights (n_samples, n_dims) predicts correctly."""
        probability = torch.sigmoid(weights @ self.features.T).mean(0)
        return float(((probability > 0.5) == (self.labels == 1.0)).double().mean())

    def _likelihood(self, x: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log likelihood (..., n_samples) and its gradient (..., n_samples, n_dims)."""
        logits = x @ features.mT
        log_likelihood = (logits @ labels.unsqueeze(-1)).squeeze(-1) - functional.softplus(logits).sum(-1)
        return log_likelihood, (labels.unsqueeze(-2) - torch.sigmoid(logits)) @ features


@dataclass(frozen=True)
class NeuralRegression:
    """Posterior density of a network's weights given features and values.

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
                f"expected features (n_data, n_features) and one value per row, got {tuple(self.features.shape)} and "
                f"{tuple(self.values.shape)}",
                self.features.shape,
            )
        if not bool(torch.isfinite(self.features).all() and torch.isfinite(self.values).all()):
            raise DataError("features and values must be finite; remove rows with missing values", self.features)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Number of inputs and outputs of each layer."""
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
        """Four components with the covariance of the prior."""
        return MixtureStart.isotropic(self.n_dims, 4, self.prior_scale, self.prior_scale**2)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density [nat], (n_samples,)."""
        x = checked_samples(x, self.n_dims)
        error = self._forward(x, self.features)[-1].squeeze(-1) - self.values
        return self.log_prior(x) - error.square().sum(-1)

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient, with one evaluation of the networks."""
        x = checked_samples(x, self.n_dims)
        log_likelihood, score = self._likelihood(x, self.features, self.values)
        return log_likelihood + self.log_prior(x), score + self.score_of_prior(x)

    def log_prior(self, x: Tensor) -> Tensor:
        """Return the log prior without its normaliser [nat], (n_samples,)."""
        return -0.5 * x.square().sum(-1) / self.prior_scale**2

    def score_of_prior(self, x: Tensor) -> Tensor:
        """Return the gradient of the log prior, (n_samples, n_dims)."""
        return -x / self.prior_scale**2

    def log_likelihoods(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log likelihoods of subsets of the data and their gradients; see `DataTarget`."""
        n_groups, n_samples, n_dims = x.shape
        features = self.features[rows].unsqueeze(1).expand(-1, n_samples, -1, -1)
        values = self.values[rows].unsqueeze(1)
        log_likelihood, score = self._likelihood(x, features, values)
        return log_likelihood, score

    def predict(self, weights: Tensor, features: Tensor) -> Tensor:
        """Return the mean prediction (n_rows,) of sampled weights (n_samples, n_dims).

        `features` has shape (n_rows, n_features).
        """
        return self._forward(checked_samples(weights, self.n_dims), features)[-1].squeeze(-1).mean(0)

    def _layers(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the matrix (..., inputs, outputs) and the biases (..., 1, outputs) of each layer."""
        layers = []
        start = 0
        for inputs, outputs in self.shapes:
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            matrix = x[..., start:middle].unflatten(-1, (inputs, outputs))
            layers.append((matrix, x[..., middle:end].unsqueeze(-2)))
            start = end
        return layers

    def _forward(self, x: Tensor, features: Tensor) -> list[Tensor]:
        """Return the input of each layer and the prediction, (..., n_rows, width)."""
        values = [features]
        layers = self._layers(x)
        for i, (matrix, bias) in enumerate(layers):
            activation = values[-1] @ matrix + bias
            values.append(activation if i == len(layers) - 1 else torch.sigmoid(activation))
        return values

    def _likelihood(self, x: Tensor, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log likelihood (...) of weights (..., n_dims) and its gradient."""
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


class DataTarget(Target, Protocol):
    """Posterior whose log likelihood is a sum over data."""

    @property
    def n_data(self) -> int: ...

    def log_prior(self, x: Tensor) -> Tensor:
        """Return the log prior [nat], (n_samples,)."""
        ...

    def score_of_prior(self, x: Tensor) -> Tensor:
        """Return the gradient of the log prior, (n_samples, n_dims)."""
        ...

    def log_likelihoods(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return log likelihoods of subsets of the data and their gradients.

        Parameters
        ----------
        x : Tensor (n_groups, n_samples, n_dims)
        rows : Tensor (n_groups, n_rows) of int64
            Rows of the data on which each group's samples are evaluated.

        Returns
        -------
        log_likelihood : Tensor (n_groups, n_samples)
        score : Tensor (n_groups, n_samples, n_dims)
        """
        ...


@dataclass(frozen=True)
class MinibatchTarget:
    """Posterior that is evaluated on batches of its data.

    Attributes
    ----------
    full : DataTarget
        Posterior given all data.
    batch_size : int
        Number of rows per batch, from 1 to all rows.
    """

    full: DataTarget
    batch_size: int

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.full.n_data:
            raise DataError(f"a batch must have 1 to {self.full.n_data} rows, got {self.batch_size}", self.batch_size)

    @property
    def n_dims(self) -> int:
        return self.full.n_dims

    @property
    def start(self) -> MixtureStart:
        return self.full.start

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density given all data [nat], (n_samples,)."""
        return self.full.log_prob(x)

    def minibatch(self, generator: torch.Generator) -> BatchedTarget:
        """Return a target with newly shuffled data."""
        order = torch.randperm(self.full.n_data, generator=generator)
        n_batches = self.full.n_data // self.batch_size
        return BatchedTarget(self.full, order[: n_batches * self.batch_size].reshape(n_batches, self.batch_size))


@dataclass(frozen=True)
class BatchedTarget:
    """Posterior in which sample i is evaluated on the rows batches[i mod n_batches].

    Attributes
    ----------
    full : DataTarget
    batches : Tensor (n_batches, batch_size) of int64
    """

    full: DataTarget
    batches: Tensor

    @property
    def n_dims(self) -> int:
        return self.full.n_dims

    @property
    def start(self) -> MixtureStart:
        return self.full.start

    def log_prob(self, x: Tensor) -> Tensor:
        """Return an unbiased estimate of the log density given all data [nat], (n_samples,)."""
        return self.log_prob_and_score(x)[0]

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the estimate, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the estimate and its gradient, with one evaluation of the likelihoods."""
        x = checked_samples(x, self.n_dims)
        n, n_batches = len(x), len(self.batches)
        padding = -n % n_batches
        padded = torch.cat([x, x.new_zeros(padding, self.n_dims)])
        groups = padded.reshape(-1, n_batches, self.n_dims).transpose(0, 1)
        log_likelihood, score = self.full.log_likelihoods(groups, self.batches)
        share = self.full.n_data / self.batches.shape[1]
        log_prob = self.full.log_prior(x) + share * log_likelihood.transpose(0, 1).reshape(-1)[:n]
        return log_prob, self.full.score_of_prior(x) + share * score.transpose(0, 1).reshape(-1, self.n_dims)[:n]
