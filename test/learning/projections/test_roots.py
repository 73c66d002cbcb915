"""Bracketing: the feasible end is returned, roots of all magnitudes are found, entries of a batch do not interact."""

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


def test_feasible_start_is_returned_itself():
    bracket = decreasing_root(lambda a: -a, start_of(3))
    assert (bracket.upper == 1.0).all()
    assert bracket.found.all()


def test_zero_at_the_start_counts_as_feasible():
    assert decreasing_root(lambda a: 1.0 - a, start_of()).upper == 1.0


def test_pole_at_the_start_counts_as_positive():
    bracket = decreasing_root(lambda a: 1.0 / (a - 1.0) - 1e6, start_of())
    torch.testing.assert_close(bracket.upper - 1.0, torch.tensor(1e-6, dtype=torch.float64), rtol=1e-8, atol=0.0)
    nan_at_start = decreasing_root(lambda a: torch.where(a > 1.0, 2.0 - a, torch.nan), start_of())
    torch.testing.assert_close(nan_at_start.upper, torch.tensor(2.0, dtype=torch.float64), rtol=1e-9, atol=0.0)


def test_function_without_a_root_is_reported_as_not_found():
    bracket = decreasing_root(lambda a: torch.exp(-a) + 1.0, start_of(2))
    assert not bracket.found.any()


def test_nan_everywhere_is_reported_as_not_found():
    assert not decreasing_root(lambda a: a * torch.nan, start_of()).found


def test_entries_of_a_batch_do_not_interact():
    offset = torch.tensor([-1.0, 5.0, torch.nan, 1e20], dtype=torch.float64)
    together = decreasing_root(lambda a: offset - a, start_of(4))
    for index, single in enumerate(offset):
        alone = decreasing_root(lambda a, value=single: value - a, start_of())
        assert together.found[index] == alone.found
        if alone.found:
            torch.testing.assert_close(together.upper[index], alone.upper, rtol=1e-9, atol=0.0)


def test_dtype_follows_the_start():
    bracket = decreasing_root(lambda a: 3.0 - a, torch.ones(2, dtype=torch.float32))
    assert bracket.upper.dtype == torch.float32
    torch.testing.assert_close(bracket.upper, torch.full((2,), 3.0), rtol=1e-6, atol=0.0)
