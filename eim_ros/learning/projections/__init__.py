"""Projections of models: I-projections in trust regions, and weighted maximum likelihood.

EIM and variational inference with a known density share these updates. Both learners differ only in the source of the
log density ratio.
"""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.learning.projections.categorical import CategoricalUpdate, project_categorical
    from eim_ros.learning.projections.gating import GatingUpdate, project_gating
    from eim_ros.learning.projections.gaussian import (
        GaussianUpdate,
        QuadraticSurrogate,
        fit_to_gradients,
        fit_to_values,
        project_experts,
        restrict_covariances,
        solve_multipliers,
    )
    from eim_ros.learning.projections.likelihood import fit_experts, fit_gating
    from eim_ros.learning.projections.neural import (
        FitSettings,
        ShortenedStep,
        WeightedSamples,
        fit_neural_experts,
        fit_neural_gating,
        shorten_step,
        weigh_samples,
    )

__all__ = [
    "CategoricalUpdate",
    "FitSettings",
    "GatingUpdate",
    "GaussianUpdate",
    "QuadraticSurrogate",
    "ShortenedStep",
    "WeightedSamples",
    "fit_experts",
    "fit_gating",
    "fit_neural_experts",
    "fit_neural_gating",
    "fit_to_gradients",
    "fit_to_values",
    "project_categorical",
    "project_experts",
    "project_gating",
    "restrict_covariances",
    "shorten_step",
    "solve_multipliers",
    "weigh_samples",
]

__getattr__, __dir__ = deferred_names(__name__, __file__)
