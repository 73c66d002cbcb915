"""The script that made the included demonstrations records them with the node `demo_recorder`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from eim_ros import Robot
from eim_ros.bags.importing import PairForm, import_pairs
from eim_ros.bags.selection import Selection
from eim_ros.core.data_set import load_data_set
from eim_ros.kinematics import share_path

ROOT = Path(__file__).resolve().parents[3]


def test_every_joint_state_of_the_demonstrator_is_in_the_bag(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "experiments.table_demonstrations", str(tmp_path), "--motions", "2"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)
    _, q, reports = import_pairs([tmp_path / "panda_table"], Selection(robot=Robot("panda")), PairForm())
    included = load_data_set(share_path("config/demonstrations/panda_table.npz"))
    # the solver may round differently on another processor
    np.testing.assert_allclose(q, included.sample[:16], atol=1e-6)
    assert {segment.label for segment in reports[0].segments if segment.n_used} <= {"left", "right"}
