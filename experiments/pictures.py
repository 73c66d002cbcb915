"""Figures with several panels in short rows, with text that is legible on a narrow page.

The module also defines the colours and names of methods in these figures.
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from eim_ros.view.style import NO_GROUP_COLOUR, new_figure

MOST_COLUMNS = 3
GAP = 0.08  # padding around each panel [inch]

# rows with settings of these experiments, or with the defaults of the package
OURS, DEFAULTS = "EIM, ours", "EIM, defaults"
THESIS = "EIM, thesis"  # rows with `EIMConfig.thesis`

# Each method has the same colour in all pictures, and each density ratio estimator the same line style.
METHOD_COLOURS = {
    "expert": NO_GROUP_COLOUR,
    "EM": "#E69F00",
    "EIM": "#0072B2",
    "EIM + tip": "#009E73",
    OURS: "#332288",
    DEFAULTS: "#AA4499",
    THESIS: "#117733",
    f"{THESIS}, random start": "#44AA99",
    f"{THESIS}, random start, large steps": "#88CCEE",
    "VIPS": "#1B1F27",
    "GAN": "#CC79A7",
    "f-GAN": "#D55E00",
    "WGAN": "#56B4E9",
    "WGAN-GP": "#8F8F00",
    "b-GAN": "#8A5A2B",
    "EIM-KL": "#00A6A6",
    "EIM-US": "#7A5195",
    "EIM-US-KL": "#BC5090",
}
RATIO_LINES = {"network": "-", "plug-in": "--", "residual": ":", "known": "-.", "none": "-"}
RATIO_NAMES = {"network": "classifier", "plug-in": "plug-in", "residual": "plug-in + network"}


def method_label(method: str, ratio: str) -> str:
    """Return the name of a method and its density ratio estimator, for legends and titles."""
    return f"{method} ({RATIO_NAMES[ratio]})" if ratio in RATIO_NAMES else method


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
