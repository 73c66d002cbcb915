"""Picture of a capability map: a vertical slice through the base, and the horizontal slice with the best reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.colors import Colormap, LinearSegmentedColormap

from eim_ros.core.arrays import FloatArray
from eim_ros.ik import CapabilityMap
from eim_ros.view.style import INK, LIMITS, MUTED, new_figure, write_figure

WIDTH, HEIGHT = 13.5, 6.6  # [inch]
SHADES = ("#DCE9F5", "#56B4E9", "#0072B2", "#1B1F27")


def draw_capability(capability: CapabilityMap, path: Path) -> Path:
    """Draw four quantities per cell, summarised over the orientations. Return the path of the picture."""
    grid = capability.grid
    x, y, z = grid.axes
    figures = _figures(capability)
    level = int(capability.reachability.sum(axis=(0, 1)).argmax())
    middle = int(np.abs(y).argmin())
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots(2, len(figures), squeeze=False)
    figure.suptitle(
        f"{capability.robot}: {grid.n_poses} poses, cells of {grid.spacing:g} m, {grid.shape[3]} orientations each",
        color=INK,
    )
    for column, (title, values) in enumerate(figures.items()):
        most = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
        across = (values[:, middle], z, f"y = {y[middle]:.2g} m", "z [m]")
        above = (values[:, :, level], y, f"z = {z[level]:.2g} m", "y [m]")
        for row, (part, other, where, label) in enumerate((across, above)):
            ax = axes[row, column]
            ax.set_facecolor(LIMITS)
            drawn = ax.pcolormesh(x, other, part.T, shading="nearest", cmap=_shades(), vmin=0.0, vmax=most)
            ax.set_aspect("equal")
            ax.set_title(f"{title}\n{where}" if row == 0 else where, fontsize=9, color=INK)
            ax.tick_params(labelsize=8, colors=MUTED)
            if column == 0:
                ax.set_ylabel(label, fontsize=9, color=MUTED)
            if row == 1:
                ax.set_xlabel("x [m]", fontsize=9, color=MUTED)
        figure.colorbar(drawn, ax=axes[:, column].tolist(), location="bottom", shrink=0.85).ax.tick_params(
            labelsize=8, colors=MUTED
        )
    return write_figure(figure, path)


def _figures(capability: CapabilityMap) -> dict[str, FloatArray]:
    """Return the quantities (n_x, n_y, n_z) to draw, by title. The quantities are NaN in cells out of reach."""
    reached = capability.n_components > 0
    n_reached = reached.sum(axis=3)

    def mean(values: npt.NDArray[np.generic]) -> FloatArray:
        sums = np.where(reached, values, 0.0).sum(axis=3)
        return np.asarray(np.where(n_reached > 0, sums / np.maximum(n_reached, 1), np.nan))

    share = np.where(n_reached > 0, capability.reachability, np.nan)
    best = np.where(n_reached > 0, capability.manipulability.max(axis=3), np.nan)
    return {
        "share of orientations reached": share,
        "mean number of components where reached": mean(capability.n_components),
        "mean length of self-motions [rad, m]": mean(capability.length),
        "best manipulability": best,
    }


def _shades() -> Colormap:
    return LinearSegmentedColormap.from_list("capability", SHADES)
