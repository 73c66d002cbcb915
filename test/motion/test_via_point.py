"""Conditioning on via points agrees with the formulas of linear Gaussian models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eim_ros.core.errors import DataError, EimError, JointStateError
from eim_ros.learning.models import GaussianMixture
from eim_ros.motion import Basis, Representation, ViaPoint
from eim_ros.motion.distribution import condition_on

REPRESENTATION = Representation(Basis("gaussian", 5), ("a", "b"), 20)


@pytest.fixture
def mixture() -> GaussianMixture:
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(3, 10, generator=generator, dtype=torch.float64)
    factors = torch.eye(10, dtype=torch.float64) + 0.3 * torch.randn(
        3, 10, 10, generator=generator, dtype=torch.float64
    )
    return GaussianMixture(torch.zeros(3, dtype=torch.float64), means, factors.tril().abs())


def test_posterior_and_evidence_are_those_of_the_textbook(mixture: GaussianMixture) -> None:
    """The reference conditions with the Kalman gain K = S A' (A S A' + R)^-1 of full matrices."""
    points = [ViaPoint(0.2, ("b",), (0.7,), (0.1,)), ViaPoint(1.0, ("b", "a"), (0.1, -0.4), (0.2, 0.05))]
    given, log_evidence = condition_on(points, mixture, REPRESENTATION)
    design = np.concatenate([REPRESENTATION.design(0.2, [1]), REPRESENTATION.design(1.0, [1, 0])])
    wanted, noise = np.array([0.7, 0.1, -0.4]), np.diag(np.square([0.1, 0.2, 0.05]))
    joint = []
    for k in range(3):
        mean, covariance = mixture.means[k].numpy(), mixture.components.covariance[k].numpy()
        innovation = design @ covariance @ design.T + noise
        gain = covariance @ design.T @ np.linalg.inv(innovation)
        difference = wanted - design @ mean
        posterior = covariance - gain @ design @ covariance
        np.testing.assert_allclose(given.means[k], mean + gain @ difference, atol=1e-9)
        np.testing.assert_allclose(given.components.covariance[k], posterior, atol=1e-9)
        log_det = np.linalg.slogdet(2.0 * np.pi * innovation)[1]
        joint.append(np.log(1 / 3) - 0.5 * difference @ np.linalg.solve(innovation, difference) - 0.5 * log_det)
    assert log_evidence == pytest.approx(np.logaddexp.reduce(joint))
    np.testing.assert_allclose(given.log_weights, joint - np.logaddexp.reduce(joint), atol=1e-9)


def test_all_at_once_is_one_after_the_other(mixture: GaussianMixture) -> None:
    first, second = ViaPoint(0.0, ("a",), (0.3,)), ViaPoint(0.6, ("a", "b"), (0.5, 0.5))
    both, log_both = condition_on([first, second], mixture, REPRESENTATION)
    once, log_first = condition_on([first], mixture, REPRESENTATION)
    twice, log_second = condition_on([second], once, REPRESENTATION)
    assert log_both == pytest.approx(log_first + log_second)
    torch.testing.assert_close(twice.means, both.means)
    torch.testing.assert_close(twice.log_weights, both.log_weights)


def test_wishes_may_contradict_each_other(mixture: GaussianMixture) -> None:
    """Two contradictory via points have equal deviations, so motions pass through the middle. The evidence is low."""
    points = [ViaPoint(0.5, ("a",), (x,), (0.01,)) for x in (0.0, 1.0)]
    given, log_evidence = condition_on(points, mixture, REPRESENTATION)
    at_phase = REPRESENTATION.positions(given.means.numpy(), np.array([0.5]))[:, 0, 0]
    np.testing.assert_allclose(at_phase, 0.5, atol=1e-2)
    assert log_evidence < -1000.0


def test_wish_far_from_all_ways_leaves_those_that_are_about_as_near() -> None:
    """The ways are 10 and 10.1 m from the first via point (deviation 0.01 m). One way meets the second via point."""
    means = torch.tensor([[10.0] * 5 + [0.0] * 5, [-10.1] * 5 + [0.0] * 5], dtype=torch.float64)
    factors = 0.01 * torch.eye(10, dtype=torch.float64).expand(2, -1, -1)
    ways = GaussianMixture(torch.zeros(2, dtype=torch.float64), means, factors)
    far, log_evidence = condition_on([ViaPoint(0.5, ("a",), (0.0,))], ways, REPRESENTATION)
    assert 0.5 < far.weights[0] < 0.7
    assert log_evidence < -1e4
    near, _ = condition_on([ViaPoint(0.5, ("a",), (10.0,))], ways, REPRESENTATION)
    assert near.weights[1] < 1e-100


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((-0.1, ("a",), (0.0,)), "phase"),
        ((1.1, ("a",), (0.0,)), "phase"),
        ((np.nan, ("a",), (0.0,)), "phase"),
        ((0.5, (), ()), "at least one joint"),
        ((0.5, ("a", "a"), (0.0, 0.0)), "each once"),
        ((0.5, ("a", "b"), (0.0,)), "2 joints has 1 positions"),
        ((0.5, ("a",), (0.0,), (0.1, 0.1)), "2 standard deviations"),
        ((0.5, ("a",), (np.inf,)), "finite"),
        ((0.5, ("a",), (0.0,), (0.0,)), "at least 1e-09"),
        ((0.5, ("a",), (0.0,), (np.nan,)), "finite"),
    ],
)
def test_bad_via_point_is_refused_with_its_cause(arguments: tuple, reason: str) -> None:
    with pytest.raises(EimError, match=reason):
        ViaPoint(*arguments)


def test_unknown_joint_is_refused_with_the_known_ones(mixture: GaussianMixture) -> None:
    with pytest.raises(JointStateError, match="unknown joints c; the joints are a, b"):
        condition_on([ViaPoint(0.5, ("c",), (0.0,))], mixture, REPRESENTATION)


def test_too_many_via_points_are_refused(mixture: GaussianMixture) -> None:
    with pytest.raises(DataError, match="500"):
        condition_on([ViaPoint(0.5, ("a",), (0.0,))] * 501, mixture, REPRESENTATION)
