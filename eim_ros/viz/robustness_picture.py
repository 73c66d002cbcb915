"""Log-likelihoods of many random starts and the fits behind them, as in the thesis' figure 6.3."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

from eim_ros.experiments.robustness import K_MEANS, OPTIMUM, reached_optimum
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, METHOD_COLOURS, MUTED, method_label

__all__ = ["draw"]

COLOURS = {**METHOD_COLOURS, K_MEANS: METHOD_COLOURS["EM"]}
LINEAR = 1.0  # [nat] around zero in which the axis of log-likelihoods is linear
TICKS = (-1000.0, -100.0, -50.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: each start's log-likelihood under all methods, and the median fit of each.

    Parameters
    ----------
    table : ResultTable
        Of the experiment robustness.
    folder : Path

    Returns
    -------
    list of Path
    """
    methods = [
        key for key in dict.fromkeys((row["method"], row["estimator"]) for row in table.rows) if key[0] != OPTIMUM
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
    axes.set_yscale("symlog", linthresh=LINEAR)  # a run that fails altogether must not press the others together
    axes.set_yticks([tick for tick in TICKS if low - LINEAR < tick < high + LINEAR], minor=False)
    axes.yaxis.set_major_formatter(ScalarFormatter())
    scale = axes.yaxis.get_transform()
    least, most = scale.transform(np.array([low, high]))
    margins = np.array([least - 0.35 * (most - least), most + 0.05 * (most - least)])
    axes.set_ylim(*scale.inverted().transform(margins))
    axes.set_ylabel("log-likelihood per test sample [nat]", fontsize=9)
    axes.set_xlabel(
        f"dot: a start, random but for k-means and the same for all; bar: their mean; grey line: {OPTIMUM}; "
        "axis linear from -1 to 1",
        fontsize=8,
    )


def _draw_fit(axes: Axes, best: Row, row: Row) -> None:
    """Samples of a fit in the colours of its experts, over those of the best one in grey."""
    axes.scatter(best["contexts"], best["samples"], s=4, color=FAINT, linewidths=0.0, label=OPTIMUM)
    colours = [GROUP_COLOURS[index % len(GROUP_COLOURS)] for index in row["components"]]
    axes.scatter(row["contexts"], row["samples"], s=4, c=colours, linewidths=0.0)
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.set_ylim(-2.0, 2.0)
    axes.set_xlabel(f"y; a colour per expert\ngrey: {OPTIMUM}", fontsize=8)
