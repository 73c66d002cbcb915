"""Gain of the gating's update by default, compared with many more iterations."""

from benchmarks.gating_projection import Case

LEAST_SHARE = 0.98
HARD = (51, 84, 87, 116, 156, 194)  # little probability of the best experts, or noise at few contexts


def test_default_update_attains_the_gain():
    for seed in (*range(20), *HARD):
        case = Case.random(seed)
        gain, _ = case.gain()
        assert gain > 0.0, seed  # zero if a bound is exceeded
        assert gain >= LEAST_SHARE * case.attainable(), seed
