"""Postures of a humanoid in samples of a mixture: lines between its joints, seen from three sides."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.targets import HumanoidPosterior
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED

__all__ = ["draw_humanoid"]

VIEWS = (("from the front", 1, 2), ("from the side", 0, 2), ("from above", 0, 1))  # coordinates across and up
MARGIN = 0.1  # [m]


def draw_humanoid(
    target: HumanoidPosterior,
    mixture: GaussianMixture,
    path: str | Path,
    *,
    n_drawn: int = 8,
    generator: torch.Generator | None = None,
    title: str = "",
) -> Path:
    """Write a PNG; postures have the colours of their components, goals of feet and hand are crosses.

    Parameters
    ----------
    target : HumanoidPosterior
    mixture : GaussianMixture
        Of its joints, then position [m] and roll, pitch, yaw [rad] of its base.
    path : path
        Of the PNG.
    n_drawn : int
        Postures.
    generator : torch.Generator, optional
        Seed 0 if missing.
    title : str
        Above all views.
    """
    generator = generator or torch.Generator().manual_seed(0)
    sample, component = mixture.sample_with_components(n_drawn, generator)
    segments = target.skeleton(sample)
    goals = torch.cat([target.foot_goals, target.hand_goal[None]])
    figure = new_figure(10.0, 4.6)
    for axes, (name, across, up) in zip(figure.subplots(1, len(VIEWS)), VIEWS, strict=True):
        _draw_view(axes, segments[..., [across, up]], component, goals[:, [across, up]])
        axes.set_title(f"{name} [m]", fontsize=9, color=INK)
    if title:
        figure.suptitle(title, fontsize=11, color=INK)
    return write_figure(figure, Path(path))


def _draw_view(axes: Axes, segments: Tensor, component: Tensor, goals: Tensor) -> None:
    """Segments (n_samples, n_segments, 2, 2) in the plane of the view [m]."""
    for posture, number in zip(segments, component.tolist(), strict=True):
        colour = GROUP_COLOURS[number % len(GROUP_COLOURS)]
        axes.add_collection(LineCollection(list(posture.numpy()), colors=colour, linewidths=1.4, alpha=0.7))
    axes.plot(goals[:, 0], goals[:, 1], "+", color=INK, markersize=9, zorder=3)
    points = torch.cat([segments.flatten(0, 2), goals])
    (left, low), (right, high) = (points.amin(0) - MARGIN).tolist(), (points.amax(0) + MARGIN).tolist()
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.grid(color=FAINT, linewidth=0.5)
    axes.tick_params(labelsize=7, colors=MUTED, length=0)
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
