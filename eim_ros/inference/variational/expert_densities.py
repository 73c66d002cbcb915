"""Log densities of linear experts with a softmax gating, for many rows [x, y] of a sample and its context.

Relative to the contexts' density they are log q(o|y)/q(o) + log N(x|o, y), see `ContextGate`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.distributions.gaussian import log_normaliser
from eim_ros.distributions.quadratic_form import QuadraticForms, products_of_coordinates
from eim_ros.distributions.standardisation import Standardisation
from eim_ros.inference.variational import context_gate
from eim_ros.inference.variational.context_gate import ContextGate

__all__ = ["ExpertDensities", "PastExperts"]

FEW_COMPONENTS = 6  # from as many on, and as many as there are coordinates, their products pay
MANY_DIMS = 64


class ExpertDensities:
    """Densities and their scores in the samples: as one matrix product with the products of the coordinates where there
    are many components, by the whitened residuals where there are few.
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
        constant = context_gate.log_normaliser(self._gate.gating, y) + self._units.log_volume()
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
    """Centre and scale of what the experts draw, so that squares neither overflow nor cancel."""
    means = (experts.weights @ gate.center.unsqueeze(-1)).squeeze(-1) + experts.biases
    variance = experts.scale_trils.square().sum(-1).mean(0) + (means - means.mean(0)).square().mean(0)
    typical = Standardisation.from_data(gate.context, means)
    return Standardisation(typical.context_center, typical.context_scale, means.mean(0), variance.sqrt())


@dataclass(frozen=True)
class PastExperts:
    """Densities of experts of several iterations, each with the gating that it had; see `Snapshot`.

    Attributes
    ----------
    batches : tuple of tuple
        Of each iteration the experts, V and v of their gates, v less log q(o), and the whole gating.
    """

    batches: tuple[tuple[LinearExperts, SoftmaxGating, SoftmaxGating], ...]

    @classmethod
    def of(cls, experts: LinearExperts, gate: ContextGate) -> PastExperts:
        """The experts as they are now."""
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
            normaliser = context_gate.log_normaliser(whole, y).unsqueeze(-1)
            parts.append(experts.log_prob(y, x) + torch.addmm(own.biases, y, own.weights.T) - normaliser)
        return torch.cat(parts, -1)

    def take(self, index: Tensor) -> PastExperts:
        """Some of the components, by their numbers (n,), ascending."""
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
            for part, values in {"experts": experts.tensors(), "own": own.tensors(), "whole": whole.tensors()}.items():
                tensors |= {f"{number}.{part}.{name}": value for name, value in values.items()}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> PastExperts:
        """Inverse of `tensors`."""
        n_batches = 1 + max((int(name.split(".")[0]) for name in tensors), default=-1)

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        return cls(
            tuple(
                (
                    LinearExperts(**part(f"{number}.experts.")),
                    SoftmaxGating(**part(f"{number}.own.")),
                    SoftmaxGating(**part(f"{number}.whole.")),
                )
                for number in range(n_batches)
            )
        )
