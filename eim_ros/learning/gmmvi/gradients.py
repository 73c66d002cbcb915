"""Rewards, importance weights, and estimates of the natural gradients of E[R] (Arenz et al. 2023, section 3.2).

The reward is R(x) = log p~(x)/T - log q(x). Samples come from the background density z(x) = sum_c (n_c/N) N(x; c).
Here, component c of this or an earlier iteration drew n_c of the N samples. The importance weight of a sample for
component o is N(x|o)/z(x). By default, these weights are self-normalised. The model, the background and the weights are
sums and ratios of the same densities N(x|o). Therefore, each of these densities is computed only once.

Examples
--------
Estimate natural gradients in three ways. Only `More` works without a gradient of the target:

>>> import torch
>>> from dataclasses import replace
>>> from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig, Modules, More, Regression, Stein
>>> from eim_ros.learning.models import GaussianMixture
>>> target = GaussianMixture(torch.zeros(1), torch.tensor([[2.0]]), torch.ones(1, 1, 1))
>>> for estimator in (Stein(), Regression(), More()):
...     parts = replace(Modules.of(GMMVIConfig()), natural_gradient=estimator)
...     result = GMMVI(target, modules=parts, n_components=1, n_iterations=19, seed=0).fit()
...     print(type(estimator).__name__, round(float(result.means)))
Stein 2
Regression 2
More 2
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning.gmmvi.components import CHUNK_ELEMENTS, ENOUGH, Components, Misfit, NaturalGradient
from eim_ros.learning.gmmvi.samples import Selection
from eim_ros.learning.gmmvi.weights import ImportanceWeights, OwnWeights, SampleWeights, WeightBlock, column_sums
from eim_ros.learning.target import with_floor

# Relative to the greatest density at a sample. At this limit, exp does not underflow yet; underflow would be slow.
LEAST_LOG_DENSITY = -300.0
LEAST_LOG_WEIGHT = -200.0  # a component's weights are recomputed from their logs if all are smaller
MANY_COMPONENTS = 128  # with at least this number of components, components far from a block of samples are skipped
N_NEIGHBOURS = 32  # number of consecutive samples in a block
GRADIENT_CHUNK_ELEMENTS = 4_194_304  # number of entries of the feature matrix of a regression, per block
# Maximum number of coefficients of a quadratic function. At this number, about six matrices of 2 GiB exist at a time.
MOST_COEFFICIENTS = 16_384


@dataclass(frozen=True)
class LogRatio:
    """Values and gradients of R at the samples of an iteration, with the weights of the samples."""

    sample: Tensor  # (n_samples, width)
    value: Tensor  # (n_samples,), R [nat]; a finite value replaces it where the target is not finite, see `log_ratio`
    # (n_samples, n_dims), gradient of R, which is zero where the target or its gradient is not finite
    gradient: Tensor | None
    finite: Tensor  # (n_samples,) of bool, whether the target and its gradient (if known) are finite
    weights: SampleWeights

    def reward(self, components: Components) -> Tensor:
        """Return E_o[R|y] [nat] as coefficients of the features, (n_components, n_features), starting with E_o[R]."""
        return components.reward(self.sample, self.value, self.weights)

    def moment(self, components: Components, one: Tensor, two: Tensor) -> Tensor:
        """Return means of `components.products(one, two)` for all components, (n_components, n_products).

        Both arguments have the shape (n_samples, ...).
        """
        n_products = components.products(one[:1], two[:1]).shape[-1]
        return self.weights.means(lambda rows: components.products(one[rows], two[rows]), n_products)

    def misfit(self, components: Components) -> Misfit:
        """Return the non-linear part of grad R. This misfit shows which components should be split, and along which
        axis.
        """
        assert self.gradient is not None
        local, gradient = self.sample - components.center, self.gradient
        pairs = (local, gradient), (local, local), (gradient, gradient)
        cross, spread, square = (self.moment(components, one, two) for one, two in pairs)
        mean, slope = self.weights.mean(local), self.weights.mean(gradient)
        return components.misfit((cross, spread, square), mean, slope, self.weights.effective_samples())

    @property
    def unfloored(self) -> Tensor:
        """R where the target is finite, and minus infinity elsewhere."""
        return torch.where(self.finite, self.value, -torch.inf)


def log_ratio(
    components: Components,
    log_weights: Tensor,  # (n_components,)
    selection: Selection,
    temperature: float,  # T, weight of the entropy relative to the log density of the target
    # Minimum distance [nat] from the smallest finite log density to the value that replaces log densities that are not
    # finite.
    outside_penalty: float,
    *,
    # whether importance weights are divided by their sum instead of the number of samples
    self_normalised: bool = True,
    own_samples: bool = False,  # whether each component uses only its own new samples
) -> LogRatio:
    """Compute R, the importance weights, and the gradient of R if the gradient of the target is known."""
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
    value = with_floor(selection.log_target, sample, outside_penalty) / temperature - log_model
    return LogRatio(sample, value, gradient, finite, weights)


def _evaluate(
    components: Components, log_weights: Tensor, selection: Selection
) -> tuple[Tensor, Tensor, tuple[WeightBlock, ...], Tensor]:
    """Return log q (n,), its score (n, n_dims), N(x|o)/z in blocks, and log z (n,)."""
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
    """Yield blocks of rows without negligible components: the first row, the log densities and the components.

    `relative` has the shape (n_samples, n_components). The components are None if a block contains all of them.
    """
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


class GradientEstimator(Protocol):
    """Rule for estimates of the natural gradients."""

    @property
    def needs_gradient(self) -> bool:
        """Whether the rule needs the gradient of the target."""

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        """Estimate the natural gradients. Gradients that cannot be estimated are NaN.

        Rules that regress on values of R use the ridges (n_components,).
        """


@dataclass(frozen=True)
class Stein:
    """First-order estimate by Stein's lemma (letter S): g = E[grad R], E[hessian R] = sym(P E[(x - mu) grad R'])."""

    needs_gradient = True

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        assert ratio.gradient is not None
        offset = components.center
        slope = ratio.weights.mean(ratio.gradient)
        moment = ratio.moment(components, ratio.sample - offset, ratio.gradient)
        return components.stein_gradient(offset, moment, slope)


@dataclass(frozen=True)
class Regression:
    """First-order estimate by a linear least-squares fit to grad R at the samples (letter L).

    This estimate is not in Arenz et al. (2023). The noise of Stein's estimate depends only on the number of samples.
    The noise of this fit comes from its residuals. Therefore, the fit is exact if R is quadratic. Components with too
    few samples use Stein's lemma.
    """

    needs_gradient = True

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        assert ratio.gradient is not None
        offset = components.center
        slope = ratio.weights.mean(ratio.gradient)
        local = ratio.sample - offset
        moment = ratio.moment(components, local, ratio.gradient)
        fitted = components.regressed_gradient(
            offset, (moment, ratio.moment(components, local, local)), ratio.weights.mean(local), slope
        )
        enough = ratio.weights.effective_samples() >= ENOUGH * (len(offset) + 1)
        if bool(enough.all()):
            return fitted
        return fitted.where(enough, components.stein_gradient(offset, moment, slope))


@dataclass(frozen=True)
class More:
    """Zero-order estimate by a quadratic fit to the values of R with weighted ridge regression (letter Z).

    This estimate is MORE (Abdolmaleki 2015). With whitened samples y = L^-1 (x - mu), the features are
    [y_a y_b (a <= b), y, 1]. The ridge does not penalise the constant. The regression of a component omits samples
    with negligible weights. At most 16384 features are supported. This limit corresponds to 179 dimensions, or to 8191
    dimensions with diagonal covariances.
    """

    needs_gradient = False

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        n_features = _n_features(components, ratio.sample[:1])
        weights, index = ratio.weights.relevant()
        step = max(1, GRADIENT_CHUNK_ELEMENTS // (index.shape[1] * n_features))
        parts = [
            _regressed(
                components.take(some), ratio.sample[index[some]], ratio.value[index[some]], weights[some], ridge[some]
            )
            for some in torch.arange(components.n_components, device=index.device).split(step)
        ]
        return NaturalGradient(torch.cat([part.curvature for part in parts]), torch.cat([part.slope for part in parts]))


def _n_features(components: Components, sample: Tensor) -> int:
    """Return the number of coefficients of a quadratic function.

    `ConfigurationError` is raised if the matrices of the regression would not fit into memory.
    """
    width = sample.shape[-1]
    n_features = components.quadratic_features(sample).shape[-1] + width + 1
    if n_features > MOST_COEFFICIENTS:
        raise ConfigurationError(
            f"a quadratic function in {width} dimensions has {n_features} coefficients, and their regression needs "
            f"{48e-9 * n_features**2:.0f} GB of memory; give the target a gradient and set "
            "natural_gradient='stein', or set covariance='diagonal'",
            width,
        )
    return n_features


def _regressed(
    components: Components, sample: Tensor, value: Tensor, weights: Tensor, ridge: Tensor
) -> NaturalGradient:
    """Fit values (k, n) at samples (k, n, width) of k components by weighted ridge regression."""
    whitened = components.whiten(sample)
    features = torch.cat([components.quadratic_features(whitened), whitened, torch.ones_like(whitened[..., :1])], -1)
    weighted = features * weights.unsqueeze(-1)
    gram = weighted.mT @ features
    penalty = ridge.unsqueeze(-1).expand(-1, gram.shape[-1]).clone()
    penalty[:, -1] = 0.0
    # Centring avoids cancellation, and does not change the fit, because the constant is not penalised.
    center = (weights * value).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
    moment = weighted.mT @ (value - center).unsqueeze(-1)
    factor, info = torch.linalg.cholesky_ex(gram + torch.diag_embed(penalty))
    solution = torch.cholesky_solve(moment, factor).squeeze(-1)
    solution = torch.where((info == 0).unsqueeze(-1), solution, torch.nan)
    width = sample.shape[-1]
    return components.quadratic_gradient(solution[:, : -width - 1], solution[:, -width - 1 : -1])
