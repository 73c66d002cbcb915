"""What the package's learners are compared with: adversarial training, gradients of the likelihood, scikit-learn."""

from eim_ros.experiments.baselines.adversarial import AdversarialConfig, AdversarialFit, fit_adversarially
from eim_ros.experiments.baselines.eim_variants import EIM_VARIANTS, fit_by_eim
from eim_ros.experiments.baselines.f_divergences import DIVERGENCES, FDivergence
from eim_ros.experiments.baselines.games import Game, b_gan, f_gan, gan, wgan, wgan_gp
from eim_ros.experiments.baselines.mixture_density_network import (
    MixtureDensityConfig,
    MixtureDensityNetwork,
    fit_mixture_density,
)
from eim_ros.experiments.baselines.scikit_learn import fit_by_em, fit_by_variational_bayes
from eim_ros.experiments.baselines.weight_learning import GumbelSoftmax, MutualInformation, WeightLearning

__all__ = [
    "DIVERGENCES",
    "EIM_VARIANTS",
    "AdversarialConfig",
    "AdversarialFit",
    "FDivergence",
    "Game",
    "GumbelSoftmax",
    "MixtureDensityConfig",
    "MixtureDensityNetwork",
    "MutualInformation",
    "WeightLearning",
    "b_gan",
    "f_gan",
    "fit_adversarially",
    "fit_by_eim",
    "fit_by_em",
    "fit_by_variational_bayes",
    "fit_mixture_density",
    "gan",
    "wgan",
    "wgan_gp",
]
