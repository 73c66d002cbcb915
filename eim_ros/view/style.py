"""Colours of the pictures: the palette of Okabe and Ito (2008), which is safe for colour-blind readers, and greys."""

from __future__ import annotations

GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
NO_GROUP_COLOUR = "#8A8F98"
FAMILY_COLOURS = (*GROUP_COLOURS, "#D55E00", "#7A5195", "#8F8F00", "#00A6A6", "#8A5A2B", "#F0E442", "#BC5090")
AXIS_COLOURS = ("#D55E00", "#009E73", "#0072B2")
INK, MUTED, FAINT, LIMITS = "#1B1F27", "#5B626E", "#C9CDD4", "#ECEEF2"


def mixed(colour: str, other: str, share: float) -> tuple[float, float, float]:
    """Mix a colour with this share of another one, and return red, green and blue from 0 to 1."""
    (r, g, b), (s, h, c) = rgb(colour), rgb(other)
    return r + share * (s - r), g + share * (h - g), b + share * (c - b)


def rgb(colour: str) -> tuple[float, float, float]:
    """Return red, green and blue, from 0 to 1, of a colour such as "#0072B2"."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255.0 for start in (1, 3, 5))
    return red, green, blue
