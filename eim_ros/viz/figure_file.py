"""A figure of matplotlib without a display, and its file, whole or absent."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.numerics import write_atomically

__all__ = ["new_figure", "write_figure"]


def new_figure(width: float, height: float, dpi: int = 100) -> Figure:
    """An empty figure of so many inches, whose parts arrange themselves."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG; returns its path."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())
    return path
