"""Weighted maximum likelihood of neural experts and of a neural gating (the M-projection), by L-BFGS (thesis 4.2.3).

In the whitened residuals e of its linear base, an expert's loss at a context depends on the weighted samples by their
total weight, mean and covariance alone,

    -log N = log det T + 1/2 tr{T^-1 [cov(e) + (mean(e) - m)(mean(e) - m)'] T^-T},

so a step costs the same for any number of samples per context. All experts are fitted at once. A step of EIM is small
and is fitted to all its contexts: L-BFGS finds it where Adam, whose first steps do not depend on the gradient's size,
first has to make good what it spoiled. A fit never returns a worse loss than it was given.

Steps of neural experts held inside their trust region: the bounds are checked on the parameters themselves.

A refit to weighted samples is not exact, so its KL may exceed what the weights were chosen for. The step is then
shortened along the segment from the old parameters to the new ones, each expert by its own fraction.

Trust-region I-projection by weights of samples, for experts without a closed form (thesis 4.2.3, A.4.3).

Each expert maximises E[phi] - tau KL(new || old) subject to KL(new || old) <= kl_bound and H(new) >= H(old) -
entropy_loss_bound, means over its contexts y_j (tau = 1 in the thesis). With samples x_jm of the old expert at y_j,
a = eta + tau and s = a + omega, the new one is the old one's samples with weights

    w_jm ~ exp{(phi(x_jm, y_j) - omega log q_old(x_jm|y_j))/s},    sum_m w_jm = 1 for each j,
    KL(new || old) = mean_j sum_m w_jm log(M w_jm),
    H(new)         = -KL(new || old) - mean_j sum_m w_jm log q_old(x_jm|y_j).

For a fixed a the entropy rises with omega, and with the least feasible omega the KL falls with a: two nested monotone
root-finds, as in `categorical_dual`. The sum over a context's weights is what keeps p(y) as it is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.learning.models.neural import BatchedNetwork, NeuralExperts, NeuralGating, forward, triangular
from eim_ros.learning.projections.categorical import decreasing_root

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


SAFETY = 0.95
LEAST_CUT = 0.1


@dataclass(frozen=True)
class ShortenedStep:
    """Experts on the segment from the old to the new ones.

    Attributes
    ----------
    experts : NeuralExperts
    fraction : Tensor (n_components,)
        Of the step that was taken; 0 leaves an expert as it was.
    kl : Tensor (n_components,)
        Mean KL to the old experts over the contexts [nat].
    entropy_change : Tensor (n_components,)
        Mean H - H_old [nat].
    """

    experts: NeuralExperts
    fraction: Tensor
    kl: Tensor
    entropy_change: Tensor


def shorten_step(
    old: NeuralExperts,
    new: NeuralExperts,
    context: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    max_cuts: int = 20,
) -> ShortenedStep:
    """Longest tried part of the step from old to new that obeys both bounds, for each expert.

    Parameters
    ----------
    old, new : NeuralExperts
        Of the same linear base, standardisation and layers.
    context : Tensor (n_components, n_contexts, n_context)
    kl_bound : float
        Largest mean KL(result || old) [nat]; infinite for none.
    entropy_loss_bound : float
        Largest mean loss of entropy [nat]; infinite for none.
    max_cuts : int
        Tries; an expert that still exceeds a bound is left as it was.
    """
    old_outputs = old.network(context)
    fraction = old_outputs.new_ones(old.n_components)
    accepted = torch.zeros_like(fraction, dtype=torch.bool)
    for _ in range(max_cuts):
        kl, change = _divergence(old_outputs, _between(old.network, new.network, fraction)(context), old.n_dims)
        accepted = accepted | ((kl <= kl_bound) & (change >= -entropy_loss_bound))
        if bool(accepted.all()):
            break
        # the KL is about quadratic in the fraction, the entropy about linear; NaN cuts most
        cut = torch.minimum((kl_bound / kl).sqrt(), torch.where(change < 0.0, -entropy_loss_bound / change, torch.inf))
        cut = torch.where(cut >= LEAST_CUT, (SAFETY * cut).clamp_max(SAFETY), torch.full_like(cut, LEAST_CUT))
        fraction = torch.where(accepted, fraction, fraction * cut)
    fraction = torch.where(accepted, fraction, torch.zeros_like(fraction))
    network = _between(old.network, new.network, fraction)
    kl, change = _divergence(old_outputs, network(context), old.n_dims)
    return ShortenedStep(NeuralExperts(old.base, network), fraction, kl, change)


def _between(old: BatchedNetwork, new: BatchedNetwork, fraction: Tensor) -> BatchedNetwork:
    def mixed(first: Tensor, second: Tensor) -> Tensor:
        part = fraction.reshape(-1, *[1] * (first.dim() - 1))
        inside = first + part * (second - first)
        return torch.where(part == 0.0, first, torch.where(part == 1.0, second, inside))

    return dataclasses.replace(
        old,
        weights=tuple(mixed(a, b) for a, b in zip(old.weights, new.weights, strict=True)),
        biases=tuple(mixed(a, b) for a, b in zip(old.biases, new.biases, strict=True)),
    )


def _divergence(old_outputs: Tensor, outputs: Tensor, n_dims: int) -> tuple[Tensor, Tensor]:
    """Mean KL to the old experts and mean change of entropy, (n_components,); both do not depend on the base."""
    old_shift, old_factor = triangular(old_outputs, n_dims)
    shift, factor = triangular(outputs, n_dims)
    columns = torch.cat([factor, (shift - old_shift).unsqueeze(-1)], -1)
    whitened = torch.linalg.solve_triangular(old_factor, columns, upper=False)
    change = (outputs - old_outputs)[..., n_dims : 2 * n_dims].sum(-1)
    return (0.5 * (whitened.square().sum((-2, -1)) - n_dims) - change).mean(-1), change.mean(-1)


TOLERANCE = 1e-4  # relative width of the bracket of a multiplier; the feasible end is returned
LEAST_MULTIPLIER = 1e-12  # of a, where no KL term holds it up


@dataclass(frozen=True)
class WeightedSamples:
    """Result of the projection, one entry per expert.

    Attributes
    ----------
    weights : Tensor (n_components, n_contexts, n_samples)
        Sum to 1 over the samples of a context.
    eta, omega : Tensor (n_components,)
        Multipliers of the KL and of the entropy constraint, >= 0.
    kl : Tensor (n_components,)
        Mean KL(new || old) over the contexts, estimated from the samples [nat].
    entropy_change : Tensor (n_components,)
        Mean H(new) - H(old), estimated likewise [nat].
    feasible : Tensor (n_components,) of bool
        False where no multiplier met the bounds (phi not finite); weights then are equal, which changes nothing.
    """

    weights: Tensor
    eta: Tensor
    omega: Tensor
    kl: Tensor
    entropy_change: Tensor
    feasible: Tensor


def weigh_samples(
    log_ratio: Tensor,
    old_log_prob: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
) -> WeightedSamples:
    """Weights of samples drawn from the old experts, all experts at once.

    Parameters
    ----------
    log_ratio : Tensor (n_components, n_contexts, n_samples)
        phi of the samples [nat]; minus infinity rules a sample out.
    old_log_prob : Tensor (n_components, n_contexts, n_samples)
        log q_old(x|y, z) of the samples under their own expert [nat].
    kl_bound : float
        Largest mean KL(new || old) [nat], > 0; infinite for none.
    entropy_loss_bound : float
        Largest loss of entropy [nat], >= 0; infinite for none.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective, as in `project_experts`.
    """
    usable = (log_ratio < torch.inf).flatten(1).all(-1) & torch.isfinite(old_log_prob).flatten(1).all(-1)
    usable = usable & (log_ratio.amax(-1) > -torch.inf).all(-1)  # else some context has no sample left
    mask = usable[:, None, None]
    dual = _Dual(
        torch.where(mask, log_ratio, torch.zeros_like(log_ratio)),
        torch.where(mask, old_log_prob, torch.zeros_like(old_log_prob)),
        entropy_loss_bound,
    )
    start = log_ratio.new_full(log_ratio.shape[:1], max(kl_weight, LEAST_MULTIPLIER))
    bracket = decreasing_root(lambda a: dual.kl(a, dual.omega(a)) - kl_bound, start, relative_tolerance=TOLERANCE)
    a = bracket.upper
    omega = dual.omega(a)
    log_weights, kl = dual.log_weights(a, omega), dual.kl(a, omega)
    change = dual.entropy_change(a, omega)
    finite = torch.isfinite(log_weights.exp()).flatten(1).all(-1) & torch.isfinite(kl) & torch.isfinite(change)
    feasible = usable & bracket.found & finite
    equal = torch.full_like(log_weights, 1.0 / log_weights.shape[-1])
    zero = torch.zeros_like(kl)
    return WeightedSamples(
        torch.where(feasible[:, None, None], log_weights.exp(), equal),
        a - start,
        omega,
        torch.where(feasible, kl, zero),
        torch.where(feasible, change, zero),
        feasible,
    )


@dataclass(frozen=True)
class _Dual:
    """Weights and their moments as functions of the multipliers (n_components,)."""

    log_ratio: Tensor
    old_log_prob: Tensor
    entropy_loss_bound: float

    def log_weights(self, a: Tensor, omega: Tensor) -> Tensor:
        a, omega = a[:, None, None], omega[:, None, None]
        return torch.log_softmax((self.log_ratio - omega * self.old_log_prob) / (a + omega), -1)

    def kl(self, a: Tensor, omega: Tensor) -> Tensor:
        return self._kl(self.log_weights(a, omega))

    def entropy_change(self, a: Tensor, omega: Tensor) -> Tensor:
        log_weights = self.log_weights(a, omega)
        moved = ((log_weights.exp() - 1.0 / log_weights.shape[-1]) * self.old_log_prob).sum(-1).mean(-1)
        return -self._kl(log_weights) - moved

    def omega(self, a: Tensor) -> Tensor:
        """Least omega >= 0 at which the entropy constraint holds."""

        def shortfall(omega: Tensor) -> Tensor:
            return -self.entropy_change(a, omega) - self.entropy_loss_bound

        return decreasing_root(shortfall, torch.zeros_like(a), relative_tolerance=TOLERANCE).upper

    def _kl(self, log_weights: Tensor) -> Tensor:
        n_samples = log_weights.shape[-1]
        kl: Tensor = (math.log(n_samples) - torch.special.entr(log_weights.exp()).sum(-1)).mean(-1)
        return kl
