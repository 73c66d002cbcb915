"""Robustness to random starts: EM and EIM on x = sin(2.5 pi y) + noise with linear experts (thesis 6.2, figure 6.3).

Each half wave of the sine is nearly a straight line. Therefore, five linear experts can follow the sine if each finds a
different half wave. From a random start, EM often reaches a local optimum of the likelihood, with experts that span
several half waves. All methods have the same starts and data. Another row contains EM from k-means, its usual start in
practice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.run import completed, timed
from eim_ros.view.style import FAINT, GROUP_COLOURS, INK, MUTED, new_figure, write_figure
from experiments.bounds import BoundsConfig
from experiments.harness import GIVEN_START, Cell, Experiment, Outcome
from experiments.pictures import METHOD_COLOURS, OURS, THESIS, method_label
from experiments.report import Claim, Finding, Setup, judged, listed
from experiments.table import ResultTable, Row

FREQUENCY = 2.5 * math.pi
N_HALF_WAVES = 5
AS_GOOD_AS = 0.25  # [nat]; largest distance from the global optimum of a run that has found it
OPTIMUM = "EM from the half waves"  # row that serves as the global optimum of linear experts
K_MEANS = "EM from k-means"
N_DRAWN = 400  # number of samples stored in a row for the figure


@dataclass(frozen=True)
class FitConfig(BoundsConfig):
    """Settings of EIM. Settings in thesis table B.1 have the defaults of this table."""

    n_validation: int = option(
        5000, "number of additional samples that validate EIM's estimators; with 0, a tenth is held out", minimum=0
    )
    n_iterations: int = option(300, "number of EIM iterations", minimum=0)


@dataclass(frozen=True)
class RobustnessConfig(Settings):
    """Settings of the experiment."""

    n_starts: int = option(20, "number of random starts, the same for all learners", minimum=1)
    n_samples: int = option(5000, "number of samples for training, and for testing", minimum=100)
    noise: float = option(0.1, "standard deviation of the noise", minimum=1e-3)
    n_components: int = option(N_HALF_WAVES, "experts", minimum=1)
    em_iterations: int = option(500, "maximum number of EM iterations", minimum=1)
    n_gating_contexts: int = option(
        500, "number of contexts at which EIM evaluates the rewards of the gating", minimum=1
    )
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    learners: tuple[str, ...] = option(
        (THESIS, "EIM", OURS),
        "rows of EIM: as in the thesis, with only the bounds of the thesis, and with our bounds",
        choices=(THESIS, "EIM", OURS),
    )
    ratios: tuple[str, ...] = option(
        ("network", "plug-in", "residual"), "density ratio estimators of the rows 'EIM, ours'", choices=RATIO_ESTIMATORS
    )
    thesis: FitConfig = FitConfig()
    ours: FitConfig = FitConfig(
        n_validation=0,
        n_iterations=250,
        kl_bound=0.05,
        gating_kl_bound=0.02,
        entropy_loss_bound=0.01,
        gating_entropy_loss_bound=0.01,
    )


def sine_samples(n_samples: int, noise: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw contexts y, uniform in [-1, 1], and samples x = sin(2.5 pi y) + noise, each of shape (n_samples, 1)."""
    context = 2.0 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 1.0
    return context, (FREQUENCY * context).sin() + noise * torch.randn(
        n_samples, 1, generator=generator, dtype=torch.float64
    )


def random_start(context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator) -> MixtureOfExperts:
    """Draw a random start: lines through random samples with unit variance, and a standard normal gating.

    The slopes of the lines are standard normal.

    Parameters
    ----------
    context, sample : Tensor (n_samples, 1)
    n_components : int
    generator : torch.Generator

    Returns
    -------
    MixtureOfExperts
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
    """Return whether a run ended within 0.25 nat of the global optimum of its seed."""
    (optimum,) = table.values("log_likelihood", method=OPTIMUM, seed=row["seed"])
    return bool(row["log_likelihood"] >= optimum - AS_GOOD_AS)


def _cells(config: RobustnessConfig) -> list[Cell]:
    methods = [(GIVEN_START, "none"), ("EM", "none"), (K_MEANS, "none")]
    if THESIS in config.learners:
        methods.append((THESIS, "network"))
    if "EIM" in config.learners:
        methods.append(("EIM", "network"))
    if OURS in config.learners:
        methods += [(OURS, ratio) for ratio in config.ratios]
    cells: list[Cell] = [{"method": OPTIMUM, "estimator": "none", "start": 0}]
    for method, ratio in methods:
        cells += [{"method": method, "estimator": ratio, "start": start} for start in range(config.n_starts)]
    return cells


def _measure(config: RobustnessConfig, cell: Cell, seed: int) -> Outcome:
    train, test, more = _data(config, seed)
    fit = config.ours if cell["method"] == OURS else config.thesis
    method, ratio = str(cell["method"]), str(cell["estimator"])
    generator = torch.Generator().manual_seed(1_000_003 * seed + int(cell["start"]))
    start: MixtureOfExperts | None = None
    if cell["method"] == OPTIMUM:
        start = _half_waves(config.noise)
    elif cell["method"] != K_MEANS:
        start = random_start(*train, config.n_components, generator)
    model, seconds = timed(lambda: _fitted(config, fit, method, ratio, train, more, start, generator))
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
    """Return one line per method: starts that reach the optimum, and mean, median and lowest log-likelihood [nat]."""
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
    _report,
    figures={"log_likelihood": "log-likelihood [nat]"},
)


Samples: TypeAlias = tuple[Tensor, Tensor]


@lru_cache(maxsize=1)  # all starts with the same seed share the data
def _data(config: RobustnessConfig, seed: int) -> tuple[Samples, Samples, Samples]:
    """Draw data for training, testing and validation."""
    generator = torch.Generator().manual_seed(seed)
    train, test = (sine_samples(config.n_samples, config.noise, generator) for _ in range(2))
    return train, test, sine_samples(max(config.thesis.n_validation, config.ours.n_validation), config.noise, generator)


def _fitted(
    config: RobustnessConfig,
    fit: FitConfig,
    method: str,
    ratio: str,
    train: Samples,
    more: Samples,
    start: MixtureOfExperts | None,
    generator: torch.Generator,
) -> MixtureOfExperts:
    """Fit the model of a method. If `ratio` is "none", the method is EM, which starts from k-means by default.

    The first samples in `more` are validation data for the estimators of EIM. EIM shuffles all samples before it holds
    some out.
    """
    if method == GIVEN_START:
        assert start is not None
        return start
    if ratio == "none":
        em_config = EMConfig(n_components=config.n_components, n_iterations=config.em_iterations, tolerance=1e-7)
        model = completed(EM(em_config).fit(train, start, generator=generator))
    else:
        shares = {}
        if fit.n_validation:
            shares = {"ratio.validation_share": fit.n_validation / (len(train[0]) + fit.n_validation)}
            context, sample = (
                torch.cat([first, second[: fit.n_validation]]) for first, second in zip(train, more, strict=True)
            )
            train = context, sample
        settings = {
            **shares,
            "n_components": config.n_components,
            "n_iterations": fit.n_iterations,
            **fit.m_step,
            "m_step.gating.n_contexts": config.n_gating_contexts,
            "ratio.hidden_layers": config.hidden_layers,
            "ratio.dropout": config.dropout,
        }
        ours = {"plateau_window": 0, "ratio.estimator": ratio, "ratio.reference.factors": (3.0, 5.0)}
        eim_config = EIMConfig.thesis(**settings) if method == THESIS else EIMConfig.from_mapping({**settings, **ours})
        model = completed(EIM(eim_config).fit(train, start, generator=generator))
    assert isinstance(model, MixtureOfExperts)
    return model


def _rounded(values: Tensor) -> list[float]:
    """Return a column (n, 1) as a list, rounded to four decimals."""
    return [round(value, 4) for value in values[:, 0].tolist()]


def _half_waves(noise: float) -> MixtureOfExperts:
    """Return a start with one expert per half wave.

    Each expert is a line through the zero crossing of its half wave, with slope 2 / width and alternating sign.
    """
    width = math.pi / FREQUENCY
    centre = width * (torch.arange(N_HALF_WAVES, dtype=torch.float64) - (N_HALF_WAVES - 1) / 2)
    slope = (2.0 / width) * (FREQUENCY * centre).cos()
    sharpness = 100.0  # gating logits are -sharpness (y - centre)^2, without the common term in y^2
    gating = SoftmaxGating((2.0 * sharpness * centre).unsqueeze(-1), -sharpness * centre.square())
    factors = torch.full((N_HALF_WAVES, 1, 1), 2.0 * noise, dtype=torch.float64)
    return MixtureOfExperts(gating, LinearExperts(slope.reshape(-1, 1, 1), (-slope * centre).unsqueeze(-1), factors))


OF_EM = Setup("none", "EM")


def _values(table: ResultTable, setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-likelihoods of the starts (n,) [nat], and whether each start reaches the optimum of its seed."""
    best = {row["seed"]: row["log_likelihood"] - AS_GOOD_AS for row in table.where(method=OPTIMUM)}
    rows = [row for row in table.where(**setup.key) if row["seed"] in best]
    values = np.array([row["log_likelihood"] for row in rows], dtype=float)
    return values, values >= np.array([best[row["seed"]] for row in rows])


SETUPS = (
    Setup("network", THESIS),
    Setup("network"),
    *(Setup(ratio, OURS) for ratio in ("residual", "network", "plug-in")),
)
LOST = 0.01  # an expert counts as lost if its mean weight is smaller


def _more_often(table: ResultTable, setup: Setup) -> Finding | None:
    (values, at_optimum), (of_em, em_at_optimum) = _values(table, setup), _values(table, OF_EM)
    if not len(values) or not len(of_em):
        return None
    return judged(
        f"EIM reaches the optimum from {at_optimum.sum()} of {len(values)} starts, EM from "
        f"{em_at_optimum.sum()}{_from_k_means(table)}",
        bool(at_optimum.mean() > em_at_optimum.mean()),
        _misses(table, setup),
    )


def _misses(table: ResultTable, setup: Setup) -> str:
    """Explain the runs that miss the optimum: some lose an expert, and others use all experts differently."""
    rows = [row for row in table.where(**setup.key) if table.where(method=OPTIMUM, seed=row["seed"])]
    missing = [row for row in rows if not reached_optimum(table, row)]
    if not missing:
        return "all runs reach the optimum"
    n_lost = sum(row.get("least_weight", 1.0) < LOST for row in missing)
    words = [f"{n_lost} have lost an expert"] if n_lost else []
    if n_lost < len(missing):
        least = min(row["log_likelihood"] for row in missing)
        words.append(
            f"{len(missing) - n_lost} use all experts, but differently (lowest log-likelihood {least:.2f} nat)"
        )
    return f"of the {len(missing)} runs that miss the optimum, {listed(words)}"


def _from_k_means(table: ResultTable) -> str:
    """Describe EM from k-means, a start that is not part of the thesis' comparison."""
    values, at_optimum = _values(table, Setup("none", K_MEANS))
    return f"; EM from k-means reaches it {at_optimum.sum()} of {len(values)} times" if len(values) else ""


def _higher_on_average(table: ResultTable, setup: Setup) -> Finding | None:
    (values, _), (of_em, _) = _values(table, setup), _values(table, OF_EM)
    if not len(values) or not len(of_em):
        return None
    below = values[values < of_em.min()]
    if len(below) and (values.sum() - below.sum()) / max(len(values) - len(below), 1) > of_em.mean():
        why = f"{len(below)} runs end below EM's worst run; without them, EIM's mean would be higher than EM's"
    else:
        why = f"EIM's median is {np.median(values):.2f} nat, EM's is {np.median(of_em):.2f}; {_misses(table, setup)}"
    return judged(
        f"mean over the starts: EIM {values.mean():.2f} nat (worst {values.min():.2f}), EM {of_em.mean():.2f} "
        f"(worst {of_em.min():.2f})",
        bool(values.mean() > of_em.mean()),
        why,
    )


def _em_is_better_there(table: ResultTable, setup: Setup) -> Finding | None:
    (values, at_optimum), (of_em, em_at_optimum) = _values(table, setup), _values(table, OF_EM)
    if not len(values) or not len(of_em):
        return None
    if not at_optimum.any() or not em_at_optimum.any():
        never = listed(name for name, reached in (("EIM", at_optimum), ("EM", em_at_optimum)) if not reached.any())
        return Finding(f"{never} never reaches the optimum", None)
    eim, em = values[at_optimum].mean(), of_em[em_at_optimum].mean()
    return judged(
        f"mean of the runs that reach the optimum: EM {em:.3f} nat, EIM {eim:.3f}",
        bool(em > eim),
        f"EM reaches the optimum {em_at_optimum.sum()} times, and the mean of these runs is {eim - em:.3f} nat below "
        "EIM's",
    )


CLAIMS = (
    Claim("6.2, figure 6.3", "EIM reaches the global optimum from more random starts than EM.", _more_often),
    Claim("6.2, figure 6.3", "EIM's mean log-likelihood is therefore higher.", _higher_on_average),
    Claim("6.2, figure 6.3", "If both reach the optimum, EM's log-likelihood is higher.", _em_is_better_there),
)


COLOURS = {**METHOD_COLOURS, K_MEANS: METHOD_COLOURS["EM"]}
LINEAR = 1.0  # [nat]; the axis of log-likelihoods is linear within this distance of zero
TICKS = (-1000.0, -100.0, -50.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with the log-likelihood of each start for all methods, and with the median fit of each method.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment robustness.
    folder : Path

    Returns
    -------
    list of Path
    """
    methods = [
        key
        for key in dict.fromkeys((row["method"], row["estimator"]) for row in table.rows)
        if key[0] not in (OPTIMUM, GIVEN_START)
    ]
    figure = new_figure(3.2 * len(methods), 7.6)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.3, 1.0))[:, 0]
    _draw_values(above.subplots(), table, methods)
    panels = below.subplots(1, len(methods), squeeze=False, sharey=True)[0]
    panels[0].set_ylabel("x", fontsize=9)
    for axes, (method, ratio) in zip(panels, methods, strict=True):
        rows = sorted(table.where(method=method, estimator=ratio), key=lambda row: float(row["log_likelihood"]))
        median = rows[len(rows) // 2]
        _draw_fit(axes, table.where(method=OPTIMUM, seed=median["seed"])[0], median)
        label = f"{method_label(method, ratio)}\nmedian run: {median['log_likelihood']:.2f} nat"
        axes.set_title(label, fontsize=9, color=INK)
    return [write_figure(figure, folder / "robustness.png")]


def _draw_values(axes: Axes, table: ResultTable, methods: list[tuple[str, str]]) -> None:
    optimum = {row["seed"]: float(row["log_likelihood"]) for row in table.where(method=OPTIMUM)}
    low = high = np.mean(list(optimum.values()))
    for position, (method, ratio) in enumerate(methods):
        rows = table.where(method=method, estimator=ratio)
        values = np.array([row["log_likelihood"] for row in rows])
        low, high = min(low, values.min()), max(high, values.max())
        colour = COLOURS[method]
        spread = np.linspace(-0.25, 0.25, len(values))
        axes.scatter(position + spread, values, s=16, color=colour, alpha=0.8, linewidths=0.0)
        axes.hlines(values.mean(), position - 0.35, position + 0.35, color=colour, linewidth=2.5)
        reached = sum(reached_optimum(table, row) for row in rows)
        axes.annotate(
            f"mean {values.mean():.2f}\n{reached} of {len(rows)} at the optimum",
            (position, 0.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=8,
            color=MUTED,
        )
        name = method_label(method, ratio).replace(" (", "\n(")
        axes.text(position, 1.02, name, transform=axes.get_xaxis_transform(), ha="center", fontsize=9, color=INK)
    axes.axhline(float(np.mean(list(optimum.values()))), color=FAINT, linewidth=1.0, zorder=0)
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_xticks([])
    axes.set_yscale("symlog", linthresh=LINEAR)  # one failed run must not compress all others
    axes.set_yticks([tick for tick in TICKS if low - LINEAR < tick < high + LINEAR], minor=False)
    axes.yaxis.set_major_formatter(ScalarFormatter())
    scale = axes.yaxis.get_transform()
    least, most = scale.transform(np.array([low, high]))
    margins = np.array([least - 0.35 * (most - least), most + 0.05 * (most - least)])
    axes.set_ylim(*scale.inverted().transform(margins))
    axes.set_ylabel("log-likelihood per test sample [nat]", fontsize=9)
    axes.set_xlabel(
        f"dot: a random start (except for k-means), the same for all; bar: mean; grey line: {OPTIMUM}; "
        "axis linear from -1 to 1",
        fontsize=8,
    )


def _draw_fit(axes: Axes, best: Row, row: Row) -> None:
    """Draw samples of a fit in the colours of its experts, over samples of the best fit in grey."""
    axes.scatter(best["contexts"], best["samples"], s=4, color=FAINT, linewidths=0.0, label=OPTIMUM)
    colours = [GROUP_COLOURS[index % len(GROUP_COLOURS)] for index in row["components"]]
    axes.scatter(row["contexts"], row["samples"], s=4, c=colours, linewidths=0.0)
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.set_ylim(-2.0, 2.0)
    axes.set_xlabel(f"y; a colour per expert\ngrey: {OPTIMUM}", fontsize=8)
