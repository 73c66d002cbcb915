"""Code that serves a model imports only modules that an answer needs; torch is not one of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "matplotlib", "rclpy", "scipy", "eim_ros.ik.training"}

SERVE = """
import numpy as np
from eim_ros.ik import Sampler
from eim_ros.kinematics import pose_from
sampler = Sampler.load({model!r})
sampler.prepare()
pose = sampler.robot.fk(0.4 * sampler.robot.lower + 0.6 * sampler.robot.upper)
samples = sampler.sample(pose, 20, seed=0, order="density")
assert samples and samples.valid.all() and len(samples) == 20 and np.isfinite(samples.log_prob).all()
"""


def modules_after(code: str) -> set[str]:
    """Run code in a new process, and return all modules that the process has imported."""
    told = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code + told], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize("names", ["eim_ros.ik", "eim_ros.kinematics", "eim_ros.learning.models, eim_ros.core"])
def test_import_needs_nothing_heavy(names: str) -> None:
    assert not modules_after(f"import {names}") & (HEAVY | {"pinocchio"})


@pytest.mark.parametrize("model", ["panda_pose", "iiwa14_position"])
def test_shipped_model_is_served_without_torch(model: str) -> None:
    assert not modules_after(SERVE.format(model=model)) & HEAVY


def test_data_are_collected_without_torch() -> None:
    code = "from eim_ros.ik import collect\nfrom eim_ros.kinematics import Robot\n"
    code += "assert len(collect(Robot('planar3'), 10, 'position', 0)) == 10"
    assert "torch" not in modules_after(code)
