"""A planar robot that reaches a line: mixtures by EM and EIM (thesis 6.3, figures 6.4 and 6.5).

The expert reaches any point of a vertical line, with its elbow on either side. Its configurations lie on a thin curved
manifold that a few Gaussians cannot follow. EM covers the manifold, but many of its samples miss the line. EIM stays on
the line, and omits regions of the manifold that it cannot represent. In "EIM + tip", the coordinate of the tip normal
to the line is an additional input of the density ratio estimator. The methods "EIM" and "EIM + tip" use the bounds and
networks of the thesis. The method "EIM, defaults" uses the defaults of the package.

The experiment measures the mean distance of the tip to the line, and the coverage of the line. Coverage is the overlap
of the histograms of model and data along the line. The figure shows both measures against the number of components,
together with sampled arms and the histograms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.ratio import FeatureInputs
from eim_ros.learning.run import FitResult, completed, timed
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, PlanarTask, line_task
from eim_ros.planar.picture import draw_arms, draw_task
from eim_ros.view.style import FAINT, INK, MUTED, new_figure, write_figure
from experiments.harness import Cell, Experiment, Outcome, of_start, with_starts
from experiments.pictures import DEFAULTS, METHOD_COLOURS, RATIO_LINES, THESIS, method_label
from experiments.report import Claim, Finding, Pairs, Setup, judged, listed, paired_means
from experiments.table import ResultTable, Row, mean_and_error

LEARNERS = ("EM", THESIS, "EIM", "EIM + tip", DEFAULTS)
EXPERT = "expert"  # name of the row with the test data
NEAR = 0.1  # [m] distance to the line within which a sample counts as near
N_BINS = 50  # number of histogram bins along the line
RATIOS = ("network", "plug-in")
# factors on the number of components of the model; a density needs many components to follow a curved manifold
REFERENCE_FACTORS = (2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True)
class LineReachingConfig(Settings):
    """Settings of the experiment. Sizes, bounds and network are from thesis table B.1."""

    n_components: tuple[int, ...] = option((1, 5, 10, 20, 30, 40, 50), "numbers of mixture components", minimum=1)
    n_samples: int = option(10000, "samples for training", minimum=100)
    n_validation: int = option(5000, "number of samples that validate EIM's estimators", minimum=10)
    n_test: int = option(5000, "samples for testing", minimum=10)
    n_links: int = option(10, "number of 1 m links of the robot", minimum=2)
    line_x: float = option(5.0, "x coordinate of the line", unit="m")
    line_height: float = option(7.0, "the line reaches from -line_height to line_height", unit="m", minimum=0.1)
    n_iterations: int = option(600, "number of EIM iterations", minimum=0)
    em_iterations: int = option(100, "iterations of EM at most", minimum=1)
    kl_bound: float = option(0.005, "maximum KL divergence of a component's update", unit="nat", minimum=0.0)
    weights_kl_bound: float = option(0.005, "maximum KL divergence of the weights' update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "maximum loss of entropy per update", unit="nat", minimum=0.0)
    weights_entropy_loss_bound: float = option(
        0.05, "maximum loss of entropy per update of the weights", unit="nat", minimum=0.0
    )
    hidden_layers: tuple[int, ...] = option((100, 100), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.0, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    learners: tuple[str, ...] = option(LEARNERS, "learners to run", choices=LEARNERS)
    ratios: tuple[str, ...] = option(RATIOS, "density ratio estimators of EIM, except its defaults", choices=RATIOS)


@dataclass(frozen=True)
class LineFit:
    """Mixture of one learner, with measures of its quality."""

    mixture: GaussianMixture
    distance: float  # mean distance between the tip and the line, over samples [m]
    near: float  # share of samples within 0.1 m of the line
    coverage: float  # overlap of `histogram` and the histogram of the test data, from 0 to 1
    histogram: Tensor  # (50,), shares along the line of samples within 0.1 m; they sum to 1


@dataclass(frozen=True)
class LineReachingData:
    """Arm, task and samples of the expert.

    Attributes
    ----------
    train : Tensor (n_samples, n_links)
        Configurations of the expert.
    both : Tensor (n_samples + n_validation, n_links)
        `train`, followed by the configurations that validate EIM's estimators.
    test : Tensor (n_test, n_links)
        Configurations that no learner uses.
    """

    arm: PlanarArm
    task: PlanarTask
    train: Tensor
    both: Tensor
    test: Tensor
    histogram: Tensor  # (50,), shares of the test data along the line; they sum to 1


def line_reaching_arm(config: LineReachingConfig) -> tuple[PlanarArm, PlanarTask]:
    """Return the robot and its task."""
    ends = (config.line_x, -config.line_height), (config.line_x, config.line_height)
    return PlanarArm(n_links=config.n_links), line_task(*ends, tolerance=NEAR)


def coverage(histogram: Tensor, other: Tensor) -> float:
    """Return the overlap, from 0 to 1, of two histograms that sum to 1."""
    return float(torch.minimum(histogram, other).sum())


@lru_cache(maxsize=1)  # all fits with the same seed share the data
def line_reaching_data(config: LineReachingConfig, seed: int) -> LineReachingData:
    """Draw the expert's samples for training and testing. The last result is cached."""
    arm, task = line_reaching_arm(config)
    n_both = config.n_samples + config.n_validation
    generator = torch.Generator().manual_seed(seed)
    drawn = Expert(arm, task, ExpertConfig()).draw(n_both + config.n_test, generator)
    both, test = drawn[:n_both], drawn[n_both:]
    return LineReachingData(arm, task, both[: config.n_samples], both, test, _histogram(task, arm.tip(test)))


def fit_mixture(
    config: LineReachingConfig, data: LineReachingData, learner: str, ratio: str, n_components: int, seed: int
) -> tuple[LineFit, float]:
    """Fit a mixture independently of earlier fits. Return it with the CPU time of the fit [s]."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + n_components)
    mixture, seconds = timed(lambda: _mixture(config, data, learner, ratio, n_components, generator))
    return _judged(mixture, data, config.n_test, generator), seconds


def _mixture(
    config: LineReachingConfig,
    data: LineReachingData,
    learner: str,
    ratio: str,
    n_components: int,
    generator: torch.Generator,
) -> GaussianMixture:
    learner, is_start = of_start({"method": learner})
    if learner == "EM":
        em_config = EMConfig(n_components=n_components, n_iterations=config.em_iterations)
        return _completed(EM(em_config).fit(data.train, generator=generator))
    if learner == DEFAULTS:
        defaults = EIMConfig(n_components=n_components, plateau_window=0)
        return _completed(
            EIM(defaults.replace(n_iterations=0) if is_start else defaults).fit(data.both, generator=generator)
        )

    def tip(context: Tensor, sample: Tensor) -> Tensor:
        return data.task.normal_coordinate(data.arm.tip(sample)).unsqueeze(-1)

    settings = {
        "n_components": n_components,
        "n_iterations": 0 if is_start else config.n_iterations,
        "ratio.hidden_layers": config.hidden_layers,
        "ratio.dropout": config.dropout,
        "ratio.validation_share": config.n_validation / len(data.both),
        "m_step.kl_bound": config.kl_bound,
        "m_step.entropy_loss_bound": config.entropy_loss_bound,
        "m_step.gating.kl_bound": config.weights_kl_bound,
        "m_step.gating.entropy_loss_bound": config.weights_entropy_loss_bound,
    }
    if learner == THESIS:
        return _completed(EIM(EIMConfig.thesis(**settings)).fit(data.both, generator=generator))
    eim_config = EIMConfig.from_mapping(
        {
            **settings,
            "plateau_window": 0,
            "start.n_starts": 1,
            "ratio.estimator": ratio,
            "ratio.evidence": 0.0,  # use the network if its held-out loss is smaller
            "ratio.reference.factors": REFERENCE_FACTORS,
        }
    )
    inputs = FeatureInputs.from_data(data.train[:, :0], data.train, tip) if learner == "EIM + tip" else None
    return _completed(EIM(eim_config, inputs).fit(data.both, generator=generator))


def _completed(result: FitResult[Any]) -> GaussianMixture:
    model = completed(result)
    assert isinstance(model, GaussianMixture)
    return model


def _judged(mixture: GaussianMixture, data: LineReachingData, n_samples: int, generator: torch.Generator) -> LineFit:
    tip = data.arm.tip(mixture.sample(n_samples, generator))
    distance = data.task.distance(tip)
    near = distance <= NEAR
    histogram = _histogram(data.task, tip[near])
    overlap = coverage(histogram, data.histogram)
    return LineFit(mixture, float(distance.mean()), float(near.double().mean()), overlap, histogram)


def _histogram(task: PlanarTask, tip: Tensor) -> Tensor:
    """Return the shares (50,) of tips (n, 2) along the line, or zeros if there are no tips."""
    counts = torch.histc(task.along(tip), N_BINS, 0.0, task.length)
    return counts / counts.sum().clamp_min(1.0)


BY = ("n_components",)
MUCH_CLOSER = 0.5  # EIM reaches the line and EM misses it if the distance of EIM is at most this share of EM's distance


SETUPS = (
    Setup("network", THESIS),
    Setup("network", others=("EIM + tip",)),
    Setup("plug-in"),
    Setup("residual", DEFAULTS),
)


def _closer_than_em(table: ResultTable, setup: Setup) -> Finding | None:
    pairs = paired_means(table, "distance", BY, setup.key, {"method": "EM"})
    return _closer(pairs, "EM", MUCH_CLOSER)


def _closer_with_tip(table: ResultTable, setup: Setup) -> Finding | None:
    if "EIM + tip" not in setup.others:
        return None
    tip, plain = ({"method": method, "estimator": setup.estimator} for method in ("EIM + tip", "EIM"))
    return _closer(paired_means(table, "distance", BY, tip, plain), "without the tip", 1.0)


def _closer(pairs: Pairs, other: str, factor: float) -> Finding | None:
    """Check that the first distance of each pair is below `factor` times the second."""
    if not pairs:
        return None
    failing = [key[0] for key, (first, second) in pairs.items() if first >= factor * second]
    shown = ", ".join(
        f"{pairs[key][0]:.3f} m with k = {key[0]} ({other} {pairs[key][1]:.3f})"
        for key in dict.fromkeys((min(pairs), max(pairs)))
    )
    words = f"smaller than {other}" if factor == 1.0 else f"at most half of {other}'s"
    n_met = len(pairs) - len(failing)
    measured = f"with k components, the distance is {words} for {n_met} of {len(pairs)} values of k: {shown}"
    return judged(measured, not failing, _why_not_closer(pairs, failing, other))


def _why_not_closer(pairs: Pairs, failing: list[int], other: str) -> str:
    """Explain failing numbers of components: both methods are near the line, or this method is farther away."""
    if not failing:
        return ""
    farther = [count for count in failing if pairs[count,][0] >= pairs[count,][1]]
    if farther:
        key = max(((count,) for count in farther), key=lambda key: pairs[key][0] - pairs[key][1])
        return (
            f"with k = {listed(farther)}, the distance is not smaller; the worst distance is {pairs[key][0]:.3f} m "
            f"({other} {pairs[key][1]:.3f})"
        )
    nearest = max(pairs[count,][1] for count in failing)
    shares = [pairs[count,][0] / pairs[count,][1] for count in failing]
    near = (
        "is also near the line"
        if all(second > nearest for (n,), (_, second) in pairs.items() if n not in failing)
        else "is not twice as far away"
    )
    return (
        f"with k = {listed(failing)}, {other} {near} (at most {nearest:.3f} m), and EIM has {min(shares):.0%} to "
        f"{max(shares):.0%} of that distance"
    )


def _covers_more_with_more(table: ResultTable, setup: Setup) -> Finding | None:
    rows = table.where(**setup.key)
    if not rows:
        return None
    counts = sorted({row["n_components"] for row in rows})
    values = [mean_and_error([row for row in rows if row["n_components"] == n], "coverage")[0] for n in counts]
    shown = ", ".join(f"{value:.2f} with {count}" for count, value in zip(counts, values, strict=True))
    measured = f"overlap of the histograms for each number of components: {shown}"
    if len(counts) < 2:
        return Finding(measured, None)
    most, least = (counts[values.index(extreme)] for extreme in (max(values), min(values)))
    why = (
        f"coverage is smallest with {least} components ({min(values):.2f}) and largest with {most} "
        f"({max(values):.2f}), not with {counts[0]} and {counts[-1]}"
    )
    return judged(measured, values[-1] == max(values) and values[0] == min(values), why)


CLAIMS = (
    Claim(
        "6.3, figure 6.4a",
        "EIM reaches the line with any number of components. EM misses the line even with many components.",
        _closer_than_em,
    ),
    Claim("6.3, figure 6.4a", "With the tip as a feature, EIM is closer still.", _closer_with_tip),
    Claim(
        "6.3, figure 6.5",
        "With few components, EIM ignores parts of the line. With more components, it covers more of the line.",
        _covers_more_with_more,
    ),
)


MOST_COLUMNS = 4
CURVES_HEIGHT, ROW_HEIGHT = 3.6, 2.4  # [inch]


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with curves, and with sampled arms and histograms below.

    Curves are means over seeds. Arms and histograms are from some mixtures of the first seed.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment line-reaching.
    folder : Path

    Returns
    -------
    list of Path
    """
    arm, task = line_reaching_arm(LineReachingConfig.from_mapping(table.settings))
    rows = [row for row in table.rows if row["method"] != EXPERT and not of_start(row)[1]]
    methods = list(dict.fromkeys((row["method"], row["estimator"]) for row in rows))
    counts = sorted({row["n_components"] for row in rows})
    shown = _some(counts)
    figure = new_figure(2.6 * len(shown) + 2.4, CURVES_HEIGHT + ROW_HEIGHT * len(methods), dpi=90)
    heights = (CURVES_HEIGHT, ROW_HEIGHT * len(methods))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    left, right = above.subplots(1, 2)
    _draw_curves(left, table, methods, counts, "distance", "mean distance to the line [m]")
    left.set_yscale("log")
    _draw_curves(right, table, methods, counts, "coverage", "coverage of the line [share]")
    right.set_ylim(0.0, 1.0)
    above.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    panels = below.subplots(len(methods), 2 * len(shown), squeeze=False, width_ratios=(2.6, 1.0) * len(shown))
    for line, (method, ratio) in zip(panels, methods, strict=True):
        for column, count in enumerate(shown):
            arms, bars = line[2 * column : 2 * column + 2]
            row = table.where(method=method, estimator=ratio, n_components=count)[0]
            expert = table.where(method=EXPERT, seed=row["seed"])[0]
            _draw_samples(arms, arm, task, row, METHOD_COLOURS[method])
            _draw_histogram(bars, arm, task, row["histogram"], expert["histogram"], METHOD_COLOURS[method])
            label = f"{method_label(method, ratio)}\n{count}: {row['distance']:.2f} m"
            arms.set_title(label, fontsize=8, color=INK)
            bars.set_title(f"{row['coverage']:.2f}", fontsize=9, color=MUTED)
    below.supxlabel(
        "lines: 60 sampled arms, axes in metres; black dots: their tips, square: their base; green: the line; above: "
        "method, components, mean distance\nbars: share of tips within .1 m along the line, outline: test data; above "
        "them the coverage, the overlap of both",
        fontsize=9,
        color=MUTED,
    )
    return [write_figure(figure, folder / "line_reaching.png")]


def _some(counts: list[int]) -> list[int]:
    """Return a few numbers of components, including the first and the last."""
    n = min(MOST_COLUMNS, len(counts))
    return sorted({counts[round(i * (len(counts) - 1) / max(1, n - 1))] for i in range(n)})


def _draw_curves(
    axes: Axes, table: ResultTable, methods: list[tuple[str, str]], counts: list[int], name: str, label: str
) -> None:
    for method, ratio in methods:
        rows = [table.where(method=method, estimator=ratio, n_components=count) for count in counts]
        values = [mean_and_error(some, name)[0] for some in rows]
        axes.plot(
            counts,
            values,
            marker="o",
            markersize=4,
            color=METHOD_COLOURS[method],
            linestyle=RATIO_LINES[ratio],
            label=method_label(method, ratio),
        )
    axes.set_xticks(counts)
    axes.set_xlabel("number of components", fontsize=9)
    axes.set_ylabel(label, fontsize=9)
    axes.grid(color=FAINT, linewidth=0.5)


def _draw_samples(axes: Axes, arm: PlanarArm, task: PlanarTask, row: Row, colour: str) -> None:
    draw_task(axes, task)
    draw_arms(axes, arm, torch.tensor(row["samples"], dtype=torch.float64), colour, 0.3)
    axes.set_xlim(-0.25 * arm.reach, 1.0 * arm.reach)
    axes.set_ylim(-1.0 * arm.reach, 1.0 * arm.reach)


def _draw_histogram(
    axes: Axes, arm: PlanarArm, task: PlanarTask, found: list[float], expected: list[float], colour: str
) -> None:
    """Draw histograms along the line, at the scale of the robot's panel: bars for the model, an outline for the test
    data.
    """
    low, high = float(task.start[1]), float(task.end[1])
    height = (high - low) / len(found)
    centres = [low + height * (index + 0.5) for index in range(len(found))]
    axes.barh(centres, found, height=height, color=colour, alpha=0.6, linewidth=0.0)
    axes.step(expected, centres, where="mid", color=INK, linewidth=0.8)
    axes.set_ylim(-1.0 * arm.reach, 1.0 * arm.reach)
    axes.set_xlim(0.0, 3.0 * max(expected))
    axes.axis("off")


N_DRAWN = 60  # number of configurations stored in a row for the figure


def _cells(config: LineReachingConfig) -> list[Cell]:
    cells: list[Cell] = [{"method": EXPERT, "estimator": "none", "n_components": 0}]
    for count in config.n_components:
        for learner in config.learners:
            ratios = {"EM": ("none",), DEFAULTS: ("residual",), THESIS: ("network",)}.get(learner, config.ratios)
            if learner == "EIM + tip":  # a plug-in density of the joints cannot use the position of the tip
                ratios = tuple(ratio for ratio in ratios if ratio != "plug-in")
            cells += [{"method": learner, "estimator": ratio, "n_components": count} for ratio in ratios]
    return with_starts(cells, ("EIM", THESIS, DEFAULTS))


def _measure(config: LineReachingConfig, cell: Cell, seed: int) -> Outcome:
    data = line_reaching_data(config, seed)
    if cell["method"] == EXPERT:
        distance = data.task.distance(data.arm.tip(data.test))
        figures = _figures(float(distance.mean()), float((distance <= NEAR).double().mean()), 1.0)
        return Outcome(0.0, {**figures, **_drawn(data.histogram, data.test)})
    learner, ratio, count = str(cell["method"]), str(cell["estimator"]), int(cell["n_components"])
    fit, seconds = fit_mixture(config, data, learner, ratio, count, seed)
    sample = fit.mixture.sample(N_DRAWN, torch.Generator().manual_seed(seed))
    figures = _figures(fit.distance, fit.near, fit.coverage)
    return Outcome(seconds, {**figures, **_drawn(fit.histogram, sample)})


EXPERIMENT = Experiment(
    "line-reaching",
    "mixtures by EM and EIM for a planar robot that reaches a line (thesis 6.3, figures 6.4 and 6.5)",
    LineReachingConfig,
    _cells,
    _measure,
    figures={"distance": "mean distance to the line [m]", "coverage": "coverage of the line"},
    by=("n_components",),
)


def _figures(distance: float, near: float, coverage: float) -> dict[str, float]:
    return {"distance": distance, "near": near, "coverage": coverage}


def _drawn(histogram: Tensor, sample: Tensor) -> dict[str, list[float] | list[list[float]]]:
    """Return the data of the figure: the histogram along the line, and some configurations [rad]."""
    rounded = (sample[:N_DRAWN] * 1e4).round() / 1e4
    return {"histogram": ((histogram * 1e6).round() / 1e6).tolist(), "samples": rounded.tolist()}
