"""Trust-region I-projection and weighted maximum likelihood of neural experts and gatings (thesis 4.2.3, A.4.3).

Each expert maximises E[phi] - tau KL(new || old), averaged over its contexts y_j (tau = 1 in the thesis). The
constraints are KL(new || old) <= kl_bound and H(new) >= H(old) - entropy_loss_bound. The new expert has no closed form.
Weighted samples x_jm of the old expert represent the new one. With a = eta + tau and s = a + omega:

    w_jm ~ exp{(phi(x_jm, y_j) - omega log q_old(x_jm|y_j))/s},    sum_m w_jm = 1 for each j,
    KL(new || old) = mean_j sum_m w_jm log(M w_jm),
    H(new)         = -KL(new || old) - mean_j sum_m w_jm log q_old(x_jm|y_j).

`weigh_samples` computes the weights, and `fit_neural_experts` refits the networks to the weighted samples. Because the
refit is not exact, `shorten_step` shortens the step of each expert until the new parameters satisfy the bounds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.learning.models.neural import BatchedNetwork, NeuralExperts, NeuralGating, forward, triangular
from eim_ros.learning.projections.categorical import decreasing_root, least_multipliers

SAFETY = 0.95  # the estimated feasible fraction is multiplied by this factor for safety
LEAST_CUT = 0.1  # minimum factor of one cut of a step
TOLERANCE = 1e-4  # relative width of the final bracket of a multiplier; its feasible end is returned
LEAST_MULTIPLIER = 1e-12  # minimum of a; needed only if the objective has no KL term


@dataclass(frozen=True)
class FitSettings:
    """Settings for fitting a network.

    Attributes
    ----------
    n_iterations : int
        Maximum number of L-BFGS iterations.
    l2 : float
        Factor of the sum of squared weights (without biases) that is added to the mean loss.

    Examples
    --------
    Fit a gating that chooses its first component far from 0. A linear gating cannot represent this function:

    >>> import torch
    >>> from eim_ros.learning.models import NeuralGating
    >>> from eim_ros.learning.projections import FitSettings, fit_neural_gating
    >>> context = torch.linspace(-1.0, 1.0, 100, dtype=torch.float64)[:, None]
    >>> far = (context.abs() > 0.5).double()
    >>> start = NeuralGating.uniform(context, 2, (8,), torch.Generator().manual_seed(0))
    >>> gating = fit_neural_gating(start, context, torch.cat([far, 1.0 - far], -1), FitSettings(100, l2=1e-5))
    >>> gating(torch.tensor([[-0.9], [0.0], [0.9]]).double()).argmax(-1).tolist()
    [0, 1, 0]
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

    The loss of an expert at a context is a function of the whitened residuals e of its linear base. The loss depends on
    the weighted samples only through their total weight, mean and covariance:

        -log N = log det T + 1/2 tr{T^-1 [cov(e) + (mean(e) - m)(mean(e) - m)'] T^-T}.

    Therefore, the cost of a step does not depend on the number of samples per context. L-BFGS is suitable because the
    new fit is close to the old fit. Adam would first make the fit worse, because the size of its first steps does not
    depend on the size of the gradient.

    Parameters
    ----------
    initial : NeuralExperts
        Start of the optimisation. Its linear base and its standardisation are kept.
    context : Tensor (n_components, n_contexts, n_context)
    sample : Tensor (n_components, n_contexts, n_samples, n_dims)
        Samples at each context.
    weights : Tensor (n_components, n_contexts, n_samples)
        Non-negative weights. Only their ratios within an expert matter.
    settings : FitSettings
    variance_floor : Tensor (n_dims,), optional
        Variance of noise that is added to every sample. This variance is a lower bound of the fitted variances.

    Returns
    -------
    NeuralExperts
        The new experts. The loss of no expert increases. An expert stays unchanged if it has no weight, or a sample
        that is not finite.
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
    """Refit a gating to soft targets by minimising the cross entropy -1/N sum_n sum_i t_ni log q(z_i|y_n).

    Contexts have the shape (n_samples, n_context). The targets (n_samples, n_components) are non-negative, and each row
    sums to 1.
    """

    def loss(outputs: Tensor, share: Tensor) -> Tensor:
        return -(share * torch.log_softmax(outputs, -1)).sum((-2, -1))

    usable = torch.isfinite(targets).all().reshape(1)
    share = torch.where(usable, targets / len(targets), 0.0)
    return NeuralGating(_fit(initial.network, context.unsqueeze(0), loss, (share,), usable, settings))


def _moments(experts: NeuralExperts, context: Tensor, sample: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the total weight (k, j) and the mean (k, j, d) of the whitened residuals, and a root of their covariance.

    The root has the shape (k, j, d, r).
    """
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
        columns = vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2)  # rounding can make values slightly negative
    return total, mean, columns


def _fit(
    network: BatchedNetwork,
    context: Tensor,
    loss: Callable[..., Tensor],
    data: tuple[Tensor, ...],
    usable: Tensor,
    settings: FitSettings,
) -> BatchedNetwork:
    """Minimise the regularised loss of each usable network (n_networks,). Keep old networks without improvement.

    `loss` maps the outputs and the data to values (n_networks,). The minimisation uses single precision, which is
    accurate enough and twice as fast. The losses of the start and of the result are compared in the precision of the
    start.
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


@dataclass(frozen=True)
class ShortenedStep:
    """Experts on the line segment between the old and the new parameters.

    Attributes
    ----------
    experts : NeuralExperts
    fraction : Tensor (n_components,)
        Fraction of the step that is taken. An expert with a fraction of 0 is unchanged.
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
    """Shorten the step of each expert from old to new until both bounds are satisfied.

    The bounds are checked for the parameters themselves. The KL of a refit to weighted samples may exceed the bound of
    the weights, because the refit is not exact.

    Parameters
    ----------
    old, new : NeuralExperts
        Both must have the same linear base, standardisation and layers.
    context : Tensor (n_components, n_contexts, n_context)
    kl_bound : float
        Maximum mean KL(result || old) [nat]. Infinity means no bound.
    entropy_loss_bound : float
        Maximum mean loss of entropy [nat]. Infinity means no bound.
    max_cuts : int
        Maximum number of attempts. An expert that exceeds a bound after all attempts stays unchanged.

    Examples
    --------
    Fit an expert to x = y^2, and shorten the step to satisfy a bound on the KL:

    >>> import torch
    >>> from eim_ros.learning.models import LinearExperts, NeuralExperts
    >>> from eim_ros.learning.projections import FitSettings, fit_neural_experts, shorten_step
    >>> context = torch.linspace(-1.0, 1.0, 50)[None, :, None]
    >>> line = LinearExperts(torch.zeros(1, 1, 1), torch.zeros(1, 1), torch.ones(1, 1, 1))
    >>> old = NeuralExperts.around(line, context[0], (8,), torch.Generator().manual_seed(0))
    >>> sample = context.square().unsqueeze(-1)
    >>> new = fit_neural_experts(old, context, sample, torch.ones_like(sample[..., 0]), FitSettings())
    >>> step = shorten_step(old, new, context, kl_bound=0.1, entropy_loss_bound=0.1)
    >>> bool(0.0 < step.fraction < 1.0), bool(step.kl <= 0.1)
    (True, True)
    """
    old_outputs = old.network(context)
    fraction = old_outputs.new_ones(old.n_components)
    accepted = torch.zeros_like(fraction, dtype=torch.bool)
    for _ in range(max_cuts):
        kl, change = _divergence(old_outputs, _between(old.network, new.network, fraction)(context), old.n_dims)
        accepted = accepted | ((kl <= kl_bound) & (change >= -entropy_loss_bound))
        if bool(accepted.all()):
            break
        # The KL is roughly quadratic in the fraction, and the entropy is roughly linear. A KL of NaN causes the
        # strongest cut.
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
    """Return the mean KL to the old experts and the mean change of entropy, (n_components,).

    Neither result depends on the linear base.
    """
    old_shift, old_factor = triangular(old_outputs, n_dims)
    shift, factor = triangular(outputs, n_dims)
    columns = torch.cat([factor, (shift - old_shift).unsqueeze(-1)], -1)
    whitened = torch.linalg.solve_triangular(old_factor, columns, upper=False)
    change = (outputs - old_outputs)[..., n_dims : 2 * n_dims].sum(-1)
    return (0.5 * (whitened.square().sum((-2, -1)) - n_dims) - change).mean(-1), change.mean(-1)


@dataclass(frozen=True)
class WeightedSamples:
    """Result of the projection, with one entry per expert.

    Attributes
    ----------
    weights : Tensor (n_components, n_contexts, n_samples)
        Weights of the samples. The weights sum to 1 at each context.
    eta, omega : Tensor (n_components,)
        Multipliers of the KL and of the entropy constraint, >= 0.
    kl : Tensor (n_components,)
        Mean KL(new || old) over the contexts, estimated from the samples [nat].
    entropy_change : Tensor (n_components,)
        Mean H(new) - H(old), estimated from the samples [nat].
    feasible : Tensor (n_components,) of bool
        False if no multipliers satisfy the bounds, for example because phi is not finite. The weights are equal in this
        case, and thus leave the expert unchanged.
    """

    weights: Tensor
    eta: Tensor
    omega: Tensor
    kl: Tensor
    entropy_change: Tensor
    feasible: Tensor


def weigh_samples(
    log_ratio: Tensor, old_log_prob: Tensor, kl_bound: float, entropy_loss_bound: float, *, kl_weight: float = 1.0
) -> WeightedSamples:
    """Compute the weights of samples drawn from the old experts, for all experts at once.

    Two nested root searches find the multipliers. For fixed a, the entropy rises with omega. With the least feasible
    omega, the KL falls as a rises. Normalisation of the weights at each context leaves p(y) unchanged.

    Parameters
    ----------
    log_ratio : Tensor (n_components, n_contexts, n_samples)
        phi of the samples [nat]; minus infinity excludes a sample.
    old_log_prob : Tensor (n_components, n_contexts, n_samples)
        log q_old(x|y, z) of the samples under their own expert [nat].
    kl_bound : float
        Maximum mean KL(new || old) [nat], > 0. Infinity means no bound.
    entropy_loss_bound : float
        Maximum loss of entropy [nat], >= 0. Infinity means no bound.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective, as in `project_experts`.

    Examples
    --------
    Samples with a larger log ratio get more weight:

    >>> import torch
    >>> from eim_ros.learning.projections import weigh_samples
    >>> sample = torch.randn(1, 1, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> weighted = weigh_samples(sample, -0.5 * sample.square(), kl_bound=0.1, entropy_loss_bound=torch.inf)
    >>> bool(weighted.kl <= 0.1001), bool((weighted.weights * sample).sum() > sample.mean())
    (True, True)
    """
    usable = (log_ratio < torch.inf).flatten(1).all(-1) & torch.isfinite(old_log_prob).flatten(1).all(-1)
    usable = usable & (log_ratio.amax(-1) > -torch.inf).all(-1)  # each context needs at least one sample
    mask = usable[:, None, None]
    dual = _Dual(
        torch.where(mask, log_ratio, torch.zeros_like(log_ratio)),
        torch.where(mask, old_log_prob, torch.zeros_like(old_log_prob)),
        entropy_loss_bound,
    )
    start = log_ratio.new_full(log_ratio.shape[:1], max(kl_weight, LEAST_MULTIPLIER))
    a, omega, found = least_multipliers(dual.kl, dual.omega, kl_bound, start, TOLERANCE)
    log_weights, kl = dual.log_weights(a, omega), dual.kl(a, omega)
    change = dual.entropy_change(a, omega)
    finite = torch.isfinite(log_weights.exp()).flatten(1).all(-1) & torch.isfinite(kl) & torch.isfinite(change)
    feasible = usable & found & finite
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
    """Weights of the samples and their moments, as functions of the multipliers (n_components,)."""

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
        """Return the least omega >= 0 that satisfies the entropy constraint."""

        def shortfall(omega: Tensor) -> Tensor:
            return -self.entropy_change(a, omega) - self.entropy_loss_bound

        return decreasing_root(shortfall, torch.zeros_like(a), relative_tolerance=TOLERANCE).upper

    def _kl(self, log_weights: Tensor) -> Tensor:
        n_samples = log_weights.shape[-1]
        kl: Tensor = (math.log(n_samples) - torch.special.entr(log_weights.exp()).sum(-1)).mean(-1)
        return kl
