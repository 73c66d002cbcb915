"""Log-likelihoods of many random starts and the fits behind them, as in the thesis' figure 6.3."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.distributions import MixtureOfExperts
from eim_ros.experiments.robustness import RobustnessResult
from eim_ros.numerics import write_atomically
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, MUTED

__all__ = ["draw_robustness"]

N_DRAWN = 1500


def draw_robustness(result: RobustnessResult, path: str | Path) -> None:
    """Write a PNG: each start's log-likelihood under both learners, and the median fit of each.

    Parameters
    ----------
    result : RobustnessResult
    path : path
        Of the PNG.
    """
    figure = Figure(figsize=(13, 4.2), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1.0, 1.0))
    _draw_values(left, result)
    for axes, name, values in ((middle, "EM", result.em), (right, "EIM", result.eim)):
        median = sorted(range(len(values)), key=lambda index: values[index])[len(values) // 2]
        _draw_fit(axes, result, result.models[name][median])
        axes.set_title(f"{name}: samples of its median run, {values[median]:.2f} nat", fontsize=10, color=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _draw_values(axes: Axes, result: RobustnessResult) -> None:
    for position, (name, values) in enumerate((("EM", result.em), ("EIM", result.eim))):
        colour = GROUP_COLOURS[position]
        spread = torch.linspace(-0.25, 0.25, len(values)).tolist()
        axes.scatter([position + shift for shift in spread], values, s=16, color=colour, alpha=0.8, linewidths=0.0)
        mean = sum(values) / len(values)
        axes.hlines(mean, position - 0.35, position + 0.35, color=colour, linewidth=2.5)
        share = round(100.0 * result.share_at_optimum(values))
        axes.annotate(
            f"mean {mean:.2f}\n{share} % at the optimum",
            (position, 0.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=9,
            color=MUTED,
        )
        axes.text(position, 1.02, name, transform=axes.get_xaxis_transform(), ha="center", color=INK)
    axes.axhline(result.optimum, color=FAINT, linewidth=1.0, zorder=0)
    axes.set_xlim(-0.6, 1.6)
    axes.set_xticks([])
    low, high = min(*result.em, *result.eim), max(*result.em, *result.eim, result.optimum)
    axes.set_ylim(low - 0.3 * (high - low), high + 0.05 * (high - low))
    axes.set_ylabel("log-likelihood per test sample [nat]", fontsize=9)
    axes.set_xlabel("one dot per random start, bar: mean, grey line: EM from the true half waves", fontsize=8)


def _draw_fit(axes: Axes, result: RobustnessResult, model: MixtureOfExperts) -> None:
    context, sample = (part[:N_DRAWN] for part in result.data)
    drawn, component = model.sample_with_components(context, torch.Generator().manual_seed(0))
    axes.scatter(context[:, 0], sample[:, 0], s=3, color=FAINT, linewidths=0.0)
    colours = [GROUP_COLOURS[index % len(GROUP_COLOURS)] for index in component.tolist()]
    axes.scatter(context[:, 0], drawn[:, 0], s=3, c=colours, linewidths=0.0)
    axes.set_ylim(-2.0, 2.0)
    axes.set_xlabel("context y", fontsize=9)
    axes.set_ylabel("x", fontsize=9)
