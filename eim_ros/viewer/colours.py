"""Numbers and colours of families: a family keeps them while the target moves; colours as viser takes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eim_ros.ik.selection import nearest
from eim_ros.kinematics import Robot
from eim_ros.viz.palette import FAMILY_COLOURS, rgb

__all__ = ["byte_colour", "family_colour", "kept_numbers", "light"]

FloatArray = npt.NDArray[np.float64]

FARTHEST = 0.7  # [rad, m] in some joint that a family moves from one target to the next, and is known again


def family_colour(number: int) -> str:
    """Of a family with a number."""
    return FAMILY_COLOURS[number % len(FAMILY_COLOURS)]


def byte_colour(colour: str) -> tuple[int, int, int]:
    """Red, green and blue from 0 to 255 of a colour such as "#0072B2"."""
    red, green, blue = (round(255 * share) for share in rgb(colour))
    return red, green, blue


def light(colours: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Colours (n, 3) of instances and lines, which viser takes for shares of light: sRGB decoded (IEC 61966-2-1)."""
    shares = np.array([rgb(colour) for colour in colours])
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.round(255.0 * linear), dtype=np.uint8)


def kept_numbers(
    robot: Robot, before: Sequence[FloatArray], numbers: Sequence[int], now: Sequence[FloatArray]
) -> list[int]:
    """Numbers of families, different ones, which are those that they had for the target before.

    Parameters
    ----------
    robot : Robot
    before, now : sequence of (n_i, dof)
        Solutions of each family, of the target before and of this one.
    numbers : sequence of int
        Of the families before.

    Returns
    -------
    list of int
        A family that is near no earlier one, or less near than another one of now, has the least that is left.
    """
    found: dict[int, int] = {}
    if before and now:
        owners, own = (np.repeat(np.arange(len(rows)), [len(family) for family in rows]) for rows in (before, now))
        distance, index = nearest(robot, np.concatenate(now), np.concatenate(before))
        away = np.full((len(now), len(before)), np.inf)
        np.minimum.at(away, (own, owners[index]), distance)
        for flat in np.argsort(away, axis=None, kind="stable"):
            i, k = divmod(int(flat), len(before))
            if away[i, k] > FARTHEST:
                break
            if i not in found and numbers[k] not in found.values():
                found[i] = numbers[k]
    left = (number for number in itertools.count() if number not in set(found.values()))
    return [found[i] if i in found else next(left) for i in range(len(now))]
