"""Scores of a mixture on a target: the truth has an ELBO of log Z, and finds all modes."""

import pytest
import torch
from studies.targets.examples import seeded

from eim_ros.learning.models import GaussianMixture
from experiments.targets import Banana, planar_robot, random_gaussian_mixture
from experiments.targets.scores import mixture_scores


def test_the_truth_is_scored_as_such_and_a_part_of_it_as_a_part():
    target = random_gaussian_mixture(3, seeded(0), n_components=4)
    truth = GaussianMixture(target.log_weights, target.means, target.scale_trils)
    scores = mixture_scores(target, truth, 2500, seeded(1))
    assert scores.elbo.value == pytest.approx(0.0, abs=1e-9)  # the densities are the same: no noise
    assert (scores.n_found, scores.n_modes, scores.goal_shares) == (4, 4, None)
    part = GaussianMixture(target.log_weights[:1], target.means[:1], target.scale_trils[:1])
    assert mixture_scores(target, part, 2500, seeded(1)).n_found == 1


def test_goals_are_told_with_their_shares():
    target = planar_robot(4)
    mixture = target.start.mixture(seeded(0), 1)  # a stretched arm is nearest to one goal
    scores = mixture_scores(target, mixture, 3000, seeded(1))
    expected = target.goal_shares(mixture.sample(3000, seeded(1)))
    assert scores.goal_shares == tuple(expected.tolist())
    assert (scores.n_found, scores.n_modes) == (int((expected >= 0.01).sum()), 4)


def test_of_other_targets_the_elbo_alone_is_known():
    target = Banana()
    scores = mixture_scores(target, target.start.mixture(seeded(0), 3), 100, seeded(1))
    assert torch.isfinite(torch.tensor(scores.elbo.value))
    assert scores.n_found is scores.n_modes is scores.goal_shares is None
