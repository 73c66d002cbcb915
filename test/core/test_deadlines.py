"""Tests of deadlines, and of estimates of how long work takes."""

from __future__ import annotations

import pytest

from eim_ros.core.deadlines import NEVER, Effort, OutOfTime, check_time, clock


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


def test_work_that_takes_longer_than_the_time_left_is_not_begun() -> None:
    check_time(clock() + 1000.0, "count", 10.0)
    check_time(NEVER, "count", 1e9)
    with pytest.raises(OutOfTime, match="no time was left to count, which takes about 1e"):
        check_time(clock() + 100.0, "count", 1e4)
