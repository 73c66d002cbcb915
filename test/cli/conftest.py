"""Fixtures of the command-line tests: the command, and files for the planar arm that the command creates."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command import Command

from eim_ros.cli.main import main

N_SAMPLES = 120
FAST = ("--quiet", "--experts", "3")


def sets(*settings: str) -> tuple[str, ...]:
    """Return the words that give these settings."""
    return tuple(word for setting in settings for word in ("--set", setting))


EIM_SETTINGS = ("ratio.hidden_layers=8", "ratio.batch_size=60", "start.em_iterations=2", "ratio.initial_epochs=1")
EIM_SETTINGS += ("m_step.gating.n_contexts=20", "m_step.n_samples=20")
FAST_EIM = (*FAST, *sets(*EIM_SETTINGS))


@pytest.fixture
def eim(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of positions of the planar arm with three joints."""
    path = tmp_path_factory.mktemp("data") / "planar3.npz"
    assert main(["collect", "--robot", "planar3", "--samples", str(N_SAMPLES), "--output", str(path)]) == 0
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """Return a model of the planar arm with three experts, trained by EM."""
    path = tmp_path_factory.mktemp("model") / "planar3.safetensors"
    words = ["train", "--robot", "planar3", "--data", str(data), "--algorithm", "em", "--output", str(path), *FAST]
    assert main(words) == 0
    return path
