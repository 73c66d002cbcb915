"""The progress bar shows the main figures, can be turned off, and leaves nothing on the line of an error."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from eim_ros.cli.progress import Bar, ProgressBar
from eim_ros.core.parallel import tell


@dataclass(frozen=True)
class Iteration:
    iteration: int


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_bar_ends_full_with_the_last_figures(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(3, "fit") as bar:
        for i in (1, 2, 3):
            bar(Iteration(i), {"log_likelihood": -1.0 / i, "updated": 1.0})
    err = capsys.readouterr().err
    assert "fit" in err
    assert "3/3 it" in err
    assert "log-lik=-0.333" in err
    assert "updated" not in err


def test_bar_of_a_resumed_run_jumps_to_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(10) as bar:
        bar(Iteration(9), {})
    assert "9/10" in capsys.readouterr().err


def test_figure_of_the_record_is_summed(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(100, unit="evaluations") as bar:
        bar(Iteration(1), {"evaluations": 30.0})
        bar(Iteration(2), {"evaluations": 40.0})
    assert "70/100 evaluations" in capsys.readouterr().err


def test_work_before_the_iterations_is_a_stage_with_its_own_total(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(10) as bar:
        tell("density of the data", 2.0, 8.0)
        assert bar is not None
    assert "training: density of the data" in capsys.readouterr().err
    with ProgressBar(10) as bar:
        tell("density of the data", 2.0, 8.0)
        bar(Iteration(3), {})
        tell("part of an iteration", 1.0, 5.0)
    err = capsys.readouterr().err
    assert "3/10 it" in err
    assert "part" not in err


def test_quiet_bar_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(3, enabled=False) as bar:
        bar(Iteration(1), {"loss": 0.5})
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", [Bar, ProgressBar])
def test_error_leaves_no_remains_of_the_bar(kind: type, capsys: pytest.CaptureFixture[str]) -> None:
    bar = kind("map", 3) if kind is Bar else kind(3)
    with pytest.raises(ValueError, match="cause"), bar:
        raise ValueError("cause")
    assert capsys.readouterr().err == ""
