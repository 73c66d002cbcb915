"""Ctrl-C on a real `eim train`: it leaves a checkpoint, from which the run goes on as if nothing had happened."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import torch
from cli.command import COMMAND, PATIENCE, Command
from cli.conftest import FAST_EIM, sets

from eim_ros.ik import IKModel


def restore_sigint() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_interrupted_training_resumes_to_the_same_model(eim: Command, tmp_path: Path, data: Path) -> None:
    words = ("train", "--robot", "planar3", "--data", data, "--seed", 3, *FAST_EIM)
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    endless = (*words, "--output", cut, "--iterations", 10**6, *sets("run.checkpoint_every=1"))
    process = subprocess.Popen(
        [*COMMAND, *map(str, endless)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_sigint,  # a runner in the background hands SIGINT on as ignored
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
