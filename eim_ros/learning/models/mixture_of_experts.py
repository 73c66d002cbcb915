"""Mixture of experts, q(x|y) = sum_i q(z_i|y) N(x; mu_i(y), Sigma_i(y)) (thesis 2.1.1, 4.2).

What the parts of a mixture of experts owe: a gating q(z|y) and experts q(x|z, y) (thesis 2.1.1, 4.2).

A class that satisfies a protocol can be put into `MixtureOfExperts`; nothing has to be registered but its tensors'
names, by which a file is read back.

Contexts at which an expert is updated: those of the data, by how much the expert answers for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian, checked_generator, checked_values
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.neural import NeuralExperts, NeuralGating


class Gating(Protocol):
    """Distribution of the component given the context."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def __call__(self, context: Tensor) -> Tensor:
        """Log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


class Experts(Protocol):
    """All experts of a mixture as one batch of conditional normal distributions."""

    @property
    def n_components(self) -> int: ...

    @property
    def n_dims(self) -> int: ...

    @property
    def n_context(self) -> int: ...

    def __call__(self, context: Tensor) -> Gaussian:
        """The experts' distributions for contexts (n_samples, n_context).

        Returns
        -------
        Gaussian
            Of batch (n_samples, n_components); its factors (..., n_components, n_dims, n_dims) lack the samples' axis
            where they do not depend on the context.
        """
        ...

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Log density [nat] of samples (n_samples, n_dims) under every expert, (n_samples, n_components)."""
        ...

    def select(self, component: Tensor, context: Tensor) -> Gaussian:
        """Distribution of one expert per context: component (n_samples,) of int64, batch (n_samples,)."""
        ...

    def sample(self, component: Tensor, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw from one expert (n_samples,) of int64 per context (n_samples, n_context): (n_samples, n_dims)."""
        ...

    def take(self, index: Tensor) -> Experts:
        """Some of the experts, by their numbers (n,) of int64, in that order."""
        ...

    def score(self, context: Tensor, sample: Tensor, log_gate: Tensor) -> Tensor:
        """Gradient of log sum_k exp(log_gate_k) N_k(sample) with respect to the sample, (n_samples, n_dims).

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
        sample : Tensor (n_samples, n_dims)
        log_gate : Tensor (n_samples, n_components)
            Log weights of the experts; need not be normalised.
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


LINEAR_GATING = ("weights", "biases")
LINEAR_EXPERTS = ("weights", "biases", "scale_trils")
CHUNK_ELEMENTS = 262_144  # probabilities of the gating at a time when drawing from it: they stay in cache
LEAST_LOG_WEIGHT = -700.0  # of a component of weight zero: exp of it is still above zero in float64


@dataclass(frozen=True)
class MixtureOfExperts:
    """Conditional mixture; calling it with contexts gives a batch of Gaussian mixtures.

    What a batch of mixtures knows (its samples, means, covariances, marginals) is asked of `model(context)`, which
    holds all components of all contexts. `sample`, `log_prob` and `score` here are the same without that memory.

    Attributes
    ----------
    gating : Gating
    experts : Experts
        As many as the gating has components.
    """

    gating: Gating
    experts: Experts

    def __post_init__(self) -> None:
        gate = (self.gating.n_components, self.gating.n_context)
        if gate != (self.experts.n_components, self.experts.n_context):
            raise DistributionError(
                f"gating (n_components, n_context) {gate} does not fit experts "
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
    def dtype(self) -> torch.dtype:
        return self._any_tensor.dtype

    @property
    def device(self) -> torch.device:
        return self._any_tensor.device

    def __call__(self, context: Tensor) -> GaussianMixture:
        """Condition on contexts.

        Parameters
        ----------
        context : Tensor (..., n_context)
            In any dtype, on any device; a NumPy array is taken, too.

        Returns
        -------
        GaussianMixture
            Batch of the shape of the contexts: (n_samples,) for (n_samples, n_context), one mixture for one context.
        """
        context = self._contexts(context)
        batch = context.shape[:-1]
        rows = context.reshape(math.prod(batch), self.n_context)
        components, log_weights = self.experts(rows), self.gating(rows)
        mixtures = GaussianMixture(log_weights, components.mean, components.scale_tril)
        return mixtures if len(batch) == 1 else mixtures.reshape(batch)

    def log_joint(self, context: Tensor, sample: Tensor) -> Tensor:
        """log q(z_i|y) + log q(x|z_i,y), (n_samples, n_components)."""
        checked_values(context, self.n_context, "contexts"), checked_values(sample, self.n_dims)
        return self.gating(context) + self.experts.log_prob(context, sample)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Log density [nat] log q(x|y), (n_samples,), of samples (n_samples, n_dims)."""
        return torch.logsumexp(self.log_joint(context, sample), -1)

    def log_responsibilities(self, context: Tensor, sample: Tensor) -> Tensor:
        """log q(z_i|x,y), (n_samples, n_components)."""
        return torch.log_softmax(self.log_joint(context, sample), -1)

    def score(self, context: Tensor, sample: Tensor) -> Tensor:
        """Gradient of log q(x|y) with respect to the sample, (n_samples, n_dims)."""
        return self.experts.score(context, sample, self.gating(context))

    def sample(self, context: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample per context; `model(context).sample(n)` draws more.

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
            As for a call.
        generator : torch.Generator, optional
            That of torch if missing.

        Returns
        -------
        Tensor (n_samples, n_dims)
        """
        return self.sample_with_components(context, generator)[0]

    @torch.no_grad()
    def sample_with_components(
        self, context: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `sample`; also which expert each sample is of, (n_samples,) of int64."""
        context = self._contexts(context)
        checked_generator(generator)
        level = torch.rand(len(context), 1, generator=generator, dtype=context.dtype, device=context.device)
        step = max(1, CHUNK_ELEMENTS // self.n_components)
        drawn = []
        for rows, share in zip(context.split(step), level.split(step), strict=True):
            cumulative = self.gating(rows).exp().cumsum(-1)
            drawn.append(torch.searchsorted(cumulative, share * cumulative[:, -1:], right=True).squeeze(-1))
        component = torch.cat(drawn).clamp_max(self.n_components - 1)  # rounding
        return self.experts.sample(component, context, generator), component

    def marginal_entropy(self, context: Tensor) -> Tensor:
        """H(z) = H(E_p(y) q(z|y)) over contexts (n_samples, n_context), normalised by log n_components to [0, 1].

        Thesis 6.4, figure 6.6: high when the experts share the context space evenly. Defined as 1 for one expert.
        """
        log_marginal = torch.logsumexp(self.gating(context), 0) - math.log(len(context))
        return self._normalised(-(log_marginal.exp() * log_marginal).sum())

    def conditional_entropy(self, context: Tensor) -> Tensor:
        """E_p(y) H(q(z|y)) over contexts, normalised by log n_components to [0, 1] (thesis 6.4, figure 6.6).

        Low when each expert answers for a part of the context space. Defined as 0 for one expert.
        """
        log_gate = self.gating(context)
        entropy = -(log_gate.exp() * log_gate).sum(-1).mean()
        return torch.zeros_like(entropy) if self.n_components == 1 else self._normalised(entropy)

    def to(self, **options: Any) -> MixtureOfExperts:
        """The same model with another dtype or on another device."""
        return MixtureOfExperts.from_tensors({name: value.to(**options) for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name, as `from_tensors` takes them."""
        gating = {f"gating.{name}": value for name, value in self.gating.tensors().items()}
        return gating | {f"experts.{name}": value for name, value in self.experts.tensors().items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> MixtureOfExperts:
        """Inverse of `tensors`; `DistributionError` names what is missing."""
        gate, experts = (
            {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}
            for part in ("gating.", "experts.")
        )
        neural_gate, neural_experts = "layers.0.weight" in gate, "layers.0.weight" in experts
        missing = [] if neural_gate else [f"gating.{name}" for name in LINEAR_GATING if name not in gate]
        missing += [] if neural_experts else [f"experts.{name}" for name in LINEAR_EXPERTS if name not in experts]
        if missing:
            raise DistributionError(f"a mixture of experts lacks {', '.join(missing)}", sorted(tensors))
        return cls(
            NeuralGating.from_tensors(gate) if neural_gate else SoftmaxGating(*(gate[n] for n in LINEAR_GATING)),
            NeuralExperts.from_tensors(experts)
            if neural_experts
            else LinearExperts(*(experts[name] for name in LINEAR_EXPERTS)),
        )

    @classmethod
    def from_mixture(cls, mixture: GaussianMixture) -> MixtureOfExperts:
        """A Gaussian mixture (no batch) as a mixture of experts without contexts.

        A log weight below -700, minus infinity included, becomes -700, since a gating's parameters are finite.
        """
        if mixture.means.dim() != 2:
            raise DistributionError(
                f"one mixture can be made a mixture of experts, not a batch {tuple(mixture.means.shape[:-2])}",
                mixture.means.shape,
            )
        means, factors = mixture.means, mixture.scale_trils.expand(*mixture.means.shape, mixture.n_dims)
        gating = SoftmaxGating(means.new_zeros(len(means), 0), mixture.log_weights.clamp_min(LEAST_LOG_WEIGHT))
        return cls(gating, LinearExperts(means.new_zeros(*means.shape, 0), means, factors))

    def as_mixture(self) -> GaussianMixture:
        """The Gaussian mixture that a model without contexts is; `DistributionError` if it has contexts."""
        if self.n_context != 0:
            raise DistributionError(
                f"a mixture of experts with {self.n_context} contexts is a Gaussian mixture only where they are given",
                self.n_context,
            )
        batch = self(torch.zeros(1, 0, dtype=self.dtype, device=self.device))
        factors = batch.scale_trils.expand(1, self.n_components, self.n_dims, self.n_dims)
        return GaussianMixture(batch.log_weights[0], batch.means[0], factors[0])

    @property
    def _any_tensor(self) -> Tensor:
        return next(iter(self.experts.tensors().values()))

    def _contexts(self, context: Any) -> Tensor:
        """Contexts (..., n_context) in the dtype and on the device of the model."""
        try:
            converted = torch.as_tensor(context, dtype=self.dtype, device=self.device)
        except (TypeError, ValueError) as error:
            raise DistributionError(f"contexts must be numbers: {error}", context) from error
        if converted.dim() == 0 or converted.shape[-1] != self.n_context:
            raise DistributionError(
                f"contexts must end in an axis of {self.n_context}, got shape {tuple(converted.shape)}", converted.shape
            )
        return converted

    def _normalised(self, entropy: Tensor) -> Tensor:
        if self.n_components == 1:
            return torch.ones_like(entropy)
        return entropy / math.log(self.n_components)


LEAST_LOG_RESPONSIBILITY = -300.0  # of a context, relative to an expert's best one; where exp underflows it is slow


def draw_contexts(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Contexts of each expert, resampled from p~(y|z_i) = p(y) q(z_i|y)/q(z_i) (thesis 4.3.2).

    Parameters
    ----------
    model : MixtureOfExperts
    context : Tensor (n_contexts, n_context)
        Contexts of the data.
    n_samples : int
        For each expert.
    generator : torch.Generator

    Returns
    -------
    Tensor (n_components, n_samples, n_context)
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
    """log q(z_i|y) of some components at all contexts, up to a constant of the component, (n_some, n_contexts).

    Of a softmax gating only the log normaliser of each context is kept, of another one all probabilities.
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
