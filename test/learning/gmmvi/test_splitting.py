"""Splitting of components: the halves together are what was split, the heaviest are split, and it pays."""

import dataclasses

import pytest
import torch
from learning.gmmvi.problems import components_of, wide_start
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning.adaptation import AdaptiveComponents, Candidates, ComponentRecords, Mixture
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig, iteration
from eim_ros.learning.gmmvi.gradients import LogRatio
from eim_ros.learning.gmmvi.samples import Reservoir
from eim_ros.learning.gmmvi.settings import ComponentAdaptationConfig
from eim_ros.learning.gmmvi.weights import OwnWeights
from experiments.targets import Banana, Funnel
from experiments.targets.scores import mixture_scores

WEIGHTS = torch.tensor([0.4, 0.02, 0.3, 0.28]).double()


def mixture_of(kind: str, n_updates: float) -> Mixture:
    components = components_of(kind, 4, 3)
    records = ComponentRecords.first(WEIGHTS, 2, 0.1, 1e-12)
    records = dataclasses.replace(
        records,
        n_updates=records.n_updates + n_updates,
        history=dataclasses.replace(records.history, rewards=torch.zeros_like(records.history.rewards)),
    )
    return Mixture(WEIGHTS.log(), components, records)


def split(mixture: Mixture, iteration: int, max_components: int = 100) -> Mixture:
    config = ComponentAdaptationConfig("fixed", split_every=3, delete_after=10, max_components=max_components)
    rule = AdaptiveComponents(config, temperature=1.0, first_step=0.1, first_ridge=1e-12)
    nothing = Reservoir(torch.zeros(0, 3).double(), torch.zeros(0).double())
    return rule(mixture, Candidates(nothing), iteration, 0.0, generator_of(0))


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_halves_have_mean_and_covariance_of_the_whole_and_lie_along_its_longest_axis(kind):
    components, heavy = components_of(kind, 4, 3), torch.tensor([2, 0])
    log_weights, parts = components.with_halves(WEIGHTS.log(), torch.tensor([1, 3]), heavy, 0.5)
    torch.testing.assert_close(log_weights.exp(), torch.tensor([0.02, 0.28, 0.15, 0.2, 0.15, 0.2]).double())
    assert torch.equal(parts.means[:2], components.means[[1, 3]])
    whole, halves = (one.scale_trils @ one.scale_trils.mT for one in (components, parts))
    apart = 0.5 * (parts.means[2:4] - parts.means[4:])
    torch.testing.assert_close(0.5 * (parts.means[2:4] + parts.means[4:]), components.means[heavy])
    for half in (halves[2:4], halves[4:]):
        torch.testing.assert_close(half + apart.unsqueeze(-1) * apart.unsqueeze(-2), whole[heavy])
    torch.testing.assert_close(apart.square().sum(-1), 0.5 * torch.linalg.eigvalsh(whole[heavy])[:, -1])


def test_split_experts_keep_their_slopes_and_their_gate():
    """Moments given each context are those of before, and so is the sum of the halves' weights."""
    model, context = random_mixture_of_experts(0, 3, 2, 2), normal(generator_of(1), 40, 2)
    log_weights, components = iteration.components_of(model, context, "full")
    log_weights, parts = components.with_halves(log_weights, torch.tensor([0, 2]), torch.tensor([1]), 0.5)
    assert log_weights.exp().sum() == pytest.approx(1.0)
    before, after = model(context), parts.model(log_weights)(context)
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.covariance, before.covariance)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_heaviest_half_is_split_and_what_is_light_for_long_is_deleted(kind):
    """Of four the two heaviest; the one of weight .02 is below a tenth of the mean, and has had its ten updates."""
    young = split(mixture_of(kind, 9.0), 3)
    torch.testing.assert_close(young.log_weights.exp(), torch.tensor([0.02, 0.28, 0.2, 0.15, 0.2, 0.15]).double())
    assert torch.equal(young.components.means[0], mixture_of(kind, 0.0).components.means[1])
    assert bool(young.records.history.rewards[:, 2:].isnan().all())
    assert not bool(young.records.history.rewards[:, :2].isnan().any())
    old = split(mixture_of(kind, 10.0), 3)
    expected = torch.tensor([0.28, 0.2, 0.15, 0.2, 0.15]).double() / 0.98
    torch.testing.assert_close(old.log_weights.exp(), expected)


def test_nothing_is_split_between_times_or_beyond_the_greatest_number():
    mixture = mixture_of("full", 0.0)
    assert split(mixture, 4) is mixture
    assert split(mixture, 3, max_components=4) is mixture
    assert split(mixture, 3, max_components=5).components.n_components == 5


@pytest.mark.parametrize("word", ["SEMTRON", "SAMTRON", "ZEPTRUX"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_splits_make_one_component_many_and_follow_a_bent_target(word, covariance):
    target, start = Banana(), wide_start(1, scale=1.0)

    def elbo(**settings: int) -> float:
        config = GMMVIConfig.named(
            word, covariance=covariance, n_iterations=80, n_samples=60, **settings, **{"adaptation.add_every": 0}
        )
        model = GMMVI(target, config).fit(start=start, generator=generator_of(0)).model
        assert model.n_components == (16 if settings else 1)
        return mixture_scores(target, model, 4000, generator_of(7)).elbo.value

    assert (
        elbo(**{"adaptation.split_every": 10, "adaptation.delete_after": 0, "adaptation.max_components": 16})
        > elbo() + 0.2
    )


def ratio_of(components, own_gradient, n_samples: int = 4000) -> LogRatio:
    """R at samples of the only component, with a gradient that is a function of its own coordinates."""
    counts = torch.tensor([n_samples])
    sample, _ = components.sample(counts, generator_of(3))
    own = components.whiten(sample.unsqueeze(0))[0]
    gradient = own_gradient(own) @ torch.linalg.inv(components.scale_trils[0])
    finite = torch.ones(n_samples, dtype=torch.bool)
    return LogRatio(sample, sample[:, 0], gradient, finite, OwnWeights(counts, n_samples, sample))


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_misfit_is_the_variance_of_the_gradient_around_its_linear_fit(kind):
    """For R = y_1^3 in own coordinates it is the variance of 3 y_1^2, which is 18, whatever quadratic is added."""
    components, axis = components_of(kind, 1, 3), torch.tensor([[0.0, 1.0, 0.0]]).double()
    factors = torch.tensor([2.0, -1.0, 0.5]).double()
    misfit = ratio_of(components, lambda own: own * factors + 1.0).misfit(components)
    assert float(misfit.size) == pytest.approx(0.0, abs=1e-9)
    misfit = ratio_of(components, lambda own: 3.0 * own.square() * axis + own * factors).misfit(components)
    assert float(misfit.size) == pytest.approx(18.0, rel=0.2)  # five standard errors of 4000 samples
    torch.testing.assert_close(misfit.axis.abs(), axis, rtol=0.0, atol=0.05)


def test_too_few_samples_show_no_misfit():
    components = components_of("full", 1, 3)
    assert float(ratio_of(components, torch.sin, 7).misfit(components).size) == 0.0
    assert float(ratio_of(components, torch.sin, 8).misfit(components).size) > 0.0


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_halves_along_a_given_axis_have_mean_and_covariance_of_the_whole(kind):
    components, axis = components_of(kind, 1, 3), torch.tensor([[0.0, 1.0, 0.0]]).double()
    none, only = torch.tensor([], dtype=torch.int64), torch.tensor([0])
    _, parts = components.with_halves(torch.zeros(1).double(), none, only, 0.5, axis)
    apart = 0.5 * (parts.means[0] - parts.means[1])
    torch.testing.assert_close(components.whiten(parts.means[:1].unsqueeze(0))[0], 0.5**0.5 * axis)
    half, whole = (one.scale_trils[0] @ one.scale_trils[0].mT for one in (parts, components))
    torch.testing.assert_close(half + torch.outer(apart, apart), whole)


def test_splits_where_the_fit_is_worst_follow_a_funnel_and_leave_a_normal_density_alone():
    def fitted(target, n_refined: int):
        settings = {"adaptation.n_refined": n_refined, "adaptation.add_every": 10, "adaptation.n_climbing": 0}
        config = GMMVIConfig.from_mapping({"n_iterations": 120, "n_samples": 50, **settings})
        return GMMVI(target, config).fit(start=wide_start(1, scale=1.0), generator=generator_of(0))

    refined, plain = (fitted(Funnel(2), n_refined).model for n_refined in (1, 0))
    scores = [mixture_scores(Funnel(2), model, 4000, generator_of(7)).elbo.value for model in (refined, plain)]
    assert scores[0] > scores[1] + 0.02
    added = fitted(components_of("full", 1, 2).model(torch.zeros(1).double()), 1).history.column("added")
    assert max(added) == 1
