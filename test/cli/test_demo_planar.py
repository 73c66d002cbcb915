"""`eim demo --planar` with few demonstrations: nodes, bag, data set, models, executed samples and a picture."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.command import COMMAND, PATIENCE, eim_process, restore_sigint
from core.processes import children, wait_for, wait_for_end

from eim_ros.core.data_set import load_data_set
from eim_ros.motion import MotionPrior
from eim_ros.planar import PlanarArm


def test_whole_circle_of_the_planar_robot(tmp_path: Path) -> None:
    folder = tmp_path / "planar"
    # Few demonstrations keep the demo short, but they do not show which model is nearer to the line: with seed 2, EM is
    # nearer. docs/report/kinematics.md compares the models with more data.
    words = ("--motions", 12, "--places", 4, "--components", 2, "--executed", 1, "--seed", 4)
    outcome = eim_process("demo", "--planar", *words, "--output", folder, "--json")
    assert outcome.code == 0, outcome.err
    figures = json.loads(outcome.out.splitlines()[-1])
    # On a busy machine, the recorder may lose joint states. The demo lists the motions that it therefore leaves out.
    assert figures["n_motions"] + len(figures["left_out"]) == 12 and figures["n_motions"] >= 8, figures["left_out"]
    assert set(figures["executed"]) >= {"EM", "EIM + tip"}
    for executed in figures["executed"].values():
        assert 0.0 < executed["mean_distance"] < 5.0  # [m], half of the arm's reach; lines are 4 to 7 m away
        assert 0.0 <= executed["share_reached"] <= 1.0
    assert np.isfinite(figures["prior"]["log_density"])
    assert figures["prior"]["distance"] <= 0.05 < figures["prior"]["free_distance"] < 3.0
    motions = load_data_set(folder / "motions.npz")
    assert len(motions) == figures["n_motions"]
    assert np.unique(motions.context) == pytest.approx([4.0, 5.0, 6.0, 7.0])
    assert set(motions.description["labels"]) == {"demonstration"}
    pairs = load_data_set(folder / "pairs.npz")
    tip = PlanarArm().tip(torch.from_numpy(pairs.sample))[:, 0].numpy()
    assert np.abs(tip - pairs.context[:, 0]).max() < 0.1  # each configuration reaches the line that it belongs to
    assert MotionPrior.load(folder / "prior.safetensors").joint_names[0] == "joint_1"
    assert (folder / "planar.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_nodes_end_with_the_demonstration(tmp_path: Path, number: signal.Signals, code: int) -> None:
    folder = tmp_path / "planar"
    command = [*COMMAND, "demo", "--planar", "--output", str(folder)]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=restore_sigint) as process,
    ):
        try:
            wait_for(lambda: len(children(process.pid, "eim_ros.nodes")) == 3, "three nodes")
            if code > 0:
                wait_for((folder / "demonstrations" / "metadata.yaml").exists, "recording")
            nodes = children(process.pid)
            process.send_signal(number)
            assert process.wait(PATIENCE) == code, (tmp_path / "log").read_text()
        finally:
            process.kill()
    wait_for_end(nodes)
