"""`eim train`: where settings come from, what it writes and says, resuming, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from cli.command import Command
from cli.conftest import FAST, FAST_EIM, N_SAMPLES, sets

from eim_ros.cli.train import default_settings, learner_of
from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.ik import IKModel, SmoothingConfig
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.em.em import EMIteration
from eim_ros.motion import MotionConfig


@pytest.fixture
def planar(data: Path) -> tuple[object, ...]:
    return ("train", "--robot", "planar3", "--data", data)


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
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]  # the checkpoint is gone


def test_one_line_without_json_and_a_bar_on_stderr(eim: Command, tmp_path: Path, planar: tuple) -> None:
    path = tmp_path / "m.safetensors"
    outcome = eim(*planar, "--output", path, "--algorithm", "em", "--experts", 3, "--iterations", 3)
    assert outcome.out.startswith(f"wrote {path}: did all 3 iterations without convergence")
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


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--experts", N_SAMPLES + 1), f"{N_SAMPLES + 1} experts need at least as many points, got {N_SAMPLES}"),
        (sets("ratio.dropout=1.5"), "dropout must be at most 0.9, got 1.5"),
        (sets("kinematics=false", "smoothing.sigma_start=0.1"), "unknown setting smoothing.sigma_start"),
        (sets("run.device=cuda:99"), "CUDA device"),
        (("--robot", "planar5"), "is of robot 'planar3' (base_link to tip_link), not of 'planar5'"),
        (("--tip", "link_3"), "is of robot 'planar3'"),
    ],
)
@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_bad_input_is_one_line_and_no_model(
    eim: Command, tmp_path: Path, planar: tuple, words: tuple, reason: str, quiet: tuple
) -> None:
    outcome = eim(*planar, "--output", tmp_path / "m", "--json", *quiet, *words)
    outcome.refused(reason)
    assert outcome.err.rpartition("\r")[2].startswith("eim")  # a bar that was begun is wiped away
    assert not (tmp_path / "m").exists()


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


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_missing_gpu_is_one_line(eim: Command, tmp_path: Path, planar: tuple) -> None:
    eim(*planar, "--output", tmp_path / "m", "--set", "run.device=cuda").refused("sees no CUDA device; use cpu")


def test_bad_data_are_one_line(eim: Command, tmp_path: Path, data: Path) -> None:
    whole = load_data_set(data)
    train = ("train", "--robot", "planar3", "--output", tmp_path / "m", "--quiet", "--data")
    (tmp_path / "half.npz").write_bytes(data.read_bytes()[:1500])
    eim(*train, tmp_path / "half.npz").refused("half.npz is truncated or no .npz data set")
    wrong = DataSet(whole.context, whole.sample.copy(), whole.description)
    wrong.sample[3, 1] = np.nan
    save_data_set(tmp_path / "nan.npz", wrong)
    eim(*train, tmp_path / "nan.npz").refused("sample has NaN or infinite entries in 1 rows, first row 3")
    save_data_set(tmp_path / "two.npz", DataSet(whole.context, whole.sample[:, ::2], whole.description))
    eim(*train, tmp_path / "two.npz").refused("samples of the data set have 2 joints")
    save_data_set(tmp_path / "empty.npz", DataSet(whole.context[:0], whole.sample[:0], whole.description))
    eim(*train, tmp_path / "empty.npz").refused("the data set is empty")
    np.savez(tmp_path / "plain.npz", context=whole.context, sample=whole.sample, description=np.array("{}"))
    eim(*train, tmp_path / "plain.npz").refused("another schema version")
    save_data_set(tmp_path / "nameless.npz", DataSet(whole.context, whole.sample, {}))
    eim(*train, tmp_path / "nameless.npz").refused("no valid robot description")


def test_old_model_survives_a_refused_training(eim: Command, tmp_path: Path, planar: tuple) -> None:
    (tmp_path / "m").write_text("precious")
    eim(*planar, "--output", tmp_path / "m", "--experts", 10**6, "--quiet").refused("experts")
    assert (tmp_path / "m").read_text() == "precious"


def test_damaged_checkpoint_and_that_of_another_run_are_one_line(eim: Command, tmp_path: Path, planar: tuple) -> None:
    from eim_ros.core.files import write_tensor_file

    checkpoint = tmp_path / "m.checkpoint"
    words = (*planar, "--output", tmp_path / "m", "--resume", *FAST_EIM)
    checkpoint.write_bytes(b"half a file")
    eim(*words).refused("m.checkpoint is truncated")
    write_tensor_file(checkpoint, {}, {"identity": "?", "iteration": 1, "history": []}, kind="checkpoint", schema=1)
    eim(*words).refused("belongs to a run with other data or settings")


def test_ctrl_c_before_the_first_iteration_ends_the_command(
    eim: Command, tmp_path: Path, planar: tuple, monkeypatch
) -> None:
    """The start of EIM is a fit by EM, which must not take the signal for itself and go on."""

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
    assert "prior is for known-density" in refused.err
