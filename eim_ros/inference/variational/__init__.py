"""Variational inference with Gaussian mixtures by natural gradients: seven modules, whose options combine freely."""

from eim_ros.inference.variational.component_adaptation import (
    AdaptiveComponents,
    ComponentAdaptation,
    FixedComponents,
    Mixture,
)
from eim_ros.inference.variational.component_update import (
    ComponentUpdate,
    DirectUpdate,
    ImprovedBayesianUpdate,
    TrustRegionUpdate,
)
from eim_ros.inference.variational.configuration import ALGORITHMS, GMMVIConfig
from eim_ros.inference.variational.entropy_bounds import EntropyBoundedUpdate, EntropyBoundedWeights
from eim_ros.inference.variational.gmmvi import GMMVI, random_start
from eim_ros.inference.variational.iteration import GMMVIState
from eim_ros.inference.variational.modules import Modules
from eim_ros.inference.variational.natural_gradient import GradientEstimator, More, Regression, Stein
from eim_ros.inference.variational.sample_selection import ComponentSamples, MixtureSamples, SampleSelection
from eim_ros.inference.variational.step_size import AdaptiveStepSize, DecayingStepSize, FixedStepSize, StepSize
from eim_ros.inference.variational.weight_update import DirectWeights, TrustRegionWeights, WeightUpdate

__all__ = [
    "ALGORITHMS",
    "GMMVI",
    "AdaptiveComponents",
    "AdaptiveStepSize",
    "ComponentAdaptation",
    "ComponentSamples",
    "ComponentUpdate",
    "DecayingStepSize",
    "DirectUpdate",
    "DirectWeights",
    "EntropyBoundedUpdate",
    "EntropyBoundedWeights",
    "FixedComponents",
    "FixedStepSize",
    "GMMVIConfig",
    "GMMVIState",
    "GradientEstimator",
    "ImprovedBayesianUpdate",
    "Mixture",
    "MixtureSamples",
    "Modules",
    "More",
    "Regression",
    "SampleSelection",
    "Stein",
    "StepSize",
    "TrustRegionUpdate",
    "TrustRegionWeights",
    "WeightUpdate",
    "random_start",
]
