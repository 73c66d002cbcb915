"""What is inside of a mesh without touching its surface, which is all that the triangles of a mesh tell.

A point is inside where the generalised winding number w(p) = sum_f Omega_f(p) / (4 pi) is more than 1/2, either way
round, with the solid angle Omega_f of triangle f (van Oosterom and Strackee 1983; Jacobson et al. 2013). It is exact
for closed surfaces, and reasonable for those with holes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["Surface", "extremes", "parts", "winding_numbers"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

AT_ONCE = 200_000  # triangles times points


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles (m, 3, 3) [m] that enclose a solid, and what its parts span."""

    triangles: FloatArray
    lower: FloatArray = field(init=False)
    upper: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", self.triangles.min(axis=(0, 1)))
        object.__setattr__(self, "upper", self.triangles.max(axis=(0, 1)))

    def encloses(self, witnesses: FloatArray) -> bool:
        """Whether one of several parts is inside; each is known by k of its points: (n, k, 3), and touches nothing."""
        within = ((witnesses >= self.lower) & (witnesses <= self.upper)).all(axis=(1, 2))
        points = witnesses[within, 0]
        step = max(1, AT_ONCE // len(self.triangles))
        return any(
            bool((np.abs(winding_numbers(points[first : first + step], self.triangles)) > 0.5).any())
            for first in range(0, len(points), step)
        )


def winding_numbers(points: FloatArray, triangles: FloatArray) -> FloatArray:
    """Of points (n, 3) in a surface (m, 3, 3)."""
    a, b, c = (triangles[None, :, i] - points[:, None] for i in range(3))
    x, y, z = (np.linalg.norm(corner, axis=2) for corner in (a, b, c))
    volume = np.einsum("nmi,nmi->nm", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("nmi,nmi->nm", first, second) for first, second in ((a, b), (b, c), (c, a)))
    return np.asarray(np.arctan2(volume, x * y * z + ab * z + bc * x + ca * y).sum(axis=1) / (2.0 * np.pi))


def extremes(points: FloatArray) -> FloatArray:
    """Those (6, 3) of the points (n, 3) that lie farthest along the axes, either way."""
    which = np.concatenate([points.argmin(axis=0), points.argmax(axis=0)])
    return np.asarray(points[which])


def parts(vertices: FloatArray, faces: IntArray) -> list[FloatArray]:
    """Vertices of each connected part of a surface; vertices at the same place are one."""
    places, of_vertex = np.unique(vertices, axis=0, return_inverse=True)
    corners = of_vertex.reshape(-1)[faces]
    labels = np.arange(len(places))
    while True:  # each triangle takes its least label, and each label that of its own
        lower = labels.copy()
        for column in corners.T:
            np.minimum.at(lower, column, labels[corners].min(axis=1))
        lower = lower[lower]
        if np.array_equal(lower, labels):
            break
        labels = lower
    used = np.unique(corners)
    order = used[np.argsort(labels[used], kind="stable")]
    return np.split(places[order], np.flatnonzero(np.diff(labels[order])) + 1)
