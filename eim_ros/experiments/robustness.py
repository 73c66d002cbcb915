"""Robustness against random starts: EM and EIM on x = sin(2.5 pi y) + noise, linear experts (thesis 6.2, figure 6.3).

Each half wave of the sine is nearly a straight line, so five linear experts can follow it, if each finds its own. From
a random start EM's experts often end across several half waves, a local optimum of the likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig
from eim_ros.settings import Settings, option

__all__ = ["RobustnessConfig", "RobustnessResult", "compare_robustness", "random_start", "sine_samples"]

FREQUENCY = 2.5 * math.pi
N_HALF_WAVES = 5
AS_GOOD_AS = 0.25  # a run as good as this [nat] below the global optimum counts as having found it


@dataclass(frozen=True)
class RobustnessConfig(Settings):
    """Settings of `compare_robustness`."""

    n_starts: int = option(20, "random starts, the same ones for both learners", minimum=1)
    n_samples: int = option(5000, "samples for training, and as many for testing", minimum=100)
    noise: float = option(0.1, "standard deviation of the noise", minimum=1e-3)
    n_components: int = option(N_HALF_WAVES, "experts", minimum=1)
    em_iterations: int = option(500, "iterations of EM at most", minimum=1)
    n_iterations: int = option(700, "iterations of EIM", minimum=1)
    n_gating_contexts: int = option(1000, "contexts at which EIM takes the gating's rewards", minimum=1)
    n_gating_samples: int = option(
        5, "samples for each of them: a gating that follows the noise of few loses experts", minimum=1
    )
    ratio: str = option("plug-in", "density ratio estimator of EIM", choices=("plug-in", "residual", "network"))


@dataclass(frozen=True)
class RobustnessResult:
    """Outcome of the runs.

    Attributes
    ----------
    em, eim : tuple of float
        Mean log-likelihood [nat] of the test samples, one entry per start.
    optimum : float
        That of EM from the true half waves: the best that linear experts can do, but for luck.
    data : tuple of Tensor
        Contexts and samples of the test set.
    models : dict
        By learner, the fitted models.
    """

    em: tuple[float, ...]
    eim: tuple[float, ...]
    optimum: float
    data: tuple[Tensor, Tensor]
    models: dict[str, tuple[MixtureOfExperts, ...]]

    def share_at_optimum(self, values: tuple[float, ...]) -> float:
        """Share of the runs that are no more than `AS_GOOD_AS` below the global optimum."""
        return sum(value >= self.optimum - AS_GOOD_AS for value in values) / len(values)


def sine_samples(n_samples: int, noise: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Contexts y, uniform in [-1, 1], and samples x = sin(2.5 pi y) + noise, (n_samples, 1) each."""
    context = 2.0 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 1.0
    return context, (FREQUENCY * context).sin() + noise * torch.randn(
        n_samples, 1, generator=generator, dtype=torch.float64
    )


def random_start(context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator) -> MixtureOfExperts:
    """Lines of standard normal slope through random samples, of variance one, under a standard normal gating.

    Parameters
    ----------
    context, sample : Tensor (n_samples, 1)
    n_components : int
    generator : torch.Generator
    """

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    chosen = torch.randint(len(sample), (n_components,), generator=generator)
    slope = normal(n_components, 1)
    experts = LinearExperts(
        slope.unsqueeze(-1),
        sample[chosen] - slope * context[chosen],
        torch.ones(n_components, 1, 1, dtype=torch.float64),
    )
    return MixtureOfExperts(SoftmaxGating(normal(n_components, 1), normal(n_components)), experts)


def compare_robustness(
    config: RobustnessConfig, seed: int = 0, progress: Callable[[int, float, float], None] | None = None
) -> RobustnessResult:
    """Run both learners from the same random starts.

    Parameters
    ----------
    config : RobustnessConfig
    seed : int
        Of data, starts and learners.
    progress : callable, optional
        Called after each start with its number and the log-likelihoods of EM and EIM.

    Returns
    -------
    RobustnessResult
    """
    generator = torch.Generator().manual_seed(seed)
    train = sine_samples(config.n_samples, config.noise, generator)
    test = sine_samples(config.n_samples, config.noise, generator)
    em_config = EMConfig(n_components=config.n_components, n_iterations=config.em_iterations, tolerance=1e-7)
    eim_config = EIMConfig(
        n_components=config.n_components,
        n_iterations=config.n_iterations,
        ratio=config.ratio,
        kl_bound=0.05,
        entropy_loss_bound=0.005,  # slowly: an expert that is narrow before the gating has found its place is stuck
        gating_kl_bound=0.1,
        gating_entropy_loss_bound=0.01,
        n_gating_contexts=config.n_gating_contexts,
        n_gating_samples=config.n_gating_samples,
        reference_factors=(3.0, 5.0),
    )
    em_models, eim_models = [], []
    for number in range(config.n_starts):
        generator.manual_seed(1_000_003 * seed + number)  # each start is the same whatever came before it
        start = random_start(*train, config.n_components, generator)
        em_models.append(EM(em_config).fit(train, start).mixture_of_experts)
        eim_models.append(EIM(eim_config).fit(train, start, generator).mixture_of_experts)
        if progress is not None:
            progress(number, _log_likelihood(em_models[-1], test), _log_likelihood(eim_models[-1], test))
    best = EM(replace(em_config, n_components=N_HALF_WAVES)).fit(train, _half_waves(config.noise)).mixture_of_experts
    return RobustnessResult(
        tuple(_log_likelihood(model, test) for model in em_models),
        tuple(_log_likelihood(model, test) for model in eim_models),
        _log_likelihood(best, test),
        test,
        {"EM": tuple(em_models), "EIM": tuple(eim_models)},
    )


def _half_waves(noise: float) -> MixtureOfExperts:
    """One expert for each half wave: through its crossing of zero, with a slope of 2 over its width."""
    width = math.pi / FREQUENCY
    centre = width * (torch.arange(N_HALF_WAVES, dtype=torch.float64) - (N_HALF_WAVES - 1) / 2)
    slope = (2.0 / width) * (FREQUENCY * centre).cos()
    sharpness = 100.0  # the gating's parabola -sharpness (y - centre)^2, up to what all experts share
    gating = SoftmaxGating((2.0 * sharpness * centre).unsqueeze(-1), -sharpness * centre.square())
    factors = torch.full((N_HALF_WAVES, 1, 1), 2.0 * noise, dtype=torch.float64)
    return MixtureOfExperts(gating, LinearExperts(slope.reshape(-1, 1, 1), (-slope * centre).unsqueeze(-1), factors))


def _log_likelihood(model: MixtureOfExperts, data: tuple[Tensor, Tensor]) -> float:
    return float(model.log_prob(*data).mean())
