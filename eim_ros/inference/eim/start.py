"""Start of EIM by EM, which is a candidate for the density of the data at the same time."""

from __future__ import annotations

from typing import Any

import torch

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.eim.configuration import EIMConfig
from eim_ros.inference.ratio.reference_density import best_fit, refined
from eim_ros.inference.starts.neural_start import neural_start
from eim_ros.inference.training_data import Pairs
from eim_ros.numerics.work import tell

__all__ = ["start_of"]


def start_of(
    config: EIMConfig, given: MixtureOfExperts | None, data: Pairs, generator: torch.Generator
) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
    """Candidate for the reference density, if any, and start.

    A neural expert is soon better than any reference of linear ones, which then would hold it back: one of its own
    family is a candidate even where the start is given.

    Parameters
    ----------
    config : EIMConfig
    given : MixtureOfExperts, optional
        The start, where there is one; the best of several k-means starts and a few iterations of EM otherwise.
    data : Pairs
        Shuffled.
    generator : torch.Generator
    """
    if given is None:
        return _fitted(config, data, generator)
    wants_neural = not config.is_linear and config.ratio != "network"
    return (_fitted(config, data, generator)[0] if wants_neural else None), given


def _fitted(
    config: EIMConfig, data: Pairs, generator: torch.Generator
) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
    """Fit to the training part, if there was a choice of starts, and the start, which takes in all data."""
    settings: dict[str, Any] = {"n_components": config.n_components, "n_iterations": config.initial_em_iterations}
    training, held_out = data[: config.n_training(len(data))], data[config.held_out(len(data))]
    if not config.is_linear:
        return neural_start(config, config.n_components, config.initial_em_iterations, training, held_out, generator)
    if config.initial_starts == 1 or len(training) < config.n_components:
        return None, best_fit(data, data, n_starts=1, generator=generator, **settings)
    first = best_fit(
        training,
        held_out,
        n_starts=config.initial_starts,
        generator=generator,
        watch=lambda share: tell("start", share, 1.0),
        **settings,
    )
    return first, refined(first, data, config.initial_em_iterations)
