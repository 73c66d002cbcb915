"""-ELBO of each run of variational inference, a panel for each target, beside the paper's figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from eim_ros.experiments.gmmvi_problems import PROBLEMS
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.viz.figure_file import write_figure
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED
from eim_ros.viz.panels import panel_figure

__all__ = ["draw"]

COLOURS = (*GROUP_COLOURS[2:], INK)  # without those of EIM and EM
SHOWN = 20.0  # [nat] above the best of a panel; what is worse is a triangle at its top


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: a dot for each run, a line for the paper's mean; the lower the better.

    Runs far above the best of their panel are triangles at its top, with the figure of the best of them.

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
