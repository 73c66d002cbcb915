"""Time stamps for a path of configurations, from limits of velocities and accelerations.

With velocities alone, joints move at constant velocity between two configurations, and the largest |dq| / velocity is
the time of a step. Accelerations need the library toppra, which moves along a spline through the configurations.
"""

from __future__ import annotations

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError

GRID = 8  # number of intervals between two configurations in which toppra checks the limits
SHORTEST = 1e-6  # smallest interval of the spline's parameter, as a share of the sum; keeps equal rows apart


def velocity_times(rows: FloatArray, velocities: FloatArray) -> FloatArray:
    """Return the earliest times (n,) of configurations (n, dof) with velocity limits (dof,), from 0 [s]."""
    durations = (np.abs(np.diff(rows, axis=0)) / velocities).max(axis=1, initial=0.0)
    return np.concatenate([[0.0], np.cumsum(durations)])


def acceleration_times(rows: FloatArray, velocities: FloatArray, accelerations: FloatArray) -> FloatArray:
    """Return the earliest times (n,) along a spline through configurations, from rest to rest [s].

    Raises
    ------
    ConfigurationError
        If toppra is not installed, or finds no times.
    """
    try:
        import toppra
        from toppra import algorithm, constraint
    except ImportError as error:
        raise ConfigurationError("accelerations need the library toppra: run `pip install toppra`") from error
    if len(rows) < 2 or not np.diff(rows, axis=0).any():
        return np.zeros(len(rows))
    lengths = np.diff(velocity_times(rows, velocities))
    knots = np.concatenate([[0.0], np.cumsum(np.maximum(lengths, SHORTEST * lengths.sum()))])
    grid = np.interp(np.arange(GRID * (len(rows) - 1) + 1) / GRID, np.arange(len(rows)), knots)
    limits = [
        constraint.JointVelocityConstraint(np.stack([-velocities, velocities], axis=1)),
        constraint.JointAccelerationConstraint(np.stack([-accelerations, accelerations], axis=1)),
    ]
    problem = algorithm.TOPPRA(limits, toppra.SplineInterpolator(knots, rows), gridpoints=grid)
    speeds = problem.compute_parameterization(0.0, 0.0)[1]
    if speeds is None:
        raise ConfigurationError("toppra finds no times for this path with these accelerations", accelerations)
    durations = 2.0 * np.diff(grid) / (speeds[1:] + speeds[:-1])
    return np.concatenate([[0.0], np.cumsum(durations)])[::GRID]
