"""Algorithms of natural-gradient variational inference on the paper's problems (Arenz et al. 2023, tables 5 and 8).

-ELBO of the fitted mixture by fresh samples, beside the paper's. A seed is that of the target, of the start and of the
algorithm: a row is what `eim vi` finds with the same target, algorithm, budget and seed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch

from eim_ros.distributions import GaussianMixture
from eim_ros.experiments.experiment import Cell, Experiment, Outcome, completed, timed
from eim_ros.experiments.gmmvi_problems import PROBLEMS
from eim_ros.experiments.table import ResultTable, Row, mean_and_error
from eim_ros.inference.variational import GMMVI, GMMVIConfig
from eim_ros.settings import Settings, option
from eim_ros.targets.metrics import effective_components
from eim_ros.targets.scores import mixture_scores

__all__ = ["EXPERIMENT", "GMMVIExperimentConfig"]


@dataclass(frozen=True)
class GMMVIExperimentConfig(Settings):
    """Settings of the experiment."""

    targets: tuple[str, ...] = option(
        ("planar4", "gmm20", "stm20", "breast-cancer"), "problems", choices=tuple(PROBLEMS)
    )
    algorithms: tuple[str, ...] = option(
        ("SAMTRON", "SAMYRON", "SEPYFUX", "ZAMTRUX"), "seven-letter words of the paper"
    )
    budget: float = option(1.0, "share of the evaluations that a long run of each problem makes", minimum=1e-6)
    n_test_samples: int = option(20_000, "samples of the model that judge", minimum=2)


def _cells(config: GMMVIExperimentConfig) -> list[Cell]:
    words = [GMMVIConfig.named(word).word for word in config.algorithms]  # a wrong one is told before the work
    return [
        {"target": target, "method": word, "estimator": "known"}
        for target, word in itertools.product(config.targets, words)
    ]


def _measure(config: GMMVIExperimentConfig, cell: Cell, seed: int) -> Outcome:
    problem = PROBLEMS[str(cell["target"])]
    generator = torch.Generator().manual_seed(seed)
    target = problem.make(generator)
    settings = problem.config(str(cell["method"]), math.ceil(config.budget * problem.n_evaluations))
    result, seconds = timed(lambda: GMMVI(target, settings).fit(None, generator))
    model = completed(result)
    assert isinstance(model, GaussianMixture)
    scores = mixture_scores(target, model, config.n_test_samples, generator)
    figures = {
        "elbo": scores.elbo.value,
        "elbo_error": scores.elbo.standard_error,
        "found": scores.n_found,
        "modes": scores.n_modes,
        "components": model.n_components,
        "effective_components": effective_components(model.log_weights),
        "evaluations": result.state.evaluations,
        "status": result.status.value,
    }
    return Outcome(seconds, {name: value for name, value in figures.items() if value is not None})


def _report(table: ResultTable) -> list[str]:
    """-ELBO with three standard errors of its mean, as the paper has them, beside the paper's."""
    lines = [
        f"{'target':<16} {'algorithm':<9} seeds {'-ELBO [nat]':>12} {'3 sigma':>8} {'paper':>7} {'found':>10} "
        f"{'components':>10} {'evaluations':>11} {'CPU [s]':>8}"
    ]
    for target, word in dict.fromkeys((row["target"], row["method"]) for row in table.rows):
        rows = table.where(target=target, method=word)
        elbo, error = mean_and_error(rows, "elbo")
        published = PROBLEMS[target].published.get(word)
        lines.append(
            f"{target:<16} {word:<9} {len(rows):5d} {-elbo:12.3f} {'' if math.isnan(error) else f'{3 * error:.3f}':>8} "
            f"{'' if published is None else f'{published:.2f}':>7} {_found(rows):>10} "
            f"{mean_and_error(rows, 'components')[0]:10.1f} {mean_and_error(rows, 'evaluations')[0]:11.0f} "
            f"{mean_and_error(rows, 'cpu_seconds')[0]:8.1f}"
        )
    return lines


def _found(rows: list[Row]) -> str:
    """Modes or goals, mean over the seeds."""
    return f"{mean_and_error(rows, 'found')[0]:.1f} of {rows[0]['modes']}" if "found" in rows[0] else ""


EXPERIMENT = Experiment(
    "gmmvi",
    "algorithms of natural-gradient variational inference beside the figures of Arenz et al. 2023, tables 5 and 8",
    GMMVIExperimentConfig,
    _cells,
    _measure,
    {},
    _report,
)
