"""The seven modules of natural-gradient variational inference (paper, section 3, algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

from eim_ros.inference.variational.component_adaptation import (
    AdaptiveComponents,
    ComponentAdaptation,
    FixedComponents,
)
from eim_ros.inference.variational.component_splitting import SplitComponents
from eim_ros.inference.variational.component_update import (
    ComponentUpdate,
    DirectUpdate,
    ImprovedBayesianUpdate,
    TrustRegionUpdate,
)
from eim_ros.inference.variational.configuration import GMMVIConfig
from eim_ros.inference.variational.entropy_bounds import EntropyBoundedUpdate, EntropyBoundedWeights
from eim_ros.inference.variational.natural_gradient import GradientEstimator, More, Regression, Stein
from eim_ros.inference.variational.sample_selection import ComponentSamples, MixtureSamples, SampleSelection
from eim_ros.inference.variational.step_size import AdaptiveStepSize, DecayingStepSize, FixedStepSize, StepSize
from eim_ros.inference.variational.weight_update import DirectWeights, TrustRegionWeights, WeightUpdate

__all__ = ["Modules"]

REGIONS = ("trust-region", "entropy-bounded")  # updates whose step size is a KL


@dataclass(frozen=True)
class Modules:
    """One choice for each of the seven; any of one's own that satisfies the Protocol may take an option's place."""

    samples: SampleSelection
    component_step_size: StepSize
    natural_gradient: GradientEstimator
    component_update: ComponentUpdate
    weight_step_size: StepSize
    weight_update: WeightUpdate
    adaptation: ComponentAdaptation

    @classmethod
    def of(cls, config: GMMVIConfig) -> Modules:
        """Those that the settings name."""
        samples = MixtureSamples if config.samples == "mixture" else ComponentSamples
        component_step = _step_size(
            config.component_step_size,
            _first(config.first_component_step, 0.1 if config.component_update in REGIONS else 0.01),
            (config.smallest_component_step, config.largest_component_step, config.decay_exponent),
        )
        weight_step = _step_size(
            config.weight_step_size,
            _first(config.first_weight_step, 0.1 if config.weight_update in REGIONS else 1.0),
            (config.smallest_weight_step, config.largest_weight_step, config.decay_exponent),
        )
        return cls(
            samples(config.n_samples, config.reuse_ratio),
            component_step,
            _estimator(config.natural_gradient),
            _component_update(config),
            weight_step,
            _weight_update(config),
            _adaptation(config, component_step.first),
        )


def _first(given: float | None, default: float) -> float:
    return default if given is None else given


def _step_size(kind: str, first: float, shape: tuple[float, float, float]) -> StepSize:
    smallest, largest, exponent = shape
    if kind == "fixed":
        return FixedStepSize(first)
    return DecayingStepSize(first, exponent) if kind == "decaying" else AdaptiveStepSize(first, smallest, largest)


def _estimator(kind: str) -> GradientEstimator:
    if kind == "more":
        return More()
    return Regression() if kind == "regression" else Stein()


def _component_update(config: GMMVIConfig) -> ComponentUpdate:
    if config.component_update == "entropy-bounded":
        return EntropyBoundedUpdate(config.entropy_loss_bound)
    if config.component_update == "direct":
        return DirectUpdate()
    return ImprovedBayesianUpdate() if config.component_update == "iblr" else TrustRegionUpdate()


def _weight_update(config: GMMVIConfig) -> WeightUpdate:
    if config.weight_update == "entropy-bounded":
        return EntropyBoundedWeights(config.weight_entropy_loss_bound)
    return DirectWeights() if config.weight_update == "direct" else TrustRegionWeights()


def _adaptation(config: GMMVIConfig, first_step: float) -> ComponentAdaptation:
    rule: ComponentAdaptation = FixedComponents()
    if config.adaptation == "adaptive":
        rule = AdaptiveComponents(
            add_every=config.add_every,
            delete_after=config.delete_after,
            max_components=config.max_components,
            n_candidates=config.n_candidates if config.add_every > 0 else 0,
            temperature=config.temperature,
            first_step=first_step,
            first_ridge=config.first_ridge,
            n_prior_candidates=config.n_prior_candidates,
        )
    if config.split_every == 0:
        return rule
    return SplitComponents(rule, config.split_every, config.delete_after, config.max_components)
