"""EIM, adversarial training and variants of EIM on random Gaussian mixtures (thesis 6.1, figures 6.1, 6.2).

All models can represent their targets. All methods except scikit-learn's and "EIM, defaults" start from the same
mixture. The measure of quality is the objective of the I-projection, KL(model || target), estimated with samples of the
model.

The column "estimator" names the density ratio estimator. For EIM, it is the classifier of the thesis ("network"), a
plug-in density, both together ("residual"), or the true ratio ("known"). VIPS also uses the true ratio. "EIM, defaults"
uses the default settings of the package, including its start. For adversarial methods, the column contains
"discriminator", "critic", or "ratio". For methods without a ratio, such as EM, it contains "none".

The second figure also shows EM and VIPS for reference. EM maximises the likelihood, and VIPS uses the target density.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.run import completed, timed
from eim_ros.learning.starts import initial_mixture_of_experts
from eim_ros.view.style import FAINT, INK, new_figure, write_figure
from experiments.baselines.games import (
    DIVERGENCES,
    AdversarialConfig,
    Game,
    b_gan,
    f_gan,
    fit_adversarially,
    gan,
    wgan,
    wgan_gp,
)
from experiments.baselines.networks import MixtureDensityConfig, fit_mixture_density
from experiments.baselines.others import (
    EIM_VARIANTS,
    GumbelSoftmax,
    MutualInformation,
    WeightLearning,
    fit_by_eim,
    fit_by_em,
    fit_by_variational_bayes,
)
from experiments.harness import GIVEN_START, START, Cell, Experiment, Outcome, Pairs, paired, pairs_in_words
from experiments.pictures import DEFAULTS, METHOD_COLOURS, THESIS, method_label
from experiments.random_mixtures import random_mixture
from experiments.report import Claim, Finding, Setup, judged, listed, paired_means
from experiments.table import ResultTable, Row, mean_and_error, summary

ADVERSARIAL = {
    "GAN": "discriminator",
    "f-GAN": "discriminator",
    "b-GAN": "ratio",
    "WGAN": "critic",
    "WGAN-GP": "critic",
}
OTHERS = {
    GIVEN_START: "none",
    THESIS: "network",
    "VIPS": "known",
    f"{DEFAULTS}{START}": EIMConfig().ratio.estimator,
    DEFAULTS: EIMConfig().ratio.estimator,
    "EM": "none",
    "MDN": "none",
    "scikit-learn EM": "none",
    "scikit-learn VB": "none",
}
REFERENCES = ("VIPS", "EM", "MDN", "scikit-learn EM", "scikit-learn VB")
OF_EIM = ("EIM", THESIS, DEFAULTS)
METHODS = tuple(
    dict.fromkeys(("EIM", DEFAULTS, "EM", *ADVERSARIAL, *EIM_VARIANTS, *OTHERS))
)  # a run follows this order
N_VALUES = 1000  # samples per component; a quadratic surrogate has 231 coefficients in 20 dimensions
WEIGHTS = ("gumbel", "mutual-information")
RATIOS = ("network", "plug-in", "residual", "known")


@dataclass(frozen=True)
class AdversarialComparisonConfig(Settings):
    """Settings of the experiment."""

    n_dims: tuple[int, ...] = option((2, 10, 20), "dimensions of the targets", minimum=1)
    n_components: tuple[int, ...] = option((1, 5, 10), "components of targets and models", minimum=1)
    methods: tuple[str, ...] = option(METHODS, "methods to run", choices=METHODS)
    ratios: tuple[str, ...] = option(
        ("network", "plug-in"), "density ratio estimators of EIM; known uses the true density", choices=RATIOS
    )
    weights: tuple[str, ...] = option(
        WEIGHTS, "how adversarial methods learn the weights of several components", choices=WEIGHTS
    )
    n_samples: int = option(10000, "samples for training", minimum=100)
    n_test_samples: int = option(
        5000, "number of samples for the evaluation, both of the model and of the target", minimum=100
    )
    n_iterations: int = option(300, "iterations of EIM and of VIPS", minimum=0)
    kl_bound: float = option(0.005, "EIM's maximum KL divergence of an update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "EIM's maximum loss of entropy per update", unit="nat", minimum=0.0)
    hidden_layers: tuple[int, ...] = option((50, 50, 50), "widths of all classifiers' layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of all classifiers", minimum=0.0, maximum=0.9)
    n_epochs: int = option(1, "passes of EIM's classifier over the data per iteration", minimum=1)
    n_steps: int = option(3000, "number of steps of adversarial and gradient methods", minimum=0)
    batch_size: int = option(250, "number of data points per step", minimum=1)
    learning_rate: float = option(1e-3, "step size of all optimisers", minimum=0.0)
    divergence: str = option("i-projection", "divergence that f-GAN minimises", choices=tuple(DIVERGENCES))
    ratio_divergence: str = option("pearson", "f-divergence for b-GAN's estimate of r", choices=tuple(DIVERGENCES))
    model_divergence: str = option("pearson", "f-divergence that b-GAN's model minimises", choices=tuple(DIVERGENCES))
    weight_limit: float = option(0.01, "maximum absolute value of WGAN's weights", minimum=1e-6)
    gradient_penalty: float = option(10.0, "weight of WGAN-GP's penalty", minimum=0.0)
    n_critic_steps: int = option(5, "number of steps of a Wasserstein critic before each step of the model", minimum=1)
    gumbel_temperature: float = option(0.5, "temperature of the Gumbel-softmax", minimum=1e-3)
    information_weight: float = option(0.1, "weight of the mutual information in the loss", minimum=0.0)


def _cells(config: AdversarialComparisonConfig) -> list[Cell]:
    """Return the cells method by method. The most expensive method is the last.

    Thus, an interrupted run has compared some methods at all sizes.
    """
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
    generator = torch.Generator().manual_seed(1_000_003 * seed + 7)  # a row must not depend on earlier cells
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
    """Return lines with means, and with the number of pairs (same target and seed) in which EIM has a lower KL."""
    lines = summary(table, ["method", "estimator", "weights", "n_dims", "n_components"])
    for method, ratio in dict.fromkeys((row["method"], row["estimator"]) for row in table.rows):
        if method not in OF_EIM:
            continue
        eim = {"method": method, "estimator": ratio}
        variants = [{"method": name, "estimator": ratio} for name in EIM_VARIANTS if name != "EIM"]
        for group in ([{"method": name} for name in ADVERSARIAL], variants, [{"method": name} for name in REFERENCES]):
            if method != "EIM" and group is variants:
                continue
            pairs = {other["method"]: paired(table, "kl", ("n_dims", "n_components"), eim, other) for other in group}
            lines += pairs_in_words(f"{method} ({ratio})", pairs)
    return lines


EXPERIMENT = Experiment(
    "adversarial",
    "EIM, its variants and adversarial training on random Gaussian mixtures (thesis 6.1, figures 6.1 and 6.2)",
    AdversarialComparisonConfig,
    _cells,
    _measure,
    _report,
    figures={"kl": "KL(model || target) [nat]"},
    by=("n_dims", "n_components"),
)


@dataclass(frozen=True)
class _Problem:
    """Target, samples (n, n_dims) for training and testing, and the start of all methods."""

    target: GaussianMixture
    train: Tensor
    test: Tensor
    start: GaussianMixture


@lru_cache(maxsize=16)  # all methods have the same problems
def _problem(n_train: int, n_test: int, n_dims: int, n_components: int, seed: int) -> _Problem:
    generator = torch.Generator().manual_seed(1_000_003 * seed + 1000 * n_dims + n_components)
    target = random_mixture(n_dims, n_components, generator)
    train, test = (target.sample(n, generator) for n in (n_train, n_test))
    start = initial_mixture_of_experts(train[:, :0], train, n_components, generator).as_mixture()
    return _Problem(target, train, test, start)


def _log_prob(mixture: GaussianMixture, sample: Tensor) -> Tensor:
    """Return the log density of samples by one matrix product, which is faster than a triangular solve per sample."""
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
    if method == GIVEN_START:
        return start
    if method == "VIPS":
        vips = GMMVIConfig.named("ZEMTRUX", n_iterations=config.n_iterations, plateau_window=0)
        model = completed(GMMVI(problem.target, vips).fit(start=start, generator=generator))
    elif method == THESIS:
        settings = {**_eim_settings(config, start), "ratio.validation_share": 0.0, "m_step.n_samples": N_VALUES}
        model = completed(EIM(EIMConfig.thesis(**settings)).fit(train, start, generator=generator))
    elif method in (DEFAULTS, f"{DEFAULTS}{START}"):
        iterations = {} if method == DEFAULTS else {"n_iterations": 0}
        defaults = EIMConfig(n_components=start.n_components, plateau_window=0).replace(**iterations)
        model = completed(EIM(defaults).fit(train, generator=generator))
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
        "m_step.kl_bound": config.kl_bound,
        "m_step.entropy_loss_bound": config.entropy_loss_bound,
        "m_step.gating.kl_bound": config.kl_bound,
        "m_step.gating.entropy_loss_bound": config.entropy_loss_bound,
        "m_step.n_samples": max(100, 10 * start.n_dims),
        "ratio.hidden_layers": config.hidden_layers,
        "ratio.dropout": config.dropout,
        "ratio.learning_rate": config.learning_rate,
        "ratio.batch_size": config.batch_size,
        "ratio.n_epochs": config.n_epochs,
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
    # A model with one component ("none") needs no method: its mutual information and the gradient are zero.
    return MutualInformation(config.information_weight, 100)


SIZE = ("n_dims", "n_components")
NEEDED = 0.9  # required share of pairs; it is below 1, because noise decides if both KLs are close to zero
LOCAL_OPTIMUM = 0.1  # [nat]; a method with a known density has reached a local optimum if its KL is larger
NO_MATTER = 1.5  # largest ratio of two means that counts as equal


SETUPS = (
    Setup("network", THESIS),
    Setup("network", others=tuple(name for name in EIM_VARIANTS if name != "EIM")),
    Setup("plug-in", others=tuple(name for name in EIM_VARIANTS if name != "EIM")),
    Setup(EIMConfig().ratio.estimator, DEFAULTS),
)


def _below_adversarial(table: ResultTable, setup: Setup) -> Finding | None:
    """Compare EIM with adversarial methods in pairs of the same target and seed.

    Each method of learning the weights of a mixture forms a separate pair.
    """
    of_methods = {name: paired(table, "kl", SIZE, setup.key, {"method": name}) for name in ADVERSARIAL}
    total = sum(of_methods.values(), Pairs(0, 0))
    if not total.n_pairs:
        return None
    shown = ", ".join(f"{name} {pairs}" for name, pairs in of_methods.items() if pairs.n_pairs)
    better = [name for name, pairs in of_methods.items() if pairs.n_below < NEEDED * pairs.n_pairs]
    return judged(
        f"EIM has the lower KL in {total} pairs with the same target and seed: {shown}",
        total.n_below >= NEEDED * total.n_pairs,
        f"{listed(better)} had the lower KL in more than {1.0 - NEEDED:.0%} of the pairs",
    )


def _best_of_variants(table: ResultTable, setup: Setup) -> Finding | None:
    of_sizes = _variants(table, setup)
    if not of_sizes:
        return None
    behind = {size: kl["EIM"] - min(kl.values()) for size, kl in of_sizes.items() if kl["EIM"] > min(kl.values())}
    (n_dims, count), kl = max(of_sizes.items())
    shown = ", ".join(f"{name} {value:.3f}" for name, value in kl.items())
    first = listed(sorted({min(of_sizes[size], key=of_sizes[size].__getitem__) for size in behind}))
    where = listed(f"({d}, {k})" for d, k in behind)
    gap = max(behind.values(), default=0.0)
    why = f"{first} is lower at (dimensions, components) = {where}, by at most {gap:.2g} nat"
    if behind and all(k == 1 for _, k in behind):
        why += ", because a single component has no structure to exploit"
    return judged(
        f"EIM is best at {len(of_sizes) - len(behind)} of {len(of_sizes)} sizes; d = {n_dims}, {count} components: "
        f"{shown} nat",
        not behind,
        why,
    )


def _kl_term_without_structure(table: ResultTable, setup: Setup) -> Finding | None:
    of_sizes = {key: kl for key, kl in _variants(table, setup).items() if key[1] > 1}
    if not of_sizes:
        return None
    factors = [kl["EIM-US-KL"] / kl["EIM-US"] for kl in of_sizes.values()]
    worse, better = (sum(apart) for apart in ([f > NO_MATTER for f in factors], [f < 1.0 / NO_MATTER for f in factors]))
    return judged(
        f"for mixtures, the KL of EIM-US-KL is {min(factors):.2f} to {max(factors):.2f} times the KL of EIM-US",
        not worse and not better,
        f"without the KL term, gradient steps can leave the region where the ratio is valid, and the KL is clearly "
        f"higher at {worse} of {len(factors)} sizes"
        if worse >= better
        else f"without the KL term, the KL is clearly lower at {better} of {len(factors)} sizes",
    )


def _behind_vips(table: ResultTable, setup: Setup) -> Finding | None:
    pairs = paired_means(table, "kl", SIZE, {"method": "VIPS"}, setup.key)
    if not pairs:
        return None
    failing = {size: (vips, eim) for size, (vips, eim) in pairs.items() if vips > eim}
    vips, eim = pairs[max(pairs)]
    size = max(failing, key=lambda size: failing[size][0] - failing[size][1], default=max(pairs))
    far = pairs[size][0] > LOCAL_OPTIMUM
    why = (
        f"at ({size[0]}, {size[1]}), VIPS ends {pairs[size][0]:.2f} nat from a target that its model can "
        f"represent, in a local optimum"
        if far
        else f"both are near zero: VIPS is higher by at most {pairs[size][0] - pairs[size][1]:.4f} nat"
    )
    return judged(
        f"VIPS has the lower KL at {len(pairs) - len(failing)} of {len(pairs)} sizes; at the largest size, VIPS has "
        f"{vips:.3f} nat and EIM {eim:.3f}",
        not failing,
        why,
    )


def _variants(table: ResultTable, setup: Setup) -> dict[tuple[int, int], dict[str, float]]:
    """Return the mean KL of EIM and its modified versions by size, over their common seeds."""
    if not setup.others:
        return {}
    found: dict[tuple[int, int], dict[str, float]] = {}
    rows: list[Row] = [row for row in table.where(estimator=setup.estimator) if row["method"] in EIM_VARIANTS]
    for size in sorted({(row["n_dims"], row["n_components"]) for row in rows}):
        of_size = [row for row in rows if (row["n_dims"], row["n_components"]) == size]
        seeds = [{row["seed"] for row in of_size if row["method"] == name} for name in EIM_VARIANTS]
        shared = set.intersection(*seeds)
        if shared:
            found[size] = {
                name: sum(row["kl"] for row in of_size if row["method"] == name and row["seed"] in shared) / len(shared)
                for name in EIM_VARIANTS
            }
    return found


CLAIMS = (
    Claim(
        "6.1, figure 6.1",
        "EIM's KL(model || target) is below that of every adversarial method.",
        _below_adversarial,
    ),
    Claim("6.1, figure 6.2", "EIM is better than all its variants.", _best_of_variants),
    Claim("6.1, figure 6.2d", "Without the structure, the KL term does not matter.", _kl_term_without_structure),
    Claim("6.1, figure 6.2", "VIPS, which uses the known density, is better than EIM.", _behind_vips),
)


TITLES = {
    "none": "one Gaussian",
    "gumbel": "mixtures; adversarial weights\nby Gumbel-softmax",
    "mutual-information": "mixtures; adversarial weights\nby mutual information",
}
MARKERS = {"network": "o", "plug-in": "D", "residual": "s", "known": "P", "none": "X"}
LINEAR_BELOW = 1e-3  # [nat]; the axis is linear below this value, because estimates of a zero KL may be negative


@dataclass(frozen=True)
class _Series:
    """Method with one estimator, and the style of its rows."""

    method: str
    estimator: str

    @property
    def label(self) -> str:
        return method_label(self.method, self.estimator)

    @property
    def style(self) -> dict[str, object]:
        colour = METHOD_COLOURS[self.method]
        face = colour if self.estimator != "plug-in" else "white"
        return {"color": colour, "marker": MARKERS.get(self.estimator, "^"), "markerfacecolor": face}


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write two PNGs: EIM with adversarial methods, and EIM with its variants, EM and VIPS.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment adversarial.
    folder : Path

    Returns
    -------
    list of Path
    """
    pairs = list(dict.fromkeys((row["method"], row["estimator"]) for row in table.rows))
    eim = [_Series(*pair) for pair in pairs if pair[0] in OF_EIM]
    games = [_Series(*pair) for pair in pairs if pair[0] in ADVERSARIAL]
    variants = [
        _Series(*pair)
        for method in (*EIM_VARIANTS, THESIS, DEFAULTS, "EM", "VIPS")
        for pair in pairs
        if pair[0] == method
    ]
    panels = []
    for way in ("none", *WEIGHTS):
        rows = [row for row in table.rows if (row["n_components"] == 1) == (way == "none")]
        if any(row["method"] in ADVERSARIAL and row["weights"] == way for row in rows):
            chosen = [row for row in rows if row["method"] in OF_EIM or row["weights"] == way]
            panels.append((TITLES[way], chosen))
    paths = [_draw(folder / "adversarial.png", panels, [*eim, *games])] if panels else []
    counts = sorted(table.distinct("n_components"))
    by_count = [(f"{n} component{'s' if n > 1 else ''}", table.where(n_components=n)) for n in counts]
    return [*paths, _draw(folder / "variants.png", by_count, variants)]


def _draw(path: Path, panels: list[tuple[str, list[Row]]], series: list[_Series]) -> Path:
    widths = [1.0 + len({(row["n_dims"], row["n_components"]) for row in rows}) for _, rows in panels]
    figure = new_figure(1.2 + 0.9 * sum(widths), 5.2)
    several = figure.subplots(1, len(panels), sharey=True, squeeze=False, width_ratios=widths)[0]
    for axes, (title, rows) in zip(several, panels, strict=True):
        _draw_panel(axes, rows, series)
        axes.set_title(title, fontsize=10, color=INK)
    figure.axes[0].set_ylabel("KL(model || target) [nat]", fontsize=9)
    handles = [Line2D([], [], linestyle="", label=one.label, **one.style) for one in series]  # type: ignore[arg-type]
    note = f"d: dimensions, k: components; small: a seed, large: their mean; axis linear below {LINEAR_BELOW:g} nat"
    figure.legend(
        handles=handles,
        title=note,
        title_fontsize=8,
        loc="outside lower center",
        ncols=min(4, len(series)),
        fontsize=8,
        frameon=False,
    )
    return write_figure(figure, path)


def _draw_panel(axes: Axes, rows: list[Row], series: list[_Series]) -> None:
    sizes = sorted({(row["n_dims"], row["n_components"]) for row in rows})
    for place, (n_dims, n_components) in enumerate(sizes):
        for number, one in enumerate(series):
            found = [
                row
                for row in rows
                if (row["n_dims"], row["n_components"]) == (n_dims, n_components)
                and (row["method"], row["estimator"]) == (one.method, one.estimator)
            ]
            if not found:
                continue
            x = place + 0.8 * ((number + 0.5) / len(series) - 0.5)
            values = [row["kl"] for row in found]
            axes.plot([x] * len(values), values, linestyle="", markersize=3, alpha=0.5, **one.style)  # type: ignore[arg-type]
            axes.plot([x], [mean_and_error(found, "kl")[0]], markersize=8, **one.style)  # type: ignore[arg-type]
        if place:
            axes.axvline(place - 0.5, color=FAINT, linewidth=0.5)
    axes.set_yscale("symlog", linthresh=LINEAR_BELOW)
    axes.set_xticks(range(len(sizes)), [f"d = {n_dims}\nk = {k}" for n_dims, k in sizes], fontsize=8)
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
