"""URDFs of arms with sliding joints, and of arms with four or five joints, defined by their axes at zero."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from kinematics.six_joint_arms import urdf_of_joints

__all__ = ["FREE_ROLL", "SHORT", "SLIDING", "random_slides"]

FloatArray = npt.NDArray[np.float64]
Triple = tuple[float, float, float]

FREE_ROLL = (0.0, 0.0, 0.0, 0.0, 0.0, math.inf)  # tolerances that leave the roll about the z axis of the tool free


def random_slides(types: str, seed: int) -> str:
    """Return an arm with random axes and joints of these types, such as RRRPRR."""
    rng = np.random.default_rng((seed, len(types), types.count("P")))
    axes = rng.standard_normal((len(types), 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    points = rng.uniform(-0.4, 0.4, (len(types), 3))
    return urdf_of_joints(types, axes, points, rng.uniform(-0.4, 0.4, 3))


def _serial(types: str, directions: str, steps: list[Triple], tip: Triple, rpy: str = "0 0 0") -> str:
    """Return an arm with axes along x, y or z, and these steps [m] between them."""
    unit = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
    points = np.cumsum(np.array(steps), axis=0)
    return urdf_of_joints(types, np.array([unit[d] for d in directions]), points, points[-1] + np.array(tip), rpy)


SLIDING = {
    "RRRPRR, random axes": random_slides("RRRPRR", 1),
    "RRPRRR, Stanford arm": _serial(
        "RRPRRR", "zyxxyx", [(0, 0, 0.4), (0, 0.15, 0), (0.6, 0, 0), (0.1, 0, 0), (0, 0, 0), (0, 0, 0)], (0.1, 0, 0)
    ),
    "PRRRRR, rail, no spherical wrist": _serial(
        "PRRRRR",
        "xzyyxy",
        [(0, 0, 0), (0, 0, 0.3), (0.05, 0, 0), (0, 0, 0.4), (0.4, 0.1, 0.05), (0, 0.08, 0)],
        (0.1, 0, 0.02),
    ),
    "PPPRRR, gantry, spherical wrist": _serial(
        "PPPRRR", "xyzzyx", [(0, 0, 1), (0, 0, 0), (0, 0, 0), (0, 0, -0.2), (0, 0, 0), (0, 0, 0)], (0.1, 0, 0)
    ),
    "PRPRRR, random axes": random_slides("PRPRRR", 1),
}
SHORT = {
    "RRPR, SCARA": _serial("RRPR", "zzzz", [(0, 0, 0.3), (0.35, 0, 0), (0.25, 0, 0), (0, 0, 0)], (0, 0, -0.1)),
    "RRRRR, like SO-100": _serial(
        "RRRRR",
        "zyyyx",
        [(0, 0, 0.05), (0.03, 0, 0.06), (0.03, 0, 0.11), (0.13, 0, 0), (0.06, 0, 0)],
        (0.1, 0, 0),
        f"0 {math.pi / 2!r} 0",
    ),
    "RRRRR, random axes": random_slides("RRRRR", 2),
    "RRRR, palletiser": _serial(
        "RRRR", "zyyy", [(0, 0, 0.3), (0.1, 0, 0), (0, 0, 0.4), (0.4, 0, 0)], (0.1, 0, -0.05), f"0 {math.pi / 2!r} 0"
    ),
    "PPPR, gantry": _serial("PPPR", "xyzz", [(0, 0, 1), (0, 0, 0), (0, 0, 0), (0, 0, -0.2)], (0.05, 0, -0.1)),
}
