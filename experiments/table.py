"""Result table of an experiment: a CSV file with one row per cell and seed.

The first line is a comment, `# {...}`, with the experiment's name, its settings and the library versions in JSON. The
columns are the keys of the cell, the seed, the measured figures, the CPU time of the fit, and the versions. Numbers and
texts are stored unchanged. Lists and mappings, such as histograms and samples, are stored as JSON.

`summary` formats a table as text. For each cell, it contains the mean of each measure over the seeds, and the standard
error.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from eim_ros import __version__
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.core.files import to_json, write_atomically

SCHEMA = 1
LAST_COLUMNS = ("cpu_seconds", "eim_ros", "python", "torch", "numpy", "scikit_learn", "code")

Value: TypeAlias = Any  # a number, a text, or nested lists and mappings of them
Row: TypeAlias = dict[str, Value]


def versions() -> dict[str, str]:
    """Return the versions that a row depends on. A library that is not installed has the version "none"."""
    try:
        scikit_learn = importlib.metadata.version("scikit-learn")
    except importlib.metadata.PackageNotFoundError:
        scikit_learn = "none"
    return {
        "eim_ros": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit_learn": scikit_learn,
    }


@dataclass(frozen=True)
class Header:
    """Description of a table: experiment, settings and versions."""

    experiment: str
    settings: dict[str, Any]
    versions: dict[str, str]

    def check(self, other: Header, path: Path) -> None:
        """Raise `ConfigurationError` unless the header `other` from the file `path` belongs to the same run."""
        if other == self:
            return
        if other.experiment != self.experiment:
            differences = [f"experiment {other.experiment}, now {self.experiment}"]
        else:
            both = ((other.settings, self.settings), (other.versions, self.versions))
            differences = [
                f"{name} {there.get(name)!r}, now {here.get(name)!r}"
                for there, here in both
                for name in sorted({*there, *here})
                if there.get(name) != here.get(name)
            ]
        raise ConfigurationError(
            f"{path} contains results of another run ({'; '.join(differences)}); give another --output, or delete the "
            "file",
            differences,
        )


@dataclass(frozen=True)
class ResultTable:
    """Rows of results, ordered by cell and seed.

    Attributes
    ----------
    header : Header
    rows : tuple of dict
    """

    header: Header
    rows: tuple[Row, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the run, by name."""
        return self.header.settings

    def where(self, **values: Value) -> list[Row]:
        """Return the rows that have these values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in values.items())]

    def values(self, name: str, **conditions: Value) -> list[Value]:
        """Return one column of the rows that have these values."""
        return [row[name] for row in self.where(**conditions)]

    def distinct(self, name: str, **conditions: Value) -> list[Value]:
        """Return the distinct values of a column, in the order of their first occurrence."""
        return list(dict.fromkeys(self.values(name, **conditions)))

    def with_rows(self, rows: Iterable[Row]) -> ResultTable:
        return replace(self, rows=tuple(rows))

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        names = [name for name in names if name not in LAST_COLUMNS] + [n for n in LAST_COLUMNS if n in names]
        header = {"schema": SCHEMA, **vars(self.header)}
        buffer = io.StringIO()
        buffer.write(f"# {to_json(header)}\n")
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text(row.get(name)) for name in names] for row in self.rows)
        write_atomically(path, buffer.getvalue().encode())

    @classmethod
    def read(cls, path: Path) -> ResultTable:
        """Read a table from a file.

        Raises
        ------
        DataError
            If the file is not a result table of this version.
        """
        csv.field_size_limit(2**31 - 1)
        try:
            text = path.read_text(encoding="utf-8")
            first, _, rest = text.partition("\n")
            content = json.loads(first.removeprefix("# ")) if first.startswith("# ") else {}
            if content.pop("schema", None) != SCHEMA:
                raise ValueError("its first line does not belong to a result table of this version")
            header = Header(**content)
            names, *lines = list(csv.reader(io.StringIO(rest)))
            short = [number for number, line in enumerate(lines, 3) if len(line) != len(names)]
            if short:
                raise ValueError(f"line {short[0]} does not have as many columns as the header")
        except (ValueError, TypeError, OSError) as error:
            raise DataError(
                f"cannot read results in {path}: {error}; delete the file to start again", str(path)
            ) from error
        rows = [{name: _value(entry) for name, entry in zip(names, line, strict=True) if entry} for line in lines]
        return cls(header, tuple(rows))


def mean_and_error(rows: Sequence[Row], name: str) -> tuple[float, float]:
    """Return the mean of a column over rows, and its standard error. The error is NaN for fewer than two rows."""
    values = np.array([row[name] for row in rows if name in row], dtype=float)
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return float(values.mean()) if len(values) else math.nan, error


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, separators=(",", ":"))
    return value if isinstance(value, str) else repr(value)


def _value(text: str) -> Value:
    """Parse a text from `_text` as JSON, an integer or a float. Return other texts unchanged."""
    if text.startswith(("[", "{")):
        return json.loads(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


VERSIONS = LAST_COLUMNS[1:]
LARGEST_FIXED, LEAST_FIXED = 1e5, 1e-3  # numbers outside this range are written with a power of ten


def summary(table: ResultTable, cell_names: list[str]) -> list[str]:
    """Return the lines of a text table with means and standard errors. The first line contains the column names.

    Parameters
    ----------
    table : ResultTable
    cell_names : list of str
        Columns that distinguish the cells.
    """
    hidden = {"seed", *cell_names, *VERSIONS}
    figures = [
        name
        for name in dict.fromkeys(name for row in table.rows for name in row)
        if name not in hidden and any(isinstance(row.get(name), (int, float)) for row in table.rows)
    ]
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in table.rows:
        groups.setdefault(tuple(row[name] for name in cell_names), []).append(row)
    lines = [[*cell_names, "seeds", *figures]]
    for cell, rows in groups.items():
        lines.append([*map(str, cell), str(len(rows)), *(_entry(rows, name) for name in figures)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines]


def _entry(rows: list[Row], name: str) -> str:
    if not any(name in row for row in rows):
        return ""
    mean, error = mean_and_error(rows, name)
    return _number(mean) if math.isnan(error) else f"{_number(mean)} +- {_number(error)}"


def _number(value: float) -> str:
    if value == 0.0 or LEAST_FIXED <= abs(value) < LARGEST_FIXED:
        return f"{value:.4g}"
    return f"{value:.2e}"
