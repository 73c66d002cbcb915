"""All steps of `eim demo` with few samples: training, a node in a separate process, requests over DDS, a picture."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from cli.command import eim_process


def test_demo_trains_serves_and_draws(tmp_path: Path) -> None:
    few = ("--samples", 400, "--experts", 3, "-n", 20, "--seed", 7)
    outcome = eim_process("demo", "--output", tmp_path, *few, "--json")
    assert outcome.code == 0, outcome.err
    answer = json.loads(outcome.out.splitlines()[-1])
    assert answer["request"]["valid"] == answer["request"]["distinct"] == 20
    assert answer["request"]["refined_max_position_error"] <= 1e-6
    figures = answer["training"]
    # the defaults are larger, but three experts and 400 samples already show the effect of the kinematics
    assert figures["EIM + kinematics"]["rmse_position"] < 0.8 * figures["EM"]["rmse_position"]
    picture = Path(answer["picture"]).read_bytes()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width >= 1000 and height >= 500
    assert {path.name for path in tmp_path.iterdir()} >= {"train.npz", "test.npz", "eim_kinematics.safetensors"}
