"""Table 2.1 is consistent. With a free v in each of five states, the losses of each game have the predicted minima."""

import itertools

import pytest
import torch

from experiments.baselines import DIVERGENCES, b_gan, f_gan, gan, wgan, wgan_gp

P = torch.tensor([1, 1, 2, 4, 8])  # number of samples in each state
Q = torch.tensor([4, 4, 4, 2, 2])
LOG_RATIO = (P / Q).double().log()
PAIRS = list(itertools.product(DIVERGENCES, DIVERGENCES))


def optimum(game):
    """Return the v at each state that minimises the loss of the discriminator."""
    v = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [v], max_iter=500, tolerance_grad=1e-12, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        loss = game.discriminator_loss(v.repeat_interleave(P), v.repeat_interleave(Q))
        loss.backward()
        return loss

    optimiser.step(closure)
    return v.detach()


def test_discriminator_of_a_gan_finds_the_log_ratio():
    torch.testing.assert_close(optimum(gan()), LOG_RATIO, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_discriminator_of_an_f_gan_finds_the_derivative_and_its_bound_is_the_divergence(name):
    divergence = DIVERGENCES[name]
    game = f_gan(divergence)
    v = optimum(game)
    torch.testing.assert_close(divergence.output(v), divergence.derivative(LOG_RATIO), rtol=0.0, atol=1e-5)
    bound = -float(game.discriminator_loss(v.repeat_interleave(P), v.repeat_interleave(Q)))
    exact = float((Q / 16 * divergence.value(LOG_RATIO)).sum())
    assert bound == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(("of_ratio", "of_model"), PAIRS, ids=map("-".join, PAIRS))
def test_ratio_of_a_b_gan_is_the_true_one_and_its_model_has_the_divergence(of_ratio, of_model):
    game = b_gan(DIVERGENCES[of_ratio], DIVERGENCES[of_model])
    v = optimum(game)
    torch.testing.assert_close(v, LOG_RATIO, rtol=0.0, atol=1e-5)
    exact = float((Q / 16 * DIVERGENCES[of_model].value(LOG_RATIO)).sum())
    assert float(game.generator_loss(v.repeat_interleave(Q))) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("game", [wgan(0.01, 5), wgan_gp(10.0, 5)])
def test_critics_score_data_above_samples_of_the_model(game):
    high, low = torch.full((3,), 2.0), torch.full((3,), -1.0)
    assert float(game.discriminator_loss(high, low)) == -3.0
    assert float(game.generator_loss(low)) == 1.0


LOG_T = torch.linspace(-2.0, 2.0, 41, dtype=torch.float64)
NAMED = pytest.mark.parametrize("divergence", DIVERGENCES.values(), ids=DIVERGENCES.keys())
FORMULAS = {
    "m-projection": lambda t: t * t.log(),
    "i-projection": lambda t: -t.log(),
    "jensen": lambda t: -(t + 1.0) * ((1.0 + t) / 2.0).log() + t * t.log(),
    "pearson": lambda t: (t - 1.0) ** 2,
}


@pytest.mark.parametrize("name", DIVERGENCES)
def test_value_and_derivative_are_those_of_the_thesis(name):
    t = LOG_T.exp().requires_grad_(True)
    value = FORMULAS[name](t)
    (slope,) = torch.autograd.grad(value.sum(), t)
    torch.testing.assert_close(DIVERGENCES[name].value(LOG_T), value.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(DIVERGENCES[name].derivative(LOG_T), slope, rtol=1e-12, atol=1e-12)


@NAMED
def test_conjugate_is_the_supremum_and_is_reached_at_the_derivative(divergence):
    """The conjugate is f*(t) = sup_u u t - f(u). The supremum is reached at t = f'(u)."""
    t = divergence.derivative(LOG_T)
    at = LOG_T.exp() * t - divergence.value(LOG_T)
    torch.testing.assert_close(divergence.conjugate(t), at, rtol=1e-10, atol=1e-12)
    others = torch.linspace(-4.0, 4.0, 201, dtype=torch.float64)
    reached = others.exp() * t.unsqueeze(-1) - divergence.value(others)
    assert bool((reached <= at.unsqueeze(-1) + 1e-9).all())


@NAMED
def test_penalty_is_the_conjugate_of_the_output(divergence):
    v = LOG_T[LOG_T.abs() < 1.9]
    torch.testing.assert_close(
        divergence.penalty(v), divergence.conjugate(divergence.output(v)), rtol=1e-10, atol=1e-12
    )
