"""Trust-region I-projection of categorical distributions, one per context (thesis 4.1.1, 4.2.1, A.3.1, A.4.1).

Maximise E[r] - tau KL(new || old), where E is the mean over contexts (tau = 1 in the thesis). The constraints are E
KL(new || old) <= kl_bound and E H(new) >= least_entropy = E H(old) - entropy_loss_bound. With a = eta + tau and s = a +
omega, the solution is new ~ exp(v) with v = (a log old + r)/s. The multipliers minimise the convex dual

    g(eta, omega) = s E log sum exp v + eta kl_bound - omega least_entropy,    eta, omega >= 0,
    dg/deta = kl_bound - KL,    dg/domega = H - least_entropy.

Newton's method finds the multipliers. The Hessian consists of covariances of log old and v, so each step needs one pass
over the probabilities. Newton's method may fail, for example because a distribution cannot lose entropy. Two nested
root searches replace it in this case. For fixed a, the entropy rises with omega. With the least feasible omega, the KL
falls as a rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from eim_ros.learning.models.native import tilted_moments

Pair: TypeAlias = tuple[float, float]  # values for eta and omega
MARGIN = 2e-6  # Newton's method aims at a point inside the bounds, at this relative distance from each bound
LARGEST_FACTOR = 10.0  # maximum factor of the change of a and s in one step
MAX_STEPS = 60
MAX_CUTS = 10  # maximum number of shortenings of one step
OVERSHOT = 0.9  # a step is shortened if its final uphill slope exceeds this share of the initial downhill slope
TOLERANCE = 1e-4  # relative width of the final bracket of a multiplier in the nested searches
ROUNDING = 1e-6  # a violation below this share of a margin is attributed to rounding
SINGULAR = 1e-12  # relative determinant below which a Hessian counts as singular
TINY = 1e-300
LEAST_WEIGHT = 1e-12  # minimum weight of the KL; keeps the proportions of components with equal rewards


@dataclass(frozen=True)
class RootBracket:
    """Bracket of the point where a decreasing function crosses zero."""

    lower: Tensor  # (...), largest tested argument with a positive value, or the given lower end
    # (...), smallest tested argument with a value of at most zero (the feasible end). `upper` equals the given lower
    # end if the function is at most zero there.
    upper: Tensor
    found: Tensor  # (...) of bool, whether a feasible argument was found


def decreasing_root(
    # Map from arguments (...) to values (...) that decreases in each entry. Values at the start may be infinite or NaN
    # because of a pole. Such values count as positive.
    function: Callable[[Tensor], Tensor],
    start: Tensor,  # (...), lower end
    *,
    # width of the final bracket, relative to the distance of its upper end from the start
    relative_tolerance: float = 1e-10,
    max_iterations: int = 100,  # maximum number of expansions, and also of bisections
) -> RootBracket:
    """Find the smallest t >= 0 with `function(start + t) <= 0` for each entry, by expansion and bisection.

    Bisection is geometric (in log t), because trust-region multipliers span many orders of magnitude. The excess t over
    `start` is stored separately, which preserves the digits of a root close to `start`.
    """

    def feasible(excess: Tensor) -> Tensor:
        return function(start + excess) <= 0.0

    zero = torch.zeros_like(start)
    at_start = feasible(zero)
    smallest = torch.finfo(start.dtype).eps * start.abs().clamp_min(1.0)
    low = zero
    high = torch.where(at_start, zero, torch.ones_like(start))
    done = at_start
    for _ in range(max_iterations):
        done = done | feasible(high)
        if bool(done.all()):
            break
        low = torch.where(done, low, high)
        high = torch.where(done, high, 4.0 * high)
    for _ in range(max_iterations):
        active = done & ~at_start & (high - low > relative_tolerance * high + smallest)
        if not bool(active.any()):
            break
        middle = torch.where(low > 0.0, torch.sqrt(low * high), high / 64.0)
        middle = torch.where(high < 2.0 * low, 0.5 * (low + high), middle)
        inside = feasible(middle)
        high = torch.where(active & inside, middle, high)
        low = torch.where(active & ~inside, middle, low)
    return RootBracket(start + low, start + high, done)


def least_multipliers(
    # KL of the update with multipliers a and omega (...), which falls as a rises
    kl: Callable[[Tensor, Tensor], Tensor],
    least_omega: Callable[[Tensor], Tensor],  # maps a to the least omega that satisfies the bound on the entropy
    kl_bound: float | Tensor,
    start: Tensor,  # (...), least a
    relative_tolerance: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the least multipliers a and omega that satisfy both bounds, and a mask of the entries with a solution."""
    bracket = decreasing_root(lambda a: kl(a, least_omega(a)) - kl_bound, start, relative_tolerance=relative_tolerance)
    return bracket.upper, least_omega(bracket.upper), bracket.found


@dataclass(frozen=True)
class _Point:
    """Pair of multipliers, with the gradient and the Hessian (eta eta, eta omega, omega omega) of the dual.

    The gradient is computed for bounds that are tighter by the margins. Therefore, an entry below minus its margin
    means that the bound itself is exceeded.
    """

    eta: float
    omega: float
    gradient: Pair
    hessian: tuple[float, float, float]
    margins: Pair

    @property
    def free(self) -> tuple[bool, bool]:
        """Whether each multiplier is positive, or its bound is exceeded by more than rounding errors."""
        exceeded = (
            slope < -(1.0 + ROUNDING) * margin for slope, margin in zip(self.gradient, self.margins, strict=True)
        )
        eta_exceeded, omega_exceeded = exceeded
        return self.eta > 0.0 or eta_exceeded, self.omega > 0.0 or omega_exceeded

    @property
    def settled(self) -> bool:
        """Whether each multiplier either meets its bound or is zero because the bound is inactive."""
        parts = zip(self.free, self.gradient, self.margins, strict=True)
        return all(not free or abs(slope) <= 0.5 * margin for free, slope, margin in parts)

    def newton_step(self) -> Pair:
        """Return the Newton step in the free multipliers."""
        (eta_free, omega_free), (in_eta, in_omega), (ee, eo, oo) = self.free, self.gradient, self.hessian
        determinant = ee * oo - eo * eo
        if eta_free and omega_free and determinant > SINGULAR * ee * oo:
            return (eo * in_omega - oo * in_eta) / determinant, (eo * in_eta - ee * in_omega) / determinant
        return self.step_of_each()

    def step_of_each(self) -> Pair:
        """Return the Newton step of each multiplier with the other one fixed."""
        return tuple(  # type: ignore[return-value]
            -slope / max(curvature, TINY) if free else 0.0
            for free, slope, curvature in zip(self.free, self.gradient, self.hessian[::2], strict=True)
        )


class CategoricalDual:
    """Dual of one projection, with the arguments of `project_categorical`.

    A Newton step changes a and s at most by a factor of 10, and is shortened if the dual rises too steeply at its end.
    The steps aim at a point slightly inside the bounds. Therefore, the result satisfies the bounds despite rounding.
    Values of `kl_weight` below `LEAST_WEIGHT` are raised to `LEAST_WEIGHT`.
    """

    def __init__(
        self, old_log_probs: Tensor, reward: Tensor, kl_bound: float, entropy_loss_bound: float, kl_weight: float
    ) -> None:
        self._old, self._reward = old_log_probs, reward
        self._bounds = kl_bound, entropy_loss_bound
        self._weight = max(kl_weight, LEAST_WEIGHT)
        self._some_out = not bool(torch.isfinite(old_log_probs).all() and torch.isfinite(reward).all())
        tables = (old_log_probs, reward)
        cpu = all(part.device.type == "cpu" and part.dtype == torch.float64 for part in tables)
        self._compiled = cpu and not self._some_out
        self._old_entropy = float(mean_entropy(old_log_probs))
        scales = kl_bound, max(entropy_loss_bound, min(kl_bound, 1.0))
        of_kl, of_loss = (MARGIN * scale if math.isfinite(scale) else 0.0 for scale in scales)
        self._margins = of_kl, of_loss

    def log_probs(self, eta: float, omega: float) -> Tensor:
        """Return the maximiser of the Lagrangian, (n_contexts, n_components)."""
        a = self._weight + eta
        return torch.log_softmax((a * self._old + self._reward) / (a + omega), -1)

    def feasible(self, log_probs: Tensor) -> bool:
        """Return whether both bounds are satisfied."""
        loss = self._old_entropy - float(mean_entropy(log_probs))
        return float(mean_kl(log_probs, self._old)) <= self._bounds[0] and loss <= self._bounds[1]

    def multipliers(self, start: Pair | None = None) -> Pair | None:
        """Return the least feasible (eta, omega) with complementary slackness, or None if there is no such pair.

        By default, the search starts from omega = 0 and the eta of a small-step approximation.
        """
        found = self._by_newton(start or (self._small_step(), 0.0))
        if found is not None and self.feasible(self.log_probs(*found)):
            return found
        return self._by_root_finds()

    def _small_step(self) -> float:
        """Return a guess of eta from the small-step approximation KL = variance of the reward / (2 a^2)."""
        if self._bounds[0] <= 0.0:
            return 0.0
        probabilities = self._old.exp()
        reward = torch.where(probabilities > 0.0, self._reward, torch.zeros_like(self._reward))
        mean = (probabilities * reward).sum(-1, keepdim=True)
        variance = float((probabilities * (reward - mean).square()).sum(-1).mean())
        guess = math.sqrt(0.5 * variance / self._bounds[0]) - self._weight
        return max(0.0, guess) if math.isfinite(guess) else 0.0

    def _by_newton(self, start: Pair) -> Pair | None:
        eta, omega = (value if math.isfinite(bound) else 0.0 for value, bound in zip(start, self._bounds, strict=True))
        point: _Point | None = self._at(eta, omega)
        for _ in range(MAX_STEPS):
            if point is None or not all(map(math.isfinite, point.hessian)):
                return None
            if point.settled:
                return point.eta, point.omega
            point = self._moved(point)
        return None

    def _moved(self, point: _Point) -> _Point | None:
        """Return the next point, or None if there is no descent direction or no acceptable step length.

        A step is acceptable if, at its end, the dual rises less steeply than it falls at the start.
        """
        for step in (point.newton_step(), point.step_of_each()):
            move = self._limited(point, step)
            downhill = -_along(point.gradient, move)
            if downhill > 0.0:
                break
        else:
            return None
        fraction = 1.0
        for _ in range(MAX_CUTS):
            following = self._at(point.eta + fraction * move[0], point.omega + fraction * move[1])
            uphill = _along(following.gradient, move)
            if uphill <= OVERSHOT * downhill:
                return following
            fraction *= max(0.1, downhill / (downhill + uphill))  # zero of a linear slope
        return None

    def _limited(self, point: _Point, step: Pair) -> Pair:
        """Clip the step: multipliers stay non-negative, and a and s change at most by `LARGEST_FACTOR`."""
        a = self._weight + point.eta
        s = a + point.omega
        least_eta, most_eta = max(0.0, a / LARGEST_FACTOR - self._weight), LARGEST_FACTOR * a - self._weight
        eta = min(max(point.eta + step[0], least_eta), most_eta)
        omega = min(max(point.omega + step[1], 0.0), LARGEST_FACTOR * s)
        return eta - point.eta, omega - point.omega

    def _at(self, eta: float, omega: float) -> _Point:
        a = self._weight + eta
        s = a + omega
        if self._compiled:
            moments = tilted_moments(self._old.numpy(), self._reward.numpy(), a, s)
            return self._point(eta, omega, moments)
        old, value = self._old, torch.add(self._reward, self._old, alpha=a).div_(s)
        log_probs = torch.log_softmax(value, -1)
        probabilities = log_probs.exp()
        if self._some_out:
            there, zero = probabilities > 0.0, torch.zeros_like(value)
            old, value, log_probs = (torch.where(there, part, zero) for part in (old, value, log_probs))

        def mean(weighted: Tensor, part: Tensor) -> float:
            return float(torch.linalg.vecdot(weighted, part).mean())

        entropy, cross_entropy = -mean(probabilities, log_probs), -mean(probabilities, old)
        old = old - torch.linalg.vecdot(probabilities, old).unsqueeze(-1)
        value.sub_(torch.linalg.vecdot(probabilities, value).unsqueeze(-1))
        weighted = probabilities * value
        covariances = mean(weighted, value), mean(weighted, old), mean(probabilities.mul_(old), old)
        return self._point(eta, omega, (entropy, cross_entropy, *covariances))

    def _point(self, eta: float, omega: float, moments: tuple[float, float, float, float, float]) -> _Point:
        """Return the derivatives of the dual, given the results of `tilted_moments`."""
        entropy, cross_entropy = moments[:2]
        value_value, old_value, old_old = (moment / (self._weight + eta + omega) for moment in moments[2:])
        in_eta = self._bounds[0] - self._margins[0] - (cross_entropy - entropy)
        in_omega = entropy - self._old_entropy + self._bounds[1] - self._margins[1]
        hessian = old_old - 2.0 * old_value + value_value, value_value - old_value, value_value
        return _Point(eta, omega, (in_eta, in_omega), hessian, self._margins)

    def _by_root_finds(self) -> Pair | None:
        """Find the multipliers by a search for omega inside a search for a, and return the feasible ends."""
        start = torch.full((), self._weight, dtype=self._reward.dtype, device=self._reward.device)

        def log_probs(a: Tensor, s: Tensor) -> Tensor:
            return torch.log_softmax((a * self._old + self._reward) / s, -1)

        def least_s(a: Tensor) -> Tensor:
            least_entropy = self._old_entropy - self._bounds[1]
            return decreasing_root(
                lambda s: least_entropy - mean_entropy(log_probs(a, s)), a, relative_tolerance=TOLERANCE
            ).upper

        a, s, found = least_multipliers(
            lambda a, s: mean_kl(log_probs(a, s), self._old), least_s, self._bounds[0], start, TOLERANCE
        )
        return (float(a - start), float(s - a)) if bool(found) else None


def mean_entropy(log_probs: Tensor) -> Tensor:
    """Return the mean entropy [nat] of distributions (n_contexts, n_components)."""
    entropy: Tensor = torch.special.entr(log_probs.exp()).sum(-1).mean()
    return entropy


def mean_kl(new: Tensor, old: Tensor) -> Tensor:
    """Return the mean KL(new || old) [nat] of distributions given by their logs (n_contexts, n_components)."""
    probabilities = new.exp()
    difference = torch.where(probabilities > 0.0, new - old, torch.zeros_like(new))
    return (probabilities * difference).sum(-1).mean()


def _along(gradient: Pair, move: Pair) -> float:
    """Return the slope along a move. Multipliers that do not move are ignored, because their slope may be infinite."""
    return sum(slope * part for slope, part in zip(gradient, move, strict=True) if part != 0.0)


@dataclass(frozen=True)
class CategoricalUpdate:
    """Result of the projection.

    Attributes
    ----------
    log_probs : Tensor (n_contexts, n_components)
    eta, omega : float
        Multipliers of the KL and of the entropy constraint.
    kl : float
        Mean KL(new || old) [nat].
    entropy_change : float
        Mean H(new) - H(old) [nat].
    feasible : bool
        False if no multipliers satisfy the bounds. In this case, `log_probs` equals the old log probabilities.
    """

    log_probs: Tensor
    eta: float
    omega: float
    kl: float
    entropy_change: float
    feasible: bool


def project_categorical(
    old_log_probs: Tensor, reward: Tensor, kl_bound: float, entropy_loss_bound: float, *, kl_weight: float = 1.0
) -> CategoricalUpdate:
    """Compute the trust-region I-projection of q(z|y) at the given contexts.

    Use a single context for an unconditional distribution.

    Parameters
    ----------
    old_log_probs : Tensor (n_contexts, n_components)
        log q_old(z|y); minus infinity excludes a component.
    reward : Tensor (n_contexts, n_components)
        phi(y, z) [nat]; minus infinity excludes a component.
    kl_bound, entropy_loss_bound : float
        Maximum mean KL and maximum mean loss of entropy [nat]. Infinity means no bound.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective, as in `project_experts`.

    Examples
    --------
    Without bounds, the new probabilities are proportional to exp(reward). A bound makes the step smaller:

    >>> import torch
    >>> from eim_ros.learning.projections import project_categorical
    >>> old, reward = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]])
    >>> [round(p, 2) for p in project_categorical(old, reward, torch.inf, torch.inf).log_probs.exp()[0].tolist()]
    [0.73, 0.27]
    >>> round(project_categorical(old, reward, kl_bound=0.02, entropy_loss_bound=0.1).kl, 3)
    0.02
    """
    unchanged = CategoricalUpdate(old_log_probs, float("inf"), 0.0, 0.0, 0.0, False)
    if not bool((reward < torch.inf).all()):  # NaN or plus infinity
        return unchanged
    dual = CategoricalDual(old_log_probs, reward, kl_bound, entropy_loss_bound, kl_weight)
    multipliers = dual.multipliers()
    if multipliers is None:
        return unchanged
    log_probs = dual.log_probs(*multipliers)
    if not bool(torch.isfinite(log_probs.exp()).all()):
        return unchanged
    kl = float(mean_kl(log_probs, old_log_probs))
    change = float(mean_entropy(log_probs) - mean_entropy(old_log_probs))
    return CategoricalUpdate(log_probs, *multipliers, kl, change, True)
