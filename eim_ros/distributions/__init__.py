"""Densities: Gaussian, Gaussian mixture, mixture of experts with linear or neural gating and experts.

All but `LinearParameters` and `load_parameters` need torch, and are imported when they are first used.
"""

from typing import TYPE_CHECKING

from eim_ros.deferred import deferred_names
from eim_ros.distributions.linear_parameters import LinearParameters
from eim_ros.distributions.model_file import load_parameters

if TYPE_CHECKING:
    from eim_ros.distributions.gating import SoftmaxGating
    from eim_ros.distributions.gaussian import Gaussian
    from eim_ros.distributions.gaussian_mixture import GaussianMixture
    from eim_ros.distributions.linear_experts import LinearExperts
    from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
    from eim_ros.distributions.monte_carlo import Estimate, entropy, kl_divergence
    from eim_ros.distributions.neural_experts import NeuralExperts
    from eim_ros.distributions.neural_gating import NeuralGating
    from eim_ros.distributions.parts import Experts, Gating
    from eim_ros.distributions.serialization import (
        load_mixture_of_experts,
        load_model,
        save_mixture_of_experts,
        save_model,
    )

__all__ = [
    "Estimate",
    "Experts",
    "Gating",
    "Gaussian",
    "GaussianMixture",
    "LinearExperts",
    "LinearParameters",
    "MixtureOfExperts",
    "NeuralExperts",
    "NeuralGating",
    "SoftmaxGating",
    "entropy",
    "kl_divergence",
    "load_mixture_of_experts",
    "load_model",
    "load_parameters",
    "save_mixture_of_experts",
    "save_model",
]

__getattr__, __dir__ = deferred_names(
    __name__,
    {
        "Estimate": "monte_carlo",
        "Experts": "parts",
        "Gating": "parts",
        "Gaussian": "gaussian",
        "GaussianMixture": "gaussian_mixture",
        "LinearExperts": "linear_experts",
        "MixtureOfExperts": "mixture_of_experts",
        "NeuralExperts": "neural_experts",
        "NeuralGating": "neural_gating",
        "SoftmaxGating": "gating",
        "entropy": "monte_carlo",
        "kl_divergence": "monte_carlo",
        "load_mixture_of_experts": "serialization",
        "load_model": "serialization",
        "save_mixture_of_experts": "serialization",
        "save_model": "serialization",
    },
)
