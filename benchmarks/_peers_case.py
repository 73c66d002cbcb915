"""Inverse kinematics problem of a benchmark, and the type of a solver; see `_peers.py`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np

from eim_ros.kinematics import Robot

__all__ = ["Case", "Solver", "Unsupported", "loaded"]

Solver = Callable[[np.ndarray], Callable[[], "np.ndarray | None"]]


class Unsupported(Exception):
    """Error for an arm that a peer cannot solve. The message contains the reason."""


@dataclass(frozen=True)
class Case:
    """Robot, its URDF as a file, and the tolerances of position [m] and orientation [rad]."""

    robot: Robot
    urdf: Path
    tolerances: tuple[float, float]

    def seed(self, rng: np.random.Generator) -> np.ndarray:
        return self.robot.random(1, rng)[0]

    def wrapped(self, q: np.ndarray) -> np.ndarray:
        """Shift each angle by revolutions, as near to the middle of its range as possible. Joints must be revolute."""
        middle = 0.5 * (self.robot.lower + self.robot.upper)
        return q - 2.0 * np.pi * np.round((q - middle) / (2.0 * np.pi))


def loaded(spec: ModuleSpec | None) -> ModuleType:
    """Load a module from its spec, although it is not on the import path."""
    if spec is None or spec.loader is None:
        raise ImportError("no such module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    return module
