"""Trust-region I-projection of a gating within its parametric family (thesis 4.2.1, equation 4.3).

Given rewards phi(y, z), the problem over the parameters theta of the gating is

    maximise E_y sum_z q(z|y) phi(y, z) - kl_weight E_y KL(q(z|y) || q_old(z|y))
    subject to E_y KL(q || q_old) <= kl_bound and E_y H(q) >= E_y H(q_old) - entropy_loss_bound.

By default, L-BFGS maximises the Lagrangian over theta. The Lagrangian is linear in the rewards, so their noise averages
out. The returned gating satisfies the bounds.

The thesis projects the probabilities of each context separately and refits the gating to this table by maximum
likelihood (`refit`). However, rewards from one sample per context are noisy, and the softmax of a noisy reward is
biased. The projected probabilities follow the noise to the end of the trust region. The refit averages the noise, so
the gating hardly moves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.learning.models.linear import SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import Gating
from eim_ros.learning.models.native import softmax_lagrangian
from eim_ros.learning.models.neural import NeuralGating
from eim_ros.learning.projections.categorical import LEAST_WEIGHT, CategoricalDual, mean_entropy, mean_kl

RIDGE = 0.01  # damping of the Fisher matrix, in units of a component's probability
# additional damping, multiplied by the number of parameters and divided by the effective number of contexts
SCARCITY = 3.0
# The metric of plain gradients increases all probabilities by this share of 1 / n_components.
LEAST_SHARE = 0.1
LEAST_PROBABILITY = 1e-30  # lower bound of the mean probability of a component in its metric
MAX_TURNS = 12
MAX_ITERATIONS = {True: 100, False: 15}  # maximum number of L-BFGS iterations, for linear (True) and for neural gatings
TOLERANCE = 1e-8  # L-BFGS stops if an iteration improves the objective by less than this share of the expected gain
SLOPE_TOLERANCE = 1e-8  # L-BFGS stops if no entry of the gradient exceeds this value (same units)
SETTLED = 0.01  # the multipliers have converged if they change by less than this fraction
LEAST_PROGRESS = 1e-3  # the search ends if the multipliers have converged and the gain rises by less than this share
LARGEST_RATIO = 3.0  # maximum factor of the change of a and s between two maximisations
# Maximum change of the logits of a component along a natural gradient [nat]. A larger KL bound replaces it.
LARGEST_STEP = 1.0
MAX_SHORTENINGS = 20


def _compiled(table: Tensor) -> bool:
    """Return whether compiled code can process a table. The table must be in float64 on the CPU."""
    return table.device.type == "cpu" and table.dtype == torch.float64


def _lagrangian(fixed: Tensor, slope: float, log_probs: Tensor) -> tuple[float, Tensor]:
    """Return the value of `_Linear.lagrangian` and its gradient with respect to the logits."""
    probabilities = log_probs.exp()
    value = torch.add(fixed, log_probs, alpha=-slope)
    mean = torch.linalg.vecdot(probabilities, value).unsqueeze(-1)
    return float(mean.mean()), value.sub_(mean).mul_(probabilities).div_(len(value))


class _Linear:
    """Softmax gatings in coordinates u, where [V, v] = old [V, v] + L^-T u for each component.

    Contexts are standardised. L L' is the damped block of the Fisher matrix for the component, at the old gating.
    Unless `natural` is set, a share of the metric for equal probabilities is added. The gradient of a component then
    vanishes with its probability.
    """

    def __init__(self, gating: SoftmaxGating, context: Tensor, natural: bool) -> None:
        center = context.mean(0)
        scale = (context - center).square().mean(0).sqrt()
        self._center, self._scale = center, torch.where(scale > 0.0, scale, torch.ones_like(scale))
        standard = (context - center) / self._scale
        self._design = torch.cat([standard, standard.new_ones(len(standard), 1)], -1)
        biases = gating.biases + gating.weights @ center
        self._origin = torch.cat([gating.weights * self._scale, biases.unsqueeze(-1)], -1)
        self.start = np.zeros(self._origin.numel())
        self._factor, mass = self._metric(0.0 if natural else LEAST_SHARE / gating.n_components)
        self._mass = mass if natural else None  # only natural steps are bounded

    def limits(self, largest: float) -> FloatArray | None:
        """Return bounds (n, 2) of the parameters, or None if they are not bounded.

        Within the bounds, the logits of a component move by at most `largest` [nat] in each direction.
        """
        if self._mass is None:
            return None
        reach = self._mass.sqrt().unsqueeze(-1).expand(self._origin.shape).reshape(-1).cpu().numpy()
        return largest * np.stack([-reach, reach], -1)

    def log_probs(self, flat: FloatArray) -> Tensor:
        """Return the log probabilities at the contexts, (n_contexts, n_components)."""
        return torch.log_softmax(self._design @ self._parameters(flat).T, -1)

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        """Return the value of an objective, and its gradient with respect to the parameters.

        `objective` maps log probabilities to its value and to its gradient with respect to the logits.
        """
        value, in_logits = objective(self.log_probs(flat))
        return value, self._in_coordinates(in_logits.T @ self._design)

    def lagrangian(self, flat: FloatArray, fixed: Tensor, slope: float) -> tuple[float, FloatArray]:
        """Return the mean over contexts of sum_z q(z|y) (fixed(y, z) - slope log q(z|y)), and its gradient.

        The table `fixed` has the shape (n_contexts, n_components).
        """
        if not _compiled(fixed):
            return self.value_and_gradient(flat, functools.partial(_lagrangian, fixed, slope))
        design, parameters = self._design.numpy(), self._parameters(flat).numpy()
        value, gradient = softmax_lagrangian(design, parameters, fixed.numpy(), slope)
        return value, self._in_coordinates(torch.from_numpy(gradient))

    def _in_coordinates(self, gradient: Tensor) -> FloatArray:
        """Convert a gradient with respect to [V, v], (n_components, n_context + 1), to a gradient with respect to u."""
        moved: Tensor = torch.linalg.solve_triangular(self._factor, gradient.unsqueeze(-1), upper=False)
        return moved.reshape(-1).cpu().numpy()

    def build(self, flat: FloatArray) -> SoftmaxGating:
        parameters = self._parameters(flat)
        weights = parameters[:, :-1] / self._scale
        biases = parameters[:, -1] - weights @ self._center
        return SoftmaxGating(weights - weights.mean(0), biases - biases.mean())

    def combined(self, flat: FloatArray, share: float, old_share: float) -> FloatArray:
        """Return parameters with logits `share` times (logits of `flat`) plus `old_share` times (old logits)."""
        origin = self._factor.mT @ self._origin.unsqueeze(-1)
        moved: FloatArray = share * flat + (share + old_share - 1.0) * origin.reshape(-1).cpu().numpy()
        return moved

    def _metric(self, floor: float) -> tuple[Tensor, Tensor]:
        """Return L of each component, and its mean probability (n_components,).

        The metric of a component whose probability is `floor` at every context is added.
        """
        design = self._design
        probabilities = torch.softmax(design @ self._origin.T, -1).T / len(design)
        products = (design.unsqueeze(-1) * design.unsqueeze(-2)).flatten(1)
        blocks = (probabilities @ products).reshape(len(probabilities), *2 * (design.shape[1],))
        mass = probabilities.sum(-1).clamp_min(LEAST_PROBABILITY)
        n_effective = mass.square() / probabilities.square().sum(-1).clamp_min(LEAST_PROBABILITY**2)
        ridge = (RIDGE + SCARCITY * design.shape[1] / n_effective) * mass
        blocks = blocks + floor * (design.T @ design / len(design))
        identity = torch.eye(design.shape[1], dtype=design.dtype, device=design.device)
        return torch.linalg.cholesky(blocks + ridge[:, None, None] * identity), mass

    def _parameters(self, flat: FloatArray) -> Tensor:
        """Return [V, v] in standardised contexts, (n_components, n_context + 1)."""
        moved = torch.as_tensor(flat, dtype=self._design.dtype, device=self._design.device).reshape(self._origin.shape)
        moved = torch.linalg.solve_triangular(self._factor.mT, moved.unsqueeze(-1), upper=True).squeeze(-1)
        parameters: Tensor = self._origin + moved
        return parameters


class _Neural:
    """Neural gatings, with the methods of `_Linear`. The standardisation of the networks' inputs does not change."""

    def __init__(self, gating: NeuralGating, context: Tensor) -> None:
        self._fixed, self._context = gating.tensors(), context
        self._names = [name for name in self._fixed if name.startswith("layers.")]
        self.start = torch.cat([self._fixed[name].reshape(-1) for name in self._names]).cpu().numpy()

    def log_probs(self, flat: FloatArray) -> Tensor:
        return self.build(flat)(self._context)

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        # L-BFGS has extrapolated too far. With an infinite value, it returns to its last point.
        if not np.isfinite(flat).all():
            return math.inf, np.zeros_like(flat)
        leaves = {name: value.requires_grad_(True) for name, value in self._split(flat).items()}
        with torch.enable_grad():
            logits = NeuralGating.from_tensors({**self._fixed, **leaves}).network(self._context)[0]
        value, gradient = objective(torch.log_softmax(logits.detach(), -1))
        gradients = torch.autograd.grad(logits, list(leaves.values()), gradient)
        return value, torch.cat([part.reshape(-1) for part in gradients]).cpu().numpy()

    def lagrangian(self, flat: FloatArray, fixed: Tensor, slope: float) -> tuple[float, FloatArray]:
        return self.value_and_gradient(flat, functools.partial(_lagrangian, fixed, slope))

    def build(self, flat: FloatArray) -> NeuralGating:
        return NeuralGating.from_tensors({**self._fixed, **self._split(flat)})

    def combined(self, flat: FloatArray, share: float, old_share: float) -> FloatArray:
        """Return `flat`, because the logits are not linear in the parameters."""
        return flat

    def limits(self, largest: float) -> FloatArray | None:
        return None

    def _split(self, flat: FloatArray) -> dict[str, Tensor]:
        like = [self._fixed[name] for name in self._names]
        parts = torch.as_tensor(flat, dtype=like[0].dtype, device=like[0].device).split([v.numel() for v in like])
        return {n: p.reshape(v.shape).clone() for n, p, v in zip(self._names, parts, like, strict=True)}


GatingFamily: TypeAlias = _Linear | _Neural


def family_of(gating: Gating, context: Tensor, *, natural: bool) -> GatingFamily:
    """Return the parametric family of a gating. Only linear gatings can be `natural`; see `project_gating`."""
    if isinstance(gating, NeuralGating):
        return _Neural(gating, context)
    if isinstance(gating, SoftmaxGating):
        return _Linear(gating, context, natural)
    raise TypeError(
        f"a gating of the class {type(gating).__name__} cannot be updated; use SoftmaxGating or NeuralGating"
    )


@dataclass(frozen=True)
class GatingUpdate:
    """Result of the projection.

    Attributes
    ----------
    gating : Gating
        New gating, or the old gating if no step is feasible or the rewards are not finite.
    eta, omega : float
        Multipliers of the KL and of the entropy constraint. A positive multiplier means that its bound is active. A
        linear gating meets an active bound to a few millionths, and a neural gating meets it approximately.
    kl : float
        Mean KL(new || old) [nat].
    entropy_change : float
        Mean H(new) - H(old) [nat].
    feasible : bool
        Whether a feasible step exists.
    """

    gating: Gating
    eta: float
    omega: float
    kl: float
    entropy_change: float
    feasible: bool


def project_gating(
    old: Gating,
    context: Tensor,
    reward: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
    update: str = "plain",
    max_iterations: int | None = None,
) -> GatingUpdate:
    """Improve a gating by the rewards of its components.

    Parameters
    ----------
    old : Gating
    context : Tensor (n_contexts, n_context)
    reward : Tensor (n_contexts, n_components)
        phi(y, z) [nat]; each value may be a single noisy sample.
    kl_bound, entropy_loss_bound : float
        Maximum mean KL and maximum mean loss of entropy [nat].
    kl_weight : float
        Weight of the KL term in the objective, >= 0.
    update : str
        The update "plain" follows the gradient of the objective with respect to the parameters. The update "natural"
        follows the natural gradient of a linear gating. The update "refit" projects the probabilities of each context
        and fits the gating to these probabilities, as in the thesis. In this case, the multipliers belong to the
        probabilities, and a step that exceeds a bound after the fit is shortened.
    max_iterations : int, optional
        Maximum number of L-BFGS iterations for one pair of multipliers, or for the fit of "refit". The default is 100
        for linear gatings and 15 for neural gatings.

    Returns
    -------
    GatingUpdate

    Notes
    -----
    The plain gradient in theta vanishes with the probability of a component. Therefore, a component without weight
    hardly recovers, even if its reward is great. The natural gradient avoids this problem by coordinates with a Fisher
    matrix close to the identity. The step of a component with a small weight is damped and bounded, because its rewards
    come from only a few effective contexts.

    Use the natural gradient if rewards are exact. The plain gradient is the default, because an estimated density ratio
    is least reliable where the model has no samples.

    Examples
    --------
    Prefer the first of two components for positive contexts:

    >>> import torch
    >>> from eim_ros.learning.models import SoftmaxGating
    >>> from eim_ros.learning.projections import project_gating
    >>> context = torch.linspace(-1.0, 1.0, 50, dtype=torch.float64)[:, None]
    >>> reward = torch.cat([context, -context], -1)
    >>> uniform = SoftmaxGating(torch.zeros(2, 1).double(), torch.zeros(2).double())
    >>> update = project_gating(uniform, context, reward, kl_bound=0.01, entropy_loss_bound=0.05)
    >>> update.kl <= 0.0101, bool(update.gating(context)[-1, 0] > update.gating(context)[-1, 1])
    (True, True)
    """
    unchanged = GatingUpdate(old, float("inf"), 0.0, 0.0, 0.0, False)
    if old.n_components == 1 or not bool(torch.isfinite(reward).all()):
        return unchanged
    family = family_of(old, context, natural=update == "natural")
    problem = _Problem.of(family, reward, kl_bound, entropy_loss_bound, kl_weight)
    solve = problem.refitted if update == "refit" else problem.solved
    limit = MAX_ITERATIONS[isinstance(old, SoftmaxGating)] if max_iterations is None else max_iterations
    solved = solve(limit) if kl_bound > 0.0 else None
    if solved is None:
        return unchanged
    flat, eta, omega = solved
    gating = family.build(flat)
    if not all(bool(torch.isfinite(value).all()) for value in gating.tensors().values()):
        return unchanged
    log_probs = family.log_probs(flat)
    kl = float(mean_kl(log_probs, problem.old_log_probs))
    change = float(mean_entropy(log_probs) - mean_entropy(problem.old_log_probs))
    return GatingUpdate(gating, eta, omega, kl, change, bool((flat != family.start).any()))


@dataclass(frozen=True)
class _Problem:
    family: GatingFamily
    old_log_probs: Tensor
    reward: Tensor  # shifted to a mean of zero at each context
    bounds: tuple[float, float]
    kl_weight: float

    @classmethod
    def of(
        cls, family: GatingFamily, reward: Tensor, kl_bound: float, entropy_loss_bound: float, kl_weight: float
    ) -> _Problem:
        old_log_probs = family.log_probs(family.start)
        centred = reward - (old_log_probs.exp() * reward).sum(-1, keepdim=True)
        return cls(family, old_log_probs, centred, (kl_bound, entropy_loss_bound), max(kl_weight, LEAST_WEIGHT))

    def solved(self, max_iterations: int) -> tuple[FloatArray, float, float] | None:
        """Return parameters that satisfy both bounds, and their multipliers, or None if no multipliers are found.

        With a = kl_weight + eta and s = a + omega, the maximiser of the Lagrangian satisfies

            s log q = a log q_old + rho(y, z) + const(y).

        Here rho is the part of the rewards that the family can represent. The function rho hardly depends on a and s,
        so the maximiser for wrong multipliers also yields rho. A projection of the probabilities with the reward rho
        (`CategoricalDual`) then gives the right multipliers. A linear gating reaches the maximiser for these
        multipliers exactly, because its logits are a sum of the old logits and rho. The search converges in a few
        iterations. Without contexts, it converges in one iteration.

        The search starts from rho = 0, that is, from (a/s) log q_old. With a start from q_old, logits that L-BFGS does
        not move would count as a part of rho. The entropy bound would then penalise components without weight more
        strongly in each update.

        The result is the feasible gating with the greatest objective. Multipliers change by at most a constant factor
        between two maximisations. Far outside the bounds, the gradient would be too small to lead back.
        """
        multipliers = self._multipliers(self.reward, None)
        if multipliers is None:
            return None
        a = self.kl_weight + multipliers[0]
        s = a + multipliers[1]
        flat = self.family.combined(self.family.start, a / s, 0.0)  # rho = 0
        best: tuple[float, FloatArray, tuple[float, float]] | None = None
        for _ in range(MAX_TURNS):
            unit = best[0] if best is not None else min(a * self.bounds[0], float(self.reward.abs().mean()))
            flat = self._maximiser(a, s, flat, max_iterations, unit)
            represented = s * self.family.log_probs(flat) - a * self.old_log_probs
            multipliers = self._multipliers(represented, multipliers)
            if multipliers is None:
                break
            full_a = self.kl_weight + multipliers[0]
            full_s = full_a + multipliers[1]
            end = self._shortened(self.family.combined(flat, s / full_s, (full_a - a) / full_s))
            gain = self._gain(end)
            previous = best[0] if best is not None else 0.0
            if best is None or gain > previous:
                best = gain, end, multipliers
            settled = abs(full_a - a) <= SETTLED * a and abs(full_s - s) <= SETTLED * s
            if settled and gain <= (1.0 + LEAST_PROGRESS) * previous:
                break
            new_a = min(max(full_a, a / LARGEST_RATIO), LARGEST_RATIO * a)
            new_s = max(new_a, min(max(full_s, s / LARGEST_RATIO), LARGEST_RATIO * s))
            flat = self.family.combined(flat, s / new_s, (new_a - a) / new_s)
            a, s = new_a, new_s
        return (best[1], *best[2]) if best is not None else None

    def _gain(self, flat: FloatArray) -> float:
        """Return the objective, which is zero for the old gating."""
        log_probs = self.family.log_probs(flat)
        value = self.reward - self.kl_weight * (log_probs - self.old_log_probs)
        return float(torch.linalg.vecdot(log_probs.exp(), value).mean())

    def refitted(self, max_iterations: int) -> tuple[FloatArray, float, float] | None:
        """Fit the family to the projected probabilities, and return parameters and multipliers like `solved`.

        With a = kl_weight + eta and s = a + omega, the projected probabilities are q(z|y) ~ exp{(a log q_old(z|y) +
        phi(y, z)) / s} (thesis 4.2.1). The probabilities are the weights of the components at each context.
        """
        dual = CategoricalDual(self.old_log_probs, self.reward, *self.bounds, self.kl_weight)
        multipliers = dual.multipliers(None)
        if multipliers is None:
            return None
        table = dual.log_probs(*multipliers).exp()

        def cross_entropy(log_probs: Tensor) -> tuple[float, Tensor]:
            value = -float(torch.linalg.vecdot(table, log_probs).mean())
            return value, (log_probs.exp() - table) / len(table)

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            return self.family.value_and_gradient(flat, cross_entropy)

        return (self._shortened(self._minimiser(objective, self.family.start, max_iterations)), *multipliers)

    def _multipliers(self, reward: Tensor, start: tuple[float, float] | None) -> tuple[float, float] | None:
        """Return the multipliers for a projection of the probabilities at each context."""
        return CategoricalDual(self.old_log_probs, reward, *self.bounds, self.kl_weight).multipliers(start)

    def _maximiser(self, a: float, s: float, start: FloatArray, max_iterations: int, unit: float) -> FloatArray:
        """Maximise the Lagrangian, divided by the expected gain `unit`, by L-BFGS."""
        unit = max(unit, 1e-300)
        entropy = (s - a) * float(mean_entropy(self.old_log_probs)) / unit
        fixed = torch.add(self.reward, self.old_log_probs, alpha=a).div_(unit)
        slope = s / unit

        def negative(flat: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self.family.lagrangian(flat, fixed, slope)
            return entropy - value, -gradient

        return self._minimiser(negative, start, max_iterations)

    def _minimiser(
        self, objective: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, max_iterations: int
    ) -> FloatArray:
        """Minimise an objective by L-BFGS. The objective maps parameters to its value and its gradient."""
        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self.family.limits(max(LARGEST_STEP, self.bounds[0])),
            options={"maxiter": max_iterations, "ftol": TOLERANCE, "gtol": SLOPE_TOLERANCE},
        )
        return np.asarray(result.x) if np.isfinite(result.x).all() else start

    def _shortened(self, flat: FloatArray) -> FloatArray:
        """Shorten the step until it satisfies both bounds. Return its end, or the start if no step is feasible."""
        (kl_bound, loss_bound), start = self.bounds, self.family.start
        old_entropy = float(mean_entropy(self.old_log_probs))
        fraction = 1.0
        for _ in range(MAX_SHORTENINGS):
            candidate = start + fraction * (flat - start)
            log_probs = self.family.log_probs(candidate)
            kl = float(mean_kl(log_probs, self.old_log_probs))
            loss = old_entropy - float(mean_entropy(log_probs))
            if kl <= kl_bound and loss <= loss_bound:
                return candidate
            by_kl = math.sqrt(kl_bound / kl) if kl > kl_bound else 1.0  # the KL is roughly quadratic in the fraction
            by_entropy = loss_bound / loss if loss > loss_bound else 1.0
            fraction *= max(0.1, 0.999 * min(by_kl, by_entropy))
        return start
