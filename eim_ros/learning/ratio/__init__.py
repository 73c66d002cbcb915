"""Estimators of the log ratio between a density that is known only from samples and the density of a model."""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
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

__all__ = [
    "DensityRatio",
    "FeatureInputs",
    "NetworkRatio",
    "PlugInRatio",
    "QuadraticInputs",
    "RatioEstimator",
    "RatioInputs",
    "StandardisedInputs",
    "WhitenedInputs",
]

__getattr__, __dir__ = deferred_names(__name__, __file__)
