"""Joint values as parallel coordinates: one axis per joint, from its lower to its upper limit."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from eim_ros.kinematics import Robot
from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE
from eim_ros.viz.palette import FAINT, INK, LIMITS, MUTED

__all__ = ["draw_joint_panel"]

FloatArray = npt.NDArray[np.float64]

BAND_WIDTH = 0.34  # of the distance between two joints
CROWDED = 55  # letters side by side, above which names take a line for each word
LARGEST, SMALLEST, ROOM = 14.0, 7.0, 595.0  # sizes of letters [pt]; that of one that takes all of the panel's width


def draw_joint_panel(
    axes: Axes, robot: Robot, positions: FloatArray, colours: Sequence[str], solid: npt.NDArray[np.int64]
) -> None:
    """Draw each configuration (n, dof) as a line across the joints; those with the indices `solid` thick."""
    joints = np.arange(robot.dof)
    span = np.where(robot.upper > robot.lower, robot.upper - robot.lower, 1.0)
    shares = (positions - robot.lower) / span
    axes.bar(joints, 1.0, BAND_WIDTH, color=LIMITS, edgecolor=FAINT, linewidth=1.0, zorder=1)
    alpha = float(np.clip(4.5 / math.sqrt(max(len(shares), 1)), 0.13, 0.6))
    thick = set(solid.tolist())
    thin = [i for i in range(len(shares)) if i not in thick]
    for group, width, opacity, zorder in ((thin, 1.0, alpha, 2), (solid, 6.0, 1.0, 3), (solid, 3.2, 1.0, 3)):
        paint = "white" if width == 6.0 else [colours[i] for i in group]
        lines = [np.stack([joints, shares[i]], axis=-1) for i in group]
        axes.add_collection(
            LineCollection(lines, colors=paint, linewidths=width, alpha=opacity, zorder=zorder, joinstyle="round"),
            autolim=False,
        )
    for i in solid:
        axes.plot(joints, shares[i], "o", color=colours[i], markersize=8, mec="white", mew=1.5, zorder=4)
    low, high = (min(shares.min(), 0.0), max(shares.max(), 1.0)) if len(shares) else (0.0, 1.0)
    axes.set_ylim(max(low, -2.0) - 0.09, min(high, 3.0) + 0.09)
    axes.set_xlim(-0.5, robot.dof - 0.5)
    size = max(min(13.0, 100.0 / robot.dof), 8.0)
    for joint, (lower, upper) in enumerate(zip(robot.lower, robot.upper, strict=True)):
        slides = _slides(robot, joint)
        for y, limit, side in ((1.02, upper, "bottom"), (-0.02, lower, "top")):
            words = axes.text(joint, y, _shown(limit, slides), ha="center", va=side, fontsize=size, color=MUTED)
            words.set(zorder=5, path_effects=[withStroke(linewidth=3, foreground="white")])
    axes.set_yticks([0.0, 0.5, 1.0], ["lower\nlimit", "middle", "upper\nlimit"], fontsize=13, color=MUTED)
    labels = short_names(robot.joint_names)
    if max(map(len, labels)) * robot.dof > CROWDED:
        labels = [label.replace("_", "\n") for label in labels]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    size = min(LARGEST, max(SMALLEST, ROOM / (longest * robot.dof)))
    axes.set_xticks(joints, labels, fontsize=size, color=INK, va="top")
    axes.tick_params(length=0, pad=8)
    for spine in axes.spines.values():
        spine.set_visible(False)


def short_names(names: Sequence[str]) -> list[str]:
    """Joint names without the words that all begin or end with."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rfind("_") + 1
    rest = [name[begin:] for name in names]
    backwards = os.path.commonprefix([name[::-1] for name in rest])
    end = backwards.rfind("_") + 1
    return [name[: len(name) - end] for name in rest]


def _slides(robot: Robot, joint: int) -> bool:
    rows = robot.links[:-1]
    own = (rows[:, SOURCE] == joint) & (rows[:, MULTIPLIER] == 1.0) & (rows[:, OFFSET] == 0.0)
    return bool(rows[own][0, PRISMATIC]) if own.any() else False


def _shown(value: float, slides: bool) -> str:
    text = f"{value:.2f} m" if slides else f"{math.degrees(value):.0f}°"
    return text.replace("-", "\N{MINUS SIGN}")
