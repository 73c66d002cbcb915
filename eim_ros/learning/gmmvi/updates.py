"""Updates of the components along their natural gradients (paper, section 3.3).

In a component's own coordinates, along the eigenvectors of its curvature (`components.py`), with step size beta:

    direct        P' = P + beta G,  P' mu' = P mu + beta (G mu + g)              a = 1 + beta lambda,  m = beta gamma/a
    iBLR          P' = P + beta (G + beta/2 G Sigma G),  mu' = mu + beta Sigma g
                                                     a = 1 + beta lambda + (beta lambda)^2/2,  m = beta gamma
    trust region  direct with beta = 1/eta, the least eta >= 1 with KL(new, old) <= step        a = 1 + lambda/eta

The direct update has no bound: where its precision is not positive definite it is not made. That of the improved
Bayesian learning rule is always positive, a = (1 + (1 + beta lambda)^2)/2. (In the paper's equation 8 the line of the
mean has r where g is right.) The trust region takes the temperature's place by R = log p~/T - log q: eta >= 1 here is
eta >= T there.

Updates of the weights along their natural gradient (paper, section 3.4): log w' = log w + beta E_o[R] + constant.

Weights that depend on contexts follow the same rules: with rewards that are linear in the context a softmax gating
moves by them exactly, and the KL is its mean over the contexts.

Trust regions that bound the loss of entropy beside the KL: the updates of EIM (thesis 4.1, 4.2; VIPS has none).

They hold the model wide for longer, so that fewer modes are lost; where the second bound is not active they are those
of `TrustRegionUpdate` and `TrustRegionWeights`, to the bound itself and not to a tenth of it.

The multiplier of a trust region: the least one whose KL is within the bound, for many regions at once.

Step sizes of the components and of the weights: fixed, decaying, or adaptive (paper, section 3.5).

The paper's modules for components and for weights have the same three options: they are the same classes here, for
tensors of any size. What a step size is depends on the update: a factor beta, or the bound of a trust region [nat].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.gmmvi.components import Spectrum, WeightStep
from eim_ros.learning.projections.categorical import CategoricalDual
from eim_ros.learning.projections.gaussian import solve_multipliers

LARGEST_LOG = 80.0
CLOSE = 0.9  # of its bound at least, where the bound is what holds the step
AIM = 0.95
MAX_ITERATIONS = 100
EVERY = 3  # steps, one halves the bracket whatever the others do


def least_multiplier(kl: Callable[[Tensor], Tensor], least: Tensor, kl_bound: Tensor) -> tuple[Tensor, Tensor]:
    """Least multiplier >= least, up to a tenth of the bound, with kl(multiplier) <= kl_bound, by bisection of its log.

    For large multipliers the KL falls with their square: a step that assumes so is tried before the middle of the
    bracket is.

    Parameters
    ----------
    kl : callable
        Maps multipliers (n,) to KLs (n,) [nat], decreasing; infinite or NaN where there is none.
    least : Tensor (n,)
        > 0.
    kl_bound : Tensor (n,)
        > 0 [nat].

    Returns
    -------
    multiplier : Tensor (n,)
        Its KL is within the bound exactly.
    found : Tensor (n,) of bool
        False where none up to e^80 is.
    """
    done = kl(least) <= kl_bound
    high = torch.where(done, least.log(), LARGEST_LOG)
    low, found = least.log(), done
    trial = torch.maximum(low + 1.0, torch.zeros_like(low))
    for number in range(MAX_ITERATIONS):
        if bool(done.all()):
            break
        value = kl(trial.exp())
        within = value <= kl_bound
        high = torch.where(within & ~done, trial, high)
        low = torch.where(within | done, low, trial)
        found = found | within
        done = done | (within & (value >= CLOSE * kl_bound)) | (high - low < 1e-9)
        middle = 0.5 * (low + high)
        guess = trial + 0.5 * (value / (AIM * kl_bound)).log()
        inside = (guess > low) & (guess < high) if number % EVERY < EVERY - 1 else torch.zeros_like(done)
        trial = torch.where(inside, guess, middle)
    return high.exp(), found


@dataclass(frozen=True)
class ComponentStep:
    """Steps of all components along the eigenvectors of their curvatures.

    Attributes
    ----------
    precision : Tensor (n_components, n_dims)
        a, factor of the precision.
    shift : Tensor (n_components, n_dims, n_features)
        m, of the mean.
    accepted : Tensor (n_components,) of bool
    """

    precision: Tensor
    shift: Tensor
    accepted: Tensor

    def kl(self) -> Tensor:
        """KL(new, old) [nat], (n_components,)."""
        return _kl(self.precision, self.shift.square().sum(-1))


class ComponentUpdate(Protocol):
    """A rule for the steps of all components."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        """Steps from natural gradients and step sizes (n_components,)."""
        ...


@dataclass(frozen=True)
class DirectUpdate:
    """The natural gradient times the step size (I)."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        beta = step.unsqueeze(-1)
        precision = 1.0 + beta * spectrum.curvature
        shift = (beta / precision).unsqueeze(-1) * spectrum.slope
        return ComponentStep(precision, shift, (precision > 0.0).all(-1))


@dataclass(frozen=True)
class ImprovedBayesianUpdate:
    """The improved Bayesian learning rule, whose covariances stay positive (Y)."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        beta = step.unsqueeze(-1)
        scaled = beta * spectrum.curvature
        precision = 1.0 + scaled + 0.5 * scaled.square()
        return ComponentStep(precision, beta.unsqueeze(-1) * spectrum.slope, (precision > 0.0).all(-1))


@dataclass(frozen=True)
class TrustRegionUpdate:
    """The longest natural-gradient step within a KL of the old component, at most one to the surrogate's maximum (T).

    The step size is the bound on KL(new, old) [nat]. One eigendecomposition gives the KL of every multiplier:

        KL(eta) = 1/2 sum_j [1/a_j - 1 + log a_j + |gamma_j|^2/(eta a_j)^2]
    """

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        curvature, squared_slope = spectrum.curvature, spectrum.slope.square().sum(-1)

        def kl(eta: Tensor) -> Tensor:
            multiplier = eta.unsqueeze(-1)
            precision = 1.0 + curvature / multiplier
            value = _kl(precision, squared_slope / (multiplier * precision).square())
            return torch.where((precision > 0.0).all(-1), value, torch.inf)

        # a pole of the KL bounds the multiplier from below
        least = (-curvature.amin(-1)).clamp_min(1.0)
        eta, found = least_multiplier(kl, least.nan_to_num(1.0), step)
        best = DirectUpdate()(spectrum, 1.0 / eta)
        return ComponentStep(best.precision, best.shift, best.accepted & found)


def _kl(precision: Tensor, squared_shift: Tensor) -> Tensor:
    """KL(new, old) [nat], (n_components,), of a and |m|^2 (n_components, n_dims)."""
    return 0.5 * (1.0 / precision - 1.0 + precision.log() + squared_shift).sum(-1)


class WeightUpdate(Protocol):
    """A rule for the weights."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        """The step from old log weights and rewards, both (n_contexts, n_components), and a step size ()."""
        ...


@dataclass(frozen=True)
class DirectWeights:
    """The step size is beta (U)."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        return WeightStep(step)


@dataclass(frozen=True)
class TrustRegionWeights:
    """The step size is the bound on KL(new, old) [nat]; beta is the largest one up to 1 that keeps it (O)."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        def kl(multiplier: Tensor) -> Tensor:
            new = WeightStep(1.0 / multiplier[0]).followed(log_weights, reward)
            return (new.exp() * (new - log_weights)).sum(-1).mean(0, keepdim=True)

        multiplier, found = least_multiplier(kl, reward.new_ones(1), step.reshape(1))
        return WeightStep(torch.where(found, 1.0 / multiplier, 0.0)[0])


@dataclass(frozen=True)
class EntropyBoundedUpdate:
    """Update of the components, see `solve_multipliers`; the step size is the bound on KL(new, old) [nat].

    With multipliers eta and omega, s = 1 + eta + omega, the precisions are a = (1 + eta + lambda)/s of the old ones.

    Attributes
    ----------
    entropy_loss_bound : float
        Largest loss of entropy [nat], >= 0; infinite for none.
    """

    entropy_loss_bound: float

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        usable = torch.isfinite(spectrum.curvature).all(-1) & torch.isfinite(spectrum.slope).all(-1).all(-1)
        curvature = torch.where(usable.unsqueeze(-1), spectrum.curvature, 0.0)
        slope = torch.where(usable[:, None, None], spectrum.slope, 0.0)
        solution = solve_multipliers(curvature, slope.square().sum(-1), step, self.entropy_loss_bound)
        weight = (1.0 + solution.eta).unsqueeze(-1)
        precision = weight + curvature
        factor = precision / (weight + solution.omega.unsqueeze(-1))
        return ComponentStep(factor, slope / precision.unsqueeze(-1), usable & solution.feasible)


@dataclass(frozen=True)
class EntropyBoundedWeights:
    """Update of the weights, see `CategoricalDual`; the step size is the bound on KL(new, old) [nat].

    With multipliers eta and omega log w' = ((1 + eta) log w + R)/(1 + eta + omega), normalised.

    Attributes
    ----------
    entropy_loss_bound : float
        Largest loss of the mean entropy over the contexts [nat], >= 0; infinite for none.
    """

    entropy_loss_bound: float

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        dual = CategoricalDual(log_weights, reward, float(step), self.entropy_loss_bound, 1.0)
        multipliers = dual.multipliers()
        if multipliers is None:
            return WeightStep(torch.zeros_like(step))
        eta, omega = multipliers
        return WeightStep(1.0 / torch.full_like(step, 1.0 + eta + omega), (1.0 + eta) / (1.0 + eta + omega))


class StepSize(Protocol):
    """A rule for step sizes."""

    @property
    def first(self) -> float:
        """Step size of the first update."""
        ...

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        """Next step sizes (n,).

        Parameters
        ----------
        step : Tensor (n,)
            Of the last update.
        n_updates : Tensor (n,)
            Updates so far.
        gain : Tensor (n,)
            By how much the objective of each has risen since the last update [nat]; NaN if that is not known.
        """
        ...


@dataclass(frozen=True)
class FixedStepSize:
    """Always the first one (F, X)."""

    first: float

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        return step


@dataclass(frozen=True)
class DecayingStepSize:
    """first/(1 + n_updates^exponent) (D, G)."""

    first: float
    exponent: float

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        return self.first / (1.0 + n_updates.to(step) ** self.exponent)


@dataclass(frozen=True)
class AdaptiveStepSize:
    """Grows after an update that was a gain, else shrinks, within bounds (R, N)."""

    first: float
    smallest: float
    largest: float
    growth: float = 1.15
    shrinkage: float = 0.85

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        grown = (self.growth * step).clamp_max(self.largest)
        shrunk = (self.shrinkage * step).clamp_min(self.smallest)
        return torch.where(gain.isnan(), step, torch.where(gain > 0.0, grown, shrunk))
