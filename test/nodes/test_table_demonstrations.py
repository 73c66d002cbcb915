"""The script for the included demonstrations records motions with the node `demo_recorder`."""

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
from experiments.table_demonstrations import N_POINTS, swivel

ROOT = Path(__file__).resolve().parents[2]
RECORD = """
import sys
from pathlib import Path
import numpy as np
from experiments.table_demonstrations import record
record(list(np.load(sys.argv[2])), Path(sys.argv[1]))
"""


def test_every_joint_state_of_the_demonstrator_is_in_the_bag(tmp_path: Path) -> None:
    """Each recorded joint state has the label of its motion and is not rounded."""
    included = load_data_set(share_path("config/demonstrations/panda_table.npz")).sample.reshape(-1, N_POINTS, 7)
    sides = ["right" if swivel(motion)[0] > 0.0 else "left" for motion in included]
    motions = included[[sides.index("left"), sides.index("right"), len(included) - 1]]
    np.save(tmp_path / "motions.npy", motions)
    words = [sys.executable, "-c", RECORD, str(tmp_path), str(tmp_path / "motions.npy")]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)
    _, q, reports = import_pairs([tmp_path / "panda_table"], Selection(robot=Robot("panda")), PairForm())
    np.testing.assert_array_equal(q, motions.reshape(-1, 7))
    used = [segment for segment in reports[0].segments if segment.n_used]
    assert [segment.label for segment in used] == ["left", "right", sides[-1]]
    assert [segment.n_used for segment in used] == 3 * [N_POINTS]
