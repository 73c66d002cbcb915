"""Gatings of one kind as functions of a flat vector, in which an optimiser moves them.

Trust-region I-projection of a gating, within its own family (thesis 4.2.1, equation 4.3).

Over the parameters theta of the gating, with rewards phi(y, z),

    maximise E_y sum_z q(z|y) phi(y, z) - kl_weight E_y KL(q(z|y) || q_old(z|y))
    subject to E_y KL(q || q_old) <= kl_bound and E_y H(q) >= E_y H(q_old) - entropy_loss_bound.

The thesis projects the probabilities of each context on its own and then fits the gating to them by cross entropy.
Rewards from one sample per context are noisy, the softmax of a noisy reward is biased, and the trust region is spent on
noise that the fit averages away: the gating hardly moves. Here the Lagrangian, in which rewards enter linearly, is
maximised over theta itself by L-BFGS, so noise averages out and the bounds hold for the gating that is returned.

Its multipliers come from what it has found. With a = kl_weight + eta and s = a + omega its maximiser satisfies

    s log q = a log q_old + rho(y, z) + const(y),

where rho is what the family can represent of the rewards, hardly dependent on a and s. So a maximiser for wrong
multipliers tells rho; the projection of probabilities with rho for rewards (`categorical`) tells the right ones, both
of them at once, and a linear gating then moves there exactly: its logits are a sum of the old ones and of rho. A few
turns settle it. Without contexts the first one does, and `project_categorical` has the closed form.

The search starts from rho = 0, that is from (a/s) log q_old, and not from q_old: what L-BFGS does not move counts as
rho, and a component without weight would be punished for the bound on the entropy, more so in each update.

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

from eim_ros.learning.models.linear import SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import Gating
from eim_ros.learning.models.neural import NeuralGating
from eim_ros.learning.projections.categorical import LEAST_WEIGHT, CategoricalDual, mean_entropy, mean_kl

FloatArray = npt.NDArray[np.float64]

RIDGE = 0.01  # damping of the Fisher matrix, in units of a component's probability
SCARCITY = 3.0  # natural gradient: further damping per parameter and effective number of the component's contexts
LEAST_PROBABILITY = 1e-30  # where a component has less, it moves less


class GatingFamily(Protocol):
    """What the projection needs to know of a kind of gating, at the contexts of the problem."""

    @property
    def start(self) -> FloatArray:
        """The old gating."""
        ...

    def log_probs(self, flat: FloatArray) -> Tensor:
        """Log probabilities at the contexts, (n_contexts, n_components)."""
        ...

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        """An objective of the log probabilities, given with its gradient in the logits."""
        ...

    def build(self, flat: FloatArray) -> Gating: ...

    def combined(self, flat: FloatArray, share: float, old_share: float) -> FloatArray:
        """Parameters whose logits are `share` times those of `flat` plus `old_share` times the old ones.

        Where the logits are not linear in the parameters: `flat`.
        """
        ...

    def limits(self, largest: float) -> FloatArray | None:
        """Least and largest parameters (n, 2): the logits of a component move by `largest` [nat] in a direction."""
        ...


def family_of(gating: Gating, context: Tensor, *, natural: bool) -> GatingFamily:
    """The family of a gating; `natural` is for linear ones, see `project_gating`."""
    if isinstance(gating, NeuralGating):
        return _Neural(gating, context)
    if isinstance(gating, SoftmaxGating):
        return _Linear(gating, context, natural)
    raise TypeError(f"no parameterisation of a {type(gating).__name__} is known")


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
        self._factor: Tensor | None = None
        self._mass: Tensor | None = None
        if natural:
            self._factor, self._mass = self._metric()

    def limits(self, largest: float) -> FloatArray | None:
        if self._mass is None:
            return None
        reach = self._mass.sqrt().unsqueeze(-1).expand(self._origin.shape).reshape(-1).cpu().numpy()
        return largest * np.stack([-reach, reach], -1)

    def log_probs(self, flat: FloatArray) -> Tensor:
        return torch.log_softmax(self._design @ self._parameters(flat).T, -1)

    def value_and_gradient(
        self, flat: FloatArray, objective: Callable[[Tensor], tuple[float, Tensor]]
    ) -> tuple[float, FloatArray]:
        value, in_logits = objective(self.log_probs(flat))
        gradient = (in_logits.T @ self._design).unsqueeze(-1)
        if self._factor is not None:
            gradient = torch.linalg.solve_triangular(self._factor, gradient, upper=False)
        return value, gradient.reshape(-1).cpu().numpy()

    def build(self, flat: FloatArray) -> SoftmaxGating:
        parameters = self._parameters(flat)
        weights = parameters[:, :-1] / self._scale
        biases = parameters[:, -1] - weights @ self._center
        return SoftmaxGating(weights - weights.mean(0), biases - biases.mean())

    def combined(self, flat: FloatArray, share: float, old_share: float) -> FloatArray:
        origin = self._origin.unsqueeze(-1)
        if self._factor is not None:
            origin = self._factor.mT @ origin
        moved: FloatArray = share * flat + (share + old_share - 1.0) * origin.reshape(-1).cpu().numpy()
        return moved

    def _metric(self) -> tuple[Tensor, Tensor]:
        """L of each component, and its mean probability (n_components,)."""
        design = self._design
        probabilities = torch.softmax(design @ self._origin.T, -1).T / len(design)
        products = (design.unsqueeze(-1) * design.unsqueeze(-2)).flatten(1)
        blocks = (probabilities @ products).reshape(len(probabilities), *2 * (design.shape[1],))
        mass = probabilities.sum(-1).clamp_min(LEAST_PROBABILITY)
        n_effective = mass.square() / probabilities.square().sum(-1).clamp_min(LEAST_PROBABILITY**2)
        ridge = (RIDGE + SCARCITY * design.shape[1] / n_effective) * mass
        identity = torch.eye(design.shape[1], dtype=design.dtype, device=design.device)
        return torch.linalg.cholesky(blocks + ridge[:, None, None] * identity), mass

    def _parameters(self, flat: FloatArray) -> Tensor:
        """[V, v] in standardised contexts, (n_components, n_context + 1)."""
        moved = torch.as_tensor(flat, dtype=self._design.dtype, device=self._design.device).reshape(self._origin.shape)
        if self._factor is not None:
            moved = torch.linalg.solve_triangular(self._factor.mT, moved.unsqueeze(-1), upper=True).squeeze(-1)
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

    def combined(self, flat: FloatArray, share: float, old_share: float) -> FloatArray:
        return flat

    def limits(self, largest: float) -> FloatArray | None:
        return None

    def _split(self, flat: FloatArray) -> dict[str, Tensor]:
        like = [self._fixed[name] for name in self._names]
        parts = torch.as_tensor(flat, dtype=like[0].dtype, device=like[0].device).split([v.numel() for v in like])
        return {n: p.reshape(v.shape).clone() for n, p, v in zip(self._names, parts, like, strict=True)}


MAX_TURNS = 8
SETTLED = 0.01  # relative change of the multipliers in a turn that counts as none
LARGEST_STEP = 1.0  # natural gradient: [nat] of a component's logits in each direction; the KL's bound if larger
MAX_SHORTENINGS = 20


@dataclass(frozen=True)
class GatingUpdate:
    """Result of the projection.

    Attributes
    ----------
    gating : Gating
        The old one if no step was feasible or the rewards are not finite.
    eta, omega : float
        Multipliers of the KL and of the entropy constraint: where one is above zero, its bound is met (by a linear
        gating to a few millionths, by a neural one about).
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
    family = family_of(old, context, natural=natural)
    problem = _Problem.of(family, reward, kl_bound, entropy_loss_bound, kl_weight)
    solved = problem.solved(max_iterations) if kl_bound > 0.0 else None
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
    reward: Tensor  # centred
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
        """Parameters at which both bounds hold, with their multipliers; None if no multipliers were found."""
        multipliers = self._multipliers(self.reward, None)
        if multipliers is None:
            return None
        a = self.kl_weight + multipliers[0]
        flat = self.family.combined(self.family.start, a / (a + multipliers[1]), 0.0)  # rho = 0
        for _ in range(MAX_TURNS):
            a = self.kl_weight + multipliers[0]
            s = a + multipliers[1]
            flat = self._maximiser(*multipliers, flat, max_iterations)
            represented = s * self.family.log_probs(flat) - a * self.old_log_probs
            multipliers = self._multipliers(represented, multipliers)
            if multipliers is None:
                break
            new_a = self.kl_weight + multipliers[0]
            new_s = new_a + multipliers[1]
            flat = self.family.combined(flat, s / new_s, (new_a - a) / new_s)
            if abs(new_a - a) <= SETTLED * a and abs(new_s - s) <= SETTLED * s:
                break
        return (self._shortened(flat), *multipliers) if multipliers is not None else None

    def _multipliers(self, reward: Tensor, start: tuple[float, float] | None) -> tuple[float, float] | None:
        """Of the projection of the probabilities themselves."""
        return CategoricalDual(self.old_log_probs, reward, *self.bounds, self.kl_weight).multipliers(start)

    def _maximiser(self, eta: float, omega: float, start: FloatArray, max_iterations: int) -> FloatArray:
        """Of the Lagrangian, in units in which it is of the order of one."""
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
            bounds=self.family.limits(max(LARGEST_STEP, self.bounds[0])),
            options={"maxiter": max_iterations},
        )
        return np.asarray(result.x) if np.isfinite(result.x).all() else start

    def _shortened(self, flat: FloatArray) -> FloatArray:
        """The farthest point tried on the way back to the start at which both bounds hold."""
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
            by_kl = math.sqrt(kl_bound / kl) if kl > kl_bound else 1.0  # the KL is about quadratic in the fraction
            by_entropy = loss_bound / loss if loss > loss_bound else 1.0
            fraction *= max(0.1, 0.999 * min(by_kl, by_entropy))
        return start
