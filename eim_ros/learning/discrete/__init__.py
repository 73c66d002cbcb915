"""Mixtures of exponential families and models with binary causes, fitted by EM."""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.learning.discrete.cause_em import MultipleCauseEM, MultipleCauseEMConfig
    from eim_ros.learning.discrete.causes import BinarySparseCoding, MultipleCauseModel, NoisyOr, SigmoidBeliefNetwork
    from eim_ros.learning.discrete.exponential_em import ExponentialEM, ExponentialEMConfig
    from eim_ros.learning.discrete.families import (
        CategoricalFamily,
        ExponentialFamily,
        ExponentialMixture,
        PoissonFamily,
    )

__all__ = [
    "BinarySparseCoding",
    "CategoricalFamily",
    "ExponentialEM",
    "ExponentialEMConfig",
    "ExponentialFamily",
    "ExponentialMixture",
    "MultipleCauseEM",
    "MultipleCauseEMConfig",
    "MultipleCauseModel",
    "NoisyOr",
    "PoissonFamily",
    "SigmoidBeliefNetwork",
]

__getattr__, __dir__ = deferred_names(__name__, __file__)
