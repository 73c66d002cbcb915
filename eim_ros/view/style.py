"""Colours of pictures, and figures of matplotlib. PNG and SVG files are written atomically.

The palette consists of greys and of the colours of Okabe and Ito (2008), because colour-blind readers can distinguish
these.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import checked_path
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
NO_GROUP_COLOUR = "#8A8F98"
FAMILY_COLOURS = (*GROUP_COLOURS, "#D55E00", "#7A5195", "#8F8F00", "#00A6A6", "#8A5A2B", "#F0E442", "#BC5090")
AXIS_COLOURS = ("#D55E00", "#009E73", "#0072B2")
INK, MUTED, FAINT, LIMITS = "#1B1F27", "#5B626E", "#C9CDD4", "#ECEEF2"


def mixed(colour: str, other: str, share: float) -> tuple[float, float, float]:
    """Mix a colour with a share of another colour, and return red, green and blue from 0 to 1."""
    (r, g, b), (s, h, c) = rgb(colour), rgb(other)
    return r + share * (s - r), g + share * (h - g), b + share * (c - b)


def rgb(colour: str) -> tuple[float, float, float]:
    """Return red, green and blue, from 0 to 1, of a colour such as "#0072B2"."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255.0 for start in (1, 3, 5))
    return red, green, blue


def distinct_colour(number: int) -> str:
    """Return the colour with this number. After FAMILY_COLOURS, each colour is the farthest from all previous ones.

    Distances are measured in Oklab (Ottosson 2020, "A perceptual color space for image processing"). Grey, glaring,
    very bright and very dark colours are excluded.
    """
    return _colours(max(1 << int(number).bit_length(), len(FAMILY_COLOURS)))[number]


@functools.cache
def _colours(n: int) -> list[str]:
    """Return at least the first `n` colours."""
    levels = np.linspace(0.0, 1.0, 16)
    shares = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    places = oklab(shares)
    chroma = np.linalg.norm(places[:, 1:], axis=1)
    is_usable = (places[:, 0] > 0.42) & (places[:, 0] < 0.82) & (chroma > 0.06) & (chroma < 0.19)
    shares, places = shares[is_usable], places[is_usable]
    colours = list(FAMILY_COLOURS)
    taken = oklab(np.array([rgb(colour) for colour in colours]))
    away = np.linalg.norm(places[:, None] - taken, axis=2).min(axis=1)
    while len(colours) < n:
        farthest = int(np.argmax(away))
        red, green, blue = (round(255.0 * share) for share in shares[farthest])
        colours.append(f"#{red:02X}{green:02X}{blue:02X}")
        away = np.minimum(away, np.linalg.norm(places - places[farthest], axis=1))
    return colours


def oklab(colours: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the Oklab coordinates (n, 3), lightness first, of sRGB colours (n, 3) from 0 to 1."""
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
    axes = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])
    return np.asarray(np.cbrt(linear(colours) @ cones.T) @ axes.T)


def linear(colours: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Convert sRGB colours (n, 3) from 0 to 1 to linear light (IEC 61966-2-1)."""
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def new_figure(width: float, height: float, dpi: int = 100, layout: Any = "constrained") -> Figure:
    """Return an empty figure of this size [inch]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # imported here, because the page needs only colours
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: Figure, path: str | Path) -> Path:
    """Write a PNG or an SVG, depending on the extension (see `check_picture_name`). Return the path."""
    check_picture_name(path)
    path = Path(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower())
    write_atomically(path, buffer.getvalue())
    return path


def check_picture_name(path: str | Path) -> None:
    """Raise `ConfigurationError` unless the path ends in .png or .svg."""
    if checked_path(path, ConfigurationError).suffix.lower() not in (".png", ".svg"):
        raise ConfigurationError(f"the file of a picture must end in .png or .svg, got {str(path)!r}", str(path))
