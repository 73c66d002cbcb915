"""Baselines for the package's learners: adversarial training, gradient-based maximum likelihood, and scikit-learn."""

from __future__ import annotations

from experiments.baselines.games import (
    DIVERGENCES,
    AdversarialConfig,
    AdversarialFit,
    FDivergence,
    Game,
    b_gan,
    f_gan,
    fit_adversarially,
    gan,
    wgan,
    wgan_gp,
)
from experiments.baselines.networks import MixtureDensityConfig, MixtureDensityNetwork, fit_mixture_density
from experiments.baselines.others import (
    EIM_VARIANTS,
    GumbelSoftmax,
    MutualInformation,
    WeightLearning,
    fit_by_eim,
    fit_by_em,
    fit_by_variational_bayes,
)

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
