"""Motion priors can be combined with the densities of tasks and with inverse kinematics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from motion.demonstrated import JOINTS

from eim_ros.core.errors import DataError, DistributionError, JointStateError
from eim_ros.learning import EIMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import Gaussian
from eim_ros.motion import MotionPrior, ProductTarget, ViaPoint, weigh


def task(sample: torch.Tensor) -> torch.Tensor:
    """Return the log density of a task that keeps the first joint near 1.4 rad, with a deviation of 0.02 rad."""
    return -0.5 * ((sample[:, 0] - 1.4) / 0.02).square()


def test_product_with_a_gaussian_task_is_learnt_and_equals_conditioning_on_a_via_point(prior: MotionPrior) -> None:
    marginal = prior.condition([1.0]).marginal(0.5)
    config = EIMConfig.known_density(n_components=2, n_iterations=200)
    target = ProductTarget([marginal, task])
    model = EIM(config, target=target).fit(start=marginal, generator=torch.Generator().manual_seed(0)).model
    exact = prior.condition([1.0], [ViaPoint(0.5, ("shoulder",), (1.4,), (0.02,))]).marginal(0.5)
    torch.testing.assert_close(model.mean, exact.mean, atol=5e-3, rtol=0.0)  # standard deviations: 0.02 to 0.05
    torch.testing.assert_close(model.covariance, exact.covariance, atol=2e-4, rtol=0.0)


def test_product_of_gaussians_has_the_known_log_density() -> None:
    one, two = (Gaussian(torch.full((2,), x), torch.eye(2)) for x in (0.0, 1.0))
    sample = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    product = ProductTarget([one, two], [1.0, 0.5])
    torch.testing.assert_close(product.log_prob(sample), one.log_prob(sample) + 0.5 * two.log_prob(sample))


@pytest.mark.parametrize(("factors", "weights"), [([], None), ([task], [1.0, 2.0])])
def test_product_without_factors_or_with_other_weights_is_refused(factors: list, weights: list | None) -> None:
    with pytest.raises(DistributionError, match="factor"):
        ProductTarget(factors, weights)


def test_configurations_of_the_demonstrated_ways_come_first(prior: MotionPrior) -> None:
    given = prior.condition([1.0])
    likely = given.sample(1, torch.Generator().manual_seed(0)).positions[0, 20]
    middle = np.array([0.5, -0.25, 0.0])
    weighed = weigh(given, 20 / 39, JOINTS, [middle, likely])
    assert weighed.order.tolist() == [1, 0]
    assert weighed.log_prob[1] > weighed.log_prob[0] + 50.0
    assert np.exp(weighed.log_weights).sum() == pytest.approx(1.0)


def test_joints_are_matched_by_name_and_others_left_out(prior: MotionPrior) -> None:
    given, q = prior.condition([1.0]), np.array([[0.1, 0.2, 0.3], [0.0, -0.1, 0.9]])
    names = ["gripper", *JOINTS[::-1]]
    shuffled = np.column_stack([np.ones(2), q[:, ::-1]])
    np.testing.assert_array_equal(weigh(given, 0.5, names, shuffled).log_prob, weigh(given, 0.5, JOINTS, q).log_prob)


def test_importance_weights_correct_for_the_sampler(prior: MotionPrior) -> None:
    """Weighted draws from a broad Gaussian have the covariance of the prior."""
    given = prior.condition([1.0])
    marginal = given.marginal(0.0)
    broad = Gaussian(marginal.mean, 0.1 * torch.eye(3, dtype=torch.float64))
    drawn = broad.sample(20000, torch.Generator().manual_seed(0))
    weights = np.exp(weigh(given, 0.0, JOINTS, drawn.numpy(), broad.log_prob(drawn).numpy()).log_weights)
    covariance = np.cov(drawn.numpy().T, aweights=weights)
    np.testing.assert_allclose(covariance, marginal.covariance, atol=3e-4)  # variances: about 0.0025


@pytest.mark.parametrize(
    ("phase", "names", "positions", "error"),
    [
        (0.5, JOINTS[:2], [[0.0, 0.0]], JointStateError),
        (0.5, JOINTS, [[0.0, 0.0]], JointStateError),
        (1.5, JOINTS, [[0.0, 0.0, 0.0]], DataError),
    ],
)
def test_bad_configurations_are_refused(
    prior: MotionPrior, phase: float, names: tuple, positions: list, error: type[Exception]
) -> None:
    with pytest.raises(error):
        weigh(prior.condition([1.0]), phase, names, positions)
