"""What is remembered of each component: step size, ridge, and the rewards and weights of the last iterations."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

__all__ = ["ComponentRecords"]


@dataclass(frozen=True)
class ComponentRecords:
    """One column per component; the newest iteration is the last row.

    Attributes
    ----------
    step : Tensor (n_components,)
        Step size of the last update.
    n_updates : Tensor (n_components,)
        Updates so far.
    ridge : Tensor (n_components,)
        Ridge of the next regression.
    rewards : Tensor (n_iterations, n_components)
        log w_o + E_o[R] [nat]; NaN before the component was there.
    log_weights : Tensor (n_iterations, n_components)
        Log weights [nat]; NaN likewise.
    """

    step: Tensor
    n_updates: Tensor
    ridge: Tensor
    rewards: Tensor
    log_weights: Tensor

    @classmethod
    def first(cls, like: Tensor, window: int, step: float, ridge: float) -> ComponentRecords:
        """Before the first iteration, for as many components as a tensor has rows."""
        blank = like.new_full((window, len(like)), torch.nan)
        one = like.new_ones(len(like))
        return cls(step * one, torch.zeros_like(one), ridge * one, blank, blank)

    @property
    def gain(self) -> Tensor:
        """By how much each reward has risen [nat], (n_components,); NaN if one of the two is not known."""
        return self.rewards[-1] - self.rewards[-2]

    def followed(self, reward: Tensor, log_weights: Tensor) -> ComponentRecords:
        """With one more iteration."""
        return ComponentRecords(
            self.step,
            self.n_updates,
            self.ridge,
            torch.cat([self.rewards[1:], reward.unsqueeze(0)]),
            torch.cat([self.log_weights[1:], log_weights.unsqueeze(0)]),
        )

    def updated(self, step: Tensor, moved: Tensor, least_ridge: float, largest_ridge: float) -> ComponentRecords:
        """After an update: the ridge is halved where it was made, else it grows tenfold."""
        ridge = torch.where(moved, 0.5 * self.ridge, 10.0 * self.ridge).clamp(least_ridge, largest_ridge)
        return ComponentRecords(step, self.n_updates + 1.0, ridge, self.rewards, self.log_weights)

    def take(self, index: Tensor) -> ComponentRecords:
        """Those of some components."""
        return ComponentRecords(
            self.step[index],
            self.n_updates[index],
            self.ridge[index],
            self.rewards[:, index],
            self.log_weights[:, index],
        )

    def added(self, step: float, ridge: float) -> ComponentRecords:
        """With one new component."""
        new = ComponentRecords.first(self.step[:1], len(self.rewards), step, ridge)
        return ComponentRecords(
            *(torch.cat([getattr(self, field.name), getattr(new, field.name)], -1) for field in fields(self))
        )

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
