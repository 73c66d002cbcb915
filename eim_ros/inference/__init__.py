"""Learners: each is `init -> step -> step ...`, run by the one loop in `run`."""

from eim_ros.inference.density_ratio import DensityRatio, RatioConfig
from eim_ros.inference.eim import EIM
from eim_ros.inference.eim_configuration import EIMConfig
from eim_ros.inference.em import EM
from eim_ros.inference.em_configuration import EMConfig
from eim_ros.inference.exponential_em import ExponentialEM, ExponentialEMConfig
from eim_ros.inference.fitted_model import FittedModel
from eim_ros.inference.known_density import KnownDensityEIM, KnownDensityEIMConfig
from eim_ros.inference.multiple_cause_em import MultipleCauseEM, MultipleCauseEMConfig
from eim_ros.inference.network_ratio import NetworkRatio
from eim_ros.inference.plug_in_ratio import PlugInRatio
from eim_ros.inference.ratio_inputs import FeatureInputs, RatioInputs, StandardisedInputs
from eim_ros.inference.run import Checkpoint, FitResult, History, LoopResult, State, run, run_loop
from eim_ros.inference.training_data import Pairs
from eim_ros.inference.truncated_em import TruncatedEM, TruncatedEMConfig

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
    "run",
    "run_loop",
]
