"""URDFs of arms with six joints, defined by their axes at zero: known arms, and random arms of each kind."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["KINDS", "URDFS", "random_arm", "urdf_of"]

FloatArray = npt.NDArray[np.float64]

KINDS = (
    "spherical wrist",
    "spherical shoulder",
    "axes 1 to 3 are parallel",
    "axes 2 to 4 are parallel",
    "axes 3 to 5 are parallel",
    "axes 4 to 6 are parallel",
)


STROKE = 1.2  # range of a slide [m]


def urdf_of_joints(
    types: str,
    axes: FloatArray,
    points: FloatArray,
    tip: FloatArray,
    rpy: str = "0.3 -0.2 0.5",
    limit: float = math.pi,
) -> str:
    """Return the URDF of an arm with joints of `types` (R or P) along axes (n, 3) through points (n, 3).

    At zero, frames are parallel and the tip is at `tip` (3,). Revolute joints turn by up to `limit` [rad] in each
    direction, and slides move by up to half the stroke.
    """
    lines = ['<robot name="arm"><link name="link0"/>']
    before: FloatArray = np.zeros(3)
    for i, (letter, axis, point) in enumerate(zip(types, axes, points, strict=True)):
        offset, direction = (" ".join(repr(float(x)) for x in values) for values in (point - before, axis))
        kind, most = ("revolute", limit) if letter == "R" else ("prismatic", 0.5 * STROKE)
        lines.append(
            f'<joint name="joint{i + 1}" type="{kind}"><parent link="link{i}"/><child link="link{i + 1}"/>'
            f'<origin xyz="{offset}"/><axis xyz="{direction}"/>'
            f'<limit lower="{-most!r}" upper="{most!r}" effort="1" velocity="1"/></joint><link name="link{i + 1}"/>'
        )
        before = point
    offset = " ".join(repr(float(x)) for x in tip - before)
    lines.append(
        f'<joint name="flange" type="fixed"><parent link="link{len(types)}"/><child link="tool"/>'
        f'<origin xyz="{offset}" rpy="{rpy}"/></joint><link name="tool"/></robot>'
    )
    return "\n".join(lines)


def urdf_of(axes: FloatArray, points: FloatArray, tip: FloatArray, limit: float = math.pi) -> str:
    """Return the URDF of an arm with revolute axes (6, 3) through points (6, 3); see `urdf_of_joints`."""
    return urdf_of_joints("RRRRRR", axes, points, tip, limit=limit)


def random_arm(kind: str, seed: int, limit: float = math.pi) -> str:
    """Return the URDF of a random arm of one of KINDS, without other special geometry."""
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    axes = rng.standard_normal((6, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    points = rng.uniform(-0.5, 0.5, (6, 3))
    if kind.startswith("spherical"):
        first = 3 if kind == "spherical wrist" else 0
        centre = rng.uniform(-0.5, 0.5, 3)
        points[first : first + 3] = centre + axes[first : first + 3] * rng.uniform(-0.3, 0.3, (3, 1))
    else:
        first = int(kind.split()[1]) - 1
        axes[first + 1] = axes[first] * rng.choice([-1.0, 1.0])
        axes[first + 2] = axes[first] * rng.choice([-1.0, 1.0])
    return urdf_of(axes, points, rng.uniform(-0.5, 0.5, 3), limit)


def _serial(
    directions: str, steps: list[tuple[float, float, float]], tip: tuple[float, float, float], limit: float = math.pi
) -> str:
    """Return an arm from letters of its axes (reversed if upper case) and the steps [m] between axes."""
    unit = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}
    axes = np.array([unit[letter.lower()] for letter in directions], dtype=np.float64)
    axes *= np.array([-1.0 if letter.isupper() else 1.0 for letter in directions])[:, None]
    points = np.cumsum(np.array(steps), axis=0)
    return urdf_of(axes, points, points[-1] + np.array(tip), limit)


def _universal_robot(d1: float, a2: float, a3: float, d4: float, d5: float, d6: float, limit: float = math.pi) -> str:
    """Return an arm from the manufacturer's Denavit-Hartenberg lengths [m]."""
    steps = [(0, 0, 0), (0, 0, d1), (-a2, 0, 0), (-a3, 0, 0), (0, -d4, 0), (0, 0, -d5)]
    return _serial("zYYYZY", steps, (0, -d6, 0), limit)


URDFS = {
    "UR3e": _universal_robot(0.15185, 0.24355, 0.2132, 0.13105, 0.08535, 0.0921),
    "UR5": _universal_robot(0.089159, 0.425, 0.39225, 0.10915, 0.09465, 0.0823),
    "UR10e": _universal_robot(0.1807, 0.6127, 0.57155, 0.17415, 0.11985, 0.11655),
    "UR5, two turns": _universal_robot(0.089159, 0.425, 0.39225, 0.10915, 0.09465, 0.0823, 2.0 * math.pi),
    "Puma 560": _serial(
        "zyyzyz",
        [(0, 0, 0.66), (0, 0.2435, 0), (0.4318, -0.0934, 0), (-0.0203, 0, 0.4331), (0, 0, 0), (0, 0, 0)],
        (0, 0, 0.056),
    ),
    "KUKA KR 6 R700": _serial(
        "ZyyXyX", [(0, 0, 0.4), (0.025, 0, 0), (0.315, 0, 0), (0.365, 0, 0.035), (0, 0, 0), (0, 0, 0)], (0.08, 0, 0)
    ),
    "ABB IRB 120": _serial(
        "zyyxyx", [(0, 0, 0.29), (0, 0, 0), (0, 0, 0.27), (0.302, 0, 0.07), (0, 0, 0), (0, 0, 0)], (0.072, 0, 0)
    ),
}
"""Limits of half a turn to each side; those of the real arms are narrower."""
