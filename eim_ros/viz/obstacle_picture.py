"""Sampled arms of the expert and of one Gaussian by EM and by EIM, around a disc (thesis figure 1.1)."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.experiments.obstacle import LEARNERS, ObstacleResult
from eim_ros.numerics import write_atomically
from eim_ros.viz.palette import GROUP_COLOURS, INK, NO_GROUP_COLOUR
from eim_ros.viz.planar_arms import draw_arms, draw_task

__all__ = ["draw_obstacle"]

N_DRAWN = 60


def draw_obstacle(result: ObstacleResult, path: str | Path) -> None:
    """Write a PNG: a panel for the expert and one for each learner.

    Parameters
    ----------
    result : ObstacleResult
    path : path
        Of the PNG.
    """
    figure = Figure(figsize=(12, 4.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    generator = torch.Generator().manual_seed(0)
    rows = [("expert", result.expert[:N_DRAWN], result.expert_collisions, result.expert_distance, NO_GROUP_COLOUR)]
    for learner, colour in zip(LEARNERS, GROUP_COLOURS[1::-1], strict=True):
        fit = result.fits[learner]
        drawn = fit.mixture.sample(N_DRAWN, generator)
        rows.append((learner, drawn, fit.collisions, fit.distance, colour))
    reach = result.arm.reach
    for axes, (name, drawn, collisions, distance, colour) in zip(panels, rows, strict=True):
        draw_task(axes, result.task)
        draw_arms(axes, result.arm, drawn, colour)
        title = f"{name}: {collisions:.1%} collide, {distance:.2f} m off"
        axes.set_title(title, fontsize=10, color=INK)
        axes.set_xlim(-0.35 * reach, 1.0 * reach)
        axes.set_ylim(-0.65 * reach, 0.65 * reach)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
