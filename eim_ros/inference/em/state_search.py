"""Truncated E-step for binary causes: the states K(n) of each point are improved by suggestions (Luecke 2016, 6.1).

Suggested are states of K(n) with one or two causes changed (random variations), and draws of each cause by itself with
the mean of its probabilities under K(n) and under the prior (approximate marginal sampling). Old states compete with
the new ones under the present parameters, and the C' with the greatest joints are kept: the free energy never falls
(algorithm 1, Prop. 6).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.multiple_causes import MultipleCauseModel

__all__ = ["SearchedStates", "search_states"]

CHUNK_ELEMENTS = 2_000_000  # of states times causes or dimensions at a time
SWAPS = 0.5  # share of the variations that change two causes


@dataclass(frozen=True)
class SearchedStates:
    """Outcome of a truncated E-step.

    Attributes
    ----------
    states : Tensor (n_samples, n_states, n_causes) of bool
        The new K(n), all different, the most probable first.
    log_joint : Tensor (n_samples, n_states)
        log p(s, y) of each [nat].
    n_evaluations : int
        Joints evaluated.
    """

    states: Tensor
    log_joint: Tensor
    n_evaluations: int

    @property
    def shares(self) -> Tensor:
        """Truncated posterior q_n(s), eq. 3, (n_samples, n_states)."""
        return torch.softmax(self.log_joint, -1)

    @property
    def free_energy(self) -> float:
        """Mean of log sum_{s in K(n)} p(s, y_n), eq. 6 [nat]."""
        return float(self.log_joint.logsumexp(-1).mean())


def search_states(
    model: MultipleCauseModel,
    sample: Tensor,
    states: Tensor,
    generator: torch.Generator,
    *,
    n_variations: int,
    n_draws: int,
    n_rounds: int = 1,
) -> SearchedStates:
    """Improve K(n).

    Parameters
    ----------
    model : MultipleCauseModel
    sample : Tensor (n_samples, n_dims)
    states : Tensor (n_samples, n_states, n_causes) of bool
        K(n), all different.
    generator : torch.Generator
    n_variations, n_draws : int
        Suggestions of each kind per point and round.
    n_rounds : int
        Suggestions follow one another so many times: those of a round vary what the last one has kept.
    """
    n_suggested = n_variations + n_draws
    width = max(model.n_dims, states.shape[2])
    step = max(1, CHUNK_ELEMENTS // ((states.shape[1] + n_suggested) * width))
    found, joints, n_evaluations = [], [], 0
    for rows, kept in zip(sample.split(step), states.split(step), strict=True):
        log_joint = model.log_joint(rows, kept)
        n_evaluations += log_joint.numel()
        for _ in range(n_rounds if n_suggested else 0):
            shares = torch.softmax(log_joint, -1)
            new = torch.cat(
                [_variations(kept, shares, n_variations, generator), _draws(model, kept, shares, n_draws, generator)], 1
            )
            suggested = model.log_joint(rows, new)
            n_evaluations += suggested.numel()
            kept, log_joint = _best(torch.cat([kept, new], 1), torch.cat([log_joint, suggested], 1), kept.shape[1])
        found.append(kept)
        joints.append(log_joint)
    return SearchedStates(torch.cat(found), torch.cat(joints), n_evaluations)


def _variations(states: Tensor, shares: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """States of K(n), half of them by their posterior, half at random, with one or two causes changed."""
    n_rows, n_states, n_causes = states.shape
    even = torch.full_like(shares, 1.0 / n_states)
    parent = torch.multinomial(0.5 * (shares + even), max(n, 1), replacement=True, generator=generator)[:, :n]
    varied = states.gather(1, parent.unsqueeze(-1).expand(-1, -1, n_causes)).clone()
    first, second = torch.randint(n_causes, (2, n_rows, n, 1), generator=generator)
    once = torch.rand(n_rows, n, 1, generator=generator) >= SWAPS
    flips = torch.zeros_like(varied).scatter_(2, first, True)
    flips |= torch.zeros_like(varied).scatter_(2, torch.where(once, first, second), True)
    return varied ^ flips


def _draws(model: MultipleCauseModel, states: Tensor, shares: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Each cause by itself, by its mean probability under K(n) and the prior."""
    marginal = 0.5 * ((states.to(shares) * shares.unsqueeze(-1)).sum(1) + model.prior)
    uniform = torch.rand(len(states), n, states.shape[2], generator=generator, dtype=shares.dtype)
    return uniform < marginal.unsqueeze(1)


def _best(states: Tensor, log_joint: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n most probable of the different states of each point."""
    keys = _keys(states)
    order = keys.argsort(stable=True, dim=-1)
    ordered = keys.gather(1, order)
    repeated = torch.zeros_like(ordered, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = torch.zeros_like(repeated).scatter_(1, order, repeated)
    best, chosen = log_joint.masked_fill(repeated, -torch.inf).topk(n, -1)
    return states.gather(1, chosen.unsqueeze(-1).expand(-1, -1, states.shape[2])), best


def _keys(states: Tensor) -> Tensor:
    """A whole number for each state: its bits while they fit, a random code of 64 bits for more causes.

    Should two states share a code, the later one, never one of the old K(n), is left out: only a suggestion is lost.
    """
    n_causes = states.shape[2]
    if n_causes <= 62:
        code = 2 ** torch.arange(n_causes)
    else:
        code = torch.randint(-(2**62), 2**62, (n_causes,), generator=torch.Generator().manual_seed(0))
    return (states.to(torch.int64) * code).sum(-1)
