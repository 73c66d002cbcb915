"""In how many of the same problems one method is better than another: pairs of rows of one size and one seed.

All methods of a row's size and seed have the same data and the same start, so that pairs say more than means do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eim_ros.experiments.table import ResultTable, Value

__all__ = ["Pairs", "paired", "pairs_in_words"]


@dataclass(frozen=True)
class Pairs:
    """How often a method's figure is below another's.

    Attributes
    ----------
    n_below : int
    n_pairs : int
    """

    n_below: int
    n_pairs: int

    def __add__(self, other: Pairs) -> Pairs:
        return Pairs(self.n_below + other.n_below, self.n_pairs + other.n_pairs)

    def __str__(self) -> str:
        return f"{self.n_below} of {self.n_pairs}"


def paired(
    table: ResultTable,
    figure: str,
    problem: Sequence[str],
    one: Mapping[str, Value],
    other: Mapping[str, Value],
) -> Pairs:
    """Compare the row of one method with each of another's for the same problem and seed.

    Parameters
    ----------
    table : ResultTable
    figure : str
        A column; the lower the better.
    problem : sequence of str
        Columns that rows of the same problem have in common; the seed is another.
    one, other : mapping
        Values of the rows to be compared (`ResultTable.where`). Of `one` there is at most one row for each problem; of
        `other` there may be several, such as variants: each is a pair.
    """
    names = (*problem, "seed")
    reference = {tuple(row[name] for name in names): row[figure] for row in table.where(**one)}
    rows = [(reference.get(tuple(row[name] for name in names)), row[figure]) for row in table.where(**other)]
    found = [(value, of_other) for value, of_other in rows if value is not None]
    return Pairs(sum(value < of_other for value, of_other in found), len(found))


def pairs_in_words(label: str, pairs: dict[str, Pairs]) -> list[str]:
    """One line for each method that was compared with the labelled one, and one for all of them."""
    found = {name: count for name, count in pairs.items() if count.n_pairs}
    lines = [f"{label} below {name}: {count} pairs" for name, count in found.items()]
    total = sum(found.values(), Pairs(0, 0))
    if len(found) > 1:
        lines.append(f"{label} below all of these: {total} pairs ({total.n_below / total.n_pairs:.0%})")
    return lines
