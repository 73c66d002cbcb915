"""Drawn motions respect joint limits and tasks, and their density is that of the truncated distribution."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from motion.demonstrated import positions_of, two_ways
from scipy.stats import truncnorm

from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning import EMConfig
from eim_ros.learning.models import GaussianMixture
from eim_ros.motion import Basis, MotionDistribution, MotionPrior, MotionTraining, Representation, TaskPoint, ViaPoint
from eim_ros.planar import PlanarArm, PlanarSimulator, folded, point_task
from eim_ros.planar.motions import Trajectory, reaching_motion
from eim_ros.planar.simulator import execute, motion_data_set

FINE = np.linspace(0.0, 1.0, 5001)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def at_rest(lower: float, upper: float, *tasks: TaskPoint) -> MotionDistribution:
    """Return motions of one joint at rest. Its position has a normal distribution with a deviation of 0.2 rad."""
    representation = Representation(Basis(n_functions=1), ("elbow",), n_points=5)
    mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 1), 0.2 * torch.ones(1, 1, 1)).to(dtype=torch.float64)
    limits = (np.array([lower]), np.array([upper]))
    return MotionDistribution(representation, mixture, *limits, tasks=tasks)


@pytest.mark.parametrize("n_points", [2, 7, 40])
def test_all_points_of_all_motions_are_within_the_limits(prior: MotionPrior, n_points: int) -> None:
    tight = dataclasses.replace(prior, upper=np.array([np.inf, 0.7, np.inf])).condition([1.0])
    assert tight.acceptance_rate < 0.7  # the limits exclude some motions
    samples = tight.sample(200, generator(), n_points)
    assert samples.positions[:, :, 1].max() <= 0.7
    weights, _ = tight._drawn(200, generator(), np.linspace(0.0, 1.0, n_points))
    between = tight.representation.positions(weights.numpy(), FINE)
    # between checked phases, a motion may exceed a limit by less than the rounding in messages and files
    assert between[:, :, 1].max() <= 0.7 + 1e-6


def test_density_is_that_of_the_truncated_normal_distribution() -> None:
    given = at_rest(-0.1, 0.3)
    samples = given.sample(300, generator())
    expected = truncnorm(-0.5, 1.5, scale=0.2).logpdf(samples.positions[:, 0, 0])
    # the share of motions within the limits, 0.62, is estimated from 2000 motions with a standard error of 2 %
    np.testing.assert_allclose(samples.log_prob, expected, atol=0.08)
    outside = torch.tensor([[-0.11], [0.31]], dtype=torch.float64)
    assert (given.log_prob(outside) == -torch.inf).all()


def test_draw_without_a_motion_within_the_limits_is_refused() -> None:
    with pytest.raises(DistributionError, match=r"^only 0 of 5\d+ motions \(acceptance rate 0\) are within the joint"):
        at_rest(8.0, 9.0).sample(20, generator())


def test_number_of_proposals_is_bounded() -> None:
    rare = at_rest(0.7, 9.0)  # 3.5 standard deviations away: 233 of a million motions are within
    assert len(rare.sample(50, generator())) == 50
    with pytest.raises(
        DistributionError, match=r"acceptance rate 0\.000\d+.*too few to draw 10000 motions: request fewer"
    ):
        rare.sample(10_000, generator())  # about 40 million proposals


def test_limits_far_away_change_nothing() -> None:
    free, limited = at_rest(-np.inf, np.inf).sample(50, generator()), at_rest(-9.0, 9.0).sample(50, generator())
    np.testing.assert_array_equal(free.positions, limited.positions)
    np.testing.assert_array_equal(free.log_prob, limited.log_prob)


def without_limits(data_set: DataSet) -> DataSet:
    unknown = {name: [None] * 3 for name in ("lower", "upper")}
    return DataSet(data_set.context, data_set.sample, {**data_set.description, **unknown})


def test_range_of_the_recording_limits_motions_if_the_robot_is_unknown(tmp_path: Path) -> None:
    data_set = without_limits(two_ways(60, 0))
    MotionTraining(learner=EMConfig(n_components=2)).run(data_set).model.save(tmp_path / "prior")
    prior, recorded = MotionPrior.load(tmp_path / "prior"), positions_of(data_set)
    assert prior.limits_source == "recording"
    samples = prior.condition([1.0]).sample(200, generator())
    margin = 0.005 + 1e-12  # five times the noise floor
    assert (samples.positions >= recorded.min(axis=(0, 1)) - margin).all()
    assert (samples.positions <= recorded.max(axis=(0, 1)) + margin).all()
    # motions outside of the recorded range are not refused, because the robot may be able to reach them
    assert np.isfinite(prior.score(recorded + 0.5, [1.0]).log_prob).all()
    beyond = prior.condition([1.0], [ViaPoint(0.5, ("wrist",), (recorded[:, :, 2].max() + 0.02,))])
    assert len(beyond.sample(20, generator())) == 20


def test_simulator_executes_all_motions_of_a_prior() -> None:
    arm, rng = PlanarArm(n_links=4), np.random.default_rng(0)
    start = torch.from_numpy(folded(arm))
    goals = torch.from_numpy(np.clip(rng.normal([0.0, -2.0, 2.0, -2.0], 0.8, (40, 4)), -3.1, 3.1))
    shown = [reaching_motion(arm, start, goal) for goal in goals]
    prior = MotionTraining(learner=EMConfig(n_components=2)).run(motion_data_set(arm, shown, {})).model
    given = prior.condition()
    assert given.acceptance_rate < 0.9  # the limits exclude some motions
    samples = given.sample(100, generator(), 50)
    simulator = PlanarSimulator(arm, point_task((1.0, 0.0)), rate=50, start=start.numpy())
    times = np.linspace(0.0, 2.0 * prior.mean_duration, 50)
    for motion in samples.positions:  # `execute` raises an error if the simulator refuses
        execute(simulator, Trajectory(times, motion))
        np.testing.assert_allclose(simulator.q, motion[-1], atol=1e-12)


def test_motions_fulfil_a_task_at_its_phase(prior: MotionPrior) -> None:
    task = TaskPoint(lambda q: np.abs(q[:, 0] - q[:, 2] - 0.5), tolerance=0.02, phase=0.5)
    given = prior.condition([1.0]).reaching(task)
    assert given.acceptance_rate < 0.5
    positions = given.sample(100, generator(), 41).positions[:, 20]
    assert np.abs(positions[:, 0] - positions[:, 2] - 0.5).max() <= 0.02


def test_task_truncates_the_density_as_limits_do() -> None:
    by_task = at_rest(-np.inf, np.inf, TaskPoint(lambda q: np.abs(q[:, 0] - 0.1), tolerance=0.2))
    weights = torch.linspace(-0.2, 0.4, 25, dtype=torch.float64)[:, None]
    torch.testing.assert_close(by_task.log_prob(weights), at_rest(-0.1, 0.3).log_prob(weights))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((3.0, 0.1), "must be a function"),
        ((len, 0.0), "tolerance of a task must be positive"),
        ((len, 0.1, 1.5), "phase of a task must be from 0 to 1"),
    ],
)
def test_bad_task_is_refused_with_its_cause(arguments: tuple, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        TaskPoint(*arguments)


def test_distance_of_another_shape_is_refused() -> None:
    with pytest.raises(DataError, match=r"distance of a task must have shape \(4,\), got \(4, 1\)"):
        at_rest(-1.0, 1.0, TaskPoint(lambda q: q, tolerance=0.1)).sample(4, generator())
