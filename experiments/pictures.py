"""Figures with several panels, arranged in short rows so that their text stays legible on a narrow page."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from eim_ros.view.figure_file import new_figure

MOST_COLUMNS = 3
GAP = 0.08  # padding around each panel [inch]


def panel_figure(n_panels: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Create an empty figure with `n_panels` panels, two or three per row.

    Parameters
    ----------
    n_panels : int
    width, height : float
        Size of each panel [inch].
    **options
        Arguments of `Figure.subplots`, such as sharex.

    Returns
    -------
    figure : Figure
    axes : list of Axes
        One for each panel.
    """
    n_columns = 2 if n_panels == 4 else min(n_panels, MOST_COLUMNS)
    n_rows = -(-n_panels // n_columns)
    figure = new_figure(width * n_columns, height * n_rows)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(h_pad=GAP, w_pad=GAP)
    axes = list(figure.subplots(n_rows, n_columns, squeeze=False, **options).flat)
    for unused in axes[n_panels:]:
        unused.remove()
    return figure, axes[:n_panels]
