"""A figure of matplotlib without a display, and its file, whole or absent."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.errors import ConfigurationError
from eim_ros.numerics import write_atomically

__all__ = ["check_picture_name", "new_figure", "write_figure"]


def new_figure(width: float, height: float, dpi: int = 100) -> Figure:
    """An empty figure of so many inches, whose parts arrange themselves."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: Figure, path: str | Path) -> Path:
    """Write a PNG, or an SVG where the path ends so; returns the path.

    Raises
    ------
    ConfigurationError
        For another ending.
    """
    path = Path(path)
    check_picture_name(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower())
    write_atomically(path, buffer.getvalue())
    return path


def check_picture_name(path: str | Path) -> None:
    """`ConfigurationError` for a picture that would be neither PNG nor SVG."""
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise ConfigurationError(f"a picture's file ends in .png or .svg, got {str(path)!r}", str(path))
