"""I- against M-projection of three targets: what each looks for, and what it gives up."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes

from eim_ros.distributions import Gaussian
from eim_ros.experiments.closed_form_facts import Isotropic, MeanField, TwoModes
from eim_ros.experiments.projections import projections_of
from eim_ros.experiments.table import ResultTable
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, LIMITS, METHOD_COLOURS, MUTED

__all__ = ["draw"]

FloatArray = npt.NDArray[np.float64]

I_COLOUR, M_COLOUR, TRAP_COLOUR = METHOD_COLOURS["EIM"], METHOD_COLOURS["EM"], GROUP_COLOURS[3]
N_SHOWN = 30  # half sweeps of the coordinate ascent


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with a panel for each target, of the first seed.

    Parameters
    ----------
    table : ResultTable
        Of the experiment projections.
    folder : Path

    Returns
    -------
    list of Path
    """
    found = projections_of(table.where(seed=min(table.values("seed"))))
    figure = new_figure(11, 4.2)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    _draw_two_modes(left, found.two_modes)
    _draw_isotropic(middle, found.isotropic)
    _draw_mean_field(right, found.mean_field)
    figure.supxlabel(
        "middle and right: ellipses at one and two deviations; target: dark and light grey, models: thick and thin",
        fontsize=9,
        color=MUTED,
    )
    return [write_figure(figure, folder / "projections.png")]


def _draw_two_modes(axes: Axes, found: TwoModes) -> None:
    grid = torch.linspace(-9.0, 9.0, 901, dtype=torch.float64).unsqueeze(-1)
    x = grid[:, 0].numpy()

    def density(model: Gaussian) -> FloatArray:
        return np.asarray(model.log_prob(grid).exp().numpy())

    axes.fill_between(x, found.target.log_prob(grid).exp().numpy(), color=FAINT, linewidth=0.0, label="target p")
    axes.plot(
        x, density(found.right), color=I_COLOUR, linewidth=2.0, label="I-projection: one mode, KL(q || p) = log 2"
    )
    axes.plot(x, density(found.left), color=I_COLOUR, linewidth=1.2, linestyle=":", label="... or the other")
    axes.plot(x, density(found.moments), color=M_COLOUR, linewidth=2.0, label="M-projection: mean and variance of p")
    axes.plot(
        x, density(found.between), color=TRAP_COLOUR, linewidth=1.5, linestyle="--", label="local minimum of KL(q || p)"
    )
    axes.set_ylim(0.0, 0.85)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _finish(axes, "one Gaussian for two modes", "x", "density")


def _draw_isotropic(axes: Axes, found: Isotropic) -> None:
    _fill(axes, found.target)
    _outline(axes, found.i_projection, I_COLOUR, "I: harmonic mean of the variances")
    _outline(axes, found.m_projection, M_COLOUR, "M: their mean")
    axes.set_xlim(-5.5, 5.5)
    axes.set_ylim(-5.0, 7.0)
    axes.set_aspect("equal")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _finish(axes, "isotropic q for variances 1 and 4", "x$_1$", "x$_2$")


def _draw_mean_field(axes: Axes, found: MeanField) -> None:
    _fill(axes, found.target)
    _outline(axes, found.i_projection, I_COLOUR, "I: variances of the conditionals")
    _outline(axes, found.m_projection, M_COLOUR, "M: of the marginals")
    path = found.path[: N_SHOWN + 1].numpy()
    axes.plot(path[:, 0], path[:, 1], color=INK, linewidth=0.9, marker=".", markersize=3, label="means, sweep by sweep")
    axes.set_xlim(-2.2, 4.2)
    axes.set_ylim(-3.8, 3.2)
    axes.set_aspect("equal")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _finish(axes, "independent q, correlation .9", "x$_1$", "x$_2$")


def _ellipse(model: Gaussian, radius: float) -> FloatArray:
    """Points (n, 2) at a Mahalanobis distance."""
    angle = torch.linspace(0.0, 2.0 * math.pi, 181, dtype=torch.float64)
    circle = radius * torch.stack([angle.cos(), angle.sin()], -1)
    return np.asarray((model.mean + circle @ model.scale_tril.T).numpy())


def _fill(axes: Axes, target: Gaussian) -> None:
    for radius, colour in ((2.0, LIMITS), (1.0, FAINT)):
        points = _ellipse(target, radius)
        axes.fill(points[:, 0], points[:, 1], color=colour, linewidth=0.0)


def _outline(axes: Axes, model: Gaussian, colour: str, label: str) -> None:
    for radius, width, name in ((1.0, 2.0, label), (2.0, 1.0, None)):
        points = _ellipse(model, radius)
        axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=width, label=name)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_xlabel(x, fontsize=9, color=MUTED)
    axes.set_ylabel(y, fontsize=9, color=MUTED)
    axes.tick_params(labelsize=8, colors=MUTED)
