"""Error of the tip's position and entropies of the gating, over components and over iterations (thesis figure 6.6)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from eim_ros.experiments.kinematics import CURVES, KNOWN
from eim_ros.experiments.table import ResultTable, Row, mean_and_error
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, INK, METHOD_COLOURS, RATIO_LINES, method_label

__all__ = ["draw"]

LABELS = {
    "rmse_position": "RMSE of raw samples [m]",
    "entropy_conditional": "E H(q(z|y)), share of its maximum",
    "entropy_marginal": "H(E q(z|y)), share of its maximum",
}
MARKERS = {"none": "o", "network": "s", "plug-in": "^", "residual": "D", "known": "v"}


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG for each robot: above over components, means over seeds; below over a run with the most components.

    Parameters
    ----------
    table : ResultTable
        Of the experiment kinematics.
    folder : Path

    Returns
    -------
    list of Path
    """
    return [_draw_robot(table, robot, folder / f"kinematics_{robot}.png") for robot in table.distinct("robot")]


def _draw_robot(table: ResultTable, robot: str, path: Path) -> Path:
    rows = table.where(robot=robot)
    methods = list(dict.fromkeys((row["method"], row["estimator"]) for row in rows))
    most = max(row["n_components"] for row in rows)
    figure = new_figure(12.0, 7.4)
    above, below = figure.subplots(2, len(LABELS))
    for column, (name, label) in enumerate(LABELS.items()):
        for method, ratio in methods:
            some = table.where(robot=robot, method=method, estimator=ratio)
            _draw_components(above[column], some, method, ratio, name)
            _draw_iterations(below[column], [row for row in some if row["n_components"] == most], method, ratio, name)
        for axes in (above[column], below[column]):
            axes.set_ylabel(label, fontsize=9)
            axes.grid(color=FAINT, linewidth=0.5)
            axes.set_ylim(bottom=0.0, top=None if name == "rmse_position" else 1.02)
        above[column].set_xlabel("experts", fontsize=9)
        below[column].set_xlabel(f"share of the iterations; {most} experts", fontsize=9)
    above[0].legend(frameon=False, fontsize=8)
    n_seeds = len({row["seed"] for row in rows})
    seeds = f"{n_seeds} seed" if n_seeds == 1 else f"mean of {n_seeds} seeds, bars: standard error"
    figure.suptitle(f"Inverse kinematics of {robot} from samples, {seeds}", fontsize=10, color=INK)
    return write_figure(figure, path)


def _draw_components(axes: Axes, rows: list[Row], method: str, ratio: str, name: str) -> None:
    counts = sorted({row["n_components"] for row in rows})
    values = [mean_and_error([row for row in rows if row["n_components"] == count], name) for count in counts]
    mean, error = np.array(values).T
    axes.errorbar(
        counts,
        mean,
        np.nan_to_num(error),
        color=METHOD_COLOURS[method],
        linestyle=RATIO_LINES[ratio],
        marker=MARKERS[ratio],
        markersize=4,
        capsize=2,
        label="EIM (kinematics known)" if ratio == KNOWN else method_label(method, ratio),
    )
    axes.set_xticks(counts)


def _draw_iterations(axes: Axes, rows: list[Row], method: str, ratio: str, name: str) -> None:
    """One curve for each seed: a run that converged early has fewer points."""
    for row in rows:
        curve = row[CURVES[name]]
        share = np.linspace(0.0, 1.0, len(curve))
        axes.plot(share, curve, color=METHOD_COLOURS[method], linestyle=RATIO_LINES[ratio], linewidth=1.2)
