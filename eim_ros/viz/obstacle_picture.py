"""Sampled arms of the expert and of one Gaussian by EM and by EIM, around a disc (thesis figure 1.1)."""

from __future__ import annotations

from pathlib import Path

import torch

from eim_ros.experiments.obstacle import ObstacleConfig, obstacle_arm
from eim_ros.experiments.table import ResultTable
from eim_ros.viz.figure_file import write_figure
from eim_ros.viz.palette import INK, METHOD_COLOURS, method_label
from eim_ros.viz.panels import panel_figure
from eim_ros.viz.planar_arms import draw_arms, draw_task

__all__ = ["draw"]


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: a panel for the expert and one for each method, of the first seed.

    Parameters
    ----------
    table : ResultTable
        Of the experiment obstacle.
    folder : Path

    Returns
    -------
    list of Path
    """
    arm, task = obstacle_arm(ObstacleConfig.from_mapping(table.settings))
    rows = table.where(seed=min(table.values("seed")))
    figure, panels = panel_figure(len(rows), 3.6, 3.3)
    for axes, row in zip(panels, rows, strict=True):
        draw_task(axes, task)
        draw_arms(axes, arm, torch.tensor(row["samples"], dtype=torch.float64), METHOD_COLOURS[row["method"]])
        label = method_label(row["method"], row["estimator"])
        figures = f"{row['collisions']:.1%} collide, {row['distance']:.2f} m off"
        axes.set_title(f"{label}\n{figures}", fontsize=9, color=INK)
        axes.set_xlim(-0.35 * arm.reach, 1.0 * arm.reach)
        axes.set_ylim(-0.55 * arm.reach, 0.55 * arm.reach)
        axes.set_xlabel("x [m]", fontsize=8)
        axes.set_ylabel("y [m]", fontsize=8)
    figure.supxlabel(
        "lines: 60 sampled arms; black dots: their tips, square: their base; green: the point to reach\n"
        "orange: the disc; off: mean distance of the tips to the point",
        fontsize=9,
    )
    return [write_figure(figure, folder / "obstacle.png")]
