"""EIM, adversarial training and EIM's own variants on random Gaussian mixtures (thesis 6.1, figures 6.1, 6.2).

All models can represent their targets, and all methods but scikit-learn's begin at the same mixture. What is measured
is the I-projection's objective, KL(model || target), by samples of the model.

Estimators of the ratio, a column of the table: EIM has the thesis' classifier ("network"), the plug-in density, both
together ("residual") or the true ratio ("known", which VIPS has too); adversarial methods a "discriminator", a "critic"
or the "ratio" itself; "none" for maximum likelihood.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.experiments.baselines import (
    DIVERGENCES,
    EIM_VARIANTS,
    AdversarialConfig,
    Game,
    GumbelSoftmax,
    MixtureDensityConfig,
    MutualInformation,
    WeightLearning,
    b_gan,
    f_gan,
    fit_adversarially,
    fit_by_eim,
    fit_by_em,
    fit_by_variational_bayes,
    fit_mixture_density,
    gan,
    wgan,
    wgan_gp,
)
from eim_ros.experiments.experiment import Cell, Experiment, Outcome, completed, timed
from eim_ros.experiments.paired_comparison import paired, pairs_in_words
from eim_ros.experiments.random_mixtures import random_mixture
from eim_ros.experiments.summary import summary
from eim_ros.experiments.table import ResultTable
from eim_ros.inference import EM, EMConfig
from eim_ros.inference.starts.initial_model import initial_mixture_of_experts
from eim_ros.inference.variational import GMMVI, GMMVIConfig
from eim_ros.settings import Settings, option

__all__ = ["ADVERSARIAL", "EXPERIMENT", "WEIGHTS", "AdversarialComparisonConfig"]

ADVERSARIAL = {
    "GAN": "discriminator",
    "f-GAN": "discriminator",
    "b-GAN": "ratio",
    "WGAN": "critic",
    "WGAN-GP": "critic",
}
OTHERS = {"VIPS": "known", "EM": "none", "MDN": "none", "scikit-learn EM": "none", "scikit-learn VB": "none"}
METHODS = tuple(dict.fromkeys(("EIM", "EM", *ADVERSARIAL, *EIM_VARIANTS, *OTHERS)))  # the order of a run
WEIGHTS = ("gumbel", "mutual-information")
RATIOS = ("network", "plug-in", "residual", "known")


@dataclass(frozen=True)
class AdversarialComparisonConfig(Settings):
    """Settings of the experiment."""

    n_dims: tuple[int, ...] = option((2, 10, 20), "dimensions of the targets", minimum=1)
    n_components: tuple[int, ...] = option((1, 5, 10), "components of targets and models", minimum=1)
    methods: tuple[str, ...] = option(METHODS, "methods to run", choices=METHODS)
    ratios: tuple[str, ...] = option(
        ("network", "plug-in"), "density ratio estimators of EIM; known: that of the true density", choices=RATIOS
    )
    weights: tuple[str, ...] = option(
        WEIGHTS, "how adversarial methods learn the weights of several components", choices=WEIGHTS
    )
    n_samples: int = option(10000, "samples for training", minimum=100)
    n_test_samples: int = option(5000, "samples of the model, and of the target, that judge", minimum=100)
    n_iterations: int = option(300, "iterations of EIM and of VIPS", minimum=0)
    kl_bound: float = option(0.005, "EIM's largest KL of an update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "EIM's largest loss of entropy per update", unit="nat", minimum=0.0)
    hidden_layers: tuple[int, ...] = option((50, 50, 50), "widths of all classifiers' layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of all classifiers", minimum=0.0, maximum=0.9)
    n_epochs: int = option(1, "passes over the data of EIM's classifier per iteration", minimum=1)
    n_steps: int = option(3000, "steps of adversarial and of gradient methods", minimum=0)
    batch_size: int = option(250, "data of a step", minimum=1)
    learning_rate: float = option(1e-3, "step size of all optimisers", minimum=0.0)
    divergence: str = option("i-projection", "what f-GAN minimises", choices=tuple(DIVERGENCES))
    ratio_divergence: str = option("pearson", "f by which b-GAN estimates the ratio", choices=tuple(DIVERGENCES))
    model_divergence: str = option("pearson", "f that b-GAN's model minimises", choices=tuple(DIVERGENCES))
    weight_limit: float = option(0.01, "box of WGAN's weights", minimum=1e-6)
    gradient_penalty: float = option(10.0, "weight of WGAN-GP's penalty", minimum=0.0)
    n_critic_steps: int = option(5, "steps of a Wasserstein critic for each of the model", minimum=1)
    gumbel_temperature: float = option(0.5, "temperature of the Gumbel-softmax", minimum=1e-3)
    information_weight: float = option(0.1, "weight of the mutual information", minimum=0.0)


def _cells(config: AdversarialComparisonConfig) -> list[Cell]:
    """Method by method, the dearest last: a run that is stopped has compared some methods at all sizes."""
    cells: list[Cell] = []
    methods = sorted(config.methods, key=lambda method: ADVERSARIAL.get(method) == "critic")
    for method, n_dims, n_components in itertools.product(methods, config.n_dims, config.n_components):
        estimators, ways = [OTHERS.get(method, "")], ["none"]
        if method in EIM_VARIANTS:
            estimators = [ratio for ratio in config.ratios if method == "EIM" or ratio != "known"]
        elif method in ADVERSARIAL:
            estimators = [ADVERSARIAL[method]]
            ways = list(config.weights) if n_components > 1 else ["none"]  # one component has no weight to learn
        size: dict[str, int] = {"n_dims": n_dims, "n_components": n_components}
        cells += [
            {"method": method, "estimator": estimator, "weights": way, **size}
            for estimator, way in itertools.product(estimators, ways)
        ]
    return cells


def _measure(config: AdversarialComparisonConfig, cell: Cell, seed: int) -> Outcome:
    problem = _problem(config.n_samples, config.n_test_samples, int(cell["n_dims"]), int(cell["n_components"]), seed)
    generator = torch.Generator().manual_seed(1_000_003 * seed + 7)  # the same whatever came before
    model, seconds = timed(lambda: _fitted(config, cell, problem, seed, generator))
    target, n = problem.target, config.n_test_samples
    drawn = model.sample(n, torch.Generator().manual_seed(seed))
    difference = _log_prob(model, drawn) - _log_prob(target, drawn)
    figures = {
        "kl": float(difference.mean()),
        "kl_error": float(difference.std()) / n**0.5,
        "forward_kl": float((_log_prob(target, problem.test) - _log_prob(model, problem.test)).mean()),
    }
    return Outcome(seconds, figures)


def _report(table: ResultTable) -> list[str]:
    """Means, and in how many pairs of the same target and seed EIM is below each other method."""
    lines = summary(table, ["method", "estimator", "weights", "n_dims", "n_components"])
    for ratio in table.distinct("estimator", method="EIM"):
        eim = {"method": "EIM", "estimator": ratio}
        variants = [{"method": name, "estimator": ratio} for name in EIM_VARIANTS if name != "EIM"]
        for group in ([{"method": name} for name in ADVERSARIAL], variants, [{"method": name} for name in OTHERS]):
            pairs = {other["method"]: paired(table, "kl", ("n_dims", "n_components"), eim, other) for other in group}
            lines += pairs_in_words(f"EIM ({ratio})", pairs)
    return lines


EXPERIMENT = Experiment(
    "adversarial",
    "EIM, its variants and adversarial training on random Gaussian mixtures (thesis 6.1, figures 6.1, 6.2)",
    AdversarialComparisonConfig,
    _cells,
    _measure,
    {"n_dims": "--dims", "n_components": "--components"},
    _report,
)


@dataclass(frozen=True)
class _Problem:
    """Target, samples (n, n_dims) for training and testing, and where all methods start."""

    target: GaussianMixture
    train: Tensor
    test: Tensor
    start: GaussianMixture


@lru_cache(maxsize=16)  # all methods share them
def _problem(n_train: int, n_test: int, n_dims: int, n_components: int, seed: int) -> _Problem:
    generator = torch.Generator().manual_seed(1_000_003 * seed + 1000 * n_dims + n_components)
    target = random_mixture(n_dims, n_components, generator)
    train, test = (target.sample(n, generator) for n in (n_train, n_test))
    start = initial_mixture_of_experts(train[:, :0], train, n_components, generator).as_mixture()
    return _Problem(target, train, test, start)


def _log_prob(mixture: GaussianMixture, sample: Tensor) -> Tensor:
    """Of many samples, by one matrix product in place of a triangular system for each."""
    return MixtureOfExperts.from_mixture(mixture).log_prob(sample[:, :0], sample)


def _fitted(
    config: AdversarialComparisonConfig, cell: Cell, problem: _Problem, seed: int, generator: torch.Generator
) -> GaussianMixture:
    method, train, start = str(cell["method"]), problem.train, problem.start
    if method in EIM_VARIANTS:
        settings = _eim_settings(config, start)
        return fit_by_eim(settings, method, str(cell["estimator"]), train, start, problem.target, generator)
    if method in ADVERSARIAL:
        of_game = AdversarialConfig(
            n_steps=config.n_steps,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            generator_rate=config.learning_rate,
            hidden_layers=config.hidden_layers,
            dropout=config.dropout,
        )
        weights = _weights(config, str(cell["weights"]))
        return fit_adversarially(of_game, _game(config, method), weights, train, start, generator).mixture
    if method == "VIPS":
        vips = GMMVIConfig.named("ZEMTRUX", n_iterations=config.n_iterations)
        model = completed(GMMVI(problem.target, vips).fit(start, generator))
    elif method == "EM":
        model = completed(EM(EMConfig(n_components=start.n_components)).fit(train, start))
    elif method == "MDN":
        of_gradients = MixtureDensityConfig(
            n_steps=config.n_steps, batch_size=config.batch_size, learning_rate=config.learning_rate
        )
        network = fit_mixture_density(of_gradients, train[:, :0], train, start, generator)
        return network.without_context()
    elif method == "scikit-learn EM":
        return fit_by_em(train, start.n_components, seed)
    else:
        return fit_by_variational_bayes(train, start.n_components, seed)
    assert isinstance(model, GaussianMixture)
    return model


def _eim_settings(config: AdversarialComparisonConfig, start: GaussianMixture) -> dict[str, Any]:
    return {
        "n_components": start.n_components,
        "n_iterations": config.n_iterations,
        "kl_bound": config.kl_bound,
        "entropy_loss_bound": config.entropy_loss_bound,
        "gating_kl_bound": config.kl_bound,
        "gating_entropy_loss_bound": config.entropy_loss_bound,
        "n_expert_samples": max(100, 10 * start.n_dims),
        "hidden_layers": config.hidden_layers,
        "dropout": config.dropout,
        "learning_rate": config.learning_rate,
        "batch_size": config.batch_size,
        "n_epochs": config.n_epochs,
    }


def _game(config: AdversarialComparisonConfig, method: str) -> Game:
    if method == "GAN":
        return gan()
    if method == "f-GAN":
        return f_gan(DIVERGENCES[config.divergence])
    if method == "WGAN":
        return wgan(config.weight_limit, config.n_critic_steps)
    if method == "WGAN-GP":
        return wgan_gp(config.gradient_penalty, config.n_critic_steps)
    return b_gan(DIVERGENCES[config.ratio_divergence], DIVERGENCES[config.model_divergence])


def _weights(config: AdversarialComparisonConfig, way: str) -> WeightLearning:
    if way == "gumbel":
        return GumbelSoftmax(config.gumbel_temperature)
    # of one component ("none") the mutual information is zero, and so is its gradient
    return MutualInformation(config.information_weight, 100)
