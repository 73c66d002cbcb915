"""The whole circle in small: real training, the real node in its own process, a real request over DDS, a picture."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

PATIENCE = 300.0  # [s] on a machine that may be busy


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eim_ros.cli.main", "demo", "--output", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_demo_trains_serves_and_draws(tmp_path: Path) -> None:
    result = run_demo(tmp_path, "--samples", "400", "--experts", "3", "-n", "20", "--seed", "7", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["request"]["valid"] == answer["request"]["distinct"] == 20
    assert answer["request"]["refined_max_position_error"] <= 1e-6
    figures = answer["training"]
    # three experts and 400 samples: far from the shipped settings, yet the kinematics show
    assert figures["EIM + kinematics"]["rmse_position"] < 0.8 * figures["EM"]["rmse_position"]
    picture = Path(answer["picture"]).read_bytes()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width >= 1000 and height >= 500
    assert {path.name for path in tmp_path.iterdir()} >= {"train.npz", "test.npz", "eim_kinematics.safetensors"}
