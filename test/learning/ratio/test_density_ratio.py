"""Every estimator finds the known density ratio and its gradient, reports on its fit, and can restore its state."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.ratios import MODEL, drawn_at, estimator, exact, exact_gradient, samples

from eim_ros.learning import Pairs
from eim_ros.learning.ratio import DensityRatio
from eim_ros.learning.ratio.density_ratio import OBJECTIVES, report_of

NAMES = ("plug-in", "plug-in of inputs", "residual", "logistic", "kliep", "lsif")
EXACT = ("plug-in", "plug-in of inputs")
every_estimator = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module", params=NAMES)
def trained(request: pytest.FixtureRequest) -> tuple[str, DensityRatio, Pairs, Pairs]:
    data = samples(5000)
    ratio = estimator(request.param, data, initial_epochs=30, batch_size=250, learning_rate=3e-3)
    ratio.fit(data, MODEL, 0, generator_of(4))
    return request.param, ratio, data, drawn_at(data)


def test_log_ratio_of_two_known_gaussians_is_recovered_sign_included(trained):
    """The tolerances allow for the noise of the training.

    The log ratios have standard deviations of 0.57 at the data and 1.35 at samples of the model. For three seeds, the
    root mean square errors were 0.05 to 0.11 at the data and 0.17 to 0.29 at the samples.
    """
    name, ratio, data, drawn = trained
    for pairs, sign, tolerance in ((data, 1.0, 0.17), (drawn, -1.0, 0.45)):
        found, expected = ratio.log_ratio(pairs.context, pairs.sample), exact(pairs.context, pairs.sample)
        assert sign * float(found.mean()) > 0.0  # positive at data, negative at samples of the model
        assert float((found - expected).square().mean().sqrt()) < (1e-12 if name in EXACT else tolerance)


def test_gradient_is_that_of_the_known_ratio(trained):
    name, ratio, data, _ = trained
    expected = exact_gradient(data.context, data.sample)
    found = ratio.gradient(data.context, data.sample)
    assert found.shape == data.sample.shape
    bound = 1e-12 if name in EXACT else 0.4 * float(expected.std())  # three seeds gave factors of 0.15 to 0.25
    assert float((found - expected).square().mean().sqrt()) < bound


def test_gradient_is_the_derivative_of_the_log_ratio(trained):
    _, ratio, data, _ = trained
    context, sample = data.context[:50], data.sample[:50]
    step = 1e-2  # difference quotients of a network, in single precision, have errors of 1e-7/1e-2
    difference = (ratio.log_ratio(context, sample + step) - ratio.log_ratio(context, sample - step)) / (2.0 * step)
    torch.testing.assert_close(ratio.gradient(context, sample)[:, 0], difference, rtol=2e-2, atol=2e-3)


@every_estimator
def test_state_comes_back_from_its_tensors(name):
    data = samples(600)
    ratio = estimator(name, data, initial_epochs=3, dropout=0.2)
    ratio.fit(data, MODEL, 0, generator_of(4))
    saved = {key: value.clone() for key, value in ratio.tensors().items()}
    other = estimator(name, data, seed=30, initial_epochs=3, dropout=0.2)
    other.restore(saved, MODEL, 0)
    assert torch.equal(other.log_ratio(data.context, data.sample), ratio.log_ratio(data.context, data.sample))
    for part in (ratio, other):  # both estimators continue equally
        part.fit(data, MODEL, 1, generator_of(31))
    assert torch.equal(other.log_ratio(data.context, data.sample), ratio.log_ratio(data.context, data.sample))


@every_estimator
def test_data_may_change_from_fit_to_fit(name):
    """If data arrive over time, each fit gets a different number of new pairs."""
    ratio = estimator(name, samples(300), initial_epochs=2)
    for iteration, n in enumerate((300, 700, 50)):
        data = samples(n)
        report = ratio.fit(data, MODEL, iteration, generator_of(iteration))
        assert math.isfinite(report.loss)
        assert not report.collapsed


@every_estimator
@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_pairs_give_a_finite_ratio(name, n):
    data = samples(n)
    ratio = estimator(name, data)
    ratio.fit(data, MODEL, 0, generator_of(4))
    assert torch.isfinite(ratio.log_ratio(data.context, data.sample)).all()
    assert torch.isfinite(ratio.gradient(data.context, data.sample)).all()


@every_estimator
def test_first_pairs_are_for_training_and_reports_are_of_the_rest(name):
    data = samples(1000)
    losses, gradients = [], []
    for change in (0.0, 5.0):  # only held-out data change, so training must be equal
        sample = data.sample.clone()
        sample[900:] += change
        ratio = estimator(name, data, initial_epochs=1, learning_rate=1e-5)
        losses.append(ratio.fit(Pairs(data.context, sample), MODEL, 0, generator_of(6)).loss)
        gradients.append([value for key, value in ratio.tensors().items() if key.endswith("exp_avg")])
    assert losses[0] != losses[1]
    if len(gradients[0]) == len(gradients[1]):  # otherwise, a bad fit went back to the start
        assert all(torch.equal(first, second) for first, second in zip(*gradients, strict=True))


def test_report_estimates_the_kl_and_the_loss(trained):
    name, ratio, data, drawn = trained
    report = ratio.fit(data, MODEL, 1, generator_of(5))
    assert 0.55 < report.accuracy < 1.0
    assert not report.collapsed
    assert not report.rejected
    assert report.network_used is (name not in EXACT)
    phi_p, phi_q = (exact(part.context, part.sample) for part in (data, drawn))
    assert report.ratio_kl == pytest.approx(-float(phi_q.mean()), abs=0.25)  # the error of 500 held-out pairs
    if name in EXACT:
        assert report.ratio_kl_error == pytest.approx(float(phi_q.std()) / 500**0.5, rel=0.2)
    if name in (*EXACT, "residual", "logistic"):
        best = 0.5 * float(torch.nn.functional.softplus(-phi_p).mean() + torch.nn.functional.softplus(phi_q).mean())
        assert report.loss == pytest.approx(best, abs=0.05)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.3, math.nan, math.inf, -math.inf])
def test_constant_or_non_finite_output_is_reported_as_collapsed(value):
    assert report_of(torch.full((5,), value).double(), torch.full((7,), value).double()).collapsed


def test_one_bad_value_is_enough_to_be_collapsed_and_one_other_value_to_be_none():
    phi = torch.zeros(5).double()
    assert report_of(phi, torch.tensor([0.0, math.nan]).double()).collapsed
    assert not report_of(phi, torch.tensor([0.0, 1.0]).double()).collapsed


def test_record_tells_what_happened():
    report = report_of(torch.zeros(2).double(), torch.zeros(2).double(), rejected=True)
    assert report.record() == {
        "loss": pytest.approx(math.log(2.0)), "accuracy": 0.5, "ratio_kl": 0.0, "ratio_kl_error": 0.0,
        "network_used": 0.0, "rejected": 1.0, "skipped": 1.0,
    }  # fmt: skip


every_objective = pytest.mark.parametrize("name", OBJECTIVES)

F = {  # f(t) of the Bregman divergence, and the constant of equation 2.2 that the objective leaves out
    "logistic": (lambda t: t * t.log() - (1.0 + t) * (1.0 + t).log(), 0.0),
    "lsif": (lambda t: 0.5 * (t - 1.0).square(), 0.5),
    "kliep": (lambda t: t * t.log() - t, 0.0),
}


def mean_loss(name: str, phi_p: torch.Tensor, phi_q: torch.Tensor) -> torch.Tensor:
    loss_p, loss_q = OBJECTIVES[name](phi_p, phi_q)
    return loss_p.mean() + loss_q.mean()


@every_objective
def test_objective_is_the_bregman_divergence_of_its_f(name):
    """The reference is E_q[f'(r) r - f(r)] - E_p[f'(r)] (equation 2.2), with f' from automatic differentiation."""
    f, constant = F[name]
    phi_p, phi_q = normal(generator_of(0), 20), normal(generator_of(1), 30)
    r_p, r_q = (phi.exp().requires_grad_(True) for phi in (phi_p, phi_q))
    (slope_p,) = torch.autograd.grad(f(r_p).sum(), r_p)
    (slope_q,) = torch.autograd.grad(f(r_q).sum(), r_q)
    expected = (slope_q * r_q - f(r_q)).mean() - slope_p.mean()
    # lsif: f'(r) r - f(r) = (r^2 - 1)/2 and f'(r) = r - 1
    torch.testing.assert_close(mean_loss(name, phi_p, phi_q) + constant, expected.detach(), rtol=1e-12, atol=1e-12)


@every_objective
def test_minimiser_over_a_constant_per_bin_is_the_log_ratio(name):
    """The first of two bins has 30 of 42 and 10 of 70 samples. The ratios are (30/42)/(10/70) and (12/42)/(60/70)."""
    bins_p = torch.tensor([0] * 30 + [1] * 12)
    bins_q = torch.tensor([0] * 10 + [1] * 60)
    phi = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [phi], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-12, tolerance_change=0.0
    )

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = mean_loss(name, phi[bins_p], phi[bins_q])
        loss.backward()
        return loss

    optimiser.step(closure)
    expected = torch.tensor([math.log((30 / 42) / (10 / 70)), math.log((12 / 42) / (60 / 70))]).double()
    torch.testing.assert_close(phi.detach(), expected, rtol=0.0, atol=1e-6)


def test_only_the_logistic_loss_survives_a_large_ratio_in_single_precision():
    large = torch.tensor([60.0, -60.0])
    assert all(torch.isfinite(part).all() for part in OBJECTIVES["logistic"](large, large))
    assert torch.isinf(OBJECTIVES["lsif"](large, large)[1]).any()
    assert torch.isinf(OBJECTIVES["kliep"](2.0 * large, 2.0 * large)[1]).any()
    leaf = torch.tensor([-60.0], requires_grad=True)
    OBJECTIVES["logistic"](leaf, torch.zeros(1))[0].sum().backward()
    assert float(leaf.grad) == -1.0  # log(sigmoid(phi) + 1e-12) would lose this gradient
