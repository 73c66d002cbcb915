"""Components that are linear experts with a softmax gating: x = W y + w + L v with weight q(o|y).

The mean of a component is K f, with a matrix K and the features f = [1, u] of its contexts (`ContextGate`). The noise v
is N(0, I), and E[f f'] is the identity. The natural gradient of E[R] then has the curvature Gamma = -L' E[hessian R] L
and the slope L' E[gradient R f']. The rules of a mixture apply, with a row of K for each coordinate of the mean. In
terms of the precision Q and the matrix K of an expert, the direct update is (compare thesis 4.2.2)

    Q' = Q + beta G,    (Q K)' = Q K + beta (G K + E[gradient R f'] E[f f']^-1),    G = -E[hessian R]

The reward of a component is also regressed on the features. The logits of the gating then move along the natural
gradient of the gating (`with_common_rest`). Log densities are relative to the density of the contexts: log q(o|y)/q(o)
+ log N(x|o, y).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

import eim_ros.learning.gmmvi.gate as gate
from eim_ros.learning.gmmvi.components import (
    LEAST_LOG_WEIGHT,
    RIDGE,
    Densities,
    FullCovariances,
    Spectrum,
    WeightStep,
    padded_noise,
    representable,
    unpadded,
)
from eim_ros.learning.gmmvi.gate import ContextGate, with_common_rest
from eim_ros.learning.gmmvi.gaussians import FEW_COMPONENTS, MANY_DIMS, halved, moved_by
from eim_ros.learning.gmmvi.weights import SampleWeights
from eim_ros.learning.models.gaussian import log_normaliser, tensors_of
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.quadratic_form import QuadraticForms, products_of_coordinates
from eim_ros.learning.models.standardisation import Standardisation

BATCH = ("experts", "own", "whole")  # names of the parts of a batch in a checkpoint
# ridge of the slopes of rewards, multiplied by the number of features and divided by the effective sample size
SCARCITY = 3.0


class ExpertDensities:
    """Log densities of the experts, and their gradients with respect to the samples.

    For many components, one matrix product with the products of the coordinates computes the densities. For few
    components, the densities are computed from the whitened residuals.
    """

    def __init__(self, experts: LinearExperts, gate: ContextGate) -> None:
        self._experts, self._gate = experts, gate
        width = experts.n_dims + experts.n_context
        self._forms: QuadraticForms | None = None
        if max(FEW_COMPONENTS, width) <= experts.n_components and width <= MANY_DIMS:
            self._units = _units(experts, gate)
            gating = SoftmaxGating(gate.weights, gate.biases - gate.log_mass)
            self._forms = QuadraticForms.from_model(self._units.standard(MixtureOfExperts(gating, experts)))
        else:
            self._rows = experts.whitening()
            self._normaliser = log_normaliser(experts.scale_trils)

    def log_prob(self, sample: Tensor) -> Tensor:
        x, y = sample[:, : self._experts.n_dims], sample[:, self._experts.n_dims :]
        if self._forms is None:
            return self._normaliser - 0.5 * self._residual(sample).square().sum(-1) + self._gate.log_prob(y)
        joint = self._units.joint(y, x)
        values = self._forms(joint, products_of_coordinates(joint))
        constant = gate.log_normaliser(self._gate.gating, y) + self._units.log_volume()
        return values.sub_(constant.unsqueeze(-1))

    def mean_score(self, sample: Tensor, share: Tensor) -> Tensor:
        n_dims = self._experts.n_dims
        if self._forms is None:
            return -(share.unsqueeze(-1) * self._residual(sample)).flatten(1) @ self._rows[:, :n_dims]
        joint = self._units.joint(sample[:, n_dims:], sample[:, :n_dims])
        return self._forms.gradient(joint, share)[:, :n_dims] / self._units.sample_scale

    def take(self, index: Tensor) -> ExpertDensities:
        some = copy(self)
        some._experts, some._gate = self._experts.take(index), self._gate.take(index)
        if self._forms is not None:
            some._forms = self._forms.take(index)
        else:
            some._rows = self._rows.unflatten(0, (-1, self._experts.n_dims))[index].flatten(0, 1)
            some._normaliser = self._normaliser[index]
        return some

    def _residual(self, sample: Tensor) -> Tensor:
        extended = torch.cat([sample, torch.ones_like(sample[:, :1])], -1)
        return (extended @ self._rows.T).reshape(len(sample), -1, self._experts.n_dims)


def _units(experts: LinearExperts, gate: ContextGate) -> Standardisation:
    """Return the centre and scale of the experts' samples. Standardised squares neither overflow nor cancel."""
    means = (experts.weights @ gate.center.unsqueeze(-1)).squeeze(-1) + experts.biases
    variance = experts.scale_trils.square().sum(-1).mean(0) + (means - means.mean(0)).square().mean(0)
    typical = Standardisation.from_data(gate.context, means)
    return Standardisation(typical.context_center, typical.context_scale, means.mean(0), variance.sqrt())


@dataclass(frozen=True)
class PastExperts:
    """Densities of experts from several iterations with their gatings, in the form of a `Snapshot`."""

    # for each iteration, the experts, a gating with their V and v - log q(o), and the complete gating
    batches: tuple[tuple[LinearExperts, SoftmaxGating, SoftmaxGating], ...]

    @classmethod
    def of(cls, experts: LinearExperts, gate: ContextGate) -> PastExperts:
        """Return a snapshot of the current experts."""
        return cls(((experts, SoftmaxGating(gate.weights, gate.biases - gate.log_mass), gate.gating),))

    @property
    def n_components(self) -> int:
        return sum(experts.n_components for experts, _, _ in self.batches)

    def densities(self) -> PastExperts:
        return self

    def log_prob(self, sample: Tensor) -> Tensor:
        parts = []
        for experts, own, whole in self.batches:
            x, y = sample[:, : experts.n_dims], sample[:, experts.n_dims :]
            normaliser = gate.log_normaliser(whole, y).unsqueeze(-1)
            parts.append(experts.log_prob(y, x) + torch.addmm(own.biases, y, own.weights.T) - normaliser)
        return torch.cat(parts, -1)

    def take(self, index: Tensor) -> PastExperts:
        """Return a subset of the components by their indices (n,) in ascending order."""
        batches, first = [], 0
        for experts, own, whole in self.batches:
            mine = index[(index >= first) & (index < first + experts.n_components)] - first
            first += experts.n_components
            if len(mine):
                taken = SoftmaxGating(own.weights[mine], own.biases[mine])
                batches.append((experts.take(mine), taken, whole))
        return PastExperts(tuple(batches))

    def joined(self, other: PastExperts) -> PastExperts:
        return PastExperts(self.batches + other.batches)

    def tensors(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for number, (experts, own, whole) in enumerate(self.batches):
            for part, values in zip(BATCH, (experts.tensors(), own.tensors(), whole.tensors()), strict=True):
                tensors |= {f"{number}.{part}.{name}": value for name, value in values.items()}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> PastExperts:
        """Rebuild the snapshot from the named parameters that `tensors` returned."""
        n_batches = 1 + max((int(name.split(".")[0]) for name in tensors), default=-1)
        parts = [{part: tensors_of(f"{n}.{part}.", tensors) for part in BATCH} for n in range(n_batches)]
        return cls(
            tuple(
                (LinearExperts(**part["experts"]), SoftmaxGating(**part["own"]), SoftmaxGating(**part["whole"]))
                for part in parts
            )
        )


@dataclass(frozen=True)
class ExpertComponents(FullCovariances):
    """Linear experts with a softmax gating as `Components`. The gate determines the log weights log q(o)."""

    experts: LinearExperts
    gate: ContextGate

    @property
    def scale_trils(self) -> Tensor:
        return self.experts.scale_trils

    @property
    def n_components(self) -> int:
        return self.experts.n_components

    @property
    def n_dims(self) -> int:
        return self.experts.n_dims

    @property
    def n_context(self) -> int:
        return self.experts.n_context

    def model(self, log_weights: Tensor) -> MixtureOfExperts:
        return MixtureOfExperts(self.gate.gating, self.experts)

    @cached_property
    def means(self) -> Tensor:
        """Means of the experts at the means of their contexts, (n_components, n_dims)."""
        return (self.experts.weights @ self.gate.center.unsqueeze(-1)).squeeze(-1) + self.experts.biases

    @property
    def center(self) -> Tensor:
        return torch.cat([self.means.mean(0), self.gate.context.mean(0)])

    @cached_property
    def to_own(self) -> Tensor:
        n_dims, factor = self.n_dims, self.gate.scale_tril
        matrix = factor.new_zeros(self.n_components, n_dims + self.n_context, n_dims + self.n_context)
        matrix[:, :n_dims, :n_dims] = self.whitening
        matrix[:, :n_dims, n_dims:] = -self.whitening @ self.experts.weights
        identity = torch.eye(self.n_context, dtype=factor.dtype, device=factor.device)
        matrix[:, n_dims:, n_dims:] = torch.linalg.solve_triangular(factor, identity, upper=False)
        return matrix

    @cached_property
    def origin(self) -> Tensor:
        return torch.cat([self.means, self.gate.center], -1)

    def densities(self) -> Densities:
        return ExpertDensities(self.experts, self.gate)

    def sample(self, counts: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = padded_noise(counts, self.means, generator)
        context = self.gate.sample(noise.shape[1], generator)
        mean = context @ self.experts.weights.mT + self.experts.biases.unsqueeze(1)
        return unpadded(torch.cat([torch.baddbmm(mean, noise, self.scale_trils.mT), context], -1), counts)

    def moved(
        self, spectrum: Spectrum, precision: Tensor, shift: Tensor, accepted: Tensor
    ) -> tuple[ExpertComponents, Tensor]:
        factors, step, usable = moved_by(self.scale_trils, spectrum, precision, shift)
        slope = self.experts.weights @ self.gate.scale_tril + step[..., 1:]
        reach = (self.means + step[..., 0]).abs() + slope.abs().sum(-1)
        moved = accepted & usable & representable(reach, factors.diagonal(dim1=-2, dim2=-1))
        linear = self.gate.linear(step)
        which, old = moved[:, None, None], self.experts
        weights = torch.where(which, old.weights + linear[..., :-1], old.weights)
        biases = torch.where(moved[:, None], old.biases + linear[..., -1], old.biases)
        return replace(
            self, experts=LinearExperts(weights, biases, torch.where(which, factors, old.scale_trils))
        ), moved

    def at(self, log_weights: Tensor, context: Tensor) -> tuple[Tensor, ExpertComponents]:
        gate = self.gate.at(context)
        return (log_weights, self) if gate is self.gate else (gate.log_mass, replace(self, gate=gate))

    def log_weights_at_contexts(self, log_weights: Tensor) -> Tensor:
        return self.gate.log_probs

    def reward(self, sample: Tensor, value: Tensor, weights: SampleWeights) -> Tensor:
        """Regress R on the features by least squares with a ridge on the slopes, and then apply `with_common_rest`."""
        middle, n_context = self.gate.context.mean(0), self.n_context
        local, column = sample[:, self.n_dims :] - middle, value.unsqueeze(-1)
        means = weights.mean(torch.cat([column, torch.ones_like(column), local, local * column], -1))
        products = weights.mean(self.products(local, local)).reshape(-1, n_context, n_context)
        reward, one, center, cross = means.split([1, 1, n_context, n_context], -1)
        to_own = self.to_own[:, self.n_dims :, self.n_dims :]
        at_mean = (to_own @ (center / one - (self.gate.center - middle)).unsqueeze(-1)).squeeze(-1)
        spread = products / one.unsqueeze(-1) - (center / one).unsqueeze(-1) * (center / one).unsqueeze(-2)
        spread = to_own @ spread @ to_own.mT
        n_effective = weights.effective_samples()
        ridge = SCARCITY * (1 + n_context) / n_effective + RIDGE
        identity = torch.eye(n_context, dtype=value.dtype, device=value.device)
        covariance = to_own @ ((cross - center * reward / one) / one).unsqueeze(-1)
        factor, info = torch.linalg.cholesky_ex(spread + ridge[:, None, None] * identity)
        slope = torch.cholesky_solve(covariance, factor).squeeze(-1)
        slope = torch.where((info == 0).unsqueeze(-1), slope, 0.0)
        fitted = torch.cat([reward - one * (slope * at_mean).sum(-1, keepdim=True), slope], -1)
        share = weights.share(self.gate.log_mass)
        return with_common_rest(self.gate, fitted, sample[:, self.n_dims :], value, share, n_effective)

    def reward_at_contexts(self, reward: Tensor) -> Tensor:
        return self.gate.values(reward)

    def reweighted(self, log_weights: Tensor, reward: Tensor, step: WeightStep) -> tuple[Tensor, ExpertComponents]:
        linear = self.gate.linear(reward)
        weights = step.old * self.gate.weights + step.reward * linear[:, :-1]
        return self._gated(weights, step.old * self.gate.biases + step.reward * linear[:, -1], self.experts)

    def without(self, log_weights: Tensor, kept: Tensor) -> tuple[Tensor, ExpertComponents]:
        return self._gated(self.gate.weights[kept], self.gate.biases[kept], self.experts.take(kept))

    def with_addition(
        self, log_weights: Tensor, place: Tensor, variance: Tensor, log_weight: float
    ) -> tuple[Tensor, ExpertComponents]:
        """Append an expert, as described in `Components.with_addition`.

        The new expert gets the slope of the component that is most likely at the row. Its gate weights come from the
        component that is most probable in the context of the row.
        """
        sample, context = place[: self.n_dims], place[self.n_dims :]
        log_gate = self.gate.gating(context.unsqueeze(0))[0]
        log_density = self.experts.log_prob(context.unsqueeze(0), sample.unsqueeze(0))[0]
        near, greatest = (log_gate + log_density).argmax().reshape(1), log_gate.argmax().reshape(1)
        slope = self.experts.weights[near]
        identity = torch.eye(self.n_dims, dtype=place.dtype, device=place.device).unsqueeze(0)
        new = LinearExperts(slope, (sample - slope[0] @ context).unsqueeze(0), variance.sqrt() * identity)
        experts = self.experts.joined(new)
        bias = self.gate.biases[greatest] - self.gate.log_mass[greatest] + log_weight
        weights = torch.cat([self.gate.weights, self.gate.weights[greatest]])
        return self._gated(weights, torch.cat([self.gate.biases, bias]), experts)

    def with_halves(
        self, log_weights: Tensor, whole: Tensor, split: Tensor, share: float, axis: Tensor
    ) -> tuple[Tensor, ExpertComponents]:
        order = torch.cat([whole, split, split])
        apart, factors = halved(self.scale_trils[split], share, axis)
        move, biases = torch.cat([apart, -apart]), self.gate.biases[order]
        biases[len(whole) :] -= math.log(2.0)
        scale_trils = torch.cat([self.scale_trils[whole], factors, factors])
        means = self.experts.biases[order]
        means[len(whole) :] += move
        return self._gated(
            self.gate.weights[order], biases, LinearExperts(self.experts.weights[order], means, scale_trils)
        )

    def take(self, index: Tensor) -> ExpertComponents:
        return ExpertComponents(self.experts.take(index), self.gate.take(index))

    def snapshot(self) -> PastExperts:
        return PastExperts.of(self.experts, self.gate)

    def tensors(self) -> dict[str, Tensor]:
        return {**self.experts.tensors(), "gate_weights": self.gate.weights, "gate_biases": self.gate.biases}

    def _gated(self, weights: Tensor, biases: Tensor, experts: LinearExperts) -> tuple[Tensor, ExpertComponents]:
        """Replace the gating, centre its logits, and raise weights below the minimum to the minimum weight."""
        biases = biases - torch.logsumexp(biases, 0)
        gate = ContextGate(weights - weights.mean(0), biases, self.gate.context)
        lacking = (LEAST_LOG_WEIGHT - gate.log_mass).clamp_min(0.0)
        if bool((lacking > 0.0).any()):
            gate = ContextGate(gate.weights, gate.biases + lacking, gate.context)
        return gate.log_mass, ExpertComponents(experts, gate)
