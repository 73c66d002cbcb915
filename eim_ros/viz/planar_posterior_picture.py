"""Postures of a planar robot in samples of a mixture, a panel for each goal, in the colours of the components."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.planar import PlanarArm
from eim_ros.targets import PlanarRobot
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import GROUP_COLOURS, INK, LIMITS, MUTED, NO_GROUP_COLOUR

__all__ = ["draw_planar_posterior"]

N_SAMPLES = 2000
N_DRAWN = 60  # of each goal


def draw_planar_posterior(
    target: PlanarRobot,
    mixture: GaussianMixture,
    path: str | Path,
    *,
    generator: torch.Generator | None = None,
    title: str = "",
) -> None:
    """Write a PNG.

    Arms of the components with the most weight at a goal have a colour each, others are grey.

    Parameters
    ----------
    target : PlanarRobot
    mixture : GaussianMixture
        Of its joint angles [rad].
    path : path
        Of the PNG.
    generator : torch.Generator, optional
        Seed 0 if missing.
    title : str
        Above all panels.
    """
    generator = generator or torch.Generator().manual_seed(0)
    q, component = mixture.sample_with_components(N_SAMPLES, generator)
    nearest = target.nearest_goal(q)
    n = len(target.goals)
    figure = new_figure(3.6 * n, 4.2)
    for goal, axes in enumerate(figure.subplots(1, n, squeeze=False)[0]):
        here = nearest == goal
        _draw_goal(axes, target, goal, q[here], component[here])
        share = float(here.double().mean())
        inside = (target.tip(q[here]) - target.goals[goal]).norm(dim=-1) < 3.0 * target.tolerance
        reached = f", {100.0 * float(inside.double().mean()):.0f} % of it there" if bool(here.any()) else ""
        axes.set_title(f"{100.0 * share:.1f} % of the mass{reached}", fontsize=9, color=INK)
    if title:
        figure.suptitle(title, fontsize=11, color=INK)
    write_figure(figure, path)


def _draw_goal(axes: Axes, target: PlanarRobot, goal: int, q: Tensor, component: Tensor) -> None:
    """Arms (n_links + 1 points each), the goal, the base."""
    arm = PlanarArm(n_links=target.n_dims)
    points, owners = arm.points(q[:N_DRAWN]).numpy(), component[:N_DRAWN].tolist()
    _, counts = component.unique(return_counts=True)
    frequent = component.unique()[counts.argsort(descending=True)][: len(GROUP_COLOURS)].tolist()
    colours = [GROUP_COLOURS[frequent.index(owner)] if owner in frequent else NO_GROUP_COLOUR for owner in owners]
    axes.add_collection(LineCollection(list(points), colors=colours, linewidths=0.9, alpha=0.6, zorder=2))
    x, y = target.goals[goal].tolist()
    axes.scatter([x], [y], s=70, marker="x", color=INK, zorder=4)
    axes.scatter([0.0], [0.0], s=22, marker="s", color=INK, zorder=4)
    reach = 1.02 * float(target.goals.norm(dim=-1).max())
    axes.set_xlim(-reach - 1.0, reach + 1.0)
    axes.set_ylim(-reach - 1.0, reach + 1.0)
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
    axes.tick_params(labelsize=7, colors=MUTED, length=0)
