"""Colours: Okabe and Ito's (2008), which colour-blind readers can tell apart, and greys."""

from __future__ import annotations

from matplotlib.colors import to_rgb

__all__ = ["AXIS_COLOURS", "FAINT", "GROUP_COLOURS", "INK", "LIMITS", "MUTED", "NO_GROUP_COLOUR", "mixed"]

GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
NO_GROUP_COLOUR = "#8A8F98"
AXIS_COLOURS = ("#D55E00", "#009E73", "#0072B2")
INK, MUTED, FAINT, LIMITS = "#1B1F27", "#5B626E", "#C9CDD4", "#ECEEF2"


def mixed(colour: str, other: str, share: float) -> tuple[float, float, float]:
    """A colour with this share of another in it."""
    (r, g, b), (s, h, c) = to_rgb(colour), to_rgb(other)
    return r + share * (s - r), g + share * (h - g), b + share * (c - b)
