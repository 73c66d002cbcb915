"""One pose, many configurations: a picture of the arm in all of them, beside their joint values.

The picture is a PNG of 1600 x 800 pixels, or an SVG. Colours tell families of solutions, or where more than one
direction is free groups of configurations, each around the solid arm that stands for it (see `representatives.py`).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.errors import DataError
from eim_ros.kinematics import Robot
from eim_ros.kinematics.pose import check_pose
from eim_ros.kinematics.task import redundancy
from eim_ros.viz.camera import Camera
from eim_ros.viz.captions import draw_heading, draw_legend
from eim_ros.viz.figure_file import write_figure
from eim_ros.viz.joint_panel import draw_joint_panel
from eim_ros.viz.palette import FAMILY_COLOURS, GROUP_COLOURS, INK, MUTED, NO_GROUP_COLOUR
from eim_ros.viz.representatives import group_arms, group_families
from eim_ros.viz.scene import (
    draw_arm_lines,
    draw_base,
    draw_ground,
    draw_plane,
    draw_solid_arms,
    draw_target,
    fit_view,
)

__all__ = ["draw_solutions"]

FloatArray = npt.NDArray[np.float64]

WIDTH, HEIGHT = 16.0, 8.0  # [inch], at 100 pixels each
SCENE = (0.025, 0.05, 0.56, 0.80)
PLANE = (0.055, 0.10, 0.53, 0.75)
PANEL = (0.655, 0.225, 0.325, 0.56)
MAX_LINES, MAX_SOLID = 400, 8
PLANAR_TOLERANCE = 1e-9  # rows of a Jacobian that are 0
ORIENTATION_HELD = 0.5  # [rad]: arms nearer than this to the wanted orientation were asked for it


def draw_solutions(
    robot: Robot,
    positions: npt.ArrayLike,
    pose: npt.ArrayLike,
    path: str | Path,
    *,
    title: str | None = None,
) -> None:
    """Draw the arm in many configurations for one pose, and write the picture as PNG or SVG.

    Parameters
    ----------
    robot : Robot
        One that moves in the x-y plane only is seen from above, every other from the side.
    positions : (n, dof) array_like
        Finite configurations [rad] or [m]; n may be 0. At most 400 of them, evenly spaced, become lines.
    pose : (4, 4) array_like
        Wanted pose of the tip in the base frame.
    path : str or Path
        File to write, at once or not at all.
    title : str, optional
        First line of the picture; default says robot and number of configurations.

    Raises
    ------
    DataError
        If configurations are not finite.
    RobotError, PoseError
        If configurations or pose have a wrong shape.
    """
    target = check_pose(pose)
    arms = robot.skeleton(np.atleast_2d(positions))
    rows = np.asarray(positions, dtype=np.float64).reshape(len(arms), robot.dof)
    if not np.all(np.isfinite(arms)):
        raise DataError("configurations to draw must be finite", positions)
    oriented = len(rows) == 0 or float(np.median(robot.pose_errors(rows, target)[1])) < ORIENTATION_HELD
    if oriented and redundancy(robot.bounds, position_only=False) in (0, 1):
        groups = group_families(robot, rows, arms, target, len(FAMILY_COLOURS))
    else:
        groups = group_arms(arms, len(GROUP_COLOURS))
    palette = (*FAMILY_COLOURS, NO_GROUP_COLOUR)  # NO_GROUP is its last
    colours = [palette[label] for label in groups.labels]
    stand_for_others = groups.representatives[:MAX_SOLID]
    shown = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_LINES)).round().astype(np.int64))

    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
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
    """The left half: arms (n, n_points, 3) as lines, and the solid ones of each group."""
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
    """Whether the tip can only move along x and y and turn about z."""
    q = robot.sample_configurations(8, np.random.default_rng(0))
    return float(np.abs(robot.jacobian(q)[:, 2:5]).max()) < PLANAR_TOLERANCE


def _enclosing(points: FloatArray, least: float) -> tuple[FloatArray, float]:
    """Centre (2,) and radius, with a margin, of a circle around points (n, 2); at least so large [m]."""
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    return centre, 1.08 * max(float(np.linalg.norm(points - centre, axis=1).max()), least)


def _round_length(length: float) -> float:
    """The largest of ..., 0.1, 0.2, 0.5, 1, 2, 5, ... that is not above a length [m]."""
    decade = 10.0 ** math.floor(math.log10(length))
    return max(step * decade for step in (1.0, 2.0, 5.0) if step * decade <= length * (1 + 1e-9))
