"""Densities: Gaussians, Gaussian mixtures, and mixtures of experts with linear or neural gating and experts.

`LinearParameters` and `load_parameters` do not need torch. All other names are imported on first use, because they need
torch.
"""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names
from eim_ros.learning.models.serialization import LinearParameters, load_parameters

if TYPE_CHECKING:
    from eim_ros.learning.models.custom import CustomExperts, ExpertFamily
    from eim_ros.learning.models.divergence import Estimate, entropy, kl_divergence
    from eim_ros.learning.models.gaussian import Gaussian
    from eim_ros.learning.models.gaussian_mixture import GaussianMixture
    from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
    from eim_ros.learning.models.mixture_of_experts import Experts, Gating, MixtureOfExperts
    from eim_ros.learning.models.neural import NeuralExperts, NeuralGating
    from eim_ros.learning.models.serialization import (
        load_mixture_of_experts,
        load_model,
        save_mixture_of_experts,
        save_model,
    )

__all__ = [
    "CustomExperts",
    "Estimate",
    "ExpertFamily",
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

__getattr__, __dir__ = deferred_names(__name__, __file__)
