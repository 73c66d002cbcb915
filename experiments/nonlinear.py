"""One neural expert, N(psi_mu(y), psi_Sigma(y)), on univariate targets (thesis 6.6, figures 6.8 and 6.9).

Contexts y are uniform in [-1, 1], and p(x|y) is

    sine       N(sin(2.5 pi y), 0.1^2)
    modes      1/2 N(y sin(2.5 pi y) + 0.7, 0.1^2) + 1/2 N(-y sin(2.5 pi y) - 0.7, 0.1^2)
    spread     N(0, ((y + 1)^2 + 0.05)^2)

EM and EIM fit the same kind of expert. One Gaussian cannot represent two modes. EM covers both modes, and EIM ignores
one.

Another row records how EIM approaches the sine from an expert that hardly follows the sine (figure 6.9). For some
iterations, the row stores the expert, its samples, and their weights in the M-step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig, RunOptions
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.eim.iteration import EIMState
from eim_ros.learning.eim.m_step import balanced_noise
from eim_ros.learning.em import EM
from eim_ros.learning.models import (
    GaussianMixture,
    MixtureOfExperts,
    NeuralExperts,
)
from eim_ros.learning.projections.neural import weigh_samples
from eim_ros.learning.run import completed, timed
from eim_ros.view.style import FAINT, INK, MUTED, new_figure, write_figure
from experiments.harness import Cell, Experiment, Outcome, of_start, with_starts
from experiments.pictures import METHOD_COLOURS, THESIS, method_label, panel_figure
from experiments.report import Claim, Finding, Setup, judged, listed
from experiments.table import ResultTable, Row, mean_and_error

NEAR = 3.0  # largest distance of a sample from its mode [standard deviations]
DEVIATION = 0.1
COURSE = "EIM, early start"  # name of the row that records a run
RANDOM, FAST = f"{THESIS}, random start", f"{THESIS}, random start, large steps"
THESIS_STARTS = {THESIS: "em", RANDOM: "random", FAST: "random"}
LARGE_STEPS = {"m_step.kl_bound": 0.1, "m_step.entropy_loss_bound": 0.2}
LONGER = 5  # factor on the number of iterations of the rows in `THESIS_STARTS`
EARLY_STEPS = 10  # steps of L-BFGS for the start of `COURSE`
SHOWN = (1, 5, 10, 20, 30, 60)  # recorded iterations
N_COURSE_CONTEXTS, N_COURSE_SAMPLES = 60, 10  # number of contexts of a record, and of samples per context
N_DRAWN = 201  # number of contexts from -1 to 1 at which a row stores the model for the figure


def _mixture(modes: list[Tensor], deviation: Tensor) -> GaussianMixture:
    """Return a batch (n,) of mixtures with equal weights, from modes (n,) and a shared standard deviation (n,)."""
    means = torch.stack(modes, -1).unsqueeze(-1)
    factors = deviation[:, None, None, None].expand(*means.shape, 1)
    return GaussianMixture(torch.zeros_like(means[..., 0]), means, factors)


def _sine(context: Tensor) -> GaussianMixture:
    return _mixture([(2.5 * math.pi * context[:, 0]).sin()], torch.full_like(context[:, 0], DEVIATION))


def _modes(context: Tensor) -> GaussianMixture:
    mode = context[:, 0] * (2.5 * math.pi * context[:, 0]).sin() + 0.7
    return _mixture([mode, -mode], torch.full_like(mode, DEVIATION))


def _spread(context: Tensor) -> GaussianMixture:
    return _mixture([torch.zeros_like(context[:, 0])], (context[:, 0] + 1.0).square() + 0.05)


TARGETS: dict[str, Callable[[Tensor], GaussianMixture]] = {"sine": _sine, "modes": _modes, "spread": _spread}


@dataclass(frozen=True)
class NonlinearConfig(Settings):
    """Settings of the experiment. Settings in thesis table B.2 have the defaults of this table."""

    targets: tuple[str, ...] = option(tuple(TARGETS), "targets to fit", choices=tuple(TARGETS))
    n_samples: int = option(5000, "number of samples for training, and of contexts for testing", minimum=100)
    n_iterations: int = option(60, "number of EIM iterations", minimum=0)
    em_iterations: int = option(20, "maximum number of EM iterations", minimum=1)
    start_iterations: int = option(10, "maximum number of EM iterations for EIM's start", minimum=1)
    course_iterations: int = option(60, "number of EIM iterations of the recorded course", minimum=1)
    kl_bound: float = option(0.01, "maximum KL divergence of an update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "maximum loss of entropy per update", unit="nat", minimum=0.0)
    ratios: tuple[str, ...] = option(RATIO_ESTIMATORS, "density ratio estimators of EIM", choices=RATIO_ESTIMATORS)
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    parameter_layers: tuple[int, ...] = option((50, 50), "widths of the expert's layers", minimum=1)
    parameter_l2: float = option(1e-3, "weight of the sum of the expert's squared weights", minimum=0.0)


def _cells(config: NonlinearConfig) -> list[Cell]:
    methods = [("EM", "none"), *(("EIM", ratio) for ratio in config.ratios)]
    cells: list[Cell] = [
        {"target": name, "method": method, "estimator": ratio} for name in config.targets for method, ratio in methods
    ]
    if "network" in config.ratios:
        if "sine" in config.targets:
            cells.append({"target": "sine", "method": COURSE, "estimator": "network"})
        cells += [
            {"target": name, "method": method, "estimator": "network"}
            for method in THESIS_STARTS
            for name in config.targets
            if method != FAST or name == "modes"  # only this target needs large steps
        ]
    return with_starts(cells, ("EIM", *THESIS_STARTS))


def _measure(config: NonlinearConfig, cell: Cell, seed: int) -> Outcome:
    name = str(cell["target"])
    in_thesis = of_start(cell)[0] in THESIS_STARTS
    data = _data(2 * config.n_samples if in_thesis else config.n_samples, name, seed)  # with validation data
    generator = torch.Generator().manual_seed(_seed(name, seed) + 500_000)  # differs from the seed of the data
    if cell["method"] == COURSE:
        course = Course(config, _early_start(config, data, generator))
        model, seconds = timed(lambda: _fitted(config, cell, data, generator, course))
        recorded = {"course": course.records}
    else:
        model, seconds = timed(lambda: _fitted(config, cell, data, generator))
        recorded = {}
    return Outcome(seconds, {**_judged(config, TARGETS[name], model, generator), **_drawn(model), **recorded})


EXPERIMENT = Experiment(
    "nonlinear",
    "one neural expert on three univariate targets, by EM and EIM (thesis 6.6, figures 6.8, 6.9)",
    NonlinearConfig,
    _cells,
    _measure,
    figures={"kl": "KL(model || target) [nat]", "on_one_mode": "share on one mode"},
    by=("target",),
)


def _seed(name: str, seed: int) -> int:
    return 1_000_003 * seed + list(TARGETS).index(name)


@lru_cache(maxsize=1)  # all methods with the same target and seed share the data
def _data(n_samples: int, name: str, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(_seed(name, seed))
    context = _contexts(n_samples, generator)
    return context, TARGETS[name](context).sample(generator=generator)


class Course:
    """Callback of a run that records the expert, its samples and their weights at some iterations.

    The samples have their own random numbers. Therefore, the callback does not change the run.

    Attributes
    ----------
    records : list of dict
        Each record contains the number of the `iteration`, and `mean` and `deviation` of the expert at the contexts of
        the figure. Each record also contains `samples` of this expert with their `contexts` and `weights`. Equal
        weights are 1.
    """

    def __init__(self, config: NonlinearConfig, start: MixtureOfExperts) -> None:
        self.start = start
        self.records: list[dict[str, Any]] = []
        self._bounds = config.kl_bound, config.entropy_loss_bound
        self._shown = {*SHOWN, config.course_iterations}
        self._before = start

    def __call__(self, state: EIMState, record: dict[str, float]) -> None:
        """Record an iteration. The ratio of the state belongs to the model before the iteration."""
        if state.iteration in self._shown:
            self.records.append(self._recorded(state))
        self._before = state.model

    def _recorded(self, state: EIMState) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(state.iteration)
        context = _contexts(N_COURSE_CONTEXTS, generator).unsqueeze(0)
        assert isinstance(self._before.experts, NeuralExperts)
        old = self._before.experts.local(context)
        noise = balanced_noise(context, N_COURSE_SAMPLES, 1, generator)
        sample = old.mean.unsqueeze(2) + noise @ old.scale_tril.mT
        repeated = context.unsqueeze(2).expand_as(sample)
        phi = state.ratio.log_ratio(repeated.flatten(0, 2), sample.flatten(0, 2)).reshape(sample.shape[:3])
        log_old = type(old)(old.mean.unsqueeze(2), old.scale_tril.unsqueeze(2)).log_prob(sample)
        weights = weigh_samples(phi, log_old, *self._bounds).weights * sample.shape[2]
        columns = {"contexts": repeated, "samples": sample, "weights": weights}
        rounded = {name: ((values * 1e3).round() / 1e3).flatten().tolist() for name, values in columns.items()}
        return {"iteration": state.iteration, **_drawn(self._before), **rounded}


def _early_start(config: NonlinearConfig, data: tuple[Tensor, Tensor], generator: torch.Generator) -> MixtureOfExperts:
    """Return a wide expert with an inaccurate mean, after a few optimiser steps of maximum likelihood."""
    early = EMConfig.from_mapping({"n_iterations": 1, "networks.iterations": EARLY_STEPS, **_family(config)})
    model = completed(EM(early).fit(data, generator=generator))
    assert isinstance(model, MixtureOfExperts)
    return model


def _family(config: NonlinearConfig) -> dict[str, Any]:
    return {
        "n_components": 1,
        "expert_kind": "neural",
        "networks.layers": config.parameter_layers,
        "networks.l2": config.parameter_l2,
    }


def _fitted(
    config: NonlinearConfig,
    cell: Cell,
    data: tuple[Tensor, Tensor],
    generator: torch.Generator,
    course: Course | None = None,
) -> MixtureOfExperts:
    """Fit the expert of a cell. If `course` is given, it sets the start and records the run."""
    (method, is_start), ratio = of_start(cell), str(cell["estimator"])
    if method in THESIS_STARTS:
        thesis = {
            "n_iterations": 0 if is_start else LONGER * config.n_iterations,
            "start.kind": THESIS_STARTS[method],
            "start.em_iterations": config.start_iterations,
            "m_step.kl_bound": config.kl_bound,
            "m_step.entropy_loss_bound": config.entropy_loss_bound,
            "ratio.hidden_layers": config.hidden_layers,
            "ratio.validation_share": 0.5,  # 5000 samples for training, 5000 for validation
            **_family(config),
            **(LARGE_STEPS if method == FAST else {}),
        }
        model = completed(EIM(EIMConfig.thesis(**thesis)).fit(data, generator=generator))
    elif ratio == "none":
        em_config = EMConfig.from_mapping(
            {"n_iterations": config.em_iterations, "networks.iterations": 60, **_family(config)}
        )
        model = completed(EM(em_config).fit(data, generator=generator))
    else:
        eim_config = EIMConfig.from_mapping(
            {
                "n_iterations": 0 if is_start else config.course_iterations if course else config.n_iterations,
                "plateau_window": 0,
                "start.em_iterations": config.start_iterations,
                "m_step.kl_bound": config.kl_bound,
                "m_step.entropy_loss_bound": config.entropy_loss_bound,
                "ratio.estimator": ratio,
                "ratio.hidden_layers": config.hidden_layers,
                **_family(config),
            }
        )
        start, options = (course.start, RunOptions(callbacks=[course])) if course else (None, RunOptions())
        model = completed(EIM(eim_config).fit(data, start, generator=generator, run=options))
    assert isinstance(model, MixtureOfExperts)
    return model


def _judged(
    config: NonlinearConfig,
    target: Callable[[Tensor], GaussianMixture],
    model: MixtureOfExperts,
    generator: torch.Generator,
) -> dict[str, float]:
    """Return measures of samples of the model.

    `kl` is KL(model || target), averaged over contexts [nat], and `kl_error` its standard error. `near` is the share of
    samples within three standard deviations of a mode. `on_one_mode` is the share of samples whose closest mode is the
    most frequent one.
    """
    context = _contexts(config.n_samples, generator)
    conditioned = target(context)
    sample = model.sample(context, generator)
    difference = model.log_prob(context, sample) - conditioned.log_prob(sample)
    distance = (sample - conditioned.means[..., 0]).abs() / conditioned.scale_trils[..., 0, 0]
    return {
        "kl": float(difference.mean()),
        "kl_error": float(difference.std()) / len(difference) ** 0.5,
        "near": float((distance.amin(-1) < NEAR).double().mean()),
        "on_one_mode": float(torch.bincount(distance.argmin(-1)).max() / len(sample)),
    }


def _drawn(model: MixtureOfExperts) -> dict[str, list[float]]:
    """Return the data of the figure: mean and standard deviation of the expert at each context."""
    experts = model.experts(torch.linspace(-1.0, 1.0, N_DRAWN, dtype=torch.float64).unsqueeze(-1))
    values = {"mean": experts.mean[:, 0, 0], "deviation": experts.scale_tril[:, 0, 0, 0]}
    return {name: ((value * 1e5).round() / 1e5).tolist() for name, value in values.items()}


def _contexts(n_samples: int, generator: torch.Generator) -> Tensor:
    return 2.0 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 1.0


MOST_KL = 0.1  # [nat]; about the KL of a mean error of 0.45 standard deviations
FAR = 0.15  # mean distance from the sine; it is 0.08 for samples of the target
# Shares of the samples. These shares are below 1, because either mode may be the closest one where the modes cross.
LEAST_NEAR, LEAST_ON_ONE = 0.95, 0.9


SETUPS = (
    Setup("network", THESIS),
    Setup("network", RANDOM),
    Setup("network", FAST),
    Setup("network", others=(COURSE,)),
    Setup("plug-in"),
    Setup("residual"),
)


def _fits(target: str) -> Callable[[ResultTable, Setup], Finding | None]:
    def check(table: ResultTable, setup: Setup) -> Finding | None:
        rows = table.where(target=target, **setup.key)
        if not rows:
            return None
        worst = max(rows, key=lambda row: float(row["kl"]))
        mean, _ = mean_and_error(rows, "kl")
        measured = f"KL(model || target) is {mean:.3f} nat, and {worst['kl']:.3f} in the worst run"
        return judged(measured, worst["kl"] <= MOST_KL, _misfit(worst))

    return check


def _misfit(row: Row) -> str:
    """Explain the KL of an expert to a target with one mode, by its mean or by its standard deviation."""
    if "mean" not in row:
        return f"the KL exceeds {MOST_KL} nat"
    target = TARGETS[row["target"]](CONTEXTS)
    centre, spread = target.means[:, 0, 0], target.scale_trils[:, 0, 0, 0]
    mean, deviation = (torch.tensor(row[name], dtype=torch.float64) for name in ("mean", "deviation"))
    share = deviation / spread
    of_mean = float((0.5 * ((mean - centre) / spread).square()).mean())
    of_deviation = float((0.5 * (share.square() - 1.0) - share.log()).mean())
    if of_mean > of_deviation:
        off = float(((mean - centre) / spread).abs().mean())
        return (
            f"in the worst run, the mean is off by {off:.2f} standard deviations on average, "
            f"which causes {of_mean:.2f} nat of the KL"
        )
    return (
        f"in the worst run, the median ratio of the standard deviation to the target's is {float(share.median()):.2f}, "
        f"which causes {of_deviation:.2f} nat of the KL"
    )


def _ignores_a_mode(table: ResultTable, setup: Setup) -> Finding | None:
    rows, of_em = table.where(target="modes", **setup.key), table.where(target="modes", method="EM")
    if not rows or not of_em:
        return None
    near, on_one = (min(row[name] for row in rows) for name in ("near", "on_one_mode"))
    em_near, _ = mean_and_error(of_em, "near")
    reasons = []
    if near < LEAST_NEAR:
        reasons.append(f"{1.0 - near:.1%} of the samples are between or beyond the modes")
    if on_one < LEAST_ON_ONE:
        reasons.append(f"only {on_one:.1%} of the samples are closest to the same mode")
    return judged(
        f"in the worst run, {near:.1%} of the samples are within three deviations of a mode (EM {em_near:.1%}), and "
        f"{on_one:.1%} are closest to the same mode",
        not reasons,
        f"in the worst run, {listed(reasons)}",
    )


def _weights_draw_the_model(table: ResultTable, setup: Setup) -> Finding | None:
    """Compare distances of samples from the sine with and without their weights, until the model reaches the sine."""
    rows = table.where(target="sine", method=COURSE, estimator=setup.estimator) if COURSE in setup.others else []
    if not rows:
        return None
    first, last, shares = [], [], []
    for row in rows:
        distances = [_distances(record) for record in row["course"]]
        first.append(distances[0][0])
        last.append(distances[-1][0])
        shares += [weighted / plain for plain, weighted in distances if plain > FAR]
    start, end = sum(first) / len(first), sum(last) / len(last)
    if not shares:
        return Finding("the model is at the target from the start", None)
    return judged(
        f"the mean distance of the samples to the sine is {start:.2f} at first and {end:.2f} at the end; while it "
        f"exceeds {FAR:g}, it is {min(shares):.2f} to {max(shares):.2f} times as large with the weights",
        max(shares) < 1.0 and end < 0.5 * start,
        f"at some iteration, the weights make the mean distance {max(shares):.2f} times as large"
        if max(shares) >= 1.0
        else f"the mean distance only falls from {start:.2f} to {end:.2f}",
    )


def _distances(record: dict[str, Any]) -> tuple[float, float]:
    """Return the mean distance of recorded samples to the sine, without and with their weights."""
    context, sample, weight = (
        torch.tensor(record[name], dtype=torch.float64) for name in ("contexts", "samples", "weights")
    )
    distance = (sample - TARGETS["sine"](context.unsqueeze(-1)).means[:, 0, 0]).abs()
    return float(distance.mean()), float((weight * distance).mean())


CLAIMS = (
    Claim("6.6, figure 6.8a", "A neural expert follows a highly nonlinear function.", _fits("sine")),
    Claim("6.6, figure 6.8b", "A neural expert ignores the mode that it cannot represent.", _ignores_a_mode),
    Claim("6.6, figure 6.8c", "A neural expert learns a variance that depends on the context.", _fits("spread")),
    Claim(
        "6.6, figure 6.9",
        "Samples close to the target get higher weights, which draws the model towards it.",
        _weights_draw_the_model,
    ),
)


CONTEXTS = torch.linspace(-1.0, 1.0, N_DRAWN, dtype=torch.float64).unsqueeze(-1)
N_HEIGHTS = 150
LIMIT = {"sine": 1.6, "modes": 2.2, "spread": 6.0}  # limits of the axis of x
FORMULAS = {
    "sine": r"$\mathcal{N}(\sin 2.5\pi y,\ .1^2)$",
    "modes": r"$\frac{1}{2}\mathcal{N}(\pm(y \sin 2.5\pi y + .7),\ .1^2)$",
    "spread": r"$\mathcal{N}(0,\ ((y+1)^2+.05)^2)$",
}


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with the target and the experts in a column for each target, and a PNG of the recorded run.

    Each panel shows the first seed in the table for its target and method.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment nonlinear.
    folder : Path

    Returns
    -------
    list of Path
    """
    rows = [row for row in table.rows if row["method"] != COURSE and not of_start(row)[1]]
    courses = table.where(method=COURSE)
    targets = list(dict.fromkeys(row["target"] for row in rows))
    methods = sorted({(row["method"], row["estimator"]) for row in rows})
    figure = new_figure(10, 2.1 * (1 + len(methods)), dpi=90)
    panels = figure.subplots(1 + len(methods), len(targets), sharex=True, squeeze=False)
    for column, name in enumerate(targets):
        _draw_density(panels[0][column], TARGETS[name](CONTEXTS), LIMIT[name], INK)
        panels[0][column].set_title(f"{name}: {FORMULAS[name]}", fontsize=10, color=INK)
        for axes, (method, ratio) in zip(panels[1:, column], methods, strict=True):
            measured = table.where(target=name, method=method, estimator=ratio)
            if not measured:  # some methods have only one target
                axes.set_axis_off()
                continue
            row = measured[0]
            _draw_density(axes, _expert(row), LIMIT[name], METHOD_COLOURS[method])
            text = f"KL(model || target) {row['kl']:.3f} ± {row['kl_error']:.3f} nat\n{row['near']:.1%} near a mode"
            axes.text(0.02, 0.97, text, transform=axes.transAxes, va="top", fontsize=8, color=MUTED)
        panels[-1][column].set_xlabel("context y", fontsize=9)
    for axes, label in zip(panels[:, 0], ["target", *(method_label(*method) for method in methods)], strict=True):
        axes.set_ylabel(f"{label}\nx", fontsize=9)
    figure.supxlabel(
        "shade: density, relative to the highest at the same context; near: within three standard deviations of a mode",
        fontsize=9,
        color=MUTED,
    )
    paths = [write_figure(figure, folder / "nonlinear.png")]
    return [*paths, _draw_course(courses[0], folder / "course.png")] if courses else paths


WEIGHTS = 0.6, 1.4  # range of the colours
COURSE_LIMIT = 2.2  # limit of the axis of x


def _draw_course(row: Row, path: Path) -> Path:
    """Draw target, expert and samples in one panel per recorded iteration. Colours show the weights of the samples."""
    figure, panels = panel_figure(len(row["course"]), 3.6, 2.9, sharex=True, sharey=True)
    context = CONTEXTS[:, 0].numpy()
    target = TARGETS["sine"](CONTEXTS).means[:, 0, 0].numpy()
    for axes, record in zip(panels, row["course"], strict=True):
        mean, deviation = (torch.tensor(record[name]).numpy() for name in ("mean", "deviation"))
        axes.fill_between(
            context,
            mean - 2.0 * deviation,
            mean + 2.0 * deviation,
            color=FAINT,
            alpha=0.4,
            linewidth=0.0,
            label="model: mean and two standard deviations",
        )
        axes.plot(context, mean, color=MUTED, linewidth=1.2)
        axes.plot(context, target, color=INK, linewidth=1.4, linestyle="--", label="mean of the target")
        order = sorted(range(len(record["weights"])), key=lambda index: abs(record["weights"][index] - 1.0))
        drawn = axes.scatter(
            [record["contexts"][index] for index in order],
            [record["samples"][index] for index in order],
            c=[record["weights"][index] for index in order],
            cmap="coolwarm",
            vmin=WEIGHTS[0],
            vmax=WEIGHTS[1],
            s=11,
            linewidths=0.2,
            edgecolors=MUTED,
        )
        axes.set_title(f"iteration {record['iteration']}", fontsize=9, color=INK)
        axes.set_xlim(-1.0, 1.0)
        axes.set_ylim(-COURSE_LIMIT, COURSE_LIMIT)
        axes.set_xlabel("context y", fontsize=8)
        axes.set_ylabel("x", fontsize=8)
        axes.tick_params(labelsize=8)
    bar = figure.colorbar(drawn, ax=panels, extend="both", shrink=0.8)
    bar.set_label("weight of a sample in the M-step, relative to equal weights", fontsize=9)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    return write_figure(figure, path)


def _expert(row: Row) -> GaussianMixture:
    """Return the expert stored in a row, at all its contexts."""
    mean, deviation = (torch.tensor(row[name], dtype=torch.float64) for name in ("mean", "deviation"))
    return GaussianMixture(torch.zeros(N_DRAWN, 1).double(), mean[:, None, None], deviation[:, None, None, None])


def _draw_density(axes: Axes, model: GaussianMixture, limit: float, colour: str) -> None:
    """Shade the density relative to its maximum at each context, to make wide densities visible too."""
    height = torch.linspace(-limit, limit, N_HEIGHTS, dtype=torch.float64)
    density = model.log_prob(height[:, None, None].expand(-1, N_DRAWN, 1)).exp()
    shades = LinearSegmentedColormap.from_list("shades", ["white", colour])
    shaded = (density / density.amax(0)).sqrt().numpy()
    axes.imshow(
        shaded, origin="lower", extent=(-1.0, 1.0, -limit, limit), aspect="auto", cmap=shades, interpolation="nearest"
    )
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.tick_params(labelsize=8)
