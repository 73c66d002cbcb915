"""Targets of variational inference: log densities that are known up to a constant, and their gradients.

A target is a density of this package, a distribution of torch, an object with `log_prob` and optionally `score`, or a
function. Without contexts, it is called as target(sample), otherwise as target(context, sample). Its dimension is the
attribute `n_dims` or `event_shape`. A target may have two further methods. Both return a target:

- `at(iteration)` returns the target for one iteration. Use it for annealed targets, which change during the run.
- `minibatch(generator)` returns an estimate of the target from a random part of its data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Distribution

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

OUTSIDE_PENALTY = 20.0  # [nat]; see `with_floor`
NOT_DIFFERENTIABLE = (
    "{} cannot be differentiated; write it with torch operations, or choose a method that needs only values: "
    "m_step.surrogate='value' for EIM, natural_gradient='more' for GMMVI"
)

Target: TypeAlias = GaussianMixture | MixtureOfExperts | Callable[..., Tensor] | Any
"""A density, an object with `log_prob`, or a function of samples or of contexts and samples."""


@dataclass(frozen=True)
class TargetDensity:
    """Target converted to functions of context and sample."""

    # maps contexts (n, dy) and samples (n, dx) to log densities (n,) [nat], unnormalised
    log_density: Callable[[Tensor, Tensor], Tensor]
    # Maps the same arguments to the gradients of the log density with respect to the samples, (n, dx). By default,
    # automatic differentiation computes them.
    score: Callable[[Tensor, Tensor], Tensor] | None
    # Maps an iteration to the target of that iteration. By default, the target does not change.
    schedule: Callable[[int], TargetDensity] | None = None
    # Maps the same arguments to the log densities and the gradients. It saves time if both share intermediate results.
    joint: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    # Maps a generator to the target for a random part of the data. By default, all data are used.
    minibatch: Callable[[torch.Generator], TargetDensity] | None = None
    name: str = "the target"  # name of the target in error messages

    def drawn(self, generator: torch.Generator) -> TargetDensity:
        """Return the target for a random part of its data, or the target itself if it has no minibatches."""
        return self if self.minibatch is None else self.minibatch(generator)

    def at(self, iteration: int) -> TargetDensity:
        """Return the target for an iteration."""
        return self if self.schedule is None else self.schedule(iteration)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density [nat], (n_samples,), which may be infinite or NaN.

        `DistributionError` is raised if the target returns another shape.
        """
        with torch.no_grad():
            return self._checked(self.log_density(context, sample), sample)

    def gradient(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the gradient of the log density with respect to the sample, (n_samples, n_dims).

        A gradient from automatic differentiation is NaN where the log density is not finite. `DistributionError` is
        raised if the target cannot be differentiated.
        """
        if self.score is not None:
            return self._of_shape(self.score(context, sample), sample)
        return self.log_prob_and_gradient(context, sample)[1]

    def log_prob_and_gradient(self, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
        """Return the results of `log_prob` and `gradient`, with a single evaluation of the target if possible."""
        if self.joint is not None:
            value, score = self.joint(context, sample)
            return self._checked(value, sample).detach(), self._of_shape(score, sample)
        if self.score is not None:
            return self.log_prob(context, sample), self._of_shape(self.score(context, sample), sample)
        with torch.enable_grad():
            leaf = sample.detach().requires_grad_(True)
            try:
                value = self._checked(self.log_density(context, leaf), leaf)
            except RuntimeError as error:  # raised by torch if the target converts the samples to an array
                if "requires grad" not in str(error):
                    raise
                raise DistributionError(NOT_DIFFERENTIABLE.format(self.name), self) from error
            if not value.requires_grad:
                raise DistributionError(NOT_DIFFERENTIABLE.format(self.name), self)
            gradient: Tensor = torch.autograd.grad(value.sum(), leaf)[0]
        value = value.detach()
        return value, gradient.masked_fill(~torch.isfinite(value).unsqueeze(-1), torch.nan)

    def _checked(self, value: Any, sample: Tensor) -> Tensor:
        log_prob: Tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        if log_prob.shape != sample.shape[:1]:
            raise DistributionError(
                f"{self.name} must return one number per sample, shape ({len(sample)},), got shape "
                f"{tuple(log_prob.shape)}"
                + ("" if log_prob.dim() else "; torch.vmap(target) applies a function of one sample to many"),
                tuple(log_prob.shape),
            )
        return log_prob.to(sample)

    def _of_shape(self, score: Any, sample: Tensor) -> Tensor:
        gradient: Tensor = torch.as_tensor(score)
        if gradient.shape != sample.shape:
            raise DistributionError(
                f"the gradient of {self.name} must have the shape {tuple(sample.shape)} of the samples, got shape "
                f"{tuple(gradient.shape)}",
                tuple(gradient.shape),
            )
        return gradient.detach().to(sample)


def n_dims_of(target: Any) -> int | None:
    """Return the dimension of the samples of a target, from its `n_dims` or its `event_shape`; None if unknown.

    A distribution of scalars has dimension 1. `DistributionError` is raised for an event shape other than () or
    (n_dims,).
    """
    n_dims = getattr(target, "n_dims", None)
    shape = getattr(target, "event_shape", None)
    if n_dims is not None or shape is None or callable(shape):
        return n_dims
    if len(shape) > 1:
        raise DistributionError(
            f"the samples of the target must be vectors, but its event_shape is {tuple(shape)}; flatten them", shape
        )
    return int(shape[0]) if shape else 1


def with_floor(
    log_target: Tensor,  # (n_samples,), log densities [nat]
    sample: Tensor,  # (n_samples, n_dims)
    penalty: float = OUTSIDE_PENALTY,  # [nat]
) -> Tensor:
    """Replace log densities that are not finite by low finite values, to which a quadratic surrogate can be fitted.

    The replacement at x is the smallest finite value minus a penalty minus |(x - m)/s|^2 / 2. Here, m and s are the
    mean and the standard deviations of the samples inside the support. The penalty makes samples outside the support
    unfavourable. The quadratic term leads back to the support, and keeps the integral finite. Without it, a component
    outside the support would grow without bound.
    """
    finite = torch.isfinite(log_target)
    if bool(finite.all()):
        return log_target
    inside = sample[finite]
    floor = log_target.new_zeros(()) if len(inside) == 0 else log_target[finite].min()
    if len(inside) > 1:
        distance = (sample - inside.mean(0)) / inside.std(0).clamp_min(torch.finfo(sample.dtype).tiny)
        floor = floor - 0.5 * distance.square().sum(-1)
    return torch.where(finite, log_target, floor - penalty)


def restricted_elbo(
    value: Tensor,  # (n_samples,), R [nat]; not finite where the target is not finite
    share: Tensor,  # (n_samples,), weights of the samples under the model; they sum to about one
    temperature: float,  # T, the weight of the entropy
) -> dict[str, float]:
    """Estimate the objective E[log p~] + T H(q) from weighted samples, for targets that may be zero at some samples.

    If the target is zero at a sample of the model, the objective is minus infinity. The objective of the model
    restricted to the support of the target is finite. The restricted density is q/q(inside), so its objective is

        T (E_q[R | inside] + log q(inside)),    R = log p~/T - log q.

    The objective inside the support is never greater than T times the log of the integral of p~^(1/T). The result
    contains the objective `elbo` and its `elbo_standard_error` [nat]. If the target is not finite at some samples, the
    result also contains the probability `outside` of these samples, and the objective `elbo_inside` of the restricted
    model [nat]. If the target is not finite at any sample, the result contains only `elbo` and `outside`.
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


def target_density(target: Target, *, conditional: bool, device: torch.device | None = None) -> TargetDensity:
    """Convert a target to functions of context and sample. The top of this file lists the kinds of targets.

    A `conditional` target is a function of contexts and samples. Other targets are functions of samples alone. A
    density of this package is evaluated in float64 on the given device, or by default on the device of its parameters.
    Other targets must use the device of their arguments. `DistributionError` is raised for a target that is neither a
    density nor callable.
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
    if isinstance(target, GaussianMixture):  # a mixture of experts evaluates all components by one matrix product
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


def _of_distribution(target: Distribution) -> Callable[[Tensor], Tensor]:
    """Return the log density of a distribution of torch; it is minus infinity outside the support."""
    if target.batch_shape:
        raise DistributionError(
            f"the target must be a single distribution, got a batch of shape {tuple(target.batch_shape)}; "
            "torch.distributions.Independent(target, 1) makes a single distribution of it",
            target,
        )
    with torch.random.fork_rng(devices=[]):  # preserves the state of torch's global generator
        dtype = target.sample().dtype  # every distribution can evaluate its own dtype
    is_scalar, constraint = not target.event_shape, target.support
    assert constraint is not None, "every distribution of torch has a support"

    def log_prob(sample: Tensor) -> Tensor:
        point = (sample.squeeze(-1) if is_scalar else sample).to(dtype)
        inside = constraint.check(point)
        if bool(inside.all()):
            return target.log_prob(point)
        values = 0.0 * point.flatten(1).sum(-1) - torch.inf if point.dim() > 1 else 0.0 * point - torch.inf
        return values.index_put((inside,), target.log_prob(point[inside])) if bool(inside.any()) else values

    return log_prob


def _given(target: Any, *, conditional: bool) -> TargetDensity:
    """Wrap an object with `log_prob`, or a function, as a `TargetDensity`."""
    if isinstance(target, Distribution) and not conditional and not isinstance(target, Gaussian):
        density = _of_distribution(target)
        return TargetDensity(lambda context, sample: density(sample), None)
    if isinstance(target, Distribution) and conditional:
        raise DistributionError(
            f"the target, a {type(target).__name__}, does not depend on contexts; call fit without data", target
        )
    log_prob = getattr(target, "log_prob", target)
    if isinstance(target, type) or not callable(log_prob):
        raise DistributionError(
            "the target must be a density, an object with log_prob, or a function of samples (or of contexts and "
            f"samples), got an object of type {type(target).__name__}",
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
