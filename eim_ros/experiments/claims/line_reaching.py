"""Claims of thesis 6.3: a planar robot that reaches a line."""

from __future__ import annotations

from eim_ros.experiments.claims.claim import Claim, Finding, Pairs, paired_means
from eim_ros.experiments.table import ResultTable, mean_and_error

__all__ = ["CLAIMS"]

BY = ("n_components",)
MUCH_CLOSER = 0.5  # of EM's distance: what counts as reaching the line where EM misses it


def _closer_than_em(table: ResultTable, estimator: str) -> Finding | None:
    pairs = paired_means(table, "distance", BY, {"method": "EIM", "estimator": estimator}, {"method": "EM"})
    return _closer(pairs, "EM", MUCH_CLOSER)


def _closer_with_tip(table: ResultTable, estimator: str) -> Finding | None:
    if estimator == "plug-in" and table.where(estimator=estimator):
        return Finding("a density of the joints cannot see the tip: not run", None)
    tip, plain = ({"method": method, "estimator": estimator} for method in ("EIM + tip", "EIM"))
    return _closer(paired_means(table, "distance", BY, tip, plain), "without", 1.0)


def _closer(pairs: Pairs, other: str, factor: float) -> Finding | None:
    """Distances of the first method below this factor of those of the second."""
    if not pairs:
        return None
    n_below = sum(first < factor * second for first, second in pairs.values())
    shown = "; ".join(
        f"k = {key[0]} {pairs[key][0]:.3f} m ({other} {pairs[key][1]:.3f})"
        for key in dict.fromkeys((min(pairs), max(pairs)))
    )
    words = "closer" if factor == 1.0 else "at most half as far"
    return Finding(f"{words} at {n_below} of {len(pairs)} numbers k of components: {shown}", n_below == len(pairs))


def _covers_more_with_more(table: ResultTable, estimator: str) -> Finding | None:
    rows = table.where(method="EIM", estimator=estimator)
    if not rows:
        return None
    counts = sorted({row["n_components"] for row in rows})
    values = [mean_and_error([row for row in rows if row["n_components"] == n], "coverage")[0] for n in counts]
    shown = ", ".join(f"{value:.2f} ({count})" for count, value in zip(counts, values, strict=True))
    agrees = values[-1] == max(values) and values[0] == min(values) if len(counts) > 1 else None
    return Finding(f"overlap of the histograms along the line, by number of components: {shown}", agrees)


CLAIMS = (
    Claim(
        "6.3, figure 6.4a",
        "EIM reaches the line with any number of components; EM misses it even with many.",
        _closer_than_em,
    ),
    Claim("6.3, figure 6.4a", "Told about the tip, EIM is closer still.", _closer_with_tip),
    Claim(
        "6.3, figure 6.5",
        "With few components EIM ignores parts of the line; with more it covers more of them.",
        _covers_more_with_more,
    ),
)
