"""`eim motion`: motions and scores from a prior's file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from cli.command import Command
from motion.demonstrated import JOINTS, N_POINTS, scattered_ends, two_ways

from eim_ros.core.data_set import load_data_set, save_data_set
from eim_ros.kinematics import Robot
from eim_ros.learning import EMConfig
from eim_ros.motion import MotionPrior, MotionTraining

REACH = ("--reach", "x=2.8:0.02", "--robot", "planar3")


@pytest.fixture(scope="module")
def prior(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prior") / "prior.safetensors"
    MotionTraining(learner=EMConfig(n_components=2, n_starts=1)).run(two_ways(100, 0)).model.save(path)
    return path


@pytest.fixture
def sample(prior: Path) -> tuple[object, ...]:
    return ("motion", "sample", "--model", prior, "--context", 1.0, "--seed", 3)


def test_motions_are_those_of_the_prior_and_the_seed(eim: Command, sample: tuple, prior: Path) -> None:
    answer = eim(*sample, "-n", 5, "--json").json
    assert (answer["joint_names"], answer["n"], answer["n_points"]) == (list(JOINTS), 5, N_POINTS)
    import torch

    expected = MotionPrior.load(prior).condition([1.0]).sample(5, torch.Generator().manual_seed(3))
    np.testing.assert_array_equal(answer["positions"], expected.positions)
    assert answer["log_prob"] == expected.log_prob.tolist()
    assert answer["log_evidence"] == 0.0
    assert answer["duration"] == MotionPrior.load(prior).mean_duration


def test_via_points_and_points_are_as_asked_for(eim: Command, sample: tuple) -> None:
    words = ("--via", 0.5, "wrist=0.9", "--via", 1.0, "wrist=0.05:0.01", "shoulder=1.02", "--points", 11, "--json")
    positions = np.array(eim(*sample, *words).json["positions"])
    assert positions.shape == (10, 11, 3)
    np.testing.assert_allclose(positions[:, 5, 2], 0.9, atol=6e-3)
    np.testing.assert_allclose(positions[:, -1, 0], 1.02, atol=6e-3)


def test_tip_reaches_a_plane_at_the_end(eim: Command, tmp_path: Path) -> None:
    robot, names = Robot("planar3"), ["joint_3", "joint_1", "joint_2"]
    data_set = two_ways(60, 0, context=False)
    data_set = dataclasses.replace(data_set, description={**data_set.description, "joint_names": names})
    MotionTraining(learner=EMConfig(n_components=2)).run(data_set).model.save(tmp_path / "prior")
    words = ("motion", "sample", "--model", tmp_path / "prior", "--seed", 3, "-n", 40, "--json")
    free, reaching = (np.array(eim(*words, *more).json["positions"])[:, -1] for more in ((), REACH))
    order = [names.index(name) for name in robot.joint_names]
    away = [np.abs(robot.fk(ends[:, order])[:, 0, 3] - 2.8) for ends in (free, reaching)]
    assert np.median(away[0]) > 0.05
    assert away[1].max() <= 0.02
    eim(*words, *REACH[:2]).refused("need a robot", "give --robot")
    eim(*words, *REACH[2:]).refused("--robot has an effect only with --reach")
    eim(*words, "--robot", "planar3", "--reach", "w=1").refused("a goal must be AXIS=VALUE")
    eim(*words, "--robot", "planar5", *REACH[:2]).refused("robot 'planar5' has joint_1")


def test_draws_reach_the_goal_of_the_training_by_default(eim: Command, tmp_path: Path) -> None:
    robot = Robot("planar3")
    save_data_set(tmp_path / "data.npz", scattered_ends(60, robot.joint_names))
    files = ("--data", tmp_path / "data.npz", "--output", tmp_path / "prior", "--algorithm", "em", "--experts", 1)
    train = ("train", "--task", "motion", *files, "--set", "n_starts=1", "--quiet")
    eim(*train, "--reach", "x=2").refused("--reach works only with --robot and --task motion")
    eim(*train, "--robot", "planar3", "--reach", "x=-2").refused("0 of 60 demonstrations", "x=-2")
    eim(*train, "--robot", "planar3", "--reach", "x=hole").refused(
        "is hole, which is not in the context; the context has"
    )
    assert eim(*train, "--robot", "planar3", "--reach", "y=1:1.2").code == 0
    sample = ("motion", "sample", "--model", tmp_path / "prior", "--context", 1.0, "--seed", 3, "-n", 40, "--json")

    def away(value: float, *more: object) -> float:
        answer = eim(*sample, *more).json
        return float(np.abs(robot.fk(np.array(answer["positions"])[:, -1])[:, 1, 3] - value).max())

    assert away(1.0) <= 1.2 < away(1.0, "--ignore-goals")
    assert away(1.0, "--reach", "y=goal:0.02") <= 0.02


def test_samples_become_a_data_set_that_can_be_scored(eim: Command, sample: tuple, prior: Path, tmp_path: Path) -> None:
    path = tmp_path / "drawn.npz"
    answer = eim(*sample, "-n", 40, "--output", path, "--duration", 3.0, "--json").json
    drawn = load_data_set(path)
    assert drawn.description["durations"] == [3.0] * 40
    scores = eim("motion", "score", "--model", prior, "--data", path, "--json").json
    assert scores["n"] == 40
    np.testing.assert_allclose(scores["log_prob"], answer["log_prob"], atol=1e-3)  # scoring fits the weights again
    assert max(scores["residual"]) < 1e-6
    table = eim("motion", "score", "--model", prior, "--data", path)
    assert len(table.out.splitlines()) == 41


def test_table_tells_ends_and_densities(eim: Command, sample: tuple) -> None:
    outcome = eim(*sample, "-n", 3)
    assert outcome.code == 0
    assert outcome.out.startswith(f"3 motions of {N_POINTS} points")
    assert len(outcome.out.splitlines()) == 5


def test_motions_of_another_robot_are_refused(eim: Command, prior: Path, tmp_path: Path) -> None:
    other = two_ways(5, 0)
    other.description["joint_names"] = ["a", "b", "c"]
    save_data_set(tmp_path / "other.npz", other)
    eim("motion", "score", "--model", prior, "--data", tmp_path / "other.npz").refused(
        "the motions have the joints a, b, c"
    )
    save_data_set(tmp_path / "plain.npz", two_ways(5, 0, context=False))
    eim("motion", "score", "--model", prior, "--data", tmp_path / "plain.npz").refused(
        "have 0 context values, but the prior has 1"
    )


def test_motions_change_to_a_second_prior(eim: Command, sample: tuple, prior: Path) -> None:
    words = ("--blend", prior, "--blend-context", 0.6, "-n", 200, "--json")
    ends = np.array(eim(*sample, *words).json["positions"])[:, -1, 0]
    assert ends.mean() == pytest.approx(0.6, abs=0.02)  # motions of the first prior end at 1.0


def test_trajectories_have_time_stamps(eim: Command, sample: tuple, tmp_path: Path) -> None:
    path = tmp_path / "drawn.json"
    answer = eim(*sample, "-n", 2, "--duration", 3.0, "--trajectories", path, "--json").json
    first, last = json.loads(path.read_text())[1]["points"][:: N_POINTS - 1]
    assert first["time_from_start"] == {"sec": 0, "nanosec": 0}
    assert last == {"positions": answer["positions"][1][-1], "time_from_start": {"sec": 3, "nanosec": 0}}
