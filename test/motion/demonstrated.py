"""Demonstrations of two ways: three joints move to a goal along an arc on one of two sides."""

from __future__ import annotations

import numpy as np

from eim_ros.core.data_set import DataSet

JOINTS = ("shoulder", "elbow", "wrist")
N_POINTS = 40
SIDE = 1.0  # height of the arc on each side [rad]
SPREAD = 0.05  # standard deviation of the start [rad], and relative deviation of the height of the arc


def two_ways(n: int, seed: int, *, context: bool = True) -> DataSet:
    """Return motions y(s) = start + (goal - start) s + side arc sin(pi s).

    The context is the goal of the first joint.
    """
    rng = np.random.default_rng(seed)
    phase = np.linspace(0.0, 1.0, N_POINTS)
    goal = rng.uniform(0.5, 1.5, n)
    side = rng.choice([-1.0, 1.0], n)
    start = SPREAD * rng.standard_normal((n, len(JOINTS)))
    arc = side[:, None] * SIDE * (1.0 + SPREAD * rng.standard_normal((n, len(JOINTS))))
    end = np.stack([goal, -0.5 * goal, np.zeros(n)], axis=1)
    line = start[:, None] + (end - start)[:, None] * phase[:, None]
    positions = line + arc[:, None] * np.sin(np.pi * phase)[:, None]
    description = {
        "task": "motion",
        "joint_names": list(JOINTS),
        "n_points": N_POINTS,
        "durations": (2.0 + 0.1 * rng.standard_normal(n)).tolist(),
        "context_names": ["goal"] if context else [],
        "labels": [],
        "lower": [-3.0, -3.0, None],
        "upper": [3.0, 3.0, None],
    }
    return DataSet(goal[:, None] if context else np.zeros((n, 0)), positions.reshape(n, -1), description)


def scattered_ends(n: int, joint_names: tuple[str, ...]) -> DataSet:
    """Return straight motions of three joints from 0 to ends around (goal, -goal / 2, 0)."""
    rng = np.random.default_rng(0)
    goal = rng.uniform(0.5, 1.5, n)
    end = np.stack([goal, -0.5 * goal, np.zeros(n)], axis=1) + 0.2 * rng.standard_normal((n, len(joint_names)))
    positions = end[:, None] * np.linspace(0.0, 1.0, N_POINTS)[:, None]
    about = {"task": "motion", "joint_names": list(joint_names), "n_points": N_POINTS, "context_names": ["goal"]}
    return DataSet(goal[:, None], positions.reshape(n, -1), about)


def positions_of(data_set: DataSet) -> np.ndarray:
    """Return the positions (n, n_points, n_joints) of all motions."""
    return data_set.sample.reshape(len(data_set), N_POINTS, len(JOINTS))
