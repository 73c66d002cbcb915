"""Refine the same seeds one by one and side by side, and compare the results."""

from __future__ import annotations

from typing import Any

import numpy as np

from eim_ros.kinematics import Refinement, Robot, refine

__all__ = ["assert_alike", "one_by_one_and_side_by_side"]


def joined(parts: list[Refinement]) -> Refinement:
    """Return all rows of several refinements as one refinement."""
    return Refinement(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])})


def one_by_one_and_side_by_side(
    robot: Robot, seeds: np.ndarray, pose: np.ndarray, at_once: int | None = None, **asked: Any
) -> tuple[Refinement, Refinement]:
    """Refine seeds (n, dof), n >= 1, one by one, and again in groups of `at_once` (default: all in one group)."""
    size = at_once or len(seeds)
    together = [refine(robot, seeds[i : i + size], pose, **asked) for i in range(0, len(seeds), size)]
    return joined([refine(robot, row, pose, **asked) for row in seeds]), joined(together)


def assert_alike(plain: Refinement, side: Refinement) -> None:
    """Check that at most 1 in 50 seeds differs. Near the border of two basins, rounding may change the solution."""
    close = np.isclose(plain.positions, side.positions, rtol=0.0, atol=1e-6).all(axis=1)
    close &= (plain.converged == side.converged) & (plain.iterations == side.iterations)
    for name in ("position_error", "orientation_error"):
        close &= np.isclose(getattr(plain, name), getattr(side, name), rtol=1e-6, atol=1e-6)
    assert close.sum() >= len(close) - max(1, len(close) // 50)
