"""Truncated EM for binary causes is exact without truncation, never lowers its bound, and recovers bars."""

import dataclasses

import numpy as np
import pytest
import torch
from learning.discrete.enumeration import all_states, exact_log_prob
from learning.models.random_models import generator_of

from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning import MultipleCauseEM, MultipleCauseEMConfig, RunOptions
from eim_ros.learning.discrete.cause_em import search_states, selected_states
from eim_ros.learning.discrete.causes import BinarySparseCoding, NoisyOr, SigmoidBeliefNetwork, sparsest_states
from eim_ros.learning.run import Status
from experiments.bars import additive_bars, n_bars_found, noisy_or_bars

KINDS = pytest.mark.parametrize("kind", [BinarySparseCoding, NoisyOr], ids=["sparse coding", "noisy-OR"])


def problem(kind, n: int = 200, size: int = 3, seed: int = 0):
    """Return images of bars, the model that generated them, and a start for the fit."""
    generator = generator_of(seed)
    true = (additive_bars if kind is BinarySparseCoding else noisy_or_bars)(size)
    sample = true.sample(n, generator)
    return sample, true, kind.start(sample, 2 * size, generator)


def config(**settings) -> MultipleCauseEMConfig:
    return MultipleCauseEMConfig(**{"n_iterations": 12, "tolerance": 0.0, "n_states": 8, **settings})


def test_belief_network_equals_exact_em_and_learns_from_truncated_states():
    """A small network is fitted with all 16 states, and again with C' = 4 states per point."""
    generator = generator_of(0)
    weights = 4.0 * torch.tensor(
        [[1.0, 0, 0, -1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0]]
    )
    prior = torch.full((4,), 0.4).double()
    true = SigmoidBeliefNetwork(weights.double(), torch.full((6,), -2.0).double(), prior)
    sample = true.sample(500, generator)
    start = SigmoidBeliefNetwork.start(sample, 4, generator)
    exact = MultipleCauseEM(config(n_states=16, n_iterations=40)).fit(sample, start)
    model = start
    states = all_states(4).expand(500, -1, -1)
    for value in exact.history.column("free_energy")[:5]:
        assert value == pytest.approx(float(exact_log_prob(model, sample).mean()), abs=1e-10)
        model = model.improved(sample, states, torch.softmax(model.log_joint(sample, states), -1))
    few = MultipleCauseEM(config(n_states=4, n_iterations=40)).fit(sample, start)
    for result in (exact, few):
        assert np.diff(result.history.column("free_energy")).min() > -1e-11
    reached, of_truth = (float(exact_log_prob(m, sample).mean()) for m in (exact.state.model, true))
    assert reached > of_truth - 0.02
    assert float(exact_log_prob(few.state.model, sample).mean()) > of_truth - 0.1


@KINDS
def test_as_many_states_as_there_are_equal_exact_em(kind):
    sample, _, model = problem(kind)
    result = MultipleCauseEM(config(n_states=1000, n_iterations=5)).fit(sample, model)
    states = all_states(6).expand(200, -1, -1)
    for value in result.history.column("free_energy"):
        assert value == pytest.approx(float(exact_log_prob(model, sample).mean()), abs=1e-10)
        model = model.improved(sample, states, torch.softmax(model.log_joint(sample, states), -1))
    for name, value in model.tensors().items():
        torch.testing.assert_close(result.state.model.tensors()[name], value, rtol=1e-8, atol=1e-8)
    assert set(result.history.column("joint_evaluations")) == {64.0}


@KINDS
@pytest.mark.parametrize("n_states", [1, 3, 8])
def test_free_energy_falls_in_neither_half_step(kind, n_states):
    sample, _, start = problem(kind)
    seen = []
    result = MultipleCauseEM(config(n_states=n_states)).fit(
        sample, start, run=RunOptions(callbacks=[lambda state, record: seen.append(state)])
    )

    def free_energy(model, states) -> float:
        return float(model.log_joint(sample, states).logsumexp(-1).mean())

    models = [start, *(state.model for state in seen)]
    after_e = [free_energy(model, state.states) for model, state in zip(models[:-1], seen, strict=True)]
    after_m = [free_energy(state.model, state.states) for state in seen]
    np.testing.assert_allclose(result.history.column("free_energy"), after_e, rtol=0.0, atol=1e-10)
    alternating = np.array([value for pair in zip(after_e, after_m, strict=True) for value in pair])
    assert np.diff(alternating).min() > -1e-10  # rounding error of means over 200 numbers of about 10
    assert alternating[-1] > alternating[0] + 0.1
    final = result.state.model
    assert alternating[-1] <= float(exact_log_prob(final, sample).mean()) + 1e-10


@KINDS
def test_states_are_all_different_and_soon_the_most_probable(kind):
    sample, true, _ = problem(kind)
    # with little noise, good states may differ in three causes, but variations change at most two
    if kind is BinarySparseCoding:
        true = dataclasses.replace(true, deviation=5.0 * true.deviation)
    states = torch.zeros(200, 1, 6, dtype=torch.bool)
    states = torch.cat([states, torch.eye(6, dtype=torch.bool).expand(200, -1, -1)[:, :4]], 1)
    found = search_states(true, sample, states, generator_of(1), n_variations=20, n_draws=20, n_rounds=200)
    assert all(len({tuple(state.tolist()) for state in kept}) == 5 for kept in found.states)
    everything = true.log_joint(sample, all_states(6).expand(200, -1, -1))
    torch.testing.assert_close(found.log_joint, everything.topk(5, -1).values, rtol=0.0, atol=1e-10)
    assert found.n_evaluations == 200 * (5 + 200 * 40)


@KINDS
def test_selection_of_all_causes_finds_the_most_probable_states(kind):
    sample, _, model = problem(kind)
    start = sparsest_states(6, 5).expand(200, -1, -1)
    found = search_states(
        model,
        sample,
        start,
        generator_of(1),
        n_variations=0,
        n_draws=0,
        construct=lambda rows: selected_states(model, rows, 6, 6),
    )
    everything = model.log_joint(sample, all_states(6).expand(200, -1, -1))
    torch.testing.assert_close(found.log_joint, everything.topk(5, -1).values, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize(("n_selected", "sparsity", "n_states"), [(4, 2, 1 + 4 + 6), (3, 5, 8), (1, 1, 2)])
def test_selected_states_are_all_sparse_combinations_of_the_relevant_causes(n_selected, sparsity, n_states):
    """The reference evaluates equation 41 for one point at a time."""
    sample, model, _ = problem(NoisyOr, n=20)
    single = torch.eye(6, dtype=torch.bool).expand(20, -1, -1)
    relevant = model.log_joint(sample, single).topk(n_selected, -1).indices
    for states, chosen in zip(selected_states(model, sample, n_selected, sparsity), relevant, strict=True):
        expected = [
            state
            for state in all_states(6).tolist()
            if sum(state) <= sparsity and not any(on and h not in chosen for h, on in enumerate(state))
        ]
        assert {tuple(state) for state in states.tolist()} == {tuple(state) for state in expected}
        assert len(states) == n_states


@KINDS
def test_free_energy_with_selected_states_alone_never_falls(kind):
    sample, _, start = problem(kind)
    settings = {"n_variations": 0, "n_draws": 0, "n_selected": 4, "sparsity": 3}
    values = MultipleCauseEM(config(**settings)).fit(sample, start).history.column("free_energy")
    assert np.diff(values).min() > -1e-11
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("n_causes", [62, 63, 70])
def test_states_of_many_causes_are_told_apart(n_causes):
    generator = generator_of(2)
    weights = torch.randn(5, n_causes, generator=generator, dtype=torch.float64)
    scale = torch.tensor(1.0, dtype=torch.float64)
    model = BinarySparseCoding(weights, scale, scale.new_full((n_causes,), 0.05), 1e-6 * scale)
    sample = model.sample(20, generator)
    states = torch.eye(n_causes, dtype=torch.bool)[-4:].expand(20, -1, -1)
    found = search_states(model, sample, states, generator, n_variations=30, n_draws=10, n_rounds=5)
    assert all(len({tuple(state.tolist()) for state in kept}) == 4 for kept in found.states)
    assert bool((found.log_joint.sum(-1) > model.log_joint(sample, states).sum(-1)).all())


@KINDS
def test_bars_are_found_and_the_free_energy_never_falls(kind):
    size = 4 if kind is BinarySparseCoding else 3  # fits of noisy-OR take longer, so the images are smaller
    sample, true, start = problem(kind, n=400, size=size, seed=3)
    starts = [start, *(kind.start(sample, 2 * size, generator_of(seed)) for seed in (4, 5))]
    result = MultipleCauseEM(MultipleCauseEMConfig(n_states=15, trial_iterations=20)).fit(sample, starts)
    assert result.status is Status.CONVERGED
    assert n_bars_found(result.state.model.weights, true.weights) == 2 * size
    values = result.history.column("free_energy")
    assert np.diff(values).min() > -1e-10
    reached = MultipleCauseEM(MultipleCauseEMConfig(n_states=15)).fit(sample, true).history.column("free_energy")[-1]
    # a fit from the true parameters reaches the same value, except for small differences of the sets K(n)
    assert values[-1] == pytest.approx(reached, abs=0.02)


def test_bars_that_are_mixed_up_do_not_count_as_found():
    true = additive_bars(4).weights
    assert n_bars_found(true.flip(1), true) == 8
    doubled = torch.cat([true[:, :1], true[:, :-1]], 1)
    assert n_bars_found(doubled, true) == 7
    assert n_bars_found(0.5 * (true + true.flip(1)), true) == 0


def test_best_of_several_starts_is_gone_on_with():
    sample, true, start = problem(BinarySparseCoding)
    learner = MultipleCauseEM(config(trial_iterations=1))
    chosen = learner.fit(sample, [start, true])
    assert chosen.history.column("free_energy")[0] > learner.fit(sample, start).history.column("free_energy")[0] + 0.5
    assert n_bars_found(chosen.state.model.weights, true.weights) == 6


@KINDS
def test_one_cause_and_one_sample_are_no_special_cases(kind):
    sample = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    start = kind.start(sample, 1, generator_of(0))
    for data in (sample, sample[:1]):
        result = MultipleCauseEM(config()).fit(data, start)
        assert result.state.iteration > 0
        assert np.diff(result.history.column("free_energy")).min() > -1e-10


@KINDS
def test_whole_numbers_and_single_precision_are_taken(kind):
    sample, _, _ = problem(NoisyOr)
    whole = sample.to(torch.uint8)
    start = kind.start(whole, 6, generator_of(1))
    single = kind.from_tensors({n: v.float() if v.is_floating_point() else v for n, v in start.tensors().items()})
    expected = MultipleCauseEM(n_iterations=3).fit(sample, start).history.column("free_energy")
    found = MultipleCauseEM(n_iterations=3).fit(whole.numpy(), single).history.column("free_energy")
    np.testing.assert_allclose(found, expected, rtol=1e-4)  # the start is rounded to single precision


def test_noise_does_not_vanish_where_causes_explain_all():
    sample = torch.eye(4).double().repeat(5, 1)
    result = MultipleCauseEM(config(n_iterations=100, n_states=16)).fit(
        sample, BinarySparseCoding.start(sample, 4, generator_of(0))
    )
    assert float(result.state.model.deviation) >= float(result.state.model.least_deviation) > 0.0
    # rounding errors of 1e-16 in the residuals are divided by a variance of 1e-7
    assert np.diff(result.history.column("free_energy")).min() > -1e-6


def test_samples_that_no_noisy_or_makes_are_refused():
    sample, _, start = problem(NoisyOr)
    with pytest.raises(DataError, match="zeros and ones, but row 7 has other values"):
        MultipleCauseEM().fit(sample.index_put((torch.tensor(7), torch.tensor(0)), torch.tensor(0.5).double()), start)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (torch.zeros(0, 9), "empty"),
        (torch.full((5, 9), float("nan")), "NaN"),
        ((torch.zeros(5, 1), torch.zeros(5, 9)), "samples alone"),
    ],
)
def test_data_that_are_none_are_refused(data, words):
    _, _, start = problem(BinarySparseCoding)
    with pytest.raises(DataError, match=words):
        MultipleCauseEM().fit(data, start)


def test_start_of_other_dimensions_is_refused():
    _, _, start = problem(BinarySparseCoding)
    with pytest.raises(DistributionError, match="the start has 9 dimensions, but the data have 4"):
        MultipleCauseEM().fit(torch.zeros(5, 4), start)
    with pytest.raises(DistributionError, match="give at least one start"):
        MultipleCauseEM().fit(torch.zeros(5, 4), [])


@pytest.mark.parametrize("initial", [None, 3, "noisy-OR", BinarySparseCoding, [None]])
def test_start_that_is_no_model_is_refused(initial):
    with pytest.raises(
        DistributionError, match="the start must be a model of causes, for example from BinarySparseCoding.start"
    ):
        MultipleCauseEM().fit(torch.zeros(5, 4), initial)
