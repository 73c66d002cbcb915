"""Closed-form facts about I- and M-projections, next to the results of the package's learners.

`IProjection` and `m_projection` project onto a univariate Gaussian. `EIM` computes the I-projection, argmin_q KL(q ||
p), which depends on the start. `fit_experts`, the M-step of EM, computes the M-projection, argmin_q KL(p || q), on a
grid weighted by p. Multivariate families are built from univariate factors:

- An isotropic q = N(0, l I) has one factor for all coordinates. Its target is the geometric mean of the coordinates'
  marginals (I), or their mixture (M).
- A mean field q = q_1 q_2 has one factor per coordinate. Its target is exp E[log p] under the other factor (I, by
  coordinate ascent), or the marginal of p (M).

For two modes, the start determines which minimum the I-projection reaches. Near the border between two basins, the step
size and the noise matter too. Therefore, `without_noise` repeats the steps of the learner with quadrature instead of
samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning import EIMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import Gaussian, GaussianMixture, LinearExperts
from eim_ros.learning.projections import fit_experts, fit_to_gradients, project_experts

KL_BOUND, SMALL_BOUNDS = 0.1, (1e-3, 1e-5)  # [nat]; the last steps are small, to average out the sampling noise
GRID = torch.linspace(-60.0, 60.0, 120_001, dtype=torch.float64).unsqueeze(-1)


@dataclass(frozen=True)
class IProjection:
    """I-projection onto a Gaussian by EIM with a known target density, from a given start.

    Attributes
    ----------
    n_samples : int
        Samples per iteration.
    n_iterations : int
        Number of iterations with each KL bound.
    seed : int
    """

    n_samples: int
    n_iterations: int
    seed: int

    def __call__(
        self,
        target: GaussianMixture | Callable[[Tensor], Tensor],
        start: GaussianMixture,
        further_bounds: tuple[float, ...] = (),
        *,
        first_bound: float = KL_BOUND,
    ) -> Gaussian:
        generator = torch.Generator().manual_seed(self.seed)
        for kl_bound in (first_bound, *further_bounds):
            config = EIMConfig.known_density(
                n_iterations=self.n_iterations,
                plateau_window=0,
                **{"m_step.n_samples": self.n_samples, "m_step.kl_bound": kl_bound, "m_step.entropy_loss_bound": 1e9},
            )
            model = EIM(config, target=target).fit(start=start, generator=generator).model
            assert isinstance(model, GaussianMixture)
            start = model
        return Gaussian(start.means[0], start.scale_trils[0])


def without_noise(target: GaussianMixture, start: GaussianMixture, n_iterations: int) -> Gaussian:
    """Compute an I-projection with the learner's steps, but with normal quantiles instead of samples."""
    n_nodes = 4001
    quantiles = (torch.arange(n_nodes, dtype=torch.float64) + 0.5) / n_nodes
    residual = torch.special.ndtri(quantiles)[None, :, None]
    context = residual[..., :0]
    experts = LinearExperts(start.means.unsqueeze(-1)[..., :0], start.means, start.scale_trils)
    for kl_bound in (KL_BOUND, *SMALL_BOUNDS):
        for _ in range(n_iterations):
            model = GaussianMixture(start.log_weights, experts.biases, experts.scale_trils)
            sample = experts.biases + residual[0] * experts.scale_trils[0]
            slope = (target.score(sample) - model.score(sample)) * experts.scale_trils[0]
            surrogate = fit_to_gradients(residual, context, slope.unsqueeze(0))
            experts = project_experts(experts, surrogate, kl_bound, math.inf).experts
    return Gaussian(experts.biases[0], experts.scale_trils[0])


def m_projection(log_density: Callable[[Tensor], Tensor]) -> Gaussian:
    """Return the M-projection: the Gaussian with the largest likelihood on a grid weighted by the density."""
    weights = log_density(GRID).exp().unsqueeze(-1)
    experts = fit_experts(GRID[:, :0], GRID, weights)
    return Gaussian(experts.biases[0], experts.scale_trils[0])


def kl_on_grid(first: Gaussian | GaussianMixture, second: Gaussian | GaussianMixture) -> float:
    """Return KL(first || second) [nat] of univariate densities, integrated on the grid."""
    log_first = first.log_prob(GRID)
    return float((log_first.exp() * (log_first - second.log_prob(GRID))).sum() * (GRID[1] - GRID[0]))


def normal(mean: float, deviation: float) -> GaussianMixture:
    """Return N(mean, deviation^2) as a mixture with one component."""
    parameters = torch.tensor([0.0, mean, deviation], dtype=torch.float64)
    return GaussianMixture(parameters[:1], parameters[1:2, None], parameters[2:, None, None])


DEVIATION = 0.7  # standard deviation of both modes, at -3 and 3
CORRELATION = 0.9


@dataclass(frozen=True)
class Fact:
    """Quantity that a learner found, with its exact value."""

    case: str
    quantity: str
    found: float
    exact: float


@dataclass(frozen=True)
class TwoModes:
    """Projections of 1/2 N(-3, 0.7^2) + 1/2 N(3, 0.7^2) onto a Gaussian. `between` is a spurious local minimum."""

    target: GaussianMixture
    left: Gaussian
    right: Gaussian
    between: Gaussian
    moments: Gaussian


@dataclass(frozen=True)
class Isotropic:
    """Projections of a Gaussian with diagonal covariance onto isotropic Gaussians."""

    target: Gaussian
    i_projection: Gaussian
    m_projection: Gaussian


@dataclass(frozen=True)
class MeanField:
    """Projections of a correlated Gaussian onto Gaussians with independent coordinates.

    `path` (n, 2) contains the means after each half sweep.
    """

    target: Gaussian
    i_projection: Gaussian
    m_projection: Gaussian
    path: Tensor


def two_modes(project: IProjection) -> tuple[TwoModes, list[Fact]]:
    """Project a mixture with modes at -3 and 3 onto a Gaussian.

    With equal weights, the I-projection selects one mode. From a start near the middle, it reaches a local minimum with
    mean 0. The M-projection has the mean and variance of the mixture. The facts also include starts between the modes,
    and a mixture with weights 0.3 and 0.7.
    """
    facts: list[Fact] = []
    target = _mixture(0.5)
    right, left = (project(target, normal(mean, 2.0)) for mean in (3.0, -3.0))
    between = project(target, normal(0.8, 2.58), SMALL_BOUNDS)
    moments = m_projection(target.log_prob)
    for name, found, mean in (("right", right, 2.999915), ("left", left, -2.999915)):
        facts += _figures(f"two modes, I-projection, {name}", found, target, mean, 0.700183, 0.693120)
    facts += _figures("two modes, local minimum", between, target, 0.0, 2.579668, 2.240533)
    facts += _figures("two modes, M-projection", moments, target, 0.0, 9.49**0.5, 2.512639)
    facts.append(Fact("two modes, M-projection", "KL(p || q)", kl_on_grid(target, moments), 0.788674))

    for mean, end in ((0.3, 0.0), (0.8, 0.0), (1.5, 2.999915)):
        found = without_noise(target, normal(mean, 2.58), project.n_iterations)
        facts.append(Fact(f"two modes, start at {mean:g}, quadrature", "mean", float(found.mean), end))

    uneven = _mixture(0.3)
    for name, start, kl in (("right", 3.0, 0.356658), ("left", -3.0, 1.203931)):
        found = project(uneven, normal(start, 1.0))
        facts.append(Fact(f"weights .3 and .7, I-projection, {name}", "KL(q || p)", kl_on_grid(found, uneven), kl))
    matched = m_projection(uneven.log_prob)
    facts.append(Fact("weights .3 and .7, M-projection", "mean", float(matched.mean), 1.2))
    facts.append(Fact("weights .3 and .7, M-projection", "variance", float(matched.covariance), 8.05))
    return TwoModes(target, left, right, between, moments), facts


def isotropic(project: IProjection) -> tuple[Isotropic, list[Fact]]:
    """Project Gaussians with diagonal covariance onto isotropic Gaussians.

    The variance is the harmonic mean of the target's variances (I) or their arithmetic mean (M). The projections belong
    to variances 1 and 4. The facts also include variances 1 and 100, and 1, 4 and 25.
    """
    results = [_isotropic_case(project, variances) for variances in ((1.0, 4.0), (1.0, 100.0), (1.0, 4.0, 25.0))]
    return results[0][0], [fact for _, facts in results for fact in facts]


def mean_field(project: IProjection, n_sweeps: int) -> tuple[MeanField, list[Fact]]:
    """Project a Gaussian with unit variances and correlation rho onto independent coordinates.

    The I-projection has the conditional variances, 1 - rho^2. The M-projection has the marginal variances. Each sweep
    of the coordinate ascent multiplies the error of the means by rho^2 (Bishop 2006, 10.1.2).
    """
    mean = torch.tensor([1.0, -1.0], dtype=torch.float64)
    covariance = torch.tensor([[1.0, CORRELATION], [CORRELATION, 1.0]], dtype=torch.float64)
    target = Gaussian(mean, torch.linalg.cholesky(covariance))
    factors = [Gaussian(mean.new_zeros(1), mean.new_ones(1, 1)) for _ in range(2)]
    path = [torch.cat([factor.mean for factor in factors])]
    for _ in range(n_sweeps):
        for dim in (0, 1):
            start = GaussianMixture(mean.new_zeros(1), factors[dim].mean[None], factors[dim].scale_tril[None])
            factors[dim] = project(_expected_log_prob(target, dim, factors[1 - dim]), start, first_bound=1e9)
            path.append(torch.cat([factor.mean for factor in factors]))
    inner = Gaussian(path[-1], torch.diag(torch.cat([factor.scale_tril[0] for factor in factors])))
    marginals = [m_projection(target.marginal([dim]).log_prob) for dim in (0, 1)]
    outer = Gaussian(
        torch.cat([factor.mean for factor in marginals]),
        torch.diag(torch.cat([factor.scale_tril[0] for factor in marginals])),
    )
    known = -0.5 * math.log(1.0 - CORRELATION**2)
    sweeps = torch.stack(path[2::2])
    facts = [
        Fact("mean field", f"mean of x_{dim + 1} after sweep {sweep + 1}", float(sweeps[sweep, dim]), exact)
        for sweep, row in enumerate(((1.9, -0.19), (1.729, -0.3439), (1.59049, -0.468559)))
        for dim, exact in enumerate(row)
    ]
    facts += [
        Fact("mean field, I-projection", "variance", float(inner.covariance[0, 0]), 1.0 - CORRELATION**2),
        Fact("mean field, I-projection", "KL(q || p)", float(inner.kl(target)), known),
        Fact("mean field, M-projection", "variance", float(outer.covariance[0, 0]), 1.0),
        Fact("mean field, M-projection", "KL(p || q)", float(target.kl(outer)), known),
    ]
    return MeanField(target, inner, outer, torch.stack(path)), facts


def _isotropic_case(project: IProjection, variances: tuple[float, ...]) -> tuple[Isotropic, list[Fact]]:
    scales = torch.tensor(variances, dtype=torch.float64).sqrt()
    n_dims = len(variances)

    def of_coordinates(sample: Tensor) -> Tensor:
        """Return the log densities (n, n_dims) of the coordinates' marginals."""
        return -0.5 * (sample / scales).square() - scales.log() - 0.5 * math.log(2.0 * math.pi)

    inner = project(lambda sample: of_coordinates(sample).mean(-1), normal(0.5, 1.0))
    outer = m_projection(lambda sample: torch.logsumexp(of_coordinates(sample), -1) - math.log(n_dims))
    target = Gaussian(torch.zeros_like(scales), torch.diag(scales))
    found = Isotropic(target, _repeated(inner, n_dims), _repeated(outer, n_dims))
    case = f"isotropic, variances {', '.join(f'{v:g}' for v in variances)}"
    harmonic, mean = n_dims / sum(1.0 / v for v in variances), sum(variances) / n_dims
    log_mean = sum(math.log(v) for v in variances) / n_dims
    return found, [
        Fact(f"{case}, I-projection", "variance", float(inner.covariance), harmonic),
        Fact(
            f"{case}, I-projection", "KL(q || p)", float(found.i_projection.kl(target)),
            0.5 * n_dims * (log_mean - math.log(harmonic)),
        ),
        Fact(f"{case}, M-projection", "variance", float(outer.covariance), mean),
        Fact(
            f"{case}, M-projection", "KL(p || q)", float(target.kl(found.m_projection)),
            0.5 * n_dims * (math.log(mean) - log_mean),
        ),
    ]  # fmt: skip


def _expected_log_prob(target: Gaussian, dim: int, other: Gaussian) -> Callable[[Tensor], Tensor]:
    """Return E[log p] over the other coordinate. Two nodes are exact because log p is quadratic."""
    nodes = [other.mean + sign * other.scale_tril[0] for sign in (-1.0, 1.0)]

    def log_density(sample: Tensor) -> Tensor:
        pairs = [torch.cat([sample, node.expand_as(sample)][:: 1 - 2 * dim], -1) for node in nodes]
        return torch.stack([target.log_prob(pair) for pair in pairs]).mean(0)

    return log_density


def _figures(
    case: str, found: Gaussian, target: GaussianMixture, mean: float, deviation: float, kl: float
) -> list[Fact]:
    return [
        Fact(case, "mean", float(found.mean), mean),
        Fact(case, "standard deviation", float(found.scale_tril), deviation),
        Fact(case, "KL(q || p)", kl_on_grid(found, target), kl),
    ]


def _mixture(left: float) -> GaussianMixture:
    means = torch.tensor([[-3.0], [3.0]], dtype=torch.float64)
    log_weights = torch.tensor([left, 1.0 - left], dtype=torch.float64).log()
    return GaussianMixture(log_weights, means, torch.full((2, 1, 1), DEVIATION, dtype=torch.float64))


def _repeated(factor: Gaussian, n_dims: int) -> Gaussian:
    return Gaussian(factor.mean.expand(n_dims), torch.diag(factor.scale_tril[0].expand(n_dims)))
