"""Metrics have the known values for Gaussians, discrete weights and points."""

import math

import pytest
import torch
from studies.targets.examples import normals, seeded

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture
from experiments.targets import Banana, planar_robot, random_gaussian_mixture
from experiments.targets.scores import (
    bridge_log_normaliser,
    effective_components,
    forward_effective_sample_size,
    importance_log_normaliser,
    maximum_mean_discrepancy,
    mean_log_ratio,
    mixture_scores,
    mode_coverage,
    modes_found,
    reverse_effective_sample_size,
)

LOG_Z = 3.0
N = 200_000


def log_ratio(x: torch.Tensor, shift: float) -> torch.Tensor:
    """Return the log ratio of p~ = e^3 N(0, 1) and q = N(shift, 1)."""
    return LOG_Z - 0.5 * x.square() + 0.5 * (x - shift).square()


def test_bounds_differ_from_log_z_by_the_divergences():
    """For shifted unit normals, both divergences are shift^2 / 2. The log ratio has the standard deviation `shift`."""
    shift = 0.8
    noise = normals(N)
    lower, upper = (mean_log_ratio(log_ratio(noise + mean, shift)) for mean in (shift, 0.0))
    assert lower.standard_error == pytest.approx(shift / math.sqrt(N), rel=0.02)
    assert lower.value == pytest.approx(LOG_Z - 0.5 * shift**2, abs=5.0 * lower.standard_error)
    assert upper.value == pytest.approx(LOG_Z + 0.5 * shift**2, abs=5.0 * upper.standard_error)


def test_importance_weights_estimate_log_z_with_their_error():
    """The variance of an importance weight is e^(shift^2) - 1."""
    estimate = importance_log_normaliser(log_ratio(normals(N) + 0.8, 0.8))
    assert estimate.value == pytest.approx(LOG_Z, abs=5.0 * estimate.standard_error)
    assert estimate.standard_error == pytest.approx(math.sqrt((math.exp(0.64) - 1.0) / N), rel=0.05)


@pytest.mark.parametrize("n_of_target", [N, N // 10])
def test_bridge_estimates_log_z_where_model_and_target_hardly_overlap(n_of_target):
    """With a shift of 3, importance weights would have the variance e^9 - 1. Only the bridge estimate is useful."""
    (noise, other), shift = normals(2 * N).split(N), 3.0
    estimate = bridge_log_normaliser(log_ratio(noise + shift, shift), log_ratio(other[:n_of_target], shift))
    # five standard deviations of the estimate, measured with N / 10 and twelve seeds
    assert estimate == pytest.approx(LOG_Z, abs=0.06)


def test_effective_sample_sizes_are_those_of_shifted_normals():
    """E_q[w]^2 / E_q[w^2] is e^(-shift^2). It is estimated from samples of the model and of the target."""
    expected = math.exp(-0.64)
    assert reverse_effective_sample_size(log_ratio(normals(N) + 0.8, 0.8)) == pytest.approx(expected, rel=0.02)
    assert forward_effective_sample_size(log_ratio(normals(N), 0.8)) == pytest.approx(expected, rel=0.02)


def test_perfect_model_scores_perfectly_whatever_the_normaliser():
    constant = torch.full((7,), 800.0, dtype=torch.float64)
    assert mean_log_ratio(constant).value == importance_log_normaliser(constant).value == 800.0
    assert reverse_effective_sample_size(constant) == pytest.approx(1.0)
    assert forward_effective_sample_size(constant) == pytest.approx(1.0)


def test_samples_outside_of_the_support_make_the_elbo_minus_infinity_and_leave_the_normaliser():
    values = torch.tensor([0.0, 0.0, 0.0, -math.inf]).double()
    assert mean_log_ratio(values).value == -math.inf
    assert importance_log_normaliser(values).value == pytest.approx(math.log(0.75))
    assert reverse_effective_sample_size(values) == pytest.approx(0.75)
    assert importance_log_normaliser(values[-1:]).value == -math.inf


def test_missing_mode_shows_in_the_forward_size_alone():
    """The model covers one of two distant modes. Its samples have one log ratio, and samples of the target have two."""
    reverse = torch.full((100,), -math.log(2.0))
    forward = torch.cat([reverse[:50], torch.full((50,), 100.0)])
    assert reverse_effective_sample_size(reverse) == pytest.approx(1.0)
    assert forward_effective_sample_size(forward) < 1e-30


def test_discrepancy_is_zero_of_equal_samples_and_known_of_two_points():
    """The reference is computed by hand. The median is over all pairs, and a point also forms a pair with itself."""
    reference = torch.tensor([[0.0], [1.0], [3.0], [7.0]]).double()
    # the ten squared differences are 0 (four times), 1, 4, 9, 16, 36 and 49, so their lower median is 1
    assert maximum_mean_discrepancy(reference, reference) == pytest.approx(0.0, abs=1e-12)
    sample = torch.tensor([[0.0]]).double()
    kernel = lambda d: math.exp(-d * d / 2.0)  # noqa: E731
    within = (4.0 + 2.0 * sum(map(kernel, (1, 2, 3, 4, 6, 7)))) / 16.0
    expected = 1.0 + within - 2.0 * (1.0 + kernel(1) + kernel(3) + kernel(7)) / 4.0
    assert maximum_mean_discrepancy(sample, reference, bandwidth=2.0) == pytest.approx(expected, rel=1e-9)


def test_modes_are_found_by_means_of_some_weight_within_the_radius():
    modes = torch.tensor([[0.0, 0.0], [10.0, 0.0], [20.0, 0.0]])
    means = torch.tensor([[0.5, 0.0], [0.1, 0.1], [10.0, 0.9], [20.0, 1.1]])
    assert modes_found(means, modes, 1.0) == 2
    assert modes_found(means, modes, 1.2) == 3
    assert modes_found(means, modes, 1.0, torch.tensor([0.0, 0.0, -30.0, 0.0])) == 1


def test_effective_components_of_equal_and_of_single_weights():
    assert effective_components(torch.zeros(7)) == pytest.approx(7.0)
    assert effective_components(torch.tensor([0.0, -math.inf, -math.inf])) == pytest.approx(1.0)


def test_mode_coverage_is_one_of_even_and_zero_of_a_single_mode():
    assert mode_coverage(torch.ones(4)) == pytest.approx(1.0)
    assert mode_coverage(torch.tensor([3.0, 0.0, 0.0])) == 0.0
    assert mode_coverage(torch.tensor([0.5, 0.5, 0.0, 0.0])) == pytest.approx(0.5)


def test_bad_input_is_refused():
    for wrong in (torch.tensor([0.0, torch.nan]), torch.zeros(0), torch.zeros(2, 2)):
        with pytest.raises(DistributionError, match="log ratios"):
            mean_log_ratio(wrong)
    with pytest.raises(DistributionError, match="same number of dimensions"):
        maximum_mean_discrepancy(normals(3, 2), normals(3, 1))
    with pytest.raises(DistributionError, match="same number of dimensions"):
        maximum_mean_discrepancy(normals(3, 1), torch.zeros(3, 1).double())


def test_the_truth_is_scored_as_such_and_a_part_of_it_as_a_part():
    target = random_gaussian_mixture(3, seeded(0), n_components=4)
    truth = GaussianMixture(target.log_weights, target.means, target.scale_trils)
    scores = mixture_scores(target, truth, 2500, seeded(1))
    assert scores.elbo.value == pytest.approx(0.0, abs=1e-9)  # no noise, because densities are equal
    assert (scores.n_found, scores.n_modes, scores.goal_shares) == (4, 4, None)
    part = GaussianMixture(target.log_weights[:1], target.means[:1], target.scale_trils[:1])
    assert mixture_scores(target, part, 2500, seeded(1)).n_found == 1


def test_goals_are_told_with_their_shares():
    target = planar_robot(4)
    mixture = target.start.mixture(seeded(0), 1)  # the mean is a stretched arm, near one goal
    scores = mixture_scores(target, mixture, 3000, seeded(1))
    expected = target.goal_shares(mixture.sample(3000, seeded(1)))
    assert scores.goal_shares == tuple(expected.tolist())
    assert (scores.n_found, scores.n_modes) == (int((expected >= 0.01).sum()), 4)


def test_of_other_targets_the_elbo_alone_is_known():
    target = Banana()
    scores = mixture_scores(target, target.start.mixture(seeded(0), 3), 100, seeded(1))
    assert torch.isfinite(torch.tensor(scores.elbo.value))
    assert scores.n_found is scores.n_modes is scores.goal_shares is None
