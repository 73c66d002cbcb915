"""Distances to the line over components, sampled arms, and histograms along the line (thesis figures 6.4, 6.5)."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes

from eim_ros.experiments.line_reaching import EXPERT, LineReachingConfig, line_reaching_arm
from eim_ros.experiments.table import ResultTable, Row, mean_and_error
from eim_ros.planar import PlanarArm, PlanarTask
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, INK, METHOD_COLOURS, MUTED, RATIO_LINES, method_label
from eim_ros.viz.planar_arms import draw_arms, draw_task

__all__ = ["draw"]

MOST_COLUMNS = 4
CURVES_HEIGHT, ROW_HEIGHT = 3.6, 2.4  # [inch]


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: curves above, means over seeds; below them arms and histograms of some mixtures of the first seed.

    Parameters
    ----------
    table : ResultTable
        Of the experiment line-reaching.
    folder : Path

    Returns
    -------
    list of Path
    """
    arm, task = line_reaching_arm(LineReachingConfig.from_mapping(table.settings))
    rows = [row for row in table.rows if row["method"] != EXPERT]
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
    """A few of the numbers of components, first and last among them."""
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
    """Along the line, as high as the robot's panel: bars of the model, outline of the test data."""
    low, high = float(task.start[1]), float(task.end[1])
    height = (high - low) / len(found)
    centres = [low + height * (index + 0.5) for index in range(len(found))]
    axes.barh(centres, found, height=height, color=colour, alpha=0.6, linewidth=0.0)
    axes.step(expected, centres, where="mid", color=INK, linewidth=0.8)
    axes.set_ylim(-1.0 * arm.reach, 1.0 * arm.reach)
    axes.set_xlim(0.0, 3.0 * max(expected))
    axes.axis("off")
