"""Basis functions of the phase, by which a motion of any duration becomes a vector of weights.

A joint moves along y(s) = sum_b w_b f_b(s), with the phase s from 0 at the start to 1 at the end of the motion.

    gaussian     f_b(s) = g_b(s) / sum_c g_c(s),  g_b(s) = exp(-(s - c_b)^2 / 2 h^2)   (ProMP: Paraschos et al. 2013)
    via-points   f_b: the natural cubic spline that is 1 at phase s_b and 0 at all other s_c; w_b is the position there

Both sum to one everywhere, so that a joint which rests has equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline

from eim_ros.errors import ConfigurationError
from eim_ros.kinematics.arguments import is_number
from eim_ros.numerics.arguments import checked_whole

__all__ = ["BASES", "Basis"]

FloatArray = npt.NDArray[np.float64]

BASES = ("gaussian", "via-points")


@dataclass(frozen=True)
class Basis:
    """Basis functions.

    Attributes
    ----------
    kind : str
        "gaussian" or "via-points".
    n_functions : int
        At least 1.
    width : float
        Standard deviation h of the Gaussians, in units of the distance between their centres.
    """

    kind: str = "gaussian"
    n_functions: int = 10
    width: float = 0.7

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in BASES:
            raise ConfigurationError(f"a basis is one of {', '.join(BASES)}, got {self.kind!r}", self.kind)
        checked_whole(self.n_functions, 1, "the number of functions of a basis")
        if not (is_number(self.width) and 0.0 < self.width < np.inf):
            raise ConfigurationError(f"the width of basis functions must be positive, got {self.width}", self.width)

    def __call__(self, phase: npt.ArrayLike) -> FloatArray:
        """Values (n, n_functions) at phases (n,) in [0, 1]."""
        phases = np.asarray(phase, dtype=np.float64)
        if self.n_functions == 1:
            return np.ones((len(phases), 1))
        return self._gaussians(phases) if self.kind == "gaussian" else self._splines(phases)

    @property
    def centers(self) -> FloatArray:
        """Phases of the functions (n_functions,); Gaussians have one centre beyond each end, where they are enough."""
        n = self.n_functions
        if self.kind == "gaussian" and n > 3:
            return np.asarray((np.arange(n) - 1.0) / (n - 3.0), dtype=np.float64)
        return np.linspace(0.0, 1.0, n)

    def to_mapping(self) -> dict[str, Any]:
        """JSON-compatible; `Basis(**mapping)` is its inverse."""
        return {"kind": self.kind, "n_functions": self.n_functions, "width": self.width}

    def _gaussians(self, phases: FloatArray) -> FloatArray:
        centers = self.centers
        deviation = self.width * (centers[1] - centers[0])
        exponent = -0.5 * ((phases[:, None] - centers) / deviation) ** 2
        value = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return np.asarray(value / value.sum(axis=1, keepdims=True))

    def _splines(self, phases: FloatArray) -> FloatArray:
        spline = CubicSpline(self.centers, np.eye(self.n_functions), bc_type="natural")
        return np.asarray(spline(phases), dtype=np.float64)
