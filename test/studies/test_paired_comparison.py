"""Pairs of the same problem and seed: counted once each, and only where both methods have a row."""

from experiments.harness import Pairs, paired, pairs_in_words
from experiments.table import Header, ResultTable


def row(method: str, size: int, seed: int, kl: float, way: str = "none") -> dict[str, object]:
    return {"method": method, "size": size, "seed": seed, "kl": kl, "way": way}


TABLE = ResultTable(
    Header("toy", {}, {}),
    (
        row("A", 1, 0, 0.1),
        row("A", 1, 1, 0.5),
        row("A", 2, 0, 0.3),
        row("B", 1, 0, 0.2, "x"),
        row("B", 1, 0, 0.05, "y"),
        row("B", 1, 1, 0.6, "x"),
        row("B", 2, 0, 0.3, "x"),  # as good is not below
        row("B", 3, 0, 9.0, "x"),  # there is no A
        row("C", 1, 0, 1.0),
    ),
)


def count(other: str, **more: object) -> Pairs:
    return paired(TABLE, "kl", ("size",), {"method": "A"}, {"method": other, **more})


def test_each_variant_of_the_other_method_is_a_pair_with_the_row_of_its_size_and_seed():
    assert count("B") == Pairs(2, 4)
    assert count("B", way="y") == Pairs(0, 1)


def test_words_tell_each_method_and_all_together_and_leave_out_what_has_no_row():
    lines = pairs_in_words("A", {name: count(name) for name in ("B", "C", "D")})
    assert lines == ["A below B: 2 of 4 pairs", "A below C: 1 of 1 pairs", "A below all of these: 3 of 5 pairs (60%)"]
    assert pairs_in_words("A", {"D": count("D")}) == []
