"""-ELBO of each run of variational inference, a panel for each target, beside the paper's figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from eim_ros.experiments.gmmvi_problems import PROBLEMS
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED

__all__ = ["draw"]


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: a dot for each run, a line for the paper's mean; the lower the better.

    Parameters
    ----------
    table : ResultTable
        Of the experiment gmmvi.
    folder : Path

    Returns
    -------
    list of Path
    """
    targets = table.distinct("target")
    figure = new_figure(3.4 * len(targets), 3.6)
    for axes, name in zip(figure.subplots(1, len(targets), squeeze=False)[0], targets, strict=True):
        _draw_target(axes, name, table.where(target=name))
    return [write_figure(figure, folder / "gmmvi.png")]


def _draw_target(axes: Axes, name: str, rows: list[Row]) -> None:
    algorithms = list(dict.fromkeys(row["method"] for row in rows))
    for place, algorithm in enumerate(algorithms):
        values = [-row["elbo"] for row in rows if row["method"] == algorithm]
        axes.scatter([place] * len(values), values, s=22, color=GROUP_COLOURS[place % len(GROUP_COLOURS)], zorder=3)
        published = PROBLEMS[name].published.get(algorithm)
        if published is not None:
            axes.plot([place - 0.3, place + 0.3], [published, published], color=MUTED, linewidth=1.5, zorder=2)
    axes.set_xticks(range(len(algorithms)), algorithms, fontsize=7, rotation=20)
    axes.set_xlim(-0.6, len(algorithms) - 0.4)
    axes.set_title(f"{name}: -ELBO [nat], line: the paper's", fontsize=8, color=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
    axes.tick_params(labelsize=7, colors=MUTED, length=0)
