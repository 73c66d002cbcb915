"""`eim demo-planar` in small: nodes, bag, data set, models, executed samples and a picture, all real."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command import eim_process

from eim_ros.data import load_data_set
from eim_ros.motion import MotionPrior


def test_whole_circle_of_the_planar_robot(tmp_path: Path) -> None:
    folder = tmp_path / "planar"
    # motions are shown in real time; eight of a sample are enough where the two models differ by a factor of fifty
    words = ("--motions", 5, "--samples", 500, "--components", 2, "--executed", 8, "--seed", 4)
    outcome = eim_process("demo-planar", *words, "--output", folder, "--json")
    assert outcome.code == 0, outcome.err
    figures = json.loads(outcome.out.splitlines()[-1])
    assert figures["n_motions"] == 5
    em, told = figures["executed"]["EM"], figures["executed"]["EIM + tip"]
    # EM is .5 m and more off the line with so few components, EIM a few centimetres
    assert told["mean_distance"] < 0.25 * em["mean_distance"]
    assert told["share_reached"] > 0.9 > em["share_reached"]
    motions = load_data_set(folder / "motions.npz")
    assert len(motions) == 5
    assert set(motions.description["labels"]) == {"demonstration"}
    assert MotionPrior.load(folder / "prior.safetensors").joint_names[0] == "joint_1"
    assert (folder / "planar.png").read_bytes().startswith(b"\x89PNG")
