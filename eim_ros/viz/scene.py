"""The arms in space: ground, base, every configuration as a translucent line, few as solid arms, the target.

All of it is projected by a `Camera` and painted from back to front onto plain 2-d axes. What is below the ground is
painted before it, and shines through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from eim_ros.viz.camera import Camera
from eim_ros.viz.palette import AXIS_COLOURS, FAINT, INK, LIMITS, MUTED, mixed

__all__ = ["draw_arm_lines", "draw_base", "draw_ground", "draw_plane", "draw_solid_arms", "draw_target", "fit_view"]

FloatArray = npt.NDArray[np.float64]

UNDERGROUND, GROUND, LINES, ARMS, TARGET = 1.0, 2.0, 4.0, 5.0, 8.0  # zorder
BASE_WIDTH, TIP_WIDTH = 11.0, 5.5  # of solid arms [points]
END_ON = 0.2  # an axis that looks shorter than this part of its length is left out
PIECES = 8  # of each link, hidden or not by the ground one by one


def draw_ground(axes: Axes, camera: Camera, centre: FloatArray, radius: float, cell: float) -> FloatArray:
    """A disc of ground at height 0 around a centre (2,), with a grid of this cell size [m]; returns its rim (n, 2)."""
    rim = camera.project(_circle(radius) + [*centre, 0.0])[0]
    axes.fill(*rim.T, facecolor=LIMITS, edgecolor=FAINT, linewidth=1.0, alpha=0.8, zorder=GROUND)
    lines = []
    for axis in (0, 1):
        first, last = math.ceil((centre[axis] - radius) / cell), math.floor((centre[axis] + radius) / cell)
        for value in cell * np.arange(first, last + 1):
            half = math.sqrt(max(radius**2 - (value - centre[axis]) ** 2, 0.0))
            ends = np.zeros((2, 3))
            ends[:, axis] = value
            ends[:, 1 - axis] = centre[1 - axis] - half, centre[1 - axis] + half
            lines.append(camera.project(ends)[0])
    axes.add_collection(LineCollection(lines, colors="white", linewidths=1.4, zorder=GROUND), autolim=False)
    return rim


def draw_plane(axes: Axes, camera: Camera, reach: float) -> None:
    """The plane of a planar robot: a grid, and a dashed circle of its reach [m]."""
    axes.grid(color=LIMITS, linewidth=1.2)
    axes.set_axisbelow(True)
    rim = camera.project(_circle(reach))[0]
    axes.plot(*rim.T, color=FAINT, linewidth=1.6, linestyle=(0, (5, 4)), zorder=GROUND)


def draw_base(axes: Axes, camera: Camera, radius: float) -> FloatArray:
    """A plinth under the base, as wide as this radius [m]; returns its rim (n, 2)."""
    rim = camera.project(_circle(radius))[0]
    axes.fill(*rim.T, color=MUTED, linewidth=0, zorder=GROUND + 0.5)
    axes.fill(*camera.project(_circle(0.72 * radius))[0].T, color=INK, linewidth=0, zorder=GROUND + 0.5)
    return rim


def draw_arm_lines(axes: Axes, camera: Camera, arms: FloatArray, colours: Sequence[str], ground: bool) -> None:
    """Arms (n, n_points, 3) as translucent lines, farthest first."""
    if len(arms) == 0:
        return
    steps = np.linspace(0.0, 1.0, PIECES, endpoint=False)[:, None]
    dense = np.concatenate([arms[:, :-1, None] + steps * np.diff(arms, axis=1)[:, :, None]], axis=0)
    dense = np.concatenate([dense.reshape(len(arms), -1, 3), arms[:, -1:]], axis=1)
    lines, depth = camera.project(dense)
    order = np.argsort(depth.mean(axis=1))
    alpha = float(np.clip(4.5 / math.sqrt(len(arms)), 0.2, 0.6))
    below = (dense[..., 2] < 0.0) & ground
    for hidden, zorder in ((~below, UNDERGROUND), (below, LINES)):
        shown = np.where(hidden[..., None], np.nan, lines)
        drawn = [i for i in order if not hidden[i].all()]
        axes.add_collection(
            LineCollection(
                [shown[i] for i in drawn],
                colors=[colours[i] for i in drawn],
                linewidths=1.1,
                alpha=alpha,
                zorder=zorder,
                capstyle="round",
                joinstyle="round",
            ),
            autolim=False,
        )


def draw_solid_arms(axes: Axes, camera: Camera, arms: FloatArray, colours: Sequence[str], ground: bool) -> None:
    """Arms (n, n_points, 3) as thick links with discs at the joints, painted link by link from back to front.

    Links that do not move between the arms are grey.
    """
    links = []
    shared = np.ptp(arms, axis=0).max(axis=-1) < 1e-9 if len(arms) > 1 else np.zeros(arms.shape[1], dtype=np.bool_)
    for arm, colour in zip(arms, colours, strict=True):
        points, depth = camera.project(arm)
        if ground:
            shadow = camera.project(arm * [1.0, 1.0, 0.0])[0]
            axes.plot(*shadow.T, color=INK, alpha=0.09, linewidth=6, solid_capstyle="round", zorder=GROUND + 0.2)
        share = np.linspace(0.0, 1.0, len(arm))
        width = (BASE_WIDTH + (TIP_WIDTH - BASE_WIDTH) * share) * camera.scale(depth)
        for i in range(len(arm) - 1):
            underground = ground and arm[i : i + 2, 2].mean() < 0.0
            paint = MUTED if shared[i : i + 2].all() else colour
            links.append((not underground, depth[i : i + 2].mean(), points[i : i + 2], width[i : i + 2], paint))
    for rank, (above, _, ends, width, colour) in enumerate(sorted(links, key=lambda link: link[:2])):
        zorder = (ARMS if above else UNDERGROUND) + 0.5 + rank / (2 * len(links))
        _draw_link(axes, ends, width, colour, zorder)


def draw_target(axes: Axes, camera: Camera, pose: FloatArray, axis_length: float, oriented: bool) -> FloatArray:
    """A star at the wanted pose (4, 4), with its axes where the orientation counts; returns the points (n, 2) used."""
    star = camera.project(pose[:3, 3])[0]
    used = [star]
    if oriented:
        tips = camera.project(pose[:3, 3] + axis_length * pose[:3, :3].T)[0]
        for name, colour, tip in zip("xyz", AXIS_COLOURS, tips, strict=True):
            if np.linalg.norm(tip - star) < END_ON * axis_length:
                continue
            line, label = np.array([star, tip]), star + 1.28 * (tip - star)
            axes.plot(*line.T, color="white", linewidth=7, solid_capstyle="round", zorder=TARGET)
            axes.plot(*line.T, color=colour, linewidth=3.5, solid_capstyle="round", zorder=TARGET + 0.1)
            words = axes.text(
                label[0], label[1], name, color=colour, fontsize=14, fontweight="bold", ha="center", va="center"
            )
            words.set(zorder=TARGET + 0.4, path_effects=[withStroke(linewidth=4, foreground="white")])
            used.append(label)
    axes.plot(*star, marker="*", markersize=25, color=INK, markeredgecolor="white", mew=1.8, zorder=TARGET + 0.2)
    return np.array(used)


def fit_view(axes: Axes, points: FloatArray, aspect: float, margin: float = 0.05) -> None:
    """Show all points (n, 2) at equal scale, filling axes of this width to height."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre, extent = (low + high) / 2, (1 + 2 * margin) * (high - low)
    height = max(extent[1], extent[0] / aspect)
    axes.set_xlim(centre[0] - aspect * height / 2, centre[0] + aspect * height / 2)
    axes.set_ylim(centre[1] - height / 2, centre[1] + height / 2)
    axes.set_aspect("equal", adjustable="box")


def _draw_link(axes: Axes, ends: FloatArray, width: FloatArray, colour: str, zorder: float) -> None:
    """A tube with a dark outline and a highlight, and the joint at its near end."""
    dark, light = mixed(colour, INK, 0.55), mixed(colour, "#FFFFFF", 0.45)
    for part, paint in ((1.0, dark), (0.72, colour), (0.2, light)):
        axes.plot(*ends.T, color=paint, linewidth=part * width.mean(), solid_capstyle="round", zorder=zorder)
    for end, size in zip(ends, width, strict=True):
        axes.plot(*end, "o", markersize=1.25 * size, color=dark, markeredgewidth=0, zorder=zorder)
        axes.plot(*end, "o", markersize=0.8 * size, color="white", markeredgewidth=0, zorder=zorder)
        axes.plot(*end, "o", markersize=0.4 * size, color=colour, markeredgewidth=0, zorder=zorder)


def _circle(radius: float) -> FloatArray:
    angle = np.linspace(0.0, 2.0 * np.pi, 121)
    return radius * np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=-1)
