"""`eim train`: sources of settings, output, progress, interruption, resuming, and errors."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from cli.command import COMMAND, PATIENCE, Command, eim_process, restore_sigint
from cli.conftest import FAST, FAST_EIM, N_SAMPLES, sets
from motion.demonstrated import JOINTS, two_ways

from eim_ros.cli.train import default_settings, learner_of
from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.files import write_tensor_file
from eim_ros.ik import IKModel, SmoothingConfig
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.em.em import EMIteration
from eim_ros.motion import MotionConfig, MotionPrior

FAST_MOTION = ("--quiet", "--experts", 2, "--iterations", 3)


@pytest.fixture
def planar(data: Path) -> tuple[object, ...]:
    return ("train", "--robot", "planar3", "--data", data)


@pytest.fixture(scope="module")
def motions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("motions") / "motions.npz"
    save_data_set(path, two_ways(60, 0))
    return path


def train(motions: Path, output: Path) -> tuple[object, ...]:
    return ("train", "--task", "motion", "--data", motions, "--output", output)


@pytest.mark.parametrize(
    ("words", "algorithm", "defaults"),
    [
        (("--algorithm", "em", *FAST), "em", EMConfig()),
        ((*FAST_EIM,), "eim-kinematics", EIMConfig.kinematic()),
        (
            ("--algorithm", "known-density", "--experts", 3, *sets("start.em_iterations=2"), "--quiet"),
            "known-density",
            EIMConfig.known_kinematics(),
        ),
        ((*sets("kinematics=false", "ratio.reference.iterations=2"), *FAST_EIM), "eim", EIMConfig()),
    ],
)
def test_algorithm_and_settings_are_recorded_in_the_model(
    eim: Command, tmp_path: Path, planar: tuple, words: tuple, algorithm: str, defaults: EIMConfig | EMConfig
) -> None:
    path = tmp_path / "m.safetensors"
    outcome = eim(*planar, "--output", path, "--iterations", 2, "--seed", 5, "--json", *words)
    assert (outcome.code, outcome.err) == (0, "")
    record = outcome.json
    assert record["output"] == str(path)
    assert (record["algorithm"], record["seed"], record["iterations"]) == (algorithm, 5, 2)
    config = type(defaults).from_mapping(record["config"])
    assert (config.n_components, config.n_iterations) == (3, 2)
    if isinstance(config, EIMConfig) and isinstance(defaults, EIMConfig):
        assert config.m_step.entropy_loss_bound == defaults.m_step.entropy_loss_bound
        assert config.m_step.gating.kl_bound == defaults.m_step.gating.kl_bound
    assert record["n_samples"] == N_SAMPLES
    model = IKModel.load(path)
    assert {name: record[name] for name in model.training} == model.training
    assert model.mixture.n_components == 3
    assert (model.robot.name, model.context_kind) == ("planar3", "position")
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]  # the checkpoint has been removed


def test_one_line_without_json_and_a_bar_on_stderr(eim: Command, tmp_path: Path, planar: tuple) -> None:
    path = tmp_path / "m.safetensors"
    outcome = eim(*planar, "--output", path, "--algorithm", "em", "--experts", 3, "--iterations", 3)
    assert outcome.out.startswith(f"wrote {path}: the fit did not converge in 3 iterations")
    assert outcome.out.count("\n") == 1
    assert "3/3 it" in outcome.err


def test_flags_beat_the_file_and_the_file_beats_the_defaults(eim: Command, tmp_path: Path, planar: tuple) -> None:
    config = tmp_path / "settings.yaml"
    lines = ("n_components: 4", "n_iterations: 1", "m_step.kl_bound: 1e-2", "ratio: {hidden_layers: [8]}")
    config.write_text("\n".join((*lines, "kl_term: false\n")))
    words = (*planar, "--output", tmp_path / "m", "--config", config, "--quiet", "--json")
    record = eim(*words, "--experts", 2, "--set", "kl_term=true").json["config"]
    assert record["n_components"] == 2
    assert record["kl_term"] is True
    m_step = record["m_step"]
    assert (record["n_iterations"], m_step["kl_bound"], record["ratio"]["hidden_layers"]) == (1, 0.01, [8])
    assert m_step["entropy_loss_bound"] == EIMConfig.kinematic().m_step.entropy_loss_bound


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_bad_input_is_one_line_and_the_old_model_survives(
    eim: Command, tmp_path: Path, planar: tuple, quiet: tuple
) -> None:
    (tmp_path / "m").write_text("precious")
    outcome = eim(*planar, "--output", tmp_path / "m", "--json", *quiet, "--experts", N_SAMPLES + 1)
    outcome.refused(f"{N_SAMPLES + 1} experts need at least {N_SAMPLES + 1} points, got {N_SAMPLES}")
    assert outcome.err.rpartition("\r")[2].startswith("eim")  # the bar is removed
    assert (tmp_path / "m").read_text() == "precious"


def test_settings_of_the_chosen_learner_are_listed(eim: Command) -> None:
    eim_, em = eim("train", "--help-settings").out, eim("train", "--algorithm", "em", "--help-settings").out
    assert all("n_components=50" in text and "run.device=cpu" in text for text in (eim_, em))
    assert "m_step.kl_bound" in eim_ and "m_step.kl_bound" not in em


def test_names_map_to_the_settings_of_the_learners() -> None:
    known = default_settings("ik", "known-density", kinematics=True)
    assert learner_of(known) == EIMConfig.known_kinematics()
    assert known.smoothing.sigma_decay == 0.95
    for kinematics in (True, False):
        assert default_settings("ik", "em", kinematics) == EMConfig()
    kinematic = default_settings("ik", "eim", kinematics=True)
    assert (learner_of(kinematic), kinematic.smoothing) == (EIMConfig.kinematic(), SmoothingConfig())
    motion = default_settings("motion", "em", kinematics=True)
    assert (learner_of(motion), motion.motion) == (EMConfig(n_components=10), MotionConfig())


@pytest.mark.parametrize(
    ("rows", "columns", "reason"),
    [
        (slice(None), slice(None, None, 2), "samples of the data set have 2 joints"),
        (slice(0), slice(None), "the data set is empty"),
    ],
)
def test_data_that_do_not_fit_are_one_line(
    eim: Command, tmp_path: Path, data: Path, rows: slice, columns: slice, reason: str
) -> None:
    whole = load_data_set(data)
    wrong = DataSet(whole.context[rows], whole.sample[rows, columns], whole.description)
    save_data_set(tmp_path / "wrong.npz", wrong)
    words = ("train", "--robot", "planar3", "--output", tmp_path / "m", "--quiet")
    eim(*words, "--data", tmp_path / "wrong.npz").refused(reason)


def test_damaged_checkpoint_and_that_of_another_run_are_one_line(eim: Command, tmp_path: Path, planar: tuple) -> None:
    checkpoint = tmp_path / "m.checkpoint"
    words = (*planar, "--output", tmp_path / "m", "--resume", *FAST_EIM)
    checkpoint.write_bytes(b"half a file")
    eim(*words).refused("m.checkpoint is truncated")
    write_tensor_file(checkpoint, {}, {"identity": "?", "iteration": 1, "history": []}, kind="checkpoint", schema=1)
    eim(*words).refused("belongs to a run with other data or settings")


def test_ctrl_c_before_the_first_iteration_ends_the_command(
    eim: Command, tmp_path: Path, planar: tuple, monkeypatch
) -> None:
    """EIM starts with a fit by EM. This fit must not catch the signal and continue."""

    def interrupted(self: object, state: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EMIteration, "step", interrupted)
    for kinematics in ("true", "false"):
        outcome = eim(*planar, "--output", tmp_path / "m", "--set", f"kinematics={kinematics}", *FAST_EIM)
        assert (outcome.code, outcome.err) == (130, "eim train: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_model_of_demonstrations_is_a_prior_of_known_kinematics_alone(
    eim: Command, tmp_path: Path, planar: tuple
) -> None:
    shown = tmp_path / "shown.safetensors"
    assert eim(*planar, "--output", shown, "--algorithm", "em", *FAST, "--quiet").code == 0
    words = (*planar, "--output", tmp_path / "m", "--experts", 3, "--iterations", 1, "--quiet")
    words += sets(f"run.prior={shown}")
    assert eim(*words, "--algorithm", "known-density", *sets("start.em_iterations=2")).code == 0
    refused = eim(*words, "--algorithm", "em")
    assert refused.code == 2
    assert "prior works only with known-density" in refused.err


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


def test_robot_is_that_of_the_data_set_unless_given(eim: Command, tmp_path: Path, data: Path) -> None:
    words = ("train", "--data", data, "--output", tmp_path / "m", "--algorithm", "em", *FAST)
    assert eim(*words).code == 0
    assert IKModel.load(tmp_path / "m").robot.name == "planar3"


def test_settings_as_words_are_those_of_the_flags(eim: Command, tmp_path: Path, data: Path) -> None:
    words = ("train", "--data", data, "--algorithm", "em", "--quiet", "--json", "--output", tmp_path / "m")
    by_words = eim(*words, *sets("n_components=3", "n_iterations=2")).json
    by_flags = eim(*words, "--experts", 3, "--iterations", 2).json
    assert by_words["config"] == by_flags["config"]
    assert eim(*words, *FAST[1:], *sets("n_components=9")).json["config"]["n_components"] == 3  # flags beat --set


def test_eim_that_changes_nothing_says_so(eim: Command, tmp_path: Path, motions: Path) -> None:
    few = sets("ratio.reference.starts=1", "ratio.reference.iterations=5")
    words = (*train(motions, tmp_path / "m"), "--quiet", "--experts", 10, "--ratio.estimator", "plug-in", *few)
    assert eim(*words).out.splitlines()[1].startswith("EIM changed nothing: the model is the one that it started from")
    assert eim(*words, "--json").json["status"] == "unchanged"


def test_limits_are_those_of_the_given_robot(eim: Command, tmp_path: Path) -> None:
    data_set, names = two_ways(60, 0), ["joint_3", "joint_1", "joint_2"]
    unknown = {"lower": [None] * 3, "upper": [None] * 3, "joint_names": names}
    save_data_set(tmp_path / "d.npz", dataclasses.replace(data_set, description={**data_set.description, **unknown}))
    words = (*train(tmp_path / "d.npz", tmp_path / "m"), "--algorithm", "em", *FAST_MOTION)
    assert eim(*words).code == 0
    assert MotionPrior.load(tmp_path / "m").limits_source == "recording"
    assert eim(*words, "--robot", "planar3").code == 0
    prior = MotionPrior.load(tmp_path / "m")
    assert prior.limits_source == "robot"
    assert prior.upper.tolist() == pytest.approx([math.pi] * 3)


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


def test_interrupted_training_resumes_to_the_same_model(eim: Command, tmp_path: Path, data: Path) -> None:
    words = ("train", "--robot", "planar3", "--data", data, "--seed", 3, *FAST_EIM)
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    endless = (*words, "--output", cut, "--iterations", 10**6, *sets("run.checkpoint_every=1"))
    process = subprocess.Popen(
        [*COMMAND, *map(str, endless)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_sigint,
    )
    checkpoint = Path(f"{cut}.checkpoint")
    try:
        deadline = time.monotonic() + PATIENCE
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, err
    told = re.fullmatch(rf"interrupted after (\d+) iterations; give --resume to continue from {checkpoint}\n", out)
    assert told, out
    assert err == ""
    assert checkpoint.exists()
    assert not cut.exists()

    n_iterations = int(told[1]) + 2
    resumed = eim(*words, "--output", cut, "--iterations", n_iterations, "--resume")
    assert (resumed.code, resumed.err) == (0, "")
    assert not checkpoint.exists()
    assert eim(*words, "--output", whole, "--iterations", n_iterations).code == 0
    ours, theirs = IKModel.load(cut), IKModel.load(whole)
    assert ours.training["iterations"] == theirs.training["iterations"] == n_iterations
    for name, value in theirs.mixture.tensors().items():
        assert torch.equal(ours.mixture.tensors()[name], value), name
