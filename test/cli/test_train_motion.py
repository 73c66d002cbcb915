"""`eim train --task motion`, settings as words, and progress for a program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from cli.command import COMMAND, PATIENCE, Command, eim_process
from cli.conftest import FAST, FAST_EIM, sets
from motion.demonstrated import JOINTS, two_ways

from eim_ros.core.data_set import save_data_set
from eim_ros.ik import IKModel
from eim_ros.motion import MotionPrior

FAST_MOTION = ("--quiet", "--experts", 2, "--iterations", 3)


@pytest.fixture(scope="module")
def motions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("motions") / "motions.npz"
    save_data_set(path, two_ways(60, 0))
    return path


def train(motions: Path, output: Path) -> tuple[object, ...]:
    return ("train", "--task", "motion", "--data", motions, "--output", output)


@pytest.mark.parametrize("algorithm", ["em", "eim"])
def test_motion_prior_is_learnt_and_records_how(eim: Command, tmp_path: Path, motions: Path, algorithm: str) -> None:
    path = tmp_path / "prior.safetensors"
    rest = () if algorithm == "em" else (*FAST_EIM[3:], *sets("ratio.reference.factors=1", "ratio.reference.starts=1"))
    outcome = eim(*train(motions, path), "--algorithm", algorithm, "--seed", 5, "--json", *FAST_MOTION, *rest)
    assert (outcome.code, outcome.err) == (0, "")
    record = outcome.json
    assert (record["algorithm"], record["seed"], record["n_held_out"]) == (algorithm, 5, 60)
    prior = MotionPrior.load(path)
    assert prior.joint_names == JOINTS
    assert {name: record[name] for name in prior.training} == prior.training
    assert [file.name for file in tmp_path.iterdir()] == ["prior.safetensors"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--algorithm", "truncated-em"), "motion priors are learnt by eim or em, not by truncated-em"),
        (("--robot", "planar3"), "the motions are of joints shoulder, elbow, wrist, robot 'planar3' has"),
        (("--experts", 1000), "1000 experts need at least as many points, got 48"),
        (sets("motion.basis=sines"), "basis must be one of"),
        (sets("smoothing.sigma_start=0.1"), "unknown setting smoothing.sigma_start of MotionEIMConfig"),
        (("--tip", "hand"), "--base and --tip are links of --robot"),
    ],
)
def test_bad_input_is_one_line_and_no_model(
    eim: Command, tmp_path: Path, motions: Path, words: tuple, reason: str
) -> None:
    eim(*train(motions, tmp_path / "m"), "--quiet", *words).refused(reason)
    assert not (tmp_path / "m").exists()


def test_data_of_the_other_task_are_refused(eim: Command, tmp_path: Path, motions: Path, data: Path) -> None:
    eim(*train(data, tmp_path / "m"), *FAST_MOTION).refused("its task is None, expected 'motion'")
    eim("train", "--data", motions, "--output", tmp_path / "m", *FAST).refused("no valid robot description")


def test_robot_is_that_of_the_data_set_unless_given(eim: Command, tmp_path: Path, data: Path) -> None:
    words = ("train", "--data", data, "--output", tmp_path / "m", "--algorithm", "em", *FAST)
    assert eim(*words).code == 0
    assert IKModel.load(tmp_path / "m").robot.name == "planar3"


def test_settings_as_words_are_those_of_the_flags(eim: Command, tmp_path: Path, data: Path) -> None:
    words = ("train", "--data", data, "--algorithm", "em", "--quiet", "--json", "--output", tmp_path / "m")
    by_words = eim(*words, *sets("n_components=3", "n_iterations=2")).json
    by_flags = eim(*words, "--experts", 3, "--iterations", 2).json
    assert by_words["config"] == by_flags["config"]
    assert eim(*words, *FAST[1:], *sets("n_components=9")).json["config"]["n_components"] == 3  # flags beat words


def test_progress_for_a_program_are_lines_of_json_in_the_order_of_the_phases(tmp_path: Path, motions: Path) -> None:
    words = (*train(motions, tmp_path / "m"), "--algorithm", "em", *sets("run.progress=json", "run.checkpoint_every=0"))
    outcome = eim_process(*words, "--json", "--experts", 2, *sets("n_starts=1", "n_iterations=5", "tolerance=0"))
    assert outcome.code == 0, outcome.err
    lines = [json.loads(line) for line in outcome.err.splitlines()]
    phases = [line["phase"] for line in lines]
    assert phases == ["reading", "preparing", *["fitting"] * 5, "writing"]
    fitting = [line for line in lines if line["phase"] == "fitting"]
    assert [line["iteration"] for line in fitting] == [1, 2, 3, 4, 5]
    assert {line["n_iterations"] for line in fitting} == {5}
    assert all(line["ratio_kl"] is None and isinstance(line["entropy"], float) for line in fitting)
    assert outcome.json["iterations"] == 5


def test_training_ends_with_its_standard_input(tmp_path: Path, motions: Path) -> None:
    words = (*train(motions, tmp_path / "m"), "--algorithm", "em", "--quiet", "--iterations", 10**6, "--experts", 2)
    words += sets("run.end_with_stdin=true", "run.checkpoint_every=0", "n_starts=1000", "tolerance=0")
    process = subprocess.Popen([*COMMAND, *map(str, words)], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 1
    finally:
        process.kill()
    assert not list(tmp_path.iterdir())
