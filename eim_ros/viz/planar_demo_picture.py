"""Picture of the planar demonstration: samples of EM and of EIM, and how far from the line the simulator found them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.experiments.line_reaching import LineReachingResult
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.planar_arms import draw_arms, draw_task

__all__ = ["draw_planar_demo"]

COLOURS = {"EM": "#0072B2", "EIM + tip": "#E69F00"}
TITLES = {"EM": "EM", "EIM + tip": "EIM, told about the tip"}


def draw_planar_demo(
    result: LineReachingResult,
    samples: Mapping[str, npt.NDArray[np.float64]],
    table: Mapping[str, Mapping[str, float]],
    path: str | Path,
) -> None:
    """Write a PNG.

    Parameters
    ----------
    result : LineReachingResult
        Arm, task, and the expert's test configurations.
    samples : mapping of str to (n, n_links)
        Configurations [rad] of each learner that the simulator executed.
    table : mapping
        Of each learner: mean_distance [m] and share_reached.
    path : str or Path
    """
    panels = {"the expert": result.test[: len(next(iter(samples.values())))], **samples}
    figure = new_figure(4.2 * len(panels), 4.8)
    for place, (name, q) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        draw_task(place, result.task)
        draw_arms(place, result.arm, torch.as_tensor(q), COLOURS.get(name, "#555555"))
        title = TITLES.get(name, name)
        if name in table:
            figures = table[name]
            reached = 100.0 * figures["share_reached"]
            title += f"\n{figures['mean_distance']:.2f} m from the line, {reached:.0f} % on it"
        place.set_title(title, fontsize=9)
        place.set_xlim(-2.5, 9.0)
        place.set_ylim(-8.0, 8.0)
    write_figure(figure, path)
