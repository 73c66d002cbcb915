"""Claims of thesis 6.4: inverse kinematics of an arm from samples."""

from __future__ import annotations

from eim_ros.experiments.claims.claim import Claim, Finding, paired_means
from eim_ros.experiments.kinematics import CURVES
from eim_ros.experiments.table import ResultTable

__all__ = ["CLAIMS"]

HIGH = 0.9  # of its maximum: an entropy over the experts that counts as using all of them
FALLS = 0.9  # of EM's E H(q(z|y)) at its end: what counts as lower
SHOWN = ("network", "plug-in", "residual", "known")


def _below_em(table: ResultTable, estimator: str) -> Finding | None:
    eim, em = {"method": "EIM", "estimator": estimator}, {"method": "EM"}
    pairs = paired_means(table, "rmse_position", ("robot", "n_components"), eim, em)
    if not pairs:
        return None
    n_below = sum(first < second for first, second in pairs.values())
    shown = "; ".join(
        f"{robot}, K = {count}: {first:.3f} m (EM {second:.3f})" for (robot, count), (first, second) in pairs.items()
    )
    return Finding(f"below at {n_below} of {len(pairs)}: {shown}", n_below == len(pairs))


def _all_are_used(table: ResultTable, estimator: str) -> Finding | None:
    rows, rows_of_em = table.where(method="EIM", estimator=estimator), table.where(method="EM")
    if not rows or not rows_of_em:
        return None
    least, of_em = (min(row["entropy_marginal"] for row in some) for some in (rows, rows_of_em))
    return Finding(f"at least {least:.3f} of its maximum (EM {of_em:.3f})", bool(min(least, of_em) >= HIGH))


def _only_eim_parts_the_positions(table: ResultTable, estimator: str) -> Finding | None:
    eim, em = {"method": "EIM", "estimator": estimator}, {"method": "EM"}
    pairs = paired_means(table, "entropy_conditional", ("robot", "n_components"), eim, em)
    if not pairs:
        return None
    curves = table.values(CURVES["entropy_conditional"], **eim)
    n_falling = sum(curve[-1] < curve[0] for curve in curves)
    n_lower = sum(first < FALLS * second for first, second in pairs.values())
    worst = max(pairs, key=lambda key: pairs[key][0] / pairs[key][1])
    first, second = pairs[worst]
    return Finding(
        f"falls in {n_falling} of {len(curves)} runs; at the end clearly below EM's at {n_lower} of {len(pairs)}, "
        f"closest to it at {worst[0]}, K = {worst[1]}: {first:.2f} (EM {second:.2f})",
        n_falling == len(curves) and n_lower == len(pairs),
    )


CLAIMS = (
    Claim("6.4, figure 6.6a", "EIM's RMSE of the end-effector's position is below EM's.", _below_em, SHOWN),
    Claim("6.4, figure 6.6c", "Both keep H(z) high: they use all components.", _all_are_used, SHOWN),
    Claim("6.4, figure 6.6b", "Only EIM lowers E H(q(z \\| y)).", _only_eim_parts_the_positions, SHOWN),
)
