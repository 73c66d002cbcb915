"""Splits keep mean and covariance of a component, are made where the fit is worst, and raise the ELBO."""

import dataclasses

import pytest
import torch
from learning.gmmvi.problems import components_of, wide_start
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig, iteration
from eim_ros.learning.gmmvi.adaptation import AdaptiveComponents, Candidates, ComponentRecords, Mixture
from eim_ros.learning.gmmvi.components import Misfit
from eim_ros.learning.gmmvi.gradients import LogRatio
from eim_ros.learning.gmmvi.samples import Reservoir
from eim_ros.learning.gmmvi.settings import ComponentAdaptationConfig
from eim_ros.learning.gmmvi.weights import OwnWeights
from experiments.targets import Banana, Funnel
from experiments.targets.scores import mixture_scores

WEIGHTS = torch.tensor([0.4, 0.02, 0.3, 0.28]).double()


def mixture_of(kind: str) -> Mixture:
    components = components_of(kind, 4, 3)
    records = ComponentRecords.first(WEIGHTS, 2, 0.1, 1e-12)
    history = dataclasses.replace(records.history, rewards=torch.zeros_like(records.history.rewards))
    records = dataclasses.replace(records, history=history)
    return Mixture(WEIGHTS.log(), components, records)


def refined(mixture: Mixture, size: list[float], iteration: int = 3, **settings: float) -> Mixture:
    """Apply the rule to components with misfits of these sizes along the second axis."""
    config = ComponentAdaptationConfig(add_every=3, delete_after=0, n_climbing=0, **settings)
    rule = AdaptiveComponents(config, temperature=1.0, first_step=0.1, first_ridge=1e-12)
    nothing = Reservoir(torch.zeros(0, 3).double(), torch.zeros(0).double())
    misfit = Misfit(torch.tensor(size).double(), torch.eye(3).double()[1].expand(4, 3))
    return rule(mixture, Candidates(nothing), iteration, 0.0, generator_of(0), misfit)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_halves_have_mean_and_covariance_of_the_whole_and_lie_along_the_axis(kind):
    components, split, axis = components_of(kind, 4, 3), torch.tensor([2, 0]), torch.eye(3).double()[:2]
    log_weights, parts = components.with_halves(WEIGHTS.log(), torch.tensor([1, 3]), split, 0.5, axis)
    torch.testing.assert_close(log_weights.exp(), torch.tensor([0.02, 0.28, 0.15, 0.2, 0.15, 0.2]).double())
    assert torch.equal(parts.means[:2], components.means[[1, 3]])
    whole, halves = (one.scale_trils @ one.scale_trils.mT for one in (components, parts))
    apart = 0.5 * (parts.means[2:4] - parts.means[4:])
    torch.testing.assert_close(0.5 * (parts.means[2:4] + parts.means[4:]), components.means[split])
    for half in (halves[2:4], halves[4:]):
        torch.testing.assert_close(half + apart.unsqueeze(-1) * apart.unsqueeze(-2), whole[split])
    own = torch.linalg.solve_triangular(components.scale_trils[split], apart.unsqueeze(-1), upper=False)
    torch.testing.assert_close(own.squeeze(-1), 0.5**0.5 * axis)


def test_split_experts_keep_their_slopes_and_their_gate():
    """A split changes neither the moments for a given context nor the sum of the weights."""
    model, context = random_mixture_of_experts(0, 3, 2, 2), normal(generator_of(1), 40, 2)
    log_weights, components = iteration.components_of(model, context, "full")
    axis = torch.tensor([[0.6, 0.8]]).double()
    log_weights, parts = components.with_halves(log_weights, torch.tensor([0, 2]), torch.tensor([1]), 0.5, axis)
    assert log_weights.exp().sum() == pytest.approx(1.0)
    before, after = model(context), parts.model(log_weights)(context)
    torch.testing.assert_close(after.mean, before.mean)
    torch.testing.assert_close(after.covariance, before.covariance)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_components_of_greatest_gain_are_split_and_their_halves_have_unknown_rewards(kind):
    """A gain is half the weight times the size of the misfit: 0.02, 0.1, 0.15 and 0."""
    found = refined(mixture_of(kind), [0.1, 10.0, 1.0, 0.0], n_refined=2)
    torch.testing.assert_close(found.log_weights.exp(), torch.tensor([0.4, 0.28, 0.15, 0.01, 0.15, 0.01]).double())
    assert torch.equal(found.components.means[:2], mixture_of(kind).components.means[[0, 3]])
    assert bool(found.records.history.rewards[:, 2:].isnan().all())
    assert not bool(found.records.history.rewards[:, :2].isnan().any())


def test_nothing_is_split_between_additions_or_for_less_than_the_least_gain_or_beyond_the_greatest_number():
    mixture, size = mixture_of("full"), [1.0, 1.0, 1.0, 1.0]

    def number(**settings: float) -> int:
        return refined(mixture, size, **{"n_refined": 4, **settings}).components.n_components

    assert number() == 8
    assert number(iteration=4) == 4
    assert number(n_refined=0) == 4
    assert number(least_refinement=0.12) == 7  # the gains are 0.2, 0.01, 0.15 and 0.14
    assert number(least_refinement=0.145) == 6
    assert number(max_components=6) == 5  # one component is left for the next addition


@pytest.mark.parametrize("word", ["SAMTRON", "LAPTRON"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_splits_make_one_component_many_and_follow_a_bent_target(word, covariance):
    target, start = Banana(), wide_start(1, scale=1.0)

    def elbo(**settings: int) -> float:
        config = GMMVIConfig.named(word, covariance=covariance, n_iterations=80, n_samples=60, **settings)
        model = GMMVI(target, config).fit(start=start, generator=generator_of(0)).model
        assert (model.n_components > 4) == (settings["adaptation.add_every"] > 0)
        return mixture_scores(target, model, 4000, generator_of(7)).elbo.value

    splits = {"adaptation.add_every": 10, "adaptation.n_refined": 8, "adaptation.n_climbing": 0}
    assert elbo(**splits) > elbo(**{"adaptation.add_every": 0}) + 0.2


def ratio_of(components, own_gradient, n_samples: int = 4000) -> LogRatio:
    """Return R at samples of the only component. `own_gradient` gives its gradient in whitened coordinates."""
    counts = torch.tensor([n_samples])
    sample, _ = components.sample(counts, generator_of(3))
    own = components.whiten(sample.unsqueeze(0))[0]
    gradient = own_gradient(own) @ torch.linalg.inv(components.scale_trils[0])
    finite = torch.ones(n_samples, dtype=torch.bool)
    return LogRatio(sample, sample[:, 0], gradient, finite, OwnWeights(counts, n_samples, sample))


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_misfit_is_the_variance_of_the_gradient_around_its_linear_fit(kind):
    """For R = y_1^3 plus any quadratic in whitened coordinates, the misfit is the variance of 3 y_1^2, which is 18."""
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


def test_splits_where_the_fit_is_worst_follow_a_funnel_and_leave_a_normal_density_alone():
    def fitted(target, n_refined: int):
        settings = {"adaptation.n_refined": n_refined, "adaptation.add_every": 10, "adaptation.n_climbing": 0}
        config = GMMVIConfig.from_mapping({"n_iterations": 120, "n_samples": 50, **settings})
        return GMMVI(target, config).fit(start=wide_start(1, scale=1.0), generator=generator_of(0))

    split, plain = (fitted(Funnel(2), n_refined).model for n_refined in (1, 0))
    scores = [mixture_scores(Funnel(2), model, 4000, generator_of(7)).elbo.value for model in (split, plain)]
    assert scores[0] > scores[1] + 0.02
    added = fitted(components_of("full", 1, 2).model(torch.zeros(1).double()), 1).history.column("added")
    assert max(added) == 1
