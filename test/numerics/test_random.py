"""Generators made quickly: reproducible, distinct for distinct seeds, as uniform as others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eim_ros.numerics.random import quick_generator


@pytest.mark.parametrize("seed", [0, 1, 255, 256, 2**64, 10**60])
def test_a_seed_gives_the_same_numbers_and_another_one_others(seed: int) -> None:
    numbers = quick_generator(seed).random(50)
    np.testing.assert_array_equal(numbers, quick_generator(seed).random(50))
    assert np.abs(numbers - quick_generator(seed + 1).random(50)).min() > 0.0


def test_without_a_seed_numbers_are_fresh() -> None:
    assert quick_generator(None).random() != quick_generator(None).random()


def test_first_numbers_of_successive_seeds_are_uniform_and_unrelated() -> None:
    first = np.array([quick_generator(seed).random(2) for seed in range(4000)])
    for column in first.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(first[:-1, 0], first[1:, 0])[0, 1]) < 0.06
