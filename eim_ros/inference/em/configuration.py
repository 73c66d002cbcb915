"""Settings of `EM`."""

from __future__ import annotations

from dataclasses import dataclass

from eim_ros.inference.model_family import FamilyConfig
from eim_ros.settings import option

__all__ = ["EMConfig"]


@dataclass(frozen=True)
class EMConfig(FamilyConfig):
    """Settings of `EM`."""

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(100, "upper bound on iterations", minimum=0)
    tolerance: float = option(
        1e-4, "stop when the mean log-likelihood rises by less than this", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(
        1e-6, "least variance of an expert in any direction, relative to the data's variances", minimum=0.0
    )
    gating_iterations: int = option(5, "L-BFGS iterations of the gating per M-step", minimum=1)
    n_starts: int = option(1, "runs from different starts, of which the best is kept", minimum=1)
    hard: bool = option(False, "give each point to its most probable expert alone")
