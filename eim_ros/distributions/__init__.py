"""Densities: Gaussian, Gaussian mixture, mixture of experts with linear or neural gating and experts."""

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
    "MixtureOfExperts",
    "NeuralExperts",
    "NeuralGating",
    "SoftmaxGating",
    "entropy",
    "kl_divergence",
    "load_mixture_of_experts",
    "load_model",
    "save_mixture_of_experts",
    "save_model",
]
