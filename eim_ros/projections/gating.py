"""Softmax gating fitted to soft targets (the M-projection of a gating), and held inside a trust region.

The cross entropy -1/N sum_n sum_i t_ni log softmax(V y_n + v)_i is convex in (V, v); it is minimised by L-BFGS on
standardised contexts, warm-started. EM fits to responsibilities, EIM to the projected probabilities (thesis 4.2.1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.distributions.gating import SoftmaxGating

__all__ = ["constrain_gating", "fit_gating"]

FloatArray = npt.NDArray[np.float64]


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
    """
    center = context.mean(0)
    scale = (context - center).square().mean(0).sqrt()
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    standard = (context - center) / scale
    design = torch.cat([standard, standard.new_ones(len(standard), 1)], -1)
    weights = initial.weights * scale
    start = torch.cat([weights, (initial.biases + initial.weights @ center).unsqueeze(-1)], -1)
    moment = targets.T @ design / len(context)
    shape = start.shape

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        parameters = torch.as_tensor(flat, dtype=start.dtype, device=start.device).reshape(shape)
        logits = design @ parameters.T
        penalty = torch.cat([parameters[:, :-1], torch.zeros_like(parameters[:, -1:])], -1)
        normaliser = torch.logsumexp(logits, -1, keepdim=True)
        loss = normaliser.mean() - (moment * parameters).sum() + 0.5 * l2 * penalty.square().sum()
        gradient = (logits - normaliser).exp_().T @ design / len(context) - moment + l2 * penalty
        return float(loss), gradient.reshape(-1).cpu().numpy()

    result = minimize(
        objective, start.reshape(-1).cpu().numpy(), jac=True, method="L-BFGS-B", options={"maxiter": max_iterations}
    )
    if not np.isfinite(result.x).all():
        return initial
    fitted = torch.as_tensor(result.x, dtype=start.dtype, device=start.device).reshape(shape)
    raw = fitted[:, :-1] / scale
    biases = fitted[:, -1] - raw @ center
    return SoftmaxGating(raw - raw.mean(0), biases - biases.mean())


def constrain_gating(
    old: SoftmaxGating, new: SoftmaxGating, context: Tensor, kl_bound: float, *, max_cuts: int = 20
) -> tuple[SoftmaxGating, float]:
    """Shorten the step from old to new until the mean KL(new || old) over the contexts obeys the bound.

    The regression to projected probabilities is not exact, so the bound is checked on the parameters themselves.

    Returns
    -------
    gating : SoftmaxGating
        On the segment from old to new.
    kl : float
        Its mean KL to old [nat].
    """
    old_log_probs = old(context)
    fraction = 1.0
    for _ in range(max_cuts):
        weights = old.weights + fraction * (new.weights - old.weights)
        candidate = SoftmaxGating(weights, old.biases + fraction * (new.biases - old.biases))
        log_probs = candidate(context)
        kl = float((log_probs.exp() * (log_probs - old_log_probs)).sum(-1).mean())
        if kl <= kl_bound:
            return candidate, kl
        fraction *= max(0.1, 0.95 * (kl_bound / kl) ** 0.5)  # the KL is about quadratic in the fraction
    return old, 0.0
