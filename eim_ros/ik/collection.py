"""Data sets of forward kinematics: configurations uniform within the limits, and the contexts they reach."""

from __future__ import annotations

import numpy as np

from eim_ros.data import DataSet
from eim_ros.errors import DataError, ModelFileError
from eim_ros.ik.model import describe_robot, robot_from_description
from eim_ros.kinematics import CONTEXT_KINDS, Robot, context_from_pose

__all__ = ["UNIFORM_CONFIGURATIONS", "collect", "context_kind_of", "robot_of"]

UNIFORM_CONFIGURATIONS = "forward kinematics, configurations uniform within limits"
"""Source of a data set that prefers no configuration to another."""


def collect(robot: Robot, n_samples: int, context_kind: str, seed: int) -> DataSet:
    """Sample configurations and compute what they reach.

    Parameters
    ----------
    robot : Robot
    n_samples : int
        Number of pairs, >= 1.
    context_kind : str
        "position" (3 numbers [m]) or "pose" (9: position and the first two columns of the rotation).
    seed : int
        Random seed, >= 0.

    Returns
    -------
    DataSet
        Context (n_samples, 3 or 9), sample (n_samples, dof), and a description of the robot.
    """
    if n_samples < 1:
        raise DataError(f"the number of samples must be at least 1, got {n_samples}", n_samples)
    if seed < 0:
        raise DataError(f"the random seed must be at least 0, got {seed}", seed)
    configurations = robot.sample_configurations(n_samples, np.random.default_rng(seed))
    context = context_from_pose(robot.forward(configurations), context_kind)
    description = {
        "source": UNIFORM_CONFIGURATIONS,
        "robot": describe_robot(robot),
        "context_kind": context_kind,
        "seed": seed,
    }
    return DataSet(context, configurations, description)


def robot_of(data_set: DataSet, robot: Robot | None = None) -> Robot:
    """The robot a data set belongs to; `DataError` unless it is the given one."""
    description = data_set.description.get("robot")
    try:
        stored = robot_from_description(description, "the data set")
    except ModelFileError as error:
        raise DataError(str(error), description) from error
    if robot is not None and robot.fingerprint != stored.fingerprint:
        raise DataError(
            f"the data set is of robot '{stored.name}' ({stored.base_link} to {stored.tip_link}), not of "
            f"'{robot.name}' ({robot.base_link} to {robot.tip_link}), or their kinematics differ; collect data for "
            "this robot",
            stored.name,
        )
    if data_set.sample.shape[1] != stored.dof:
        raise DataError(
            f"samples of the data set have {data_set.sample.shape[1]} joints, its robot '{stored.name}' {stored.dof}",
            data_set.sample.shape,
        )
    return robot or stored


def context_kind_of(data_set: DataSet) -> str:
    """Kind of the contexts of a data set of an arm; `DataError` unless its columns fit."""
    kind, n_columns = data_set.description.get("context_kind"), data_set.context.shape[1]
    if not isinstance(kind, str) or CONTEXT_KINDS.get(kind) != n_columns:
        expected = ", ".join(f"'{name}' ({n} columns)" for name, n in CONTEXT_KINDS.items())
        raise DataError(f"the data set has {n_columns} columns of context kind {kind!r}, expected {expected}", kind)
    return kind
