"""Words of the picture: what robot, how many configurations, which pose, and what the colours mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from eim_ros.kinematics import Robot, quaternion_from_matrix
from eim_ros.viz.palette import FAMILY_COLOURS, INK, MUTED, NO_GROUP_COLOUR
from eim_ros.viz.representatives import NO_GROUP, Groups

__all__ = ["draw_heading", "draw_legend", "pose_in_words"]

FloatArray = npt.NDArray[np.float64]

SMALLEST_FONT = 8.0


def draw_heading(figure: Figure, robot: Robot, n: int, pose: FloatArray, oriented: bool, title: str) -> None:
    """Two lines at the top: the title (default if empty), then tip and pose; shrunk to fit if they are long."""
    if not title:
        count = {0: "no configuration", 1: "one configuration"}.get(n, f"{n} configurations")
        title = f"{robot.name}: {count} for {'one' if n > 1 else 'this'} {'pose' if oriented else 'position'}"
    words = f"{robot.tip_link} at {pose_in_words(pose, oriented)}, in {robot.base_link}"
    heading = figure.text(0.025, 0.945, title, fontsize=25, fontweight="bold", color=INK, va="center")
    _shrink(figure, heading, 0.95)
    _shrink(figure, figure.text(0.025, 0.883, words, fontsize=16, color=MUTED, va="center"), 0.95)


def draw_legend(figure: Figure, groups: Groups, y: float, left: float) -> None:
    """Below the joint panel, with its left end at `left` and its first line at `y`: the size of each group."""
    n_groups = len(groups.representatives)
    sizes = np.bincount(groups.labels[groups.labels != NO_GROUP], minlength=n_groups)
    rest = int(np.count_nonzero(groups.labels == NO_GROUP))
    names = [f"{size}" for size in sizes]
    keys: list[Any] = [Line2D([], [], color=colour, linewidth=5) for colour in FAMILY_COLOURS[:n_groups]]
    if rest:
        keys.append(Line2D([], [], color=NO_GROUP_COLOUR, linewidth=5))
        names.append(f"{rest} in others")
    if len(keys) < 2:
        return
    heading = figure.text(left, y, groups.heading, fontsize=14, color=MUTED, va="center")
    _shrink(figure, heading, 0.99 - left)
    figure.legend(
        keys,
        names,
        loc="upper left",
        bbox_to_anchor=(left, y - 0.018),
        bbox_transform=figure.transFigure,
        ncols=7,
        frameon=False,
        fontsize=14,
        labelcolor=INK,
        handlelength=1.3,
        handletextpad=0.5,
        columnspacing=1.1,
        borderpad=0.0,
        borderaxespad=0.3,
    )


def pose_in_words(pose: FloatArray, oriented: bool) -> str:
    """Position [m], and the quaternion if the orientation counts."""
    position = ", ".join(_shown(value) for value in pose[:3, 3])
    if not oriented:
        return f"({position}) m, any orientation"
    quaternion = ", ".join(_shown(value) for value in quaternion_from_matrix(pose))
    return f"({position}) m, quaternion xyzw ({quaternion})"


def _shown(value: float) -> str:
    return f"{value + 0.0:.3f}".replace("-0.000", "0.000").replace("-", "\N{MINUS SIGN}")


def _shrink(figure: Figure, text: Text, width: float) -> None:
    """Reduce the font until the text is no wider than this part of the figure, then cut it off."""
    limit = width * figure.bbox.width
    extent = text.get_window_extent().width
    if extent > limit:
        text.set_fontsize(max(float(text.get_fontsize()) * limit / extent, SMALLEST_FONT))
    while text.get_window_extent().width > limit:
        kept = text.get_text()
        text.set_text(kept[: int(0.95 * len(kept)) - 1] + "…")
