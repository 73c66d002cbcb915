"""Densities of univariate conditional targets above what EIM and EM made of them, as in the thesis' figure 6.8."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from eim_ros.distributions import GaussianMixture
from eim_ros.experiments.nonlinear import N_DRAWN, TARGETS
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import INK, METHOD_COLOURS, MUTED, method_label

__all__ = ["draw"]

CONTEXTS = torch.linspace(-1.0, 1.0, N_DRAWN, dtype=torch.float64).unsqueeze(-1)
N_HEIGHTS = 150
LIMIT = {"sine": 1.6, "modes": 2.2, "spread": 6.0}  # of the sample's axis
FORMULAS = {
    "sine": r"$\mathcal{N}(\sin 2.5\pi y,\ .1^2)$",
    "modes": r"$\frac{1}{2}\mathcal{N}(\pm(y \sin 2.5\pi y + .7),\ .1^2)$",
    "spread": r"$\mathcal{N}(0,\ ((y+1)^2+.05)^2)$",
}


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG: a column per target; the target itself, EIM's expert and EM's, of the first seed.

    Parameters
    ----------
    table : ResultTable
        Of the experiment nonlinear.
    folder : Path

    Returns
    -------
    list of Path
    """
    rows = table.where(seed=min(table.values("seed")))
    targets = list(dict.fromkeys(row["target"] for row in rows))
    methods = sorted({(row["method"], row["estimator"]) for row in rows})
    figure = new_figure(10, 2.1 * (1 + len(methods)), dpi=90)
    panels = figure.subplots(1 + len(methods), len(targets), sharex=True, squeeze=False)
    for column, name in enumerate(targets):
        _draw_density(panels[0][column], TARGETS[name](CONTEXTS), LIMIT[name], INK)
        panels[0][column].set_title(f"{name}: {FORMULAS[name]}", fontsize=10, color=INK)
        for axes, (method, ratio) in zip(panels[1:, column], methods, strict=True):
            row = table.where(target=name, method=method, estimator=ratio)[0]
            _draw_density(axes, _expert(row), LIMIT[name], METHOD_COLOURS[method])
            text = f"KL(model || target) {row['kl']:.3f} ± {row['kl_error']:.3f} nat\n{row['near']:.1%} near a mode"
            axes.text(0.02, 0.97, text, transform=axes.transAxes, va="top", fontsize=8, color=MUTED)
        panels[-1][column].set_xlabel("context y", fontsize=9)
    for axes, label in zip(panels[:, 0], ["target", *(method_label(*method) for method in methods)], strict=True):
        axes.set_ylabel(f"{label}\nx", fontsize=9)
    figure.supxlabel(
        "shade: density, relative to the highest at the same context; near: within three deviations",
        fontsize=9,
        color=MUTED,
    )
    return [write_figure(figure, folder / "nonlinear.png")]


def _expert(row: Row) -> GaussianMixture:
    """The one expert of a row at all its contexts."""
    mean, deviation = (torch.tensor(row[name], dtype=torch.float64) for name in ("mean", "deviation"))
    return GaussianMixture(torch.zeros(N_DRAWN, 1).double(), mean[:, None, None], deviation[:, None, None, None])


def _draw_density(axes: Axes, model: GaussianMixture, limit: float, colour: str) -> None:
    """Shade the density at all contexts, relative to its own highest value, so that wide ones can be seen too."""
    height = torch.linspace(-limit, limit, N_HEIGHTS, dtype=torch.float64)
    density = model.log_prob(height[:, None, None].expand(-1, N_DRAWN, 1)).exp()
    shades = LinearSegmentedColormap.from_list("shades", ["white", colour])
    shaded = (density / density.amax(0)).sqrt().numpy()
    axes.imshow(
        shaded, origin="lower", extent=(-1.0, 1.0, -limit, limit), aspect="auto", cmap=shades, interpolation="nearest"
    )
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.tick_params(labelsize=8)
