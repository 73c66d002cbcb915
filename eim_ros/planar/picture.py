"""Pictures of planar arms with their goal and obstacles.

`draw_planar_demo` shows samples of EM and EIM, and their distances to the line in the simulator.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from eim_ros.core.files import write_atomically
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.task import PlanarTask

INK, MUTED, LIMITS = "#1B1F27", "#5B626E", "#ECEEF2"  # colours of base and tips, labels, and frames
GOAL, DISC = "#009E73", "#D55E00"
COLOURS = {"EM": "#0072B2", "EIM + tip": "#E69F00"}
TITLES = {"EM": "EM", "EIM + tip": "EIM with the tip as input"}
N_SHOWN = 60  # number of demonstrations in the picture


def draw_arms(axes: Axes, arm: PlanarArm, q: Tensor, colour: str, alpha: float = 0.35) -> None:
    """Draw arms (n, n_links) [rad] with this opacity, with a dot at each tip and a square at the base."""
    points = arm.points(q).numpy()
    axes.add_collection(LineCollection(list(points), colors=colour, linewidths=0.8, alpha=alpha, zorder=2))
    axes.scatter(points[:, -1, 0], points[:, -1, 1], s=5, color=INK, linewidths=0.0, zorder=4)
    axes.scatter([0.0], [0.0], s=22, color=INK, marker="s", zorder=5)


def draw_task(axes: Axes, task: PlanarTask) -> None:
    """Draw the goal, which is a line or a point, and the disc obstacles."""
    for x, y, radius in task.obstacles.tolist():
        axes.add_patch(Circle((x, y), radius, facecolor=DISC, alpha=0.45, linewidth=0.0, zorder=1))
    (x0, y0), (x1, y1) = task.start.tolist(), task.end.tolist()
    if task.is_line:
        axes.plot([x0, x1], [y0, y1], color=GOAL, linewidth=2.5, alpha=0.8, zorder=3, solid_capstyle="butt")
    else:
        axes.scatter([x0], [y0], s=60, color=GOAL, zorder=6)
    axes.set_aspect("equal")
    axes.set_facecolor("white")
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
    axes.tick_params(labelsize=7, colors=MUTED, length=0)


def draw_planar_demo(
    arm: PlanarArm,
    task: PlanarTask,
    demonstrated: npt.NDArray[np.float64],
    samples: Mapping[str, npt.NDArray[np.float64]],
    table: Mapping[str, Mapping[str, float]],
    path: str | Path,
) -> None:
    """Draw demonstrated configurations and samples of each learner for one new line, and write a PNG or SVG.

    Configurations are (n, n_links) [rad]. The demonstrated configurations reach other lines. The simulator executed the
    samples of each learner. For each learner, the table contains `mean_distance` [m] and `share_reached` over all
    lines.
    """
    some = demonstrated[:: max(1, len(demonstrated) // N_SHOWN)]
    panels = {"Demonstrations of other lines": some, **samples}
    figure = Figure(figsize=(4.2 * len(panels), 4.8), layout="constrained")
    for place, (name, q) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        draw_task(place, task)
        draw_arms(place, arm, torch.as_tensor(q), COLOURS.get(name, "#555555"))
        title = TITLES.get(name, name)
        if name in table:
            figures = table[name]
            reached = 100.0 * figures["share_reached"]
            title += f"\n{figures['mean_distance']:.2f} m from new lines, {reached:.0f} % on them"
        place.set_title(title, fontsize=9)
        place.set_xlim(-2.5, 9.0)
        place.set_ylim(-8.0, 8.0)
        place.set_xlabel("x [m]", fontsize=8, color=MUTED)
    figure.axes[0].set_ylabel("y [m]", fontsize=8, color=MUTED)
    picture = io.BytesIO()
    figure.savefig(picture, format=Path(path).suffix[1:])
    write_atomically(path, picture.getvalue())
