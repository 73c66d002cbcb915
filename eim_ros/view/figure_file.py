"""PNG and SVG files of matplotlib figures, written atomically."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import write_atomically


def new_figure(width: float, height: float, dpi: int = 100, layout: Any = "constrained") -> Figure:
    """Return an empty figure of this size [inch]."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: Figure, path: str | Path) -> Path:
    """Write a PNG or an SVG, depending on the extension, and return the path; see `check_picture_name`."""
    path = Path(path)
    check_picture_name(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower())
    write_atomically(path, buffer.getvalue())
    return path


def check_picture_name(path: str | Path) -> None:
    """Raise `ConfigurationError` unless the path ends in .png or .svg."""
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise ConfigurationError(f"a picture's file ends in .png or .svg, got {str(path)!r}", str(path))
