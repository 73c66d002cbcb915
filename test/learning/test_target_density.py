"""Targets of inference with a known density may be densities, objects or functions, with or without a gradient."""

import pytest
import torch
from learning.models.random_models import random_mixture, random_mixture_of_experts
from learning.toys import normal_mixture

from eim_ros.core.errors import DistributionError
from eim_ros.learning import EIMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import Gaussian, GaussianMixture
from eim_ros.learning.target import target_density, with_floor


def points(n_dims: int = 2, n_context: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(20, size, generator=generator, dtype=torch.float64) for size in (n_context, n_dims))


def test_every_kind_of_target_has_the_density_and_the_gradient_of_its_model():
    """One mixture is the target as a model, as an object without a score, and as a function."""
    mixture = random_mixture(0, 3, 2)
    context, sample = points()

    class Plain:
        log_prob = staticmethod(mixture.log_prob)

    for target in (mixture, Plain(), mixture.log_prob, lambda x: mixture.log_prob(x)):
        known = target_density(target, conditional=False)
        torch.testing.assert_close(known.log_prob(context, sample), mixture.log_prob(sample), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(known.gradient(context, sample), mixture.score(sample), rtol=1e-10, atol=1e-10)


def test_targets_with_contexts_are_called_with_both():
    model = random_mixture_of_experts(1, 3, 2, 1)
    context, sample = points(2, 1)
    for target in (model, lambda y, x: model.log_prob(y, x)):
        known = target_density(target, conditional=True)
        torch.testing.assert_close(known.log_prob(context, sample), model.log_prob(context, sample))
        torch.testing.assert_close(known.gradient(context, sample), model.score(context, sample), rtol=1e-9, atol=1e-9)


def test_mixture_as_the_target_of_experts_ignores_the_context():
    mixture = random_mixture(2, 3, 2)
    context, sample = points(2, 3)
    known = target_density(mixture, conditional=True)
    torch.testing.assert_close(known.log_prob(context, sample), mixture.log_prob(sample), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(known.gradient(context, sample), mixture.score(sample), rtol=1e-10, atol=1e-10)


def test_single_precision_density_is_taken_in_double():
    mixture = random_mixture(3, 3, 2)
    context, sample = points()
    known = target_density(mixture.to(dtype=torch.float32), conditional=False)
    assert known.gradient(context, sample).dtype == torch.float64
    torch.testing.assert_close(known.log_prob(context, sample), mixture.log_prob(sample), rtol=1e-4, atol=1e-4)


def test_floor_outside_the_support_falls_with_the_distance():
    sample = torch.tensor([[0.1], [0.5], [0.9], [1.5], [20.0]], dtype=torch.float64)
    log_prob = torch.tensor([-1.0, 0.0, -2.0, -torch.inf, torch.nan], dtype=torch.float64)
    floored = with_floor(log_prob, sample, 20.0)
    assert torch.equal(floored[:3], log_prob[:3])
    assert floored[3] < -22.0
    assert floored[4] - floored[3] == pytest.approx(-0.5 * (19.5**2 - 1.0**2) / 0.16)
    assert torch.equal(with_floor(log_prob[3:], sample[3:], 20.0), torch.tensor([-20.0, -20.0]).double())


def test_gradient_is_nan_where_the_target_is_not_finite():
    context, sample = points()

    def half(x):
        return torch.where(x[:, 0] > 0.0, -x.square().sum(-1), torch.full_like(x[:, 0], -torch.inf))

    gradient = target_density(half, conditional=False).gradient(context, sample)
    inside = sample[:, 0] > 0.0
    assert torch.isnan(gradient[~inside]).all()
    torch.testing.assert_close(gradient[inside], -2.0 * sample[inside])


def test_target_without_gradient_is_fitted_by_values_and_otherwise_refused():
    mean = torch.tensor([1.0, -1.0]).double()

    def target(sample):  # like a simulator, it returns values without a gradient
        return torch.as_tensor(-0.5 * ((sample.detach().numpy() - mean.numpy()) ** 2).sum(1))

    start, config = (
        normal_mixture([0.0, 0.0], 4.0),
        {"n_iterations": 15, "m_step.kl_bound": 5.0, "m_step.entropy_loss_bound": 5.0},
    )
    model = (
        EIM(EIMConfig.known_density(**config, **{"m_step.surrogate": "value"}), target=target).fit(start=start).model
    )
    torch.testing.assert_close(model.means[0], mean, rtol=0.0, atol=1e-6)
    torch.testing.assert_close(model.covariance, torch.eye(2).double(), rtol=0.0, atol=1e-6)
    with pytest.raises(DistributionError, match="cannot be differentiated"):
        EIM(EIMConfig.known_density(**config), target=target).fit(start=start)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (3.0, "must be a density"),
        (lambda sample: sample, "one number per sample"),
        (lambda sample: sample.sum(), "one number per sample"),
        (lambda sample: sample[:, 0] * torch.nan, "not finite at any"),
    ],
)
def test_bad_target_is_refused_with_the_reason(target, reason):
    with pytest.raises(DistributionError, match=reason):
        EIM(target=target).fit(start=normal_mixture([0.0, 0.0]))


class Quadratic:
    """Custom density that counts the calls of its score."""

    def __init__(self) -> None:
        self.calls = 0

    def log_prob(self, sample):
        return -0.5 * (sample - 1.0).square().sum(-1)

    def score(self, sample):
        self.calls += 1
        return 1.0 - sample


def test_objects_with_a_density_are_targets_and_their_score_is_used():
    target = Quadratic()
    model = EIM(EIMConfig.known_density(n_iterations=40), target=target).fit(start=normal_mixture([0.0, 0.0])).model
    assert target.calls > 0
    torch.testing.assert_close(model.means, torch.ones(1, 2).double(), rtol=0.0, atol=1e-8)
    assert isinstance(model, GaussianMixture)
    gaussian = Gaussian(torch.ones(2).double(), torch.eye(2).double())
    same = EIM(EIMConfig.known_density(n_iterations=40), target=gaussian).fit(start=normal_mixture([0.0, 0.0])).model
    torch.testing.assert_close(same.means, model.means, rtol=0.0, atol=1e-10)


def test_annealed_target_is_asked_for_each_iteration():
    """The target is a Gaussian that moves by 1 in each iteration. The model follows one iteration later."""
    asked: list[int] = []

    class Moving:
        def at(self, iteration: int):
            asked.append(iteration)
            return lambda sample: -0.5 * (sample - iteration).square().sum(-1)

    start = GaussianMixture(torch.zeros(1).double(), torch.zeros(1, 2).double(), torch.eye(2).double().expand(1, 2, 2))
    config = EIMConfig.known_density(
        n_components=1, n_iterations=4, plateau_window=0, **{"m_step.kl_bound": 10.0, "exact.tolerance": 0.0}
    )
    fit = EIM(config, target=Moving()).fit(start=start)
    assert sorted(set(asked)) == [0, 1, 2, 3]
    # the trust region is large enough to reach the last target in one update
    torch.testing.assert_close(fit.model.means, torch.full((1, 2), 3.0).double(), rtol=0.0, atol=1e-6)
