"""Models with several hidden binary causes that jointly generate an observation (Luecke 2016, 6.1).

    p(s, y) = prod_h pi_h^s_h (1 - pi_h)^(1 - s_h) p(y | s),    s in {0, 1}^H

A model is defined by its joint distribution and its M-step. The protocol `MultipleCauseModel` lists the methods that
`MultipleCauseEM` needs. Three models are provided:

- Binary sparse coding (Henniges et al. 2010): the output is the sum of the weights of all active causes, plus Gaussian
  noise. Its density is p(y | s) = N(y; W s, sigma^2 I).
- Noisy-OR: each active cause independently switches on each binary output with some probability (Singliar and
  Hauskrecht 2006), p(y_d = 0 | s) = (1 - b_d) prod_h (1 - W_dh)^s_h. The leak b is the probability that an output is
  switched on without any cause.
- Sigmoid belief network (Saul et al. 1996): each active cause makes each binary output more or less probable. The
  probability is p(y_d = 1 | s) = 1 / (1 + exp{-(W s + b)_d}).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.core.checks import checked_whole
from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning.data import checked_data
from eim_ros.learning.models.gaussian import checked_shape

if TYPE_CHECKING:
    from typing_extensions import Self

LEAST_PRIOR = 1e-4  # minimum distance of the probability of a cause from 0 and 1
START_SCATTER, START_NOISE = 0.25, 2.0  # initial scatter of weights, and noise, in deviations of the data
LEAST_VARIANCE = 1e-6  # minimum variance of the noise, relative to the variance of the data
PLAIN = ("n_updates", "shared_prior")  # fields that are not tensors
LEAST_WEIGHT = 1e-6  # minimum distance of weights and leaks from 0 and 1
START_RATE = 0.01  # minimum distance of the initial rate of an output without any cause from 0 and 1
CHUNK_ELEMENTS = 1_000_000  # number of probabilities per block


@runtime_checkable
class MultipleCauseModel(Protocol):
    """Model with independent binary causes."""

    @property
    def n_dims(self) -> int: ...

    @property
    def prior(self) -> Tensor:
        """Probability pi of each cause, (n_causes,)."""

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        """Return log p(s, y) [nat], (n, n_states), of samples (n, n_dims) and their states (n, n_states, n_causes)."""

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """Return the model after an M-step.

        The M-step must not decrease sum_n sum_s q_n(s) log p(s, y_n), where q is given by shares (n, n_states).
        """

    def check(self, sample: Tensor) -> None:
        """Raise `DataError` if the model cannot generate these samples."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """Build the model from the named parameters that `tensors` returns."""


def data_of_causes(sample: Any, n_causes: int) -> Tensor:
    """Validate samples (n_samples, n_dims) and the number of causes, and return the samples as a float64 tensor.

    `DataError` is raised if the samples are not a matrix of finite numbers. The error is also raised if there are no
    causes, or more causes than samples.
    """
    data = checked_data(sample)
    if data.conditional:
        raise DataError("a start needs samples alone, a matrix (n, d), got a pair of contexts and samples")
    if checked_whole(n_causes, 1, "the number of causes", DataError) > len(data):
        raise DataError(f"{n_causes} causes need at least {n_causes} samples, got {len(data)}", n_causes)
    return data.sample


def log_prior(prior: Tensor, states: Tensor) -> Tensor:
    """Return log p(s) [nat], (...), of states (..., n_causes) in {0, 1}."""
    off = torch.log1p(-prior)
    return states @ (prior.log() - off) + off.sum()


def sparsest_states(n_causes: int, n_states: int) -> Tensor:
    """Return the states with the fewest active causes, the empty state first, (n_states, n_causes) of bool."""
    states = torch.zeros(1, n_causes, dtype=torch.bool)
    layer = states
    while len(states) < n_states and len(layer):
        following = []
        for state in layer:  # only causes after the last active one are added; no state occurs twice
            last = int(state.nonzero().max()) if state.any() else -1
            flips = torch.eye(n_causes, dtype=torch.bool)[last + 1 :]
            following.append(state | flips)
            if len(states) + sum(map(len, following)) >= n_states:
                break
        layer = torch.cat(following)
        states = torch.cat([states, layer])
    return states[:n_states]


class _Causes:
    """Base class of the models, which have weights (n_dims, n_causes) and a prior (n_causes,)."""

    if TYPE_CHECKING:
        weights: Tensor
        prior: Tensor

        def sample_with_states(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]: ...

    def __post_init__(self) -> None:
        # A restored model has contiguous tensors. If the weights of the original model are contiguous too, both models
        # give bitwise equal results.
        object.__setattr__(self, "weights", self.weights.contiguous())

    @property
    def n_dims(self) -> int:
        return len(self.weights)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw observations (n, n_dims)."""
        return self.sample_with_states(n, generator)[0]

    def tensors(self) -> dict[str, Tensor]:
        return {name: torch.as_tensor(value) for name, value in vars(self).items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        values = {field.name: tensors[field.name] for field in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value.item() if name in PLAIN else value for name, value in values.items()})


class _BinaryOutputs(_Causes, ABC):
    """Base class of the models whose samples consist of zeros and ones."""

    if TYPE_CHECKING:
        n_updates: int

    def _check_shapes(self, name: str, of_outputs: Tensor) -> None:
        sizes = (tuple(of_outputs.shape), tuple(self.prior.shape))
        if self.weights.dim() != 2 or sizes != (self.weights.shape[:1], self.weights.shape[1:]):
            raise DistributionError(
                f"weights (n_dims, n_causes), {name} (n_dims,) and prior (n_causes,) must have equal n_dims and "
                f"n_causes, got shapes {tuple(self.weights.shape)}, {sizes[0]} and {sizes[1]}",
                sizes,
            )

    @classmethod
    @abstractmethod
    def _started(cls, chosen: Tensor, noise: Tensor, mean: Tensor, prior: Tensor) -> Self:
        """Return an initial model, given a sample and uniform noise for each cause, both (n_dims, n_causes)."""

    @abstractmethod
    def _probabilities(self, states: Tensor) -> Tensor:
        """Return p(y_d = 1 | s), (..., n_dims), of states (..., n_causes)."""

    @classmethod
    def start(cls, sample: Tensor, n_causes: int, generator: torch.Generator, active: float = 2.0) -> Self:
        """Return an initial model in which each cause tends to switch on the outputs of a random sample.

        Samples (n_samples, n_dims) must consist of zeros and ones. `active` is the approximate number of active causes
        per observation.
        """
        sample = data_of_causes(sample, n_causes)
        _check_binary(sample)
        chosen = torch.randperm(len(sample), generator=generator)[:n_causes]
        noise = torch.rand(sample.shape[1], n_causes, generator=generator, dtype=sample.dtype)
        prior = sample.new_full((n_causes,), min(active / n_causes, 0.5))
        return cls._started(sample[chosen].T, noise, sample.mean(0), prior)

    def sample_with_states(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw binary observations like `sample`, and also return their states, (n, n_causes) of bool."""
        checked_shape(n)
        uniform = torch.rand(n, len(self.prior) + self.n_dims, generator=generator, dtype=self.prior.dtype)
        states = uniform[:, : len(self.prior)] < self.prior
        on = self._probabilities(states.to(self.prior))
        return (uniform[:, len(self.prior) :] < on).to(self.prior), states

    def check(self, sample: Tensor) -> None:
        """Raise `DataError` if a sample contains other values than 0 and 1."""
        _check_binary(sample)


@dataclass(frozen=True)
class BinarySparseCoding(_Causes):
    """Linear superposition of binary causes with Gaussian noise.

    Attributes
    ----------
    weights : Tensor (n_dims, n_causes)
        W, the contribution of each cause.
    deviation : Tensor ()
        sigma, the standard deviation of the noise.
    prior : Tensor (n_causes,)
        Probability of each cause.
    least_deviation : Tensor ()
        Lower bound of sigma in an M-step.
    shared_prior : bool
        Whether an M-step gives all causes the same probability, as in Henniges et al. A shared probability keeps rare
        causes from being lost.

    Examples
    --------
    Let the first cause increase the first output, and the second cause the second output:

    >>> import torch
    >>> from eim_ros.learning.discrete import BinarySparseCoding
    >>> model = BinarySparseCoding(torch.eye(2), torch.tensor(0.1), torch.tensor([0.5, 0.5]), torch.tensor(0.01))
    >>> sample, states = model.sample_with_states(100, torch.Generator().manual_seed(0))
    >>> bool(((sample > 0.5) == states).all())
    True
    """

    weights: Tensor
    deviation: Tensor
    prior: Tensor
    least_deviation: Tensor
    shared_prior: bool = True

    def __post_init__(self) -> None:
        if self.weights.dim() != 2 or self.prior.shape != self.weights.shape[1:]:
            raise DistributionError(
                "weights (n_dims, n_causes) and prior (n_causes,) must have equal n_causes, got shapes "
                f"{tuple(self.weights.shape)} and {tuple(self.prior.shape)}",
                tuple(self.prior.shape),
            )
        if not bool(torch.isfinite(self.weights).all()):
            raise DistributionError("the weights of the causes must be finite", self.weights)
        if not bool((self.prior > 0.0).all() and (self.prior < 1.0).all()):
            raise DistributionError(
                f"the prior of each cause must lie between 0 and 1, both excluded, got {self.prior.tolist()}",
                self.prior,
            )
        if not bool(self.deviation > 0.0):
            raise DistributionError(
                f"the standard deviation of the noise must be positive, got {float(self.deviation)}", self.deviation
            )
        super().__post_init__()

    @classmethod
    def start(cls, sample: Tensor, n_causes: int, generator: torch.Generator, active: float = 2.0) -> Self:
        """Return an initial model with causes near the mean of the data (n_samples, n_dims) and large noise.

        Fewer starts reach the best optimum if the initial causes are random samples, or if the initial noise is small.
        In these cases, two causes converge to the same structure before the other causes converge. `active` is the
        approximate number of active causes per observation.
        """
        sample = data_of_causes(sample, n_causes)
        variance = sample.var(0, correction=0).mean()
        if not float(variance) > 0.0:
            raise DataError(
                "all samples are equal, so there are no differences that causes can explain; give samples that differ",
                float(variance),
            )
        scatter = torch.randn(sample.shape[1], n_causes, generator=generator, dtype=sample.dtype)
        scatter = START_SCATTER * sample.std(0, correction=0).unsqueeze(-1) * scatter
        return cls(
            sample.mean(0).unsqueeze(-1) / active + scatter,
            START_NOISE * variance.sqrt(),
            sample.new_full((n_causes,), min(active / n_causes, 0.5)),
            (LEAST_VARIANCE * variance).sqrt(),
        )

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        states = states.to(sample)
        residual = sample.unsqueeze(1) - states @ self.weights.T
        log_noise = -0.5 * residual.square().sum(-1) / self.deviation.square()
        constant = self.n_dims * (self.deviation.log() + 0.5 * math.log(2.0 * math.pi))
        return log_prior(self.prior, states) + log_noise - constant

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """Do the M-step in closed form.

        The weights are W = sum y <s>' (sum <s s'>)^-1. The residuals determine sigma, and the mean of s determines the
        prior. The data do not determine the weights of causes that never occur, or occur only together. The solution
        closest to the old W is used for these weights.
        """
        states = states.to(sample)
        weighted = states * shares.unsqueeze(-1)
        mean = weighted.sum(1)
        moment = weighted.flatten(0, 1).T @ states.flatten(0, 1)
        missing = sample.T @ mean - self.weights @ moment
        weights = self.weights + missing @ torch.linalg.pinv(moment, hermitian=True)
        residual = (sample.unsqueeze(1) - states @ weights.T).square().sum(-1)
        variance = (shares * residual).sum() / sample.numel()
        prior = mean.mean(0)
        if self.shared_prior:
            prior = prior.mean().expand_as(prior)
        return type(self)(
            weights,
            torch.maximum(variance.sqrt(), self.least_deviation),
            prior.clamp(LEAST_PRIOR, 1.0 - LEAST_PRIOR),
            self.least_deviation,
            self.shared_prior,
        )

    def sample_with_states(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw observations like `sample`, and also return their states, (n, n_causes) of bool."""
        checked_shape(n)
        uniform = torch.rand(n, len(self.prior), generator=generator, dtype=self.prior.dtype)
        states = uniform < self.prior
        noise = torch.randn(n, self.n_dims, generator=generator, dtype=self.prior.dtype)
        return states.to(self.prior) @ self.weights.T + self.deviation * noise, states

    def check(self, sample: Tensor) -> None:
        """Do nothing, since the model can generate any real numbers."""


@dataclass(frozen=True)
class NoisyOr(_BinaryOutputs):
    """Noisy-OR model: binary causes switch on binary outputs.

    Attributes
    ----------
    weights : Tensor (n_dims, n_causes)
        W, the probability that an active cause switches on the output.
    leak : Tensor (n_dims,)
        b, the probability that an output is on without any cause.
    prior : Tensor (n_causes,)
        Probability of each cause.
    n_updates : int
        Number of updates of W and b per M-step.

    Examples
    --------
    Let the first cause mostly switch on the first output, and the second cause the second output:

    >>> import torch
    >>> from eim_ros.learning.discrete import NoisyOr
    >>> model = NoisyOr(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([0.01, 0.01]), torch.tensor([0.5, 0.5]))
    >>> sample, states = model.sample_with_states(1000, torch.Generator().manual_seed(0))
    >>> [round(share, 1) for share in sample[states[:, 0] & ~states[:, 1]].mean(0).tolist()]
    [0.9, 0.1]
    """

    weights: Tensor
    leak: Tensor
    prior: Tensor
    n_updates: int = 3

    def __post_init__(self) -> None:
        self._check_shapes("leak", self.leak)
        for name, values in (("weights", self.weights), ("leak", self.leak), ("prior", self.prior)):
            if not bool((values > 0.0).all() and (values < 1.0).all()):
                raise DistributionError(f"all values of {name} must lie between 0 and 1, both excluded", values)
        super().__post_init__()

    @classmethod
    def _started(cls, chosen: Tensor, noise: Tensor, mean: Tensor, prior: Tensor) -> Self:
        leak = (0.1 * mean).clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT)
        return cls(0.1 + 0.4 * chosen + 0.2 * noise, leak, prior)

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        states = states.to(sample)
        on, off = self._log_probabilities(states)
        value = sample.unsqueeze(1)
        return log_prior(self.prior, states) + (value * on + (1.0 - value) * off).sum(-1)

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """Do the M-step by a few EM updates. The hidden variables are the outputs that each cause switches on.

        Given that output d is on, cause h has switched it on with probability W_dh s_h / p(y_d = 1 | s). The new W_dh
        is the mean of this probability over the data with s_h = 1. No update decreases the expected log-likelihood.
        """
        states = states.to(sample)
        occurrence = (states * shares.unsqueeze(-1)).sum((0, 1))
        model = self
        for _ in range(self.n_updates):
            hits, leaks = torch.zeros_like(self.weights), torch.zeros_like(self.leak)
            step = max(1, CHUNK_ELEMENTS // (states.shape[1] * self.n_dims))
            for start in range(0, len(sample), step):
                rows = slice(start, start + step)
                on, _ = model._log_probabilities(states[rows])
                blame = (sample[rows].unsqueeze(1) * shares[rows].unsqueeze(-1)) * (-on).exp()
                hits += blame.flatten(0, 1).T @ states[rows].flatten(0, 1)
                leaks += blame.sum((0, 1))
            share = torch.where(occurrence > 0.0, hits / occurrence.clamp_min(1e-300), 1.0)
            model = type(self)(
                (model.weights * share).clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT),
                (model.leak * leaks / len(sample)).clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT),
                self.prior,
                self.n_updates,
            )
        prior = (occurrence / len(sample)).clamp(LEAST_PRIOR, 1.0 - LEAST_PRIOR)
        return type(self)(model.weights, model.leak, prior, self.n_updates)

    def _probabilities(self, states: Tensor) -> Tensor:
        return self._log_probabilities(states)[0].exp()

    def _log_probabilities(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(y_d = 1 | s) and log p(y_d = 0 | s), (..., n_dims) each."""
        off = torch.log1p(-self.leak) + states @ torch.log1p(-self.weights).T
        return (-torch.expm1(off)).log(), off


@dataclass(frozen=True)
class SigmoidBeliefNetwork(_BinaryOutputs):
    """Model of binary outputs whose log odds are the sum of the weights of all active causes and a bias.

    Attributes
    ----------
    weights : Tensor (n_dims, n_causes)
        W, the contribution of an active cause to the log odds of an output.
    bias : Tensor (n_dims,)
        b, the log odds of an output without any cause.
    prior : Tensor (n_causes,)
        Probability of each cause.
    n_updates : int
        Number of updates of W and b per M-step.

    Examples
    --------
    Let a single cause switch on the first output and switch off the second output:

    >>> import torch
    >>> from eim_ros.learning.discrete import SigmoidBeliefNetwork
    >>> model = SigmoidBeliefNetwork(torch.tensor([[4.0], [-4.0]]), torch.tensor([-2.0, 2.0]), torch.tensor([0.5]))
    >>> sample, states = model.sample_with_states(1000, torch.Generator().manual_seed(0))
    >>> [round(share, 1) for share in sample[states[:, 0]].mean(0).tolist()]
    [0.9, 0.1]
    """

    weights: Tensor
    bias: Tensor
    prior: Tensor
    n_updates: int = 5

    def __post_init__(self) -> None:
        self._check_shapes("bias", self.bias)
        if not bool(torch.isfinite(self.weights).all() and torch.isfinite(self.bias).all()):
            raise DistributionError("the weights and the bias must be finite", self.weights)
        if not bool((self.prior > 0.0).all() and (self.prior < 1.0).all()):
            raise DistributionError(
                f"the prior of each cause must lie between 0 and 1, both excluded, got {self.prior.tolist()}",
                self.prior,
            )
        super().__post_init__()

    @classmethod
    def _started(cls, chosen: Tensor, noise: Tensor, mean: Tensor, prior: Tensor) -> Self:
        rate = (0.5 * mean).clamp(START_RATE, 1.0 - START_RATE)
        return cls(2.0 * chosen - 1.0 + noise, torch.logit(rate), prior)

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        states = states.to(sample)
        log_odds = states @ self.weights.T + self.bias
        # log p(y|s) = y l - log(1 + exp l) for log odds l
        likelihood = (sample.unsqueeze(1) * log_odds - torch.nn.functional.softplus(log_odds)).sum(-1)
        return log_prior(self.prior, states) + likelihood

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """Do the M-step by a few updates of a logistic regression of the outputs on the causes.

        The curvature of log(1 + exp l) is at most 1/4. Therefore 1/4 sum q_n(s) e e' with e = [s, 1] bounds the Hessian
        of all outputs, and Newton steps with this bound never decrease the expected log-likelihood (Boehning 1992). The
        weights do not change in directions that the data do not determine.
        """
        states = states.to(sample)
        extended = torch.cat([states, torch.ones_like(states[..., :1])], -1)
        moment = (extended * shares.unsqueeze(-1)).flatten(0, 1).T @ extended.flatten(0, 1)
        inverse = torch.linalg.pinv(moment, hermitian=True)
        parameters = torch.cat([self.weights, self.bias.unsqueeze(-1)], -1)
        step = max(1, CHUNK_ELEMENTS // (states.shape[1] * self.n_dims))
        for _ in range(self.n_updates):
            gradient = torch.zeros_like(parameters)
            for start in range(0, len(sample), step):
                rows = slice(start, start + step)
                error = sample[rows].unsqueeze(1) - torch.sigmoid(extended[rows] @ parameters.T)
                gradient += (error * shares[rows].unsqueeze(-1)).flatten(0, 1).T @ extended[rows].flatten(0, 1)
            parameters = parameters + 4.0 * gradient @ inverse
        prior = (states * shares.unsqueeze(-1)).sum((0, 1)) / len(sample)
        prior = prior.clamp(LEAST_PRIOR, 1.0 - LEAST_PRIOR)
        return type(self)(parameters[:, :-1], parameters[:, -1], prior, self.n_updates)

    def _probabilities(self, states: Tensor) -> Tensor:
        return torch.sigmoid(states @ self.weights.T + self.bias)


def _check_binary(sample: Tensor) -> None:
    wrong = ((sample != 0.0) & (sample != 1.0)).any(-1).nonzero().flatten()
    if len(wrong):
        raise DataError(
            f"this model needs samples of zeros and ones, but row {int(wrong[0])} has other values; compare the "
            "samples with a threshold, or use BinarySparseCoding",
            int(wrong[0]),
        )
