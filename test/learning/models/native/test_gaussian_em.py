"""Compiled EM and k-means agree with their definitions in SciPy and NumPy."""

import numpy as np
import pytest
from learning.models.native.forms import compiled_for, each_instruction_set, laid_out_otherwise
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


def problem(n: int, d: int, k: int, scale: float = 1.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the arguments of `em_step` for random points and components."""
    generator = np.random.default_rng(seed)
    units = scale * np.linspace(1.0, 3.0, d)
    factors = np.tril(0.2 * generator.normal(size=(k, d, d)), -1) + np.eye(d)
    return {
        "points": units[:, None] * generator.normal(size=(d, n)) + 10.0 * scale,
        "weight": generator.uniform(0.5, 1.5, size=n),
        "log_weights": generator.normal(size=k),
        "means": units * generator.normal(size=(k, d)) + 10.0 * scale,
        "factors": factors * units[:, None],
        "units": units,
    }


def by_definition(points, weight, log_weights, means, factors, units):
    """Return log-likelihood, weights, means and covariances after one iteration, computed by SciPy and NumPy."""
    weight = np.ones(points.shape[1]) if weight is None else weight
    log_joint = [
        w + multivariate_normal(mean, factor @ factor.T).logpdf(points.T)
        for w, mean, factor in zip(log_weights - logsumexp(log_weights), means, factors, strict=True)
    ]
    log_prob = logsumexp(log_joint, 0)
    shares = np.exp(log_joint - log_prob) * weight
    means = shares @ points.T / shares.sum(1, keepdims=True)
    covariances = [np.cov(points, aweights=share, bias=True).reshape(2 * (len(points),)) for share in shares]
    return np.mean(log_prob * weight), shares.sum(1) / shares.sum(), means, np.array(covariances)


@each_instruction_set
@pytest.mark.parametrize(("n", "d", "k"), [(7, 1, 1), (40, 2, 3), (100, 5, 4), (333, 3, 9)])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_step_is_an_iteration_of_em(instruction_set, n, d, k, scale, weighted):
    arguments = problem(n, d, k, scale) | ({} if weighted else {"weight": None})
    found, log_weights, means, factors = compiled_for(instruction_set).em_step(**arguments, floor=1e-6)
    log_likelihood, weights, expected_means, covariances = by_definition(**arguments)
    assert found == pytest.approx(log_likelihood, rel=1e-11)
    np.testing.assert_allclose(np.exp(log_weights), weights, rtol=1e-10)
    np.testing.assert_allclose(means, expected_means, rtol=1e-11)
    # the reference loses digits, because it subtracts means of 10 standard deviations
    np.testing.assert_allclose(factors @ factors.mT, covariances, rtol=1e-9, atol=1e-11 * scale**2)
    assert np.array_equal(factors, np.tril(factors))


@each_instruction_set
def test_step_of_a_narrow_component_far_from_the_origin_is_exact(instruction_set):
    arguments = problem(50, 2, 1)
    offset, narrow = 1e3, 1e-6
    arguments["points"] = offset + narrow * (arguments["points"] - 10.0)
    arguments |= {"means": np.full((1, 2), offset), "factors": narrow * np.eye(2)[None], "units": np.full(2, narrow)}
    factor = compiled_for(instruction_set).em_step(**arguments, floor=1e-6)[3][0]
    covariance = by_definition(**arguments)[3][0]
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-6)  # rounding of points is 1e-7 of their spread


@each_instruction_set
@pytest.mark.parametrize(
    "change",
    [
        {"floor": 1e3},
        {"means": np.full((3, 2), 1e200)},
        {"points": np.ones((2, 40))},
        {"points": np.full((2, 40), np.nan)},
    ],
    ids=["below the floor", "no density", "singular", "not finite"],
)
def test_step_returns_nothing_where_it_has_no_result(instruction_set, change):
    assert compiled_for(instruction_set).em_step(**({"floor": 1e-6} | problem(40, 2, 3) | change)) is None


@each_instruction_set
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d", "k"), [(7, 1, 7), (100, 3, 1), (333, 2, 12)])
def test_labels_are_those_of_lloyds_iterations(instruction_set, n, d, k, weighted):
    generator = np.random.default_rng(0)
    points = generator.normal(size=(d, n))
    weight = generator.uniform(0.5, 1.5, n) if weighted else None
    uniform = generator.uniform(size=k)
    module = compiled_for(instruction_set)
    labels = module.k_means(points, weight, uniform, 0)
    for n_iterations in (1, 2):
        mass = np.ones(n) if weight is None else weight
        centers = np.array([np.average(points[:, labels == c], axis=1, weights=mass[labels == c]) for c in range(k)])
        labels = np.linalg.norm(points.T[:, None] - centers, axis=-1).argmin(1)
        assert np.array_equal(module.k_means(points, weight, uniform, n_iterations), labels)


@each_instruction_set
def test_arrays_may_be_laid_out_in_any_way(instruction_set):
    module, arguments = compiled_for(instruction_set), problem(40, 2, 3)
    expected, uniform = module.em_step(**arguments, floor=1e-6), np.linspace(0.1, 0.9, 4)
    labels = module.k_means(arguments["points"], arguments["weight"], uniform, 5)
    for name, array in arguments.items():
        for other in laid_out_otherwise(array).values():
            found = module.em_step(**arguments | {name: other}, floor=1e-6)
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    for points in laid_out_otherwise(arguments["points"]).values():
        assert np.array_equal(module.k_means(points, arguments["weight"], uniform, 5), labels)


@each_instruction_set
def test_arrays_that_do_not_belong_together_are_refused(instruction_set):
    module, arguments = compiled_for(instruction_set), problem(40, 2, 3)
    with pytest.raises(ValueError, match=r"means must be \(3, 2\)"):
        module.em_step(**arguments | {"means": np.ones((2, 2))}, floor=1e-6)
    with pytest.raises(ValueError, match=r"weight must be \(40\)"):
        module.k_means(arguments["points"], np.ones(39), np.ones(2), 1)
    with pytest.raises(ValueError, match="points must be float64"):
        module.em_step(**arguments | {"points": np.ones((2, 40), np.float32)}, floor=1e-6)
    with pytest.raises(ValueError, match="must not be empty"):
        module.k_means(arguments["points"], None, np.ones(0), 1)
