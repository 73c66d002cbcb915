"""Inference with a known density reaches results in closed form, accepts any kind of target, and stays finite."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture, random_mixture_of_experts
from learning.toys import KnownInputs, kl_between, known_ratio_config, normal_mixture, pairs_from

from eim_ros.core.errors import ConfigurationError, DataError, DistributionError
from eim_ros.learning import EIMConfig, RunOptions
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import GaussianMixture, LinearExperts, MixtureOfExperts, NeuralExperts, SoftmaxGating
from eim_ros.learning.run import Status
from experiments import random_mixture as random_target

UNBOUNDED = {
    "m_step.kl_bound": 1e9,
    "m_step.entropy_loss_bound": 1e9,
    "m_step.gating.kl_bound": 1e9,
    "m_step.gating.entropy_loss_bound": 1e9,
}


def divergence(model: GaussianMixture, target: GaussianMixture, n_samples: int = 10_000) -> float:
    """Estimate KL(model || target) as the mean of r - 1 - log r, r = target/model. Its noise vanishes with the KL."""
    sample = model.sample(n_samples, generator_of(99))
    log_ratio = target.log_prob(sample) - model.log_prob(sample)
    return float((torch.expm1(log_ratio) - log_ratio).mean())


@pytest.mark.parametrize(("surrogate", "atol"), [("gradient", 1e-8), ("value", 1e-6)])
@pytest.mark.parametrize("n_context", [0, 2])
def test_one_expert_reaches_a_gaussian_target_in_one_step_without_bounds(surrogate, atol, n_context):
    target, start = random_mixture_of_experts(0, 1, 3, n_context), random_mixture_of_experts(100, 1, 3, n_context)
    config = EIMConfig.known_density(
        n_iterations=1, **UNBOUNDED, **{"m_step.surrogate": surrogate, "m_step.n_samples": 300}
    )
    context = normal(generator_of(1), 500, n_context)
    model = EIM(config, target=target).fit((context, None), start, generator=generator_of(0)).model
    # the ridge of the surrogate's regression causes the remaining error
    for name in ("weights", "biases", "scale_trils"):
        torch.testing.assert_close(getattr(model.experts, name), getattr(target.experts, name), rtol=0.0, atol=atol)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_multiplies_the_covariance_of_a_normal_target(temperature):
    """For p = N(m, I), the objective E[log p] + T H(q) is greatest at q = N(m, T I)."""
    config = EIMConfig.known_density(n_iterations=60, **{"exact.temperature": temperature})
    target = normal_mixture([1.0, -2.0])
    model = EIM(config, target=target).fit(start=normal_mixture([0.0, 0.0], 3.0), generator=generator_of(0)).model
    torch.testing.assert_close(model.means[0], target.means[0], rtol=0.0, atol=1e-7)
    torch.testing.assert_close(model.covariance, temperature * torch.eye(2).double(), rtol=0.0, atol=1e-7)


def test_ten_components_in_ten_dimensions_are_found():
    target = random_target(10, 10, generator_of(2))
    sample = target.sample(4000, generator_of(102))
    config = EIMConfig.known_density(n_components=10, **{"start.n_starts": 4})
    result = EIM(config, target=target).fit(sample, generator=generator_of(2))
    assert result.status is Status.CONVERGED
    assert divergence(result.model, target) < 1e-9
    assert result.history.column("elbo")[-1] == pytest.approx(0.0, abs=1e-6)


def separated_experts() -> MixtureOfExperts:
    """Return two separate experts in two dimensions. The gating gives both experts weight everywhere."""
    experts = random_mixture_of_experts(2, 2, 2, 1).experts
    biases = torch.tensor([[2.0, 0.0], [-2.0, 1.0]]).double()
    gating = SoftmaxGating(torch.tensor([[0.7], [-0.7]]).double(), torch.tensor([0.2, -0.2]).double())
    return MixtureOfExperts(gating, LinearExperts(0.5 * experts.weights, biases, experts.scale_trils))


@pytest.mark.parametrize("given", ["density", "function"])
def test_experts_are_found_from_their_density(given):
    """Fit to samples without a start, and to contexts with a start.

    A fit to samples starts from EM. The other fit gets the target as a function, which is only known up to a constant
    and is differentiated automatically.
    """
    target = separated_experts()
    context, sample = pairs_from(target, 1500)
    known = target if given == "density" else lambda y, x: target.log_prob(y, x) + 7.0
    data = (context, sample) if given == "density" else (context, None)
    start = None if given == "density" else random_mixture_of_experts(5, 2, 2, 1)
    config = EIMConfig.known_density(
        n_components=2,
        n_iterations=80,
        **{
            "m_step.gating.kl_bound": 0.1,
            "m_step.kl_bound": 0.5,
            "m_step.entropy_loss_bound": 0.5,
            "start.n_starts": 2,
        },
    )
    result = EIM(config, target=known).fit(data, start, generator=generator_of(3))
    assert kl_between(result.model, target) < 1e-5  # due to the regression of the gating


def test_neural_expert_follows_a_curve_with_a_spread_of_its_own():
    """The target is N(sin 3y, (0.2 + 0.1 y)^2) for y in (-1, 1).

    The fit starts from EM's straight line and uses weighted samples of the expert.
    """
    context = 2.0 * torch.rand(800, 1, generator=generator_of(1), dtype=torch.float64) - 1.0

    def target(y, x):
        deviation = 0.2 + 0.1 * y[:, 0]
        return -0.5 * ((x[:, 0] - torch.sin(3.0 * y[:, 0])) / deviation).square() - deviation.log()

    sample = torch.sin(3.0 * context) + (0.2 + 0.1 * context) * normal(generator_of(2), 800, 1)
    config = EIMConfig.known_density(
        n_components=1,
        n_iterations=30,
        expert_kind="neural",
        **{
            "networks.layers": (16,),
            "m_step.kl_bound": 1.0,
            "m_step.entropy_loss_bound": 0.5,
            "start.n_starts": 1,
            "m_step.n_contexts": 400,
        },
    )
    model = EIM(config, target=target).fit((context, sample), generator=generator_of(3)).model
    assert isinstance(model.experts, NeuralExperts)
    grid = torch.linspace(-0.9, 0.9, 50).double().unsqueeze(-1)
    found = model.experts(grid)
    # half a standard deviation; a straight line has an error of 0.4
    assert (found.mean[:, 0] - torch.sin(3.0 * grid)).abs().mean() < 0.1
    assert (found.scale_tril[:, 0, 0] / (0.2 + 0.1 * grid)).log().abs().mean() < 0.3


@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("surrogate", ["gradient", "value"])
def test_target_that_is_not_finite_somewhere_leaves_the_model_finite_and_is_counted(bad, surrogate):
    """The target is N(0, I) where the first coordinate is above -1, and not finite elsewhere."""

    def target(sample):
        value = -0.5 * sample.square().sum(-1)
        return torch.where(sample[:, 0] > -1.0, value, torch.full_like(value, bad))

    config = EIMConfig.known_density(n_components=2, n_iterations=30, **{"m_step.surrogate": surrogate})
    start = GaussianMixture(
        torch.zeros(2).double(), normal(generator_of(1), 2, 2), torch.eye(2).double().expand(2, 2, 2)
    )
    result = EIM(config, target=target).fit(start=start, generator=generator_of(0))
    assert all(bool(torch.isfinite(value).all()) for value in result.model.tensors().values())
    shares = result.history.column("non_finite")
    assert len(shares) == 30
    assert 0.0 < shares[0] < 0.9
    first, last = result.history.records[0], result.history.records[-1]
    assert "elbo" not in first  # the ELBO is minus infinity, and histories store only finite values
    assert result.status is (Status.NON_FINITE if "outside" in last else Status.MAX_ITERATIONS)
    assert last.get("elbo_inside", last.get("elbo")) > first["elbo_inside"] - 0.5
    assert result.model.covariance.diagonal().max() < 3.0


@pytest.mark.parametrize("n_components", [1, 3])
def test_hard_bounds_are_obeyed_and_the_elbo_never_exceeds_log_z(n_components):
    """The target is exp(-|x|^2/2) where the first coordinate is positive, and zero elsewhere. Thus log Z = log pi.

    An earlier learner ignored samples outside of the support. It reported CONVERGED and an ELBO of log 2 pi, although
    half of the samples were outside.
    """

    def target(sample):
        value = -0.5 * sample.square().sum(-1)
        return torch.where(sample[:, 0] > 0.0, value, torch.full_like(value, -math.inf))

    start = GaussianMixture(
        torch.zeros(n_components).double(),
        normal(generator_of(1), n_components, 2),
        torch.eye(2).double().expand(n_components, 2, 2),
    )
    config = EIMConfig.known_density(n_iterations=100)
    result = EIM(config, target=target).fit(start=start, generator=generator_of(0))
    first, last = result.history.records[0], result.history.records[-1]
    assert first["outside"] > 0.1
    assert last.get("outside", 0.0) < 0.03
    for record in result.history.records:
        bound = math.log(math.pi) + 3.0 * record["elbo_standard_error"]
        assert record.get("elbo", -math.inf) < bound
        assert record.get("elbo_inside", -math.inf) < bound
    assert last.get("elbo_inside", last.get("elbo")) > math.log(math.pi) - 0.5
    assert result.status is (Status.NON_FINITE if "outside" in last else Status.MAX_ITERATIONS)


def test_objective_rises_from_step_to_step():
    """No estimate is more than four standard errors lower than the previous estimate."""
    target = random_mixture(7, 3, 2)
    start = normal_mixture([4.0, 4.0], 2.0)
    config = EIMConfig.known_density(
        n_iterations=30, **{"m_step.n_samples": 1000, "exact.n_objective_samples": 4000, "exact.tolerance": 0.0}
    )
    history = EIM(config, target=target).fit(start=start, generator=generator_of(0)).history
    values, errors = history.column("elbo"), history.column("elbo_standard_error")
    for before, after, *noise in zip(values, values[1:], errors, errors[1:], strict=False):
        assert after > before - 4.0 * math.hypot(*noise)
    assert values[-1] > values[0] + 1.0


def test_objective_is_minus_the_kl_and_entropy_that_of_the_model():
    target, start = normal_mixture([1.0]), normal_mixture([0.0], 2.0)
    config = EIMConfig.known_density(n_iterations=1, **{"exact.n_objective_samples": 20_000})
    result = EIM(config, target=target).fit(start=start, generator=generator_of(0))
    record, model = result.history.records[0], result.model.components
    kl, moved = float(model.kl(target.components)), float(model.kl(start.components))
    assert record["elbo"] == pytest.approx(-kl, abs=4.5 * record["elbo_standard_error"])
    assert record["entropy"] == pytest.approx(float(model.entropy()), abs=4.5 * (0.5 / 20_000) ** 0.5)
    # for small steps, the KL is half the variance of the log ratio
    assert record["change"] == pytest.approx(moved, rel=0.5)
    assert record["expert_kl"] == pytest.approx(moved, rel=1e-9)
    assert record["evaluations"] == config.m_step.n_samples


def test_run_ends_on_the_plateau_of_a_target_it_cannot_represent():
    target = GaussianMixture(
        torch.zeros(2).double(), torch.tensor([[-1.0], [1.0]]).double(), torch.full((2, 1, 1), 0.7).double()
    )
    result = EIM(target=target).fit(start=normal_mixture([0.3]), generator=generator_of(0))
    assert result.status is Status.CONVERGED
    assert 40 <= result.state.iteration < 200
    off = EIMConfig.known_density(plateau_window=0, n_iterations=60)
    assert (
        EIM(off, target=target).fit(start=normal_mixture([0.3]), generator=generator_of(0)).status
        is Status.MAX_ITERATIONS
    )


def test_start_at_the_target_stays_there():
    target = random_mixture(8, 3, 2)
    result = EIM(EIMConfig.known_density(n_iterations=10), target=target).fit(start=target, generator=generator_of(0))
    assert result.status is Status.CONVERGED
    for name, value in target.tensors().items():
        torch.testing.assert_close(result.model.tensors()[name], value, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("data", "start", "error", "reason"),
    [
        (None, None, DataError, "nothing to start from; give samples"),
        ((torch.zeros(3, 1), None), None, DataError, "nothing to start from; give samples"),
        (torch.zeros(3, 2), None, DataError, "50 experts need at least 50 points"),
        (torch.full((60, 2), torch.nan), None, DataError, "NaN"),
        (torch.zeros(60, 3), normal_mixture([0.0, 0.0]), DistributionError, "the start has"),
        ((torch.zeros(4, 1), None), normal_mixture([0.0, 0.0]), DistributionError, "the start has"),
    ],
)
def test_bad_data_are_refused_with_the_reason(data, start, error, reason):
    with pytest.raises(error, match=reason):
        EIM(target=random_mixture(0, 2, 2)).fit(data, start)


@pytest.mark.parametrize("n_found", range(1, 11))
def test_objective_tells_how_many_of_ten_modes_are_found(n_found):
    """For a model of m out of 10 equal, distant modes, the objective is -log(10/m): -2.303 for one mode, 0 for all."""
    means = 30.0 * torch.stack(torch.meshgrid(torch.arange(5.0), torch.arange(2.0), indexing="ij"), -1).reshape(10, 2)
    target = GaussianMixture(torch.zeros(10).double(), means.double(), torch.eye(2).double().expand(10, 2, 2))
    start = GaussianMixture(torch.zeros(n_found).double(), means[:n_found].double() + 0.5, target.scale_trils[:n_found])
    result = EIM(EIMConfig.known_density(n_iterations=8), target=target).fit(start=start, generator=generator_of(0))
    assert result.history.column("elbo")[-1] == pytest.approx(-math.log(10.0 / n_found), abs=1e-9)


@pytest.mark.parametrize("settings", [{"update": "unstructured"}, {"update": "unstructured", "kl_term": False}])
def test_steps_by_gradients_approach_a_known_density_too(settings):
    target, start = normal_mixture([1.0, -1.0]), normal_mixture([0.0, 0.0], 2.0)
    fit = EIM(target=target, n_iterations=30, **settings, **{"gradient_steps.n_steps": 5}).fit(
        start=start, generator=generator_of(0)
    )
    divergences = [kl_to(target, model) for model in (start, fit.model)]
    assert divergences[1] < 0.2 * divergences[0]


def kl_to(target, model):
    sample = model.sample(2000, generator_of(1))
    return float((model.log_prob(sample) - target.log_prob(sample)).mean())


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"target": normal_mixture([0.0]), "ratio.patience": 3}, "ratio.patience has no effect"),
        ({"exact.temperature": 2.0}, "exact.temperature has no effect"),
    ],
)
def test_setting_without_effect_is_refused(given, match):
    with pytest.raises(ConfigurationError, match=match):
        EIM(**given)


def fit_to_samples(target, start, n_iterations, callbacks=(), **settings):
    """Return a fit to samples whose ratio estimator knows the density."""
    config = known_ratio_config(n_components=start.n_components, n_iterations=n_iterations, **settings)
    return EIM(config, KnownInputs(target)).fit(
        pairs_from(target, 1000), start, generator=generator_of(0), run=RunOptions(callbacks=callbacks)
    )


def test_start_at_the_target_is_recognised_and_left_alone():
    target = random_mixture_of_experts(1, 3, 2, 1)
    result = fit_to_samples(target, target, 3)
    assert result.history.column("skipped") == [1.0, 1.0, 1.0]
    assert all(
        torch.equal(value, target.tensors()[name]) for name, value in result.mixture_of_experts.tensors().items()
    )


def displaced(model: MixtureOfExperts) -> MixtureOfExperts:
    tensors = model.tensors()
    tensors["experts.biases"] = tensors["experts.biases"] + torch.tensor([[0.5, -0.7], [-0.3, 0.6]]).double()
    tensors["experts.scale_trils"] = 1.5 * tensors["experts.scale_trils"]
    tensors["gating.weights"] = torch.zeros_like(tensors["gating.weights"])
    return MixtureOfExperts.from_tensors(tensors)


@pytest.mark.parametrize("surrogate", ["gradient", "value"])
def test_two_experts_in_two_dimensions_reach_their_target(surrogate):
    target = separated_experts()
    settings = {"m_step.n_samples": 150, "m_step.gating.n_contexts": 300, "m_step.surrogate": surrogate}
    bounds = {
        "m_step.kl_bound": 1.0,
        "m_step.entropy_loss_bound": 1.0,
        "m_step.gating.kl_bound": 0.5,
        "m_step.gating.entropy_loss_bound": 0.5,
    }
    start = displaced(target)
    result = fit_to_samples(target, start, 60, **settings, **bounds)
    assert kl_between(start, target) > 0.5
    # the penalty of 1e-6 in the regression of the gating causes the remaining error
    assert kl_between(result.mixture_of_experts, target) < 1e-6


def test_recorded_updates_obey_their_bounds():
    target = separated_experts()
    bounds = {
        "m_step.kl_bound": 0.02,
        "m_step.entropy_loss_bound": 0.01,
        "m_step.gating.kl_bound": 0.005,
        "m_step.gating.entropy_loss_bound": 0.01,
    }
    models = [displaced(target)]
    result = fit_to_samples(target, models[0], 10, [lambda state, record: models.append(state.model)], **bounds)
    assert max(result.history.column("expert_kl")) <= 0.02 * (1.0 + 1e-9)
    assert max(result.history.column("expert_kl")) > 0.01  # the bound is active
    assert max(result.history.column("gating_kl")) <= 0.005
    for before, after in zip(models, models[1:], strict=False):
        change = (after.experts.scale_trils.diagonal(dim1=-2, dim2=-1).log()
                  - before.experts.scale_trils.diagonal(dim1=-2, dim2=-1).log()).sum(-1)  # fmt: skip
        # up to a constant, the entropy of an expert is the log determinant of its factor
        assert change.min() >= -0.01 - 1e-9
