"""First guesses of users of scikit-learn, torch.distributions and gmmvi run.

A guess that means nothing in this package raises an error that names the correct spelling.
"""

import copy

import numpy as np
import pytest
import torch
from torch.distributions import Distribution, Gamma, Independent, MultivariateNormal, Normal

from eim_ros.core.errors import EimError
from eim_ros.learning import EIM, EM, GMMVI, EMConfig, FittedModel, RunOptions, random_start
from eim_ros.learning.models import Gaussian, GaussianMixture, entropy, kl_divergence

KINDS = {"full": "full", "diag": "diagonal", "tied": "tied", "spherical": "spherical"}
SHORT = {"n_components": 2, "n_iterations": 20, "n_samples": 20, "adaptation.add_every": 0}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def two_groups(n: int = 200) -> np.ndarray:
    """Return points (n, 2) around (0, 0) and (6, 6). The two coordinates have different variances."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) * [1.0, 0.5] + 6.0 * (np.arange(n) < n // 3)[:, None]


def example_mixture():
    return GaussianMixture.from_covariances([0.3, 0.7], [[0.0, 0.0], [4.0, 0.0]], [np.eye(2), [[1.0, 0.5], [0.5, 2.0]]])


# Guesses by users of scikit-learn.


@pytest.mark.parametrize("kind", KINDS)
def test_covariance_type_means_what_it_means_in_scikit_learn(kind):
    mixture = pytest.importorskip("sklearn.mixture")
    from eim_ros.learning.sklearn import EMMixture

    data = two_groups()
    ours = EMMixture(2, covariance_type=kind, tol=1e-9, random_state=0).fit(data)
    theirs = mixture.GaussianMixture(2, covariance_type=kind, tol=1e-9, random_state=0).fit(data)
    assert ours.covariances_.shape == theirs.covariances_.shape
    assert ours.score(data) == pytest.approx(theirs.score(data), abs=1e-5)
    assert ours.bic(data) == pytest.approx(theirs.bic(data), rel=1e-5)
    assert ours.aic(data) == pytest.approx(theirs.aic(data), rel=1e-5)


def test_bic_selects_the_number_of_components():
    data = two_groups()
    fits = [EM(n_components=n, n_starts=2, seed=0).fit(data) for n in (1, 2, 3)]
    assert min(fits, key=lambda fit: fit.bic(data)).n_components == 2
    assert min(fits, key=lambda fit: fit.aic(data)).n_components >= 2


def test_verbose_prints_the_progress(capsys):
    pytest.importorskip("sklearn")
    from eim_ros.learning.sklearn import EMMixture

    EMMixture(2, verbose=1, random_state=0).fit(two_groups())
    assert "log_likelihood" in capsys.readouterr().out


def test_setting_that_is_a_parameter_of_the_estimator_is_refused_by_name():
    pytest.importorskip("sklearn")
    from eim_ros.learning.sklearn import EIMMixture, EMMixture

    with pytest.raises(ValueError, match="n_iterations; give it as the parameter max_iter"):
        EIMMixture(2, settings={"n_iterations": 2}).fit(two_groups())
    with pytest.raises(ValueError, match="tolerance; give it as the parameter tol"):
        EMMixture(2, settings={"tolerance": 2}).fit(two_groups())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("GaussianMixture", r"it is eim_ros\.learning\.models\.GaussianMixture"),
        ("GMMVi", "did you mean GMMVI"),
    ],
)
def test_import_of_a_name_from_elsewhere_is_refused_with_what_to_import(name, hint):
    with pytest.raises(ImportError, match=f"cannot import name '{name}'.*{hint}"):
        exec(f"from eim_ros.learning import {name}")


GUESSES = [
    ("EM(n_components=np.int64(2), seed=np.int64(3), tolerance=np.float32(1e-3)).fit(data)", None),
    ("EM(n_components=2).fit(data, start=EM(n_components=2).fit(data))", None),
    ("EM(n_components=2).fit(data.astype(np.float32)).score(torch.as_tensor(data, dtype=torch.float32))", None),
    ("EM(n_components=2).fit(data.tolist()).sample((10,))", None),
    ("copy.deepcopy(EM(n_components=2)).fit(data)", None),
    ("EM(n_components=2, covariance='diagonal').fit(data)", None),
    ("EM(n_components=2).fit(data[:, :1])", None),
    ("EM(n_components=2).fit(data[:, 0])", r"reshape\(-1, 1\)"),
    (
        "EM(n_components=2, covariance_type='diag')",
        "unknown setting covariance_type; in this package it is called covariance",
    ),
    ("EIM(max_iter=3)", "unknown setting max_iter; in this package it is called n_iterations"),
    ("GMMVI(bowl, random_state=3)", "unknown setting random_state; in this package it is called seed"),
    ("EM(n_components=2, verbose=True)", r"run=RunOptions\(verbose=True\)"),
    ("EM(n_components=2, means_init=data[:2])", r"fit\(data, start=\.\.\.\)"),
    ("EM(n_components=2).fit(data, callback=print)", r"'callback'.*did you mean run=RunOptions\(callbacks=\[...\]\)"),
    ("EIM(n_components=2).fit(data, sample_weight=data[:, 0])", "rows of the data in proportion to their weights"),
    ("EIM(n_components=2).fit(data, validation_data=data)", r"ratio\.validation_share"),
    ("EM(n_components=2).fit()", "no data were given"),
    ("EM(n_components=2).fit(data, seed=3)", "'seed', only .*; did you mean a seed of the learner"),
    ("EM(n_components=2).fit(data).sample(num_samples=3)", "'num_samples', only n, generator; did you mean n?"),
    ("EMConfig(n_experts=3)", "EMConfig has no keyword 'n_experts', .* did you mean n_components?"),
    ("example_mixture().log_prob(value=data)", "'value', only sample; did you mean sample?"),
    ("EM(n_components=2).predict(data)", "'EM' object has no attribute 'predict'"),
    ("EM(num_components=3, lr=2)", "n_components"),
    ("EM(2)", "as in n_components=10, or an object of EMConfig"),
    ("EM(n_components=2, checkpoint='run')", r"RunOptions\(checkpoint=\.\.\.\)"),
    ("EM(n_components=2, device='cuda')", r"generator=torch\.Generator\(device\)"),
    ("EIM(dim=2)", "random_start"),
    ("GMMVI(bowl, dim=2)", r"GMMVI\(target, n_dims=2\)"),
    ("GMMVI(bowl, n_dims=2, **SHORT).fit()", None),
    ("GMMVI(bowl, n_dims=3, **SHORT).fit(start=start)", "start has 2 dimensions, but the target has 3"),
    ("GMMVI(example_mixture(), n_dims=3)", "n_dims is 3, but the target has 2 dimensions"),
    ("GMMVI(bowl, n_dims=0)", "n_dims must be a whole number of at least 1"),
    ("GMMVI(bowl, num_dimensions=2)", r"GMMVI\(target, n_dims=2\)"),
    ("EIM(n_experts=4)", "unknown setting n_experts; in this package it is called n_components"),
    ("GMMVI(bowl, **SHORT).fit(start=start)", None),
    (
        "GMMVI(bowl, **SHORT).fit()",
        r"GMMVI\(target, n_dims=2\), or .* fit\(start=random_start\(n_dims=2, n_components=2\)\)",
    ),
    ("GMMVI(Normal(torch.zeros(2), torch.ones(2)), **SHORT).fit()", r"torch\.distributions\.Independent"),
    ("GMMVI(Unnamed(), **SHORT).fit()", "object with log_prob"),
    ("GMMVI(bowl, 'samtron')", r"GMMVIConfig\.named"),
    ("GMMVI(lambda x: -x.square().sum(), **SHORT).fit(start=start)", r"torch\.vmap\(target\)"),
    ("GMMVI(torch.vmap(lambda x: -x.square().sum()), **SHORT).fit(start=start)", None),
    ("GMMVI(lambda x: -(x.numpy() ** 2).sum(-1), **SHORT).fit(start=start)", "natural_gradient='more'"),
    ("GMMVI(lambda x: -(x.numpy() ** 2).sum(-1), natural_gradient='more', **SHORT).fit(start=start)", None),
    ("GMMVI(MultivariateNormal(torch.zeros(2), torch.eye(2)), **SHORT).fit(data)", "does not depend on contexts"),
]


class Unnamed:
    """Target with the interface of gmmvi."""

    def log_density(self, x):
        return -0.5 * x.square().sum(-1)


@pytest.mark.parametrize(("guess", "hint"), GUESSES, ids=[guess for guess, _ in GUESSES])
def test_guess_runs_or_is_refused_with_the_remedy(guess, hint):
    names = {
        "copy": copy,
        "EIM": EIM,
        "EMConfig": EMConfig,
        "data": two_groups(),
        "start": random_start(n_dims=2, n_components=2),
    }
    names["bowl"] = lambda x: -x.square().sum(-1)
    if hint is None:
        eval(guess, globals() | names)
    else:
        with pytest.raises((EimError, AttributeError, TypeError), match=hint):
            eval(guess, globals() | names)


# Guesses by users of torch.distributions.


def test_models_are_distributions_of_torch():
    mixture = example_mixture()
    assert isinstance(mixture, Distribution)
    assert isinstance(Gaussian([0.0], [[1.0]]), Distribution)
    assert (mixture.batch_shape, mixture.event_shape) == ((), (2,))
    torch.testing.assert_close(mixture.variance, torch.tensor([1.0 + 0.21 * 16.0, 1.7]).double())
    torch.testing.assert_close(mixture.stddev, mixture.variance.sqrt())
    assert bool(mixture.support.check(mixture.mean))


def test_sample_takes_a_shape_as_in_torch():
    mixture = example_mixture()
    assert mixture.sample().shape == (2,)
    assert mixture.sample((5, 4)).shape == mixture.sample(sample_shape=torch.Size((5, 4))).shape == (5, 4, 2)
    assert mixture.components.rsample(sample_shape=(3,)).shape == (3, 2, 2)


def test_entropy_is_estimated_by_monte_carlo():
    narrow = GaussianMixture([0.0, 0.0], [[-50.0], [50.0]], [[[1.0]], [[1.0]]])
    exact = Gaussian([0.0], [[1.0]]).entropy() + np.log(2.0)
    # log q has a standard deviation of 0.7, so the standard error for 10000 samples is 0.007
    assert float(narrow.entropy(n_samples=10_000, generator=seeded())) == pytest.approx(float(exact), abs=0.03)
    assert narrow.expand((3,)).entropy().shape == (3,)


def test_mode_is_the_highest_point_of_the_density():
    mixture = example_mixture()
    grid = torch.cartesian_prod(*2 * [torch.linspace(-2.0, 6.0, 161, dtype=torch.float64)])
    assert mixture.log_prob(mixture.mode) >= mixture.log_prob(grid).max()
    assert mixture.expand((2, 3)).mode.shape == (2, 3, 2)


def test_expand_repeats_a_distribution():
    sample = torch.zeros(3, 2, dtype=torch.float64)
    for model in (example_mixture(), Gaussian([1.0, 2.0], np.eye(2))):
        expanded = model.expand((3,))
        assert expanded.batch_shape == (3,)
        torch.testing.assert_close(expanded.log_prob(sample), model.log_prob(sample))
        assert float(Independent(expanded, 1).log_prob(sample)) == pytest.approx(3.0 * float(model.log_prob(sample[0])))


def test_kl_divergence_of_torch_has_the_closed_forms():
    first, second = (
        Gaussian([0.0, 0.0], np.eye(2)),
        MultivariateNormal(torch.ones(2).double(), 2.0 * torch.eye(2).double()),
    )
    expected = torch.distributions.kl_divergence(MultivariateNormal(first.mean, first.covariance), second)
    ours = Gaussian(second.loc, second.scale_tril)
    for p, q in ((first, second), (first, ours)):
        torch.testing.assert_close(torch.distributions.kl_divergence(p, q), expected)
    with pytest.raises(NotImplementedError, match=r"eim_ros\.learning\.models\.kl_divergence"):
        torch.distributions.kl_divergence(example_mixture(), first)


def test_kl_divergence_and_entropy_need_only_the_models():
    torch.manual_seed(0)
    mixture = example_mixture()
    assert kl_divergence(mixture, mixture).value == 0.0
    # ten standard errors of both estimates
    assert entropy(mixture).value == pytest.approx(float(mixture.entropy()), abs=0.2)


def test_arrays_are_evaluated_by_a_fitted_model():
    mixture, data = example_mixture(), two_groups()
    scores = FittedModel.of(mixture).score_samples(data)
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, mixture.log_prob(torch.as_tensor(data)))
    with pytest.raises(EimError, match=r"torch\.as_tensor.*FittedModel\.of"):
        mixture.log_prob(data)


# Guesses by users of gmmvi.


@pytest.mark.parametrize(
    "target",
    [
        MultivariateNormal(torch.zeros(2), torch.eye(2)),
        Independent(Normal(torch.zeros(3), torch.ones(3)), 1),
        Normal(0.0, 1.0),
        Gamma(2.0, 1.0),
        Independent(Gamma(torch.ones(2), torch.ones(2)), 1),
    ],
    ids=["normal", "independent", "scalar", "half-line", "quadrant"],
)
def test_distribution_of_torch_is_a_target_without_a_start(target):
    before = torch.random.get_rng_state()
    fit = GMMVI(target, seed=0, **SHORT).fit()
    assert fit.n_dims == max(1, sum(target.event_shape))
    assert torch.equal(torch.random.get_rng_state(), before)


# Runs


def test_callback_that_returns_true_stops_the_run():
    stop = RunOptions([lambda state, record: state.iteration == 3])
    fit = EM(n_components=2, tolerance=0.0, seed=0).fit(two_groups(), run=stop)
    assert (fit.status, fit.state.iteration) == ("stopped", 3)


def test_validation_data_stop_a_fit_early_at_the_best_model():
    rng = np.random.default_rng(0)
    data, held_out = rng.normal(size=(60, 3)), rng.normal(size=(500, 3))
    fit = EM(n_components=8, tolerance=0.0, patience=3, seed=0).fit(data, validation_data=held_out)
    column = fit.history.column("validation_log_likelihood")
    assert fit.status == "converged"
    assert len(column) == int(np.argmax(column)) + 1 + 3
    assert fit.score(held_out) == pytest.approx(max(column))
