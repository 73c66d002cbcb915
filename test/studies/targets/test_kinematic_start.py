"""Starts are exact for linear tasks, near the optimum for the planar robot, and reach the pose for any arm."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from studies.targets.examples import normals, seeded

from eim_ros.core.errors import DistributionError
from eim_ros.kinematics import Robot
from experiments.targets import MixtureStart, kinematic_start, moved_start, planar_robot, pose_posterior
from experiments.targets.scores import mean_log_ratio


@dataclass(frozen=True)
class LinearTask:
    """Task with the error A q - b and a normal posterior."""

    matrix: torch.Tensor
    offset: torch.Tensor
    prior_mean: torch.Tensor
    prior_scale: torch.Tensor
    n_goals: int = 1

    @property
    def n_dims(self) -> int:
        return self.matrix.shape[1]

    @property
    def start(self) -> MixtureStart:
        return MixtureStart.isotropic(self.n_dims, 1, 1.0, 1.0)

    def task(self, x, goal):
        n, (m, d) = len(x), self.matrix.shape
        return x @ self.matrix.T - self.offset, self.matrix.expand(n, m, d), torch.zeros(n, m, d, d).double()

    def log_prob(self, x):
        away = (x - self.prior_mean) / self.prior_scale
        return -0.5 * ((x @ self.matrix.T - self.offset).square().sum(-1) + away.square().sum(-1))


def elbo(target, mixture, n: int = 4000) -> float:
    sample = mixture.sample(n, seeded(9))
    return mean_log_ratio(target.log_prob(sample) - mixture.log_prob(sample)).value


def test_linear_task_has_its_exact_covariance_and_weights_by_the_density_at_the_means():
    target = LinearTask(
        normals(2, 4), normals(2, seed=1), normals(4, seed=2), torch.tensor([1.0, 0.5, 2.0, 1.5]).double()
    )
    start = kinematic_start(target, 5, seeded(3))
    mixture = start.mixture
    precision = target.matrix.T @ target.matrix + torch.diag(target.prior_scale**-2)
    expected = torch.linalg.inv(precision).expand(5, 4, 4)
    torch.testing.assert_close(mixture.scale_trils @ mixture.scale_trils.mT, expected, rtol=1e-9, atol=1e-9)
    log_weights = torch.log_softmax(target.log_prob(mixture.means), -1)
    torch.testing.assert_close(mixture.log_weights, log_weights, rtol=1e-9, atol=1e-9)


def test_planar_task_has_the_derivatives_of_its_error():
    target = planar_robot()
    x = 0.5 * normals(1, 10)
    goal = torch.tensor([2])
    error, jacobian, hessian = target.task(x, goal)
    torch.testing.assert_close(error, (target.tip(x) - target.goals[2]) / 0.01)
    of_row = lambda row: target.task(row[None], goal)  # noqa: E731
    torch.testing.assert_close(torch.autograd.functional.jacobian(lambda row: of_row(row)[0][0], x[0]), jacobian[0])
    torch.testing.assert_close(torch.autograd.functional.jacobian(lambda row: of_row(row)[1][0], x[0]), hessian[0])


@pytest.mark.parametrize("orientation_scale", [0.05, math.inf])
def test_task_of_any_arm_has_the_derivatives_of_its_error(orientation_scale):
    """Derivatives are compared at the pose, because second derivatives of the rotation are symmetric there."""
    robot = Robot("iiwa14")
    x = torch.tensor([[0.3, 0.5, -0.2, -1.2, 0.4, 0.9, 0.1]]).double()
    target = pose_posterior(robot, robot.fk(x[0].numpy()), orientation_scale=orientation_scale)
    goal = torch.zeros(1, dtype=torch.int64)
    error, jacobian, hessian = target.task(x, goal)
    torch.testing.assert_close(error, torch.zeros_like(error), rtol=0.0, atol=1e-6)
    step = 1e-3
    directions = normals(6, 7, seed=4)
    for direction in directions:
        ahead, behind = (target.task(x + sign * step * direction, goal)[0][0] for sign in (1.0, -1.0))
        slope, bend = (ahead - behind) / (2.0 * step), (ahead + behind - 2.0 * error[0]) / step**2
        torch.testing.assert_close(jacobian[0] @ direction, slope, rtol=1e-4, atol=1e-2)
        torch.testing.assert_close(direction @ hessian[0] @ direction, bend, rtol=1e-3, atol=0.1)


def test_planar_start_is_near_the_optimum_after_two_thousand_evaluations_and_knows_all_goals():
    """No ELBO can exceed log Z, which is -10.61 according to `test_planar_ground_truth`."""
    target = planar_robot()
    start = kinematic_start(target, 100, seeded(0))
    assert start.n_evaluations == 1800
    assert -14.0 < elbo(target, start.mixture) < -10.61
    assert torch.equal(start.goals, torch.arange(100) % 4)
    shares = target.goal_shares(start.mixture.sample(4000, seeded(8)))
    torch.testing.assert_close(shares, torch.tensor([0.344, 0.084, 0.286, 0.286]), rtol=0.0, atol=0.12)


def test_mixture_follows_goals_that_move_and_keeps_all_of_them():
    """The goals move by 2 m along the circle. The true shares are from `planar_truth`."""
    before = planar_robot()
    angle = torch.tensor(2.0 / 7.0).double()
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    after = replace(before, goals=before.goals @ turn.T)
    means = kinematic_start(before, 100, seeded(0)).mixture.means
    start = moved_start(after, means, before.nearest_goal(means))
    assert start.n_evaluations == 1000
    assert -14.0 < elbo(after, start.mixture) < -10.61
    shares = after.goal_shares(start.mixture.sample(4000, seeded(8)))
    torch.testing.assert_close(shares, torch.tensor([0.343, 0.095, 0.237, 0.324]), rtol=0.0, atol=0.12)


def test_nothing_cannot_be_started():
    for n_components, n_steps in ((0, 3), (3, 0)):
        with pytest.raises(DistributionError, match="one component and one step"):
            kinematic_start(planar_robot(), n_components, seeded(), n_steps)
    for means, goals in ((normals(3, 9), torch.zeros(3)), (normals(3, 10), torch.zeros(2)), (normals(0, 10), [])):
        with pytest.raises(DistributionError, match="one goal for each"):
            moved_start(planar_robot(), means, torch.as_tensor(goals))
    for goals in (torch.tensor([0, 4]), torch.tensor([-1, 0])):
        with pytest.raises(DistributionError, match="goals from 0 to 3"):
            moved_start(planar_robot(), normals(2, 10), goals)
