"""A known log density, up to a constant, and its gradient: what inference with a known density asks of its target.

A target is one of our densities, any object with `log_prob` (and `score`, if it has one), or a plain function. Without
contexts it is called with samples alone, with contexts as target(context, sample). An object with a method
`at(iteration)`, which returns any of these, is an annealed target: one that changes from iteration to iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eim_ros.distributions import Gaussian, GaussianMixture, MixtureOfExperts
from eim_ros.errors import DistributionError

__all__ = ["Target", "TargetDensity", "target_density"]

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
    """

    log_density: Callable[[Tensor, Tensor], Tensor]
    score: Callable[[Tensor, Tensor], Tensor] | None
    schedule: Callable[[int], TargetDensity] | None = None

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
            score: Tensor = self.score(context, sample).to(sample)
            return score
        with torch.enable_grad():
            leaf = sample.detach().requires_grad_(True)
            value = self._checked(self.log_density(context, leaf), leaf)
            if not value.requires_grad:
                raise DistributionError(
                    "the target cannot be differentiated: write it with torch operations, or choose surrogate='value'"
                )
            gradient: Tensor = torch.autograd.grad(value.sum(), leaf)[0]
            bad = ~torch.isfinite(value.detach()).unsqueeze(-1)
        return gradient.masked_fill(bad, torch.nan)

    def _checked(self, value: Any, sample: Tensor) -> Tensor:
        log_prob: Tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if log_prob.shape != sample.shape[:1]:
            raise DistributionError(
                f"the target must return one log density per sample, ({len(sample)},), got {tuple(log_prob.shape)}",
                tuple(log_prob.shape),
            )
        return log_prob.to(sample)


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
    log_prob = getattr(target, "log_prob", target)
    if not callable(log_prob):
        raise DistributionError(
            "the target must be a density, an object with log_prob, or a function of samples (or of contexts and "
            f"samples), got a {type(target).__name__}",
            target,
        )
    score = getattr(target, "score", None) if log_prob is not target else None
    if conditional:
        return TargetDensity(log_prob, score)

    def of_samples(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda context, sample: function(sample)

    return TargetDensity(of_samples(log_prob), None if score is None else of_samples(score))
