"""Motions with time stamps for other programs: a table, or JSON with the fields of a `JointTrajectory`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import is_number
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.core.files import to_json, write_atomically

PAUSE = 1.0  # [s] pause between two motions of a table; `eim import` separates motions at pauses
SECOND = 10**9  # [ns]


def joint_trajectory(joint_names: Sequence[str], positions: npt.ArrayLike, duration: float) -> dict[str, Any]:
    """Return a motion as a JSON-compatible mapping with the fields of `trajectory_msgs/JointTrajectory`.

    Parameters
    ----------
    joint_names : sequence of str
    positions : (n_points, n_joints) array_like
        Positions [rad] or [m], equally spaced in time.
    duration : float
        Time from the first to the last point [s].

    Raises
    ------
    DataError
        If the positions do not match the joints, or the duration is not positive.

    Examples
    --------
    >>> from eim_ros.motion import joint_trajectory
    >>> joint_trajectory(["elbow"], [[0.0], [0.2], [0.3]], duration=3.0)["points"][1]
    {'positions': [0.2], 'time_from_start': {'sec': 1, 'nanosec': 500000000}}
    """
    values = _checked(joint_names, positions, 2)
    stamps = _nanoseconds(duration, len(values))
    points = [
        {"positions": row, "time_from_start": {"sec": stamp // SECOND, "nanosec": stamp % SECOND}}
        for row, stamp in zip(values.tolist(), stamps, strict=True)
    ]
    return {"joint_names": list(joint_names), "points": points}


def write_trajectories(path: str | Path, joint_names: Sequence[str], positions: npt.ArrayLike, duration: float) -> None:
    """Write motions with time stamps.

    A file that ends in .json contains a list of trajectories; see `joint_trajectory`. A file that ends in .csv contains
    one table that `eim import` can read. Its columns are the time [s], the label and the joints. The label is the
    number of the motion. Each motion starts 1 s after the end of the previous motion.

    Parameters
    ----------
    path : str or Path
    joint_names : sequence of str
    positions : (n, n_points, n_joints) array_like
        Positions [rad] or [m], equally spaced in time.
    duration : float
        Time from the first to the last point of each motion [s].

    Raises
    ------
    ConfigurationError
        If the file has another suffix.
    DataError
        If the positions do not match the joints, or the duration is not positive.

    Examples
    --------
    >>> from pathlib import Path
    >>> from eim_ros.motion import write_trajectories
    >>> write_trajectories("drawn.csv", ["elbow"], [[[0.0], [0.2]]], duration=3.0)
    >>> Path("drawn.csv").read_text().splitlines()[1]
    '0.000000000,0,0.0'
    """
    check_suffix(path)
    motions = _checked(joint_names, positions, 3)
    if Path(path).suffix == ".json":
        text = to_json([joint_trajectory(joint_names, motion, duration) for motion in motions]) + "\n"
    else:
        text = _table(joint_names, motions, duration)
    write_atomically(path, text.encode())


def check_suffix(path: str | Path) -> None:
    """Raise `ConfigurationError` unless the path ends in .json or .csv."""
    if Path(path).suffix not in (".json", ".csv"):
        raise ConfigurationError(f"the file of the trajectories must end in .json or .csv, got {path}", str(path))


def _table(joint_names: Sequence[str], motions: npt.NDArray[np.float64], duration: float) -> str:
    times = np.array(_nanoseconds(duration, motions.shape[1])) / SECOND
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "label", *joint_names])
    for index, motion in enumerate(motions.tolist()):
        start = index * (duration + PAUSE)
        writer.writerows([f"{start + time:.9f}", index, *row] for time, row in zip(times, motion, strict=True))
    return text.getvalue()


def _checked(joint_names: Sequence[str], positions: npt.ArrayLike, n_axes: int) -> npt.NDArray[np.float64]:
    values = np.asarray(positions, dtype=np.float64)
    if values.ndim != n_axes or values.shape[-1] != len(joint_names) or values.shape[-2] < 2:
        raise DataError(
            f"expected positions with {n_axes} axes, at least 2 points and {len(joint_names)} joints, got shape "
            f"{values.shape}",
            values.shape,
        )
    if not np.isfinite(values).all():
        raise DataError("the positions of a trajectory must be finite", values)
    return values


def _nanoseconds(duration: float, n_points: int) -> list[int]:
    if not (is_number(duration) and 0.0 < duration < np.inf):
        raise DataError(f"the duration must be a positive number of seconds, got {duration}", duration)
    return [round(SECOND * time) for time in np.linspace(0.0, duration, n_points).tolist()]
