"""Projection of points in the base frame onto the picture plane.

With the camera's axes as the rows (right, up, towards the viewer) of R, its focus f and its distance d,

    (x, y, z) = R (p - f),    picture = (x, y) / (1 - z / d),

so that lengths at the focus are drawn in metres. An infinite distance is a parallel projection. A projection of our
own, rather than matplotlib's 3-d axes, lets the arms be painted from back to front link by link.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Camera"]

FloatArray = npt.NDArray[np.float64]

BESIDE_TARGET = math.radians(62.0)
ELEVATION = math.radians(20.0)


@dataclass(frozen=True, eq=False)
class Camera:
    """Where the viewer stands.

    Attributes
    ----------
    axes : (3, 3)
        Rows right, up and towards the viewer, in the base frame.
    focus : (3,)
        Point drawn at its true scale [m].
    distance : float
        From the viewer to the focus [m].
    """

    axes: FloatArray
    focus: FloatArray
    distance: float

    @classmethod
    def above(cls) -> Camera:
        """Look down on the x-y plane, for planar robots: the picture's axes are x and y."""
        return cls(np.eye(3), np.zeros(3), math.inf)

    @classmethod
    def beside(cls, target: FloatArray, size: float) -> Camera:
        """Look from the side, so that a target (3,) is to the right of the base and a little nearer; size in [m]."""
        azimuth = math.atan2(target[1], target[0]) - BESIDE_TARGET
        sine, cosine = math.sin(azimuth), math.cos(azimuth)
        low, high = math.sin(ELEVATION), math.cos(ELEVATION)
        axes = np.array(
            [[-sine, cosine, 0.0], [-low * cosine, -low * sine, high], [high * cosine, high * sine, low]],
        )
        return cls(axes, np.array([0.0, 0.0, 0.3 * size]), 4.5 * size)

    def project(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Picture coordinates (..., 2) and depth (...), larger when nearer to the viewer, of points (..., 3) [m]."""
        seen = (points - self.focus) @ self.axes.T
        return seen[..., :2] * self.scale(seen[..., 2])[..., None], seen[..., 2]

    def scale(self, depth: FloatArray) -> FloatArray:
        """How much larger than at the focus a thing at this depth is drawn; at most 4 (it may be behind the viewer)."""
        return np.asarray(1.0 / np.maximum(1.0 - depth / self.distance, 0.25))
