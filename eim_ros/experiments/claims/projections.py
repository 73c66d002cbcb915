"""Claim of thesis figure 2.1: the two projections of two modes onto one Gaussian."""

from __future__ import annotations

from eim_ros.experiments.claims.claim import Claim, Finding
from eim_ros.experiments.projections import projections_of
from eim_ros.experiments.table import ResultTable

__all__ = ["CLAIMS"]

MODE = 2.999915  # mean of the I-projection onto either mode, by quadrature
CLOSE = 0.01
N_TARGETS = 3


def _one_mode_or_both(table: ResultTable, estimator: str) -> Finding | None:
    seeds = [seed for seed in table.distinct("seed", estimator=estimator) if len(table.where(seed=seed)) == N_TARGETS]
    if not seeds:
        return None
    found = [projections_of(table.where(seed=seed)).two_modes for seed in seeds]
    right, left, between = (float(getattr(found[0], name).mean) for name in ("right", "left", "moments"))
    return Finding(
        f"modes at -3 and 3: means of the I-projection from two starts {left:.3f} and {right:.3f}, of the M-projection "
        f"{abs(between):.3f}",
        all(
            abs(float(one.right.mean) - MODE) < CLOSE
            and abs(float(one.left.mean) + MODE) < CLOSE
            and abs(float(one.moments.mean)) < CLOSE
            for one in found
        ),
    )


CLAIMS = (
    Claim(
        "2.2, figure 2.1",
        "A Gaussian's I-projection focuses on one of two modes, its M-projection averages over both.",
        _one_mode_or_both,
        ("known",),
    ),
)
