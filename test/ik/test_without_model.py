"""Without a model, solutions are verified by pinocchio, distinct and complete, and none is preferred."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ik.arms import ARMS, arm_of, reachable_pose

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.solver import NO_EXPERT

ENOUGH = 60.0  # [s]


def test_nothing_is_preferred_and_no_density_known() -> None:
    robot = arm_of("panda")
    sampler = Sampler(robot)
    samples = sampler.sample(reachable_pose(robot), 20, timeout=ENOUGH, seed=0)
    assert (sampler.n_experts, sampler.has_preference, sampler.context_kind) == (0, False, "pose")
    assert np.isnan(samples.log_prob).all()
    assert (samples.expert == NO_EXPERT).all()
    assert json.loads(samples.to_json())["log_prob"] == [None] * 20


def test_robot_may_be_a_name_or_a_file_with_links(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARMS["six_joints"])
    robot = Sampler(path, "l6", base="l1").robot
    assert (robot.base_link, robot.tip_link, robot.dof) == ("l1", "l6", 5)
    assert Sampler("ur5").robot.fingerprint == arm_of("ur5").fingerprint


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"order": "density"}, "ordering by density needs a model"),
        ({"order": {"density": 1.0, "limits": 1.0}}, "ordering by density needs a model"),
    ],
)
def test_what_needs_a_model_is_refused(options: dict, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Sampler(arm_of("panda")).sample(reachable_pose(arm_of("panda")), 5, seed=0, **options)


def test_proposals_need_a_model() -> None:
    with pytest.raises(ConfigurationError, match="proposals are draws from a model"):
        Sampler(arm_of("panda")).propose(reachable_pose(arm_of("panda")), 5)
