"""Learners of mixture models: EM, EIM, GMMVI, and EM for discrete models. All use the training loop in `run`."""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.learning.configs import EIMConfig, EMConfig, RatioConfig, TruncatedEMConfig
    from eim_ros.learning.data import Pairs
    from eim_ros.learning.discrete.cause_em import MultipleCauseEM, MultipleCauseEMConfig
    from eim_ros.learning.discrete.exponential_em import ExponentialEM, ExponentialEMConfig
    from eim_ros.learning.eim.eim import EIM
    from eim_ros.learning.em.em import EM
    from eim_ros.learning.em.truncated import TruncatedEM
    from eim_ros.learning.gmmvi.gmmvi import GMMVI, random_start
    from eim_ros.learning.gmmvi.settings import GMMVIConfig
    from eim_ros.learning.ratio.custom import RatioEstimator
    from eim_ros.learning.ratio.density_ratio import DensityRatio
    from eim_ros.learning.ratio.inputs import (
        FeatureInputs,
        QuadraticInputs,
        RatioInputs,
        StandardisedInputs,
        WhitenedInputs,
    )
    from eim_ros.learning.ratio.network import NetworkRatio
    from eim_ros.learning.ratio.plug_in import PlugInRatio
    from eim_ros.learning.run import FitResult, FittedModel, History, LoopResult, RunOptions, State, Status, run_loop

__all__ = [  # in the order of the reference, the most important first
    "EM",
    "EIM",
    "GMMVI",
    "EMConfig",
    "EIMConfig",
    "GMMVIConfig",
    "DensityRatio",
    "ExponentialEM",
    "ExponentialEMConfig",
    "FeatureInputs",
    "FitResult",
    "FittedModel",
    "History",
    "LoopResult",
    "MultipleCauseEM",
    "MultipleCauseEMConfig",
    "NetworkRatio",
    "Pairs",
    "PlugInRatio",
    "QuadraticInputs",
    "RatioConfig",
    "RatioEstimator",
    "RatioInputs",
    "RunOptions",
    "StandardisedInputs",
    "State",
    "Status",
    "TruncatedEM",
    "TruncatedEMConfig",
    "WhitenedInputs",
    "random_start",
    "run_loop",
]

__getattr__, __dir__ = deferred_names(__name__, __file__)
