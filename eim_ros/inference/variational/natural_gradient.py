"""Estimates of the natural gradients of E[R] for all components, from weighted samples (paper, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.errors import ConfigurationError
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.log_ratio import LogRatio
from eim_ros.inference.variational.spectrum import NaturalGradient

__all__ = ["GradientEstimator", "More", "Regression", "Stein"]

CHUNK_ELEMENTS = 4_194_304  # numbers in the features of a regression at a time
ENOUGH = 2.0  # effective samples for each unknown of a regression
MOST_COEFFICIENTS = 16_384  # of a quadratic function: matrices of them squared take 2 GiB each, some six at a time


class GradientEstimator(Protocol):
    """A rule for the natural gradients."""

    @property
    def needs_gradient(self) -> bool:
        """Whether it needs the target's gradient."""
        ...

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        """Estimate the natural gradients; those that cannot be estimated are NaN.

        Parameters
        ----------
        components : Components
        ratio : LogRatio
        ridge : Tensor (n_components,)
            Ridge of a regression, for those that have one.
        """
        ...


@dataclass(frozen=True)
class Stein:
    """First order, by Stein's lemma (S): g = E[grad R], E[hessian R] = sym(P E[(x - mu) grad R'])."""

    needs_gradient = True

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        assert ratio.gradient is not None
        offset = components.center
        slope = ratio.weights.mean(ratio.gradient)
        return components.stein_gradient(offset, ratio.moment(components, offset, ratio.gradient), slope)


@dataclass(frozen=True)
class Regression:
    """First order, by least squares: a linear function is fitted to grad R at the samples, beyond the paper.

    Stein's sums have the noise of n samples whatever R is; this fit has that of its residuals, and is exact where R is
    quadratic. Where a component has too few samples for it, Stein's lemma serves.
    """

    needs_gradient = True

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        assert ratio.gradient is not None
        offset = components.center
        slope = ratio.weights.mean(ratio.gradient)
        local = ratio.sample - offset
        moment = ratio.moment(components, offset, ratio.gradient)
        fitted = components.regressed_gradient(
            offset, (moment, ratio.moment(components, offset, local)), ratio.weights.mean(local), slope
        )
        enough = ratio.weights.effective_samples() >= ENOUGH * (len(offset) + 1)
        if bool(enough.all()):
            return fitted
        plain = components.stein_gradient(offset, moment, slope)
        chosen = enough.reshape(-1, *[1] * (plain.curvature.dim() - 1))
        return NaturalGradient(
            torch.where(chosen, fitted.curvature, plain.curvature),
            torch.where(enough.reshape(-1, *[1] * (plain.slope.dim() - 1)), fitted.slope, plain.slope),
        )


@dataclass(frozen=True)
class More:
    """Zero order: a quadratic fitted to the values of R by weighted ridge regression (Z; MORE, Abdolmaleki 2015).

    The features are those of whitened samples y = L^-1 (x - mu), [y_a y_b (a <= b), y, 1]; the ridge spares the
    constant. Samples without any weight for a component are left out of its regression. Features are 16384 at most, as
    179 dimensions have, or 8191 with diagonal covariances.
    """

    needs_gradient = False

    def __call__(self, components: Components, ratio: LogRatio, ridge: Tensor) -> NaturalGradient:
        n_features = _n_features(components, ratio.sample[:1])
        weights, index = ratio.weights.relevant()
        step = max(1, CHUNK_ELEMENTS // (index.shape[1] * n_features))
        parts = [
            _regressed(
                components.take(some), ratio.sample[index[some]], ratio.value[index[some]], weights[some], ridge[some]
            )
            for some in torch.arange(components.n_components, device=index.device).split(step)
        ]
        return NaturalGradient(torch.cat([part.curvature for part in parts]), torch.cat([part.slope for part in parts]))


def _n_features(components: Components, sample: Tensor) -> int:
    """Coefficients of a quadratic function; refused where their matrices would not fit into memory."""
    width = sample.shape[-1]
    n_features = components.quadratic_features(sample).shape[-1] + width + 1
    if n_features > MOST_COEFFICIENTS:
        raise ConfigurationError(
            f"a quadratic function in {width} dimensions has {n_features} coefficients, and its regression "
            f"would take {48e-9 * n_features**2:.0f} GB; give the target a gradient and take natural_gradient='stein', "
            "or take covariance='diagonal'",
            width,
        )
    return n_features


def _regressed(
    components: Components, sample: Tensor, value: Tensor, weights: Tensor, ridge: Tensor
) -> NaturalGradient:
    """Weighted ridge regression of values (k, n) at samples (k, n, width), for k components at once."""
    whitened = components.whiten(sample)
    features = torch.cat([components.quadratic_features(whitened), whitened, torch.ones_like(whitened[..., :1])], -1)
    weighted = features * weights.unsqueeze(-1)
    gram = weighted.mT @ features
    penalty = ridge.unsqueeze(-1).expand(-1, gram.shape[-1]).clone()
    penalty[:, -1] = 0.0
    # the values' mean has no say: without it the ridge's pull on the others is all there is to cancel
    center = (weights * value).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
    moment = weighted.mT @ (value - center).unsqueeze(-1)
    factor, info = torch.linalg.cholesky_ex(gram + torch.diag_embed(penalty))
    solution = torch.cholesky_solve(moment, factor).squeeze(-1)
    solution = torch.where((info == 0).unsqueeze(-1), solution, torch.nan)
    width = sample.shape[-1]
    return components.quadratic_gradient(solution[:, : -width - 1], solution[:, -width - 1 : -1])
