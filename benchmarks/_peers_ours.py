"""Our solver with the interface of `_peers.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks._peers_case import Case, Solver
from eim_ros.ik import Sampler

__all__ = ["default_call"]


def default_call(case: Case, rng: np.random.Generator) -> Solver:
    """Return the call that a new user tries first: `Sampler.solve`."""
    position, orientation = case.tolerances
    sampler = Sampler(case.robot).with_constraints(position_tolerance=position, orientation_tolerance=orientation)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = int(rng.integers(2**31))

        def attempt() -> np.ndarray | None:
            answer = sampler.solve(pose, seed=seed)
            return answer[0] if answer else None

        return attempt

    return prepare
