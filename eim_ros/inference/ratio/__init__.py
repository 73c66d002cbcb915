"""Estimates of the log ratio of two densities, of which one is known by its samples alone."""

from eim_ros.inference.ratio.density_ratio import DensityRatio, RatioConfig
from eim_ros.inference.ratio.inputs import FeatureInputs, RatioInputs, StandardisedInputs
from eim_ros.inference.ratio.network_ratio import NetworkRatio
from eim_ros.inference.ratio.plug_in_ratio import PlugInRatio
from eim_ros.inference.ratio.whitened_inputs import WhitenedInputs

__all__ = [
    "DensityRatio",
    "FeatureInputs",
    "NetworkRatio",
    "PlugInRatio",
    "RatioConfig",
    "RatioInputs",
    "StandardisedInputs",
    "WhitenedInputs",
]
