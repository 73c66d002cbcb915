"""Demonstrations as a data set: motions of the expert, executed in the simulator, successful ones kept.

The description is that of `eim import --task motion`, so that motion priors are learnt from either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eim_ros.data import DataSet
from eim_ros.errors import DataError
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.expert import Expert
from eim_ros.planar.motions import Motion, MotionConfig, draw_motions
from eim_ros.planar.simulator import Outcome, PlanarSimulator

__all__ = ["demonstrate", "execute", "motion_data_set"]


def execute(simulator: PlanarSimulator, motion: Motion) -> Outcome:
    """Outcome of a motion from the simulator's start; `TrajectoryError` if it cannot be executed."""
    simulator.reset()
    simulator.execute(simulator.arm.joint_names, motion.times.tolist(), motion.positions.tolist())
    while simulator.outcome.moving:
        simulator.step()
    return simulator.outcome


def demonstrate(
    expert: Expert,
    start: Tensor,
    n_motions: int,
    generator: torch.Generator,
    config: MotionConfig | None = None,
) -> DataSet:
    """Data set of motions from a start that do the expert's task, as the simulator confirms.

    Parameters
    ----------
    expert, start, n_motions, generator, config
        As of `draw_motions`.
    """
    motions = draw_motions(expert, start, n_motions, generator, config)
    simulator = PlanarSimulator(expert.arm, expert.task, start=start.numpy())
    done = [motion for motion in motions if execute(simulator, motion).success]
    return motion_data_set(expert.arm, done, {"source": "planar expert", "planar_task": expert.task.to_mapping()})


def motion_data_set(arm: PlanarArm, motions: Sequence[Motion], about: dict[str, object]) -> DataSet:
    """Motions of equally many points as a data set: a row each, point after point, without contexts."""
    if not motions:
        raise DataError("there is no motion to make a data set of", 0)
    n_points = len(motions[0].times)
    description = {
        "task": "motion",
        "joint_names": list(arm.joint_names),
        "n_points": n_points,
        "durations": [float(motion.times[-1]) for motion in motions],
        "context_names": [],
        "labels": ["expert"] * len(motions),
        "lower": [-arm.joint_limit] * arm.n_links,
        "upper": [arm.joint_limit] * arm.n_links,
        **about,
    }
    sample = np.stack([motion.positions.ravel() for motion in motions])
    return DataSet(np.zeros((len(motions), 0)), sample, description)
