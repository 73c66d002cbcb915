"""The progress bar: figures that matter, nothing when quiet, and no remains in the way of an error's line."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from eim_ros.cli.progress import ProgressBar


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


def test_bar_is_wiped_away_when_an_error_follows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="cause"), ProgressBar(3):
        raise ValueError("cause")
    err = capsys.readouterr().err
    assert "\n" not in err
    assert err.endswith("\r")
