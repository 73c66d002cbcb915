"""Claim of thesis 6.5: vehicles off the road."""

from __future__ import annotations

from eim_ros.experiments.claims.claim import Claim, Finding, paired_means
from eim_ros.experiments.table import ResultTable
from eim_ros.experiments.traffic import SYNTHETIC

__all__ = ["CLAIMS"]

MOST_OF_EM = 0.5  # what counts as "much more plausible"


def _more_plausible(table: ResultTable, estimator: str) -> Finding | None:
    pairs = paired_means(
        table, "off_road", ("n_components",), {"method": "EIM", "estimator": estimator}, {"method": "EM"}
    )
    if not pairs:
        return None
    shown = "; ".join(f"k = {n} {eim:.1%} (EM {em:.1%})" for (n,), (eim, em) in pairs.items())
    data = "synthetic traffic" if SYNTHETIC in table.distinct("data") else "NGSIM"
    n_less = sum(eim <= MOST_OF_EM * em for eim, em in pairs.values())
    return Finding(
        f"{data}, positions off the road with k components: {shown}; at most half of EM's at {n_less} of {len(pairs)}",
        n_less == len(pairs),
    )


CLAIMS = (
    Claim(
        "6.5, figure 6.7a",
        "EIM puts far fewer positions off the road than EM, with any number of components.",
        _more_plausible,
    ),
)
