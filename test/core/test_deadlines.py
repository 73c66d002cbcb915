"""Estimates of how long work takes."""

from __future__ import annotations

import pytest

from eim_ros.core.deadlines import Effort


@pytest.mark.parametrize(("size", "seconds"), [(0, 10.0), (1000, 1e-4)])
def test_work_of_no_size_or_too_short_to_measure_leaves_the_estimate(size: int, seconds: float) -> None:
    effort = Effort(1e-6)
    before = effort.seconds(1000)
    effort.took(size, seconds)
    assert effort.seconds(1000) == before


def test_estimate_follows_the_time_that_work_takes() -> None:
    effort = Effort(1e-6)
    for _ in range(20):
        effort.took(1000, 2.0)
    assert 2.0 <= effort.seconds(1000) <= 10.0
