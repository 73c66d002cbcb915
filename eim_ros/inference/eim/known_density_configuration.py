"""Settings of EIM where the target's density is known."""

from __future__ import annotations

from dataclasses import dataclass

from eim_ros.inference.eim.component_adaptation import AdaptationConfig
from eim_ros.inference.eim.m_step import MStepConfig
from eim_ros.inference.model_family import FamilyConfig
from eim_ros.inference.ratio.auxiliary import AuxiliaryConfig
from eim_ros.settings import option

__all__ = ["KnownDensityEIMConfig"]


@dataclass(frozen=True)
class KnownDensityEIMConfig(MStepConfig, FamilyConfig, AuxiliaryConfig, AdaptationConfig):
    """Settings of `KnownDensityEIM`.

    Those of the M-step, the family of models, the auxiliary distribution and the number of components are inherited.
    """

    n_components: int = option(50, "number of components of the start, where none is given", minimum=1)
    n_iterations: int = option(1000, "upper bound on iterations", minimum=0)
    initial_starts: int = option(10, "fits of EM from k-means of which the likeliest is the start", minimum=1)
    initial_em_iterations: int = option(40, "iterations of each of them; 0: a single k-means alone", minimum=0)
    gating_gradient: str = option(
        "natural", "gradient that a linear gating of contexts follows: plain or natural", choices=("plain", "natural")
    )
    temperature: float = option(1.0, "weight of the entropy against the target's log density", minimum=1e-6)
    n_contexts: int = option(0, "contexts of the data that an iteration looks at, drawn anew; 0: all", minimum=0)
    n_objective_samples: int = option(1000, "samples for the record of the objective", minimum=2)
    tolerance: float = option(
        1e-20, "stop when the model changes by less than this KL per iteration", unit="nat", minimum=0.0
    )
    plateau_window: int = option(
        20, "stop when the objective rises by no more than its noise from so many iterations to the next; 0: never",
        minimum=0,
    )  # fmt: skip
