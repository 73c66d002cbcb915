"""Distances to the line over components, sampled arms, and histograms along the line (thesis figures 6.4, 6.5)."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eim_ros.experiments.line_reaching import LEARNERS, LineFit, LineReachingResult
from eim_ros.numerics import write_atomically
from eim_ros.viz.palette import FAINT, GROUP_COLOURS, INK, MUTED
from eim_ros.viz.planar_arms import draw_arms, draw_task

__all__ = ["draw_line_reaching"]

N_DRAWN = 60
MOST_COLUMNS = 4
COLOURS = dict(zip(LEARNERS, (GROUP_COLOURS[1], GROUP_COLOURS[0], GROUP_COLOURS[2]), strict=True))


def draw_line_reaching(result: LineReachingResult, path: str | Path) -> None:
    """Write a PNG: curves above, and below them a row for each learner with arms and histograms of some mixtures.

    Parameters
    ----------
    result : LineReachingResult
    path : path
        Of the PNG.
    """
    learners = [name for name in LEARNERS if any(learner == name for learner, _ in result.fits)]
    counts = sorted({count for _, count in result.fits})
    shown = _some(counts)
    figure = Figure(figsize=(3.4 * len(shown) + 1.0, 3.4 + 3.1 * len(learners)), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(3.4, 3.1 * len(learners)))[:, 0]
    left, right = above.subplots(1, 2)
    _draw_curves(left, result, learners, counts, "distance", "mean distance to the line [m]")
    left.set_yscale("log")
    left.legend(frameon=False, fontsize=9)
    _draw_curves(right, result, learners, counts, "coverage", "coverage of the line")
    right.set_ylim(0.0, 1.0)
    panels = below.subplots(len(learners), 2 * len(shown), squeeze=False, width_ratios=(2.6, 1.0) * len(shown))
    for row, learner in zip(panels, learners, strict=True):
        for column, count in enumerate(shown):
            arms, bars = row[2 * column : 2 * column + 2]
            fit = result.fits[learner, count]
            _draw_samples(arms, result, fit, COLOURS[learner])
            _draw_histogram(bars, result, fit, COLOURS[learner])
            arms.set_title(f"{learner}, {count}: {fit.distance:.2f} m", fontsize=9, color=INK)
            bars.set_title(f"{fit.coverage:.2f}", fontsize=9, color=MUTED)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _some(counts: list[int]) -> list[int]:
    """A few of the numbers of components, first and last among them."""
    n = min(MOST_COLUMNS, len(counts))
    return sorted({counts[round(i * (len(counts) - 1) / max(1, n - 1))] for i in range(n)})


def _draw_curves(
    axes: Axes, result: LineReachingResult, learners: list[str], counts: list[int], name: str, label: str
) -> None:
    for learner in learners:
        values = [getattr(result.fits[learner, count], name) for count in counts]
        axes.plot(counts, values, marker="o", markersize=4, color=COLOURS[learner], label=learner)
    axes.set_xlabel("components", fontsize=9)
    axes.set_ylabel(label, fontsize=9)
    axes.grid(color=FAINT, linewidth=0.5)


def _draw_samples(axes: Axes, result: LineReachingResult, fit: LineFit, colour: str) -> None:
    draw_task(axes, result.task)
    drawn = fit.mixture.sample(N_DRAWN, torch.Generator().manual_seed(0))
    draw_arms(axes, result.arm, drawn, colour, 0.3)
    reach = result.arm.reach
    axes.set_xlim(-0.25 * reach, 1.0 * reach)
    axes.set_ylim(-1.0 * reach, 1.0 * reach)


def _draw_histogram(axes: Axes, result: LineReachingResult, fit: LineFit, colour: str) -> None:
    """Along the line, as high as the robot's panel: bars of the model, outline of the test data."""
    n_bins = len(result.histogram)
    low, high = float(result.task.start[1]), float(result.task.end[1])
    height = (high - low) / n_bins
    centres = [low + height * (index + 0.5) for index in range(n_bins)]
    axes.barh(centres, fit.histogram.tolist(), height=height, color=colour, alpha=0.6, linewidth=0.0)
    axes.step(result.histogram.tolist(), centres, where="mid", color=INK, linewidth=0.8)
    reach = result.arm.reach
    axes.set_ylim(-1.0 * reach, 1.0 * reach)
    axes.set_xlim(0.0, 3.0 * float(result.histogram.max()))
    axes.axis("off")
