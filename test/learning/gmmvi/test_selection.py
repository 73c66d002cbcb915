"""Selection of the samples to use and to remember, and of the components to add and to delete."""

import math
from dataclasses import replace

import pytest
import torch
from learning.gmmvi.problems import components_of, three_modes
from learning.models.random_models import generator_of, normal

from eim_ros.learning.adaptation import DELTAS, ComponentHistory
from eim_ros.learning.gmmvi import ComponentSamples, MixtureSamples
from eim_ros.learning.gmmvi.adaptation import (
    AdaptiveComponents,
    Candidates,
    ComponentRecords,
    Mixture,
    smoothing_kernel,
)
from eim_ros.learning.gmmvi.gaussians import FullComponents
from eim_ros.learning.gmmvi.gradients import log_ratio
from eim_ros.learning.gmmvi.samples import Evaluated, Reservoir, SampleDatabase
from eim_ros.learning.gmmvi.settings import ComponentAdaptationConfig

SETTINGS = ComponentAdaptationConfig(add_every=1, delete_after=6, max_components=50, n_candidates=100)
ADAPTIVE = AdaptiveComponents(SETTINGS, temperature=1.0, first_step=0.1, first_ridge=1e-12)


def evaluated(sample):
    return Evaluated(sample, -0.5 * sample.square().sum(-1), -sample)


def mixture_of(components, log_weights):
    records = ComponentRecords.first(components.means, ADAPTIVE.window, 0.1, 1e-12)
    return Mixture(torch.log_softmax(log_weights, -1), components, records)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_samples_of_components_are_theirs(kind):
    components = components_of(kind, 3, 2)
    sample, component = components.sample(torch.tensor([4000, 0, 6000]), generator_of(0))
    assert torch.bincount(component, minlength=3).tolist() == [4000, 0, 6000]
    for number in (0, 2):
        mine = sample[component == number]
        covariance = components.scale_trils[number] @ components.scale_trils[number].T
        torch.testing.assert_close(mine.mean(0), components.means[number], rtol=0.0, atol=0.15)
        torch.testing.assert_close(mine.T.cov(), covariance, rtol=0.08, atol=0.15)


def test_without_reuse_each_component_or_the_mixture_draws_what_is_desired():
    components, log_weights = components_of("full", 3, 2), torch.tensor([0.98, 0.01, 0.01]).double().log()
    database = SampleDatabase.empty(components, 0, with_gradient=True)
    each = ComponentSamples(7)(components, log_weights, database, evaluated, generator_of(0))
    assert each.counts.tolist() == [7.0, 7.0, 7.0]
    of_mixture = MixtureSamples(200)(components, log_weights, database, evaluated, generator_of(0))
    assert len(of_mixture.sample) == 200
    assert float(of_mixture.counts[0]) > 185.0


def test_reused_samples_count_by_their_effective_number_and_keep_their_background():
    """The expected values are counts = max(1, n - ESS_o) and z = sum (n_c/N) N(x|c) over old and new components."""
    old, new = components_of("full", 3, 2), components_of("full", 3, 2)
    new.means[0] += 0.1
    new.means[2] += 9.0  # old samples are useless for this component
    log_weights, rule = torch.zeros(3).double() - math.log(3.0), ComponentSamples(20, reuse_ratio=2.0)
    database = SampleDatabase.empty(old, 0, with_gradient=True)
    first = rule(old, log_weights, database, evaluated, generator_of(0))
    database = database.remembered(first, old, rule.n_reused(3), generator_of(1))
    second = rule(new, log_weights, database, evaluated, generator_of(2))
    reused = first.sample
    log_old = torch.logsumexp(old.densities().log_prob(reused), -1) - math.log(3.0)
    for number in range(3):
        weights = torch.softmax(new.densities().log_prob(reused)[:, number] - log_old, 0)
        expected = max(1, 20 - math.floor(1.0 / float(weights.square().sum())))
        assert int(second.counts[number]) == expected
    assert int(second.counts[2]) >= 18 > int(second.counts[0])
    ratio = log_ratio(new, log_weights, second, 1.0, 20.0)
    n_all, every = len(second.sample), second.sample
    background = sum(20.0 / n_all * old.densities().log_prob(every)[:, k].exp() for k in range(3))
    background += sum(second.counts[k] / n_all * new.densities().log_prob(every)[:, k].exp() for k in range(3))
    weights = new.densities().log_prob(every).exp() / background.unsqueeze(-1)
    torch.testing.assert_close(
        ratio.weights.values / ratio.weights.total, weights / weights.sum(0), rtol=1e-8, atol=1e-12
    )


def test_database_forgets_what_is_older_than_may_be_used_and_the_components_it_is_of():
    components, rule = components_of("full", 3, 2), ComponentSamples(5, reuse_ratio=1.0)
    database, log_weights = SampleDatabase.empty(components, 40, with_gradient=True), torch.zeros(3).double()
    for number in range(6):
        selection = rule(components, log_weights, database.trimmed(0), evaluated, generator_of(number))
        database = database.remembered(selection, components, rule.n_reused(3), generator_of(9))
    assert len(database.recent) == rule.n_reused(3) == 15
    assert torch.equal(database.recent.sample, selection.sample[-15:])
    assert database.earlier.n_components == 3
    assert database.reservoir.n_seen == 90
    assert len(database.reservoir) == 40


def test_reservoir_keeps_each_sample_with_equal_probability():
    """For 99.9 % of all seeds, chi-squared of 10 groups of samples (9 degrees of freedom) is below 27.9."""
    reservoir = Reservoir(torch.zeros(500, 1).double(), torch.zeros(500).double())
    for start in range(0, 10_000, 137):
        number = torch.arange(start, min(start + 137, 10_000)).double()
        reservoir = reservoir.remembered(Evaluated(number.unsqueeze(-1), -number, None), generator_of(start))
    assert torch.equal(reservoir.sample[:, 0], -reservoir.log_target)
    assert len(reservoir.sample.unique()) == 500
    groups = torch.bincount((reservoir.sample[:, 0] / 1000.0).long(), minlength=10).double()
    assert float(((groups - 50.0).square() / 50.0).sum()) < 27.9


def test_component_is_added_where_the_rule_says():
    target = three_modes()
    mixture = mixture_of(components_of("full", 2, 2), torch.zeros(2).double())
    places = 6.0 * normal(generator_of(4), 100, 2)
    reservoir = Reservoir(places, target.log_prob(places), 100)
    for n_before, delta in enumerate(DELTAS):
        state = Mixture(mixture.log_weights, mixture.components, mixture.records, n_before)
        grown = ADAPTIVE(state, Candidates(reservoir), 2, 5.0, generator_of(0))
        log_model = mixture.log_prob(places)
        best = max(
            range(100),
            key=lambda i: float(target.log_prob(places[i])) - max(float(log_model[i]), float(log_model.max()) - delta),
        )
        assert torch.equal(grown.components.means[-1], places[best])
        assert float(grown.log_weights[-1]) == pytest.approx(math.log(1e-29), abs=1e-9)
        entropies = sorted([float(mixture.log_weights.exp() @ mixture.components.entropy()), 5.0])
        assert entropies[0] < float(grown.components.entropy()[-1]) < entropies[1]
        assert grown.n_additions == n_before + 1
        assert bool(grown.records.history.rewards[:, -1].isnan().all())


def test_component_is_added_at_a_sample_of_the_start_if_it_is_the_best_place():
    """The only other candidates may be missing. Samples of the start are requested only when an addition is due."""
    mixture = mixture_of(components_of("full", 2, 2), torch.zeros(2).double())
    rule = replace(ADAPTIVE, config=replace(SETTINGS, add_every=3, n_prior_candidates=20))
    assert [rule.n_prior(2, iteration) for iteration in (1, 2, 3, 4, 6)] == [0, 0, 20, 0, 20]
    assert rule.n_prior(50, 3) == 0
    near, far = normal(generator_of(1), 10, 2), 40.0 + normal(generator_of(2), 20, 2)
    prior = Evaluated(far, 1e5 * torch.arange(20).double(), None)
    for n_seen in (0, 10):
        candidates = Candidates(Reservoir(near, torch.full((10,), -500.0).double(), n_seen), prior)
        grown = rule(mixture, candidates, 3, 5.0, generator_of(0))
        assert torch.equal(grown.components.means[-1], far[-1])


def test_new_component_is_as_wide_as_those_of_weight_not_as_those_just_added():
    """A new component is as wide as the only component with weight, and not as the forty components without weight."""
    factors = torch.cat([torch.ones(1), torch.full((40,), 1000.0)]).double()[:, None, None] * torch.eye(2).double()
    components = FullComponents(normal(generator_of(1), 41, 2), factors)
    log_weights = torch.log_softmax(torch.cat([torch.zeros(1), torch.full((40,), math.log(1e-29))]).double(), -1)
    sample = normal(generator_of(2), 50, 2)
    reservoir = Reservoir(sample, -0.5 * sample.square().sum(-1), 50)
    first_entropy = float(components.entropy()[0])
    grown = ADAPTIVE(mixture_of(components, log_weights), Candidates(reservoir), 2, first_entropy, generator_of(0))
    torch.testing.assert_close(grown.components.scale_trils[-1], torch.eye(2).double(), rtol=1e-9, atol=1e-9)


def test_nothing_is_added_in_between_at_the_bound_or_without_candidates():
    mixture = mixture_of(components_of("full", 2, 2), torch.zeros(2).double())
    empty = Reservoir(torch.zeros(10, 2).double(), torch.zeros(10).double())
    full = Reservoir(torch.zeros(10, 2).double(), torch.zeros(10).double(), 10)
    for rule, reservoir, iteration in [
        (ADAPTIVE, empty, 2),
        (ADAPTIVE, full, 1),
        (replace(ADAPTIVE, config=replace(SETTINGS, add_every=3)), full, 4),
        (replace(ADAPTIVE, config=replace(SETTINGS, max_components=2)), full, 2),
        (replace(ADAPTIVE, config=replace(SETTINGS, add_every=0)), full, 2),
    ]:
        assert rule(mixture, Candidates(reservoir), iteration, 1.0, generator_of(0)).components.n_components == 2


def test_components_are_deleted_by_age_weight_and_relative_gain():
    """Of six components, only the light one that stagnates is deleted.

    The components are the best, a light one that stagnates, a light one that catches up, a heavy one, a light one
    whose reward deserves weight, and a young one.
    """
    window = ADAPTIVE.window
    time = torch.linspace(0.0, 1.0, window).double()
    flat = torch.ones(window).double()
    rewards = torch.stack([0.0 * flat, -50.0 * flat, -50.0 + 45.0 * time, -50.0 * flat, -5.0 * flat, -50.0 * flat], -1)
    rewards[0, 5] = torch.nan
    log_weights = torch.full((window, 6), math.log(1e-12), dtype=torch.float64)
    log_weights[:, 0], log_weights[3, 3] = 0.0, math.log(1e-5)
    components = components_of("full", 6, 2)
    one = torch.ones(6).double()
    records = ComponentRecords(0.1 * one, 20.0 * one, 1e-12 * one, ComponentHistory(rewards, log_weights))
    useless = ADAPTIVE.useless(records.history)
    kernel = smoothing_kernel(6)
    now = [float((rewards[-len(kernel) :, k] * kernel).sum()) for k in range(6)]
    before = [float((rewards[: len(kernel), k] * kernel).sum()) for k in range(6)]
    assert window == len(kernel) + 6
    assert (now[2] - before[2]) / abs(before[2] - max(now[:5])) > 0.4
    assert useless.tolist() == [False, True, False, False, False, False]
    mixture = Mixture(torch.log_softmax(log_weights[-1], -1), components, records)
    empty = Reservoir(torch.zeros(0, 2).double(), torch.zeros(0).double())
    left = ADAPTIVE(mixture, empty, 30, 1.0, generator_of(0))
    kept = torch.tensor([0, 2, 3, 4, 5])
    assert isinstance(left.components, FullComponents)
    assert torch.equal(left.components.means, components.means[kept])
    assert left.records.history.rewards.shape == (window, 5)
    assert float(left.log_weights.exp().sum()) == pytest.approx(1.0)
