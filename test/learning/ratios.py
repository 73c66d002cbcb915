"""Two known densities, samples of both, their exact log ratio, and every estimator of this ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from learning.models.random_models import generator_of
from learning.toys import KnownInputs, pairs_from
from torch import Tensor

from eim_ros.learning import Pairs, RatioConfig
from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.ratio import DensityRatio, NetworkRatio, PlugInRatio, StandardisedInputs
from eim_ros.learning.ratio.plug_in import InputsFactor, KnownFactor, ReferenceFactor

__all__ = [
    "Shifted",
    "drawn_at",
    "MODEL",
    "TARGET",
    "config",
    "estimator",
    "exact",
    "exact_gradient",
    "gaussian",
    "network",
    "plug_in",
    "samples",
]


def gaussian(mean: float, slope: float, deviation: float) -> MixtureOfExperts:
    """Return the model x ~ N(mean + slope y, deviation^2)."""
    experts = LinearExperts(*(torch.tensor(v).double() for v in ([[[slope]]], [[mean]], [[[deviation]]])))
    return MixtureOfExperts(SoftmaxGating(torch.zeros(1, 1).double(), torch.zeros(1).double()), experts)


TARGET, MODEL = gaussian(1.0, 0.5, 0.8), gaussian(0.4, 0.2, 1.1)


def exact(context: Tensor, sample: Tensor) -> Tensor:
    return TARGET.log_prob(context, sample) - MODEL.log_prob(context, sample)


def exact_gradient(context: Tensor, sample: Tensor) -> Tensor:
    return TARGET.score(context, sample) - MODEL.score(context, sample)


def samples(n: int, target: MixtureOfExperts = TARGET) -> Pairs:
    return Pairs(*pairs_from(target, n, seed=1))


def drawn_at(data: Pairs, model: MixtureOfExperts = MODEL) -> Pairs:
    """Return samples of the model at the contexts of the data."""
    return Pairs(data.context, model.sample(data.context, generator_of(2)))


@dataclass(frozen=True)
class Shifted:
    """Density that is known up to the constant factor exp(shift)."""

    model: MixtureOfExperts
    shift: float

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return self.model.log_prob(context, sample) + self.shift

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return self.model.score(context, sample)


def config(**settings: Any) -> RatioConfig:
    """Return settings of a fit that takes about a second. Each setting can be overridden."""
    defaults = {
        "hidden_layers": (32,),
        "dropout": 0.0,
        "learning_rate": 5e-3,
        "batch_size": 500,
        "initial_epochs": 20,
        "n_epochs": 5,
        "patience": 20,
        "validation_share": 0.1,
        "evidence": 0.0,
    }
    return RatioConfig.from_mapping({**defaults, **settings})


def plug_in(known: MixtureOfExperts | KnownFactor, **settings: Any) -> PlugInRatio:
    factor = ReferenceFactor(known) if isinstance(known, MixtureOfExperts) else known
    return PlugInRatio(factor, config(**settings))


def network(data: Pairs, base: PlugInRatio | None = None, seed: int = 3, **settings: Any) -> NetworkRatio:
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    return NetworkRatio(config(**settings), inputs, generator_of(seed), torch.device("cpu"), base)


def estimator(name: str, data: Pairs, seed: int = 3, **settings: Any) -> DensityRatio:
    """Return the estimator with this name."""
    wrong = gaussian(0.7, 0.2, 1.1)
    if name.startswith("plug-in"):
        return plug_in(TARGET if name == "plug-in" else InputsFactor(KnownInputs(TARGET)), **settings)
    base = plug_in(wrong) if name == "residual" else None
    objective = name if name in ("lsif", "kliep") else "logistic"
    return network(data, base, seed, objective=objective, **settings)
