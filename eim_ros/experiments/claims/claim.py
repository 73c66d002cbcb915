"""A claim of the thesis as data: its words, where they stand, and a check against a result table.

A check looks at the rows of one estimator of the density ratio at a time, so that what the thesis' classifier shows and
what a plug-in density shows are never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from eim_ros.experiments.table import ResultTable, Value

__all__ = ["ALWAYS_SHOWN", "Claim", "Finding", "Pairs", "paired_means"]

ALWAYS_SHOWN = ("network", "plug-in")  # the thesis' classifier, and the density that knows the model

Pairs = dict[tuple[Value, ...], tuple[float, float]]


@dataclass(frozen=True)
class Finding:
    """What a table says about a claim.

    Attributes
    ----------
    measured : str
        In words and figures.
    agrees : bool, optional
        None where the table cannot tell.
    """

    measured: str
    agrees: bool | None


@dataclass(frozen=True)
class Claim:
    """What the thesis says.

    Attributes
    ----------
    source : str
        Where.
    text : str
        One sentence.
    check : callable
        From a table and an estimator of the density ratio to a finding; None where there are no rows for it. Any
        row may be missing.
    estimators : tuple of str
        Whose rows are looked at. What the first two say is told even where they are missing.
    """

    source: str
    text: str
    check: Callable[[ResultTable, str], Finding | None]
    estimators: tuple[str, ...] = (*ALWAYS_SHOWN, "residual")

    def findings(self, table: ResultTable) -> dict[str, Finding]:
        """By estimator."""
        found = {estimator: self.check(table, estimator) for estimator in self.estimators}
        missing = Finding("no rows", None)
        return {name: one or missing for name, one in found.items() if one is not None or name in ALWAYS_SHOWN}


def paired_means(
    table: ResultTable,
    figure: str,
    by: tuple[str, ...],
    first: Mapping[str, Value],
    second: Mapping[str, Value],
) -> Pairs:
    """Means of a figure under two methods, over the seeds that have both.

    Parameters
    ----------
    table : ResultTable
    figure : str
        Column.
    by : tuple of str
        Columns that tell problems apart: both methods are compared within each.
    first, second : mapping
        Values that the rows of a method have.

    Returns
    -------
    dict
        From values of `by` to the two means; without problems that only one of them has.
    """
    values: list[dict[tuple[Value, ...], float]] = [
        {(*(row[name] for name in by), row["seed"]): float(row[figure]) for row in table.where(**conditions)}
        for conditions in (first, second)
    ]
    pairs: dict[tuple[Value, ...], list[tuple[float, float]]] = {}
    for key in values[0]:
        if key in values[1]:
            pairs.setdefault(key[:-1], []).append((values[0][key], values[1][key]))
    means = {key: np.mean(some, axis=0) for key, some in pairs.items()}
    return {key: (float(mean[0]), float(mean[1])) for key, mean in means.items()}
