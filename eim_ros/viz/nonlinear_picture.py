"""Densities of univariate conditional targets above what EIM and EM made of them, as in the thesis' figure 6.8."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.experiments.nonlinear import TARGETS, NonlinearResult
from eim_ros.numerics import write_atomically
from eim_ros.viz.palette import GROUP_COLOURS, INK, MUTED

__all__ = ["draw_nonlinear"]

Conditional: TypeAlias = Callable[[Tensor], GaussianMixture]

N_CONTEXTS, N_HEIGHTS = 300, 300
LIMIT = {"sine": 1.6, "modes": 2.2, "spread": 6.0}  # of the sample's axis
FORMULAS = {
    "sine": r"$\mathcal{N}(\sin 2.5\pi y,\ .1^2)$",
    "modes": r"$\frac{1}{2}\mathcal{N}(\pm(y \sin 2.5\pi y + .7),\ .1^2)$",
    "spread": r"$\mathcal{N}(0,\ ((y+1)^2+.05)^2)$",
}


def draw_nonlinear(result: NonlinearResult, path: str | Path) -> None:
    """Write a PNG: a column per target; the target itself, EIM's expert and EM's.

    Parameters
    ----------
    result : NonlinearResult
    path : path
        Of the PNG.
    """
    figure = Figure(figsize=(11, 8.2), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(3, len(result.fits), sharex=True, squeeze=False)
    for column, (name, fits) in enumerate(result.fits.items()):
        models: dict[str, Conditional] = {"target": TARGETS[name], "EIM": fits.eim, "EM": fits.em}
        for row, (label, model) in enumerate(models.items()):
            axes = rows[row][column]
            _draw_density(axes, model, LIMIT[name], INK if label == "target" else GROUP_COLOURS[row - 1])
            if label == "target":
                axes.set_title(f"{name}: {FORMULAS[name]}", fontsize=10, color=INK)
            else:
                value, error = fits.kl[label]
                text = f"KL(model || target) {value:.3f} ± {error:.3f} nat\n{fits.near[label]:.1%} near a mode"
                axes.text(0.02, 0.97, text, transform=axes.transAxes, va="top", fontsize=8, color=MUTED)
            if column == 0:
                axes.set_ylabel(f"{label}\nx", fontsize=9)
        rows[-1][column].set_xlabel("context y", fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _draw_density(axes: Axes, model: Conditional, limit: float, colour: str) -> None:
    """Shade each context's density, relative to its own highest value, so that wide ones can be seen too."""
    context = torch.linspace(-1.0, 1.0, N_CONTEXTS, dtype=torch.float64).unsqueeze(-1)
    height = torch.linspace(-limit, limit, N_HEIGHTS, dtype=torch.float64)
    density = model(context).log_prob(height[:, None, None].expand(-1, N_CONTEXTS, 1)).exp()
    shades = LinearSegmentedColormap.from_list("shades", ["white", colour])
    shaded = (density / density.amax(0)).sqrt().numpy()
    axes.imshow(shaded, origin="lower", extent=(-1.0, 1.0, -limit, limit), aspect="auto", cmap=shades)
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.tick_params(labelsize=8)
