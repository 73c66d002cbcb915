"""What generator and discriminator play for: losses of a network's output v at samples of data and model.

    GAN      discriminator: cross entropy of sigmoid(v); generator: -log sigmoid(v) (Goodfellow et al. 2014)
    f-GAN    max over v, min over the model of E_p[g(v)] - E_q[f*(g(v))] (Nowozin et al. 2016)
    WGAN     max over v, min over the model of E_p[v] - E_q[v], weights clipped to a box (Arjovsky et al. 2017)
    WGAN-GP  the same with a penalty of the slope of v in place of the box (Gulrajani et al. 2017)
    b-GAN    v = log r minimises a Bregman divergence to the true ratio (thesis 2.2), the model E_q[f(r)]
             (Uehara et al. 2016); f of the ratio and f of the model may differ (Poole et al. 2016)

For a model whose weights are fixed f-GAN with the I-projection is what EIM optimises; only how differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from eim_ros.experiments.baselines.f_divergences import FDivergence

__all__ = ["Game", "b_gan", "f_gan", "gan", "wgan", "wgan_gp"]


@dataclass(frozen=True)
class Game:
    """Losses, both to be minimised.

    Attributes
    ----------
    discriminator_loss : callable
        From v at data and v at the model's samples, (n,) each, to a number.
    generator_loss : callable
        From v at the model's samples to a number.
    weight_limit : float
        The discriminator's weights are clipped to so much; 0: they are not.
    gradient_penalty : float
        Weight of E[(|grad v| - 1)^2] between data and samples; 0: none.
    n_discriminator_steps : int
        For each step of the generator.
    """

    discriminator_loss: Callable[[Tensor, Tensor], Tensor]
    generator_loss: Callable[[Tensor], Tensor]
    weight_limit: float = 0.0
    gradient_penalty: float = 0.0
    n_discriminator_steps: int = 1


def gan() -> Game:
    """The original game, with the generator's loss that does not saturate."""
    return Game(lambda v_p, v_q: softplus(-v_p).mean() + softplus(v_q).mean(), lambda v_q: softplus(-v_q).mean())


def f_gan(divergence: FDivergence) -> Game:
    """The variational bound of an f-divergence."""
    return Game(
        lambda v_p, v_q: divergence.penalty(v_q).mean() - divergence.output(v_p).mean(),
        lambda v_q: -divergence.penalty(v_q).mean(),
    )


def wgan(weight_limit: float, n_discriminator_steps: int) -> Game:
    """Wasserstein distance by a critic in a box of weights."""
    return Game(
        lambda v_p, v_q: v_q.mean() - v_p.mean(),
        lambda v_q: -v_q.mean(),
        weight_limit=weight_limit,
        n_discriminator_steps=n_discriminator_steps,
    )


def wgan_gp(gradient_penalty: float, n_discriminator_steps: int) -> Game:
    """Wasserstein distance by a critic whose slope is penalised."""
    return Game(
        lambda v_p, v_q: v_q.mean() - v_p.mean(),
        lambda v_q: -v_q.mean(),
        gradient_penalty=gradient_penalty,
        n_discriminator_steps=n_discriminator_steps,
    )


def b_gan(of_ratio: FDivergence, of_model: FDivergence) -> Game:
    """Density ratio by a Bregman divergence, model by an f-divergence that is evaluated with it."""

    def ratio_loss(v_p: Tensor, v_q: Tensor) -> Tensor:
        at_q = of_ratio.derivative(v_q) * v_q.exp() - of_ratio.value(v_q)
        return at_q.mean() - of_ratio.derivative(v_p).mean()

    return Game(ratio_loss, lambda v_q: of_model.value(v_q).mean())
