"""Gaussian mixtures by adversarial training: a discriminator and the mixture's parameters take steps in turn.

The mixture's steps shrink linearly to zero, as Gulrajani et al. (2017) have it: with steps of one size the two circle
each other until the end, and a model that was close to the data goes away again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eim_ros.distributions import GaussianMixture
from eim_ros.experiments.baselines.games import Game
from eim_ros.experiments.baselines.mixture_parameters import MixtureParameters
from eim_ros.experiments.baselines.weight_learning import WeightLearning
from eim_ros.inference.ratio.classifier import Dropout, ratio_network
from eim_ros.numerics.threads import torch_threads
from eim_ros.settings import Settings, option

__all__ = ["AdversarialConfig", "AdversarialFit", "fit_adversarially"]

BETAS = (0.5, 0.9)  # of Adam, as Gulrajani et al. have them: much momentum makes the two circle each other


@dataclass(frozen=True)
class AdversarialConfig(Settings):
    """Settings of `fit_adversarially`."""

    n_steps: int = option(5000, "steps of the generator", minimum=0)
    batch_size: int = option(500, "data, and samples of the model, of each step", minimum=1)
    learning_rate: float = option(1e-3, "step size of the discriminator's Adam", minimum=0.0)
    generator_rate: float = option(1e-3, "step size of the generator's Adam, which falls linearly to zero", minimum=0.0)
    hidden_layers: tuple[int, ...] = option((50, 50, 50), "widths of the discriminator's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the discriminator", minimum=0.0, maximum=0.9)


@dataclass(frozen=True)
class AdversarialFit:
    """Outcome.

    Attributes
    ----------
    mixture : GaussianMixture
        Of the last step with finite parameters.
    n_steps : int
        Steps that were taken; fewer than asked for if a loss or a gradient was not finite.
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
        All randomness.
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
    """One step; False, and none, if the loss is not finite, as it is after a gradient that was not."""
    if not bool(torch.isfinite(loss)):
        return False
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return True
