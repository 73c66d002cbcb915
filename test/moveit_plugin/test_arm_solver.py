"""The solver of the MoveIt plugin finds what `Sampler` finds. It is compiled here without ROS and MoveIt."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from eim_ros import Sampler

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("-O1", "-std=c++20", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-Wno-ignored-attributes")
N_POSES = 60
ENOUGH = 20.0  # [s]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("moveit") / "solve"
    folders = (f"-I{ROOT}/eim_ros/solver", f"-I{ROOT}/moveit_plugin")
    source = ROOT / "test/moveit_plugin/solve.cpp"
    subprocess.run([os.environ.get("CXX", "g++"), *OPTIONS, *folders, source, "-o", path], check=True)
    return path


def found_by(program: Path, sampler: Sampler, poses: np.ndarray, states: np.ndarray) -> list[list[float]]:
    robot = sampler.robot
    limits = np.stack([robot.lower, robot.upper, robot.continuous], axis=1)
    time_for_all = ENOUGH if robot.dof == 6 else 0.02  # seven joints have always more solutions
    numbers = [len(robot.links), robot.dof, len(poses), ENOUGH, time_for_all, *robot.links.ravel(), *limits.ravel()]
    for pose, state in zip(poses, states, strict=True):
        numbers += [*pose[:3].ravel(), *state]
    text = " ".join(repr(float(number)) for number in numbers)
    output = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout
    return [[float(word) for word in line.split()] for line in output.splitlines()]


@pytest.mark.parametrize("name", ["ur5e", "panda", "gen3"])
def test_plugin_finds_the_nearest_solution_as_the_sampler_does(program: Path, name: str) -> None:
    sampler, rng = Sampler(name), np.random.default_rng(7)
    robot = sampler.robot
    poses, states = robot.fk(robot.random(N_POSES, rng)), robot.random(N_POSES, rng)
    n_same = 0
    for (_, n_all, *q), pose, state in zip(found_by(program, sampler, poses, states), poses, states, strict=True):
        assert len(q) == robot.dof, "a reachable pose is solved"
        in_range = np.where(robot.continuous, (np.array(q) + np.pi) % (2.0 * np.pi) - np.pi, q)
        assert robot.verify(in_range, pose)[1].all()
        ours = sampler.solve(pose, near=state, timeout=ENOUGH)[0]
        n_same += np.abs(ours - q).max() < 1e-3
        assert n_all >= (1 if name != "ur5e" else len(sampler.sample(pose, 300)))
    assert n_same >= 0.95 * N_POSES  # curves without a closed form are traced with other random numbers


@pytest.mark.parametrize("away", [0.05, 5.0])
def test_plugin_ends_if_it_is_proven_that_there_is_no_solution(program: Path, away: float) -> None:
    """By its closed form, or because the arm is too short; otherwise it would search until the timeout."""
    sampler = Sampler("ur5e")
    pose = sampler.robot.fk([0.1, -0.2, 0.02, 0.3, 0.7, 0.4])  # nearly stretched
    pose[:3, 3] *= 1.0 + away
    ((_, n_all, *q),) = found_by(program, sampler, pose[None], np.full((1, 6), 0.3))
    assert not q and n_all == 0
    assert not sampler.solve(pose, timeout=ENOUGH)


def test_state_that_solves_the_pose_is_the_answer(program: Path) -> None:
    sampler = Sampler("panda")
    state = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    ((_, _, *q),) = found_by(program, sampler, sampler.robot.fk(state)[None], state[None])
    np.testing.assert_array_equal(q, state)
