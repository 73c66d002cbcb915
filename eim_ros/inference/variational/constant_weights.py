"""What the rules of variational inference ask of the weights of components, where there are no contexts."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.inference.variational.importance_weights import SampleWeights
from eim_ros.inference.variational.weight_update import WeightStep, normalised

__all__ = ["ConstantWeights"]


class _Plain(Protocol):
    """The components of a mixture."""

    @property
    def means(self) -> Tensor: ...

    @property
    def scale_trils(self) -> Tensor: ...

    def take(self: _PlainT, index: Tensor) -> _PlainT: ...

    def joined(self: _PlainT, other: Any) -> _PlainT: ...

    def isotropic(self: _PlainT, mean: Tensor, variance: Tensor) -> _PlainT: ...


_PlainT = TypeVar("_PlainT", bound=_Plain)


class ConstantWeights:
    """Weights that are one number per component, for kinds of `Components` without contexts."""

    n_context = 0

    def model(self: _Plain, log_weights: Tensor) -> MixtureOfExperts:
        return MixtureOfExperts.from_mixture(GaussianMixture(log_weights, self.means, self.scale_trils))

    @property
    def center(self: _Plain) -> Tensor:
        return self.means.mean(0)

    def at(self: _PlainT, log_weights: Tensor, context: Tensor) -> tuple[Tensor, _PlainT]:
        return log_weights, self

    def log_weights_at_contexts(self, log_weights: Tensor) -> Tensor:
        return log_weights.unsqueeze(0)

    def reward(self, sample: Tensor, value: Tensor, weights: SampleWeights) -> Tensor:
        return weights.mean(value.unsqueeze(-1))

    def reward_at_contexts(self, reward: Tensor) -> Tensor:
        return reward.T

    def reweighted(self: _PlainT, log_weights: Tensor, reward: Tensor, step: WeightStep) -> tuple[Tensor, _PlainT]:
        return step.followed(log_weights, reward[:, 0]), self

    def without(self: _PlainT, log_weights: Tensor, kept: Tensor) -> tuple[Tensor, _PlainT]:
        return normalised(log_weights[kept]), self.take(kept)

    def with_addition(
        self: _PlainT, log_weights: Tensor, place: Tensor, variance: Tensor, log_weight: float
    ) -> tuple[Tensor, _PlainT]:
        every = torch.cat([log_weights, log_weights.new_tensor([log_weight])])
        return normalised(every), self.joined(self.isotropic(place, variance))

    def snapshot(self: _PlainT) -> _PlainT:
        return self
