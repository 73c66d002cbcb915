"""Gatings of one kind as functions of a flat vector, in which an optimiser moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.distributions import NeuralGating, SoftmaxGating
from eim_ros.distributions.parts import Gating

__all__ = ["FloatArray", "GatingFamily", "family_of"]

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
