"""The progress bar: figures that matter, nothing when quiet, and no remains in the way of an error's line."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from eim_ros.cli.progress import ProgressBar
from eim_ros.core.parallel import tell


@dataclass(frozen=True)
class Iteration:
    iteration: int


def test_bar_ends_full_with_the_last_figures(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(3, "fit") as bar:
        for i in (1, 2, 3):
            bar(Iteration(i), {"log_likelihood": -1.0 / i, "updated": 1.0})
    err = capsys.readouterr().err
    assert "fit: 100%" in err
    assert "3/3" in err
    assert "log-lik=-0.333" in err
    assert "updated" not in err


def test_bar_of_a_resumed_run_jumps_to_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(10) as bar:
        bar(Iteration(9), {})
    assert "9/10" in capsys.readouterr().err


def test_quiet_bar_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(3, enabled=False) as bar:
        bar(Iteration(1), {"loss": 0.5})
    assert capsys.readouterr() == ("", "")


def test_bar_is_wiped_away_when_an_error_follows(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(ValueError, match="cause"), ProgressBar(3):
        raise ValueError("cause")
    err = capsys.readouterr().err
    assert "\n" not in err
    assert err.endswith("\r")


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_work_before_the_iterations_is_told_with_the_time_it_will_take() -> None:
    clock = Clock()
    with ProgressBar(10, enabled=False, clock=clock) as bar:
        assert bar.line() == "training: preparing  [00:00]"
        tell("density of the data", 0.0, 8.0)
        clock.now = 1.0
        assert bar.line() == "training: density of the data   0% [00:01, time not known yet, then the rest]"
        clock.now = 30.0
        tell("density of the data", 2.0, 8.0)
        assert bar.line() == "training: density of the data  25% [00:30, at most 01:30 more, then the rest]"
        clock.now = 40.0
        assert "at most 01:20 more" in bar.line()


def test_time_left_is_judged_neither_by_the_preparation_nor_by_the_first_iteration() -> None:
    clock = Clock()
    with ProgressBar(10, enabled=False, clock=clock) as bar:
        clock.now = 72.0
        tell("start", 1.0, 1.0)
        clock.now = 82.0
        bar(Iteration(1), {})
        assert "1/10 [01:22<?]" in bar.line()
        clock.now = 84.0
        bar(Iteration(2), {})
        tell("a part of an iteration", 1.0, 5.0)
        assert "2/10 [01:24<00:16]" in bar.line()


def test_nobody_hears_once_the_bar_is_gone() -> None:
    with ProgressBar(10, enabled=False) as bar:
        pass
    tell("start", 1.0, 2.0)
    assert "start" not in bar.line()
