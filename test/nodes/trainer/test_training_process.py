"""Tests of trainings in separate processes: their reports, their ends, and the files that they leave."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from core.processes import PATIENCE, wait_for
from motion.demonstrated import two_ways

from eim_ros.core.data_set import save_data_set
from eim_ros.core.errors import ConfigurationError
from eim_ros.motion import MotionPrior
from eim_ros.nodes.trainer.training_process import Progress, TrainingProcess, training_command


@pytest.fixture(scope="module")
def motions(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("motions") / "motions.npz"
    save_data_set(path, two_ways(60, 0))
    return str(path)


def start(data: str, output: Path, settings: tuple[str, ...] = ("n_components=2",), **words: str) -> TrainingProcess:
    arguments = {"task": "motion", "data": data, "algorithm": "em", "robot": "", "seed": 0, **words}
    command = training_command(output=str(output), settings=settings, **arguments)
    return TrainingProcess(command, str(output))


def test_outcome_tells_model_status_and_figures(motions: str, tmp_path: Path) -> None:
    process = start(motions, tmp_path / "m.safetensors")
    assert process.wait(PATIENCE)
    outcome = process.outcome()
    assert (outcome.success, outcome.message, outcome.status) == (True, "", "converged")
    assert outcome.model == str(tmp_path / "m.safetensors")
    assert outcome.metrics["n_samples"] == 60
    assert math.isfinite(outcome.metrics["held_out_log_prob"])
    assert MotionPrior.load(outcome.model).training["algorithm"] == "em"
    assert process.progress.phase == "writing"


def test_outcome_tells_that_eim_changed_nothing(motions: str, tmp_path: Path) -> None:
    few = ("ratio.reference.starts=1", "ratio.reference.iterations=5")
    settings = ("n_components=10", "ratio.estimator=plug-in", *few)
    process = start(motions, tmp_path / "m.safetensors", settings, algorithm="eim")
    assert process.wait(PATIENCE)
    outcome = process.outcome()
    assert (outcome.success, outcome.status) == (True, "unchanged")
    assert outcome.message.startswith("EIM changed nothing")


@pytest.mark.parametrize(
    ("words", "settings", "reason"),
    [
        ({"data": "none.npz"}, (), "cannot read none.npz"),
        ({"algorithm": "--help"}, (), "invalid choice: '--help'"),
        ({}, ("--resume",), "a setting must be written name=value"),
    ],
)
def test_bad_goal_is_refused_in_one_line(
    motions: str, tmp_path: Path, words: dict[str, str], settings: tuple[str, ...], reason: str
) -> None:
    process = start(**{"data": motions, "output": tmp_path / "m", "settings": settings, **words})
    assert process.wait(PATIENCE)
    outcome = process.outcome()
    assert not outcome.success
    assert reason in outcome.message
    assert "\n" not in outcome.message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("setting", ["run.initial=/etc/passwd", " run.device=cuda", "run={prior: /etc/passwd}"])
def test_settings_of_the_run_are_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a setting of the learner"):
        training_command([setting], task="ik", data="d.npz", output="m")


def test_ended_training_leaves_neither_model_nor_remains_but_what_others_left(motions: str, tmp_path: Path) -> None:
    path = tmp_path / "m[1].safetensors"
    others = tmp_path / ".m1.safetensors.0123"
    others.touch()
    process = start(motions, path, ("n_components=2", "n_starts=1000", "n_iterations=1000000", "tolerance=0"))
    wait_for(lambda: process.progress.phase == "fitting", "fit")
    (tmp_path / f".{path.name}.0123456789abcdef").write_bytes(b"half a model")  # as after an interrupted write
    assert not process.wait(0.0)
    process.end()
    assert process.wait(0.0)
    assert list(tmp_path.iterdir()) == [others]


def test_end_works_on_a_process_that_ignores_signals(tmp_path: Path) -> None:
    script = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('{\"iteration\": 1}', file=sys.stderr, flush=True); time.sleep(600)"
    )
    process = TrainingProcess([sys.executable, "-c", script], str(tmp_path / "m"))
    wait_for(lambda: process.progress.iteration == 1, "sign that signals are ignored")
    process.end()
    assert process.wait(0.0)


def test_process_that_dies_without_a_word_is_a_failure(tmp_path: Path) -> None:
    process = TrainingProcess([sys.executable, "-c", "import os; os._exit(9)"], str(tmp_path / "m"))
    assert process.wait(PATIENCE)
    assert process.outcome().message == "the training ended with exit code 9 and without a message"


def test_lines_that_are_no_progress_are_kept_as_its_complaint(tmp_path: Path) -> None:
    script = "import sys; print('{\"iteration\": 3}\\n[1]\\nout of paper', file=sys.stderr); sys.exit(2)"
    process = TrainingProcess([sys.executable, "-c", script], str(tmp_path / "m"))
    assert process.wait(PATIENCE)
    assert process.outcome().message == "[1] out of paper"
    assert process.progress == Progress(iteration=3) or process.progress.iteration == 3
