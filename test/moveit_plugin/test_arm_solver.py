"""The solver of the MoveIt plugin finds the solutions of `Sampler`. The tests compile it without ROS and MoveIt."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from eim_ros import Robot, Sampler

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
    time_for_all = ENOUGH if robot.dof == 6 else 0.02  # seven joints always have more solutions
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
    assert n_same >= 0.95 * N_POSES  # random numbers of traced curves differ


@pytest.mark.parametrize("away", [0.05, 5.0])
def test_plugin_ends_if_it_is_proven_that_there_is_no_solution(program: Path, away: float) -> None:
    """The proof is the closed form or the length of the arm. Without a proof, the search would use the full timeout."""
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


SINGULAR = {
    "wrist": [0.3, -1.1, 1.4, -0.7, 0.0, 0.2],
    "wrist and elbow": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "upright": [0.0, -1.5707963267948966, 0.0, 0.0, 0.0, 0.0],
    "two turns": [6.283185307179586, 6.283185307179586, 3.141592653589793, 6.283185307179586, 6.283185307179586, 0.5],
}


def ur5e_with_two_turns() -> Sampler:
    """Return the arm with the limits of its manufacturer, which MoveIt uses."""
    robot, limit = Robot("ur5e"), 2.0 * np.pi
    urdf = re.sub('(lower|upper)="(-?)[0-9.]+"', rf'\1="\g<2>{limit!r}"', robot.urdf)
    return Sampler(Robot(urdf, robot.tip_link, base=robot.base_link))


@pytest.mark.parametrize("q", SINGULAR.values(), ids=SINGULAR)
def test_answer_is_near_the_state_where_the_arm_is_singular(program: Path, q: list[float]) -> None:
    """At a singular pose, the closed form gives a few of infinitely many solutions, which are far from most states."""
    sampler, rng = ur5e_with_two_turns(), np.random.default_rng(5)
    robot = sampler.robot
    states = np.clip(q + rng.uniform(-0.05, 0.05, (20, 6)), robot.lower, robot.upper)
    poses = np.repeat(robot.fk(q)[None], len(states), axis=0)
    for (_, _, *found), state in zip(found_by(program, sampler, poses, states), states, strict=True):
        assert robot.verify(np.array(found), poses[0])[1].all()
        assert np.linalg.norm(found - state) <= np.linalg.norm(q - state) + 1e-6


def test_all_revolutions_are_offered(program: Path) -> None:
    """MoveIt may refuse any solution, and after a timeout no time is left for another search."""
    sampler, rng = ur5e_with_two_turns(), np.random.default_rng(3)
    poses, states = sampler.robot.fk(sampler.robot.random(5, rng)), sampler.robot.random(5, rng)
    for (_, n_all, *_), pose in zip(found_by(program, sampler, poses, states), poses, strict=True):
        assert n_all == len(sampler.sample(pose, 1000))
