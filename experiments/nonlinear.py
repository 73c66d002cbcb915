"""One nonlinear expert, N(psi_mu(y), psi_Sigma(y)), on univariate targets (thesis 6.6, figure 6.8).

Contexts y are uniform in [-1, 1], and p(x|y) is

    sine       N(sin(2.5 pi y), 0.1^2)
    modes      1/2 N(y sin(2.5 pi y) + 0.7, 0.1^2) + 1/2 N(-y sin(2.5 pi y) - 0.7, 0.1^2)
    spread     N(0, ((y + 1)^2 + 0.05)^2)

EM and EIM fit the same expert. One Gaussian cannot represent two modes: EM covers both, EIM ignores one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.run import completed, timed
from eim_ros.view.figure_file import new_figure, write_figure
from eim_ros.view.style import INK, MUTED
from experiments.harness import Cell, Experiment, Outcome
from experiments.pictures import METHOD_COLOURS, method_label
from experiments.report import Claim, Finding
from experiments.table import ResultTable, Row, mean_and_error

NEAR = 3.0  # distance within which a sample belongs to a mode [standard deviations]
DEVIATION = 0.1
N_DRAWN = 201  # number of contexts from -1 to 1 at which a row stores the model for the figure


def _mixture(modes: list[Tensor], deviation: Tensor) -> GaussianMixture:
    """Return a batch (n,) of mixtures with equal weights, from modes (n,) and a shared standard deviation (n,)."""
    means = torch.stack(modes, -1).unsqueeze(-1)
    factors = deviation[:, None, None, None].expand(*means.shape, 1)
    return GaussianMixture(torch.zeros_like(means[..., 0]), means, factors)


def _sine(context: Tensor) -> GaussianMixture:
    return _mixture([(2.5 * math.pi * context[:, 0]).sin()], torch.full_like(context[:, 0], DEVIATION))


def _modes(context: Tensor) -> GaussianMixture:
    mode = context[:, 0] * (2.5 * math.pi * context[:, 0]).sin() + 0.7
    return _mixture([mode, -mode], torch.full_like(mode, DEVIATION))


def _spread(context: Tensor) -> GaussianMixture:
    return _mixture([torch.zeros_like(context[:, 0])], (context[:, 0] + 1.0).square() + 0.05)


TARGETS: dict[str, Callable[[Tensor], GaussianMixture]] = {"sine": _sine, "modes": _modes, "spread": _spread}


@dataclass(frozen=True)
class NonlinearConfig(Settings):
    """Settings of the experiment; defaults are from thesis table B.2 if it contains them."""

    targets: tuple[str, ...] = option(tuple(TARGETS), "targets to fit", choices=tuple(TARGETS))
    n_samples: int = option(5000, "number of samples for training, and of contexts for testing", minimum=100)
    n_iterations: int = option(60, "number of EIM iterations", minimum=1)
    em_iterations: int = option(20, "maximum number of EM iterations", minimum=1)
    start_iterations: int = option(10, "maximum number of EM iterations for EIM's start", minimum=1)
    kl_bound: float = option(0.01, "maximum KL divergence of an update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "maximum loss of entropy per update", unit="nat", minimum=0.0)
    ratios: tuple[str, ...] = option(RATIO_ESTIMATORS, "density ratio estimators of EIM", choices=RATIO_ESTIMATORS)
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    parameter_layers: tuple[int, ...] = option((50, 50), "widths of the expert's layers", minimum=1)
    parameter_l2: float = option(1e-3, "weight of the sum of the expert's squared weights", minimum=0.0)


def _cells(config: NonlinearConfig) -> list[Cell]:
    methods = [("EM", "none"), *(("EIM", ratio) for ratio in config.ratios)]
    return [
        {"target": name, "method": method, "estimator": ratio} for name in config.targets for method, ratio in methods
    ]


def _measure(config: NonlinearConfig, cell: Cell, seed: int) -> Outcome:
    name, ratio = str(cell["target"]), str(cell["estimator"])
    data = _data(config.n_samples, name, seed)
    generator = torch.Generator().manual_seed(_seed(name, seed) + 500_000)  # differs from the seed of the data
    model, seconds = timed(lambda: _fitted(config, ratio, data, generator))
    return Outcome(seconds, {**_judged(config, TARGETS[name], model, generator), **_drawn(model)})


EXPERIMENT = Experiment(
    "nonlinear",
    "one neural expert on three univariate targets, by EM and EIM (thesis 6.6, figure 6.8)",
    NonlinearConfig,
    _cells,
    _measure,
    {},
)


def _seed(name: str, seed: int) -> int:
    return 1_000_003 * seed + list(TARGETS).index(name)


@lru_cache(maxsize=1)  # all methods with the same target and seed share the data
def _data(n_samples: int, name: str, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(_seed(name, seed))
    context = _contexts(n_samples, generator)
    return context, TARGETS[name](context).sample(generator=generator)


def _fitted(
    config: NonlinearConfig, ratio: str, data: tuple[Tensor, Tensor], generator: torch.Generator
) -> MixtureOfExperts:
    """Fit the expert by EIM, or by EM if `ratio` is "none"."""
    family: dict[str, Any] = {
        "n_components": 1,
        "expert_kind": "neural",
        "networks.layers": config.parameter_layers,
        "networks.l2": config.parameter_l2,
    }
    if ratio == "none":
        em_config = EMConfig.from_mapping({"n_iterations": config.em_iterations, "networks.iterations": 60, **family})
        model = completed(EM(em_config).fit(data, generator=generator))
    else:
        eim_config = EIMConfig.from_mapping(
            {
                "n_iterations": config.n_iterations,
                "start.em_iterations": config.start_iterations,
                "m_step.kl_bound": config.kl_bound,
                "m_step.entropy_loss_bound": config.entropy_loss_bound,
                "ratio.estimator": ratio,
                "ratio.hidden_layers": config.hidden_layers,
                **family,
            }
        )
        model = completed(EIM(eim_config).fit(data, generator=generator))
    assert isinstance(model, MixtureOfExperts)
    return model


def _judged(
    config: NonlinearConfig,
    target: Callable[[Tensor], GaussianMixture],
    model: MixtureOfExperts,
    generator: torch.Generator,
) -> dict[str, float]:
    """Return figures over the model's samples.

    `kl` is KL(model || target), averaged over contexts [nat], and `kl_error` its standard error. `near` is the share of
    samples within three standard deviations of a mode. `on_one_mode` is the share of samples whose closest mode is the
    most frequent one.
    """
    context = _contexts(config.n_samples, generator)
    conditioned = target(context)
    sample = model.sample(context, generator)
    difference = model.log_prob(context, sample) - conditioned.log_prob(sample)
    distance = (sample - conditioned.means[..., 0]).abs() / conditioned.scale_trils[..., 0, 0]
    return {
        "kl": float(difference.mean()),
        "kl_error": float(difference.std()) / len(difference) ** 0.5,
        "near": float((distance.amin(-1) < NEAR).double().mean()),
        "on_one_mode": float(torch.bincount(distance.argmin(-1)).max() / len(sample)),
    }


def _drawn(model: MixtureOfExperts) -> dict[str, list[float]]:
    """Return the data of the figure: mean and standard deviation of the expert at each context."""
    experts = model.experts(torch.linspace(-1.0, 1.0, N_DRAWN, dtype=torch.float64).unsqueeze(-1))
    values = {"mean": experts.mean[:, 0, 0], "deviation": experts.scale_tril[:, 0, 0, 0]}
    return {name: ((value * 1e5).round() / 1e5).tolist() for name, value in values.items()}


def _contexts(n_samples: int, generator: torch.Generator) -> Tensor:
    return 2.0 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 1.0


MOST_KL = 0.1  # [nat]; about the KL of a mean that is off by 0.45 standard deviations
LEAST_NEAR, LEAST_ON_ONE = 0.95, 0.9  # shares of the samples; where the modes cross, either may be the closest


def _fits(target: str) -> Callable[[ResultTable, str], Finding | None]:
    def check(table: ResultTable, estimator: str) -> Finding | None:
        rows = table.where(target=target, method="EIM", estimator=estimator)
        if not rows:
            return None
        worst = max(row["kl"] for row in rows)
        mean, _ = mean_and_error(rows, "kl")
        return Finding(f"KL(model || target) {mean:.3f} nat, {worst:.3f} in the worst run", worst <= MOST_KL)

    return check


def _ignores_a_mode(table: ResultTable, estimator: str) -> Finding | None:
    rows, of_em = (
        table.where(target="modes", method="EIM", estimator=estimator),
        table.where(target="modes", method="EM"),
    )
    if not rows or not of_em:
        return None
    near, on_one = (min(row[name] for row in rows) for name in ("near", "on_one_mode"))
    em_near, _ = mean_and_error(of_em, "near")
    return Finding(
        f"within three deviations of a mode {near:.1%} of the samples (EM {em_near:.1%}), closest to one and the same "
        f"mode {on_one:.1%} (worst run)",
        near >= LEAST_NEAR and on_one >= LEAST_ON_ONE,
    )


CLAIMS = (
    Claim("6.6, figure 6.8a", "A neural expert follows a highly nonlinear function.", _fits("sine")),
    Claim("6.6, figure 6.8b", "It ignores the mode that it cannot represent.", _ignores_a_mode),
    Claim("6.6, figure 6.8c", "It learns a variance that depends on the context.", _fits("spread")),
)


CONTEXTS = torch.linspace(-1.0, 1.0, N_DRAWN, dtype=torch.float64).unsqueeze(-1)
N_HEIGHTS = 150
LIMIT = {"sine": 1.6, "modes": 2.2, "spread": 6.0}  # limits of the axis of x
FORMULAS = {
    "sine": r"$\mathcal{N}(\sin 2.5\pi y,\ .1^2)$",
    "modes": r"$\frac{1}{2}\mathcal{N}(\pm(y \sin 2.5\pi y + .7),\ .1^2)$",
    "spread": r"$\mathcal{N}(0,\ ((y+1)^2+.05)^2)$",
}


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with a column per target: the target, EIM's expert and EM's expert, from the first seed.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment nonlinear.
    folder : Path

    Returns
    -------
    list of Path
    """
    rows = table.where(seed=min(table.values("seed")))
    targets = list(dict.fromkeys(row["target"] for row in rows))
    methods = sorted({(row["method"], row["estimator"]) for row in rows})
    figure = new_figure(10, 2.1 * (1 + len(methods)), dpi=90)
    panels = figure.subplots(1 + len(methods), len(targets), sharex=True, squeeze=False)
    for column, name in enumerate(targets):
        _draw_density(panels[0][column], TARGETS[name](CONTEXTS), LIMIT[name], INK)
        panels[0][column].set_title(f"{name}: {FORMULAS[name]}", fontsize=10, color=INK)
        for axes, (method, ratio) in zip(panels[1:, column], methods, strict=True):
            row = table.where(target=name, method=method, estimator=ratio)[0]
            _draw_density(axes, _expert(row), LIMIT[name], METHOD_COLOURS[method])
            text = f"KL(model || target) {row['kl']:.3f} ± {row['kl_error']:.3f} nat\n{row['near']:.1%} near a mode"
            axes.text(0.02, 0.97, text, transform=axes.transAxes, va="top", fontsize=8, color=MUTED)
        panels[-1][column].set_xlabel("context y", fontsize=9)
    for axes, label in zip(panels[:, 0], ["target", *(method_label(*method) for method in methods)], strict=True):
        axes.set_ylabel(f"{label}\nx", fontsize=9)
    figure.supxlabel(
        "shade: density, relative to the highest at the same context; near: within three deviations",
        fontsize=9,
        color=MUTED,
    )
    return [write_figure(figure, folder / "nonlinear.png")]


def _expert(row: Row) -> GaussianMixture:
    """Return the expert stored in a row, at all its contexts."""
    mean, deviation = (torch.tensor(row[name], dtype=torch.float64) for name in ("mean", "deviation"))
    return GaussianMixture(torch.zeros(N_DRAWN, 1).double(), mean[:, None, None], deviation[:, None, None, None])


def _draw_density(axes: Axes, model: GaussianMixture, limit: float, colour: str) -> None:
    """Shade the density relative to its maximum at each context, so that wide densities are visible too."""
    height = torch.linspace(-limit, limit, N_HEIGHTS, dtype=torch.float64)
    density = model.log_prob(height[:, None, None].expand(-1, N_DRAWN, 1)).exp()
    shades = LinearSegmentedColormap.from_list("shades", ["white", colour])
    shaded = (density / density.amax(0)).sqrt().numpy()
    axes.imshow(
        shaded, origin="lower", extent=(-1.0, 1.0, -limit, limit), aspect="auto", cmap=shades, interpolation="nearest"
    )
    axes.set_xticks([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes.tick_params(labelsize=8)
