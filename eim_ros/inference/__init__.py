"""Learners: each is `init -> step -> step ...`, run by the one loop in `run`."""

from eim_ros.inference.eim import EIM, EIMConfig, KnownDensityEIM, KnownDensityEIMConfig
from eim_ros.inference.em import (
    EM,
    EMConfig,
    ExponentialEM,
    ExponentialEMConfig,
    MultipleCauseEM,
    MultipleCauseEMConfig,
    TruncatedEM,
    TruncatedEMConfig,
)
from eim_ros.inference.fitted_model import FittedModel
from eim_ros.inference.ratio import (
    DensityRatio,
    FeatureInputs,
    NetworkRatio,
    PlugInRatio,
    RatioConfig,
    RatioInputs,
    StandardisedInputs,
    WhitenedInputs,
)
from eim_ros.inference.run import Checkpoint, FitResult, History, LoopResult, State, run, run_loop
from eim_ros.inference.training_data import Pairs

__all__ = [
    "EIM",
    "EM",
    "Checkpoint",
    "DensityRatio",
    "EIMConfig",
    "EMConfig",
    "ExponentialEM",
    "ExponentialEMConfig",
    "FeatureInputs",
    "FitResult",
    "FittedModel",
    "History",
    "KnownDensityEIM",
    "KnownDensityEIMConfig",
    "LoopResult",
    "MultipleCauseEM",
    "MultipleCauseEMConfig",
    "NetworkRatio",
    "Pairs",
    "PlugInRatio",
    "RatioConfig",
    "RatioInputs",
    "StandardisedInputs",
    "State",
    "TruncatedEM",
    "TruncatedEMConfig",
    "WhitenedInputs",
    "run",
    "run_loop",
]
