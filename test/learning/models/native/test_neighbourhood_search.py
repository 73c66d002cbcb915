"""The compiled partial E-step agrees with NumPy's search among the same candidates, and refuses bad arrays."""

import numpy as np
import pytest
from learning.models.native.forms import Forms, each_instruction_set, laid_out_otherwise, products
from scipy.special import logsumexp, softmax

N_COMPONENTS, N_POINTS = 15, 80


def lists(n_states: int, n_neighbours: int, n_random: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distinct states, lists of neighbours that begin with the component itself, and random components."""
    generator = np.random.default_rng(4)
    states = np.argsort(generator.random((N_POINTS, N_COMPONENTS)), axis=1)[:, :n_states]
    order = generator.random((N_COMPONENTS, N_COMPONENTS))
    np.fill_diagonal(order, -1.0)
    random = generator.integers(N_COMPONENTS, size=(N_POINTS, n_random))
    return np.ascontiguousarray(states), np.argsort(order, axis=1)[:, :n_neighbours].copy(), random


def expected_step(forms: Forms, joint, states, neighbours, random):
    """Return the results of `improve_states`, computed for one point after the other."""
    values, n_states = forms.values(joint), states.shape[1]
    candidates = [
        np.unique(np.concatenate([own, neighbours[own].ravel(), others]))
        for own, others in zip(states, random, strict=True)
    ]
    improved = np.array([c[np.argsort(-v[c])][:n_states] for c, v in zip(candidates, values, strict=True)])
    kept = np.take_along_axis(values, improved, 1)
    shares = np.zeros_like(values)
    np.put_along_axis(shares, improved, softmax(kept, axis=1), 1)
    refreshed = neighbours.copy()
    for c in range(N_COMPONENTS):
        own = [i for i in range(N_POINTS) if states[i, 0] == c]
        seen = {k for i in own for k in candidates[i]}
        if len(seen) < neighbours.shape[1]:
            continue
        below = {k: np.mean([values[i, k] - values[i, c] for i in own if k in candidates[i]]) for k in seen}
        below[c] = np.inf
        refreshed[c] = sorted(below, key=lambda k: -below[k])[: neighbours.shape[1]]
    n_evaluations = sum(map(len, candidates))
    return improved, refreshed, shares.T @ products(joint), logsumexp(kept, axis=1).sum(), n_evaluations


@each_instruction_set
@pytest.mark.parametrize("n_narrow", [0, 4])
@pytest.mark.parametrize(("n_states", "n_neighbours", "n_random"), [(3, 4, 1), (1, 1, 0), (2, 5, 3), (15, 15, 2)])
def test_step_is_that_of_numpy(instruction_set, n_narrow, n_states, n_neighbours, n_random):
    forms = Forms.random(N_COMPONENTS, 3, 2, n_narrow)
    joint, arrays = forms.points(N_POINTS), lists(n_states, n_neighbours, n_random)
    found = forms.compiled(instruction_set).improve_states(joint, *arrays)
    expected = expected_step(forms, joint, *arrays)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-10, atol=1e-12)
    assert found[3] == pytest.approx(expected[3], rel=1e-12)
    assert found[4] == expected[4]


@each_instruction_set
def test_arguments_are_left_as_they_were_and_may_lie_in_any_way(instruction_set):
    forms = Forms.random(N_COMPONENTS, 3, 2, 4)
    compiled = forms.compiled(instruction_set)
    arrays = [forms.points(N_POINTS), *lists(3, 4, 1)]
    before = [array.copy() for array in arrays]
    expected = compiled.improve_states(*arrays)
    assert all(map(np.array_equal, arrays, before))
    for layout in laid_out_otherwise(arrays[0]):
        found = compiled.improve_states(*(laid_out_otherwise(array)[layout] for array in arrays))
        assert all(map(np.array_equal, found, expected)), layout


@each_instruction_set
def test_no_points_leave_the_lists_and_give_no_products(instruction_set):
    forms = Forms.random(N_COMPONENTS, 3, 2)
    _, neighbours, _ = lists(3, 4, 1)
    empty = np.empty((0, 3), np.int64), neighbours, np.empty((0, 1), np.int64)
    states, refreshed, sums, free, n_evaluations = forms.compiled(instruction_set).improve_states(
        np.empty((0, 5)), *empty
    )
    assert states.shape == (0, 3)
    assert np.array_equal(refreshed, neighbours)
    assert not sums.any()
    assert (free, n_evaluations) == (0.0, 0)


@each_instruction_set
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_point_that_is_not_finite_makes_the_free_energy_so(instruction_set, bad):
    forms = Forms.random(N_COMPONENTS, 3, 2)
    joint = forms.points(N_POINTS)
    joint[7, 2] = bad
    states, refreshed, _, free, _ = forms.compiled(instruction_set).improve_states(joint, *lists(3, 4, 1))
    assert not np.isfinite(free)
    for found in (states, refreshed):
        assert ((found >= 0) & (found < N_COMPONENTS)).all()


@each_instruction_set
def test_states_with_duplicates_stay_within_their_arrays(instruction_set):
    forms = Forms.random(N_COMPONENTS, 3, 2)
    _, neighbours, random = lists(3, 4, 1)
    repeated = np.full((N_POINTS, 20), 2)
    found = forms.compiled(instruction_set).improve_states(forms.points(N_POINTS), repeated, neighbours, random)
    assert ((found[0] >= 0) & (found[0] < N_COMPONENTS)).all()


@each_instruction_set
@pytest.mark.parametrize("position", [1, 2, 3])
@pytest.mark.parametrize("bad", [-1, N_COMPONENTS, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_component_that_does_not_exist_is_refused(instruction_set, position, bad):
    forms = Forms.random(N_COMPONENTS, 3, 2)
    arrays = [forms.points(N_POINTS), *lists(3, 4, 1)]
    arrays[position][-1, -1] = bad
    name = ("joint", "states", "neighbours", "random")[position]
    with pytest.raises(ValueError, match=f"{name} must be from 0 to 14"):
        forms.compiled(instruction_set).improve_states(*arrays)


@each_instruction_set
@pytest.mark.parametrize(
    ("position", "wrong", "message"),
    [
        (0, np.zeros((N_POINTS, 4)), r"joint must be \(any, 5\)"),
        (0, np.zeros((N_POINTS, 5), np.float32), "joint must be float64"),
        (1, np.zeros((N_POINTS - 1, 3), np.int64), r"states must be \(80, any\)"),
        (1, np.zeros(N_POINTS, np.int64), "states must be"),
        (1, np.zeros((N_POINTS, 0), np.int64), "states and neighbours must have columns"),
        (1, np.zeros((N_POINTS, 3)), "states must be int64"),
        (2, np.zeros((N_COMPONENTS - 1, 4), np.int64), r"neighbours must be \(15, any\)"),
        (2, np.zeros((N_COMPONENTS + 1, 4), np.int64), "neighbours must be"),
        (2, np.zeros((N_COMPONENTS, 0), np.int64), "states and neighbours must have columns"),
        (3, np.zeros((N_POINTS + 1, 1), np.int64), r"random must be \(80, any\)"),
        (3, np.zeros((N_POINTS, 1), np.int32), "random must be int64"),
    ],
)
def test_array_of_another_shape_or_type_is_refused(instruction_set, position, wrong, message):
    forms = Forms.random(N_COMPONENTS, 3, 2)
    arrays = [forms.points(N_POINTS), *lists(3, 4, 1)]
    arrays[position] = wrong
    with pytest.raises(ValueError, match=message):
        forms.compiled(instruction_set).improve_states(*arrays)
