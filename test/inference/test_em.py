"""EM: the likelihood never falls, a known mixture is recovered, one expert is least squares, bad data are refused."""

import dataclasses

import numpy as np
import pytest
import torch
from distributions.random_models import generator_of, normal, random_mixture_of_experts
from inference.toys import kl_between, pairs_from, without_times

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.errors import DataError
from eim_ros.inference import EM, EMConfig
from eim_ros.numerics import Status


def config(**settings) -> EMConfig:
    defaults = {
        "n_components": 3,
        "n_iterations": 50,
        "tolerance": 0.0,
        "covariance_floor": 1e-6,
        "gating_iterations": 5,
    }
    return EMConfig(**{**defaults, **settings})


@pytest.mark.parametrize("size", [(3, 2, 1), (5, 1, 2), (4, 2, 0)])
@pytest.mark.parametrize("seed", range(3))
def test_likelihood_never_falls(size, seed):
    data = pairs_from(random_mixture_of_experts(seed, *size), 400, seed)
    result = EM(config(n_components=size[0])).fit(data, generator=generator_of(seed))
    values = np.array(result.history.column("log_likelihood"))
    # what rises is the likelihood less the penalties: 1e-3 pseudo-observations, and an l2 of 1e-6 of the gating
    assert np.diff(values).min() > -1e-5
    assert values[-1] > values[0]


def test_recorded_likelihood_is_that_of_the_model_before_the_step():
    data = pairs_from(random_mixture_of_experts(0, 3, 2, 1), 300)
    seen = []
    result = EM(config(n_iterations=3)).fit(data, callbacks=[lambda state, record: seen.append(state.model)])
    recorded = result.history.column("log_likelihood")
    for model, value in zip(seen, recorded[1:], strict=False):
        assert float(model.log_prob(*data).mean()) == pytest.approx(value, abs=1e-12)


def separated_model() -> MixtureOfExperts:
    """Two crossing lines, each with its own side of the context that prefers it."""
    experts = LinearExperts(
        torch.tensor([[[2.0]], [[-1.0]]]).double(),
        torch.tensor([[3.0], [-3.0]]).double(),
        torch.tensor([[[0.3]], [[0.5]]]).double(),
    )
    return MixtureOfExperts(SoftmaxGating(torch.tensor([[1.0], [-1.0]]).double(), torch.zeros(2).double()), experts)


def test_known_mixture_is_recovered():
    true = separated_model()
    fitted = EM(config(n_components=2, n_iterations=100, tolerance=1e-7)).fit(pairs_from(true, 4000)).model
    if fitted.experts.biases[0] < fitted.experts.biases[1]:
        fitted = MixtureOfExperts.from_tensors({name: value.flip(0) for name, value in fitted.tensors().items()})
    # parameters of about 2000 points each: 5 standard errors of at most 0.5/sqrt(2000), twice that for the gating
    for name in ("weights", "biases", "scale_trils"):
        torch.testing.assert_close(getattr(fitted.experts, name), getattr(true.experts, name), rtol=0.0, atol=0.06)
    slope = fitted.gating.weights[0] - fitted.gating.weights[1]
    assert float(slope) == pytest.approx(2.0, abs=0.3)
    assert kl_between(fitted, true) < 5e-3  # 8 parameters over 4000 points cost 1e-3


def test_one_expert_is_least_squares():
    context, sample = pairs_from(random_mixture_of_experts(1, 2, 2, 3), 500)
    result = EM(config(n_components=1, covariance_floor=0.0)).fit((context, sample))
    design = np.column_stack([context.numpy(), np.ones(500)])
    solution, *_ = np.linalg.lstsq(design, sample.numpy(), rcond=None)
    residual = sample.numpy() - design @ solution
    experts = result.mixture_of_experts.experts
    # the ridge of 1e-3 pseudo-observations against 500 points is felt at 2e-6
    np.testing.assert_allclose(experts.weights[0].numpy(), solution[:3].T, atol=2e-5)
    np.testing.assert_allclose(experts.biases[0].numpy(), solution[3], atol=2e-5)
    factor = experts.scale_trils[0].numpy()
    np.testing.assert_allclose(factor @ factor.T, residual.T @ residual / 500, atol=1e-6)


def test_fit_ends_when_the_likelihood_rises_no_more():
    data = pairs_from(separated_model(), 500)
    result = EM(config(n_components=2, n_iterations=1000, tolerance=1e-6)).fit(data)
    assert result.status is Status.CONVERGED
    rise = np.diff(result.history.column("log_likelihood"))
    assert rise[-1] < 1e-6
    assert (rise[:-1] >= 1e-6).all()


def test_fit_without_iterations_is_its_start():
    start = separated_model()
    result = EM(config(n_components=2, n_iterations=0)).fit(pairs_from(start, 50), start)
    assert result.status is Status.MAX_ITERATIONS
    assert result.mixture_of_experts is start


def test_same_seed_gives_the_same_fit_and_the_global_generator_is_left_alone():
    data = pairs_from(random_mixture_of_experts(2, 3, 2, 1), 300)
    before = torch.random.get_rng_state()
    first, second = (EM(config()).fit(data, generator=generator_of(7)) for _ in range(2))
    assert without_times(first.history) == without_times(second.history)
    assert all(torch.equal(value, second.model.tensors()[name]) for name, value in first.model.tensors().items())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_numpy_arrays_give_the_same_fit_as_tensors():
    context, sample = pairs_from(random_mixture_of_experts(3, 3, 2, 1), 200)
    first = EM(config(n_iterations=3)).fit((context, sample)).model
    second = EM(config(n_iterations=3)).fit((context.numpy(), sample.numpy())).model
    assert torch.equal(first.experts.biases, second.experts.biases)


@pytest.mark.parametrize(
    ("context", "sample", "reason"),
    [
        (torch.zeros(3, 1), torch.zeros(4, 2), "equal length"),
        (torch.zeros(0, 1), torch.zeros(0, 2), "empty"),
        (torch.zeros(4, 1), torch.full((4, 2), torch.nan), "sample has NaN"),
        (torch.full((4, 1), torch.inf), torch.zeros(4, 2), "context has NaN or infinite"),
        (torch.zeros(2, 1), torch.zeros(2, 2), "3 experts need at least as many points, got 2"),
    ],
)
def test_bad_data_are_refused_with_the_reason(context, sample, reason):
    with pytest.raises(DataError, match=reason):
        EM(config()).fit((context, sample))


def degenerate(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    context, sample = normal(generator_of(4), 20, 2), normal(generator_of(5), 20, 3)
    if name == "constant context":
        context = context.clone().index_fill_(1, torch.tensor([1]), 0.1)
    if name == "constant sample":
        sample = sample.clone().index_fill_(1, torch.tensor([1]), 0.1)
    if name == "all constant":
        context, sample = torch.full_like(context, 0.1), torch.full_like(sample, 0.1)
    if name == "duplicated points":
        context, sample = context[:2].repeat(10, 1), sample[:2].repeat(10, 1)
    if name == "no context":
        context = context[:, :0]
    if name == "exact line":
        sample = context @ normal(generator_of(6), 2, 3)
    if name == "few points":
        context, sample = context[:3], sample[:3]
    if name == "large units":
        context, sample = 1e6 * context + 1e8, 1e6 * sample - 1e8
    if name == "small units":
        context, sample = 1e-6 * context, 1e-6 * sample
    return context, sample


DEGENERATE = (
    "constant context",
    "constant sample",
    "all constant",
    "duplicated points",
    "no context",
    "exact line",
    "few points",
    "large units",
    "small units",
)


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("n_components", [1, 3])
def test_degenerate_data_give_a_finite_model(name, n_components):
    context, sample = degenerate(name)
    result = EM(config(n_components=n_components, n_iterations=10)).fit((context, sample))
    assert torch.isfinite(result.mixture_of_experts.log_prob(context, sample)).all()
    drawn, _ = result.mixture_of_experts.sample(context, generator_of(0))
    assert torch.isfinite(drawn).all()


def test_one_point_and_one_expert_give_that_point():
    context, sample = normal(generator_of(8), 1, 2), normal(generator_of(9), 1, 3)
    model = EM(config(n_components=1)).fit((context, sample)).model
    torch.testing.assert_close(model.experts.means(context)[:, 0], sample, rtol=1e-10, atol=1e-10)


def test_units_of_the_samples_scale_the_model():
    context, sample = pairs_from(random_mixture_of_experts(10, 3, 2, 1), 300)
    plain = EM(config(n_iterations=5)).fit((context, sample)).model
    other = EM(config(n_iterations=5)).fit((context, 1000.0 * sample)).model
    torch.testing.assert_close(other.experts.biases, 1000.0 * plain.experts.biases, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(other.experts.scale_trils, 1000.0 * plain.experts.scale_trils, rtol=1e-6, atol=1e-6)


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config().n_components = 4  # type: ignore[misc]
