"""Claims of thesis figure 1.1: one Gaussian around a disc."""

from __future__ import annotations

from eim_ros.experiments.claims.claim import Claim, Finding
from eim_ros.experiments.table import ResultTable, mean_and_error

__all__ = ["CLAIMS"]

MOST_COLLISIONS, MOST_OFF = 0.05, 0.2  # share of the samples; [m] from the point, of an arm of 10 m


def _solves_the_task(table: ResultTable, estimator: str) -> Finding | None:
    rows, of_em = table.where(method="EIM", estimator=estimator), table.where(method="EM")
    if not rows or not of_em:
        return None
    (collisions, _), (distance, _) = mean_and_error(rows, "collisions"), mean_and_error(rows, "distance")
    (em_collisions, _), (em_distance, _) = mean_and_error(of_em, "collisions"), mean_and_error(of_em, "distance")
    return Finding(
        f"EIM: {collisions:.1%} collide, {distance:.2f} m from the point; EM: {em_collisions:.1%}, {em_distance:.2f} m",
        collisions <= MOST_COLLISIONS and distance <= MOST_OFF and em_collisions > 0.5 and em_distance > MOST_OFF,
    )


def _keeps_to_one_way(table: ResultTable, estimator: str) -> Finding | None:
    rows = table.where(method="EIM", estimator=estimator)
    if not rows:
        return None
    shares = [max(row["above"], 1.0 - row["above"]) for row in rows]
    return Finding(
        f"share of samples on one side of the disc: {min(shares):.1%} (least of the seeds)", min(shares) > 0.95
    )


CLAIMS = (
    Claim(
        "figure 1.1",
        "One Gaussian of highest likelihood averages over both ways, misses the point and hits the disc; EIM's does "
        "neither.",
        _solves_the_task,
    ),
    Claim("figure 1.1", "EIM's takes one of the two ways and ignores the other.", _keeps_to_one_way),
)
