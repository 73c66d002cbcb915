"""`python -m experiments vi` writes a mixture and its scores, resumes, and refuses bad input in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli.command import Command
from kinematics.humanoids import TIPS, humanoid_urdf

from eim_ros.cli.progress import ProgressBar
from eim_ros.learning.gmmvi import GMMVIConfig
from eim_ros.learning.models import GaussianMixture, load_model
from experiments.gmmvi import EXPERIMENT, GMMVIExperimentConfig
from experiments.targets.humanoid import TALOS_TIPS

QUICK = ["--target", "banana", "--set", "n_components=4", "--set", "n_samples=20", "--quiet"]


def test_mixture_is_written_with_its_scores(experiments: Command, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    outcome = experiments("vi", *QUICK, "--algorithm", "lamtron", "--budget", 4000, "--output", path, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    figures = outcome.json
    assert figures["algorithm"] == "LAMTRON"
    assert figures["status"] == "max_iterations"
    assert 3000 < figures["evaluations"] <= 4000
    assert -2.0 < figures["elbo"] < 0.05  # log Z is 0, and the ELBO has sampling noise
    assert figures["cpu_seconds"] > 0.0
    model, document = load_model(path)
    assert isinstance(model, GaussianMixture)
    assert model.n_components == figures["n_components"]
    assert GMMVIConfig.from_mapping(document["training"]["config"]).word == "LAMTRON"
    assert not list(tmp_path.glob("*.checkpoint"))


def test_modes_and_goals_are_counted(experiments: Command, tmp_path: Path) -> None:
    common = ["--quiet", "--json", "--set", "n_samples=20", "--output", tmp_path / "m.safetensors"]
    assert 0 <= experiments("vi", "--target", "gmm20", "--budget", 300, *common).json["modes_found"] <= 10
    kinematic = [
        "--start",
        "kinematic",
        "--set",
        "n_components=20",
        "--budget",
        1000,
        "--picture",
        tmp_path / "arms.png",
    ]
    reached = experiments("vi", "--target", "planar4", *kinematic, *common)
    assert (tmp_path / "arms.png").read_bytes().startswith(b"\x89PNG")
    assert reached.json["modes_found"] == 4
    assert sum(reached.json["goal_shares"]) == pytest.approx(1.0, abs=1e-3)
    assert reached.json["elbo"] > -20.0
    assert reached.json["evaluations"] <= 1000  # including evaluations of the start


def test_humanoid_comes_from_its_file_and_postures_are_drawn(experiments: Command, tmp_path: Path) -> None:
    urdf, picture = tmp_path / "robot.urdf", tmp_path / "postures.png"
    names = dict(zip(TIPS, TALOS_TIPS, strict=True)) | {"pelvis": "base_link"}
    text = humanoid_urdf()
    for own, talos in names.items():
        text = text.replace(f'"{own}"', f'"{talos}"')
    urdf.write_text(text, encoding="utf-8")
    common = ["--quiet", "--json", "--budget", 400, "--set", "n_samples=20", "--output", tmp_path / "m.safetensors"]
    fitted = experiments("vi", "--target", "talos", "--urdf", urdf, "--picture", picture, *common)
    assert (fitted.code, fitted.json["target"]) == (0, "talos")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_row_of_the_experiment_is_what_the_command_finds(experiments: Command, tmp_path: Path) -> None:
    settings = GMMVIExperimentConfig(targets=("gmm20",), algorithms=("SEPYFUX",), budget=0.02, n_test_samples=100)
    row = EXPERIMENT.measure(settings, EXPERIMENT.cells(settings)[0], 3).figures
    command = ["--target", "gmm20", "--algorithm", "sepyfux", "--budget", 9000, "--seed", 3, "--elbo-samples", 100]
    found = experiments("vi", *command, "--quiet", "--json", "--output", tmp_path / "m.safetensors").json
    assert found["evaluations"] == row["evaluations"]
    assert (found["elbo"], found["elbo_standard_error"]) == (row["elbo"], row["elbo_error"])
    assert (found["modes_found"], found["n_components"]) == (row["found"], row["components"])


def test_resumed_run_takes_a_greater_budget_and_equals_the_whole_one(
    experiments: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    assert experiments("vi", *QUICK, "--budget", 4000, "--output", whole).code == 0

    def interrupt(self: ProgressBar, state: Any, record: dict[str, float]) -> None:
        if state.iteration == 10:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "__call__", interrupt)
        interrupted = experiments("vi", *QUICK, "--budget", 2000, "--output", parts)
    assert interrupted.code == 130
    assert "give --resume to continue" in interrupted.out
    assert experiments("vi", *QUICK, "--budget", 4000, "--output", parts, "--resume").code == 0
    (first, _), (second, _) = load_model(whole), load_model(parts)
    for name, value in first.tensors().items():
        assert value.equal(second.tensors()[name]), name
