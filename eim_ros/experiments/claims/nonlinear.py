"""Claims of thesis 6.6: one neural expert on univariate targets."""

from __future__ import annotations

from collections.abc import Callable

from eim_ros.experiments.claims.claim import Claim, Finding
from eim_ros.experiments.table import ResultTable, mean_and_error

__all__ = ["CLAIMS"]

MOST_KL = 0.1  # [nat]: about what a mean costs that is .45 deviations off
LEAST_NEAR, LEAST_ON_ONE = 0.95, 0.9  # shares of the samples; the two modes cross, where either may be the closest


def _fits(target: str) -> Callable[[ResultTable, str], Finding | None]:
    def check(table: ResultTable, estimator: str) -> Finding | None:
        rows = table.where(target=target, method="EIM", estimator=estimator)
        if not rows:
            return None
        worst = max(row["kl"] for row in rows)
        mean, _ = mean_and_error(rows, "kl")
        return Finding(f"KL(model || target) {mean:.3f} nat, {worst:.3f} in the worst run", worst <= MOST_KL)

    return check


def _ignores_a_mode(table: ResultTable, estimator: str) -> Finding | None:
    rows, of_em = (
        table.where(target="modes", method="EIM", estimator=estimator),
        table.where(target="modes", method="EM"),
    )
    if not rows or not of_em:
        return None
    near, on_one = (min(row[name] for row in rows) for name in ("near", "on_one_mode"))
    em_near, _ = mean_and_error(of_em, "near")
    return Finding(
        f"within three deviations of a mode {near:.1%} of the samples (EM {em_near:.1%}), closest to one and the same "
        f"mode {on_one:.1%} (worst run)",
        near >= LEAST_NEAR and on_one >= LEAST_ON_ONE,
    )


CLAIMS = (
    Claim("6.6, figure 6.8a", "A neural expert follows a highly nonlinear function.", _fits("sine")),
    Claim("6.6, figure 6.8b", "It ignores the mode that it cannot represent.", _ignores_a_mode),
    Claim("6.6, figure 6.8c", "It learns a variance that depends on the context.", _fits("spread")),
)
