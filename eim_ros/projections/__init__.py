"""Closed-form and convex projections: trust-region I-projections and weighted maximum likelihood.

EIM and inference with a known density share these updates and differ only in where the log density ratio comes from.
"""

from eim_ros.projections.categorical import CategoricalUpdate, project_categorical
from eim_ros.projections.gating import fit_gating
from eim_ros.projections.gating_projection import GatingUpdate, project_gating
from eim_ros.projections.gaussian import GaussianUpdate, project_experts, solve_multipliers
from eim_ros.projections.maximum_likelihood import fit_experts
from eim_ros.projections.neural_fit import FitSettings, fit_neural_experts, fit_neural_gating
from eim_ros.projections.shortened_step import ShortenedStep, shorten_step
from eim_ros.projections.surrogate import QuadraticSurrogate, fit_to_gradients, fit_to_values
from eim_ros.projections.weighted_samples import WeightedSamples, weigh_samples

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
    "shorten_step",
    "solve_multipliers",
    "weigh_samples",
]
