"""Weighted maximum likelihood of neural experts and of a neural gating (the M-projection), by L-BFGS (thesis 4.2.3).

In the whitened residuals e of its linear base, an expert's loss at a context depends on the weighted samples by their
total weight, mean and covariance alone,

    -log N = log det T + 1/2 tr{T^-1 [cov(e) + (mean(e) - m)(mean(e) - m)'] T^-T},

so a step costs the same for any number of samples per context. All experts are fitted at once. A step of EIM is small
and is fitted to all its contexts: L-BFGS finds it where Adam, whose first steps do not depend on the gradient's size,
first has to make good what it spoiled. A fit never returns a worse loss than it was given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.distributions.batched_network import BatchedNetwork, forward
from eim_ros.distributions.neural_experts import NeuralExperts, triangular
from eim_ros.distributions.neural_gating import NeuralGating

__all__ = ["FitSettings", "fit_neural_experts", "fit_neural_gating"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FitSettings:
    """How a network is fitted.

    Attributes
    ----------
    n_iterations : int
        Of L-BFGS.
    l2 : float
        Weight of the sum of squared weights (not biases) beside the mean loss.
    """

    n_iterations: int = 30
    l2: float = 1e-3


def fit_neural_experts(
    initial: NeuralExperts,
    context: Tensor,
    sample: Tensor,
    weights: Tensor,
    settings: FitSettings,
    *,
    variance_floor: Tensor | None = None,
) -> NeuralExperts:
    """Refit all experts to weighted samples.

    Parameters
    ----------
    initial : NeuralExperts
        Start; its linear base and its standardisation are kept.
    context : Tensor (n_components, n_contexts, n_context)
    sample : Tensor (n_components, n_contexts, n_samples, n_dims)
        Samples at each context.
    weights : Tensor (n_components, n_contexts, n_samples)
        Non-negative; only their ratios within an expert matter.
    settings : FitSettings
    variance_floor : Tensor (n_dims,), optional
        Variance of noise that every sample is taken to have on top: no fitted variance falls below it.

    Returns
    -------
    NeuralExperts
        An expert without any weight, or with a sample that is not finite, is unchanged.
    """
    total, mean, root = _moments(initial, context, sample, weights)
    if variance_floor is not None:
        noise = torch.linalg.solve_triangular(initial.base.scale_trils, torch.diag(variance_floor.sqrt()), upper=False)
        root = torch.cat([root, noise.unsqueeze(1).expand(*root.shape[:-1], -1)], -1)
    count = total.sum(-1)
    usable = (count > 0.0) & torch.isfinite(mean).flatten(1).all(-1) & torch.isfinite(root).flatten(1).all(-1)
    share = torch.where(usable[:, None], total / count.clamp_min(torch.finfo(total.dtype).tiny)[:, None], 0.0)
    mean = torch.where(usable[:, None, None], mean, 0.0)
    root, n_dims = torch.where(usable[:, None, None, None], root, 0.0), initial.n_dims

    def loss(outputs: Tensor, share: Tensor, mean: Tensor, root: Tensor) -> Tensor:
        shift, factor = triangular(outputs, n_dims)
        residual = torch.cat([(mean - shift).unsqueeze(-1), root], -1)
        whitened = torch.linalg.solve_triangular(factor, residual, upper=False) if n_dims > 1 else residual / factor
        log_det = outputs[..., n_dims : 2 * n_dims].sum(-1)
        return (share * (log_det + 0.5 * whitened.square().sum((-2, -1)))).sum(-1)

    return NeuralExperts(initial.base, _fit(initial.network, context, loss, (share, mean, root), usable, settings))


def fit_neural_gating(initial: NeuralGating, context: Tensor, targets: Tensor, settings: FitSettings) -> NeuralGating:
    """Refit a gating to soft targets: least cross entropy -1/N sum_n sum_i t_ni log q(z_i|y_n).

    Parameters
    ----------
    initial : NeuralGating
    context : Tensor (n_samples, n_context)
    targets : Tensor (n_samples, n_components)
        Non-negative; each row sums to 1.
    settings : FitSettings
    """

    def loss(outputs: Tensor, share: Tensor) -> Tensor:
        return -(share * torch.log_softmax(outputs, -1)).sum((-2, -1))

    usable = torch.isfinite(targets).all().reshape(1)
    share = torch.where(usable, targets / len(targets), 0.0)
    return NeuralGating(_fit(initial.network, context.unsqueeze(0), loss, (share,), usable, settings))


def _moments(experts: NeuralExperts, context: Tensor, sample: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Total weight (k, j), mean (k, j, d) and a root (k, j, d, r) of the covariance, in whitened residuals."""
    base = experts.base
    center = context @ base.weights.mT + base.biases.unsqueeze(1)
    centered = (sample - center.unsqueeze(2)).flatten(1, 2).mT
    residual = torch.linalg.solve_triangular(base.scale_trils, centered, upper=False).mT.reshape(sample.shape)
    total = weights.sum(-1)
    share = (weights / torch.where(total > 0.0, total, torch.ones_like(total)).unsqueeze(-1)).unsqueeze(-1)
    mean = (share * residual).sum(2)
    columns = (share.sqrt() * (residual - mean.unsqueeze(2))).mT
    if sample.shape[2] > experts.n_dims:
        values, vectors = torch.linalg.eigh(columns @ columns.mT)
        columns = vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)  # rounding leaves values of -1e-17
    return total, mean, columns


def _fit(
    network: BatchedNetwork,
    context: Tensor,
    loss: Callable[..., Tensor],
    data: tuple[Tensor, ...],
    usable: Tensor,
    settings: FitSettings,
) -> BatchedNetwork:
    """Parameters of less regularised loss than the start's, for each network (n_networks,) that is usable.

    The loss (n_networks,) is a function of the outputs and the data. It is minimised in single precision, twice as fast
    and exact enough for a direction, and judged in the precision of the start.
    """
    inputs, start = (context - network.center) / network.scale, (*network.weights, *network.biases)
    n_layers, sizes = len(network.weights), [value.numel() for value in start]

    def losses(values: Sequence[Tensor]) -> Tensor:
        dtype = values[0].dtype
        outputs = forward(values[:n_layers], values[n_layers:], inputs.to(dtype))
        penalty = sum((weight.square().sum((-2, -1)) for weight in values[:n_layers]), outputs.new_zeros(()))
        return loss(outputs, *(value.to(dtype) for value in data)) + settings.l2 * penalty

    def parts(flat: FloatArray, dtype: torch.dtype) -> list[Tensor]:
        vector = torch.as_tensor(flat, dtype=dtype, device=inputs.device)
        return [v.reshape(like.shape) for v, like in zip(vector.split(sizes), start, strict=True)]

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        leaves = [value.requires_grad_(True) for value in parts(flat, torch.float32)]
        with torch.enable_grad():
            total = torch.where(usable, losses(leaves), 0.0).sum(dtype=torch.float64)
        gradients = torch.autograd.grad(total, leaves)
        return float(total.detach()), torch.cat([g.reshape(-1) for g in gradients]).double().cpu().numpy()

    begin = torch.cat([value.detach().reshape(-1) for value in start]).double().cpu().numpy()
    options = {"maxiter": settings.n_iterations, "ftol": 1e-9, "gtol": 1e-7}
    found = parts(minimize(objective, begin, jac=True, method="L-BFGS-B", options=options).x, inputs.dtype)
    better = usable & (losses(found) < losses(start))
    chosen = [
        torch.where(better.reshape(-1, *[1] * (old.dim() - 1)), new, old) for new, old in zip(found, start, strict=True)
    ]
    return dataclasses.replace(network, weights=tuple(chosen[:n_layers]), biases=tuple(chosen[n_layers:]))
