"""Start of EIM for models with neural parts.

For several experts: EM of the same family, as for linear ones. A single expert needs more: EM averages over the
branches of multi-modal data, and a wide expert over all of them is a stationary point, or nearly one, of the reverse KL
too, which EIM would not leave. Mixtures of one, two, ... neural experts are fitted while held-out data gain more than a
standard error, and the expert that can best stand for the whole mixture alone is the start.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.em import EM
from eim_ros.inference.model_family import FamilyConfig
from eim_ros.inference.starts.branches import closest_component
from eim_ros.inference.training_data import Pairs
from eim_ros.numerics.status import Status

__all__ = ["neural_start"]

MOST_BRANCHES = 4
MOST_POINTS = 2000  # of which the mixtures are fitted
MORE_ITERATIONS = 3  # EM iterations with all training data
LEAST_PARAMETER_ITERATIONS = 60  # of L-BFGS per EM iteration: networks start far from the data
TOLERANCE = 3e-3  # [nat] of EM, of which only a start is wanted


def neural_start(
    config: FamilyConfig,
    n_components: int,
    n_iterations: int,
    training: Pairs,
    held_out: Pairs,
    generator: torch.Generator,
) -> tuple[MixtureOfExperts, MixtureOfExperts]:
    """Mixture that describes the data, and the start, which is the same for several experts.

    Parameters
    ----------
    config : FamilyConfig
    n_components : int
        Of the start.
    n_iterations : int
        Most iterations of EM.
    training, held_out : Pairs
        Shuffled.
    generator : torch.Generator
    """
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(FamilyConfig)}
    settings["parameter_iterations"] = max(config.parameter_iterations, LEAST_PARAMETER_ITERATIONS)

    def fitted(size: int, iterations: int, data: Pairs, initial: MixtureOfExperts | None) -> MixtureOfExperts:
        algorithm = EM(EMConfig(n_components=size, n_iterations=iterations, tolerance=TOLERANCE, **settings))
        result = algorithm.fit((data.context, data.sample), initial, generator)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result.mixture_of_experts

    few = training[:MOST_POINTS]
    best = fitted(n_components, n_iterations, few, None)
    if n_components == 1:
        for size in range(2, min(MOST_BRANCHES, len(few)) + 1):
            candidate = fitted(size, n_iterations, few, None)
            gain = _log_prob(candidate, held_out) - _log_prob(best, held_out)
            if not float(gain.mean()) > float(gain.std(correction=0)) / len(gain) ** 0.5:
                break
            best = candidate
    best = fitted(best.n_components, min(MORE_ITERATIONS, n_iterations), training, best)
    if n_components == best.n_components:
        return best, best
    return best, closest_component(best, few.context, generator)


def _log_prob(model: MixtureOfExperts, data: Pairs) -> Tensor:
    return model.log_prob(data.context, data.sample)
