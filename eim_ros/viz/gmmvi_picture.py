"""-ELBO of each run of variational inference, a panel for each target, beside the paper's figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.experiments.gmmvi import GMMVIRun
from eim_ros.experiments.gmmvi_problems import PROBLEMS
from eim_ros.numerics import write_atomically
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED

__all__ = ["draw_gmmvi"]


def draw_gmmvi(runs: Sequence[GMMVIRun], path: str | Path) -> None:
    """Write a PNG: a dot for each run, a line for the paper's mean; the lower the better.

    Parameters
    ----------
    runs : sequence of GMMVIRun
        At least one.
    path : path
        Of the PNG.
    """
    targets = list(dict.fromkeys(run.target for run in runs))
    figure = Figure(figsize=(3.4 * len(targets), 3.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, len(targets), squeeze=False)[0], targets, strict=True):
        _draw_target(axes, name, [run for run in runs if run.target == name])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _draw_target(axes: Axes, name: str, runs: list[GMMVIRun]) -> None:
    algorithms = list(dict.fromkeys(run.algorithm for run in runs))
    for place, algorithm in enumerate(algorithms):
        values = [-run.elbo for run in runs if run.algorithm == algorithm]
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
