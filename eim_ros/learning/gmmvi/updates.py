"""Natural-gradient updates of components and weights, and step sizes (Arenz et al. 2023, sections 3.3 to 3.5).

In a component's own coordinates and in the eigenbasis of its curvature (`components.py`), the updates with step size
beta are

    direct        P' = P + beta G,  P' mu' = P mu + beta (G mu + g)              a = 1 + beta lambda,  m = beta gamma/a
    iBLR          P' = P + beta (G + beta/2 G Sigma G),  mu' = mu + beta Sigma g
                                                     a = 1 + beta lambda + (beta lambda)^2/2,  m = beta gamma
    trust region  direct with beta = 1/eta, the least eta >= 1 with KL(new, old) <= step        a = 1 + lambda/eta

A direct update is skipped if its precision is not positive definite. The precision of the improved Bayesian learning
rule (iBLR) is always positive definite, since a = (1 + (1 + beta lambda)^2)/2. In equation 8 of the paper, the line for
the mean contains r instead of g, which is a misprint. Since R = log p~/T - log q, eta >= 1 here corresponds to eta >= T
in the paper.

Weights follow log w' = log w + beta E_o[R] + constant. With contexts, rewards are linear in the context, and the KL is
averaged over contexts. Therefore, the same rule is exact for a softmax gating.

These steps follow the natural gradient of the ELBO J. The same steps follow the natural gradient of the lower bound of
VIPS and EIM (Theorem 2.1, appendix E). If q_old is the model of the E-step, the bound is

    J_old(q) = sum_o w_o { E_o[log p~ - log q_old] - KL(q(x|o) || q_old(x|o)) } - KL(w || w_old)

At q = q_old, the gradient of each KL is zero. The gradient of E_q[log q] is int (grad q) log q + grad int q, where the
second term is zero because int q is 1. The remaining term equals the gradient of E_q[log q_old], so grad J = grad
J_old. The Fisher matrix depends only on q, so the natural gradients are equal too.

For the weights, the natural gradients of both bounds are equal too (appendix F). With K components, the natural
parameters are log w_o/w_K, and the natural gradient of J is E_o[R] - E_K[R]. With a step beta, E_K[R] cancels: w' ~ w
exp(beta E_o[R]). VIPS maximises sum_o w'_o r_o + H(w') - eta KL(w' || w) with r_o = E_o[R] + log w_o, which gives

    w' ~ w^(eta/(1+eta)) exp(r)^(1/(1+eta)) = w exp(E_o[R])^(1/(1+eta)),  that is, beta = 1/(1+eta)

Examples
--------
Find the mean of a Gaussian target with each update of the components:

>>> import torch
>>> from dataclasses import replace
>>> from eim_ros.learning import gmmvi
>>> from eim_ros.learning.models import GaussianMixture
>>> target = GaussianMixture(torch.zeros(1), torch.tensor([[2.0]]), torch.ones(1, 1, 1))
>>> modules = replace(gmmvi.Modules.of(gmmvi.GMMVIConfig()), component_step_size=gmmvi.FixedStepSize(0.5))
>>> trust = gmmvi.TrustRegionUpdate(), gmmvi.EntropyBoundedUpdate(entropy_loss_bound=0.05)
>>> for update in (gmmvi.DirectUpdate(), gmmvi.ImprovedBayesianUpdate(), *trust):
...     parts = replace(modules, component_update=update)
...     result = gmmvi.GMMVI(target, modules=parts, n_components=1, n_iterations=19, seed=0).fit()
...     print(type(update).__name__, round(float(result.means)))
DirectUpdate 2
ImprovedBayesianUpdate 2
TrustRegionUpdate 2
EntropyBoundedUpdate 2
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

LARGEST_LOG = 80.0  # log of the maximum multiplier
CLOSE = 0.9  # a KL between this fraction of the bound and the bound is accepted
AIM = 0.95  # fraction of the bound that a trial step aims at
MAX_ITERATIONS = 100
EVERY = 3  # every third step bisects the bracket


def least_multiplier(
    # decreasing function that maps multipliers (n,) to KLs (n,) [nat], which may be infinite or NaN
    kl: Callable[[Tensor], Tensor],
    least: Tensor,  # (n,), lower end of the search, > 0
    kl_bound: Tensor,  # (n,), bound on the KL [nat], > 0
) -> tuple[Tensor, Tensor]:
    """Find the least multiplier >= least with kl(multiplier) <= kl_bound by bisection of its log.

    The KL of the resulting multipliers (n,) never exceeds the bound. This KL is at least 0.9 times the bound, unless
    `least` satisfies the bound. For large multipliers, the KL is inversely proportional to their square. A step based
    on this relation is tried before bisection. The second result is a mask (n,), which is false if no multiplier up to
    e^80 satisfies the bound.
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
    """Steps of all components in the eigenbasis of their curvatures."""

    precision: Tensor  # a, (n_components, n_dims), factor of the precision
    shift: Tensor  # m, (n_components, n_dims, n_features), shift of the mean
    accepted: Tensor  # (n_components,) of bool

    def kl(self) -> Tensor:
        """Return KL(new, old) [nat], (n_components,)."""
        return _kl(self.precision, self.shift.square().sum(-1))


class ComponentUpdate(Protocol):
    """Rule for the steps of all components."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        """Compute steps from natural gradients and step sizes (n_components,)."""


@dataclass(frozen=True)
class DirectUpdate:
    """Update by the natural gradient times the step size (letter I)."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        beta = step.unsqueeze(-1)
        precision = 1.0 + beta * spectrum.curvature
        shift = (beta / precision).unsqueeze(-1) * spectrum.slope
        return ComponentStep(precision, shift, (precision > 0.0).all(-1))


@dataclass(frozen=True)
class ImprovedBayesianUpdate:
    """Improved Bayesian learning rule, which keeps covariances positive definite (letter Y)."""

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        beta = step.unsqueeze(-1)
        scaled = beta * spectrum.curvature
        precision = 1.0 + scaled + 0.5 * scaled.square()
        return ComponentStep(precision, beta.unsqueeze(-1) * spectrum.slope, (precision > 0.0).all(-1))


@dataclass(frozen=True)
class TrustRegionUpdate:
    """Longest natural-gradient step within a KL bound that does not pass the maximum of the surrogate (letter T).

    The step size is the bound on KL(new, old) [nat]. One eigendecomposition gives the KL for every multiplier:

        KL(eta) = 1/2 sum_j [1/a_j - 1 + log a_j + |gamma_j|^2/(eta a_j)^2]
    """

    def __call__(self, spectrum: Spectrum, step: Tensor) -> ComponentStep:
        curvature, squared_slope = spectrum.curvature, spectrum.slope.square().sum(-1)

        def kl(eta: Tensor) -> Tensor:
            multiplier = eta.unsqueeze(-1)
            precision = 1.0 + curvature / multiplier
            value = _kl(precision, squared_slope / (multiplier * precision).square())
            return torch.where((precision > 0.0).all(-1), value, torch.inf)

        # The KL has a pole at the greatest -lambda, so this value is a lower bound of the multiplier.
        least = (-curvature.amin(-1)).clamp_min(1.0)
        eta, found = least_multiplier(kl, least.nan_to_num(1.0), step)
        best = DirectUpdate()(spectrum, 1.0 / eta)
        return ComponentStep(best.precision, best.shift, best.accepted & found)


def _kl(precision: Tensor, squared_shift: Tensor) -> Tensor:
    """Return KL(new, old) [nat], (n_components,), given a and |m|^2, both (n_components, n_dims)."""
    return 0.5 * (1.0 / precision - 1.0 + precision.log() + squared_shift).sum(-1)


class WeightUpdate(Protocol):
    """Rule for the steps of the weights."""

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        """Compute the step, given log weights and rewards (n_contexts, n_components) and a step size ()."""


@dataclass(frozen=True)
class DirectWeights:
    """Natural-gradient step of the weights, whose step size is beta (letter U).

    Examples
    --------
    With a step size of 1, the new weights are proportional to the old weights times exp(reward):

    >>> import torch
    >>> from eim_ros.learning.gmmvi import DirectWeights
    >>> old, reward = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]])
    >>> new = DirectWeights()(old, reward, torch.tensor(1.0)).followed(old, reward)
    >>> [round(weight, 2) for weight in new.exp()[0].tolist()]
    [0.73, 0.27]
    """

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        return WeightStep(step)


@dataclass(frozen=True)
class TrustRegionWeights:
    """Largest natural-gradient step of the weights within a KL bound (letter O).

    The step size is the bound on KL(new, old) [nat]. The factor beta is at most 1.
    """

    def __call__(self, log_weights: Tensor, reward: Tensor, step: Tensor) -> WeightStep:
        def kl(multiplier: Tensor) -> Tensor:
            new = WeightStep(1.0 / multiplier[0]).followed(log_weights, reward)
            return (new.exp() * (new - log_weights)).sum(-1).mean(0, keepdim=True)

        multiplier, found = least_multiplier(kl, reward.new_ones(1), step.reshape(1))
        return WeightStep(torch.where(found, 1.0 / multiplier, 0.0)[0])


@dataclass(frozen=True)
class EntropyBoundedUpdate:
    """Trust-region update of the components that also bounds the loss of entropy (letter B); see `solve_multipliers`.

    EIM uses this update (thesis 4.1, 4.2). VIPS does not bound the loss of entropy. The entropy bound keeps the model
    wide for longer, and thus prevents the loss of modes. If the entropy bound is inactive, the update equals
    `TrustRegionUpdate`, except that it meets the KL bound more precisely.

    The step size is the bound on KL(new, old) [nat]. The multipliers eta and omega give s = 1 + eta + omega, and the
    precision is multiplied by a = (1 + eta + lambda)/s.

    Attributes
    ----------
    entropy_loss_bound : float
        Maximum loss of entropy [nat], >= 0. Infinity means no bound.
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
    """Trust-region update of the weights that also bounds the loss of entropy (letter B); see `CategoricalDual`.

    If the entropy bound is inactive, the update equals `TrustRegionWeights`, except that it meets the KL bound more
    precisely. The step size is the bound on KL(new, old) [nat]. With multipliers eta and omega, the new log weights are
    log w' = ((1 + eta) log w + R)/(1 + eta + omega), which are then normalised.

    Attributes
    ----------
    entropy_loss_bound : float
        Maximum loss of the mean entropy over the contexts [nat], >= 0. Infinity means no bound.

    Examples
    --------
    The entropy bound makes the step smaller than the bound on the KL alone:

    >>> import torch
    >>> from eim_ros.learning.gmmvi import EntropyBoundedWeights, TrustRegionWeights
    >>> old, reward, bound = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[9.0, 0.0]]), torch.tensor(0.1)
    >>> free = TrustRegionWeights()(old, reward, bound).followed(old, reward).exp()
    >>> cautious = EntropyBoundedWeights(entropy_loss_bound=0.05)(old, reward, bound).followed(old, reward).exp()
    >>> bool(0.5 < cautious[0, 0] < free[0, 0])
    True
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
    """Rule for step sizes, either factors beta or bounds of trust regions [nat] (Arenz et al. 2023, section 3.5).

    The same classes are used for components and weights, with tensors of any length.
    """

    @property
    def first(self) -> float:
        """Step size of the first update."""

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        """Compute the next step sizes (n,) from the last step sizes, the numbers of updates so far, and the gains.

        The gain (n,) is the increase of each objective since the last update [nat], or NaN if it is unknown.
        """


@dataclass(frozen=True)
class FixedStepSize:
    """Constant step size (letters F and X)."""

    first: float

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        return step


@dataclass(frozen=True)
class DecayingStepSize:
    """Step size first/(1 + n_updates^exponent) (letters D and G).

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.gmmvi import DecayingStepSize
    >>> rule = DecayingStepSize(first=1.0, exponent=0.5)
    >>> round(float(rule(torch.tensor([0.5]), n_updates=torch.tensor([4]), gain=torch.tensor([torch.nan]))), 3)
    0.333
    """

    first: float
    exponent: float

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        return self.first / (1.0 + n_updates.to(step) ** self.exponent)


@dataclass(frozen=True)
class AdaptiveStepSize:
    """Step size that grows after a gain and shrinks otherwise, within bounds (letters R and N).

    Examples
    --------
    The first objective has risen since the last update, and the second objective has fallen:

    >>> import torch
    >>> from eim_ros.learning.gmmvi import AdaptiveStepSize
    >>> rule = AdaptiveStepSize(first=0.1, smallest=0.01, largest=1.0)
    >>> steps = rule(torch.tensor([0.1, 0.1]), n_updates=torch.tensor([5, 5]), gain=torch.tensor([0.2, -0.2]))
    >>> [round(step, 3) for step in steps.tolist()]
    [0.115, 0.085]
    """

    first: float
    smallest: float
    largest: float
    growth: float = 1.15
    shrinkage: float = 0.85

    def __call__(self, step: Tensor, n_updates: Tensor, gain: Tensor) -> Tensor:
        grown = (self.growth * step).clamp_max(self.largest)
        shrunk = (self.shrinkage * step).clamp_min(self.smallest)
        return torch.where(gain.isnan(), step, torch.where(gain > 0.0, grown, shrunk))
