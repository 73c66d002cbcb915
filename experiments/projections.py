"""I-projection and M-projection of three targets with known answers, computed by the package's learners.

The targets are two modes (thesis figure 2.1), an anisotropic Gaussian and a correlated Gaussian. The table contains
each measured number next to its exact value (see `closed_form_facts`). The figure compares both projections with each
target.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning.models import Gaussian, GaussianMixture
from eim_ros.learning.run import timed
from eim_ros.view.style import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED, new_figure, write_figure
from experiments.closed_form_facts import (
    Fact,
    IProjection,
    Isotropic,
    MeanField,
    TwoModes,
    isotropic,
    mean_field,
    two_modes,
)
from experiments.harness import Cell, Experiment, Outcome
from experiments.pictures import METHOD_COLOURS
from experiments.report import Claim, Finding, Setup, judged
from experiments.table import ResultTable, Row


@dataclass(frozen=True)
class ProjectionsConfig(Settings):
    """Settings of the experiment."""

    n_samples: int = option(4000, "samples per iteration of an I-projection", minimum=2)
    n_iterations: int = option(60, "number of iterations for each KL bound", minimum=1)
    n_sweeps: int = option(40, "number of sweeps of the mean-field coordinate ascent", minimum=3)


@dataclass(frozen=True)
class Projections:
    """Results for all three targets."""

    two_modes: TwoModes
    isotropic: Isotropic
    mean_field: MeanField
    facts: tuple[Fact, ...]


def projections_of(rows: Sequence[Row]) -> Projections:
    """Return the results stored in the rows of one seed."""
    parts: dict[str, dict[str, Any]] = {
        row["target"]: {name: _restored(value) for name, value in row["parameters"].items()} for row in rows
    }
    return Projections(
        TwoModes(**parts["two modes"]),
        Isotropic(**parts["isotropic"]),
        MeanField(**parts["mean field"]),
        tuple(Fact(*entry) for row in rows for entry in row["facts"]),
    )


def _cells(config: ProjectionsConfig) -> list[Cell]:
    return [{"target": target, "estimator": "known"} for target in ("two modes", "isotropic", "mean field")]


def _measure(config: ProjectionsConfig, cell: Cell, seed: int) -> Outcome:
    project = IProjection(config.n_samples, config.n_iterations, seed)
    found: TwoModes | Isotropic | MeanField
    if cell["target"] == "two modes":
        (found, facts), seconds = timed(lambda: two_modes(project))
    elif cell["target"] == "isotropic":
        (found, facts), seconds = timed(lambda: isotropic(project))
    else:
        (found, facts), seconds = timed(lambda: mean_field(project, config.n_sweeps))
    figures = {
        "largest_error": max(abs(fact.found - fact.exact) for fact in facts),
        "facts": [[fact.case, fact.quantity, fact.found, fact.exact] for fact in facts],
        "parameters": {name: _stored(value) for name, value in vars(found).items()},
    }
    return Outcome(seconds, figures)


def _report(table: ResultTable) -> list[str]:
    """Return one line for each fact and seed, with the measured and the exact value."""
    lines = [f"{'seed':>4} {'case':<44} {'quantity':<24} {'found':>12} {'exact':>12}"]
    for seed in table.distinct("seed"):
        for fact in projections_of(table.where(seed=seed)).facts:
            found = round(fact.found, 6) + 0.0  # avoids "-0"
            lines.append(f"{seed:4d} {fact.case:<44} {fact.quantity:<24} {found:12.6f} {fact.exact:12.6f}")
    return lines


EXPERIMENT = Experiment(
    "projections",
    "I- and M-projection: results of the learners, compared with closed forms",
    ProjectionsConfig,
    _cells,
    _measure,
    _report,
)


def _stored(value: Gaussian | GaussianMixture | Tensor) -> dict[str, list[Any]] | list[Any]:
    """Convert a tensor to a list, or a density to a dictionary of its parameters as lists."""
    if isinstance(value, Tensor):
        return list(value.tolist())
    return {entry.name: getattr(value, entry.name).tolist() for entry in dataclasses.fields(value)}


def _restored(value: dict[str, list[Any]] | list[Any]) -> Gaussian | GaussianMixture | Tensor:
    if isinstance(value, list):
        return torch.tensor(value, dtype=torch.float64)
    tensors = {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in value.items()}
    return GaussianMixture(**tensors) if "log_weights" in tensors else Gaussian(**tensors)


MODE = 2.999915  # mean of the I-projection onto either mode, by quadrature
CLOSE = 0.01
N_TARGETS = 3


SETUPS = (Setup("known"),)


def _one_mode_or_both(table: ResultTable, setup: Setup) -> Finding | None:
    seeds = [
        seed for seed in table.distinct("seed", estimator=setup.estimator) if len(table.where(seed=seed)) == N_TARGETS
    ]
    if not seeds:
        return None
    found = [projections_of(table.where(seed=seed)).two_modes for seed in seeds]
    right, left, between = (float(getattr(found[0], name).mean) for name in ("right", "left", "moments"))
    return judged(
        f"for modes at -3 and 3, I-projections from two starts have means {left:.3f} and {right:.3f}; the "
        f"M-projection has mean {abs(between):.3f}",
        all(
            abs(float(one.right.mean) - MODE) < CLOSE
            and abs(float(one.left.mean) + MODE) < CLOSE
            and abs(float(one.moments.mean)) < CLOSE
            for one in found
        ),
        f"a mean differs from its exact value by more than {CLOSE}",
    )


CLAIMS = (
    Claim(
        "2.2, figure 2.1",
        "The I-projection onto a Gaussian focuses on one of two modes. The M-projection averages over both.",
        _one_mode_or_both,
    ),
)


FloatArray = npt.NDArray[np.float64]

I_COLOUR, M_COLOUR, TRAP_COLOUR = METHOD_COLOURS["EIM"], METHOD_COLOURS["EM"], GROUP_COLOURS[3]
N_SHOWN = 30  # number of half sweeps of the coordinate ascent in the figure


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with one panel for each target, from the first seed.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment projections.
    folder : Path

    Returns
    -------
    list of Path
    """
    found = projections_of(table.where(seed=min(table.values("seed"))))
    figure = new_figure(11, 4.2)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.5, 1.0, 1.0))
    _draw_two_modes(left, found.two_modes)
    _draw_isotropic(middle, found.isotropic)
    _draw_mean_field(right, found.mean_field)
    figure.supxlabel(
        "middle and right: ellipses at one and two deviations; target: dark and light grey, models: thick and thin",
        fontsize=9,
        color=MUTED,
    )
    return [write_figure(figure, folder / "projections.png")]


def _draw_two_modes(axes: Axes, found: TwoModes) -> None:
    grid = torch.linspace(-9.0, 9.0, 901, dtype=torch.float64).unsqueeze(-1)
    x = grid[:, 0].numpy()

    def density(model: Gaussian) -> FloatArray:
        return np.asarray(model.log_prob(grid).exp().numpy())

    axes.fill_between(x, found.target.log_prob(grid).exp().numpy(), color=FAINT, linewidth=0.0, label="target p")
    axes.plot(
        x, density(found.right), color=I_COLOUR, linewidth=2.0, label="I-projection: one mode, KL(q || p) = log 2"
    )
    axes.plot(x, density(found.left), color=I_COLOUR, linewidth=1.2, linestyle=":", label="... or the other")
    axes.plot(x, density(found.moments), color=M_COLOUR, linewidth=2.0, label="M-projection: mean and variance of p")
    axes.plot(
        x, density(found.between), color=TRAP_COLOUR, linewidth=1.5, linestyle="--", label="local minimum of KL(q || p)"
    )
    axes.set_ylim(0.0, 0.85)
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _finish(axes, "one Gaussian for two modes", "x", "density")


def _draw_isotropic(axes: Axes, found: Isotropic) -> None:
    _fill(axes, found.target)
    _outline(axes, found.i_projection, I_COLOUR, "I: harmonic mean of the variances")
    _outline(axes, found.m_projection, M_COLOUR, "M: their mean")
    axes.set_xlim(-5.5, 5.5)
    axes.set_ylim(-5.0, 7.0)
    axes.set_aspect("equal")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _finish(axes, "isotropic q for variances 1 and 4", "x$_1$", "x$_2$")


def _draw_mean_field(axes: Axes, found: MeanField) -> None:
    _fill(axes, found.target)
    _outline(axes, found.i_projection, I_COLOUR, "I: variances of the conditionals")
    _outline(axes, found.m_projection, M_COLOUR, "M: of the marginals")
    path = found.path[: N_SHOWN + 1].numpy()
    axes.plot(path[:, 0], path[:, 1], color=INK, linewidth=0.9, marker=".", markersize=3, label="means, sweep by sweep")
    axes.set_xlim(-2.2, 4.2)
    axes.set_ylim(-3.8, 3.2)
    axes.set_aspect("equal")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    _finish(axes, "independent q, correlation .9", "x$_1$", "x$_2$")


def _ellipse(model: Gaussian, radius: float) -> FloatArray:
    """Return points (n, 2) at a given Mahalanobis distance from the mean."""
    angle = torch.linspace(0.0, 2.0 * math.pi, 181, dtype=torch.float64)
    circle = radius * torch.stack([angle.cos(), angle.sin()], -1)
    return np.asarray((model.mean + circle @ model.scale_tril.T).numpy())


def _fill(axes: Axes, target: Gaussian) -> None:
    for radius, colour in ((2.0, LIMITS), (1.0, FAINT)):
        points = _ellipse(target, radius)
        axes.fill(points[:, 0], points[:, 1], color=colour, linewidth=0.0)


def _outline(axes: Axes, model: Gaussian, colour: str, label: str) -> None:
    for radius, width, name in ((1.0, 2.0, label), (2.0, 1.0, None)):
        points = _ellipse(model, radius)
        axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=width, label=name)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=11, color=INK)
    axes.set_xlabel(x, fontsize=9, color=MUTED)
    axes.set_ylabel(y, fontsize=9, color=MUTED)
    axes.tick_params(labelsize=8, colors=MUTED)
