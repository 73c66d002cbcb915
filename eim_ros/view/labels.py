"""Heading, legend and joint panel of the picture.

The heading names the robot, the number of configurations and the pose. The legend explains the colours. The joint panel
shows joint values as parallel coordinates: one axis per joint, from its lower to its upper limit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from eim_ros.core.arrays import FloatArray
from eim_ros.kinematics import Robot, quaternion_from_matrix
from eim_ros.view.groups import NO_GROUP, Groups
from eim_ros.view.style import FAINT, FAMILY_COLOURS, INK, LIMITS, MUTED, NO_GROUP_COLOUR

SMALLEST_FONT = 8.0
BAND_WIDTH = 0.34  # width as a fraction of the distance between two joints
CROWDED = 55  # in rows with more letters, each word has a separate line
LEGEND, KEY, LEGEND_LINES = 58, 5, 3.4  # letters per line of the legend and per key, and number of lines
LARGEST, SMALLEST, ROOM = 14.0, 7.0, 595.0  # font sizes [pt]; a letter of size ROOM fills the width of the panel


def draw_heading(figure: Figure, robot: Robot, n: int, pose: FloatArray, oriented: bool, title: str) -> None:
    """Draw the title, and below it the tip link and the pose. An empty title selects the default title.

    The font is smaller for lines that are too long for the figure.
    """
    if not title:
        count = {0: "no configuration", 1: "one configuration"}.get(n, f"{n} configurations")
        title = f"{robot.name}: {count} for {'one' if n > 1 else 'this'} {'pose' if oriented else 'position'}"
    words = f"{robot.tip_link} at {pose_in_words(pose, oriented)}, in {robot.base_link}"
    heading = figure.text(0.025, 0.945, title, fontsize=25, fontweight="bold", color=INK, va="center")
    _shrink(figure, heading, 0.95)
    _shrink(figure, figure.text(0.025, 0.883, words, fontsize=16, color=MUTED, va="center"), 0.95)


def draw_legend(figure: Figure, groups: Groups, y: float, left: float) -> None:
    """Draw a legend with the size of each group.

    The first line is at `y` and the left end at `left`, in figure coordinates. A single group has no legend.
    """
    n_groups = len(groups.representatives)
    sizes = np.bincount(groups.labels[groups.labels != NO_GROUP], minlength=n_groups)
    rest = int(np.count_nonzero(groups.labels == NO_GROUP))
    branches = groups.branches or ("",) * n_groups
    names = [
        branch if branch and (sizes == 1).all() else f"{size}: {branch}" if branch else f"{size}"
        for size, branch in zip(sizes, branches, strict=True)
    ]
    keys: list[Any] = [Line2D([], [], color=colour, linewidth=5) for colour in FAMILY_COLOURS[:n_groups]]
    if rest:
        keys.append(Line2D([], [], color=NO_GROUP_COLOUR, linewidth=5))
        names.append(f"{rest} in others")
    if len(keys) < 2:
        return
    room = LEGEND / (max(map(len, names)) + KEY)  # number of columns in the default font
    fits = [min(1.0, LEGEND_LINES / math.ceil(len(keys) / n), room / n) for n in range(1, 8)]
    columns, size = max(n for n, fit in enumerate(fits, 1) if fit == max(fits)), 14.0 * max(fits)
    heading = figure.text(left, y, groups.heading, fontsize=14, color=MUTED, va="center")
    _shrink(figure, heading, 0.99 - left)
    figure.legend(
        keys,
        names,
        loc="upper left",
        bbox_to_anchor=(left, y - 0.018),
        bbox_transform=figure.transFigure,
        ncols=columns,
        frameon=False,
        fontsize=size,
        labelcolor=INK,
        handlelength=1.3,
        handletextpad=0.5,
        columnspacing=1.1,
        borderpad=0.0,
        borderaxespad=0.3,
    )


def pose_in_words(pose: FloatArray, oriented: bool) -> str:
    """Return the position [m] as text, with the quaternion if the pose is oriented."""
    position = ", ".join(_shown(value) for value in pose[:3, 3])
    if not oriented:
        return f"({position}) m, any orientation"
    quaternion = ", ".join(_shown(value) for value in quaternion_from_matrix(pose))
    return f"({position}) m, quaternion xyzw ({quaternion})"


def _shown(value: float) -> str:
    return f"{value + 0.0:.3f}".replace("-0.000", "0.000").replace("-", "\N{MINUS SIGN}")


def _shrink(figure: Figure, text: Text, width: float) -> None:
    """Reduce the font until the text fits into a fraction of the width of the figure. Truncate the text if
    necessary.
    """
    limit = width * figure.bbox.width
    extent = text.get_window_extent().width
    if extent > limit:
        text.set_fontsize(max(float(text.get_fontsize()) * limit / extent, SMALLEST_FONT))
    while text.get_window_extent().width > limit:
        kept = text.get_text()
        text.set_text(kept[: int(0.95 * len(kept)) - 1] + "…")


def draw_joint_panel(
    axes: Axes, robot: Robot, positions: FloatArray, colours: Sequence[str], solid: npt.NDArray[np.int64]
) -> None:
    """Draw each configuration (n, dof) as a line across the joints, thick for rows with an index in `solid`."""
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
        slides = bool(robot.prismatic[joint])
        for y, limit, side in ((1.02, upper, "bottom"), (-0.02, lower, "top")):
            words = axes.text(joint, y, _shown_joints(limit, slides), ha="center", va=side, fontsize=size, color=MUTED)
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
    """Return joint names without their common first and last words."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rfind("_") + 1
    rest = [name[begin:] for name in names]
    end = os.path.commonprefix([name[::-1] for name in rest]).rfind("_") + 1
    return [name[: len(name) - end] for name in rest]


def _shown_joints(value: float, slides: bool) -> str:
    text = f"{value:.2f} m" if slides else f"{math.degrees(value):.0f}°"
    return text.replace("-", "\N{MINUS SIGN}")
