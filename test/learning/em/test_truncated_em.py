"""Truncated EM is exact without truncation, never lowers its bound, and needs few densities to reach EM's optimum."""

import numpy as np
import pytest
import torch
from learning.models.random_models import (
    generator_of,
    random_mixture,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
    truncated_log_prob,
)
from learning.toys import pairs_from

from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning import EMConfig, RunOptions
from eim_ros.learning.em import EM, TruncatedEM, TruncatedEMConfig
from eim_ros.learning.em.truncated import TruncatedEMState, select_components
from eim_ros.learning.models import LinearExperts, MixtureOfExperts
from eim_ros.learning.run import Status
from experiments import random_mixture as separated_mixture


def config(**settings) -> TruncatedEMConfig:
    defaults = {
        "n_components": 12,
        "n_iterations": 15,
        "tolerance": 0.0,
        "covariance_floor": 0.0,
        "gating_iterations": 2,
        "search": "partial",
        "n_states": 3,
        "n_neighbours": 4,
        "n_random": 1,
        "n_selected": 5,
    }
    return TruncatedEMConfig(**{**defaults, **settings})


def problem(n_context: int, n_components: int = 12, n: int = 400):
    """Return data and the k-means start."""
    data = pairs_from(random_mixture_of_experts(0, n_components, 2, n_context), n)
    start = EM(EMConfig(n_components=n_components, n_iterations=0)).fit(data, generator=generator_of(3)).model
    return data, start


def mean_log_prob(model: MixtureOfExperts, data, states: torch.Tensor) -> float:
    return float(truncated_log_prob(model, *data, states).mean())


@pytest.mark.parametrize("n_context", [0, 2])
@pytest.mark.parametrize("search", ["full", "partial", "selection", "auto"])
def test_as_many_states_as_components_equal_em(n_context, search):
    data, start = problem(n_context)
    exact = EM(EMConfig(n_components=12, n_iterations=8, tolerance=0.0, covariance_floor=0.0, gating_iterations=2))
    expected = exact.fit(data, start)
    found = TruncatedEM(config(n_states=12, n_iterations=8, search=search)).fit(data, start)
    for name, value in expected.model.tensors().items():
        torch.testing.assert_close(found.model.tensors()[name], value, rtol=1e-10, atol=1e-10)
    values = expected.history.column("log_likelihood")
    np.testing.assert_allclose(found.history.column("free_energy"), values, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("n_context", [0, 2])
@pytest.mark.parametrize("search", ["full", "partial", "selection"])
@pytest.mark.parametrize("n_states", [1, 3])
def test_free_energy_falls_in_neither_half_step(n_context, search, n_states):
    data, start = problem(n_context)
    seen: list[TruncatedEMState] = []
    learner = TruncatedEM(config(search=search, n_states=n_states))
    result = learner.fit(data, start, run=RunOptions(callbacks=[lambda state, record: seen.append(state)]))
    after_e_step = [
        mean_log_prob(model, data, state.states)
        for model, state in zip([start, *(s.model for s in seen[:-1])], seen, strict=True)
    ]
    after_m_step = [mean_log_prob(state.model, data, state.states) for state in seen]
    np.testing.assert_allclose(result.history.column("free_energy"), after_e_step, rtol=0.0, atol=1e-11)
    alternating = np.array([value for pair in zip(after_e_step, after_m_step, strict=True) for value in pair])
    assert np.diff(alternating).min() > -1e-11  # rounding error of means over 400 numbers of about 10
    assert alternating[-1] > alternating[0] + 0.01


@pytest.mark.parametrize("n_context", [0, 2])
def test_free_energy_is_a_lower_bound_and_grows_with_the_number_of_states(n_context):
    data, start = problem(n_context)
    values = [
        TruncatedEM(config(search="full", n_states=n_states, n_iterations=1)).fit(data, start).history.records[0]
        for n_states in range(1, 13)
    ]
    free_energies = [record["free_energy"] for record in values]
    assert np.diff(free_energies).min() >= 0.0
    assert free_energies[0] < free_energies[-1]
    assert free_energies[-1] == pytest.approx(
        float(start.log_prob(*data).mean()), abs=1e-11
    )  # rounding error of the quadratic forms


@pytest.mark.parametrize("n_context", [0, 2])
@pytest.mark.parametrize("candidates", [{"n_neighbours": 12}, {"search": "selection", "n_selected": 12}])
def test_candidates_of_all_components_find_what_full_search_finds(n_context, candidates):
    data, start = problem(n_context)
    full = TruncatedEM(config(search="full", n_iterations=6)).fit(data, start)
    partial = TruncatedEM(config(n_iterations=6, **candidates)).fit(data, start)
    assert torch.equal(partial.state.states, full.state.states)
    for name, value in full.model.tensors().items():
        torch.testing.assert_close(partial.model.tensors()[name], value, rtol=1e-9, atol=1e-9)
    assert set(partial.history.column("joint_evaluations")) == {1.0}


@pytest.mark.parametrize("n_context", [0, 2])
def test_selection_function_is_the_joint_with_one_diagonal_covariance(n_context):
    data, start = problem(n_context)
    deviation = torch.tensor([0.7, 1.3]).double()
    experts = LinearExperts(start.experts.weights, start.experts.biases, torch.diag(deviation).expand(12, 2, 2))
    model = MixtureOfExperts(start.gating, experts)
    found = select_components(model, torch.cat([data[1], data[0]], -1), 4)
    assert torch.equal(found.sort(-1).values, model.log_joint(*data).topk(4, -1).indices.sort(-1).values)


def test_states_are_never_duplicated_and_lists_begin_with_their_component():
    data, start = problem(2)

    def check(state: TruncatedEMState, record) -> None:
        for rows in (state.states, state.neighbours):
            ordered = rows.sort(-1).values
            assert (ordered[:, 1:] > ordered[:, :-1]).all()
        assert torch.equal(state.neighbours[:, 0], torch.arange(12))

    TruncatedEM(config(n_random=3)).fit(data, start, run=RunOptions(callbacks=[check]))


@pytest.mark.parametrize("candidates", [{"n_neighbours": 6}, {"search": "selection", "n_selected": 8}])
def test_few_joints_reach_the_likelihood_of_em(candidates):
    generator = generator_of(1)
    sample = separated_mixture(5, 40, generator).sample(3000, generator)
    exact = EM(EMConfig(n_components=40, n_iterations=25, tolerance=0.0))
    start = EM(EMConfig(n_components=40, n_iterations=0)).fit(sample).model
    found = TruncatedEM(config(n_iterations=25, covariance_floor=1e-6, **candidates)).fit(sample, start)
    expected = exact.fit(sample, start).model.log_prob(sample).mean()
    assert float(found.model.log_prob(sample).mean()) > float(expected) - 0.05
    shares = found.history.column("joint_evaluations")
    assert shares[0] == 1.0
    # of 40 components, a step evaluates at most 3 lists of 6 and a random one, or 3 states, 8 selected and a random one
    assert max(shares[1:]) < 0.45


def test_log_likelihood_is_recorded_where_the_step_was_dense():
    data, start = problem(2)
    records = TruncatedEM(config(n_iterations=3)).fit(data, start).history.records
    assert ["log_likelihood" in record for record in records] == [True, False, False]
    assert records[0]["log_likelihood"] == pytest.approx(
        float(start.log_prob(*data).mean()), abs=1e-11
    )  # rounding error of the quadratic forms
    assert records[0]["free_energy"] < records[0]["log_likelihood"]


@pytest.mark.parametrize(("dense_below", "dense"), [(13, True), (12, False)])
def test_few_components_are_not_truncated(dense_below, dense):
    data, start = problem(2)
    result = TruncatedEM(config(search="auto", dense_below=dense_below, n_iterations=4)).fit(data, start)
    assert all(("log_likelihood" in record) == dense for record in result.history.records[1:])
    assert all((share == 1.0) == dense for share in result.history.column("joint_evaluations")[1:])
    if dense:
        exact = EM(EMConfig(n_components=12, n_iterations=4, tolerance=0.0, covariance_floor=0.0, gating_iterations=2))
        expected = exact.fit(data, start).model.tensors()
        assert all(torch.equal(value, expected[name]) for name, value in result.model.tensors().items())


def test_run_ends_when_the_free_energy_rises_no_more():
    data, start = problem(2)
    result = TruncatedEM(config(n_iterations=500, tolerance=1e-4)).fit(data, start)
    assert result.status is Status.CONVERGED
    rise = np.diff(result.history.column("free_energy"))
    assert rise[-1] < 1e-4 <= rise[:-1].min()


def test_narrow_components_are_searched_as_well():
    sample = random_mixture(9, 12, 2).sample(300, generator_of(10))
    sample[:40] = sample[:1] + 1e-7 * sample[:40]
    result = TruncatedEM(config(covariance_floor=1e-18, n_iterations=20)).fit(sample)
    # rounding error of 1e-16 divided by the squared width, averaged over 300 points
    assert np.diff(result.history.column("free_energy")).min() > -1e-7
    full = TruncatedEM(config(covariance_floor=1e-18, n_iterations=20, search="full")).fit(sample)
    assert result.history.column("free_energy")[-1] > full.history.column("free_energy")[-1] - 0.3


def test_model_that_is_not_linear_is_refused():
    data, _ = problem(1)
    with pytest.raises(DistributionError, match="expected a model with LinearExperts"):
        TruncatedEM(config()).fit(data, random_neural_mixture_of_experts(0, 12, 2, 1))


def test_fewer_points_than_components_are_refused():
    with pytest.raises(DataError, match="12 experts need at least 12 points, got 4"):
        TruncatedEM(config()).fit(torch.randn(4, 2, generator=generator_of(11)))
