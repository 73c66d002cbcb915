"""Trust-region I-projection of a gating, within its own family (thesis 4.2.1, equation 4.3).

Over the parameters theta of the gating, with rewards phi(y, z),

    maximise E_y sum_z q(z|y) phi(y, z) - kl_weight E_y KL(q(z|y) || q_old(z|y))
    subject to E_y KL(q || q_old) <= kl_bound and E_y H(q) >= E_y H(q_old) - entropy_loss_bound.

The thesis projects the probabilities of each context on its own and then fits the gating to them by cross entropy.
Rewards from one sample per context are noisy, the softmax of a noisy reward is biased, and the trust region is spent on
noise that the fit averages away: the gating hardly moves. Here the Lagrangian, in which rewards enter linearly, is
maximised over theta itself by L-BFGS, so noise averages out and the bounds hold for the gating that is returned.
Without contexts both are the same, and `project_categorical` has the closed form.

L-BFGS follows the gradient in theta, which vanishes with a component's probability, so that one which has once lost its
weight hardly comes back, however great its reward. Where rewards are exact, that is a loss: then a linear gating can be
fitted in coordinates in which the Fisher matrix is about the identity (natural gradient). What such a component gains
is known at few contexts: its step is damped the more, the fewer it has, and bounded. Where the ratio is estimated, it
is least known where the model has no samples, and the plain gradient is the default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.distributions import NeuralGating, SoftmaxGating
from eim_ros.distributions.parts import Gating

__all__ = ["GatingUpdate", "project_gating"]

FloatArray = npt.NDArray[np.float64]

MAX_SOLVES = 10  # per multiplier
ENOUGH = 0.5  # share of a bound that counts as having used it
RIDGE = 0.01  # damping of the Fisher matrix, in units of a component's probability
SCARCITY = 3.0  # natural gradient: further damping per parameter and effective number of the component's contexts
LARGEST_STEP = 1.0  # [nat] of a component's logits in each direction, unless the bound of the KL is larger
LEAST_PROBABILITY = 1e-30  # where a component has less, it moves less
AIM = 0.87  # share of a bound that is tried for


@dataclass(frozen=True)
class GatingUpdate:
    """Result of the projection.

    Attributes
    ----------
    gating : Gating
        The old one if no step was feasible or the rewards are not finite.
    eta, omega : float
        Multipliers of the KL and of the entropy constraint.
    kl : float
        Mean KL(new || old) over the contexts [nat].
    entropy_change : float
        Mean H(new) - H(old) [nat].
    feasible : bool
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
    natural: bool = False,
    max_iterations: int = 15,
) -> GatingUpdate:
    """Improve a gating by rewards of its components.

    Parameters
    ----------
    old : Gating
    context : Tensor (n_contexts, n_context)
    reward : Tensor (n_contexts, n_components)
        phi(y, z) [nat], each of which may be a single noisy sample.
    kl_bound, entropy_loss_bound : float
        Largest mean KL and largest mean loss of entropy [nat].
    kl_weight : float
        Weight of the KL term of the objective, >= 0.
    natural : bool
        Whether a linear gating follows the natural gradient.
    max_iterations : int
        Of L-BFGS for one pair of multipliers.

    Returns
    -------
    GatingUpdate
    """
    unchanged = GatingUpdate(old, float("inf"), 0.0, 0.0, 0.0, False)
    if old.n_components == 1 or not bool(torch.isfinite(reward).all()):
        return unchanged
    family: _Family = (
        _Neural(old, context) if isinstance(old, NeuralGating) else _Linear(_linear(old), context, natural)
    )
    problem = _Problem.of(family, reward, kl_weight, max(LARGEST_STEP, kl_bound), max_iterations)
    eta, flat = _least_multiplier(
        lambda eta: problem.solve(eta, 0.0, problem.start), problem.kl, kl_bound, problem.likely_eta(kl_bound)
    )
    omega, loss = 0.0, -problem.entropy_change(flat)
    if loss > entropy_loss_bound:
        without = flat
        omega, flat = _least_multiplier(
            lambda omega: problem.solve(eta, omega, without),
            lambda flat: -problem.entropy_change(flat),
            entropy_loss_bound,
            0.5,
            value_at_zero=loss,
        )
    flat = problem.shortened(flat, kl_bound, entropy_loss_bound)
    gating = problem.family.build(flat)
    if not all(bool(torch.isfinite(value).all()) for value in gating.tensors().values()):
        return unchanged
    kl, change = problem.kl(flat), problem.entropy_change(flat)
    return GatingUpdate(gating, eta, omega, kl, change, bool((flat != problem.start).any()))


def _least_multiplier(
    solve: Callable[[float], FloatArray],
    measure: Callable[[FloatArray], float],
    bound: float,
    first: float,
    value_at_zero: float | None = None,
) -> tuple[float, FloatArray]:
    """Least multiplier >= 0 whose solution has measure <= bound, to within `ENOUGH`; the last one tried if none has.

    `first` is the first one tried. The measure at zero may be known, and then exceeds the bound.
    """
    tried = [] if value_at_zero is None else [(0.0, value_at_zero)]
    lower, upper, multiplier = None if value_at_zero is None else 0.0, float("inf"), max(first, 0.0)
    best: tuple[float, FloatArray] | None = None
    for _ in range(MAX_SOLVES):
        flat = solve(multiplier)
        value = measure(flat)
        tried.append((multiplier, value))
        if value <= bound:
            best, upper = (multiplier, flat), multiplier
            if multiplier == 0.0 or value >= ENOUGH * bound:
                break
        else:
            lower = multiplier
        multiplier = _next_multiplier(tried, AIM * bound)
        if lower is None and multiplier <= 0.0:
            multiplier = 0.0
        elif not (lower or 0.0) < multiplier < upper:
            least = 1.0 + (lower or 0.0)
            multiplier = 4.0 * least if upper == float("inf") else (least * (1.0 + upper)) ** 0.5 - 1.0
    return best if best is not None else (multiplier, flat)


def _next_multiplier(tried: list[tuple[float, float]], aim: float) -> float:
    """Where the measure should be `aim`: it is about a power of 1 + multiplier, of -2 until two values tell better."""
    multiplier, value = tried[-1]
    if aim <= 0.0 or value <= 0.0:
        return float("inf") if value > aim else 0.0
    power = 2.0
    if len(tried) > 1 and tried[-2][1] > 0.0:
        before, value_before = tried[-2]
        slope = math.log(value / value_before) / math.log((1.0 + before) / (1.0 + multiplier))
        power = min(max(slope, 0.3), 4.0)
    return float((1.0 + multiplier) * min(max(value / aim, 1e-4), 1e4) ** (1.0 / power) - 1.0)


class _Family(Protocol):
    """Gatings of one kind as functions of a flat vector."""

    @property
    def start(self) -> FloatArray: ...

    def log_probs(self, flat: FloatArray) -> Tensor:
        """At the contexts of the problem, (n_contexts, n_components)."""
        ...

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        """An objective of the log probabilities, given with its gradient in the logits."""
        ...

    def build(self, flat: FloatArray) -> Gating: ...

    def bounds(self, largest: float) -> FloatArray | None:
        """Least and largest parameters (n, 2): the logits of a component move by `largest` [nat] in a direction."""
        ...

    def natural_length(self, reward: Tensor) -> float:
        """g' F^-1 g at the start, g the gradient of the mean reward, F about the Fisher matrix; 0 where not known."""
        ...


class _Linear:
    """Softmax gatings in coordinates u: [V, v] = old [V, v] + L^-T u for each component, in standardised contexts.

    Natural: L L' is the component's block of the Fisher matrix at the old gating, damped. Otherwise L is the identity.
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
        self._natural = natural
        self._map, self._mass = self._metric()

    def bounds(self, largest: float) -> FloatArray | None:
        if not self._natural:
            return None
        reach = self._mass.sqrt().unsqueeze(-1).expand(self._origin.shape).reshape(-1).cpu().numpy()
        return largest * np.stack([-reach, reach], -1)

    def log_probs(self, flat: FloatArray) -> Tensor:
        return torch.log_softmax(self._design @ self._parameters(flat).T, -1)

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        value, in_logits = objective(self.log_probs(flat))
        gradient = in_logits.T @ self._design
        return value, (self._mapped(gradient) if self._natural else gradient).reshape(-1).cpu().numpy()

    def build(self, flat: FloatArray) -> SoftmaxGating:
        parameters = self._parameters(flat)
        weights = parameters[:, :-1] / self._scale
        biases = parameters[:, -1] - weights @ self._center
        return SoftmaxGating(weights - weights.mean(0), biases - biases.mean())

    def natural_length(self, reward: Tensor) -> float:
        probabilities = self.log_probs(self.start).exp().T / len(reward)
        return float(self._mapped((probabilities * reward.T) @ self._design).square().sum())

    def _metric(self) -> tuple[Tensor, Tensor]:
        """L^-T of each component, and its mean probability (n_components,)."""
        design = self._design
        probabilities = torch.softmax(design @ self._origin.T, -1).T / len(design)
        products = (design.unsqueeze(-1) * design.unsqueeze(-2)).flatten(1)
        blocks = (probabilities @ products).reshape(len(probabilities), *2 * (design.shape[1],))
        mass = probabilities.sum(-1).clamp_min(LEAST_PROBABILITY)
        ridge = RIDGE * mass
        if self._natural:
            n_effective = mass.square() / probabilities.square().sum(-1).clamp_min(LEAST_PROBABILITY**2)
            ridge = ridge + SCARCITY * design.shape[1] / n_effective * mass
        identity = torch.eye(design.shape[1], dtype=design.dtype, device=design.device)
        factor = torch.linalg.cholesky(blocks + ridge[:, None, None] * identity)
        return torch.linalg.solve_triangular(factor, identity.expand_as(blocks), upper=False).mT, mass

    def _mapped(self, gradient: Tensor) -> Tensor:
        """L^-1 times a gradient in [V, v], which is the gradient in u."""
        return (self._map.mT @ gradient.unsqueeze(-1)).squeeze(-1)

    def _parameters(self, flat: FloatArray) -> Tensor:
        """[V, v] in standardised contexts, (n_components, n_context + 1)."""
        moved = torch.as_tensor(flat, dtype=self._design.dtype, device=self._design.device).reshape(self._origin.shape)
        if self._natural:
            moved = (self._map @ moved.unsqueeze(-1)).squeeze(-1)
        return self._origin + moved


class _Neural:
    """Neural gatings; the standardisation of their inputs stays as it is."""

    def __init__(self, gating: NeuralGating, context: Tensor) -> None:
        self._fixed, self._context = gating.tensors(), context
        self._names = [name for name in self._fixed if name.startswith("layers.")]
        self.start = torch.cat([self._fixed[name].reshape(-1) for name in self._names]).cpu().numpy()

    def log_probs(self, flat: FloatArray) -> Tensor:
        return self.build(flat)(self._context)

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        leaves = {name: value.requires_grad_(True) for name, value in self._split(flat).items()}
        with torch.enable_grad():
            logits = NeuralGating.from_tensors({**self._fixed, **leaves}).network(self._context)[0]
        value, gradient = objective(torch.log_softmax(logits.detach(), -1))
        gradients = torch.autograd.grad(logits, list(leaves.values()), gradient)
        return value, torch.cat([part.reshape(-1) for part in gradients]).cpu().numpy()

    def build(self, flat: FloatArray) -> NeuralGating:
        return NeuralGating.from_tensors({**self._fixed, **self._split(flat)})

    def bounds(self, largest: float) -> FloatArray | None:
        return None

    def natural_length(self, reward: Tensor) -> float:
        return 0.0

    def _split(self, flat: FloatArray) -> dict[str, Tensor]:
        like = [self._fixed[name] for name in self._names]
        parts = torch.as_tensor(flat, dtype=like[0].dtype, device=like[0].device).split([v.numel() for v in like])
        return {n: p.reshape(v.shape).clone() for n, p, v in zip(self._names, parts, like, strict=True)}


@dataclass(frozen=True)
class _Problem:
    family: _Family
    old_log_probs: Tensor
    reward: Tensor
    kl_weight: float
    largest: float
    max_iterations: int

    @classmethod
    def of(cls, family: _Family, reward: Tensor, kl_weight: float, largest: float, max_iterations: int) -> _Problem:
        old_log_probs = family.log_probs(family.start)
        centred = reward - (old_log_probs.exp() * reward).sum(-1, keepdim=True)
        return cls(family, old_log_probs, centred, kl_weight, largest, max_iterations)

    @property
    def start(self) -> FloatArray:
        return self.family.start

    def solve(self, eta: float, omega: float, start: FloatArray) -> FloatArray:
        """Maximiser of the Lagrangian, in units in which it is of the order of one."""
        weight = self.kl_weight + eta
        unit = max(weight, float(self.reward.abs().mean()), 1e-300)
        fixed = torch.add(self.reward, self.old_log_probs, alpha=weight).div_(unit)
        slope = (weight + omega) / unit

        def negative(log_probs: Tensor) -> tuple[float, Tensor]:
            probabilities = log_probs.exp()
            value = torch.add(fixed, log_probs, alpha=-slope)
            mean = torch.linalg.vecdot(probabilities, value).unsqueeze(-1)
            return -float(mean.mean()), torch.sub(mean, value, out=value).mul_(probabilities).div_(len(value))

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            return self.family.value_and_gradient(flat, negative)

        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self.family.bounds(self.largest),
            options={"maxiter": self.max_iterations},
        )
        return np.asarray(result.x) if np.isfinite(result.x).all() else start

    def likely_eta(self, kl_bound: float) -> float:
        """Multiplier of a step of the natural gradient whose KL is the bound; 0 where nothing is known."""
        length = self.family.natural_length(self.reward)
        return (0.5 * length / kl_bound) ** 0.5 - self.kl_weight if kl_bound > 0.0 else 0.0

    def kl(self, flat: FloatArray) -> float:
        log_probs = self.family.log_probs(flat)
        return float((log_probs.exp() * (log_probs - self.old_log_probs)).sum(-1).mean())

    def entropy_change(self, flat: FloatArray) -> float:
        log_probs = self.family.log_probs(flat)
        old_entropy = -(self.old_log_probs.exp() * self.old_log_probs).sum(-1).mean()
        return float(-(log_probs.exp() * log_probs).sum(-1).mean() - old_entropy)

    def shortened(self, flat: FloatArray, kl_bound: float, entropy_loss_bound: float) -> FloatArray:
        """The farthest point tried on the way back to the start at which both bounds hold."""
        step, fraction = flat - self.start, 1.0
        for _ in range(20):
            candidate = self.start + fraction * step
            kl, loss = self.kl(candidate), -self.entropy_change(candidate)
            if kl <= kl_bound and loss <= entropy_loss_bound:
                return candidate
            by_kl = (kl_bound / kl) ** 0.5 if kl > kl_bound else 1.0  # the KL is about quadratic in the fraction
            by_entropy = entropy_loss_bound / loss if loss > entropy_loss_bound else 1.0
            fraction *= max(0.1, 0.95 * min(by_kl, by_entropy))
        return self.start


def _linear(gating: Gating) -> SoftmaxGating:
    if not isinstance(gating, SoftmaxGating):
        raise TypeError(f"no parameterisation of a {type(gating).__name__} is known")
    return gating
