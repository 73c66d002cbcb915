"""Whole numbers on the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from eim_ros.cli.request_options import count, random_seed, random_seed_or_fresh


def test_numbers_within_their_bounds_are_taken() -> None:
    assert (count("1"), count("4294967295")) == (1, 2**32 - 1)
    assert (random_seed("0"), random_seed(str(2**63 - 1))) == (0, 2**63 - 1)
    assert (random_seed_or_fresh("0"), random_seed_or_fresh("12")) == (0, 12)
    assert random_seed_or_fresh("-1") is random_seed_or_fresh("-99") is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (count, "0"),
        (count, "-1"),
        (count, str(2**32)),
        (random_seed, "-1"),
        (random_seed, str(2**63)),
        (random_seed_or_fresh, str(2**63)),
    ],
)
def test_numbers_out_of_bounds_are_refused(kind, text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"must be between .* got {text}"):
        kind(text)


@pytest.mark.parametrize("text", ["", "1.5", "1e3", "ten", "nan"])
@pytest.mark.parametrize("kind", [count, random_seed, random_seed_or_fresh])
def test_what_is_no_whole_number_is_refused(kind, text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected a whole number"):
        kind(text)
