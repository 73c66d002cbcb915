"""Density ratio: the classifier recovers a known log ratio, sign included, and reports when it knows nothing."""

import math

import pytest
import torch
from distributions.random_models import generator_of, normal, random_mixture_of_experts
from inference.toys import KnownInputs, pairs_from

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.inference import NetworkRatio, RatioConfig, StandardisedInputs
from eim_ros.inference.density_ratio import Pairs


def config(**settings) -> RatioConfig:
    defaults = {
        "hidden_layers": (32,),
        "dropout": 0.0,
        "learning_rate": 5e-3,
        "batch_size": 500,
        "initial_epochs": 20,
        "n_epochs": 5,
        "validation_share": 0.1,
    }
    return RatioConfig(**{**defaults, **settings})


def gaussian(mean: float, slope: float, deviation: float) -> MixtureOfExperts:
    """x ~ N(mean + slope y, deviation^2)."""
    experts = LinearExperts(*(torch.tensor(v).double() for v in ([[[slope]]], [[mean]], [[[deviation]]])))
    return MixtureOfExperts(SoftmaxGating(torch.zeros(1, 1).double(), torch.zeros(1).double()), experts)


TARGET, MODEL = gaussian(1.0, 0.5, 0.8), gaussian(0.0, 0.0, 1.0)


def exact(context: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
    return TARGET.log_prob(context, sample) - MODEL.log_prob(context, sample)


def samples(n: int, target: MixtureOfExperts = TARGET, model: MixtureOfExperts = MODEL) -> tuple[Pairs, Pairs]:
    context, sample = pairs_from(target, n, seed=1)
    drawn, _ = model.sample(context, generator_of(2))
    return Pairs(context, sample), Pairs(context, drawn)


def fitted(n: int = 3000, **settings) -> tuple[NetworkRatio, Pairs, Pairs]:
    data, drawn = samples(n)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    ratio = NetworkRatio(config(**settings), inputs, generator_of(3), torch.device("cpu"))
    ratio.fit(data, drawn, MODEL, 0, generator_of(4))
    return ratio, data, drawn


@pytest.fixture(scope="module")
def trained() -> tuple[NetworkRatio, Pairs, Pairs]:
    return fitted(5000, initial_epochs=30, batch_size=250)


def test_log_ratio_of_two_known_gaussians_is_recovered_sign_included(trained):
    ratio, data, drawn = trained
    # of values with standard deviations of 1.1 and 2: measured .10 where both classes are, .28 in the model's tails
    for pairs, sign, tolerance in ((data, 1.0, 0.2), (drawn, -1.0, 0.5)):
        found, expected = ratio.log_ratio(pairs.context, pairs.sample), exact(pairs.context, pairs.sample)
        assert sign * float(found.mean()) > 0.0  # data are the positive class
        assert float((found - expected).square().mean().sqrt()) < tolerance
        assert float((found - expected).mean()) == pytest.approx(0.0, abs=tolerance)


def test_gradient_is_that_of_the_known_ratio(trained):
    ratio, _, drawn = trained
    leaf = drawn.sample.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(exact(drawn.context, leaf).sum(), leaf)
    found = ratio.gradient(drawn.context, drawn.sample)
    assert found.shape == drawn.sample.shape
    assert float((found - expected).square().mean().sqrt()) < 0.5 * float(expected.std())


def test_gradient_is_the_derivative_of_the_log_ratio(trained):
    ratio, data, _ = trained
    context, sample = data.context[:50], data.sample[:50]
    step = 1e-2  # the network works in single precision: a difference quotient is known to 1e-7/1e-2
    difference = (ratio.log_ratio(context, sample + step) - ratio.log_ratio(context, sample - step)) / (2.0 * step)
    torch.testing.assert_close(ratio.gradient(context, sample)[:, 0], difference, rtol=2e-2, atol=2e-3)


def test_report_estimates_the_kl_and_the_loss(trained):
    data, drawn = samples(3000)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    ratio = NetworkRatio(config(), inputs, generator_of(3), torch.device("cpu"))
    report = ratio.fit(data, drawn, MODEL, 0, generator_of(4))
    held_out = slice(2700, None)
    phi_p, phi_q = (exact(part.context[held_out], part.sample[held_out]) for part in (data, drawn))
    best = 0.5 * float(torch.nn.functional.softplus(-phi_p).mean() + torch.nn.functional.softplus(phi_q).mean())
    assert report.loss == pytest.approx(best, abs=0.03)  # 300 held-out pairs
    assert report.ratio_kl == pytest.approx(-float(phi_q.mean()), abs=0.2)
    assert 0.6 < report.accuracy < 1.0
    assert not report.collapsed


def test_known_density_leaves_nothing_for_the_network_to_learn():
    data, drawn = samples(500)
    ratio = NetworkRatio(config(learning_rate=0.0), KnownInputs(TARGET), generator_of(3), torch.device("cpu"))
    report = ratio.fit(data, drawn, MODEL, 0, generator_of(4))
    assert not report.collapsed
    torch.testing.assert_close(
        ratio.log_ratio(data.context, data.sample), exact(data.context, data.sample), rtol=1e-12, atol=1e-12
    )
    leaf = data.sample.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(exact(data.context, leaf).sum(), leaf)
    torch.testing.assert_close(ratio.gradient(data.context, data.sample), expected, rtol=1e-10, atol=1e-10)


def test_network_learns_what_a_wrong_known_density_misses():
    data, drawn = samples(3000)
    wrong = gaussian(0.5, 0.0, 1.0)
    ratio = NetworkRatio(config(), KnownInputs(wrong), generator_of(3), torch.device("cpu"))
    ratio.fit(data, drawn, MODEL, 0, generator_of(4))
    found, expected = ratio.log_ratio(data.context, data.sample), exact(data.context, data.sample)
    plain = wrong.log_prob(data.context, data.sample) - MODEL.log_prob(data.context, data.sample)
    assert (found - expected).square().mean() < 0.2 * (plain - expected).square().mean()


def test_classes_that_cannot_be_told_apart_leave_the_loss_at_log_two():
    data, drawn = samples(1000, MODEL, MODEL)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    ratio = NetworkRatio(config(), inputs, generator_of(5), torch.device("cpu"))
    report = ratio.fit(data, drawn, MODEL, 0, generator_of(6))
    assert report.loss <= math.log(2.0) + 1e-6  # the start, phi = 0, is kept where nothing does better
    assert abs(report.ratio_kl) < 0.1


@pytest.mark.parametrize("constant", [0.0, 0.1, -3.3])
def test_constant_output_is_reported_as_collapsed(constant):
    data, drawn = samples(500)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    ratio = NetworkRatio(config(learning_rate=0.0), inputs, generator_of(5), torch.device("cpu"))
    with torch.no_grad():
        ratio.network[-1].bias.fill_(constant)
    assert ratio.fit(data, drawn, MODEL, 0, generator_of(6)).collapsed


def test_non_finite_output_is_reported_as_collapsed():
    data, drawn = samples(500)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    ratio = NetworkRatio(config(learning_rate=0.0), inputs, generator_of(5), torch.device("cpu"))
    with torch.no_grad():
        ratio.network[-1].bias.fill_(torch.nan)
    assert ratio.fit(data, drawn, MODEL, 0, generator_of(6)).collapsed


def test_ratio_beyond_the_range_of_the_sigmoid_keeps_its_gradient():
    """Two Gaussians 20 deviations apart: phi reaches 200, where log(sigmoid + tiny) would have lost its gradient."""
    far = gaussian(20.0, 0.0, 1.0)
    data, drawn = samples(500, far, MODEL)
    ratio = NetworkRatio(config(learning_rate=0.0), KnownInputs(far), generator_of(3), torch.device("cpu"))
    report = ratio.fit(data, drawn, MODEL, 0, generator_of(4))
    assert report.ratio_kl == pytest.approx(200.0, rel=0.02)
    torch.testing.assert_close(
        ratio.gradient(drawn.context, drawn.sample), torch.full((500, 1), 20.0).double(), rtol=1e-9, atol=0.0
    )


def test_weights_and_optimiser_come_back_from_their_tensors():
    ratio, data, drawn = fitted(600, initial_epochs=3, dropout=0.2)
    saved = {name: value.clone() for name, value in ratio.tensors().items()}
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    other = NetworkRatio(config(initial_epochs=3, dropout=0.2), inputs, generator_of(30), torch.device("cpu"))
    other.restore(saved, MODEL, 0)
    assert torch.equal(other.log_ratio(data.context, data.sample), ratio.log_ratio(data.context, data.sample))
    for part in (ratio, other):  # and both go on alike
        part.fit(data, drawn, MODEL, 1, generator_of(31))
    assert all(torch.equal(value, other.tensors()[name]) for name, value in ratio.tensors().items())


def test_same_seed_gives_the_same_ratio_and_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    first, data, _ = fitted(600, initial_epochs=2, dropout=0.3)
    torch.manual_seed(123)
    second, _, _ = fitted(600, initial_epochs=2, dropout=0.3)
    assert torch.equal(first.log_ratio(data.context, data.sample), second.log_ratio(data.context, data.sample))
    torch.random.set_rng_state(before)
    fitted(200, initial_epochs=1, dropout=0.3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_dropout_is_off_when_the_ratio_is_asked_for():
    ratio, data, _ = fitted(400, initial_epochs=2, dropout=0.5)
    first, second = (ratio.log_ratio(data.context, data.sample) for _ in range(2))
    assert torch.equal(first, second)
    first, second = (ratio.gradient(data.context, data.sample) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_pairs_give_a_finite_ratio(n):
    ratio, data, _ = fitted(n)
    assert torch.isfinite(ratio.log_ratio(data.context, data.sample)).all()
    assert torch.isfinite(ratio.gradient(data.context, data.sample)).all()


def test_first_pairs_are_for_training_and_the_rest_is_held_out():
    assert config(validation_share=0.1).n_training(1000) == 900
    assert config(validation_share=0.1).n_training(9) == 9
    assert config(validation_share=0.0).n_training(10) == 10
    data, drawn = samples(1000)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    results = []
    for change in (0.0, 5.0):  # the held-out data change; nothing learned may
        sample = data.sample.clone()
        sample[900:] += change
        ratio = NetworkRatio(config(initial_epochs=1), inputs, generator_of(5), torch.device("cpu"))
        report = ratio.fit(Pairs(data.context, sample), drawn, MODEL, 0, generator_of(6))
        results.append((report.loss, ratio.tensors()))
    assert results[0][0] != results[1][0]
    moments = [name for name in results[0][1] if name.endswith("exp_avg")]
    assert moments
    assert all(torch.equal(results[0][1][name], results[1][1][name]) for name in moments)


def test_inputs_are_standardised_columns_of_sample_and_context():
    context, sample = 5.0 + 3.0 * normal(generator_of(7), 500, 2), normal(generator_of(8), 500, 3) - 2.0
    inputs = StandardisedInputs.from_data(context, sample)
    columns = inputs(context, sample, 0)
    assert columns.shape == (500, inputs.n_inputs)
    assert columns.mean(0).abs().max() < 1e-12
    torch.testing.assert_close(columns.std(0, correction=0), torch.ones(5).double(), rtol=1e-12, atol=0.0)
    expected = (sample - sample.mean(0)) / sample.std(0, correction=0)
    torch.testing.assert_close(columns[:, :3], expected, rtol=1e-12, atol=1e-12)


def test_constant_column_is_centred_and_not_divided():
    inputs = StandardisedInputs.from_data(torch.full((5, 1), 2.0).double(), torch.ones(5, 1).double())
    assert (inputs(torch.full((1, 1), 3.0).double(), torch.ones(1, 1).double(), 0) == torch.tensor([[0.0, 1.0]])).all()


def test_model_of_many_experts_is_taken_into_account():
    model = random_mixture_of_experts(9, 4, 2, 1)
    target = random_mixture_of_experts(10, 3, 2, 1)
    data, drawn = samples(300, target, model)
    ratio = NetworkRatio(config(learning_rate=0.0), KnownInputs(target), generator_of(3), torch.device("cpu"))
    ratio.fit(data, drawn, model, 0, generator_of(4))
    expected = target.score(drawn.context, drawn.sample) - model.score(drawn.context, drawn.sample)
    torch.testing.assert_close(ratio.gradient(drawn.context, drawn.sample), expected, rtol=1e-9, atol=1e-9)
