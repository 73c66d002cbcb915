"""Our solvers behind the interface of `_peers.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks._peers_case import Case, Solver, Unsupported
from eim_ros.ik import Sampler

__all__ = ["default_call", "learned_sampler", "uniform_seeds"]


def default_call(case: Case, rng: np.random.Generator) -> Solver:
    """Return the call that a new user tries first: `Sampler.solve` without a model."""
    return _sampled(case, Sampler(case.robot), rng)


def learned_sampler(case: Case, rng: np.random.Generator) -> Solver:
    """Return the same call of a sampler with a model."""
    if case.model is None:
        raise Unsupported("no model of this robot")
    sampler = Sampler(model=case.model)
    sampler.prepare()
    return _sampled(case, sampler, rng)


def _sampled(case: Case, sampler: Sampler, rng: np.random.Generator) -> Solver:
    position, orientation = case.tolerances
    sampler = sampler.with_constraints(
        position_only=case.position_only, position_tolerance=position, orientation_tolerance=orientation
    )

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = int(rng.integers(2**31))

        def attempt() -> np.ndarray | None:
            answer = sampler.solve(pose, seed=seed)
            return answer[0] if answer else None

        return attempt

    return prepare


def uniform_seeds(case: Case, rng: np.random.Generator) -> Solver:
    """Return `Robot.solve`, our refiner from uniform random seeds."""
    position, orientation = case.tolerances

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            result = case.robot.solve(
                pose, rng, position_only=case.position_only,
                position_tolerance=position, orientation_tolerance=orientation,
            )  # fmt: skip
            return result.positions[0] if result.converged[0] else None

        return attempt

    return prepare
