"""Claims of thesis 6.1: EIM beside adversarial training, its variants and VIPS on random mixtures."""

from __future__ import annotations

from eim_ros.experiments.adversarial import ADVERSARIAL
from eim_ros.experiments.baselines import EIM_VARIANTS
from eim_ros.experiments.claims.claim import Claim, Finding, paired_means
from eim_ros.experiments.paired_comparison import Pairs, paired
from eim_ros.experiments.table import ResultTable, Row

__all__ = ["CLAIMS"]

SIZE = ("n_dims", "n_components")
NEEDED = 0.9  # of the pairs: with few samples either may be ahead by noise where both are close to zero
NO_MATTER = 1.5  # factor between means that are much the same


def _below_adversarial(table: ResultTable, estimator: str) -> Finding | None:
    """In pairs of the same target and seed, each way to learn the weights one of them."""
    eim = {"method": "EIM", "estimator": estimator}
    of_methods = {name: paired(table, "kl", SIZE, eim, {"method": name}) for name in ADVERSARIAL}
    total = sum(of_methods.values(), Pairs(0, 0))
    if not total.n_pairs:
        return None
    shown = ", ".join(f"{name} {pairs}" for name, pairs in of_methods.items() if pairs.n_pairs)
    return Finding(
        f"below in {total} pairs of the same target and seed: {shown}", total.n_below >= NEEDED * total.n_pairs
    )


def _best_of_variants(table: ResultTable, estimator: str) -> Finding | None:
    of_sizes = _variants(table, estimator)
    if not of_sizes:
        return None
    n_first = sum(kl["EIM"] == min(kl.values()) for kl in of_sizes.values())
    (n_dims, count), kl = max(of_sizes.items())
    shown = ", ".join(f"{name} {value:.3f}" for name, value in kl.items())
    return Finding(
        f"first at {n_first} of {len(of_sizes)} sizes; d = {n_dims}, {count} components: {shown} nat",
        n_first == len(of_sizes),
    )


def _kl_term_without_structure(table: ResultTable, estimator: str) -> Finding | None:
    of_sizes = {key: kl for key, kl in _variants(table, estimator).items() if key[1] > 1}
    if not of_sizes:
        return None
    factors = [kl["EIM-US-KL"] / kl["EIM-US"] for kl in of_sizes.values()]
    return Finding(
        f"mixtures: KL of EIM-US-KL is {min(factors):.2f} to {max(factors):.2f} times that of EIM-US",
        max(factors) <= NO_MATTER and min(factors) >= 1.0 / NO_MATTER,
    )


def _behind_vips(table: ResultTable, estimator: str) -> Finding | None:
    pairs = paired_means(table, "kl", SIZE, {"method": "VIPS"}, {"method": "EIM", "estimator": estimator})
    if not pairs:
        return None
    n_below = sum(vips <= eim for vips, eim in pairs.values())
    vips, eim = pairs[max(pairs)]
    return Finding(
        f"VIPS below EIM at {n_below} of {len(pairs)} sizes; at the largest {vips:.3f} against {eim:.3f} nat",
        n_below == len(pairs),
    )


def _variants(table: ResultTable, estimator: str) -> dict[tuple[int, int], dict[str, float]]:
    """Mean KL of EIM and of all its variants by size, over the seeds that all of them have."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    rows: list[Row] = [row for row in table.where(estimator=estimator) if row["method"] in EIM_VARIANTS]
    for size in sorted({(row["n_dims"], row["n_components"]) for row in rows}):
        of_size = [row for row in rows if (row["n_dims"], row["n_components"]) == size]
        seeds = [{row["seed"] for row in of_size if row["method"] == name} for name in EIM_VARIANTS]
        shared = set.intersection(*seeds)
        if shared:
            found[size] = {
                name: sum(row["kl"] for row in of_size if row["method"] == name and row["seed"] in shared) / len(shared)
                for name in EIM_VARIANTS
            }
    return found


CLAIMS = (
    Claim(
        "6.1, figure 6.1",
        "EIM's KL(model || target) is below that of every adversarial method.",
        _below_adversarial,
    ),
    Claim("6.1, figure 6.2", "EIM is better than all its variants.", _best_of_variants),
    Claim("6.1, figure 6.2d", "Without the structure, the KL term does not matter.", _kl_term_without_structure),
    Claim("6.1, figure 6.2", "VIPS, which knows the density, is better than EIM.", _behind_vips),
)
