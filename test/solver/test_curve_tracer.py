"""A deadline may end the tracing of curves at any step. The points found until then must be consistent."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np

from eim_ros import Robot

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("-O1", "-std=c++20", "-ffp-contract=off", "-Wno-psabi", "-Wno-ignored-attributes")
N_POSES = 400  # the deadline ends about a fifth of them


def test_links_lead_back_if_the_deadline_ends_a_trace(tmp_path: Path) -> None:
    """Each link must have an opposite link. Otherwise a walk along the curve is endless and uses all memory."""
    program, source = tmp_path / "trace", ROOT / "test/solver/trace_curves.cpp"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, *OPTIONS, f"-I{ROOT}/eim_ros/solver", source, "-o", program], check=True)
    robot = Robot("panda")
    poses = robot.fk(robot.random(N_POSES, np.random.default_rng(7)))
    limits = np.stack([robot.lower, robot.upper, robot.continuous], axis=1)
    numbers = [len(robot.links), robot.dof, N_POSES, *robot.links.ravel(), *limits.ravel(), *poses[:, :3].ravel()]
    text = " ".join(repr(float(number)) for number in numbers)
    output = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout
    n_late, n_broken = map(int, output.split())
    assert n_late > 0
    assert n_broken == 0
