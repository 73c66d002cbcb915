"""Robustness against random starts: EM and EIM on x = sin(2.5 pi y) + noise, linear experts (thesis 6.2, figure 6.3).

Each half wave of the sine is nearly a straight line, so five linear experts can follow it, if each finds its own. From
a random start EM's experts often end across several half waves, a local optimum of the likelihood. Start and data are
the same for all methods; a further row is EM from its own start, k-means, which is what one would use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.experiments.experiment import RATIOS, Cell, Experiment, Outcome, completed, timed
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig
from eim_ros.settings import Settings, option

__all__ = [
    "AS_GOOD_AS",
    "EXPERIMENT",
    "K_MEANS",
    "OPTIMUM",
    "RobustnessConfig",
    "random_start",
    "reached_optimum",
    "sine_samples",
]

FREQUENCY = 2.5 * math.pi
N_HALF_WAVES = 5
AS_GOOD_AS = 0.25  # a run as good as this [nat] below the global optimum counts as having found it
OPTIMUM = "EM from the half waves"  # the row of the best that linear experts can do, but for luck
K_MEANS = "EM from k-means"
N_DRAWN = 400  # samples that a row keeps for the picture


@dataclass(frozen=True)
class RobustnessConfig(Settings):
    """Settings of the experiment."""

    n_starts: int = option(20, "random starts, the same ones for all learners", minimum=1)
    n_samples: int = option(5000, "samples for training, and as many for testing", minimum=100)
    noise: float = option(0.1, "standard deviation of the noise", minimum=1e-3)
    n_components: int = option(N_HALF_WAVES, "experts", minimum=1)
    em_iterations: int = option(500, "iterations of EM at most", minimum=1)
    n_iterations: int = option(250, "iterations of EIM", minimum=0)
    kl_bound: float = option(0.05, "largest KL of an expert's update", unit="nat", minimum=0.0)
    gating_kl_bound: float = option(0.02, "largest KL of the gating's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.01,
        "largest loss of entropy per update: an expert that is narrow before the gating has found its place is stuck",
        unit="nat",
        minimum=0.0,
    )
    gating_entropy_loss_bound: float = option(0.01, "the same of the gating", unit="nat", minimum=0.0)
    n_gating_contexts: int = option(500, "contexts at which EIM takes the gating's rewards", minimum=1)
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    ratios: tuple[str, ...] = option(
        ("network", "plug-in", "residual"), "density ratio estimators of EIM", choices=RATIOS
    )


def sine_samples(n_samples: int, noise: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Contexts y, uniform in [-1, 1], and samples x = sin(2.5 pi y) + noise, (n_samples, 1) each."""
    context = 2.0 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 1.0
    return context, (FREQUENCY * context).sin() + noise * torch.randn(
        n_samples, 1, generator=generator, dtype=torch.float64
    )


def random_start(context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator) -> MixtureOfExperts:
    """Lines of standard normal slope through random samples, of variance one, under a standard normal gating.

    Parameters
    ----------
    context, sample : Tensor (n_samples, 1)
    n_components : int
    generator : torch.Generator
    """

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    chosen = torch.randint(len(sample), (n_components,), generator=generator)
    slope = normal(n_components, 1)
    experts = LinearExperts(
        slope.unsqueeze(-1),
        sample[chosen] - slope * context[chosen],
        torch.ones(n_components, 1, 1, dtype=torch.float64),
    )
    return MixtureOfExperts(SoftmaxGating(normal(n_components, 1), normal(n_components)), experts)


def reached_optimum(table: ResultTable, row: Row) -> bool:
    """Whether a run ended within .25 nat of the global optimum of its seed."""
    (optimum,) = table.values("log_likelihood", method=OPTIMUM, seed=row["seed"])
    return bool(row["log_likelihood"] >= optimum - AS_GOOD_AS)


def _cells(config: RobustnessConfig) -> list[Cell]:
    methods = [("EM", "none"), (K_MEANS, "none"), *(("EIM", ratio) for ratio in config.ratios)]
    cells: list[Cell] = [{"method": OPTIMUM, "estimator": "none", "start": 0}]
    for method, ratio in methods:
        cells += [{"method": method, "estimator": ratio, "start": start} for start in range(config.n_starts)]
    return cells


def _measure(config: RobustnessConfig, cell: Cell, seed: int) -> Outcome:
    train, test = _data(config, seed)
    ratio = str(cell["estimator"])
    generator = torch.Generator().manual_seed(1_000_003 * seed + int(cell["start"]))
    start: MixtureOfExperts | None = None
    if cell["method"] == OPTIMUM:
        start = _half_waves(config.noise)
    elif cell["method"] != K_MEANS:
        start = random_start(*train, config.n_components, generator)
    model, seconds = timed(lambda: _fitted(config, ratio, train, start, generator))
    context = test[0][:N_DRAWN]
    drawn, component = model.sample_with_components(context, torch.Generator().manual_seed(0))
    figures = {
        "log_likelihood": float(model.log_prob(*test).mean()),
        "least_weight": float(model.gating(test[0]).exp().mean(0).min()),
        "contexts": _rounded(context),
        "samples": _rounded(drawn),
        "components": component.tolist(),
    }
    return Outcome(seconds, figures)


def _report(table: ResultTable) -> list[str]:
    """For each method the starts that reached the optimum, and the mean, median and least log-likelihood [nat]."""
    lines = ["                          method  estimator  at the optimum   mean  median   least"]
    for method, ratio in dict.fromkeys((row["method"], row["estimator"]) for row in table.rows):
        rows = table.where(method=method, estimator=ratio)
        values = torch.tensor([row["log_likelihood"] for row in rows], dtype=torch.float64)
        reached = f"{sum(reached_optimum(table, row) for row in rows)} of {len(rows)}"
        figures = "  ".join(f"{float(value):6.3f}" for value in (values.mean(), values.median(), values.min()))
        lines.append(f"{method:>32}  {ratio:>9}  {reached:>14} {figures}")
    return lines


EXPERIMENT = Experiment(
    "robustness",
    "EM and EIM from random starts on a sine (thesis 6.2, figure 6.3)",
    RobustnessConfig,
    _cells,
    _measure,
    {"n_starts": "--starts", "n_components": "--experts"},
    _report,
)


@lru_cache(maxsize=1)  # all starts of a seed share it
def _data(config: RobustnessConfig, seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Training and test data."""
    generator = torch.Generator().manual_seed(seed)
    train = sine_samples(config.n_samples, config.noise, generator)
    return train, sine_samples(config.n_samples, config.noise, generator)


def _fitted(
    config: RobustnessConfig,
    ratio: str,
    train: tuple[Tensor, Tensor],
    start: MixtureOfExperts | None,
    generator: torch.Generator,
) -> MixtureOfExperts:
    """By EIM, or by EM where there is no density ratio; EM starts from k-means where no start is given."""
    if ratio == "none":
        em_config = EMConfig(n_components=config.n_components, n_iterations=config.em_iterations, tolerance=1e-7)
        model = completed(EM(em_config).fit(train, start, generator))
    else:
        eim_config = EIMConfig(
            n_components=config.n_components,
            n_iterations=config.n_iterations,
            ratio=ratio,
            kl_bound=config.kl_bound,
            entropy_loss_bound=config.entropy_loss_bound,
            gating_kl_bound=config.gating_kl_bound,
            gating_entropy_loss_bound=config.gating_entropy_loss_bound,
            n_gating_contexts=config.n_gating_contexts,
            hidden_layers=config.hidden_layers,
            dropout=config.dropout,
            reference_factors=(3.0, 5.0),
        )
        model = completed(EIM(eim_config).fit(train, start, generator))
    assert isinstance(model, MixtureOfExperts)
    return model


def _rounded(values: Tensor) -> list[float]:
    """Column of (n, 1) with four digits."""
    return [round(value, 4) for value in values[:, 0].tolist()]


def _half_waves(noise: float) -> MixtureOfExperts:
    """One expert for each half wave: through its crossing of zero, with a slope of 2 over its width."""
    width = math.pi / FREQUENCY
    centre = width * (torch.arange(N_HALF_WAVES, dtype=torch.float64) - (N_HALF_WAVES - 1) / 2)
    slope = (2.0 / width) * (FREQUENCY * centre).cos()
    sharpness = 100.0  # the gating's parabola -sharpness (y - centre)^2, up to what all experts share
    gating = SoftmaxGating((2.0 * sharpness * centre).unsqueeze(-1), -sharpness * centre.square())
    factors = torch.full((N_HALF_WAVES, 1, 1), 2.0 * noise, dtype=torch.float64)
    return MixtureOfExperts(gating, LinearExperts(slope.reshape(-1, 1, 1), (-slope * centre).unsqueeze(-1), factors))
