"""Motions of the expert lead from the start to its draws, pass obstacles on both sides, and are as fast as allowed."""

import numpy as np
import pytest
import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.planar import Expert, PlanarArm, PlanarSimulator, folded, line_task, passing_side, point_task
from eim_ros.planar.motions import MotionConfig, draw_motions, plan
from eim_ros.planar.simulator import demonstrate, execute

ARM = PlanarArm(n_links=4)
TASK = line_task((2.8, -1.5), (2.8, 1.5), (1.9, 0.0, 0.3))
START = torch.from_numpy(folded(ARM))


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def motions():
    return draw_motions(Expert(ARM, TASK), START, 20, rng())


def test_motions_end_at_the_goal_and_touch_nothing(motions):
    assert len(motions) == 20
    for motion in motions:
        np.testing.assert_allclose(motion.positions[0], START.numpy(), atol=1e-12)
        q = torch.from_numpy(motion.positions)
        assert TASK.distance(ARM.tip(q[-1])) < 0.06  # six standard deviations of the goal
        assert TASK.clearance(ARM.points(q)).min() > 0.0
        assert ARM.within_limits(q).all()


def test_motions_pass_the_obstacle_on_both_sides(motions):
    ends = torch.stack([torch.from_numpy(motion.positions[-1]) for motion in motions])
    assert set(passing_side(ARM.points(ends), TASK.obstacles[0, :2]).tolist()) == {1, -1}


def test_motions_begin_and_end_at_rest_and_are_as_fast_as_allowed(motions):
    config = MotionConfig()
    for motion in motions:
        speed = np.abs(np.diff(motion.positions, axis=0)) / np.diff(motion.times)[:, None]
        assert speed.max() <= config.speed * ARM.velocity_limit * 1.001
        assert motion.times[-1] == config.least_duration or speed.max() > 0.95 * config.speed * ARM.velocity_limit
        assert speed[[0, -1]].max() < 0.1 * speed.max()  # mean speeds in the first and last interval
        assert motion.times[0] == 0.0
        assert len(motion.times) == config.n_points


def test_simulator_confirms_every_motion(motions):
    simulator = PlanarSimulator(ARM, TASK, start=START.numpy())
    assert all(execute(simulator, motion).success for motion in motions)


def test_way_through_an_obstacle_is_not_free():
    """On its way, the only link must sweep through a disc."""
    arm = PlanarArm(n_links=1)
    task = point_task((0.0, 1.0), (0.7, 0.7, 0.2))
    goal = torch.tensor([[0.5 * torch.pi]]).double()
    config = MotionConfig(n_tries=2, n_steps=20, spread=0.05)
    ways, free = plan(Expert(arm, task), torch.zeros(1).double(), goal, rng(), config)
    assert not free.any()
    assert ways.shape == (1, 400, 1)


def test_start_in_an_obstacle_is_refused():
    with pytest.raises(ConfigurationError, match="at the start"):
        draw_motions(Expert(ARM, TASK), torch.zeros(4).double(), 1, rng())


def test_demonstrations_are_a_data_set_of_motions():
    data = demonstrate(Expert(ARM, TASK), START, 5, rng(), MotionConfig(n_points=21))
    about = data.description
    assert data.sample.shape == (5, 21 * 4)
    assert data.context.shape == (5, 0)
    assert about["task"] == "motion"
    assert about["joint_names"] == list(ARM.joint_names)
    assert about["n_points"] == 21
    assert len(about["durations"]) == len(about["labels"]) == 5
    first = data.sample.reshape(5, 21, 4)[:, 0]
    np.testing.assert_allclose(first, np.broadcast_to(START.numpy(), first.shape), atol=1e-12)
