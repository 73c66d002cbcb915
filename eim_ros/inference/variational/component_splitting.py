"""More components by splitting the heaviest ones in two: beyond the paper, whose rule adds one at a time.

A component N(mu, Sigma) of weight w becomes two of weight w/2,

    N(mu +- sqrt(a) v, Sigma - a v v'),    v = L u,  |u| = 1,

of the same mean and covariance together. v is the longest axis of Sigma. The model hardly changes, so a split
costs nothing at first, and log q drives the halves apart. Modes that no component is near are not found so: additions
do that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eim_ros.inference.variational.component_adaptation import Candidates, ComponentAdaptation, Mixture

__all__ = ["SplitComponents"]

SHARE = 0.5  # of the components that are split at most
MOVED = 0.5  # a, the share of the variance along v that becomes the distance of the halves
LIGHT = 0.1  # of the mean weight


@dataclass(frozen=True)
class SplitComponents:
    """Splits beside another rule.

    Every `split_every` iterations the heaviest components are split, up to half of all, as long as there are fewer than
    `max_components`. Before, those lighter than a tenth of the mean weight are deleted, if they have been updated
    `delete_after` times.

    Attributes
    ----------
    rule : ComponentAdaptation
        Comes first.
    split_every : int
    delete_after : int
        0 for never.
    max_components : int
    """

    rule: ComponentAdaptation
    split_every: int
    delete_after: int
    max_components: int

    @property
    def window(self) -> int:
        return self.rule.window

    @property
    def n_candidates(self) -> int:
        return self.rule.n_candidates

    def n_prior(self, n_components: int, iteration: int) -> int:
        return self.rule.n_prior(n_components, iteration)

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        mixture = self.rule(mixture, candidates, iteration, first_entropy, generator)
        if iteration % self.split_every:
            return mixture
        mixture = self._without_light(mixture)
        n_components = mixture.components.n_components
        n_split = min(math.ceil(SHARE * n_components), self.max_components - n_components)
        return _split(mixture, mixture.log_weights.topk(n_split).indices) if n_split > 0 else mixture

    def _without_light(self, mixture: Mixture) -> Mixture:
        if self.delete_after == 0:
            return mixture
        light = mixture.log_weights < math.log(LIGHT / mixture.components.n_components)
        kept = (~light | (mixture.records.n_updates < self.delete_after)).nonzero().flatten()
        return mixture if len(kept) == len(light) else mixture.take(kept)


def _split(mixture: Mixture, heavy: Tensor) -> Mixture:
    """With the components of these numbers (n,) in two; the rewards of the halves are not known yet."""
    is_whole = torch.ones(mixture.components.n_components, dtype=torch.bool, device=heavy.device)
    is_whole[heavy] = False
    whole = is_whole.nonzero().flatten()
    log_weights, components = mixture.components.with_halves(mixture.log_weights, whole, heavy, MOVED)
    records = mixture.records.take(torch.cat([whole, heavy, heavy]))
    rewards = records.rewards.clone()
    rewards[:, len(whole) :] = torch.nan
    return Mixture(log_weights, components, replace(records, rewards=rewards), mixture.n_additions + len(heavy))
