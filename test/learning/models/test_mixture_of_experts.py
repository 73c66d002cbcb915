"""A mixture of experts gives a mixture for each context, its score is the gradient, and entropies are 0 to 1."""

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_experts,
    random_gating,
    random_mixture,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
)

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture, LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.models import linear as module

# numbers of components, dimensions and context dimensions
SIZES = pytest.mark.parametrize("size", [(1, 2, 2), (4, 3, 2), (4, 1, 1), (3, 2, 0)])

KINDS = pytest.mark.parametrize("kind", [random_mixture_of_experts, random_neural_mixture_of_experts])


def pairs_of(model: MixtureOfExperts, n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    return normal(generator_of(1), n, model.n_context), normal(generator_of(2), n, model.n_dims)


@KINDS
@SIZES
def test_conditioning_gives_the_mixture_of_the_same_density(size, kind):
    model = kind(0, *size)
    context, sample = pairs_of(model)
    mixture = model(context)
    torch.testing.assert_close(mixture.log_prob(sample), model.log_prob(context, sample), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        mixture.log_responsibilities(sample), model.log_responsibilities(context, sample), rtol=0.0, atol=1e-11
    )


@KINDS
@SIZES
def test_score_is_the_gradient_of_log_prob(size, kind):
    model = kind(3, *size)
    context, sample = pairs_of(model)
    leaf = sample.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(model.log_prob(context, leaf).sum(), leaf)
    torch.testing.assert_close(model.score(context, sample), expected, rtol=1e-11, atol=1e-11)


def test_score_does_not_depend_on_the_size_of_the_chunks(monkeypatch):
    model = random_mixture_of_experts(4, 5, 3, 2)
    context, sample = pairs_of(model, 11)
    whole = model.score(context, sample)
    for elements in (1, 5 * 3 * 4):
        monkeypatch.setattr(module, "CHUNK_ELEMENTS", elements)
        torch.testing.assert_close(model.score(context, sample), whole, rtol=1e-13, atol=1e-13)


@KINDS
def test_taken_experts_are_the_chosen_ones(kind):
    model, index = kind(16, 4, 2, 1), torch.tensor([3, 0])
    context, sample = pairs_of(model)
    taken = model.experts.take(index).log_prob(context, sample)
    torch.testing.assert_close(taken, model.experts.log_prob(context, sample)[:, index], rtol=1e-12, atol=1e-12)


@KINDS
def test_samples_come_from_the_expert_they_name(kind):
    model = kind(7, 3, 2, 1)
    context = torch.full((20_000, 1), 0.3, dtype=torch.float64)
    sample, component = model.sample_with_components(context, generator_of(8))
    probability = model.gating(context[:1])[0].exp()
    share = torch.bincount(component, minlength=3) / len(context)
    assert ((share - probability).abs() < 4.0 * (probability * (1.0 - probability) / 20_000).sqrt()).all()
    for index in range(3):
        mean, own = model.experts(context[:1]).mean[0, index], sample[component == index]
        assert ((own.mean(0) - mean).abs() < 4.5 * own.std(0) / len(own) ** 0.5).all()


def test_marginal_entropy_is_one_when_experts_share_and_zero_when_one_takes_all():
    experts = random_experts(9, 2, 1, 1)
    context = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    halves = MixtureOfExperts(SoftmaxGating(torch.tensor([[-90.0], [90.0]]).double(), torch.zeros(2).double()), experts)
    assert float(halves.marginal_entropy(context)) == pytest.approx(1.0, abs=1e-12)
    assert float(halves.conditional_entropy(context)) == pytest.approx(0.0, abs=1e-12)
    one = MixtureOfExperts(SoftmaxGating(torch.zeros(2, 1).double(), torch.tensor([900.0, 0.0]).double()), experts)
    assert float(one.marginal_entropy(context)) == pytest.approx(0.0, abs=1e-12)
    equal = MixtureOfExperts(SoftmaxGating(torch.zeros(2, 1).double(), torch.zeros(2).double()), experts)
    assert float(equal.conditional_entropy(context)) == pytest.approx(1.0, abs=1e-12)


def test_entropies_of_one_expert_are_defined():
    model = random_mixture_of_experts(10, 1, 2, 1)
    context = normal(generator_of(11), 5, 1)
    assert (model.marginal_entropy(context), model.conditional_entropy(context)) == (1.0, 0.0)


def test_missing_tensors_are_named():
    tensors = random_mixture_of_experts(13, 3, 2, 1).tensors()
    del tensors["gating.biases"], tensors["experts.scale_trils"]
    with pytest.raises(DistributionError, match=r"lacks gating.biases, experts.scale_trils"):
        MixtureOfExperts.from_tensors(tensors)


@pytest.mark.parametrize("gate", [(2, 1), (3, 2)])
def test_gating_that_does_not_fit_the_experts_is_refused(gate):
    with pytest.raises(DistributionError, match="must have equal"):
        MixtureOfExperts(random_gating(0, *gate), random_experts(0, 3, 2, 1))


def test_model_is_immutable():
    model = random_mixture_of_experts(15, 2, 2, 1)
    with pytest.raises(AttributeError):
        model.experts = LinearExperts(model.experts.weights, model.experts.biases, model.experts.scale_trils)  # type: ignore[misc]


@KINDS
@SIZES
def test_contexts_of_any_shape_and_kind_give_a_batch_of_that_shape(size, kind):
    model = kind(11, *size)
    context = normal(generator_of(12), 6, model.n_context)
    expected = model(context)
    for given in (context.reshape(2, 3, model.n_context), context.numpy().reshape(2, 3, model.n_context)):
        batch = model(given)
        assert batch.batch_shape == (2, 3)
        torch.testing.assert_close(batch.means.flatten(0, 1), expected.means)
        torch.testing.assert_close(batch.covariances.flatten(0, 1), expected.covariances)
    one = model(context[0])
    assert one.sample(5).shape == (5, model.n_dims)
    torch.testing.assert_close(one.weights, expected.weights[0])
    assert model(context.float()).means.dtype == torch.float64


@pytest.mark.parametrize("shape", [(4, 3), (3,), ()])
def test_contexts_of_a_wrong_size_are_refused(shape):
    model = random_mixture_of_experts(11, 3, 2, 2)
    for ask in (model, model.sample):
        with pytest.raises(DistributionError, match="must have the shape"):
            ask(torch.zeros(shape))
        with pytest.raises(DistributionError, match="must be an array of numbers"):
            ask("here")


def test_samples_come_alone_or_with_their_experts():
    model = random_mixture_of_experts(13, 4, 3, 2)
    context = normal(generator_of(14), 9, 2)
    sample, expert = model.sample_with_components(context, generator_of(0))
    assert expert.shape == (9,)
    assert torch.equal(model.sample(context, generator_of(0)), sample)
    assert torch.equal(model.sample(context.numpy(), generator_of(0)), sample)


def no_context(n: int) -> torch.Tensor:
    return torch.zeros(n, 0, dtype=torch.float64)


def test_shared_factor_is_given_to_each_expert():
    mixture = random_mixture(3, 3, 2)
    shared = GaussianMixture(mixture.log_weights, mixture.means, mixture.scale_trils[0])
    sample = normal(generator_of(4), 5, 2)
    model = MixtureOfExperts.from_mixture(shared)
    torch.testing.assert_close(model.log_prob(no_context(5), sample), shared.log_prob(sample), rtol=1e-12, atol=1e-12)


def test_weight_of_zero_becomes_a_finite_floor():
    mixture = random_mixture(5, 2, 2)
    absent = GaussianMixture(torch.tensor([0.0, -torch.inf]).double(), mixture.means, mixture.scale_trils)
    model = MixtureOfExperts.from_mixture(absent)
    assert all(bool(torch.isfinite(value).all()) for value in model.tensors().values())
    assert 0.0 < float(model.gating(no_context(1)).exp()[0, 1]) < 1e-300


def test_batch_of_mixtures_is_refused():
    mixture = random_mixture_of_experts(6, 3, 2, 1)(normal(generator_of(7), 4, 1))
    with pytest.raises(DistributionError, match=r"got a batch of shape \(4,\)"):
        MixtureOfExperts.from_mixture(mixture)


def test_model_with_contexts_is_no_mixture():
    with pytest.raises(DistributionError, match="with contexts of 2 dimensions"):
        random_mixture_of_experts(8, 3, 2, 2).as_mixture()
