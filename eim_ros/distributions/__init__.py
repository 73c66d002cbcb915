"""Densities: Gaussian, Gaussian mixture, mixture of experts with linear or neural gating and experts.

All but `LinearParameters` and `load_parameters` need torch, and are imported when they are first used.
"""

from typing import TYPE_CHECKING

from eim_ros.deferred import deferred_names
from eim_ros.distributions.linear_parameters import LinearParameters
from eim_ros.distributions.model_file import load_parameters

if TYPE_CHECKING:
    from eim_ros.distributions.binary_sparse_coding import BinarySparseCoding
    from eim_ros.distributions.categorical import CategoricalFamily
    from eim_ros.distributions.exponential_family import ExponentialFamily, ExponentialMixture
    from eim_ros.distributions.gating import SoftmaxGating
    from eim_ros.distributions.gaussian import Gaussian
    from eim_ros.distributions.gaussian_mixture import GaussianMixture
    from eim_ros.distributions.linear_experts import LinearExperts
    from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
    from eim_ros.distributions.monte_carlo import Estimate, entropy, kl_divergence
    from eim_ros.distributions.multiple_causes import MultipleCauseModel
    from eim_ros.distributions.neural_experts import NeuralExperts
    from eim_ros.distributions.neural_gating import NeuralGating
    from eim_ros.distributions.noisy_or import NoisyOr
    from eim_ros.distributions.parts import Experts, Gating
    from eim_ros.distributions.poisson import PoissonFamily
    from eim_ros.distributions.serialization import (
        load_mixture_of_experts,
        load_model,
        save_mixture_of_experts,
        save_model,
    )

__all__ = [
    "BinarySparseCoding",
    "CategoricalFamily",
    "Estimate",
    "Experts",
    "ExponentialFamily",
    "ExponentialMixture",
    "Gating",
    "Gaussian",
    "GaussianMixture",
    "LinearExperts",
    "LinearParameters",
    "MixtureOfExperts",
    "MultipleCauseModel",
    "NeuralExperts",
    "NeuralGating",
    "NoisyOr",
    "PoissonFamily",
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
        "BinarySparseCoding": "binary_sparse_coding",
        "Estimate": "monte_carlo",
        "CategoricalFamily": "categorical",
        "Experts": "parts",
        "ExponentialFamily": "exponential_family",
        "ExponentialMixture": "exponential_family",
        "Gating": "parts",
        "Gaussian": "gaussian",
        "GaussianMixture": "gaussian_mixture",
        "LinearExperts": "linear_experts",
        "MixtureOfExperts": "mixture_of_experts",
        "MultipleCauseModel": "multiple_causes",
        "NeuralExperts": "neural_experts",
        "NeuralGating": "neural_gating",
        "NoisyOr": "noisy_or",
        "PoissonFamily": "poisson",
        "SoftmaxGating": "gating",
        "entropy": "monte_carlo",
        "kl_divergence": "monte_carlo",
        "load_mixture_of_experts": "serialization",
        "load_model": "serialization",
        "save_mixture_of_experts": "serialization",
        "save_model": "serialization",
    },
)
