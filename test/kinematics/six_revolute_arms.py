"""URDFs of arms with six revolute joints without a simple closed form, from published kinematic parameters.

The parameters follow Craig: the frame of a joint is Rx(alpha) Tx(a) before the rotation, and Tz(d) after it. Offsets
and limits of the real arms are left out. Each joint may make half a turn in each direction.
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt
from kinematics.six_joint_arms import URDFS, random_arm, urdf_of

__all__ = ["ARMS", "calibrated", "random_axes"]

FloatArray = npt.NDArray[np.float64]

QUARTER = 0.5 * math.pi
BEND = math.pi / 6.0  # half of the angle between wrist axes of a Jaco 2 [rad]
# distances of the virtual wrist points of a Jaco 2 along its axes [m]
RATIO = math.sin(BEND) / math.sin(2.0 * BEND)

# rows of alpha [rad], a [m], d [m]
CRAIG: dict[str, list[tuple[float, float, float]]] = {
    "xArm6": [
        (0.0, 0.0, 0.267),
        (-QUARTER, 0.0, 0.0),
        (0.0, 0.28948866, 0.0),
        (-QUARTER, 0.0775, 0.3425),
        (QUARTER, 0.0, 0.0),
        (-QUARTER, 0.076, 0.097),
    ],
    "CRX-10iA": [
        (0.0, 0.0, 0.0),
        (-QUARTER, 0.0, 0.0),
        (math.pi, 0.54, 0.0),
        (-QUARTER, 0.0, -0.54),
        (QUARTER, 0.0, 0.15),
        (-QUARTER, 0.0, -0.16),
    ],
    "Jaco 2": [
        (0.0, 0.0, 0.2755),
        (QUARTER, 0.0, 0.0),
        (math.pi, 0.41, -0.0098),
        (QUARTER, 0.0, -(0.2073 + RATIO * 0.0741)),
        (2.0 * BEND, 0.0, -RATIO * 2.0 * 0.0741),
        (2.0 * BEND, 0.0, -(RATIO * 0.0741 + 0.16)),
    ],
}


def _arm_of_craig(rows: list[tuple[float, float, float]]) -> str:
    """Return the URDF of an arm with these parameters (alpha, a, d)."""
    frame, axes, points = np.eye(4), [], []
    for alpha, a, d in rows:
        c, s = math.cos(alpha), math.sin(alpha)
        frame = frame @ np.array([[1, 0, 0, a], [0, c, -s, -s * d], [0, s, c, c * d], [0, 0, 0, 1.0]])
        axes.append(frame[:3, 2])
        points.append(frame[:3, 3])
    return urdf_of(np.array(axes), np.array(points), points[-1] + 0.05 * axes[-1])


def _gen3_lite() -> str:
    """Return the URDF of a Gen3 lite, whose axes are the z axes of its published frames."""
    origins = [
        ((0.0, 0.0, 0.12825), (0.0, 0.0)),
        ((0.0, -0.03, 0.115), (QUARTER, 0.0)),
        ((0.0, 0.28, 0.0), (-math.pi, 0.0)),
        ((0.0, -0.14, 0.02), (QUARTER, 0.0)),
        ((0.0285, 0.0, 0.105), (0.0, QUARTER)),
        ((-0.105, 0.0, 0.0285), (0.0, -QUARTER)),
    ]
    rotation, point, axes, points = np.eye(3), np.zeros(3), [], []
    for offset, (roll, pitch) in origins:
        point = point + rotation @ np.array(offset)
        c, s, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
        about_x, about_y = (
            np.array([[1, 0, 0], [0, c, -s], [0, s, c]]),
            np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]]),
        )
        rotation = rotation @ about_y @ about_x
        axes.append(rotation[:, 2])
        points.append(point)
    return urdf_of(np.array(axes), np.array(points), point + 0.13 * rotation[:, 2])


def calibrated(urdf: str, size: float, seed: int = 0) -> str:
    """Return the arm with random errors in its frames and axes [m, rad]."""
    rng = np.random.default_rng(seed)

    def shifted(match: re.Match[str]) -> str:
        values = np.array(match[2].split(), dtype=np.float64) + rng.normal(scale=size, size=3)
        return match[1] + " ".join(repr(float(value)) for value in values)

    return re.sub(r'((?:<axis|<origin) xyz=")([^"]*)', shifted, urdf)


def random_axes(seed: int) -> str:
    """Return the URDF of an arm with six random axes and no special geometry."""
    rng = np.random.default_rng((seed, 6))
    axes = rng.standard_normal((6, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    return urdf_of(axes, rng.uniform(-0.5, 0.5, (6, 3)), np.array([0.1, 0.2, 0.3]))


ARMS: dict[str, str] = {
    **{f"UR5, off by {size:g}": calibrated(URDFS["UR5"], size) for size in (1e-6, 1e-5, 1e-4, 1e-3)},
    **{name: _arm_of_craig(rows) for name, rows in CRAIG.items()},
    "Gen3 lite": _gen3_lite(),
    "spherical wrist, off by 1e-4": calibrated(random_arm("spherical wrist", 0), 1e-4),
    **{f"random axes, {seed}": random_axes(seed) for seed in range(3)},
}
"""Limits of half a turn to each side."""
