"""What the components of a model did in the last iterations, and where they have drawn samples: who is useless.

A component is useless when in a window of iterations its weight, the mean of q(z|y) over the contexts, has been
negligible and the weight it deserves has hardly caught up with the greatest one. What it deserves, unnormalised, is its
weight times exp of its reward: what an update without bounds would give it. The reward alone rises as a weight falls,
since phi = log p - log q.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.training_data import Pairs

__all__ = ["ComponentHistory"]

LEAST_GAIN = 0.4  # of what it lacks to the best log deserved weight, a component makes up for this share in a window


@dataclass(frozen=True)
class ComponentHistory:
    """What the components did in the last iterations (the newest is the last row), and what they drew in all.

    Attributes
    ----------
    log_weights : Tensor (n_iterations, n_components)
        Log of the mean of q(z|y) over the contexts [nat]; NaN before the component was there.
    rewards : Tensor (n_iterations, n_components)
        Mean of phi over the contexts and samples of each component [nat]; NaN likewise.
    drawn : Pairs
        Samples of all times, equally likely to be here.
    n_batches : int
        How many batches they are from.
    n_added : int
        Components added in the whole run.
    """

    log_weights: Tensor
    rewards: Tensor
    drawn: Pairs
    n_batches: int = 0
    n_added: int = 0

    @classmethod
    def empty(cls, model: MixtureOfExperts) -> ComponentHistory:
        """Before the first iteration."""
        nothing = torch.zeros(0, dtype=model.dtype, device=model.device)
        blank = nothing.reshape(0, model.n_components)
        return cls(blank, blank, Pairs(nothing.reshape(0, model.n_context), nothing.reshape(0, model.n_dims)))

    def tensors(self) -> dict[str, Tensor]:
        """Everything, as `from_tensors` takes it."""
        return {
            "history.log_weights": self.log_weights,
            "history.rewards": self.rewards,
            "history.context": self.drawn.context,
            "history.sample": self.drawn.sample,
            "history.counts": torch.tensor([self.n_batches, self.n_added]),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device) -> ComponentHistory:
        """Inverse of `tensors`."""
        names = ("log_weights", "rewards", "context", "sample")
        log_weights, rewards, context, sample = (tensors[f"history.{name}"].to(device) for name in names)
        return cls(log_weights, rewards, Pairs(context, sample), *tensors["history.counts"].tolist())

    def followed(self, log_weight: Tensor, reward: Tensor, window: int) -> ComponentHistory:
        """With one more iteration (n_components,); rows before the window are forgotten."""
        log_weights = torch.cat([self.log_weights, log_weight.unsqueeze(0)])[-window:]
        rewards = torch.cat([self.rewards, reward.unsqueeze(0)])[-window:]
        return dataclasses.replace(self, log_weights=log_weights, rewards=rewards)

    def remembered(self, new: Pairs, generator: torch.Generator) -> ComponentHistory:
        """With one more batch of samples, always of the same number; each batch keeps as many of its samples."""
        n_batches, drawn = self.n_batches + 1, new
        if self.n_batches > 0:
            level = torch.rand(len(new), generator=generator, dtype=new.sample.dtype, device=new.sample.device)
            replaced = (level * n_batches < 1.0).unsqueeze(-1)
            drawn = Pairs(
                torch.where(replaced, new.context, self.drawn.context),
                torch.where(replaced, new.sample, self.drawn.sample),
            )
        return dataclasses.replace(self, drawn=drawn, n_batches=n_batches)

    def useless(self, window: int, least_weight: float) -> Tensor:
        """Which components are useless, (n_components,) of bool; none that is younger than the window, never all."""
        deserved = self.log_weights + self.rewards
        if window == 0 or len(deserved) < window or not bool(torch.isfinite(deserved).all(0).any()):
            return torch.zeros(deserved.shape[1], dtype=torch.bool, device=deserved.device)
        part = max(1, window // 3)  # what begins and ends a window is averaged over so many iterations
        before, now = deserved[:part].mean(0), deserved[-part:].mean(0)
        lack = (now[torch.isfinite(now)].max() - before).clamp_min(1e-12)
        is_negligible = self.log_weights.exp().amax(0) < least_weight  # NaN is not
        is_negligible[self.log_weights[-1].nan_to_num(-math.inf).argmax()] = False
        return is_negligible & ((now - before) / lack <= LEAST_GAIN)

    def take(self, index: Tensor) -> ComponentHistory:
        """That of some of the components."""
        return dataclasses.replace(self, log_weights=self.log_weights[:, index], rewards=self.rewards[:, index])

    def added(self, n_new: int) -> ComponentHistory:
        """With new components."""
        blank = self.rewards.new_full((len(self.rewards), n_new), math.nan)
        log_weights, rewards = (torch.cat([rows, blank], -1) for rows in (self.log_weights, self.rewards))
        return dataclasses.replace(self, log_weights=log_weights, rewards=rewards, n_added=self.n_added + n_new)
