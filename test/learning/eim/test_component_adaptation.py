"""Components are added where the target exceeds the model, and deleted if they are useless for many iterations."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.toys import MODES, modes, normal_mixture

from eim_ros.learning import EIMConfig, Pairs
from eim_ros.learning.adaptation import (
    DELTAS,
    Adaptation,
    AdaptationConfig,
    AdaptationState,
    ComponentHistory,
    with_additions,
)
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.run import Status

WIDE = 1e9
GROWTH = {
    "adaptation.add_every": 5,
    "m_step.kl_bound": 0.3,
    "m_step.entropy_loss_bound": WIDE,
    "adaptation.n_candidates": 1000,
    "plateau_window": 0,
}


def history_of(rewards: list[list[float]], weights: list[list[float]]) -> ComponentHistory:
    log_weights = torch.tensor(weights).double().T.log()
    return ComponentHistory(log_weights + torch.tensor(rewards).double().T, log_weights)


@pytest.mark.parametrize("surrogate", ["gradient", "value"])
def test_one_component_grows_into_all_modes_that_it_would_otherwise_miss(surrogate):
    target, start = modes(), normal_mixture([0.0, 0.0], 100.0)
    config = EIMConfig.known_density(n_iterations=150, **GROWTH, **{"m_step.surrogate": surrogate})
    grown = EIM(config, target=target).fit(start=start, generator=generator_of(0))
    fixed = EIM(EIMConfig.known_density(n_iterations=150), target=target).fit(start=start, generator=generator_of(0))
    assert grown.history.column("elbo")[-1] == pytest.approx(0.0, abs=0.01)
    assert fixed.history.column("elbo")[-1] < -0.9  # with one covered mode, the ELBO is the log of its weight
    own = (target.means.unsqueeze(1) - grown.model.means).norm(dim=-1).argmin(0)
    shares = torch.zeros(4).double().index_add_(0, own, grown.model.weights)
    torch.testing.assert_close(shares, target.weights, rtol=0.0, atol=0.02)


def test_samples_that_are_given_are_looked_at():
    """A narrow start draws no samples near the other modes, so only the data reveal these modes."""
    target, start = modes(), normal_mixture([0.0, 0.0])
    sample = target.sample(500, generator_of(1))
    learner = EIM(EIMConfig.known_density(n_iterations=100, **GROWTH), target=target)
    blind, told = (learner.fit(data, start, generator=generator_of(0)) for data in (None, sample))
    assert blind.history.column("elbo")[-1] < -0.9
    assert told.history.column("elbo")[-1] == pytest.approx(0.0, abs=0.01)


def test_new_components_are_where_the_target_exceeds_the_model_and_not_all_at_one_place():
    model = MixtureOfExperts.from_mixture(modes(1))
    sample, mode = modes().sample_with_components(400, generator_of(2))
    grown = with_additions(model, Pairs(sample[:, :0], sample), modes().log_prob(sample), DELTAS[:3], 0.01)
    assert grown.n_components == 4
    nearest = (grown.experts.biases[1:].unsqueeze(1) - MODES).norm(dim=-1).argmin(-1)
    assert sorted(nearest.tolist()) == [1, 2, 3]
    assert all((sample == bias).all(-1).any() for bias in grown.experts.biases[1:])
    torch.testing.assert_close(grown.gating.biases[1:].exp(), 0.01 * grown.gating.biases[:1].exp().expand(3))


def test_delta_decides_between_far_away_and_likely():
    """The model misses two places. The farther place has a lower target, and only a large delta chooses it."""
    model = MixtureOfExperts.from_mixture(normal_mixture([0.0, 0.0]))
    places = torch.tensor([[0.0, 0.0], [30.0, 0.0], [60.0, 0.0]]).double()
    chosen = {
        delta: float(
            with_additions(model, Pairs(places[:, :0], places), -places[:, 0], [delta], 0.01).experts.biases[-1, 0]
        )
        for delta in DELTAS
    }
    assert chosen == {5000.0: 60.0, 1000.0: 60.0, 500.0: 60.0, 200.0: 30.0, 100.0: 30.0, 50.0: 30.0}


def test_target_that_is_finite_nowhere_adds_nothing():
    model = MixtureOfExperts.from_mixture(modes(2))
    sample = normal(generator_of(0), 20, 2)
    nothing = torch.full_like(sample[:, 0], -math.inf)
    assert with_additions(model, Pairs(sample[:, :0], sample), nothing, DELTAS[:2], 0.01) is model


def test_nothing_is_added_where_the_demand_is_too_low():
    model = MixtureOfExperts.from_mixture(normal_mixture([0.0, 0.0]))
    sample = normal(generator_of(0), 50, 2)
    places, exceeded = Pairs(sample[:, :0], sample), normal_mixture([0.0, 0.0]).log_prob(sample) + 0.9
    assert with_additions(model, places, exceeded, DELTAS[:2], 0.01, least_demand=1.0) is model
    assert with_additions(model, places, exceeded, DELTAS[:2], 0.01, least_demand=0.8).n_components > 1


@pytest.mark.parametrize(
    ("rewards", "weights", "useless"),
    [
        ([0.0, 0.0, 0.0], [1e-9, 1e-9, 1e-9], True),
        ([0.0, 0.0, 0.0], [1e-9, 1e-3, 1e-9], False),  # the weight was high enough in one iteration
        ([0.0, 7.0, 14.0], [1e-9, 1e-9, 1e-9], False),  # the reward rises fast enough
        ([0.0, 2.0, 4.0], [1e-9, 1e-9, 1e-9], True),  # the reward rises too slowly
        ([0.0, 7.0, 14.0], [1e-9, 1e-12, 1e-15], True),  # the reward rises only because the weight falls
        ([math.nan, 0.0, 0.0], [math.nan, 1e-9, 1e-9], False),  # too few iterations of the component
    ],
)
def test_component_is_useless_if_it_has_neither_weight_nor_gain(rewards, weights, useless):
    history = history_of([[0.0, 0.1, 0.0], rewards], [[1.0, 1.0, 1.0], weights])
    rule = Adaptation(AdaptationConfig(delete_after=3))
    assert rule.useless(history).tolist() == [False, useless]
    young = ComponentHistory.blank(history.rewards[0], 4).followed(history.rewards[0], history.log_weights[0])
    assert not rule.useless(young).any()  # too few iterations of the run
    assert not rule.useless(ComponentHistory.blank(history.rewards[0], 0)).any()
    everything = Adaptation(AdaptationConfig(delete_after=3, least_weight=1.0))
    # the heaviest component is kept even if every weight counts as negligible
    assert not everything.useless(history).tolist()[0]


def test_useless_component_is_deleted_and_the_others_go_on():
    target = modes(2)
    useless = torch.tensor([[500.0, 500.0]]).double()
    start = GaussianMixture(
        torch.log_softmax(torch.tensor([0.0, 0.0, -30.0]).double(), -1),
        torch.cat([MODES[:2], useless]),
        torch.eye(2).double().expand(3, 2, 2),
    )
    config = EIMConfig.known_density(
        n_iterations=12, **{"adaptation.delete_after": 4, "m_step.kl_bound": 1e-4, "m_step.gating.n_contexts": 20}
    )
    result = EIM(config, target=target).fit(start=start, generator=generator_of(0))
    assert result.history.column("deleted")[:5] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert result.history.column("n_components")[4:] == [2.0] * (result.state.iteration - 4)
    assert result.model.means.shape == (2, 2)
    torch.testing.assert_close(result.model.means, MODES[:2], rtol=0.0, atol=0.1)


def test_samples_of_all_times_are_equally_likely_to_be_remembered():
    state = AdaptationState.first(MixtureOfExperts.from_mixture(modes()))
    generator = generator_of(0)
    for batch in range(5):
        value = torch.full((10_000, 2), float(batch)).double()
        state = state.remembered(Pairs(value[:, :0], value), generator)
    counts = torch.bincount(state.drawn.sample[:, 0].long(), minlength=5)
    assert state.n_batches == 5
    assert ((counts - 2000).abs() < 200).all()  # at least five standard deviations


def test_number_of_components_keeps_its_bound_and_the_run_ends_on_a_plateau():
    settings = {
        **GROWTH,
        "adaptation.add_every": 1,
        "adaptation.n_added": 3,
        "adaptation.max_components": 8,
        "plateau_window": 10,
    }
    result = EIM(EIMConfig.known_density(n_iterations=400, **settings), target=modes()).fit(
        start=normal_mixture([0.0, 0.0], 100.0), generator=generator_of(0)
    )
    sizes = result.history.column("n_components")
    assert sizes[:4] == [1.0, 4.0, 7.0, 8.0]
    assert max(sizes) == 8.0
    assert result.status is Status.CONVERGED
    assert result.history.column("elbo")[-1] == pytest.approx(0.0, abs=0.01)


def test_run_that_can_still_grow_does_not_end_because_the_model_rests():
    """A start that equals the target does not change, so the run would end early if it did not add components."""
    start = modes(1)
    config = EIMConfig.known_density(
        n_iterations=30, plateau_window=0, **{"adaptation.add_every": 20, "exact.tolerance": 1e-9}
    )
    result = EIM(config, target=modes(1)).fit(start=start, generator=generator_of(0))
    assert result.status is Status.MAX_ITERATIONS
    assert result.history.column("added")[20] == 1.0
