"""Softmax gating fitted to soft targets (the M-projection of a gating), for EM.

The cross entropy -1/N sum_n sum_i t_ni log softmax(V y_n + v)_i is convex in (V, v) and depends on the targets by
their moments sum_n t_ni [y_n, 1] only. It is minimised by L-BFGS on standardised contexts, warm-started, in
coordinates in which the diagonal blocks of its Hessian are about the identity: components that are rarely chosen would
else move too slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.distributions.gating import SoftmaxGating

__all__ = ["GatingFit", "fit_gating", "fit_gating_to_moments"]

FloatArray = npt.NDArray[np.float64]

LEAST_LOG_WEIGHT = -700.0  # of a component without any mass: exp of it is still above zero in float64
LEAST_LOG_PROBABILITY = -300.0  # far below rounding; where exp underflows it is several times slower
CHUNK_ELEMENTS = 262_144  # probabilities at a time: they stay in cache


@dataclass(frozen=True)
class GatingFit:
    """Outcome of `fit_gating_to_moments`.

    Attributes
    ----------
    gating : SoftmaxGating
    log_normaliser : float
        Mean of log sum_i exp(V y + v)_i over the contexts, at the start of the optimisation [nat].
    """

    gating: SoftmaxGating
    log_normaliser: float


def fit_gating(
    initial: SoftmaxGating, context: Tensor, targets: Tensor, *, max_iterations: int = 50, l2: float = 1e-6
) -> SoftmaxGating:
    """Softmax regression to soft targets.

    Parameters
    ----------
    initial : SoftmaxGating
        Start of the optimisation; decides device and dtype.
    context : Tensor (n_samples, n_context)
    targets : Tensor (n_samples, n_components)
        Non-negative; each row sums to 1.
    max_iterations : int
        Of L-BFGS; a warm start needs few.
    l2 : float
        Weight of 1/2 |V|^2 in standardised coordinates; keeps separable targets from driving V to infinity.

    Returns
    -------
    SoftmaxGating
        Never of a greater cross entropy than the initial one. Without contexts it is the mean of the targets.
    """
    center = context.mean(0)
    scale = (context - center).square().mean(0).sqrt()
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    standard = (context - center) / scale
    design = _design(standard)
    products = (design.unsqueeze(-1) * design.unsqueeze(-2)).flatten(1)
    moments = (targets.T @ products).reshape(-1, *2 * (design.shape[1],))
    start = SoftmaxGating(initial.weights * scale, initial.biases + initial.weights @ center)
    fitted = fit_gating_to_moments(start, standard, moments, max_iterations=max_iterations, l2=l2).gating
    weights = fitted.weights / scale
    return SoftmaxGating(weights, fitted.biases - weights @ center)


def fit_gating_to_moments(
    initial: SoftmaxGating, context: Tensor, moments: Tensor, *, max_iterations: int = 50, l2: float = 1e-6
) -> GatingFit:
    """Softmax regression to targets of which only the moments are known.

    Parameters
    ----------
    initial : SoftmaxGating
    context : Tensor (n_samples, n_context)
        Standardised.
    moments : Tensor (n_components, n_context + 1, n_context + 1)
        sum_n t_n e_n e_n' with e = [y, 1]; the targets t of a context sum to 1.
    max_iterations, l2
        As in `fit_gating`.

    Returns
    -------
    GatingFit
        Its gating never has a greater cross entropy than the initial one.
    """
    share = moments[:, -1, -1] / moments[:, -1, -1].sum()
    if initial.n_context == 0:
        log_weights = share.log().clamp_min(LEAST_LOG_WEIGHT)
        normaliser = float(torch.logsumexp(initial.biases, 0))
        return GatingFit(SoftmaxGating(initial.weights, log_weights), normaliser)
    design = _design(context)
    first = moments[:, -1] / len(context)
    start = torch.cat([initial.weights, initial.biases.unsqueeze(-1)], -1)
    normaliser, expected = _normaliser_and_gradient(design, start)
    if initial.n_components == 1:
        return GatingFit(SoftmaxGating(torch.zeros_like(initial.weights), torch.zeros_like(initial.biases)), normaliser)
    # halfway between the Hessian's blocks if the targets were fitted and what the present probabilities make of them
    identity = torch.eye(design.shape[1], dtype=design.dtype, device=design.device)
    blocks = 0.5 * moments / len(context) + (0.5 * expected[:, -1].clamp_min(0.0) + l2)[:, None, None] * identity
    factor = torch.linalg.cholesky(blocks + 1e-9 * identity)

    def losses(parameters: Tensor) -> tuple[float, float, Tensor]:
        """Cross entropy, penalty, and the gradient of their sum."""
        log_normaliser, gradient = (
            (normaliser, expected) if parameters is start else _normaliser_and_gradient(design, parameters)
        )
        penalised = torch.cat([parameters[:, :-1], torch.zeros_like(parameters[:, -1:])], -1)
        penalty = 0.5 * l2 * float(penalised.square().sum())
        return log_normaliser - float((first * parameters).sum()), penalty, gradient - first + l2 * penalised

    fitted = _minimise(losses, start, factor, max_iterations)
    weights, biases = fitted[:, :-1], fitted[:, -1]
    return GatingFit(SoftmaxGating(weights - weights.mean(0), biases - biases.mean()), normaliser)


def _design(context: Tensor) -> Tensor:
    return torch.cat([context, context.new_ones(len(context), 1)], -1)


def _normaliser_and_gradient(design: Tensor, parameters: Tensor) -> tuple[float, Tensor]:
    """Mean log normaliser of the logits, and its gradient: the mean of p_i [y, 1], (n_components, n_context + 1)."""
    step = max(1, CHUNK_ELEMENTS // len(parameters))
    buffer = design.new_empty(min(step, len(design)), len(parameters))  # fresh memory each time would cost more
    total, gradient = design.new_zeros(()), torch.zeros_like(parameters.T, memory_format=torch.contiguous_format)
    for rows in design.split(step):
        logits = torch.mm(rows, parameters.T, out=buffer[: len(rows)])
        largest = logits.amax(-1, keepdim=True)
        probabilities = logits.sub_(largest).clamp_min_(LEAST_LOG_PROBABILITY).exp_()
        sums = probabilities.sum(-1, keepdim=True)
        total += (largest + sums.log()).sum()
        gradient.addmm_((rows / sums).T, probabilities)
    return float(total) / len(design), gradient.T / len(design)


def _minimise(
    losses: Callable[[Tensor], tuple[float, float, Tensor]], start: Tensor, factor: Tensor, max_iterations: int
) -> Tensor:
    """Parameters after so many steps of L-BFGS in the coordinates factor' parameters; the start if it was better."""
    lowest, _, _ = losses(start)
    seen: dict[bytes, float] = {}

    def parameters_at(flat: FloatArray) -> Tensor:
        step = torch.as_tensor(flat, dtype=start.dtype, device=start.device).reshape(start.shape)
        if not bool(step.any()):
            return start
        moved: Tensor = torch.linalg.solve_triangular(factor.mT, step.unsqueeze(-1), upper=True)
        return start + moved.squeeze(-1)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        cross_entropy, penalty, gradient = losses(parameters_at(flat))
        seen[flat.tobytes()] = cross_entropy
        scaled = torch.linalg.solve_triangular(factor, gradient.unsqueeze(-1), upper=False)
        return cross_entropy + penalty, scaled.reshape(-1).to(torch.float64).cpu().numpy()

    result: Any = minimize(
        objective,
        np.zeros(start.numel()),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "gtol": 1e-7, "ftol": 1e-12},
    )
    reached = seen.get(result.x.tobytes(), float("nan"))
    return parameters_at(result.x) if np.isfinite(result.x).all() and reached <= lowest else start
