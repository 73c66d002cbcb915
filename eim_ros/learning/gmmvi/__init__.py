"""Variational inference with Gaussian mixtures by natural gradients, built from seven interchangeable modules."""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.learning.gmmvi.gmmvi import GMMVI, random_start
    from eim_ros.learning.gmmvi.gradients import GradientEstimator, More, Regression, Stein
    from eim_ros.learning.gmmvi.iteration import GMMVIState, Modules
    from eim_ros.learning.gmmvi.samples import ComponentSamples, MixtureSamples, SampleSelection
    from eim_ros.learning.gmmvi.settings import ALGORITHMS, GMMVIConfig
    from eim_ros.learning.gmmvi.updates import (
        AdaptiveStepSize,
        ComponentUpdate,
        DecayingStepSize,
        DirectUpdate,
        DirectWeights,
        EntropyBoundedUpdate,
        EntropyBoundedWeights,
        FixedStepSize,
        ImprovedBayesianUpdate,
        StepSize,
        TrustRegionUpdate,
        TrustRegionWeights,
        WeightUpdate,
    )

__all__ = [
    "ALGORITHMS",
    "AdaptiveStepSize",
    "ComponentSamples",
    "ComponentUpdate",
    "DecayingStepSize",
    "DirectUpdate",
    "DirectWeights",
    "EntropyBoundedUpdate",
    "EntropyBoundedWeights",
    "FixedStepSize",
    "GMMVI",
    "GMMVIConfig",
    "GMMVIState",
    "GradientEstimator",
    "ImprovedBayesianUpdate",
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

__getattr__, __dir__ = deferred_names(__name__, __file__)
