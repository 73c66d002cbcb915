"""One nonlinear expert, N(psi_mu(y), psi_Sigma(y)), on univariate targets (thesis 6.6, figure 6.8).

Contexts y are uniform in [-1, 1], and p(x|y) is

    sine       N(sin(2.5 pi y), .1^2)
    modes      1/2 N(y sin(2.5 pi y) + .7, .1^2) + 1/2 N(-y sin(2.5 pi y) - .7, .1^2)
    spread     N(0, ((y + 1)^2 + .05)^2)

EM and EIM fit the same expert. One Gaussian cannot represent two modes: EM covers both, EIM ignores one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig
from eim_ros.settings import Settings, option

__all__ = ["TARGETS", "NonlinearConfig", "NonlinearResult", "TargetFits", "fit_nonlinear"]

NEAR = 3.0  # deviations of a mode within which a sample belongs to it
DEVIATION = 0.1


def _mixture(modes: list[Tensor], deviation: Tensor) -> GaussianMixture:
    """Equal weights (n, k), modes and one deviation (n,), as a batch (n,)."""
    means = torch.stack(modes, -1).unsqueeze(-1)
    factors = deviation[:, None, None, None].expand(*means.shape, 1)
    return GaussianMixture(torch.zeros_like(means[..., 0]), means, factors)


def _sine(context: Tensor) -> GaussianMixture:
    return _mixture([(2.5 * math.pi * context[:, 0]).sin()], torch.full_like(context[:, 0], DEVIATION))


def _modes(context: Tensor) -> GaussianMixture:
    mode = context[:, 0] * (2.5 * math.pi * context[:, 0]).sin() + 0.7
    return _mixture([mode, -mode], torch.full_like(mode, DEVIATION))


def _spread(context: Tensor) -> GaussianMixture:
    return _mixture([torch.zeros_like(context[:, 0])], (context[:, 0] + 1.0).square() + 0.05)


TARGETS: dict[str, Callable[[Tensor], GaussianMixture]] = {"sine": _sine, "modes": _modes, "spread": _spread}


@dataclass(frozen=True)
class NonlinearConfig(Settings):
    """Settings of `fit_nonlinear`; defaults of thesis table B.2 where it has them."""

    targets: tuple[str, ...] = option(tuple(TARGETS), "targets to fit", choices=tuple(TARGETS))
    n_samples: int = option(5000, "samples for training, and contexts for testing", minimum=100)
    n_iterations: int = option(60, "iterations of EIM", minimum=1)
    em_iterations: int = option(20, "iterations of EM at most", minimum=1)
    start_iterations: int = option(10, "iterations of EM at most for EIM's start", minimum=1)
    kl_bound: float = option(0.01, "largest KL of an update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "largest loss of entropy per update", unit="nat", minimum=0.0)
    ratio: str = option("residual", "density ratio estimator of EIM", choices=("plug-in", "residual", "network"))
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    parameter_layers: tuple[int, ...] = option((50, 50), "widths of the expert's layers", minimum=1)
    parameter_l2: float = option(1e-3, "weight of the sum of the expert's squared weights", minimum=0.0)


@dataclass(frozen=True)
class TargetFits:
    """What both learners made of a target.

    Attributes
    ----------
    em, eim : MixtureOfExperts
        Of one neural expert.
    kl : dict
        By learner, KL(model || target), mean over contexts [nat], and its standard error.
    near : dict
        By learner, share of the samples within three deviations of a mode.
    on_one_mode : dict
        By learner, share of the samples that are closest to the mode which most of them are closest to.
    cpu_seconds : float
        Of EIM, its start included.
    """

    em: MixtureOfExperts
    eim: MixtureOfExperts
    kl: dict[str, tuple[float, float]]
    near: dict[str, float]
    on_one_mode: dict[str, float]
    cpu_seconds: float


@dataclass(frozen=True)
class NonlinearResult:
    """Fits by the name of the target, and the data that they were fitted to."""

    fits: dict[str, TargetFits]
    data: dict[str, tuple[Tensor, Tensor]]


def fit_nonlinear(
    config: NonlinearConfig, seed: int = 0, progress: Callable[[str, TargetFits], None] | None = None
) -> NonlinearResult:
    """Fit the targets by both learners.

    Parameters
    ----------
    config : NonlinearConfig
    seed : int
        Of data, starts and learners.
    progress : callable, optional
        Called after each target with its name and its fits.
    """
    fits, data = {}, {}
    for name in config.targets:
        target = TARGETS[name]
        generator = torch.Generator().manual_seed(1_000_003 * seed + list(TARGETS).index(name))  # whatever came before
        context = _contexts(config.n_samples, generator)
        data[name] = context, target(context).sample(generator=generator)
        fits[name] = _fit(config, target, data[name], generator)
        if progress is not None:
            progress(name, fits[name])
    return NonlinearResult(fits, data)


def _fit(
    config: NonlinearConfig,
    target: Callable[[Tensor], GaussianMixture],
    data: tuple[Tensor, Tensor],
    generator: torch.Generator,
) -> TargetFits:
    family: dict[str, Any] = {
        "n_components": 1,
        "components": "neural",
        "parameter_layers": config.parameter_layers,
        "parameter_l2": config.parameter_l2,
    }
    em_config = EMConfig(n_iterations=config.em_iterations, parameter_iterations=60, **family)
    em = EM(em_config).fit(data, generator=generator).mixture_of_experts
    eim_config = EIMConfig(
        n_iterations=config.n_iterations,
        initial_em_iterations=config.start_iterations,
        kl_bound=config.kl_bound,
        entropy_loss_bound=config.entropy_loss_bound,
        ratio=config.ratio,
        hidden_layers=config.hidden_layers,
        **family,
    )
    started = time.process_time()
    eim = EIM(eim_config).fit(data, generator=generator).mixture_of_experts
    seconds = time.process_time() - started
    context = _contexts(config.n_samples, generator)
    conditioned = target(context)
    kl, near, on_one_mode = {}, {}, {}
    for name, model in (("EM", em), ("EIM", eim)):
        sample = model.sample(context, generator)
        difference = model.log_prob(context, sample) - conditioned.log_prob(sample)
        kl[name] = float(difference.mean()), float(difference.std()) / len(difference) ** 0.5
        distance = (sample - conditioned.means[..., 0]).abs() / conditioned.scale_trils[..., 0, 0]
        near[name] = float((distance.amin(-1) < NEAR).double().mean())
        on_one_mode[name] = float(torch.bincount(distance.argmin(-1)).max() / len(sample))
    return TargetFits(em, eim, kl, near, on_one_mode, seconds)


def _contexts(n_samples: int, generator: torch.Generator) -> Tensor:
    return 2.0 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 1.0
