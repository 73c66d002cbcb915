"""EIM from samples covers one mode where EM averages over modes. A useless classifier does not change the model."""

import math
from dataclasses import dataclass, field

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture, random_mixture_of_experts
from learning.toys import DEGENERATE, bimodal_pairs, kl_between, pairs_from, small_eim_config, without_times

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning import EIMConfig, EMConfig, History, Pairs
from eim_ros.learning.eim import EIM
from eim_ros.learning.eim.iteration import EIMIteration
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture, LinearExperts, MixtureOfExperts, SoftmaxGating, kl_divergence
from eim_ros.learning.models.mixture_of_experts import draw_contexts
from eim_ros.learning.ratio import FeatureInputs, StandardisedInputs
from eim_ros.learning.run import Status


def one_expert(bias: float, deviation: float) -> MixtureOfExperts:
    experts = LinearExperts(
        torch.zeros(1, 1, 1).double(), torch.tensor([[bias]]).double(), torch.tensor([[[deviation]]]).double()
    )
    return MixtureOfExperts(SoftmaxGating(torch.zeros(1, 1).double(), torch.zeros(1).double()), experts)


BRANCH_LEARNERS = {
    "network": (
        {
            "ratio.hidden_layers": (32, 32),
            "ratio.learning_rate": 5e-3,
            "ratio.initial_epochs": 40,
            "ratio.n_epochs": 4,
            "n_iterations": 30,
        },
        one_expert(1.0, 1.0),
    ),
    "plug-in density": (
        {"ratio.estimator": "plug-in", "ratio.reference.iterations": 40, "n_iterations": 80},
        one_expert(1.0, 2.0),  # as wide as EM's expert for both branches
    ),
}


@pytest.mark.parametrize(("settings", "start"), BRANCH_LEARNERS.values(), ids=BRANCH_LEARNERS.keys())
def test_one_expert_takes_one_branch_where_em_averages_over_both(settings, start):
    """For x = +-2 + y/2, EM's best expert is between the branches, and EIM's is on one branch (thesis figure 1.1)."""
    data = bimodal_pairs(2000)
    averaged = EM(EMConfig(n_components=1, n_iterations=10, tolerance=1e-6)).fit(data, start).model.experts
    assert abs(float(averaged.biases)) < 0.2
    assert float(averaged.scale_trils) == pytest.approx(math.hypot(2.0, 0.3), abs=0.05)
    bound = 0.1 if settings.get("ratio", "network") == "network" else 0.3
    config = small_eim_config(
        n_components=1,
        **settings,
        **{"m_step.kl_bound": bound, "m_step.entropy_loss_bound": bound, "m_step.n_samples": 200},
    )
    picked = EIM(config).fit(data, start, generator=generator_of(1)).model.experts
    # five seeds gave biases of 2.0 to 2.03, weights of 0.47 to 0.52 and standard deviations of 0.22 to 0.31
    assert abs(float(picked.biases)) == pytest.approx(2.0, abs=0.15)
    assert float(picked.weights) == pytest.approx(0.5, abs=0.1)
    assert 0.15 < float(picked.scale_trils) < 0.45


@pytest.mark.parametrize("ratio", ["plug-in", "residual"])
def test_data_that_come_later_continue_the_fit(ratio):
    """A fit that starts from the last model keeps this model if new data confirm it, and otherwise follows the data."""
    first, later = random_mixture(30, 3, 2), random_mixture(31, 3, 2)
    config = EIMConfig.from_mapping(
        {
            "n_components": 3,
            "n_iterations": 60,
            "ratio.estimator": ratio,
            "m_step.entropy_loss_bound": 0.2,
            "m_step.kl_bound": 0.5,
        }
    )
    fit = EIM(config).fit(first.sample(3000, generator_of(32)), generator=generator_of(33))
    confirmed = EIM(config).fit(first.sample(3000, generator_of(34)), fit.model, generator=generator_of(35))
    moved = EIM(config).fit(later.sample(3000, generator_of(36)), confirmed.model, generator=generator_of(37))
    for model, target in ((fit.model, first), (confirmed.model, first), (moved.model, later)):
        assert float(kl_divergence(model, target, 5000, generator_of(38)).value) < 0.05
    assert float(kl_divergence(confirmed.model, later, 5000, generator_of(39)).value) > 0.5


def test_run_whose_density_ratio_finds_nothing_says_that_it_changed_nothing():
    model = GaussianMixture(torch.zeros(1), torch.zeros(1, 2), torch.eye(2)[None]).to(dtype=torch.float64)
    data = model.sample(500, generator_of(0))
    inputs = KnownInputs(torch.zeros(2).double(), torch.ones(2).double(), MixtureOfExperts.from_mixture(model))
    config = small_eim_config(n_components=1, **{"ratio.estimator": "plug-in"})
    known = EIM(config, inputs).fit(data, model, generator=generator_of(1))  # the ratio is exactly 1
    assert known.status is Status.UNCHANGED
    assert known.message.startswith("EIM changed nothing")
    assert known.record()["status"] == "unchanged"
    torch.testing.assert_close(known.means, model.means, rtol=0.0, atol=0.0)
    elsewhere = GaussianMixture(model.log_weights, model.means + 1.0, model.scale_trils)
    moved = EIM(config, inputs).fit(data, elsewhere, generator=generator_of(1))
    assert moved.status is not Status.UNCHANGED
    assert moved.message == ""


@pytest.mark.parametrize("ratio", ["network", "plug-in"])
def test_run_ends_early_where_the_held_out_kl_no_longer_falls_and_gives_the_best_model(ratio):
    settings, start = BRANCH_LEARNERS["network" if ratio == "network" else "plug-in density"]
    config = small_eim_config(
        **{
            "n_components": 1,
            "m_step.n_samples": 200,
            "m_step.kl_bound": 0.3,
            "m_step.entropy_loss_bound": 0.3,
            **settings,
            "n_iterations": 120,
            "plateau_window": 10,
        }
    )
    result = EIM(config).fit(bimodal_pairs(2000), start, generator=generator_of(1))
    assert result.status is Status.CONVERGED
    assert 20 <= result.state.iteration < 100
    kl, error = (result.history.column(name) for name in ("ratio_kl", "ratio_kl_error"))
    assert sum(kl[-20:-10]) - sum(kl[-10:]) <= sum(value**2 for value in error[-20:]) ** 0.5
    assert result.model is result.state.kept
    # the expert lies on a branch, not between the two
    assert 0.15 < float(result.mixture_of_experts.experts.scale_trils) < 0.45


def test_rest_ends_no_run_that_still_adds_components():
    data = Pairs(*bimodal_pairs(20))
    records = [{"ratio_kl": 1.0, "ratio_kl_error": 0.01, "n_components": 2.0}] * 12

    def finished(n: int, **settings: int) -> bool:
        config = small_eim_config(plateau_window=3, **settings)
        return EIMIteration.from_samples(
            config, StandardisedInputs.from_data(data.context, data.sample), data
        ).finished(History(tuple(records[:n])))

    assert [finished(n) for n in (5, 6)] == [False, True]
    growing = {"adaptation.add_every": 5, "adaptation.max_components": 4}
    assert [finished(n, **growing) for n in (6, 9, 10)] == [False, False, True]
    assert finished(6, **{"adaptation.add_every": 5, "adaptation.max_components": 2})


def test_plateau_counts_only_while_the_smoothing_of_the_contexts_is_constant():
    data = Pairs(*bimodal_pairs(20))
    records = [{"ratio_kl": 1.0, "ratio_kl_error": 0.01}] * 20

    def iteration_of_stop(**smoothing: float) -> int:
        inputs = FeatureInputs.from_data(data.context, data.sample, lambda context, x: x[:, :0], **smoothing)
        iteration = EIMIteration.from_samples(small_eim_config(plateau_window=3), inputs, data)
        return next(n for n in range(1, 21) if iteration.finished(History(tuple(records[:n]))))

    assert iteration_of_stop() == 6
    assert iteration_of_stop(smoothing=0.1) == 6
    # the noise falls until iteration 6 and then stays constant
    assert iteration_of_stop(smoothing=0.1, decay=0.5, floor=0.5**6) == 12


def test_collapsed_classifier_skips_the_update_and_says_so():
    start = one_expert(0.5, 1.0)
    config = small_eim_config(
        n_components=1, n_iterations=2, **{"ratio.learning_rate": 0.0}
    )  # without learning, phi stays 0
    result = EIM(config).fit(bimodal_pairs(200), start, generator=generator_of(3))
    assert result.history.column("skipped") == [1.0, 1.0]
    assert result.history.column("expert_kl") == []
    assert result.state.iteration == 2
    assert all(torch.equal(value, start.tensors()[name]) for name, value in result.mixture_of_experts.tensors().items())


@pytest.mark.parametrize("ratio", ["plug-in", "residual", "network"])
def test_same_seed_gives_the_same_fit_and_the_global_generator_is_left_alone(ratio):
    config = small_eim_config(n_iterations=3, **{"ratio.dropout": 0.2, "ratio.estimator": ratio})
    before = torch.random.get_rng_state()
    first, second, other = (EIM(config).fit(bimodal_pairs(300), generator=generator_of(seed)) for seed in (5, 5, 6))
    assert without_times(first.history) == without_times(second.history)
    for name, value in first.model.tensors().items():
        assert torch.equal(value, second.model.tensors()[name])
    assert not torch.equal(first.model.experts.biases, other.model.experts.biases)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize(
    ("ratio", "surrogate"),
    [("plug-in", "gradient"), ("residual", "gradient"), ("network", "gradient"), ("network", "value")],
)
def test_degenerate_data_give_a_finite_model(name, ratio, surrogate):
    context, sample = DEGENERATE[name]
    config = small_eim_config(
        n_components=min(2, len(sample)), **{"ratio.estimator": ratio, "m_step.surrogate": surrogate}
    )
    result = EIM(config).fit((context, sample), generator=generator_of(11))
    assert result.status in (Status.MAX_ITERATIONS, Status.UNCHANGED)
    assert torch.isfinite(result.mixture_of_experts.log_prob(context, sample)).all()


@dataclass(frozen=True)
class KnownInputs(StandardisedInputs):
    """Inputs that know the density of the data."""

    density: MixtureOfExperts

    def known_log_density(self, context, sample, iteration):
        return self.density.log_prob(context, sample)


@dataclass(frozen=True)
class WatchedInputs(StandardisedInputs):
    """Inputs that record the arguments of every call, and add noise to contexts that halves in each iteration."""

    seen: list[tuple[int, torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def smoothing(self, iteration):
        return torch.tensor([0.4]) * 0.5**iteration

    def __call__(self, context, sample, iteration):
        self.seen.append((iteration, context, sample))
        return super().__call__(context, sample, iteration)


def test_contexts_of_both_classes_are_blurred_by_the_same_noise():
    context, sample = bimodal_pairs(2000)
    plain = StandardisedInputs.from_data(context, sample)
    inputs = WatchedInputs(plain.center, plain.scale)
    order = torch.randperm(2000, generator=generator_of(18))  # a fit with a start begins by drawing this order
    EIM(small_eim_config(n_iterations=3), inputs).fit(
        (context, sample), random_mixture_of_experts(19, 2, 1, 1), generator=generator_of(18)
    )
    for iteration in range(3):
        (_, of_data, data), (_, of_model, drawn) = [call for call in inputs.seen if call[0] == iteration][:2]
        assert torch.equal(of_data, of_model)
        assert torch.equal(data, sample[order])
        assert not torch.equal(drawn, data)
        noise = of_data - context[order]
        deviation = 0.4 * 0.5**iteration
        assert float(noise.std()) == pytest.approx(deviation, rel=4.5 * (2.0 * 2000) ** -0.5)  # 4.5 standard errors
        assert float(noise.mean()) == pytest.approx(0.0, abs=4.5 * deviation / 2000**0.5)


def test_contexts_are_drawn_as_the_gating_weighs_them():
    """Each expert draws the given contexts with probabilities proportional to q(z_i|y) (thesis 4.3.2)."""
    model = random_mixture_of_experts(12, 3, 1, 1)
    context = torch.tensor([[-1.0], [0.0], [2.0]]).double()
    drawn = draw_contexts(model, context, 20_000, generator_of(13))
    assert drawn.shape == (3, 20_000, 1)
    gate = model.gating(context).exp()
    expected = (gate / gate.sum(0)).T
    share = torch.stack([(drawn[..., 0] == value).double().mean(-1) for value in context[:, 0]], -1)
    # 4.5 standard errors, which are at most 0.5/sqrt(n)
    assert (share - expected).abs().max() < 4.5 * 0.5 / 20_000**0.5


def test_contexts_of_an_expert_that_the_gating_forgot_are_still_drawn_by_its_weights():
    """In double precision, e^-2000 is zero, but ratios of such probabilities are not."""
    gating = SoftmaxGating(torch.tensor([[0.0], [1.0]]).double(), torch.tensor([0.0, -2000.0]).double())
    model = MixtureOfExperts(gating, random_mixture_of_experts(14, 2, 1, 1).experts)
    context = torch.tensor([[0.0], [math.log(3.0)]]).double()
    drawn = draw_contexts(model, context, 10_000, generator_of(15))
    assert float((drawn[1, :, 0] > 0.5).double().mean()) == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize(("kl_bound", "status"), [(0.3, Status.CONVERGED), (1e-3, Status.MAX_ITERATIONS)])
def test_run_whose_last_updates_hardly_move_the_model_has_converged(kl_bound, status):
    """The model reaches the data and converges with the wide bound, and can still improve with the narrow bound."""
    generator = generator_of(0)
    sample = 2.0 + 0.5 * torch.randn(400, 1, generator=generator)
    config = small_eim_config(
        n_components=1, n_iterations=30, **{"ratio.estimator": "plug-in", "m_step.kl_bound": kl_bound}
    )
    start = GaussianMixture(torch.zeros(1), torch.zeros(1, 1), torch.ones(1, 1, 1))
    result = EIM(config).fit(sample, start, generator=generator)
    assert (result.status, result.state.iteration) == (status, 30)


def test_eim_with_a_classifier_stays_where_held_out_data_cannot_tell_the_model_from_them():
    """The data come from one Gaussian in six dimensions. The start is EM's fit to these data, so it needs no change."""
    sample = normal(generator_of(0), 1000, 6) @ normal(generator_of(1), 6, 6)
    start = EM(EMConfig(n_components=1)).fit(sample).model
    drifted = {}
    for held_out in (0.1, 0.0):
        config = small_eim_config(
            n_components=1,
            n_iterations=20,
            **{"ratio.hidden_layers": (32, 32), "ratio.initial_epochs": 20, "ratio.validation_share": held_out},
        )
        model = EIM(config).fit(sample, start, generator=generator_of(2)).model
        drifted[held_out] = float((model.means - start.means).abs().max())
    assert drifted[0.1] == 0.0
    # without held-out data, even useless networks are used (standard deviations of the data are about 2)
    assert drifted[0.0] > 0.01


VARIANTS = {
    "EIM": {},
    "EIM-KL": {"kl_term": False},
    "EIM-US": {"update": "unstructured"},
    "EIM-US-KL": {"update": "unstructured", "kl_term": False},
    "refitted gating": {"m_step.gating.update": "refit"},
    "diagonal covariances": {"m_step.covariance": "diagonal"},
    "tied covariances": {"m_step.covariance": "tied"},
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_each_variant_comes_closer_to_the_target(settings):
    target, start = random_mixture_of_experts(1, 2, 1, 1), random_mixture_of_experts(5, 2, 1, 1)
    data = pairs_from(target, 1000)
    config = small_eim_config(
        n_iterations=20, **settings, **{"ratio.estimator": "plug-in", "gradient_steps.step_size": 0.03}
    )
    fitted = EIM(config).fit(data, start, generator=generator_of(0)).mixture_of_experts
    assert kl_between(fitted, target) < 0.5 * kl_between(start, target)


@pytest.mark.parametrize("growth", [{}, {"adaptation.add_every": 4, "adaptation.n_candidates": 200}])
@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_restricted_covariances_recover_a_known_density_of_their_family(covariance, growth):
    """The start has full covariances. Components that are added also get restricted covariances."""
    generator = generator_of(0)
    factors = torch.tensor([[[1.0, 0.0], [0.0, 0.5]], [[0.4, 0.0], [0.0, 1.5]]]).double()
    if covariance == "tied":
        factors = torch.tensor([[1.0, 0.0], [0.8, 0.5]]).double().expand(2, 2, 2)
    weights = torch.tensor([0.3, 0.7]).double().log()
    target = GaussianMixture(weights, torch.tensor([[-3.0, 0.0], [3.0, 1.0]]).double(), factors)
    data = target.sample(500, generator)
    algorithm = EIM(target=target, n_components=2, n_iterations=30, **growth, **{"m_step.covariance": covariance})
    fitted = algorithm.fit(data, generator=generator_of(1)).mixture_of_experts
    covariances = fitted.experts.scale_trils @ fitted.experts.scale_trils.mT
    if covariance == "diagonal":
        assert float(covariances[:, 0, 1].abs().max()) == 0.0
    else:
        assert float((covariances - covariances[:1]).abs().max()) == 0.0
    sample = fitted.sample(torch.zeros(2000, 0).double(), generator_of(2))
    kl = fitted.log_prob(torch.zeros(2000, 0).double(), sample) - target.log_prob(sample)
    assert abs(float(kl.mean())) < 0.02  # two components may still share a mode


@pytest.mark.parametrize("other", [{"update": "unstructured"}, {"expert_kind": "neural"}])
def test_restricted_covariances_are_refused_if_the_m_step_cannot_keep_them(other):
    data = pairs_from(random_mixture_of_experts(1, 2, 1, 1), 100)
    config = small_eim_config(**other, **{"m_step.covariance": "diagonal", "start.em_iterations": 1})
    with pytest.raises(ConfigurationError, match="diagonal covariances"):
        EIM(config).fit(data, generator=generator_of(0))
