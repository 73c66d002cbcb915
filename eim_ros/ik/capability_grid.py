"""Poses over a grid: cells of a box of positions, and at each the same orientations.

The tool's z axis points along approaches that are spread over the sphere by a Fibonacci spiral (Swinbank and Purser
2006), and about each it is turned by evenly spaced rolls.
"""

from __future__ import annotations

import functools
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.numerics.arguments import LARGEST, as_number, expect, expect_mapping, numbers_of
from eim_ros.numerics.keywords import names_wrong_keywords

__all__ = ["CapabilityGrid"]

FloatArray = npt.NDArray[np.float64]

GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))
MOST_POSES = 10**9
N_EXTENT = 20000  # random configurations that tell how far the tip gets


@names_wrong_keywords
@dataclass(frozen=True)
class CapabilityGrid:
    """What a capability map is computed of.

    Attributes
    ----------
    lower, upper : tuple of three float
        Corners of the box, in the base frame [m].
    spacing : float
        Edge of a cell [m]; poses are at the centres of the cells.
    n_approaches : int
        Directions of the tool's z axis.
    n_rolls : int
        Turns about each.
    n_seeds : int
        Uniform seeds of a pose: more find more of its families.
    random_seed : int
        At least 0.

    Raises
    ------
    ConfigurationError
        If a value is malformed, or there are more than 1e9 poses.
    """

    lower: tuple[float, float, float]
    upper: tuple[float, float, float]
    spacing: float = 0.1
    n_approaches: int = 20
    n_rolls: int = 4
    n_seeds: int = 32
    random_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            corner = numbers_of(getattr(self, name), (3,), f"the corner {name!r} of the grid")
            object.__setattr__(self, name, tuple(corner.tolist()))
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise ConfigurationError(f"the box is empty: from {self.lower} to {self.upper}", (self.lower, self.upper))
        object.__setattr__(self, "spacing", _checked_spacing(self.spacing))
        least = {"n_approaches": 1, "n_rolls": 1, "n_seeds": 1, "random_seed": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 2**32:
                raise ConfigurationError(f"{name} must be a whole number of at least {lowest}, got {value!r}", value)
        with np.errstate(over="ignore"):  # infinitely many are too many
            n_cells = float(np.ceil(np.subtract(self.upper, self.lower) / self.spacing).clip(min=1.0).prod())
        if not n_cells * self.n_approaches * self.n_rolls <= MOST_POSES:
            raise ConfigurationError("the grid has more than 1e9 poses: take a larger spacing", self.spacing)

    @classmethod
    def around(cls, robot: Robot, spacing: float = 0.1, **asked: Any) -> CapabilityGrid:
        """Around all places where random configurations take the tip of an arm; for keywords see the attributes."""
        expect(robot, Robot, "robot")
        spacing = _checked_spacing(spacing)
        tips = robot.forward(robot.sample_configurations(N_EXTENT, np.random.default_rng(0)))[:, :3, 3]
        if not float(np.ptp(tips, axis=0).max()) / MOST_POSES <= spacing:
            raise ConfigurationError("the grid has more than 1e9 poses: take a larger spacing", spacing)
        lower, upper = np.floor(tips.min(axis=0) / spacing) * spacing, np.ceil(tips.max(axis=0) / spacing) * spacing
        upper = np.maximum(upper, lower + spacing)
        return cls(tuple(lower.tolist()), tuple(upper.tolist()), float(spacing), **asked)

    @functools.cached_property
    def axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centres of the cells along x, y and z [m]."""
        x, y, z = (
            float(low) + self.spacing * (np.arange(max(1, round((high - low) / self.spacing))) + 0.5)
            for low, high in zip(self.lower, self.upper, strict=True)
        )
        return np.asarray(x), np.asarray(y), np.asarray(z)

    @functools.cached_property
    def approaches(self) -> FloatArray:
        """Directions (n_approaches, 3) of the tool's z axis in the base frame."""
        height = 1.0 - (2.0 * np.arange(self.n_approaches) + 1.0) / self.n_approaches
        turn, level = GOLDEN_ANGLE * np.arange(self.n_approaches), np.sqrt(1.0 - height**2)
        return np.stack([level * np.cos(turn), level * np.sin(turn), height], axis=1)

    @functools.cached_property
    def rotations(self) -> FloatArray:
        """Orientations (n_approaches * n_rolls, 3, 3): all rolls of the first approach, then those of the next."""
        z = np.repeat(self.approaches, self.n_rolls, axis=0)
        aside = np.where(np.abs(z[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
        x = aside - (aside * z).sum(axis=1, keepdims=True) * z
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        roll = np.tile(2.0 * np.pi * np.arange(self.n_rolls) / self.n_rolls, self.n_approaches)[:, None]
        x = np.cos(roll) * x + np.sin(roll) * np.cross(z, x)
        return np.stack([x, np.cross(z, x), z], axis=2)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Cells along x, y, z, and orientations."""
        x, y, z = (len(axis) for axis in self.axes)
        return x, y, z, self.n_approaches * self.n_rolls

    @property
    def n_poses(self) -> int:
        return math.prod(self.shape)

    def poses(self, first: int, last: int) -> FloatArray:
        """Transforms (last - first, 4, 4) of successive poses, in the order of the `shape`."""
        *cells, orientation = np.unravel_index(np.arange(first, last), self.shape)
        poses = np.zeros((last - first, 4, 4))
        poses[:, :3, :3] = self.rotations[orientation]
        poses[:, :3, 3] = np.stack([axis[cell] for axis, cell in zip(self.axes, cells, strict=True)], axis=1)
        poses[:, 3, 3] = 1.0
        return poses

    def to_mapping(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> CapabilityGrid:
        """What `to_mapping` gave."""
        known = {field.name for field in fields(cls)}
        if unknown := [name for name in expect_mapping(values, "a grid") if name not in known]:
            raise ConfigurationError(f"a grid has no {unknown[0]!r}; it has {', '.join(sorted(known))}", unknown)
        if missing := [name for name in ("lower", "upper") if name not in values]:
            raise ConfigurationError(f"a grid needs {missing[0]!r}", values)
        return cls(**values)


def _checked_spacing(spacing: float) -> float:
    if not 0.0 < as_number(spacing) <= LARGEST:
        raise ConfigurationError(f"the spacing must be positive, got {spacing}", spacing)
    return float(spacing)
