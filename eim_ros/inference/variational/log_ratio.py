"""The reward R(x) = log p~(x)/T - log q(x) at samples, and its expectations under every component.

A sample x of the background z(x) = sum_c (n_c/N) N(x; component c that drew n_c of the N samples), of now or of before,
counts for component o with the importance weight N(x|o)/z(x), self-normalised by default (paper, section 3.2). All
densities of samples under components are taken once: those of model, background and importance weights are sums and
ratios of the same exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.inference.target_density import with_floor
from eim_ros.inference.variational.component_densities import CHUNK_ELEMENTS
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.importance_weights import (
    ImportanceWeights,
    SampleWeights,
    WeightBlock,
    column_sums,
)
from eim_ros.inference.variational.own_weights import OwnWeights
from eim_ros.inference.variational.sample_database import Selection

__all__ = ["LogRatio", "log_ratio"]

LEAST_LOG_DENSITY = -300.0  # relative to a sample's greatest one; where exp underflows it is slow
LEAST_LOG_WEIGHT = -200.0  # a component whose weights are all below it is weighed once more, in logs
MANY_COMPONENTS = 128  # from so many on those that are far from some samples are left out
N_NEIGHBOURS = 32  # samples in a row that share the components that are not


@dataclass(frozen=True)
class LogRatio:
    """R at the samples of an iteration.

    Attributes
    ----------
    sample : Tensor (n_samples, width)
    value : Tensor (n_samples,)
        R [nat]; where the target is not finite, what `log_ratio` puts there.
    gradient : Tensor (n_samples, n_dims) or None
        Gradient of R; zero where it is not finite.
    finite : Tensor (n_samples,) of bool
        Where the target, and the gradient if there is one, is finite.
    weights : SampleWeights
    """

    sample: Tensor
    value: Tensor
    gradient: Tensor | None
    finite: Tensor
    weights: SampleWeights

    def reward(self, components: Components) -> Tensor:
        """E_o[R|y] [nat] by its coefficients of the components' features, (n_components, n_features), E_o[R] first."""
        return components.reward(self.sample, self.value, self.weights)

    def moment(self, components: Components, offset: Tensor, factor: Tensor) -> Tensor:
        """Means of `components.products(x - offset, factor)` under every component, (n_components, n_products).

        Parameters
        ----------
        components : Components
        offset : Tensor (width,)
        factor : Tensor (n_samples, ...)
        """
        n_products = components.products(self.sample[:1], factor[:1]).shape[-1]
        return self.weights.means(
            lambda rows: components.products(self.sample[rows] - offset, factor[rows]), n_products
        )

    @property
    def unfloored(self) -> Tensor:
        """R where the target is finite, and minus infinity elsewhere."""
        return torch.where(self.finite, self.value, -torch.inf)


def log_ratio(
    components: Components,
    log_weights: Tensor,
    selection: Selection,
    temperature: float,
    outside_penalty: float,
    *,
    self_normalised: bool = True,
    own_samples: bool = False,
) -> LogRatio:
    """R, its gradient if the target's is known, and importance weights.

    Parameters
    ----------
    components : Components
    log_weights : Tensor (n_components,)
    selection : Selection
    temperature : float
        T, weight of the entropy against the target's log density.
    outside_penalty : float
        Where the target is not finite, its log density counts as the least finite one less this [nat].
    self_normalised : bool
        Whether importance weights are divided by their sum or by the number of samples.
    own_samples : bool
        Whether a component is told of those new samples only that it has drawn itself.
    """
    sample, gradient = selection.sample, selection.gradient
    log_model, score, blocks, log_background = _evaluate(components, log_weights, selection)
    n_samples = len(sample)
    weights: SampleWeights
    if own_samples:
        weights = OwnWeights(selection.counts.to(torch.int64), n_samples, sample)
    else:
        sums = column_sums(blocks, log_weights)
        faint = (sums < math.exp(LEAST_LOG_WEIGHT)).nonzero().flatten()
        if len(faint) and self_normalised:
            log_values = components.take(faint).densities().log_prob(sample) - log_background.unsqueeze(-1)
            values = (log_values - log_values.amax(0)).clamp_min(LEAST_LOG_DENSITY).exp()
            blocks = (*blocks, WeightBlock(slice(0, n_samples), faint, values))
            sums[faint] = values.sum(0)
        total = sums if self_normalised else torch.full_like(sums, float(n_samples))
        weights = ImportanceWeights(blocks, n_samples, total)
    finite = torch.isfinite(selection.log_target)
    if gradient is not None:
        finite = finite & torch.isfinite(gradient).all(-1)
        gradient = torch.where(finite.unsqueeze(-1), gradient / temperature - score, 0.0)
    value = with_floor(selection.log_target, outside_penalty) / temperature - log_model
    return LogRatio(sample, value, gradient, finite, weights)


def _evaluate(
    components: Components, log_weights: Tensor, selection: Selection
) -> tuple[Tensor, Tensor, tuple[WeightBlock, ...], Tensor]:
    """log q (n,), its score (n, n_dims), N(x|o)/z in blocks and log z (n,)."""
    densities, weights = components.densities(), log_weights.exp()
    fractions = selection.counts / len(selection.sample)
    score = selection.sample.new_empty(len(selection.sample), components.n_dims)
    log_model, log_background = torch.empty_like(score[:, 0]), torch.empty_like(score[:, 0])
    blocks = []
    step = max(1, CHUNK_ELEMENTS // components.n_components)
    for start in range(0, len(score), step):
        log_prob = densities.log_prob(selection.sample[start : start + step])
        largest = log_prob.amax(-1, keepdim=True)
        relative = log_prob.sub_(largest)
        for first, near, columns in _neighbourhoods(relative):
            rows = slice(start + first, start + first + len(near))
            offset = largest[first : first + len(near), 0]
            density = near.clamp_min_(LEAST_LOG_DENSITY).exp_()
            own_weights, own_fractions = (v if columns is None else v[columns] for v in (weights, fractions))
            model, background = density @ own_weights, density @ own_fractions
            if selection.log_earlier is not None:
                background = background + (selection.log_earlier[rows] - offset).exp()
            blocks.append(WeightBlock(rows, columns, density / background.unsqueeze(-1)))
            log_model[rows] = offset + model.log()
            log_background[rows] = offset + background.log()
            if selection.gradient is not None:
                share = density.mul_(own_weights).div_(model.unsqueeze(-1))
                near_densities = densities if columns is None else densities.take(columns)
                score[rows] = near_densities.mean_score(selection.sample[rows], share)
    return log_model, score, tuple(blocks), log_background


def _neighbourhoods(relative: Tensor) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """First row, log densities and components of blocks of (n_samples, n_components) that are not all negligible."""
    if relative.shape[1] < MANY_COMPONENTS:
        yield 0, relative, None
        return
    for first in range(0, len(relative), N_NEIGHBOURS):
        part = relative[first : first + N_NEIGHBOURS]
        columns = (part.amax(0) > LEAST_LOG_DENSITY).nonzero().flatten()
        if 2 * len(columns) > part.shape[1]:
            yield first, part, None
        else:
            yield first, part[:, columns], columns
