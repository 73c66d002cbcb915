"""Planar arms, their goal and obstacles, drawn in the plane of the robot."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle
from torch import Tensor

from eim_ros.planar import PlanarArm, PlanarTask
from eim_ros.viz.palette import INK, LIMITS, MUTED

__all__ = ["draw_arms", "draw_task"]

GOAL = "#009E73"
DISC = "#D55E00"


def draw_arms(axes: Axes, arm: PlanarArm, q: Tensor, colour: str, alpha: float = 0.35) -> None:
    """Arms (n, n_links) [rad], a dot at each tip and at the base.

    Parameters
    ----------
    axes : Axes
    arm : PlanarArm
    q : Tensor (n, n_links)
    colour : str
    alpha : float
        Opacity of an arm.
    """
    points = arm.points(q).numpy()
    axes.add_collection(LineCollection(list(points), colors=colour, linewidths=0.8, alpha=alpha, zorder=2))
    axes.scatter(points[:, -1, 0], points[:, -1, 1], s=5, color=INK, linewidths=0.0, zorder=4)
    axes.scatter([0.0], [0.0], s=22, color=INK, marker="s", zorder=5)


def draw_task(axes: Axes, task: PlanarTask) -> None:
    """Line or point, and discs."""
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
