"""Settings of `EIM`: what it adds to those of its parts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from eim_ros.inference.eim.component_adaptation import AdaptationConfig
from eim_ros.inference.eim.m_step import MStepConfig
from eim_ros.inference.eim.reparameterised import GradientConfig
from eim_ros.inference.model_family import FamilyConfig
from eim_ros.inference.ratio.density_ratio import RatioConfig
from eim_ros.settings import option

__all__ = ["EIMConfig"]


@dataclass(frozen=True)
class EIMConfig(RatioConfig, MStepConfig, GradientConfig, FamilyConfig, AdaptationConfig):
    """Settings of `EIM`.

    Those of the density ratio estimator, the M-step, the family of models and the number of components are inherited.
    """

    n_components: int = option(50, "number of experts, at the start if it adapts", minimum=1)
    n_iterations: int = option(40, "iterations", minimum=0)
    initial_starts: int = option(
        8, "k-means starts, of which EM continues the one with the highest held-out likelihood", minimum=1
    )
    initial_em_iterations: int = option(40, "iterations of EM after the k-means start", minimum=0)
    update: str = option(
        "structured",
        "M-step: closed form in trust regions, or reparameterised gradients (EIM-US, thesis 6.1)",
        choices=("structured", "unstructured"),
    )
    kl_term: bool = option(True, "KL(model || last model) in the objective; without it EIM-KL (thesis 6.1)")
    gating_gradient: str = option(
        "auto",
        "gradient that a linear gating of contexts follows: plain; natural, by which components of little weight come "
        "back; auto: natural where components are added, whose first weight is little, else plain",
        choices=("auto", "plain", "natural"),
    )
    least_demand: float = option(
        2.0, "log p/q of data, at least, for a component to be added there", unit="nat", minimum=0.0
    )
    n_selection_samples: int = option(
        1000, "samples by which the best model is told from the last; 0: the last model is returned", minimum=0
    )
    plateau_window: int = option(
        0,
        "stop when the held-out estimate of KL(model || data) falls by no more than its noise from so many iterations "
        "to the next; 0: never",
        minimum=0,
    )

    @property
    def m_step(self) -> MStepConfig:
        """Settings of the M-step, with its gradient chosen."""
        if self.gating_gradient != "auto":
            return self
        return dataclasses.replace(self, gating_gradient="natural" if self.add_every > 0 else "plain")
