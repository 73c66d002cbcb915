"""I- against M-projection: three targets with known answers, projected by the package's own learners.

`univariate_projection` finds Gaussians of one dimension. Families that are less than a Gaussian are put together from
such:

- an isotropic q = N(0, l I) has one factor for all coordinates: its target is their geometric mean (I), or their
  mixture (M);
- a mean field q = q_1 q_2 has a factor for each: its target is exp E[log p] under the other one (coordinate ascent),
  or p's own marginal.

Which of its minima the I-projection of two modes ends in depends on the start and, near the border between two basins,
on the step size and the noise. The border is therefore looked at without noise: `fit_to_gradients` and
`project_experts`, of which the learner's step consists, with quadrature in place of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import Gaussian, GaussianMixture
from eim_ros.experiments.experiment import Cell, Experiment, Outcome, timed
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.experiments.univariate_projection import (
    SMALL_BOUNDS,
    IProjection,
    kl_on_grid,
    m_projection,
    normal,
    without_noise,
)
from eim_ros.settings import Settings, option

__all__ = [
    "EXPERIMENT",
    "Fact",
    "Isotropic",
    "MeanField",
    "Projections",
    "ProjectionsConfig",
    "TwoModes",
    "project_all",
    "projections_of",
]

DEVIATION = 0.7  # of both modes, at -3 and 3
CORRELATION = 0.9


@dataclass(frozen=True)
class ProjectionsConfig(Settings):
    """Settings of the experiment."""

    n_samples: int = option(4000, "samples per iteration of an I-projection", minimum=2)
    n_iterations: int = option(60, "iterations with each bound of the KL", minimum=1)
    n_sweeps: int = option(40, "sweeps of the mean field's coordinate ascent", minimum=3)


@dataclass(frozen=True)
class Fact:
    """A number that was found, beside the one that is known."""

    case: str
    quantity: str
    found: float
    exact: float


@dataclass(frozen=True)
class TwoModes:
    """Projections of 1/2 N(-3, .7^2) + 1/2 N(3, .7^2) onto a Gaussian; `between` is the spurious local minimum."""

    target: GaussianMixture
    left: Gaussian
    right: Gaussian
    between: Gaussian
    moments: Gaussian


@dataclass(frozen=True)
class Isotropic:
    """Projections of a Gaussian with diagonal covariance onto isotropic ones."""

    target: Gaussian
    i_projection: Gaussian
    m_projection: Gaussian


@dataclass(frozen=True)
class MeanField:
    """Projections of a correlated Gaussian onto independent ones; `path` (n, 2) are means after each half sweep."""

    target: Gaussian
    i_projection: Gaussian
    m_projection: Gaussian
    path: Tensor


@dataclass(frozen=True)
class Projections:
    """Everything that was found."""

    two_modes: TwoModes
    isotropic: Isotropic
    mean_field: MeanField
    facts: tuple[Fact, ...]


def project_all(config: ProjectionsConfig | None = None, seed: int = 0) -> Projections:
    """Project all targets.

    Parameters
    ----------
    config : ProjectionsConfig, optional
    seed : int
        Of the samples of the I-projections.
    """
    config = config or ProjectionsConfig()
    project = IProjection(config.n_samples, config.n_iterations, seed)
    two_modes, facts = _two_modes(project)
    isotropic, more = _all_isotropic(project)
    mean_field, further = _mean_field(project, config.n_sweeps)
    return Projections(two_modes, isotropic, mean_field, tuple(facts + more + further))


def projections_of(rows: Sequence[Row]) -> Projections:
    """What the rows of one seed hold, for the picture and the list of facts."""
    parts: dict[str, dict[str, Any]] = {
        row["target"]: {name: _restored(value) for name, value in row["parameters"].items()} for row in rows
    }
    return Projections(
        TwoModes(**parts["two modes"]),
        Isotropic(**parts["isotropic"]),
        MeanField(**parts["mean field"]),
        tuple(Fact(*entry) for row in rows for entry in row["facts"]),
    )


def _cells(config: ProjectionsConfig) -> list[Cell]:
    return [{"target": target, "estimator": "known"} for target in ("two modes", "isotropic", "mean field")]


def _measure(config: ProjectionsConfig, cell: Cell, seed: int) -> Outcome:
    project = IProjection(config.n_samples, config.n_iterations, seed)
    found: TwoModes | Isotropic | MeanField
    if cell["target"] == "two modes":
        (found, facts), seconds = timed(lambda: _two_modes(project))
    elif cell["target"] == "isotropic":
        (found, facts), seconds = timed(lambda: _all_isotropic(project))
    else:
        (found, facts), seconds = timed(lambda: _mean_field(project, config.n_sweeps))
    figures = {
        "largest_error": max(abs(fact.found - fact.exact) for fact in facts),
        "facts": [[fact.case, fact.quantity, fact.found, fact.exact] for fact in facts],
        "parameters": {name: _stored(value) for name, value in vars(found).items()},
    }
    return Outcome(seconds, figures)


def _report(table: ResultTable) -> list[str]:
    """All facts, found beside exact, of every seed."""
    lines = [f"{'seed':>4} {'case':<44} {'quantity':<24} {'found':>12} {'exact':>12}"]
    for seed in table.distinct("seed"):
        for fact in projections_of(table.where(seed=seed)).facts:
            found = round(fact.found, 6) + 0.0  # no minus before a zero
            lines.append(f"{seed:4d} {fact.case:<44} {fact.quantity:<24} {found:12.6f} {fact.exact:12.6f}")
    return lines


EXPERIMENT = Experiment(
    "projections",
    "I- against M-projection: closed-form facts beside what the learners find",
    ProjectionsConfig,
    _cells,
    _measure,
    {},
    _report,
)


def _stored(value: Gaussian | GaussianMixture | Tensor) -> dict[str, list[Any]] | list[Any]:
    """Numbers of a density by their names, or of a tensor."""
    if isinstance(value, Tensor):
        return list(value.tolist())
    return {name: tensor.tolist() for name, tensor in vars(value).items()}


def _restored(value: dict[str, list[Any]] | list[Any]) -> Gaussian | GaussianMixture | Tensor:
    if isinstance(value, list):
        return torch.tensor(value, dtype=torch.float64)
    tensors = {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in value.items()}
    return GaussianMixture(**tensors) if "log_weights" in tensors else Gaussian(**tensors)


def _all_isotropic(project: IProjection) -> tuple[Isotropic, list[Fact]]:
    """The first pair of variances, which is drawn, and the facts of all."""
    results = [_isotropic(project, variances) for variances in ((1.0, 4.0), (1.0, 100.0), (1.0, 4.0, 25.0))]
    return results[0][0], [fact for _, facts in results for fact in facts]


def _two_modes(project: IProjection) -> tuple[TwoModes, list[Fact]]:
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


def _isotropic(project: IProjection, variances: tuple[float, ...]) -> tuple[Isotropic, list[Fact]]:
    scales = torch.tensor(variances, dtype=torch.float64).sqrt()
    n_dims = len(variances)

    def of_coordinates(sample: Tensor) -> Tensor:
        """Log densities (n, n_dims) of the coordinates' marginals."""
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


def _mean_field(project: IProjection, n_sweeps: int) -> tuple[MeanField, list[Fact]]:
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


def _expected_log_prob(target: Gaussian, dim: int, other: Gaussian) -> Callable[[Tensor], Tensor]:
    """E[log p] over the other coordinate; two nodes are exact for what is quadratic."""
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
