"""A result table in text: for each cell the mean of every figure over the seeds, with its standard error."""

from __future__ import annotations

import math

from eim_ros.experiments.table import LAST_COLUMNS, ResultTable, Row, mean_and_error

__all__ = ["summary"]

VERSIONS = LAST_COLUMNS[1:]
LARGEST_FIXED, LEAST_FIXED = 1e5, 1e-3  # numbers outside are written with a power of ten


def summary(table: ResultTable, cell_names: list[str]) -> list[str]:
    """Lines of text, the first with the names of columns.

    Parameters
    ----------
    table : ResultTable
    cell_names : list of str
        Columns that tell the cells apart.
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
