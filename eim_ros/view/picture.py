"""Picture of an arm in many configurations for one pose, with a panel of their joint values.

The picture is a PNG of 1600 x 800 pixels, or an SVG. Colours mark self-motion components. If more than one direction is
free, they mark groups of similar arms (see `groups.py`).

The camera has a rotation R, a focus f and a distance d. The rows of R point right, up and towards the viewer. A point p
in the base frame is drawn at

    (x, y, z) = R (p - f),    picture = (x, y) / (1 - z / d)

Lengths at the focus are drawn to scale. An infinite distance gives a parallel projection. The 3-d axes of matplotlib
are not suitable, because the links of arms must be painted one by one from back to front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot, check_pose
from eim_ros.view.groups import group_arms, group_components
from eim_ros.view.labels import draw_heading, draw_joint_panel, draw_legend
from eim_ros.view.style import (
    AXIS_COLOURS,
    FAINT,
    FAMILY_COLOURS,
    GROUP_COLOURS,
    INK,
    LIMITS,
    MUTED,
    NO_GROUP_COLOUR,
    mixed,
    new_figure,
    write_figure,
)

BESIDE_TARGET = math.radians(62.0)
ELEVATION = math.radians(20.0)
UNDERGROUND, GROUND, LINES, ARMS, TARGET = 1.0, 2.0, 4.0, 5.0, 8.0  # values of zorder
BASE_WIDTH, TIP_WIDTH = 11.0, 5.5  # width of solid arms [points]
END_ON = 0.2  # axes that appear shorter than this fraction of their length are not drawn
PIECES = 8  # number of pieces per link; the ground may hide each piece separately
WIDTH, HEIGHT = 16.0, 8.0  # [inch], at 100 pixels per inch
SCENE = (0.025, 0.05, 0.56, 0.80)
PLANE = (0.055, 0.10, 0.53, 0.75)
PANEL = (0.655, 0.225, 0.325, 0.56)
MAX_LINES, MAX_SOLID = 400, 8
PLANAR_TOLERANCE = 1e-9  # Jacobian entries up to this value count as 0
ORIENTATION_HELD = 0.5  # [rad]; the orientation counts as prescribed if the median error is smaller


@dataclass(frozen=True, eq=False)
class Camera:
    """Position and direction of the viewer."""

    axes: FloatArray  # (3, 3), rows right, up and towards the viewer, in the base frame
    focus: FloatArray  # (3,), point drawn at its true scale [m]
    distance: float  # distance from the viewer to the focus [m]

    @classmethod
    def above(cls) -> Camera:
        """Return a camera that looks down at the x-y plane, for planar robots."""
        return cls(np.eye(3), np.zeros(3), math.inf)

    @classmethod
    def beside(cls, target: FloatArray, size: float) -> Camera:
        """Return a camera for a scene of this size [m]. The target (3,) is to the right of the base, and closer to the
        viewer.
        """
        azimuth = math.atan2(target[1], target[0]) - BESIDE_TARGET
        sine, cosine = math.sin(azimuth), math.cos(azimuth)
        low, high = math.sin(ELEVATION), math.cos(ELEVATION)
        axes = np.array([[-sine, cosine, 0.0], [-low * cosine, -low * sine, high], [high * cosine, high * sine, low]])
        return cls(axes, np.array([0.0, 0.0, 0.3 * size]), 4.5 * size)

    def project(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Project points (..., 3) [m] to picture coordinates (..., 2) and depth (...).

        The depth is larger for points nearer to the viewer.
        """
        seen = (points - self.focus) @ self.axes.T
        return seen[..., :2] * self.scale(seen[..., 2])[..., None], seen[..., 2]

    def scale(self, depth: FloatArray) -> FloatArray:
        """Return the magnification of an object at this depth compared with an object at the focus.

        The magnification is limited to 4, because a point may be behind the viewer.
        """
        return np.asarray(1.0 / np.maximum(1.0 - depth / self.distance, 0.25))


def draw_ground(axes: Axes, camera: Camera, centre: FloatArray, radius: float, cell: float) -> FloatArray:
    """Draw a disc of ground at height 0 with a centre (2,), radius and grid [m]. Return its rim (n, 2)."""
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
    """Draw the plane of a planar robot: a grid, and a dashed circle at its reach [m]."""
    axes.grid(color=LIMITS, linewidth=1.2)
    axes.set_axisbelow(True)
    rim = camera.project(_circle(reach))[0]
    axes.plot(*rim.T, color=FAINT, linewidth=1.6, linestyle=(0, (5, 4)), zorder=GROUND)


def draw_base(axes: Axes, camera: Camera, radius: float) -> FloatArray:
    """Draw a plinth of this radius [m] under the base. Return its rim (n, 2)."""
    rim = camera.project(_circle(radius))[0]
    axes.fill(*rim.T, color=MUTED, linewidth=0, zorder=GROUND + 0.5)
    axes.fill(*camera.project(_circle(0.72 * radius))[0].T, color=INK, linewidth=0, zorder=GROUND + 0.5)
    return rim


def draw_arm_lines(axes: Axes, camera: Camera, arms: FloatArray, colours: Sequence[str], ground: bool) -> None:
    """Draw arms (n, n_points, 3) as translucent lines, farthest first.

    Parts below the ground are painted before the ground and shine through it.
    """
    if len(arms) == 0:
        return
    steps = np.linspace(0.0, 1.0, PIECES, endpoint=False)[:, None]
    dense = arms[:, :-1, None] + steps * np.diff(arms, axis=1)[:, :, None]
    dense = np.concatenate([dense.reshape(len(arms), -1, 3), arms[:, -1:]], axis=1)
    lines, depth = camera.project(dense)
    order = np.argsort(depth.mean(axis=1))
    alpha = float(np.clip(4.5 / math.sqrt(len(arms)), 0.2, 0.6))
    below = (dense[..., 2] < 0.0) & ground
    for hidden, zorder in ((~below, UNDERGROUND), (below, LINES)):
        shown = np.where(hidden[..., None], np.nan, lines)
        drawn = [i for i in order if not hidden[i].all()]
        style: dict[str, Any] = {
            "linewidths": 1.1,
            "alpha": alpha,
            "zorder": zorder,
            "capstyle": "round",
            "joinstyle": "round",
        }
        paint = [colours[i] for i in drawn]
        axes.add_collection(LineCollection([shown[i] for i in drawn], colors=paint, **style), autolim=False)


def draw_solid_arms(axes: Axes, camera: Camera, arms: FloatArray, colours: Sequence[str], ground: bool) -> None:
    """Draw arms (n, n_points, 3) as thick links with discs at the joints, link by link from back to front.

    Links that have the same position in all arms are grey.
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
    """Draw a star at the target pose (4, 4), and its axes if `oriented` is true. Return the drawn points (n, 2)."""
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
    """Set the limits of axes with this ratio of width to height, to show all points (n, 2) at equal scale."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre, extent = (low + high) / 2, (1 + 2 * margin) * (high - low)
    height = max(extent[1], extent[0] / aspect)
    axes.set_xlim(centre[0] - aspect * height / 2, centre[0] + aspect * height / 2)
    axes.set_ylim(centre[1] - height / 2, centre[1] + height / 2)
    axes.set_aspect("equal", adjustable="box")


def _draw_link(axes: Axes, ends: FloatArray, width: FloatArray, colour: str, zorder: float) -> None:
    """Draw a tube with a dark outline and a highlight, and a joint at each end."""
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


@with_hints
def draw_solutions(
    robot: Robot, positions: npt.ArrayLike, pose: npt.ArrayLike, path: str | Path, *, title: str | None = None
) -> None:
    """Draw an arm in many configurations for one pose, and write the picture as PNG or SVG.

    Parameters
    ----------
    robot : Robot
        Robots that move only in the x-y plane are shown from above, and other robots from the side.
    positions : (n, dof) array_like
        Finite configurations [rad] or [m]; n may be 0. At most 400 evenly spaced rows are drawn as lines.
    pose : (4, 4) array_like
        Target pose of the tip in the base frame.
    path : str or Path
        File to write. After an error, no incomplete file remains.
    title : str, optional
        First line of the picture. By default, it contains the robot and the number of configurations.

    Raises
    ------
    DataError
        If configurations are not finite.
    RobotError, PoseError
        If configurations or the pose have a wrong shape.
    """
    target = check_pose(pose)
    arms = robot.skeleton(np.atleast_2d(positions))
    rows = np.asarray(positions, dtype=np.float64).reshape(len(arms), robot.dof)
    if not np.all(np.isfinite(arms)):
        raise DataError("the configurations to draw must be finite", positions)
    oriented = len(rows) == 0 or float(np.median(robot.pose_errors(rows, target)[1])) < ORIENTATION_HELD
    if oriented and np.count_nonzero(robot.lower < robot.upper) in (6, 7):
        groups = group_components(robot, rows, arms, target, len(FAMILY_COLOURS))
    else:
        groups = group_arms(arms, len(GROUP_COLOURS))
    palette = (*FAMILY_COLOURS, NO_GROUP_COLOUR)  # NO_GROUP is -1, which selects the last colour
    colours = [palette[label] for label in groups.labels]
    stand_for_others = groups.representatives[:MAX_SOLID]
    shown = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_LINES)).round().astype(np.int64))

    figure = new_figure(WIDTH, HEIGHT, layout=None)
    figure.set_facecolor("white")
    _draw_scene(figure, robot, target, oriented, arms[shown], [colours[i] for i in shown], arms[stand_for_others])
    drawn = np.concatenate([shown, stand_for_others])
    draw_joint_panel(
        figure.add_axes(PANEL), robot, rows[drawn], [colours[i] for i in drawn], np.arange(len(shown), len(drawn))
    )
    figure.text(PANEL[0] - 0.03, 0.812, "Joint values within their limits", fontsize=17, fontweight="bold", color=INK)
    draw_legend(figure, groups, 0.145, PANEL[0] - 0.03)
    draw_heading(figure, robot, len(rows), target, oriented, title or "")
    write_figure(figure, path)


def _draw_scene(
    figure: Figure,
    robot: Robot,
    pose: FloatArray,
    oriented: bool,
    arms: FloatArray,
    colours: list[str],
    solid: FloatArray,
) -> None:
    """Draw the left half: arms (n, n_points, 3) as lines, and the representatives as solid arms."""
    planar = _is_planar(robot)
    corners = np.concatenate([arms.reshape(-1, 3), solid.reshape(-1, 3), pose[None, :3, 3], np.zeros((1, 3))])
    size = float(np.abs(corners).max()) if len(arms) else max(float(np.abs(corners).max()), 0.6 * robot.reach)
    camera = Camera.above() if planar else Camera.beside(pose[:3, 3], size)
    box = PLANE if planar else SCENE
    axes = figure.add_axes(box)
    seen = [camera.project(corners)[0]]
    if planar:
        draw_plane(axes, camera, robot.reach)
        axes.set_xlabel("x [m]", fontsize=14, color=MUTED)
        axes.set_ylabel("y [m]", fontsize=14, color=MUTED, labelpad=8)
        axes.tick_params(length=0, labelsize=13, labelcolor=MUTED)
    else:
        centre, radius = _enclosing(corners[:, :2], 0.5 * size)
        cell = _round_length(radius / 2.4)
        seen.append(draw_ground(axes, camera, centre, radius, cell))
        axes.text(1.0, 0.0, f"grid {cell:g} m", transform=axes.transAxes, fontsize=13, color=MUTED, ha="right")
        axes.set_xticks([])
        axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    seen.append(draw_base(axes, camera, (0.035 if planar else 0.075) * size))
    draw_arm_lines(axes, camera, arms, colours, not planar)
    draw_solid_arms(axes, camera, solid, FAMILY_COLOURS[: len(solid)], not planar)
    seen.append(draw_target(axes, camera, pose, 0.16 * size, oriented))
    fit_view(axes, np.concatenate(seen), box[2] * WIDTH / (box[3] * HEIGHT))


def _is_planar(robot: Robot) -> bool:
    """Return whether the tip can move only along x and y, and turn only about z."""
    q = robot.random(8, np.random.default_rng(0))
    return float(np.abs(robot.jacobian(q)[:, 2:5]).max()) < PLANAR_TOLERANCE


def _enclosing(points: FloatArray, least: float) -> tuple[FloatArray, float]:
    """Return the centre (2,) and radius [m] of a circle around points (n, 2), with a margin and a minimum radius."""
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    return centre, 1.08 * max(float(np.linalg.norm(points - centre, axis=1).max()), least)


def _round_length(length: float) -> float:
    """Return the largest number of ..., 0.1, 0.2, 0.5, 1, 2, 5, ... that does not exceed a length [m]."""
    decade = 10.0 ** math.floor(math.log10(length))
    return max(step * decade for step in (1.0, 2.0, 5.0) if step * decade <= length * (1 + 1e-9))
