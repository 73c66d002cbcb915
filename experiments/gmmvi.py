"""Natural-gradient variational inference on the problems of Arenz et al. 2023 (tables 2 to 6, 8 and 9).

The experiment estimates -ELBO of each fitted mixture from new samples, and compares it with the paper's value. The
experiment also compares the paper's second measure of each problem. This measure is the MMD to samples of the target,
the number of modes found, the accuracy of predictions, or their mean squared error. The seed determines the target, the
start and the random numbers of the algorithm. Therefore, a row equals the result of `python -m experiments vi` with the
same target, algorithm, budget and seed.

All algorithms have the same number of evaluations of the target of a problem. A short run has a share of the
evaluations of a long run. With these shares, all rows take about half an hour on one core. Three algorithms also have
long runs on some problems, which take hours. The paper does not state its numbers of evaluations.

A problem is a target with its settings and the paper's figures for it. Most problems are from "A unified perspective on
natural gradient variational inference with Gaussian mixture models" (sections 4.1 to 4.3, table 8), with the settings
that the authors' program uses.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.run import completed, timed
from eim_ros.view.style import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED, write_figure
from experiments import targets
from experiments.gmmvi_tables import (
    ELBO,
    LONG,
    LONG_RUNS,
    SHORT,
    TABLE_2,
    TABLE_4,
    TABLE_5,
    conclusion,
    details,
    of_run,
    page,
)
from experiments.harness import Cell, Experiment, Outcome
from experiments.pictures import panel_figure
from experiments.table import ResultTable, Row, mean_and_error
from experiments.targets.posterior_samples import posterior_samples
from experiments.targets.scores import Discrepancy, effective_components, mixture_scores
from experiments.targets.target import Target

# The paper's algorithms do not stop on a plateau, and do not move new components uphill. The number of evaluations is
# limited instead of the number of iterations.
PUBLISHED = {
    "n_iterations": 10**9,
    "plateau_window": 0,
    "adaptation.n_climbing": 0,
    "adaptation.n_refined": 0,
    "adaptation.add_every": 30,
    "adaptation.delete_after": 100,
}
N_REFERENCE, N_FROM_MODEL = 10_000, 2_000  # samples for the MMD, the accuracy and the squared error, as in the paper
N_POINTS = 40  # number of points of a learning curve


@dataclass(frozen=True)
class Problem:
    """Target density with the settings of its fits.

    Attributes
    ----------
    make : callable
        Function from a generator to the target. Only random mixtures depend on the generator.
    n_evaluations : int
        Evaluations of the target in a long run.
    share : float
        Share of these evaluations in a short run.
    words : tuple of str
        Algorithms of the experiment.
    settings : mapping
        Settings of `GMMVIConfig`. Step sizes are trust-region bounds. Without `n_components`, the target defines the
        number of components. `n_samples` is per component, even if the algorithm samples the mixture (paper, section
        3.1).
    small_steps : mapping
        Step sizes for updates without trust regions. These step sizes are factors, and must be small from the start.
        The component step applies to all such updates. The weight step applies to algorithms with fixed component
        steps, and to direct updates with samples of the mixture. For direct updates, a step of 1 would give all weight
        to one component, and the others would get no samples.
    fixed : mapping
        Settings for algorithms that do not adapt the number of components.
    published : mapping of str to float
        The paper's -ELBO [nat] by algorithm, if the target is from the paper.
    discrepancy : callable, optional
        Function that returns the MMD to samples of the target.
    """

    make: Callable[[torch.Generator], Target]
    n_evaluations: int
    share: float = 1.0
    words: tuple[str, ...] = TABLE_5
    settings: Mapping[str, Any] = field(default_factory=dict)
    small_steps: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    discrepancy: Callable[[], Discrepancy] | None = None

    def config(self, word: str, n_evaluations: int, **others: Any) -> GMMVIConfig:
        """Return the settings for an algorithm.

        Parameters
        ----------
        word : str
            Name of the algorithm, seven letters; see `GMMVIConfig.named`.
        n_evaluations : int
            Maximum number of evaluations of the target.
        **others
            Settings that override the problem's settings.

        Returns
        -------
        GMMVIConfig
        """
        algorithm, values = GMMVIConfig.named(word), dict(self.settings)
        if algorithm.adaptation.rule == "fixed":
            values |= self.fixed
        if algorithm.samples == "mixture" and {"n_samples", "n_components"} <= values.keys():
            values["n_samples"] *= values["n_components"]
        if algorithm.weight_step.update != "trust-region":
            values.pop("weight_step.first", None)
        if algorithm.component_step.update != "trust-region":
            values["component_step.first"] = self.small_steps.get("component_step.first")
        is_greedy = algorithm.samples == "mixture" and algorithm.weight_step.update == "direct"
        if self.small_steps and (is_greedy or algorithm.component_step.size == "fixed"):
            values["weight_step.first"] = self.small_steps["weight_step.first"]
        return GMMVIConfig.named(word, **{**PUBLISHED, **values, **others, "max_evaluations": n_evaluations})


WORDS_OF_TABLE_2 = tuple(word for _, word, _ in TABLE_2)
WORDS_OF_TABLE_4 = tuple(word for _, word, _ in TABLE_4)


def _merged(*words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of several tables without duplicates."""
    return tuple(dict.fromkeys(itertools.chain(*words)))


@cache
def _breast_cancer_discrepancy() -> Discrepancy:
    return _regression_discrepancy(targets.breast_cancer())


@cache
def _credit_discrepancy() -> Discrepancy:
    return _regression_discrepancy(targets.synthetic_german_credit())


def _regression_discrepancy(target: Target) -> Discrepancy:
    return Discrepancy(posterior_samples(target, N_REFERENCE, torch.Generator().manual_seed(0)).samples, 20.0)


@cache
def _planar_discrepancy() -> Discrepancy:
    truth = targets.planar_truth(targets.planar_robot(4), 60_000, torch.Generator().manual_seed(0), N_REFERENCE)
    return Discrepancy(truth.samples, 6.0)


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
WINE_STEPS = {"component_step.first": 1e-5, "weight_step.first": 1e-4}  # 1e-3 is already too large
GMM_FIXED = {"n_components": 10}  # five components cannot cover ten modes

PROBLEMS: dict[str, Problem] = {
    "planar1": Problem(
        lambda generator: targets.planar_robot(1), 12_000_000, 0.05, settings=PLANAR, small_steps=PLANAR_STEPS
    ),
    "planar4": Problem(
        lambda generator: targets.planar_robot(4),
        12_000_000,
        0.03,
        (*TABLE_5, "SEPYRUX", "SEMTRON", "SAPTRON"),
        PLANAR,
        PLANAR_STEPS,
        published=ELBO["planar4"],
        discrepancy=_planar_discrepancy,
    ),
    "gmm20": Problem(
        lambda generator: targets.random_gaussian_mixture(20, generator),
        6_000_000,
        0.075,
        _merged(TABLE_5, WORDS_OF_TABLE_4, ("SEPYRUX",)),
        GMM,
        STEPS,
        GMM_FIXED,
        published=ELBO["gmm20"],
    ),
    "gmm100": Problem(
        lambda generator: targets.random_gaussian_mixture(100, generator),
        6_000_000,
        0.03,
        ("SAMTRON", "SEPYFUX"),
        GMM,
        STEPS,
        GMM_FIXED,
        published=ELBO["gmm100"],
    ),
    "stm20": Problem(
        lambda generator: targets.random_student_mixture(20, generator),
        12_000_000,
        0.05,
        (*TABLE_5, "SEMTRON", "SAPTRON"),
        STM,
        STEPS,
        published=ELBO["stm20"],
    ),
    "stm300": Problem(
        lambda generator: targets.random_student_mixture(300, generator),
        12_000_000,
        0.1,
        ("SAMTRON", "SAMYRON", "SEPYFUX"),
        STM,
        STEPS,
        published=ELBO["stm300"],
    ),
    "breast-cancer": Problem(
        lambda generator: targets.breast_cancer(),
        6_000_000,
        0.025,
        _merged(TABLE_5, WORDS_OF_TABLE_2),
        REGRESSION,
        SMALL_STEPS,
        published=ELBO["breast-cancer"],
        discrepancy=_breast_cancer_discrepancy,
    ),
    "breast-cancer-mb": Problem(
        lambda generator: targets.MinibatchTarget(targets.breast_cancer(), 64),
        6_000_000,
        0.025,
        _merged(TABLE_5, WORDS_OF_TABLE_2),
        REGRESSION,
        SMALL_STEPS,
        published=ELBO["breast-cancer-mb"],
        discrepancy=_breast_cancer_discrepancy,
    ),
    "credit": Problem(
        lambda generator: targets.synthetic_german_credit(),
        2_000_000,
        0.075,
        settings=REGRESSION,
        small_steps=SMALL_STEPS,
        discrepancy=_credit_discrepancy,
    ),
    "credit-mb": Problem(
        lambda generator: targets.MinibatchTarget(targets.synthetic_german_credit(), 64),
        2_000_000,
        0.075,
        settings=REGRESSION,
        small_steps=SMALL_STEPS,
        discrepancy=_credit_discrepancy,
    ),
    "wine": Problem(
        lambda generator: targets.MinibatchTarget(targets.synthetic_wine().target, 128),
        20_000_000,
        0.002,
        ("SAMTRON", "SAMYRON", "SEPYFUX"),
        WINE,
        WINE_STEPS,
    ),
    "funnel": Problem(lambda generator: targets.Funnel(), 1_000_000),
    "banana": Problem(lambda generator: targets.Banana(), 1_000_000),
}


def _talos(urdf: Path) -> Problem:
    """Return the problem of a humanoid's postures. The published figures are for the robot TALOS."""
    target = targets.humanoid(urdf)
    published = {"SAMTRON": -24.43, "SAMYRON": -24.0, "SEPYFUX": -16.64, "ZAMTRUX": -23.69}
    return Problem(lambda generator: target, 20_000_000, settings=TALOS, small_steps=SMALL_STEPS, published=published)


# problems that need a file from the user
FILE_PROBLEMS: dict[str, Callable[[Path], Problem]] = {"talos": _talos}


@dataclass(frozen=True)
class GMMVIExperimentConfig(Settings):
    """Settings of the experiment."""

    targets: tuple[str, ...] = option(
        (
            "breast-cancer",
            "breast-cancer-mb",
            "credit",
            "credit-mb",
            "planar4",
            "gmm20",
            "gmm100",
            "stm20",
            "wine",
        ),
        "problems",
        choices=tuple(PROBLEMS),
    )
    algorithms: tuple[str, ...] = option((), "seven-letter words of the paper; none: those of each problem's tables")
    long: tuple[str, ...] = option(
        ("breast-cancer", "planar4", "gmm20", "stm20"),
        f"problems with long runs by {', '.join(LONG_RUNS)}",
        choices=tuple(PROBLEMS),
    )
    budget: float = option(1.0, "factor on the evaluations of each problem", minimum=1e-6)
    n_test_samples: int = option(2_000, "number of model samples for the evaluation", minimum=2)


def _cells(config: GMMVIExperimentConfig) -> list[Cell]:
    given = [GMMVIConfig.named(word).word for word in config.algorithms]  # rejects unknown words before any fit
    short = [(target, word, SHORT) for target in config.targets for word in given or PROBLEMS[target].words]
    long = [(target, word, LONG) for target in config.long for word in LONG_RUNS]
    return [
        {"target": target, "method": word, "estimator": "known", "run": run} for target, word, run in (*short, *long)
    ]


def _measure(config: GMMVIExperimentConfig, cell: Cell, seed: int) -> Outcome:
    problem = PROBLEMS[str(cell["target"])]
    generator = torch.Generator().manual_seed(seed)
    target = problem.make(generator)
    share = 1.0 if cell["run"] == LONG else problem.share
    n_evaluations = math.ceil(config.budget * share * problem.n_evaluations)
    settings = problem.config(str(cell["method"]), n_evaluations)
    result, seconds = timed(lambda: GMMVI(target, settings).fit(generator=generator))
    model = completed(result)
    assert isinstance(model, GaussianMixture)
    scores = mixture_scores(target, model, config.n_test_samples, generator)
    figures = {
        "elbo": scores.elbo.value,
        "elbo_error": scores.elbo.standard_error,
        "found": scores.n_found,
        "modes": scores.n_modes,
        **_second_measures(problem, target, model.sample(N_FROM_MODEL, generator)),
        "components": model.n_components,
        "effective_components": effective_components(model.log_weights),
        "evaluations": result.state.evaluations,
        "share": n_evaluations / problem.n_evaluations,
        "curve": learning_curve(result.history.column("evaluations"), result.history.column("elbo")),
        "status": result.status.value,
    }
    return Outcome(seconds, {name: value for name, value in figures.items() if value is not None})


def _second_measures(problem: Problem, target: Any, sample: Tensor) -> dict[str, float]:
    """Return the MMD, the accuracy [%] or the mean squared error of samples (n_samples, n_dims) of the model."""
    full = getattr(target, "full", target)
    found = {}
    if problem.discrepancy is not None:
        found["mmd"] = problem.discrepancy()(sample)
    if isinstance(full, targets.LogisticRegression):
        found["accuracy"] = 100.0 * full.accuracy(sample)
    if isinstance(full, targets.NeuralRegression):
        split = targets.synthetic_wine()
        found["mse"] = float((full.predict(sample, split.test_features) - split.test_values).square().mean())
    return found


def learning_curve(evaluations: Sequence[float], elbo: Sequence[float]) -> list[list[float]]:
    """Return pairs (number of evaluations, -ELBO [nat]) with about geometrically growing numbers of evaluations.

    Parameters
    ----------
    evaluations : sequence of float
        Evaluations in each iteration.
    elbo : sequence of float
        ELBO of the model before each iteration [nat], estimated from the iteration's samples.

    Returns
    -------
    list of list
        At most 40 pairs. The ELBO is the mean over the iterations since the previous pair, to reduce its noise. The
        number of evaluations is the number before the last of these iterations.
    """
    spent = [0.0, *itertools.accumulate(evaluations)]
    edges = sorted({round(len(elbo) ** (k / N_POINTS)) for k in range(N_POINTS + 1)})
    return [
        [spent[last - 1], float(f"{-statistics.fmean(elbo[first:last]):.6g}")]
        for first, last in itertools.pairwise([0, *edges])
        if last > first
    ]


def _report(table: ResultTable) -> list[str]:
    """Return one line per target and algorithm, with -ELBO next to the paper's value.

    As in the paper, the error is three standard errors.
    """
    lines = [
        f"{'target':<16} {'algorithm':<9} seeds {'-ELBO [nat]':>12} {'3 sigma':>8} {'paper':>7} {'found':>10} "
        f"{'components':>10} {'evaluations':>11} {'CPU [s]':>8}"
    ]
    for target, word, run in dict.fromkeys((row["target"], row["method"], row["run"]) for row in table.rows):
        rows = table.where(target=target, method=word, run=run)
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
    """Return the mean number of modes or goals found over the seeds, as text."""
    return f"{mean_and_error(rows, 'found')[0]:.1f} of {rows[0]['modes']}" if "found" in rows[0] else ""


EXPERIMENT = Experiment(
    "gmmvi",
    "algorithms of natural-gradient variational inference, compared with tables 2 to 6, 8 and 9 of Arenz et al. 2023",
    GMMVIExperimentConfig,
    _cells,
    _measure,
    _report,
    page,
    details,
    conclusion,
    source="paper",
)


COLOURS = (*GROUP_COLOURS[2:], INK)  # without the colours of EIM and EM
MAX_HORIZONTAL = 5  # number of algorithms whose names fit below a panel
SHOWN = 20.0  # height of a panel above its best value [nat]; triangles at the top mark worse values


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with a panel for each target: a dot for each run and a line for the paper's mean. Lower is better.

    Runs far above the best run of a panel are triangles at its top. A label contains the lowest of their values.
    Further PNGs show the learning curves of the algorithms in the paper's table 5.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment gmmvi.
    folder : Path

    Returns
    -------
    list of Path
    """
    short = of_run(table, SHORT)
    targets = short.distinct("target")
    figure, panels = panel_figure(len(targets), 4.2, 3.2)
    for axes, name in zip(panels, targets, strict=True):
        _draw_target(axes, name, short.where(target=name))
    figure.supxlabel(
        f"dot: a run; line: the paper's mean; triangle: runs over {SHOWN:g} nat above the best, with the least of them",
        fontsize=9,
        color=MUTED,
    )
    paths = [write_figure(figure, folder / "gmmvi.png")]
    for run, stem in ((SHORT, "gmmvi_curves"), (LONG, "gmmvi_long_curves")):
        part = of_run(table, run)
        if part.rows and all("curve" in row for row in part.rows):
            paths.append(_draw_curves(part, folder / f"{stem}.png"))
    return paths


def _draw_curves(table: ResultTable, path: Path) -> Path:
    """Write a PNG of -ELBO minus its lowest value in any run of the problem, against the number of evaluations."""
    targets = table.distinct("target")
    figure, panels = panel_figure(len(targets), 4.2, 3.2)
    for axes, name in zip(panels, targets, strict=True):
        least = min(value for row in table.where(target=name) for _, value in row["curve"])
        for place, word in enumerate(TABLE_5):
            for row in table.where(target=name, method=word):
                points = [(n, value - least) for n, value in row["curve"] if n > 0.0]
                label = word if row["seed"] == min(table.distinct("seed")) else None
                axes.plot(*zip(*points, strict=True), color=COLOURS[place], linewidth=1.0, label=label)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0.0)
        _style(axes, name)
        if axes.lines:
            axes.legend(fontsize=7, frameon=False)
    figure.supxlabel("evaluations of the target", fontsize=9, color=MUTED)
    figure.supylabel("-ELBO above the lowest value of any run [nat]", fontsize=9, color=MUTED)
    return write_figure(figure, path)


def _draw_target(axes: Axes, name: str, rows: list[Row]) -> None:
    algorithms = list(dict.fromkeys(row["method"] for row in rows))
    paper = {word: value for word, value in PROBLEMS[name].published.items() if word in algorithms}
    crowded = len(algorithms) > MAX_HORIZONTAL
    top = min([-row["elbo"] for row in rows] + list(paper.values())) + SHOWN
    for place, algorithm in enumerate(algorithms):
        values = [-row["elbo"] for row in rows if row["method"] == algorithm]
        shown = [value for value in values if value <= top]
        colour = COLOURS[TABLE_5.index(algorithm)] if algorithm in TABLE_5 else MUTED
        axes.scatter([place] * len(shown), shown, s=22, color=colour, zorder=3)
        if len(shown) < len(values):
            least = min(value for value in values if value > top)
            axes.plot([place], [0.97], "^", color=colour, markersize=5, transform=axes.get_xaxis_transform())
            axes.text(
                place,
                0.94,
                f"{float(f'{least:.3g}'):.10g}",
                ha="center",
                va="top",
                fontsize=8,
                rotation=90 if crowded else 0,
                transform=axes.get_xaxis_transform(),
            )
        if algorithm in paper:
            axes.plot([place - 0.3, place + 0.3], [paper[algorithm]] * 2, color=MUTED, linewidth=1.5, zorder=2)
    axes.margins(y=0.15)
    axes.set_xticks(
        range(len(algorithms)), algorithms, rotation=40 if crowded else 0, ha="right" if crowded else "center"
    )
    axes.set_xlim(-0.6, len(algorithms) - 0.4)
    axes.set_ylabel("-ELBO [nat]", fontsize=9)
    _style(axes, name)


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9, color=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
    axes.tick_params(labelsize=8, colors=MUTED, length=0)
