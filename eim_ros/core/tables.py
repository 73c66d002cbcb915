"""Arrays with named columns from user files: CSV with a header, or .npz with named arrays."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import checked_path
from eim_ros.core.errors import DataError, did_you_mean
from eim_ros.core.files import ARCHIVE_ERRORS

SEPARATORS = ",;\t"


def load_columns(path: str | Path, *groups: Sequence[str]) -> tuple[FloatArray, ...]:
    """Read groups of columns from a file, each as an array (n, n_columns).

    Parameters
    ----------
    path : str or Path
        Text file with a header, separated by commas, semicolons or tabs, or an archive of NumPy (.npz). An array (n,)
        of an archive is one column, and an array (n, k) is k columns.
    *groups : sequence of str
        Names of columns or arrays.

    Raises
    ------
    DataError
        If the file cannot be read or lacks a column, if values are not numbers, or if arrays have different lengths.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.core.tables import load_columns
    >>> np.savez("own.npz", goal=np.zeros(5), way=np.ones((5, 2)))
    >>> [part.shape for part in load_columns("own.npz", ["goal"], ["way", "goal"])]
    [(5, 1), (5, 3)]
    """
    path = checked_path(path, DataError)
    try:
        with open(path, "rb") as file:
            is_archive = file.read(2) == b"PK"
        return _from_archive(path, groups) if is_archive else _from_text(path, groups)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", str(path)) from error
    except (*ARCHIVE_ERRORS, csv.Error) as error:
        raise DataError(f"cannot read {path} as a table with a header, or as .npz: {error}", str(path)) from error


def _from_archive(path: Path, groups: Sequence[Sequence[str]]) -> tuple[FloatArray, ...]:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:

        def columns(name: str) -> FloatArray:
            array = np.asarray(archive[name])
            if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
                raise DataError(
                    f"{path}: {name} must be an array (n,) or (n, k) of real numbers, got {array.dtype} {array.shape}",
                    name,
                )
            return array.reshape(len(array), -1).astype(np.float64)

        return _stacked(path, groups, list(archive.files), columns)


def _from_text(path: Path, groups: Sequence[Sequence[str]]) -> tuple[FloatArray, ...]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        separator = max(SEPARATORS, key=first.count)
        header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
        if twice := sorted({name for name in header if header.count(name) > 1}):
            raise DataError(f"{path} has several columns named {', '.join(twice)}: rename them", twice)
        wanted = [name for group in groups for name in group if name in header]
        chosen = [header.index(name) for name in wanted]
        options: dict[str, Any] = {"delimiter": separator, "comments": None, "quotechar": '"', "ndmin": 2}
        rows = io.StringIO(file.read())
    if len(wanted) < sum(map(len, groups)):
        # raises an error with the name of the missing column
        return _stacked(path, groups, header, lambda name: np.empty((0, 1)))
    if not rows.getvalue().strip():
        raise DataError(f"{path} has no rows below its header: add at least one row", str(path))
    values = np.loadtxt(rows, usecols=chosen, **options)
    return _stacked(path, groups, header, lambda name: values[:, [wanted.index(name)]])


def _stacked(
    path: Path, groups: Sequence[Sequence[str]], known: Sequence[str], columns: Callable[[str], FloatArray]
) -> tuple[FloatArray, ...]:
    """Check names and lengths, and return the columns of each group as one array."""
    for name in (name for group in groups for name in group):
        if name not in known:
            what = f"{', '.join(known) or 'nothing'}{did_you_mean(name, known)}"
            raise DataError(f"{path} has no column or array {name!r}; it has {what}", name)
    parts = {name: columns(name) for group in groups for name in group}
    if len(lengths := {len(part) for part in parts.values()}) > 1:
        told = ", ".join(f"{name} {len(part)}" for name, part in parts.items())
        raise DataError(f"{path}: all arrays must have the same number of rows, got {told}", sorted(lengths))
    return tuple(np.column_stack([parts[name] for name in group]) for group in groups)
