"""Recorded joints as a table: CSV with a line of names, or NumPy's .npz, with the times and, if wanted, labels.

CSV: a column `time` [s], a column of each joint under its name, and perhaps a column `label`. NPZ: `time` (n,) [s],
`positions` (n, n_joints), `joint_names` (n_joints,), and perhaps `label` (n,).
"""

from __future__ import annotations

import csv
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.series import BagContent, Series
from eim_ros.errors import DataError
from eim_ros.numerics.file_format import ARCHIVE_ERRORS

__all__ = ["TABLE_SUFFIXES", "read_table"]

TABLE_SUFFIXES = (".csv", ".npz")
TIME, LABEL = "time", "label"
LARGEST_TIME = 9e9  # [s]: of nanoseconds since 1970 numbers are beyond it

Columns = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[str], list[str]]
"""Times (n,), positions (n, n_joints), names of the joints, label of each row or none."""


def read_table(path: Path, joint_names: Sequence[str] | None) -> BagContent:
    """The content of a table as that of a bag without other topics.

    Raises
    ------
    DataError
        With the column, line or joint that is missing or wrong.
    """
    try:
        times, positions, names, labels = _csv(path) if path.suffix == ".csv" else _npz(path)
    except (OSError, csv.Error, *ARCHIVE_ERRORS) as error:
        raise DataError(f"{path} cannot be read: {error}", str(path)) from error
    if missing := [name for name in joint_names or () if name not in names]:
        raise DataError(f"{path} lacks joint {missing[0]}; it has {', '.join(names)}", missing)
    if not len(times):
        raise DataError(f"{path} has no rows", str(path))
    wanted = list(joint_names or names)
    positions = positions[:, [names.index(name) for name in wanted]]
    usable = np.isfinite(times) & np.isfinite(positions).all(axis=1)
    if np.abs(times[usable]).max(initial=0.0) > LARGEST_TIME:
        raise DataError(f"{path}: times must be in seconds, got {times[usable].max():g}", float(times[usable].max()))
    clock = np.round(1e9 * times[usable]).astype(np.int64)
    if (np.diff(clock) < 0).any():
        row = int(np.flatnonzero(np.diff(clock) < 0)[0]) + 1
        raise DataError(f"{path}: time goes backwards after {clock[row - 1] * 1e-9:.3f} s", row)
    if not len(clock):
        raise DataError(f"{path} has no row of finite numbers", str(path))
    kept = [label for label, is_usable in zip(labels, usable, strict=True) if is_usable] if labels else []
    told = [(int(clock[i]), kept[i]) for i in range(len(kept)) if i == 0 or kept[i] != kept[i - 1]]
    dropped = Counter({"rows not finite": int(np.sum(~usable))} if not usable.all() else {})
    return BagContent(tuple(wanted), Series(clock, clock, positions[usable]), {}, told, dropped)


def _csv(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        header = [name.strip() for name in next(lines, [])]
        if TIME not in header:
            raise ValueError(f"its first line must name the columns, one of them {TIME!r}, got {','.join(header)!r}")
        if len(set(header)) < len(header):
            raise ValueError("two columns have one name")
        names = [name for name in header if name not in (TIME, LABEL)]
        numbers = [header.index(name) for name in (TIME, *names)]
        rows, labels = [], []
        for line in lines:
            if not line:
                continue
            if len(line) != len(header):
                raise ValueError(f"line {lines.line_num} has {len(line)} columns, the first one {len(header)}")
            try:
                rows.append([float(line[index]) for index in numbers])
            except ValueError as error:
                raise ValueError(f"line {lines.line_num}: {error}") from error
            if LABEL in header:
                labels.append(line[header.index(LABEL)].strip())
    if not names:
        raise ValueError(f"it has no column of a joint beside {', '.join(header)}")
    table = np.array(rows, dtype=np.float64).reshape(-1, len(numbers))
    return table[:, 0], table[:, 1:], names, labels


def _npz(path: Path) -> Columns:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no archive of NumPy")
    with np.load(path, allow_pickle=False) as archive:
        if missing := [name for name in (TIME, "positions", "joint_names") if name not in archive.files]:
            held = ", ".join(archive.files) or "nothing"
            more = "; a data set needs no import" if {"sample", "description"} <= set(archive.files) else ""
            raise ValueError(f"it lacks {', '.join(missing)}; it holds {held}{more}")
        times, positions = (np.asarray(archive[name], dtype=np.float64) for name in (TIME, "positions"))
        names = [str(name) for name in np.atleast_1d(archive["joint_names"])]
        labels = [str(label) for label in archive[LABEL]] if LABEL in archive.files else []
    if times.ndim != 1 or positions.shape != (len(times), len(names)) or (labels and len(labels) != len(times)):
        shapes: Any = times.shape, positions.shape, len(names), len(labels)
        raise ValueError(f"time (n,), positions (n, n_joints), joint_names and label do not fit each other: {shapes}")
    return times, positions, names, labels
