"""Claims of thesis 6.2: EM and EIM from the same random starts."""

from __future__ import annotations

import numpy as np

from eim_ros.experiments.claims.claim import Claim, Finding
from eim_ros.experiments.robustness import AS_GOOD_AS, K_MEANS, OPTIMUM
from eim_ros.experiments.table import ResultTable

__all__ = ["CLAIMS"]


def _values(table: ResultTable, method: str, estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihoods of the starts (n,) [nat], and whether each is at the optimum of its seed."""
    best = {row["seed"]: row["log_likelihood"] - AS_GOOD_AS for row in table.where(method=OPTIMUM)}
    rows = [row for row in table.where(method=method, estimator=estimator) if row["seed"] in best]
    values = np.array([row["log_likelihood"] for row in rows], dtype=float)
    return values, values >= np.array([best[row["seed"]] for row in rows])


def _more_often(table: ResultTable, estimator: str) -> Finding | None:
    (values, at_optimum), (of_em, em_at_optimum) = _values(table, "EIM", estimator), _values(table, "EM", "none")
    if not len(values) or not len(of_em):
        return None
    return Finding(
        f"EIM from {at_optimum.sum()} of {len(values)} random starts, EM from {em_at_optimum.sum()} of {len(of_em)} "
        f"(within {AS_GOOD_AS} nat of the optimum){_from_k_means(table)}",
        bool(at_optimum.mean() > em_at_optimum.mean()),
    )


def _from_k_means(table: ResultTable) -> str:
    """What the thesis does not compare with: EM with a start of its own."""
    values, at_optimum = _values(table, K_MEANS, "none")
    return f"; EM from k-means {at_optimum.sum()} of {len(values)} times" if len(values) else ""


def _higher_on_average(table: ResultTable, estimator: str) -> Finding | None:
    (values, _), (of_em, _) = _values(table, "EIM", estimator), _values(table, "EM", "none")
    if not len(values) or not len(of_em):
        return None
    return Finding(
        f"mean over the starts: EIM {values.mean():.2f} nat (worst {values.min():.2f}), EM {of_em.mean():.2f} "
        f"(worst {of_em.min():.2f})",
        bool(values.mean() > of_em.mean()),
    )


def _em_is_better_there(table: ResultTable, estimator: str) -> Finding | None:
    (values, at_optimum), (of_em, em_at_optimum) = _values(table, "EIM", estimator), _values(table, "EM", "none")
    if not len(values) or not len(of_em):
        return None
    if not at_optimum.any() or not em_at_optimum.any():
        return Finding("not both reach it", None)
    eim, em = values[at_optimum].mean(), of_em[em_at_optimum].mean()
    return Finding(f"mean of those runs: EM {em:.3f} nat, EIM {eim:.3f}", bool(em > eim))


CLAIMS = (
    Claim("6.2, figure 6.3", "EIM reaches the global optimum from more of the random starts than EM.", _more_often),
    Claim("6.2, figure 6.3", "So its mean log-likelihood is the higher one.", _higher_on_average),
    Claim("6.2, figure 6.3", "Where both reach the optimum, EM's log-likelihood is higher.", _em_is_better_there),
)
