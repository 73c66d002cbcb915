"""Natural-gradient variational inference on the problems of Arenz et al. 2023 (tables 5 and 8).

The experiment compares -ELBO of the fitted mixture, from fresh samples, with the paper's figures. The seed determines
the target, the start and the algorithm. A row therefore equals the result of `python -m experiments vi` with the same
target, algorithm, budget and seed.

A problem is a target with its settings and the paper's figures for it. Most are from "A unified perspective on natural
gradient variational inference with Gaussian mixture models" (sections 4.1 to 4.3, table 8). Their settings are those
used with the authors' program.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes

from eim_ros.core.settings import Settings, option
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.run import completed, timed
from eim_ros.view.figure_file import write_figure
from eim_ros.view.style import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED
from experiments import targets
from experiments.harness import Cell, Experiment, Outcome
from experiments.pictures import panel_figure
from experiments.table import ResultTable, Row, mean_and_error
from experiments.targets.scores import effective_components, mixture_scores
from experiments.targets.target import Target

UNBOUNDED = 10**9  # number of iterations; the number of evaluations is bounded instead


@dataclass(frozen=True)
class Problem:
    """Target density with the settings to fit it.

    Attributes
    ----------
    make : callable
        Function from a generator to the target. Only random mixtures depend on the generator.
    n_evaluations : int
        Evaluations of the target in a long run.
    settings : mapping
        Settings of `GMMVIConfig`. Step sizes are trust-region bounds. Without `n_components`, the target defines the
        number. `n_samples` is per component, even if the algorithm samples the mixture (paper, section 3.1).
    small_steps : mapping
        Step sizes for updates without trust regions. They are factors and must be small from the start. The component
        step is for all such updates, the weight step only for algorithms with fixed step sizes.
    published : mapping of str to float
        The paper's -ELBO [nat] by algorithm, if the target is from the paper.
    """

    make: Callable[[torch.Generator], Target]
    n_evaluations: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    small_steps: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)

    def config(self, word: str, n_evaluations: int, **others: Any) -> GMMVIConfig:
        """Return the settings for an algorithm.

        Parameters
        ----------
        word : str
            Seven letters, see `GMMVIConfig.named`.
        n_evaluations : int
            Maximum number of evaluations of the target.
        **others
            Settings that override the problem's settings.

        Returns
        -------
        GMMVIConfig
        """
        algorithm, values = GMMVIConfig.named(word), dict(self.settings)
        if algorithm.samples == "mixture" and {"n_samples", "n_components"} <= values.keys():
            values["n_samples"] *= values["n_components"]
        if algorithm.weight_step.update != "trust-region":
            values.pop("weight_step.first", None)
        if algorithm.component_step.update != "trust-region":
            values["component_step.first"] = self.small_steps.get("component_step.first")
        if algorithm.component_step.size == "fixed":
            values |= self.small_steps
        return GMMVIConfig.named(
            word, **{"n_iterations": UNBOUNDED, **values, **others, "max_evaluations": n_evaluations}
        )


def _table_8(*values: float) -> dict[str, float]:
    """Return the -ELBO [nat] by algorithm from a row of the paper's table 8."""
    words = ("SAMTRUX", "SAMTROX", "SAMTRON", "SAMYRUX", "SAMYROX", "SAMYRON", "SEPYFUX", "SEPYRUX", "ZAMTRUX")
    return dict(zip(words, values, strict=False))  # STM300 has no ZAMTRUX


PLANAR = {
    "n_components": 100,
    "n_samples": 100,
    "adaptation.delete_after": 10,
    "adaptation.add_every": 1,
    "weight_step.first": 5.0,
}
GMM = {"n_components": 5, "n_samples": 300, "adaptation.add_every": 30}
STM = {"n_components": 45, "n_samples": 200, "adaptation.add_every": 60, "weight_step.first": 1.0}
REGRESSION = {"n_components": 1, "n_samples": 250, "adaptation.add_every": 25, "component_step.first": 0.01}
WINE = {
    "n_components": 1,
    "n_samples": 400,
    "adaptation.add_every": 0,
    "own_samples": True,
    "adaptation.n_candidates": 0,
}
TALOS = {"n_components": 10, "n_samples": 100, "adaptation.add_every": 30, "component_step.first": 0.5}
STEPS = {"component_step.first": 0.01, "weight_step.first": 1e-4}
PLANAR_STEPS = {"component_step.first": 0.001, "weight_step.first": 1e-7}  # initial rewards differ by 1e5 nat
SMALL_STEPS = {"component_step.first": 0.001, "weight_step.first": 1e-4}

PROBLEMS: dict[str, Problem] = {
    "planar1": Problem(lambda generator: targets.planar_robot(1), 12_000_000, PLANAR, PLANAR_STEPS),
    "planar4": Problem(
        lambda generator: targets.planar_robot(4),
        12_000_000,
        PLANAR,
        PLANAR_STEPS,
        _table_8(11.47, 11.47, 11.47, 13.16, 12.98, 12.93, 17.26, 16.35, 11.48),
    ),
    "gmm20": Problem(
        lambda generator: targets.random_gaussian_mixture(20, generator),
        6_000_000,
        GMM,
        STEPS,
        _table_8(0.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.43, 0.28, 0.0),
    ),
    "gmm100": Problem(
        lambda generator: targets.random_gaussian_mixture(100, generator),
        6_000_000,
        GMM,
        STEPS,
        _table_8(0.0, 0.0, 0.01, 0.05, 0.09, 0.16, 4.54, 0.96, 1.21),
    ),
    "stm20": Problem(
        lambda generator: targets.random_student_mixture(20, generator),
        12_000_000,
        STM,
        STEPS,
        _table_8(0.12, 0.02, 0.0, 0.04, 0.05, 0.03, 0.46, 0.46, 0.54),
    ),
    "stm300": Problem(
        lambda generator: targets.random_student_mixture(300, generator),
        12_000_000,
        STM,
        STEPS,
        _table_8(15.0, 15.24, 14.96, 22.41, 22.28, 22.5, 26.69, 26.87),
    ),
    "breast-cancer": Problem(
        lambda generator: targets.breast_cancer(),
        6_000_000,
        REGRESSION,
        SMALL_STEPS,
        _table_8(78.01, 78.05, 78.0, 78.57, 78.63, 78.61, 79.78, 79.91, 78.14),
    ),
    "breast-cancer-mb": Problem(
        lambda generator: targets.MinibatchTarget(targets.breast_cancer(), 64),
        6_000_000,
        REGRESSION,
        SMALL_STEPS,
        _table_8(79.66, 79.71, 78.41, 79.68, 79.94, 79.96, 80.13, 79.38, 83.65),
    ),
    "credit": Problem(lambda generator: targets.synthetic_german_credit(), 2_000_000, REGRESSION, SMALL_STEPS),
    "credit-mb": Problem(
        lambda generator: targets.MinibatchTarget(targets.synthetic_german_credit(), 64),
        2_000_000,
        REGRESSION,
        SMALL_STEPS,
    ),
    "wine": Problem(lambda generator: targets.synthetic_wine().target, 20_000_000, WINE, SMALL_STEPS),
    "funnel": Problem(lambda generator: targets.Funnel(), 1_000_000),
    "banana": Problem(lambda generator: targets.Banana(), 1_000_000),
}


def _talos(urdf: Path) -> Problem:
    """Return the problem of a humanoid's postures; the published figures are for TALOS."""
    target = targets.humanoid(urdf)
    published = {"SAMTRON": -24.43, "SAMYRON": -24.0, "SEPYFUX": -16.64, "ZAMTRUX": -23.69}
    return Problem(lambda generator: target, 20_000_000, TALOS, SMALL_STEPS, published)


# Problems that need a file from the user.
FILE_PROBLEMS: dict[str, Callable[[Path], Problem]] = {"talos": _talos}


@dataclass(frozen=True)
class GMMVIExperimentConfig(Settings):
    """Settings of the experiment."""

    targets: tuple[str, ...] = option(
        ("planar4", "gmm20", "stm20", "breast-cancer"), "problems", choices=tuple(PROBLEMS)
    )
    algorithms: tuple[str, ...] = option(
        ("SAMTRON", "SAMYRON", "SEPYFUX", "ZAMTRUX"), "seven-letter words of the paper"
    )
    budget: float = option(1.0, "evaluations, as a share of those in a long run of each problem", minimum=1e-6)
    n_test_samples: int = option(20_000, "number of model samples for the evaluation", minimum=2)


def _cells(config: GMMVIExperimentConfig) -> list[Cell]:
    words = [GMMVIConfig.named(word).word for word in config.algorithms]  # raises for unknown words before any fit
    return [
        {"target": target, "method": word, "estimator": "known"}
        for target, word in itertools.product(config.targets, words)
    ]


def _measure(config: GMMVIExperimentConfig, cell: Cell, seed: int) -> Outcome:
    problem = PROBLEMS[str(cell["target"])]
    generator = torch.Generator().manual_seed(seed)
    target = problem.make(generator)
    settings = problem.config(str(cell["method"]), math.ceil(config.budget * problem.n_evaluations))
    result, seconds = timed(lambda: GMMVI(target, settings).fit(generator=generator))
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
    """Return a line per target and algorithm, with -ELBO next to the paper's value.

    As in the paper, the error is three standard errors.
    """
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
    """Return the number of modes or goals found, averaged over the seeds, as text."""
    return f"{mean_and_error(rows, 'found')[0]:.1f} of {rows[0]['modes']}" if "found" in rows[0] else ""


EXPERIMENT = Experiment(
    "gmmvi",
    "algorithms of natural-gradient variational inference, compared with tables 5 and 8 of Arenz et al. 2023",
    GMMVIExperimentConfig,
    _cells,
    _measure,
    {},
    _report,
)


COLOURS = (*GROUP_COLOURS[2:], INK)  # excludes the colours of EIM and EM
SHOWN = 20.0  # [nat] above the best value of a panel; worse values are triangles at its top


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with one panel per target: a dot for each run and a line for the paper's mean; lower is better.

    Runs far above the best one of their panel are triangles at its top, labelled with the best value among them.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment gmmvi.
    folder : Path

    Returns
    -------
    list of Path
    """
    targets = table.distinct("target")
    figure, panels = panel_figure(len(targets), 4.2, 3.2)
    for axes, name in zip(panels, targets, strict=True):
        _draw_target(axes, name, table.where(target=name))
    figure.supxlabel(
        f"dot: a run; line: the paper's mean; triangle: runs over {SHOWN:g} nat above the best, with the least of them",
        fontsize=9,
        color=MUTED,
    )
    return [write_figure(figure, folder / "gmmvi.png")]


def _draw_target(axes: Axes, name: str, rows: list[Row]) -> None:
    algorithms = list(dict.fromkeys(row["method"] for row in rows))
    paper = {word: value for word, value in PROBLEMS[name].published.items() if word in algorithms}
    top = min([-row["elbo"] for row in rows] + list(paper.values())) + SHOWN
    for place, algorithm in enumerate(algorithms):
        values = [-row["elbo"] for row in rows if row["method"] == algorithm]
        shown = [value for value in values if value <= top]
        colour = COLOURS[place % len(COLOURS)]
        axes.scatter([place] * len(shown), shown, s=22, color=colour, zorder=3)
        if len(shown) < len(values):
            least = min(value for value in values if value > top)
            axes.plot([place], [0.97], "^", color=colour, markersize=5, transform=axes.get_xaxis_transform())
            axes.text(
                place, 0.94, f"{least:.3g}", ha="center", va="top", fontsize=8, transform=axes.get_xaxis_transform()
            )
        if algorithm in paper:
            axes.plot([place - 0.3, place + 0.3], [paper[algorithm]] * 2, color=MUTED, linewidth=1.5, zorder=2)
    axes.margins(y=0.15)
    axes.set_xticks(range(len(algorithms)), algorithms)
    axes.set_xlim(-0.6, len(algorithms) - 0.4)
    axes.set_title(name, fontsize=9, color=INK)
    axes.set_ylabel("-ELBO [nat]", fontsize=9)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
    axes.tick_params(labelsize=8, colors=MUTED, length=0)
