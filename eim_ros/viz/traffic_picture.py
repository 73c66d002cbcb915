"""Vehicles off the road over numbers of components, and where methods put them, as in the thesis' figure 6.7."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from eim_ros.experiments.table import ResultTable, Row, mean_and_error
from eim_ros.experiments.traffic import N_DRAWN, SYNTHETIC, TEST_DATA
from eim_ros.viz.figure_file import write_figure
from eim_ros.viz.palette import FAINT, INK, METHOD_COLOURS, MUTED, RATIO_LINES, method_label
from eim_ros.viz.panels import panel_figure

__all__ = ["draw"]

MARKERS = {"network": "o", "plug-in": "s", "residual": "^", "none": "o"}
MARGIN = 15.0  # [m] beyond the road that is shown


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: shares off the road over numbers of components, and trajectories of each method on the map.

    Parameters
    ----------
    table : ResultTable
        Of the experiment traffic.
    folder : Path

    Returns
    -------
    list of Path
    """
    methods = list(dict.fromkeys((r["method"], r["estimator"]) for r in table.rows if r["method"] != TEST_DATA))
    seed = table.distinct("seed")[0]
    truth = table.where(method=TEST_DATA, seed=seed)[0]
    figure, (left, first, *others) = panel_figure(2 + len(methods), 3.6, 3.8)
    name = f"{truth['data']}: not measured traffic" if truth["data"] == SYNTHETIC else str(truth["data"])
    figure.suptitle(f"Vehicles off the road, {name}", fontsize=10, color=INK)
    _draw_shares(left, table, methods)
    _draw_map(first, truth, truth, METHOD_COLOURS["expert"])
    first.set_title(f"test vehicles\n{float(truth['off_road']):.1%} off the road", fontsize=9, color=INK)
    counts = table.distinct("n_components")[1:]
    count = counts[(len(counts) - 1) // 2]  # with many all methods look alike
    for axes, (method, ratio) in zip(others, methods, strict=True):
        row = table.where(method=method, estimator=ratio, n_components=count, seed=seed)[0]
        _draw_map(axes, truth, row, METHOD_COLOURS[method])
        label = f"{method_label(method, ratio)}, {count} components\n{float(row['off_road']):.1%} off the road"
        axes.set_title(label, fontsize=9, color=INK)
    figure.supxlabel(
        f"maps, of one seed: grey: road; lines: up to {N_DRAWN} trajectories; dots: the given positions",
        fontsize=9,
    )
    return [write_figure(figure, folder / "traffic.png")]


def _draw_shares(axes: Axes, table: ResultTable, methods: list[tuple[str, str]]) -> None:
    counts = table.distinct("n_components")[1:]
    for method, ratio in methods:
        shares = [
            mean_and_error(table.where(method=method, estimator=ratio, n_components=count), "off_road")
            for count in counts
        ]
        mean, error = 100.0 * np.array(shares).T
        colour, name = METHOD_COLOURS[method], method_label(method, ratio)
        axes.errorbar(counts, mean, np.nan_to_num(error), color=colour, capsize=2, linestyle="none")
        axes.plot(
            counts, mean, color=colour, linestyle=RATIO_LINES[ratio], marker=MARKERS[ratio], markersize=4, label=name
        )
    level = 100.0 * mean_and_error(table.where(method=TEST_DATA), "off_road")[0]
    axes.axhline(level, color=MUTED, linewidth=1.0, label="vehicles of another set")
    axes.set_ylim(bottom=0.0)
    axes.set_xticks(counts)
    axes.set_xlabel("number of components", fontsize=9)
    axes.set_ylabel("positions off the road [%]", fontsize=9)
    n_seeds = len(table.distinct("seed"))
    title = f"means of {n_seeds} seeds\nbars: standard error" if n_seeds > 1 else "one seed"
    axes.set_title(title, fontsize=9, color=INK)
    axes.legend(fontsize=8, frameon=False)


def _draw_map(axes: Axes, truth: Row, row: Row, colour: str) -> None:
    """Trajectories of a row over the road, which is grey; a dot where each begins."""
    x, y, cell = truth["road_corner"]
    for index, ends in enumerate(truth["road"]):
        spans = [(x + cell * begin, cell * (end - begin)) for begin, end in zip(ends[::2], ends[1::2], strict=True)]
        axes.broken_barh(spans, (y + cell * index, cell), color=FAINT, linewidth=0.0)
    for trajectory in row["trajectories"]:
        places = np.array(trajectory).reshape(-1, 2)
        axes.plot(places[:, 0], places[:, 1], color=colour, linewidth=0.6, alpha=0.7)
        axes.plot(*places[0], marker="o", markersize=1.5, color=colour)
    occupied = [ends for ends in truth["road"] if ends]
    right = x + cell * max(max(ends) for ends in occupied)
    left = x + cell * min(min(ends) for ends in occupied)
    axes.set_xlim(left - MARGIN, right + MARGIN)
    axes.set_ylim(y - MARGIN, y + cell * len(truth["road"]) + MARGIN)
    axes.set_aspect("equal")
    axes.set_xlabel("x [m]", fontsize=9)
    axes.set_ylabel("y [m]", fontsize=9)
