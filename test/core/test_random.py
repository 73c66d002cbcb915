"""Seeds of compiled random numbers: reproducible, distinct for distinct seeds, uniform and unrelated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eim_ros.core.parallel import generator, seed_fraction


@pytest.mark.parametrize("seed", [0, 1, 255, 256, 2**64, 10**60])
def test_a_seed_gives_the_same_number_and_another_one_another(seed: int) -> None:
    assert seed_fraction(seed) == seed_fraction(seed)
    assert seed_fraction(seed) != seed_fraction(seed + 1)


def test_without_a_seed_numbers_are_fresh() -> None:
    assert seed_fraction(None) != seed_fraction(None)


def test_numbers_of_successive_seeds_are_uniform_and_unrelated() -> None:
    numbers = np.array([seed_fraction(seed) for seed in range(4000)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.06


def test_generator_of_a_seed_repeats_and_a_fresh_one_does_not() -> None:
    assert generator(3).random() == np.random.default_rng(3).random()
    assert generator(None) is generator(None)
    assert generator(None).random() != generator(None).random()
