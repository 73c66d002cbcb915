"""Bracketing: the feasible end is returned, roots of all magnitudes are found, entries of a batch do not interact."""

import pytest
import torch

from eim_ros.learning.projections.categorical import decreasing_root


def start_of(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.float64)


def test_roots_of_fifty_orders_of_magnitude_are_found():
    roots = torch.logspace(-10, 40, 101, dtype=torch.float64)  # excess over the start
    bracket = decreasing_root(lambda a: roots - (a - 1.0), start_of(101))
    # near the start the argument itself is only resolved to one rounding of 1
    torch.testing.assert_close(bracket.upper - 1.0, roots, rtol=1e-9, atol=3e-16)
    assert bracket.found.all()


def test_upper_end_is_feasible_and_lower_end_is_not():
    bounds = torch.linspace(0.01, 3.0, 50, dtype=torch.float64)

    def function(a):
        return 1.0 / a - bounds

    bracket = decreasing_root(function, torch.full((50,), 0.1, dtype=torch.float64))
    assert (function(bracket.upper) <= 0.0).all()
    assert (function(bracket.lower) > 0.0).all()
    torch.testing.assert_close(bracket.upper, 1.0 / bounds, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize(
    ("function", "excess"),  # of the root over the start, 1; None without a root
    [
        (lambda a: -a, 0.0),
        (lambda a: 1.0 - a, 0.0),
        (lambda a: 1.0 / (a - 1.0) - 1e6, 1e-6),  # a pole at the start counts as positive
        (lambda a: torch.where(a > 1.0, 2.0 - a, torch.nan), 1.0),
        (lambda a: torch.exp(-a) + 1.0, None),
        (lambda a: a * torch.nan, None),
    ],
)
def test_special_starts_and_missing_roots(function, excess):
    bracket = decreasing_root(function, start_of())
    assert bool(bracket.found) == (excess is not None)
    assert excess is None or float(bracket.upper - 1.0) == pytest.approx(excess, rel=1e-8, abs=0.0)


def test_entries_of_a_batch_do_not_interact():
    offset = torch.tensor([-1.0, 5.0, torch.nan, 1e20], dtype=torch.float64)
    together = decreasing_root(lambda a: offset - a, start_of(4))
    for index, single in enumerate(offset):
        alone = decreasing_root(lambda a, value=single: value - a, start_of())
        assert together.found[index] == alone.found
        if alone.found:
            torch.testing.assert_close(together.upper[index], alone.upper, rtol=1e-9, atol=0.0)
