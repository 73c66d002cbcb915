"""A known log density, up to a constant, and its gradient: what inference with a known density asks of its target.

A target is one of our densities, any object with `log_prob` (and `score`, if it has one), or a plain function. Without
contexts it is called with samples alone, with contexts as target(context, sample). An object with a method
`at(iteration)`, which returns any of these, is an annealed target: one that changes from iteration to iteration. One
with a method `minibatch(generator)`, which does so too, is estimated from a part of its data where that is enough.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

OUTSIDE_PENALTY = 20.0  # [nat]

Target: TypeAlias = GaussianMixture | MixtureOfExperts | Callable[..., Tensor] | Any
"""A density, an object with `log_prob`, or a function; of samples, or of contexts and samples."""


@dataclass(frozen=True)
class TargetDensity:
    """A target as functions of context and sample.

    Attributes
    ----------
    log_density : callable
        Maps contexts (n, dy) and samples (n, dx) to log densities (n,) [nat], unnormalised.
    score : callable, optional
        Its gradient in the sample, (n, dx); automatic differentiation if missing.
    schedule : callable, optional
        Maps an iteration to the target there; the same one always if missing.
    joint : callable, optional
        Both the log density and its gradient, where they have work in common.
    minibatch : callable, optional
        Maps a generator to the target of a part of its data; all of them always if missing.
    """

    log_density: Callable[[Tensor, Tensor], Tensor]
    score: Callable[[Tensor, Tensor], Tensor] | None
    schedule: Callable[[int], TargetDensity] | None = None
    joint: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    minibatch: Callable[[torch.Generator], TargetDensity] | None = None

    def drawn(self, generator: torch.Generator) -> TargetDensity:
        """The target of a part of its data, if it has any."""
        return self if self.minibatch is None else self.minibatch(generator)

    def at(self, iteration: int) -> TargetDensity:
        """The target at an iteration."""
        return self if self.schedule is None else self.schedule(iteration)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Log density [nat], (n_samples,); it may be infinite or not a number."""
        with torch.no_grad():
            return self._checked(self.log_density(context, sample), sample)

    def gradient(self, context: Tensor, sample: Tensor) -> Tensor:
        """Gradient of the log density with respect to the sample, (n_samples, n_dims).

        Where it is differentiated automatically, a log density that is not finite has the gradient NaN.
        """
        if self.score is not None:
            return _of_shape(self.score(context, sample), sample)
        return self.log_prob_and_gradient(context, sample)[1]

    def log_prob_and_gradient(self, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
        """Both `log_prob` and `gradient`, from one evaluation."""
        if self.joint is not None:
            value, score = self.joint(context, sample)
            return self._checked(value, sample).detach(), _of_shape(score, sample)
        if self.score is not None:
            return self.log_prob(context, sample), _of_shape(self.score(context, sample), sample)
        with torch.enable_grad():
            leaf = sample.detach().requires_grad_(True)
            value = self._checked(self.log_density(context, leaf), leaf)
            if not value.requires_grad:
                raise DistributionError(
                    "the target cannot be differentiated: write it with torch operations, or choose what needs values "
                    "alone: surrogate='value', or natural_gradient='more'"
                )
            gradient: Tensor = torch.autograd.grad(value.sum(), leaf)[0]
        value = value.detach()
        return value, gradient.masked_fill(~torch.isfinite(value).unsqueeze(-1), torch.nan)

    def _checked(self, value: Any, sample: Tensor) -> Tensor:
        log_prob: Tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if log_prob.shape != sample.shape[:1]:
            raise DistributionError(
                f"the target must return one log density per sample, ({len(sample)},), got {tuple(log_prob.shape)}",
                tuple(log_prob.shape),
            )
        return log_prob.to(sample)


def with_floor(log_target: Tensor, penalty: float = OUTSIDE_PENALTY) -> Tensor:
    """Log densities (n,) with finite values in place of all others: the least finite one less a penalty [nat].

    It is what a quadratic surrogate of a target with hard bounds is fitted to: being outside then costs, and the more,
    the greater the penalty is.
    """
    finite = torch.isfinite(log_target)
    if bool(finite.all()):
        return log_target
    least = log_target[finite].min() if bool(finite.any()) else log_target.new_zeros(())
    return torch.where(finite, log_target, least - penalty)


def restricted_elbo(value: Tensor, share: Tensor, temperature: float) -> dict[str, float]:
    """Figures of E[log p~] + T H(q) from weighted samples, where the target may be zero at some.

    The objective of a model that has any samples where the target is zero is minus infinity. Restricted to the rest
    its density grows by 1/q(inside), and its objective is T (E_q[R | inside] + log q(inside)) with R = log p~/T -
    log q: that is finite, and never above T log of the integral of p~^(1/T).

    Parameters
    ----------
    value : Tensor (n_samples,)
        R [nat]; not finite where the target is not.
    share : Tensor (n_samples,)
        Weights of the samples under the model; they sum to about one.
    temperature : float
        T.

    Returns
    -------
    dict
        `elbo` [nat] and its `elbo_standard_error`; if the target is not finite at some samples, also `outside`, the
        probability of these, and `elbo_inside`, the objective of the restricted model.
    """
    finite = torch.isfinite(value)
    inside = torch.where(finite, share, 0.0)
    mass, total = float(inside.sum()), float(share.sum())
    if mass == 0.0:
        return {"elbo": -math.inf, "outside": 1.0}
    rest = torch.where(finite, value, 0.0)
    mean = float((inside * rest).sum()) / mass
    error = float((inside * (rest - mean)).square().sum().sqrt()) / mass
    figures = {"elbo": temperature * mean, "elbo_standard_error": temperature * error}
    outside = float(torch.where(finite, 0.0, share).sum()) / total
    if outside == 0.0:
        return figures
    return {
        "elbo": -math.inf,
        "elbo_inside": temperature * (mean + math.log1p(-min(outside, 1.0 - 1e-16))),
        "elbo_standard_error": temperature * error,
        "outside": outside,
    }


def _of_shape(score: Tensor, sample: Tensor) -> Tensor:
    if score.shape != sample.shape:
        raise DistributionError(
            f"the target's score must be of the samples' shape {tuple(sample.shape)}, got {tuple(score.shape)}",
            tuple(score.shape),
        )
    return score.detach().to(sample)


def target_density(target: Target, *, conditional: bool, device: torch.device | None = None) -> TargetDensity:
    """A target in the form that the learner takes.

    Parameters
    ----------
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable
        See the top of this file. A density with a method `score` is not differentiated automatically.
    conditional : bool
        Whether it is a function of contexts too.
    device : torch.device, optional
        Where one of our densities is evaluated, in float64; its own if missing. A function has to see to it itself.
    """
    at = getattr(target, "at", None)
    if callable(at):
        first = target_density(at(0), conditional=conditional, device=device)
        return TargetDensity(
            first.log_density,
            first.score,
            lambda iteration: target_density(at(iteration), conditional=conditional, device=device),
        )
    if isinstance(target, (Gaussian, GaussianMixture, MixtureOfExperts)):
        target = target.to(dtype=torch.float64, **({} if device is None else {"device": device}))
    if isinstance(target, MixtureOfExperts):
        return TargetDensity(target.log_prob, target.score)
    if isinstance(target, GaussianMixture):  # in the other form all components are one matrix product
        mixture = MixtureOfExperts.from_mixture(target)
        return TargetDensity(
            lambda context, sample: mixture.log_prob(context[:, :0], sample),
            lambda context, sample: mixture.score(context[:, :0], sample),
        )
    density = _given(target, conditional=conditional)
    minibatch = getattr(target, "minibatch", None)
    if not callable(minibatch):
        return density
    return dataclasses.replace(
        density, minibatch=lambda generator: _given(minibatch(generator), conditional=conditional)
    )


def _given(target: Any, *, conditional: bool) -> TargetDensity:
    """An object with `log_prob`, or a function, as it is."""
    log_prob = getattr(target, "log_prob", target)
    if isinstance(target, type) or not callable(log_prob):
        raise DistributionError(
            "the target must be a density, an object with log_prob, or a function of samples (or of contexts and "
            f"samples), got a {type(target).__name__}",
            target,
        )
    if conditional:
        return TargetDensity(
            log_prob, getattr(target, "score", None), joint=getattr(target, "log_prob_and_score", None)
        )

    def of_samples(function: Callable[[Tensor], Any] | None) -> Callable[[Tensor, Tensor], Any] | None:
        return None if function is None else lambda context, sample: function(sample)

    log_density = of_samples(log_prob)
    assert log_density is not None
    return TargetDensity(
        log_density,
        of_samples(getattr(target, "score", None)),
        joint=of_samples(getattr(target, "log_prob_and_score", None)),
    )
