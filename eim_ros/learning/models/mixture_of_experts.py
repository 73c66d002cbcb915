"""Mixtures of experts, q(x|y) = sum_i q(z_i|y) N(x; mu_i(y), Sigma_i(y)) (thesis 2.1.1, 4.2).

The protocols `Gating` and `Experts` define the two parts, q(z|y) and q(x|z, y). Any class that satisfies a protocol can
be used in `MixtureOfExperts`. When a model is loaded from a file, the names of the tensors determine the classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.custom import CustomExperts
from eim_ros.learning.models.gaussian import Gaussian, checked_generator, checked_values, tensors_of
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.neural import NeuralExperts, NeuralGating

LINEAR_GATING = ("weights", "biases")
NETWORK = "layers.0.weight"  # only neural experts and gatings have this tensor
LINEAR_EXPERTS = ("weights", "biases", "scale_trils")
CHUNK_ELEMENTS = 262_144  # gating probabilities per block when components are drawn; a block fits into the cache
LEAST_LOG_WEIGHT = -700.0  # represents a weight of zero; its exponential is above zero in float64
# Relative to the best context of an expert. At this limit, exp does not underflow yet; underflow would be slow.
LEAST_LOG_RESPONSIBILITY = -300.0


class Gating(Protocol):
    """Distribution of the component given the context."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def __call__(self, context: Tensor) -> Tensor:
        """Return the log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""


class Experts(Protocol):
    """All experts of a mixture as one batch of conditional normal distributions."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_dims(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def __call__(self, context: Tensor) -> Gaussian:
        """Return the experts' distributions for contexts (n_samples, n_context).

        Returns
        -------
        Gaussian
            Batch of shape (n_samples, n_components). If the factors do not depend on the context, they have the shape
            (n_components, n_dims, n_dims), without an axis for the samples.
        """

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density [nat] of samples (n_samples, n_dims) under every expert, (n_samples, n_components)."""

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Return the distributions of the given experts, one per context.

        `component` (n_samples,) of int64 contains the indices of the experts for contexts (n_samples, n_context).
        """

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample per context (n_samples, n_context) from the given experts (n_samples,) of int64."""

    def take(self, index: Tensor) -> Experts:
        """Return the experts with the indices (n,) of int64, in this order."""

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Return the gradient of log sum_k exp(log_gate_k) N_k(x) with respect to the sample x, (n_samples, n_dims).

        The log weights `log_gate` (n_samples, n_components) need not be normalised.
        """

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""


@with_hints
@dataclass(frozen=True)
class MixtureOfExperts:
    """Conditional mixture. Calling it with contexts returns a batch of Gaussian mixtures.

    Call `model(context)` to get means, covariances or marginals of the mixtures. The result stores all components for
    all contexts. If you need only samples, densities or scores, the methods `sample`, `log_prob` and `score` of this
    class need less memory.

    Attributes
    ----------
    gating : Gating
    experts : Experts
        The experts. Their number must equal the number of components of the gating.

    Examples
    --------
    Create two experts, x = y and x = -y, which are equally likely for every context y:

    >>> import torch
    >>> from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating
    >>> gating = SoftmaxGating(torch.zeros(2, 1), torch.zeros(2))
    >>> experts = LinearExperts(torch.tensor([[[1.0]], [[-1.0]]]), torch.zeros(2, 1), 0.1 * torch.ones(2, 1, 1))
    >>> model = MixtureOfExperts(gating, experts)
    >>> model(torch.tensor([0.5])).means.tolist()
    [[0.5], [-0.5]]
    """

    gating: Gating
    experts: Experts

    def __post_init__(self) -> None:
        gate = (self.gating.n_components, self.gating.n_context)
        if gate != (self.experts.n_components, self.experts.n_context):
            raise DistributionError(
                f"the gating and the experts must have equal (n_components, n_context), got {gate} and "
                f"{(self.experts.n_components, self.experts.n_context)}",
                gate,
            )

    @property
    def n_components(self) -> int:
        return self.experts.n_components

    @property
    def n_dims(self) -> int:
        return self.experts.n_dims

    @property
    def n_context(self) -> int:
        return self.experts.n_context

    @property
    def is_linear(self) -> bool:
        """Whether the gating and the experts are linear."""
        return isinstance(self.gating, SoftmaxGating) and isinstance(self.experts, LinearExperts)

    @property
    def dtype(self) -> torch.dtype:
        return self._any_tensor.dtype

    @property
    def device(self) -> torch.device:
        return self._any_tensor.device

    def __call__(self, context: Tensor) -> GaussianMixture:
        """Return the Gaussian mixtures at the given contexts.

        Parameters
        ----------
        context : Tensor (..., n_context)
            Any dtype and device; NumPy arrays are accepted too.

        Returns
        -------
        GaussianMixture
            Its batch shape is (n_samples,) for contexts (n_samples, n_context), and () for a single context.
        """
        context = self._contexts(context)
        batch = context.shape[:-1]
        rows = context.reshape(math.prod(batch), self.n_context)
        components, log_weights = self.experts(rows), self.gating(rows)
        mixtures = GaussianMixture(log_weights, components.mean, components.scale_tril)
        return mixtures if len(batch) == 1 else mixtures.reshape(batch)

    def log_joint(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return log q(z_i|y) + log q(x|z_i,y), (n_samples, n_components)."""
        checked_values(context, self.n_context, "contexts"), checked_values(sample, self.n_dims)
        return self.gating(context) + self.experts.log_prob(context, sample)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density log q(x|y) [nat], (n_samples,), of samples (n_samples, n_dims)."""
        return torch.logsumexp(self.log_joint(context, sample), -1)

    def log_responsibilities(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return log q(z_i|x,y), (n_samples, n_components)."""
        return torch.log_softmax(self.log_joint(context, sample), -1)

    def score(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the gradient of log q(x|y) with respect to the sample, (n_samples, n_dims)."""
        return self.experts.score(context, sample, self.gating(context))

    def sample(self, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample per context. Use `model(context).sample(n)` to draw more samples.

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
            Any dtype and device; NumPy arrays are accepted too.
        generator : torch.Generator, optional
            By default, torch's global generator.

        Returns
        -------
        Tensor (n_samples, n_dims)
        """
        return self.sample_with_components(context, generator)[0]

    @torch.no_grad()
    def sample_with_components(
        self, context: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw samples like `sample`, and also return the expert of each sample, (n_samples,) of int64."""
        context = self._contexts(context)
        checked_generator(generator)
        level = torch.rand(len(context), 1, generator=generator, dtype=context.dtype, device=context.device)
        step = max(1, CHUNK_ELEMENTS // self.n_components)
        drawn = []
        for rows, share in zip(context.split(step), level.split(step), strict=True):
            cumulative = self.gating(rows).exp().cumsum(-1)
            drawn.append(torch.searchsorted(cumulative, share * cumulative[:, -1:], right=True).squeeze(-1))
        component = torch.cat(drawn).clamp_max(self.n_components - 1)  # rounding can give the index n_components
        return self.experts.sample(component, context, generator), component

    def marginal_entropy(self, context: Tensor) -> Tensor:
        """Return H(z) = H(E_p(y) q(z|y)) over contexts (n_samples, n_context), divided by log n_components.

        The result lies in [0, 1]. The entropy is high if the experts share the context space evenly (thesis 6.4, figure
        6.6). For a single expert, it is defined as 1.
        """
        log_marginal = torch.logsumexp(self.gating(context), 0) - math.log(len(context))
        return self._normalised(-(log_marginal.exp() * log_marginal).sum())

    def conditional_entropy(self, context: Tensor) -> Tensor:
        """Return E_p(y) H(q(z|y)) over contexts (n_samples, n_context), divided by log n_components.

        The result lies in [0, 1]. The entropy is low if each expert is responsible for its own region of the context
        space (thesis 6.4, figure 6.6). For a single expert, it is defined as 0.
        """
        log_gate = self.gating(context)
        entropy = -(log_gate.exp() * log_gate).sum(-1).mean()
        return torch.zeros_like(entropy) if self.n_components == 1 else self._normalised(entropy)

    def take(self, index: Tensor) -> MixtureOfExperts:
        """Return a linear model with the components of the indices (n,) of int64, in this order."""
        return MixtureOfExperts.from_tensors({name: value[index] for name, value in self.tensors().items()})

    def to(self, **options: Any) -> MixtureOfExperts:
        """Return the same model with another dtype or on another device."""
        return self.with_tensors({name: value.to(**options) for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name, in the form that `from_tensors` reads."""
        gating = {f"gating.{name}": value for name, value in self.gating.tensors().items()}
        return gating | {f"experts.{name}": value for name, value in self.experts.tensors().items()}

    def with_tensors(self, tensors: dict[str, Tensor]) -> MixtureOfExperts:
        """Return a model with experts of the same family and the given parameters, named as in `tensors`."""
        if not isinstance(self.experts, CustomExperts):
            return MixtureOfExperts.from_tensors(tensors)
        gating = _gating_from(tensors_of("gating.", tensors))
        return MixtureOfExperts(gating, self.experts.with_tensors(tensors_of("experts.", tensors)))

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> MixtureOfExperts:
        """Build the model from named parameters. `DistributionError` lists the missing names."""
        gate, experts = tensors_of("gating.", tensors), tensors_of("experts.", tensors)
        neural_gate, neural_experts = NETWORK in gate, NETWORK in experts
        missing = [] if neural_gate else [f"gating.{name}" for name in LINEAR_GATING if name not in gate]
        missing += [] if neural_experts else [f"experts.{name}" for name in LINEAR_EXPERTS if name not in experts]
        if missing:
            raise DistributionError(f"a mixture of experts lacks {', '.join(missing)}", sorted(tensors))
        return cls(
            _gating_from(gate),
            NeuralExperts.from_tensors(experts)
            if neural_experts
            else LinearExperts(*(experts[name] for name in LINEAR_EXPERTS)),
        )

    @classmethod
    def from_mixture(cls, mixture: GaussianMixture) -> MixtureOfExperts:
        """Convert a single Gaussian mixture to a mixture of experts without contexts.

        Log weights below -700, including minus infinity, become -700, because the parameters of a gating must be
        finite.
        """
        if mixture.means.dim() != 2:
            raise DistributionError(
                f"only a single mixture can be converted, got a batch of shape {tuple(mixture.means.shape[:-2])}",
                mixture.means.shape,
            )
        means, factors = mixture.means, mixture.scale_trils.expand(*mixture.means.shape, mixture.n_dims)
        gating = SoftmaxGating(means.new_zeros(len(means), 0), mixture.log_weights.clamp_min(LEAST_LOG_WEIGHT))
        return cls(gating, LinearExperts(means.new_zeros(*means.shape, 0), means, factors))

    def as_mixture(self) -> GaussianMixture:
        """Convert a model to a Gaussian mixture. `DistributionError` is raised if the model has contexts."""
        if self.n_context != 0:
            raise DistributionError(
                f"a model with contexts of {self.n_context} dimensions is a Gaussian mixture only at a given "
                "context; use model(context)",
                self.n_context,
            )
        batch = self(torch.zeros(1, 0, dtype=self.dtype, device=self.device))
        factors = batch.scale_trils.expand(1, self.n_components, self.n_dims, self.n_dims)
        return GaussianMixture(batch.log_weights[0], batch.means[0], factors[0])

    @property
    def _any_tensor(self) -> Tensor:
        return next(iter(self.experts.tensors().values()))

    def _contexts(self, context: Any) -> Tensor:
        """Return contexts (..., n_context) in the dtype and on the device of the model."""
        try:
            converted = torch.as_tensor(context, dtype=self.dtype, device=self.device)
        except (TypeError, ValueError) as error:
            raise DistributionError(f"contexts must be an array of numbers: {error}", context) from error
        if converted.dim() == 0 or converted.shape[-1] != self.n_context:
            raise DistributionError(
                f"contexts must have the shape (..., {self.n_context}), got {tuple(converted.shape)}", converted.shape
            )
        return converted

    def _normalised(self, entropy: Tensor) -> Tensor:
        if self.n_components == 1:
            return torch.ones_like(entropy)
        return entropy / math.log(self.n_components)


def _gating_from(tensors: dict[str, Tensor]) -> Gating:
    if NETWORK in tensors:
        return NeuralGating.from_tensors(tensors)
    return SoftmaxGating(*(tensors[name] for name in LINEAR_GATING))


def draw_contexts(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Resample the contexts of each expert from p~(y|z_i) = p(y) q(z_i|y)/q(z_i) (thesis 4.3.2).

    `context` (n_contexts, n_context) contains the contexts of the data. The result has the shape (n_components,
    n_samples, n_context).
    """
    shape = (model.n_components, n_samples)
    if model.n_context == 0:
        return context.new_zeros(*shape, 0)
    level = torch.rand(shape, generator=generator, dtype=context.dtype, device=context.device)
    log_gate = _ByComponent(model, context)
    step = max(1, CHUNK_ELEMENTS // len(context))
    index = []
    for start in range(0, model.n_components, step):
        weights = log_gate(slice(start, start + step))
        cumulative = (
            weights.sub_(weights.amax(-1, keepdim=True)).clamp_min_(LEAST_LOG_RESPONSIBILITY).exp_().cumsum_(-1)
        )
        share = level[start : start + step] * cumulative[:, -1:]
        index.append(torch.searchsorted(cumulative, share, right=True))
    return context[torch.cat(index).clamp_max(len(context) - 1)]


class _ByComponent:
    """Values log q(z_i|y) of some components at all contexts, up to a constant per component, (n_some, n_contexts).

    For a softmax gating, only the log normaliser of each context is stored. Other gatings store all probabilities.
    """

    def __init__(self, model: MixtureOfExperts, context: Tensor) -> None:
        gating = model.gating
        step = max(1, CHUNK_ELEMENTS // model.n_components)
        if isinstance(gating, SoftmaxGating):
            logits = (torch.addmm(gating.biases, rows, gating.weights.T) for rows in context.split(step))
            self._normaliser = torch.cat([torch.logsumexp(part, -1) for part in logits])
        else:
            self._all = gating(context).T.contiguous()
        self._gating, self._context = gating, context.T.contiguous()

    def __call__(self, some: slice) -> Tensor:
        if isinstance(self._gating, SoftmaxGating):
            return torch.mm(self._gating.weights[some], self._context).sub_(self._normaliser)
        return self._all[some]
