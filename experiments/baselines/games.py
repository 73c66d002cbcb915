"""Adversarial training of Gaussian mixtures: a discriminator and the mixture take gradient steps in turn.

A game defines the losses as functions of the network's output v at samples of the data p and of the model q.

    GAN discriminator: cross entropy of sigmoid(v); generator: -log sigmoid(v) (Goodfellow et al. 2014)
    f-GAN    max over v, min over the model of E_p[g(v)] - E_q[f*(g(v))] (Nowozin et al. 2016)
    WGAN     max over v, min over the model of E_p[v] - E_q[v], weights clipped to a box (Arjovsky et al. 2017)
    WGAN-GP  WGAN with a penalty on the slope of v instead of the box (Gulrajani et al. 2017)
    b-GAN    v = log r minimises a Bregman divergence to the true ratio (thesis 2.2), the model E_q[f(r)]
             (Uehara et al. 2016); f of the ratio and f of the model may differ (Poole et al. 2016)

For fixed weights, f-GAN with the I-projection has the same objective as EIM. Only the optimisation differs.

The model's step size falls linearly to zero (Gulrajani et al. 2017). With a constant step size, the two players circle
each other, and a model near the data moves away again.

f-divergences are D_f(p || q) = E_q[f(t)] with t = p/q (thesis table 2.1). The code takes log t as input.

    name          f(t)                                  conjugate f*(t)       output g(v)
    m-projection  t log t                               exp(t - 1)            v
    i-projection  -log t                                -1 - log(-t)          -exp(-v)
    jensen        -(t + 1) log((1 + t)/2) + t log t     -log(2 - exp t)       log 2 - log(1 + exp(-v))
    pearson       (t - 1)^2                             t^2/4 + t             v

D_f is the supremum over T of E_p[T] - E_q[f*(T)] (thesis 2.5). The supremum is reached at T = f'(p/q). f-GAN sets T =
g(v).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.ratio.network import Dropout, ratio_network
from experiments.baselines.networks import MixtureParameters
from experiments.baselines.others import WeightLearning

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FDivergence:
    """Functions that define an f-divergence. The functions act elementwise on tensors of any shape.

    Attributes
    ----------
    value : callable
        f(exp l) as a function of l = log p/q.
    derivative : callable
        f'(exp l) as a function of l.
    conjugate : callable
        f*(t) as a function of t.
    output : callable
        g(v) as a function of v.
    penalty : callable
        f*(g(v)) as a function of v, in a form that overflows only if the result does.
    """

    value: Function
    derivative: Function
    conjugate: Function
    output: Function
    penalty: Function


DIVERGENCES = {
    "m-projection": FDivergence(
        value=lambda log_t: log_t.exp() * log_t,
        derivative=lambda log_t: 1.0 + log_t,
        conjugate=lambda t: (t - 1.0).exp(),
        output=lambda v: v,
        penalty=lambda v: (v - 1.0).exp(),
    ),
    "i-projection": FDivergence(
        value=lambda log_t: -log_t,
        derivative=lambda log_t: -(-log_t).exp(),
        conjugate=lambda t: -1.0 - (-t).log(),
        output=lambda v: -(-v).exp(),
        penalty=lambda v: v - 1.0,
    ),
    "jensen": FDivergence(
        value=lambda log_t: log_t.exp() * log_t - (1.0 + log_t.exp()) * (softplus(log_t) - math.log(2.0)),
        derivative=lambda log_t: math.log(2.0) - softplus(-log_t),
        conjugate=lambda t: -(2.0 - t.exp()).log(),
        output=lambda v: math.log(2.0) - softplus(-v),
        penalty=lambda v: softplus(v) - math.log(2.0),
    ),
    "pearson": FDivergence(
        value=lambda log_t: (log_t.exp() - 1.0).square(),
        derivative=lambda log_t: 2.0 * (log_t.exp() - 1.0),
        conjugate=lambda t: 0.25 * t.square() + t,
        output=lambda v: v,
        penalty=lambda v: 0.25 * v.square() + v,
    ),
}


@dataclass(frozen=True)
class Game:
    """Losses of an adversarial game. Both losses are minimised.

    Attributes
    ----------
    discriminator_loss : callable
        Function from v at data and v at the model's samples, (n,) each, to a scalar.
    generator_loss : callable
        Function from v at the model's samples to a scalar.
    weight_limit : float
        Bound to which the discriminator's weights are clipped; 0 disables clipping.
    gradient_penalty : float
        Weight of the penalty E[(|grad v| - 1)^2] between data and samples; 0 disables the penalty.
    n_discriminator_steps : int
        Discriminator steps per step of the generator.
    """

    discriminator_loss: Callable[[Tensor, Tensor], Tensor]
    generator_loss: Callable[[Tensor], Tensor]
    weight_limit: float = 0.0
    gradient_penalty: float = 0.0
    n_discriminator_steps: int = 1


def gan() -> Game:
    """Return the original GAN, with the non-saturating generator loss."""
    return Game(lambda v_p, v_q: softplus(-v_p).mean() + softplus(v_q).mean(), lambda v_q: softplus(-v_q).mean())


def f_gan(divergence: FDivergence) -> Game:
    """Return f-GAN, which optimises the variational bound of an f-divergence."""
    return Game(
        lambda v_p, v_q: divergence.penalty(v_q).mean() - divergence.output(v_p).mean(),
        lambda v_q: -divergence.penalty(v_q).mean(),
    )


def wgan(weight_limit: float, n_discriminator_steps: int) -> Game:
    """Return WGAN: the Wasserstein distance, with clipped weights of the critic."""
    return Game(
        lambda v_p, v_q: v_q.mean() - v_p.mean(),
        lambda v_q: -v_q.mean(),
        weight_limit=weight_limit,
        n_discriminator_steps=n_discriminator_steps,
    )


def wgan_gp(gradient_penalty: float, n_discriminator_steps: int) -> Game:
    """Return WGAN-GP: the Wasserstein distance, with a penalty on the critic's slope."""
    return Game(
        lambda v_p, v_q: v_q.mean() - v_p.mean(),
        lambda v_q: -v_q.mean(),
        gradient_penalty=gradient_penalty,
        n_discriminator_steps=n_discriminator_steps,
    )


def b_gan(of_ratio: FDivergence, of_model: FDivergence) -> Game:
    """Return b-GAN. It estimates the density ratio by a Bregman divergence, and fits the model by an f-divergence."""

    def ratio_loss(v_p: Tensor, v_q: Tensor) -> Tensor:
        at_q = of_ratio.derivative(v_q) * v_q.exp() - of_ratio.value(v_q)
        return at_q.mean() - of_ratio.derivative(v_p).mean()

    return Game(ratio_loss, lambda v_q: of_model.value(v_q).mean())


BETAS = (0.5, 0.9)  # Adam's betas by Gulrajani et al.; with more momentum, the two players circle each other


@dataclass(frozen=True)
class AdversarialConfig(Settings):
    """Settings of `fit_adversarially`."""

    n_steps: int = option(5000, "steps of the generator", minimum=0)
    batch_size: int = option(500, "number of data points, and of model samples, per step", minimum=1)
    learning_rate: float = option(1e-3, "step size of the discriminator's Adam", minimum=0.0)
    generator_rate: float = option(
        1e-3, "step size of the generator's Adam, which decreases linearly to zero", minimum=0.0
    )
    hidden_layers: tuple[int, ...] = option((50, 50, 50), "widths of the discriminator's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the discriminator", minimum=0.0, maximum=0.9)


@dataclass(frozen=True)
class AdversarialFit:
    """Result of `fit_adversarially`.

    Attributes
    ----------
    mixture : GaussianMixture
        Mixture after the last step with finite parameters.
    n_steps : int
        Number of steps, which is less than requested if a loss or a gradient was not finite.
    """

    mixture: GaussianMixture
    n_steps: int


@torch_threads()
def fit_adversarially(
    config: AdversarialConfig,
    game: Game,
    weights: WeightLearning,
    data: Tensor,
    start: GaussianMixture,
    generator: torch.Generator,
) -> AdversarialFit:
    """Train a mixture against a discriminator.

    Parameters
    ----------
    config : AdversarialConfig
    game : Game
    weights : WeightLearning
    data : Tensor (n_samples, n_dims)
    start : GaussianMixture
    generator : torch.Generator
        Only source of randomness.

    Returns
    -------
    AdversarialFit
    """
    model = MixtureParameters(start)
    discriminator = ratio_network(data.shape[1], config.hidden_layers, config.dropout, generator)
    for layer in discriminator:
        if isinstance(layer, Dropout):
            layer.generator = generator
    deviation, mean = torch.std_mean(data, 0)
    standardised = ((data - mean) / deviation).to(torch.float32)
    shift, scale = mean.to(torch.float32), deviation.to(torch.float32)
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=config.learning_rate, betas=BETAS, fused=True)
    of_model = torch.optim.Adam(model.parameters(), lr=config.generator_rate, betas=BETAS, fused=True)

    def drawn() -> Tensor:
        return (weights.draw(model, config.batch_size, generator) - shift) / scale

    for step in range(config.n_steps):
        for group in of_model.param_groups:
            group["lr"] = config.generator_rate * (1.0 - step / config.n_steps)
        for _ in range(game.n_discriminator_steps):
            real = standardised[torch.randint(len(data), (config.batch_size,), generator=generator)]
            with torch.no_grad():
                fake = drawn()
            loss = _discriminator_loss(game, discriminator, real, fake, generator)
            if not _step(of_discriminator, loss):
                return AdversarialFit(model.mixture(), step)
            if game.weight_limit > 0.0:
                with torch.no_grad():
                    for parameter in discriminator.parameters():
                        parameter.clamp_(-game.weight_limit, game.weight_limit)
        score = discriminator(drawn()).squeeze(-1)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        if not _step(of_model, game.generator_loss(score) + weights.loss(model, generator)):
            return AdversarialFit(model.mixture(), step)
        if not model.finite():
            with torch.no_grad():
                for parameter, value in zip(model.parameters(), before, strict=True):
                    parameter.copy_(value)
            return AdversarialFit(model.mixture(), step)
    return AdversarialFit(model.mixture(), config.n_steps)


def _discriminator_loss(
    game: Game, discriminator: nn.Module, real: Tensor, fake: Tensor, generator: torch.Generator
) -> Tensor:
    score_p, score_q = discriminator(torch.cat([real, fake])).squeeze(-1).split([len(real), len(fake)])
    loss = game.discriminator_loss(score_p, score_q)
    if game.gradient_penalty > 0.0:
        share = torch.rand(len(real), 1, generator=generator)
        between = (share * real + (1.0 - share) * fake).requires_grad_(True)
        (slope,) = torch.autograd.grad(discriminator(between).sum(), between, create_graph=True)
        loss = loss + game.gradient_penalty * (slope.norm(dim=-1) - 1.0).square().mean()
    return loss


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> bool:
    """Take an optimiser step and return True, or return False without a step if the loss is not finite.

    A non-finite gradient is detected one step later, because it makes the next loss non-finite.
    """
    if not bool(torch.isfinite(loss)):
        return False
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return True
