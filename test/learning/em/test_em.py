"""EM never lowers the likelihood, recovers known mixtures, equals least squares for one expert, refuses bad data."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture_of_experts
from learning.toys import DEGENERATE, kl_between, pairs_from

from eim_ros.core.errors import ConfigurationError, DataError, DistributionError
from eim_ros.learning import EMConfig
from eim_ros.learning.data import weighted
from eim_ros.learning.em import EM
from eim_ros.learning.em.em import EMIteration, expect, maximised
from eim_ros.learning.models import GaussianMixture, LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.run import Status
from eim_ros.learning.starts import initial_mixture_of_experts, likeliest_start


def config(**settings) -> EMConfig:
    defaults = {
        "n_components": 3,
        "n_iterations": 50,
        "tolerance": 0.0,
        "covariance_floor": 1e-6,
        "gating_iterations": 5,
    }
    return EMConfig.from_mapping({**defaults, **settings})


def objective(history, hard: bool = False) -> np.ndarray:
    return np.array(history.column("free_energy" if hard else "log_likelihood"))


@pytest.mark.parametrize("size", [(3, 2, 1), (5, 1, 2), (4, 2, 0), (12, 3, 2)])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("covariance_floor", [0.0, 1e-6, 1e-2])
@pytest.mark.parametrize("gating_iterations", [1, 5])
def test_objective_never_falls(size, hard, covariance_floor, gating_iterations):
    data = pairs_from(random_mixture_of_experts(1, *size), 200, 1)
    settings = config(
        n_components=size[0], hard=hard, covariance_floor=covariance_floor, gating_iterations=gating_iterations
    )
    values = objective(EM(settings).fit(data, generator=generator_of(1)).history, hard)
    assert np.diff(values).min() > -1e-11  # rounding error of means over 200 numbers of about 10
    assert values[-1] > values[0]


def separated_model() -> MixtureOfExperts:
    """Return a model of two crossing lines. The gating prefers one line for each sign of the context."""
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
    # each expert has about 2000 points, so the tolerance is five standard errors of at most 0.5/sqrt(2000)
    for name in ("weights", "biases", "scale_trils"):
        torch.testing.assert_close(getattr(fitted.experts, name), getattr(true.experts, name), rtol=0.0, atol=0.06)
    slope = fitted.gating.weights[0] - fitted.gating.weights[1]
    assert float(slope) == pytest.approx(2.0, abs=0.3)
    assert kl_between(fitted, true) < 5e-3  # estimating 8 parameters from 4000 points costs 1e-3 nat


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


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("n_components", [1, 3])
def test_degenerate_data_give_a_finite_model(name, n_components):
    context, sample = DEGENERATE[name]
    result = EM(config(n_components=min(n_components, len(sample)), n_iterations=10)).fit((context, sample))
    assert torch.isfinite(result.mixture_of_experts.log_prob(context, sample)).all()
    drawn = result.mixture_of_experts.sample(context, generator_of(0))
    assert torch.isfinite(drawn).all()


# Five points for two components. The expected values are computed by hand.
POINTS = torch.tensor([[-2.0], [-1.0], [1.0], [2.0], [3.0]], dtype=torch.float64)


def anchor() -> GaussianMixture:
    means = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    return GaussianMixture(torch.full((2,), 0.5).double().log(), means, torch.ones(2, 1, 1).double())


def anchored(n_iterations: int, hard: bool = False):
    settings = config(n_components=2, n_iterations=n_iterations, covariance_floor=0.0, hard=hard)
    return EM(settings).fit(POINTS, anchor())


def test_anchor_one_step():
    model = anchored(1).model
    assert isinstance(model, GaussianMixture)
    np.testing.assert_allclose(model.weights.numpy(), [0.40049452, 0.59950548], atol=5e-9)
    np.testing.assert_allclose(model.means.flatten().numpy(), [-1.33945973, 1.89563955], atol=5e-9)
    np.testing.assert_allclose(model.scale_trils.flatten().square().numpy(), [0.71387372, 1.06964285], atol=5e-9)


def test_anchor_log_likelihoods():
    expected = [-10.767797006, -9.007053453, -8.505409628, -8.463457148]
    np.testing.assert_allclose(5.0 * objective(anchored(4).history), expected, atol=5e-10)


def test_anchor_hard_em_stays_where_it_is_after_one_step():
    result = anchored(4, hard=True)
    values = 5.0 * objective(result.history, hard=True)
    np.testing.assert_allclose(values, [-11.060428569, *3 * [-8.465258978]], atol=5e-10)
    np.testing.assert_allclose(result.model.weights.numpy(), [0.4, 0.6], atol=1e-14)
    np.testing.assert_allclose(result.model.means.flatten().numpy(), [-1.5, 2.0], atol=1e-14)
    np.testing.assert_allclose(result.model.scale_trils.flatten().square().numpy(), [0.25, 2.0 / 3.0], atol=1e-14)


def test_samples_alone_give_the_mixture_that_a_pair_without_contexts_gives():
    _, sample = pairs_from(random_mixture_of_experts(11, 3, 2, 0), 200)
    mixture = EM(config()).fit(sample).model
    pair = EM(config()).fit((sample[:, :0], sample)).model
    assert isinstance(mixture, GaussianMixture)
    assert isinstance(pair, MixtureOfExperts)
    torch.testing.assert_close(mixture.means, pair.experts.biases, rtol=0.0, atol=0.0)
    torch.testing.assert_close(mixture.log_prob(sample), pair.log_prob(sample[:, :0], sample), rtol=1e-12, atol=1e-12)


def test_more_starts_end_higher_and_the_result_is_that_of_the_best():
    data = pairs_from(random_mixture_of_experts(12, 6, 2, 1), 300, 12)
    settings = {"n_components": 6, "n_iterations": 40, "tolerance": 1e-5}
    one = EM(config(**settings)).fit(data, generator=generator_of(5))
    more = EM(config(**settings, n_starts=4)).fit(data, generator=generator_of(5))
    values = objective(more.history)
    assert values[-1] > objective(one.history)[-1] + 1e-3  # the first start is not the best
    assert np.diff(values).min() > -1e-11
    assert len(values) <= 40
    assert len({record["start"] for record in more.history.records}) == 1
    final = float(more.model.log_prob(*data).mean())
    assert values[-1] - 1e-11 <= final <= values[-1] + 0.05  # the model is one step ahead of the last record
    assert (more.status is Status.CONVERGED) == (values[-1] - values[-2] < 1e-5)


def test_first_of_several_starts_is_the_given_one():
    data = pairs_from(separated_model(), 300)
    result = EM(config(n_components=2, n_iterations=5, n_starts=3)).fit(data, separated_model())
    first = [record for record in result.history.records if record["start"] == 0.0]
    assert first[0]["log_likelihood"] == pytest.approx(float(separated_model().log_prob(*data).mean()), abs=1e-12)


def test_component_of_weight_zero_stays_finite_and_without_weight():
    sample = pairs_from(random_mixture_of_experts(14, 3, 2, 0), 100)[1]
    log_weights = torch.tensor([0.0, 0.0, -torch.inf]).double()
    start = GaussianMixture(log_weights, sample[:3].clone(), torch.eye(2).double().expand(3, 2, 2))
    model = EM(config(n_iterations=5)).fit(sample, start).model
    assert all(torch.isfinite(value).all() for value in (model.log_weights, model.means, model.scale_trils))
    assert model.log_weights[2].exp() < 1e-100
    torch.testing.assert_close(model.means[2], sample[2], rtol=0.0, atol=1e-14)


def test_without_floor_a_component_that_collapses_keeps_its_covariance():
    sample = torch.cat([normal(generator_of(15), 50, 2), torch.full((10, 2), 7.0).double()])
    start = GaussianMixture(
        torch.zeros(2).double(), torch.tensor([[0.0, 0.0], [7.0, 7.0]]).double(), torch.eye(2).double().expand(2, 2, 2)
    )
    result = EM(config(n_components=2, n_iterations=20, covariance_floor=0.0)).fit(sample, start)
    torch.testing.assert_close(result.model.scale_trils[1], torch.eye(2).double(), rtol=0.0, atol=1e-12)
    assert np.diff(objective(result.history)).min() > -1e-12


def test_floor_is_obeyed_in_every_direction():
    sample = normal(generator_of(16), 40, 3)
    model = EM(config(n_components=10, n_iterations=30, covariance_floor=0.05)).fit(sample).model
    unit = sample.std(0, correction=0)
    covariance = model.scale_trils @ model.scale_trils.mT / unit / unit.unsqueeze(-1)
    assert torch.linalg.eigvalsh(covariance).min() >= 0.05 - 1e-12
    assert torch.linalg.eigvalsh(covariance).min() < 0.06


@pytest.mark.parametrize("outlier", [1e3, -1e4, 1e6, 1e12])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("n_dims", [1, 2])
def test_an_outlier_does_not_widen_the_other_components(outlier, hard, n_dims):
    """One row of 401 is wrong. The clusters at 0 and 5 are fitted as if this row were absent."""
    sample = 0.1 * normal(generator_of(18), 400, n_dims)
    sample[200:, 0] += 5.0
    clusters = sample[:200], sample[200:]
    glitch = torch.full((1, n_dims), outlier, dtype=torch.float64)
    model = EM(config(n_starts=3, hard=hard)).fit(torch.cat([sample, glitch])).model
    order = model.means[:, 0].abs().argsort()[: len(clusters)]
    for index, cluster in zip(order.tolist(), clusters, strict=True):
        # the clusters do not overlap, so each component describes one cluster; the floor is 1e-3 of a deviation of 2.5
        torch.testing.assert_close(model.means[index], cluster.mean(0), rtol=0.0, atol=1e-6)
        deviation = (model.scale_trils[index] @ model.scale_trils[index].mT).diagonal().sqrt()
        torch.testing.assert_close(deviation, cluster.std(0, correction=0), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-100, 1e100, 1e250])
def test_units_may_be_extreme(scale):
    sample = pairs_from(random_mixture_of_experts(17, 3, 2, 0), 100)[1]
    plain = EM(config(n_iterations=5)).fit(sample).model
    other = EM(config(n_iterations=5)).fit(scale * sample).model
    torch.testing.assert_close(other.means / scale, plain.means, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(other.scale_trils / scale, plain.scale_trils, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_components", [1, 3])
def test_as_many_points_as_components_give_those_points(n_components):
    sample = normal(generator_of(19), n_components, 2)
    model = EM(config(n_components=n_components, n_iterations=5)).fit(sample).model
    assert torch.cdist(sample, model.means).amin(-1).max() < 1e-6


def test_start_without_any_density_at_the_data_is_refused():
    start = GaussianMixture(
        torch.zeros(1).double(), torch.full((1, 2), 1e200, dtype=torch.float64), torch.eye(2).double().unsqueeze(0)
    )
    with pytest.raises(DistributionError, match="zero density"):
        EM(config()).fit(normal(generator_of(20), 10, 2), start)


def pairs(n: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    """Return contexts (n, 1) and samples (n, 2) on two branches."""
    context = normal(generator_of(0), n, 1)
    side = torch.where(torch.arange(n)[:, None] % 2 == 0, 1.0, -1.0)
    return context, torch.cat([side * context + 2.0 * side, context.sin()], -1) + 0.3 * normal(generator_of(1), n, 2)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 120)], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "tied", "spherical"])
@pytest.mark.parametrize("singular", [False, True])
def test_compact_iteration_equals_the_complete_one(weights, kind, singular):
    sample = pairs()[1]
    if singular:  # the data lie in a plane, and the floor raises the variance across this plane
        sample = torch.cat([sample, sample.sum(-1, keepdim=True)], -1)
    data = weighted(sample, np.ones(120) if weights is None else weights)
    config = EM(n_components=3, covariance=kind).config
    fitting = EMIteration.from_data(config, data, None, generator_of(2))
    model = fitting.start(0)
    assert fitting.compact is not None
    quick, log_likelihood = fitting.compact(model)
    standard = fitting.units.standard(model)
    expectation = expect(standard, fitting.joint, weight=data.weight)
    complete, offset = maximised(config, fitting.units, fitting.joint, standard, expectation, data.weight)
    # whitening multiplies rounding errors across the plane by 1000, the inverse root of the floor
    assert log_likelihood == pytest.approx(expectation.log_likelihood - offset, abs=1e-9 if singular else 1e-12)
    for name, value in complete.tensors().items():
        torch.testing.assert_close(quick.tensors()[name], value, atol=1e-9, rtol=1e-7 if singular else 1e-9)


@pytest.mark.parametrize("kind", ["diagonal", "tied", "spherical"])
@pytest.mark.parametrize("conditional", [False, True])
def test_restricted_covariances_are_kept_and_never_lower_the_likelihood(kind, conditional):
    data = pairs() if conditional else pairs()[1]
    fit = EM(n_components=3, covariance=kind, tolerance=0.0, n_iterations=30, seed=0).fit(data)
    likelihood = np.array(fit.history.column("log_likelihood"))
    assert np.diff(likelihood).min() > -1e-9  # rounding
    factors = fit.mixture_of_experts.experts.scale_trils
    if kind == "tied":
        torch.testing.assert_close(factors, factors[:1].expand_as(factors))
    else:
        diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
        assert torch.equal(factors, torch.diag_embed(diagonal))
        assert (float((diagonal - diagonal[:, :1]).abs().max()) < 1e-12) == (kind == "spherical")


def test_weights_count_like_repeated_pairs():
    context, sample = pairs()
    counts = torch.arange(len(sample)) % 3
    start = EM(n_components=2, n_iterations=3, seed=0).fit((context, sample)).model
    learner = EM(tolerance=0.0, n_iterations=30, gating_iterations=50)
    one = learner.fit((context, sample), start, sample_weight=counts)
    other = learner.fit((context.repeat_interleave(counts, 0), sample.repeat_interleave(counts, 0)), start)
    # both fits of the gating end near the optimum, at different distances
    assert one.score((context, sample)) == pytest.approx(other.score((context, sample)), abs=1e-5)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(120), np.zeros(120), np.full(120, np.nan)])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(DataError, match="sample_weight"):
        EM(n_components=2).fit(pairs()[1], sample_weight=weights)


def test_networks_with_restricted_covariances_are_refused():
    with pytest.raises(ConfigurationError, match="only for linear experts"):
        EM(n_components=2, covariance="tied", expert_kind="neural", n_iterations=1).fit(pairs())


def test_validation_data_of_other_dimensions_are_refused():
    with pytest.raises(DataError, match="validation_data must have the same"):
        EM(n_components=2).fit(pairs()[1], validation_data=pairs()[0])


def test_start_is_the_likeliest_candidate():
    data = weighted(pairs()[1], np.ones(120))
    starts = [likeliest_start(data, 4, n, generator_of(5)) for n in (1, 2, 4)]
    reached = [float(start.log_prob(data.context, data.sample).mean()) for start in starts]
    assert reached == sorted(reached)
    single = initial_mixture_of_experts(data.context, data.sample, 4, generator_of(5))
    torch.testing.assert_close(starts[0].experts.biases, single.experts.biases)


def test_single_steps_of_the_gating_reach_the_likelihood_of_complete_fits():
    """Without the curvature from earlier steps, 60 iterations would end about 0.02 nat lower."""
    data = pairs_from(random_mixture_of_experts(3, 12, 2, 3), 3000, 3)
    start = initial_mixture_of_experts(*data, 12, generator_of(3))
    single, complete = (
        EM(config(n_components=12, n_iterations=60, gating_iterations=n)).fit(data, start) for n in (1, 50)
    )
    assert objective(single.history)[-1] > objective(complete.history)[-1] - 0.005
