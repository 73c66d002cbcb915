"""Demonstrated motions: positions of named joints over the phase, with contexts and durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import expect, with_hints
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.motion.distribution import LIMITS_SOURCES, RECORDING, ROBOT


@with_hints
@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Motions with equal numbers of points, equally spaced in time.

    Attributes
    ----------
    context : (n, n_context)
        Quantities that each motion depends on, such as goal, start or obstacle. The context may have no columns.
    positions : (n, n_points, n_joints)
        Joint positions [rad] or [m].
    joint_names : tuple of str
    durations : (n,)
        Duration of each motion [s]; NaN if unknown.
    context_names : tuple of str
        Names of the columns of the context.
    lower, upper : (n_joints,)
        Joint limits [rad] or [m]; infinite if unlimited.
    limits_source : str
        "robot", or "recording" if the limits are unknown and the range of the motions replaces them.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.core.data_set import DataSet
    >>> from eim_ros.motion import Demonstrations
    >>> about = {"task": "motion", "joint_names": ["shoulder", "elbow"], "n_points": 50}
    >>> demonstrations = Demonstrations.from_data_set(DataSet(np.zeros((20, 0)), np.zeros((20, 100)), about))
    >>> demonstrations.positions.shape
    (20, 50, 2)
    """

    context: FloatArray
    positions: FloatArray
    joint_names: tuple[str, ...]
    durations: FloatArray
    context_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    limits_source: str = ROBOT

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> Demonstrations:
        parts = (self.context[rows], self.positions[rows], self.joint_names, self.durations[rows])
        return Demonstrations(*parts, self.context_names, self.lower, self.upper, self.limits_source)

    @classmethod
    def from_data_set(cls, data_set: DataSet) -> Demonstrations:
        """Create demonstrations from a data set of the task "motion".

        Raises
        ------
        DataError
            If the data set has another task, or its description does not match its samples.
        """
        description = expect(data_set, DataSet, "the data set", DataError).description
        task = description.get("task")
        if task != "motion":
            raise DataError(
                f"the data set does not contain motions, because its task is {task!r}: create a data set of task "
                "'motion' by eim import",
                task,
            )
        names = _names(description, "joint_names")
        n_points = description.get("n_points")
        if not names or not isinstance(n_points, int) or isinstance(n_points, bool) or n_points < 2:
            raise DataError(
                f"motions need joint names and at least 2 points, got {len(names)} joints and n_points {n_points!r}",
                n_points,
            )
        n, n_columns = data_set.sample.shape
        if n_columns != n_points * len(names):
            raise DataError(
                f"samples of the data set have {n_columns} columns, but {n_points} points of {len(names)} joints need "
                f"{n_points * len(names)}",
                n_columns,
            )
        if n == 0:
            raise DataError("the data set is empty; expected at least one motion", 0)
        positions = data_set.sample.reshape(n, n_points, len(names))
        lower, upper = (
            _limits(description.get("lower"), names, -np.inf),
            _limits(description.get("upper"), names, np.inf),
        )
        source = description.get("limits_source")
        if source is None:  # older data sets lack this entry
            source = ROBOT if description.get("robot") or np.isfinite([lower, upper]).any() else RECORDING
        if source not in LIMITS_SOURCES:
            raise DataError(
                f"limits_source of the data set must be one of {', '.join(LIMITS_SOURCES)}, got {source!r}", source
            )
        if source == RECORDING:
            lower, upper = positions.min(axis=(0, 1)), positions.max(axis=(0, 1))
        return cls(
            data_set.context,
            positions,
            names,
            _durations(description.get("durations"), n),
            _context_names(description, data_set.context.shape[1]),
            lower,
            upper,
            source,
        )


def _names(description: dict[str, Any], key: str) -> tuple[str, ...]:
    names = description.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DataError(f"the data set has no valid {key}: {names!r}", names)
    if len(set(names)) < len(names):
        raise DataError(f"{key} of the data set contains a name more than once: {', '.join(names)}", names)
    return tuple(names)


def _context_names(description: dict[str, Any], n_context: int) -> tuple[str, ...]:
    if not description.get("context_names"):
        return tuple(f"context_{index}" for index in range(n_context))
    names = _names(description, "context_names")
    if len(names) != n_context:
        raise DataError(
            f"the data set has {len(names)} context_names, but {n_context} columns of contexts; name each column", names
        )
    return names


def _durations(values: Any, n: int) -> FloatArray:
    if values is None:
        return np.full(n, np.nan)
    durations = _numbers(values, "durations", np.nan)
    if durations.shape != (n,) or (durations <= 0.0).any():
        raise DataError(f"the data set needs {n} positive durations, one for each motion, got {values}", values)
    return durations


def _limits(values: Any, names: Sequence[str], unknown: float) -> FloatArray:
    if values is None:
        return np.full(len(names), unknown)
    limits = _numbers(values, "joint limits", unknown)
    if limits.shape != (len(names),):
        raise DataError(f"the data set has {limits.shape} joint limits for {len(names)} joints", values)
    return limits


def _numbers(values: Any, what: str, unknown: float) -> FloatArray:
    try:
        return np.array([unknown if value is None else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} of the data set must be a list of numbers: {error}", values) from error
