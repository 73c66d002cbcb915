"""Picture of the comparison with the peers: time and reliability of one solution, coverage of many over time."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks._peers import OURS, PEERS
from benchmarks._peers_report import Many, Singles
from eim_ros.core.files import write_atomically
from eim_ros.view.style import FAINT, GROUP_COLOURS, INK, MUTED, NO_GROUP_COLOUR

__all__ = ["draw"]

MARKERS = "s^vDPXhp<>d"  # markers of the peers, which share the neutral colour
GROUPS = (f"{OURS}, default", f"{OURS}, refine", "ssik", "EAIK", f"{OURS}, all")
BUDGETS = (50, 200, 1000)  # numbers of solutions or seeds
MOST = f"{OURS}, default call, {max(BUDGETS)} solutions"
N_COLUMNS = 3
COLOURS = dict(zip(GROUPS, GROUP_COLOURS, strict=False))


def draw(one: dict[str, dict[str, Singles]], many: dict[str, dict[str, Many]], path: Path) -> None:
    """Write a PNG with the width of a page.

    The upper panels show the median and the 99th percentile for each arm. The lower panels show coverage over time for
    the arms with infinitely many solutions.
    """
    redundant = [robot for robot, ways in many.items() if ways[MOST].summary[1] >= max(BUDGETS)]
    n_rows = -(-len(one) // N_COLUMNS)
    figure = Figure(figsize=(11.0, 3.6 * n_rows + 5.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(n_rows + 2, N_COLUMNS, height_ratios=(*[1.0] * n_rows, 1.0, 0.5))
    for i, (robot, found) in enumerate(one.items()):
        row, column = divmod(i, N_COLUMNS)
        _draw_times(figure.add_subplot(grid[row, column]), robot, found, names=column == 0)
    for column, robot in enumerate(redundant[:N_COLUMNS]):
        _draw_coverage(figure.add_subplot(grid[n_rows, column]), robot, many[robot], labels=column == 0)
    _draw_key(figure.add_subplot(grid[n_rows + 1, :]))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(path, buffer.getvalue())


def _colour(name: str) -> str:
    return next((colour for start, colour in COLOURS.items() if name.startswith(start)), NO_GROUP_COLOUR)


def _draw_times(axes: Axes, robot: str, found: dict[str, Singles], names: bool) -> None:
    shown = [name for name in found if not name.endswith("1e-6")]
    for row, name in enumerate(shown):
        result = found[name]
        if result.note:
            axes.text(
                0.5, row, "no figures", transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=MUTED
            )
            continue
        median, late = result.milliseconds
        axes.plot([median, late], [row, row], color=_colour(name), linewidth=2.0, solid_capstyle="butt")
        axes.plot(median, row, "o", color=_colour(name), markersize=6)
        if result.share < 99.95:
            axes.text(late * 1.2, row, f"{result.share:.1f} %", va="center", fontsize=8, color=MUTED)
    axes.set_xscale("log")
    axes.set_xlim(3e-3, 3e2)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), shown if names else [""] * len(shown), fontsize=9, color=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_title(robot, fontsize=11, color=INK)
    axes.set_xlabel("CPU ms per solution", fontsize=9)
    axes.tick_params(axis="x", labelsize=8)


def _draw_coverage(axes: Axes, robot: str, ways: dict[str, Many], labels: bool) -> None:
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, result in ways.items():
        if not result.note:
            milliseconds, _, _, coverage = result.summary
            curves.setdefault(_way(name), []).append((milliseconds, coverage))
    for name, points in curves.items():
        x, y = zip(*points, strict=True)
        axes.plot(x, y, marker=_marker(name), markersize=6, color=_colour(name), linewidth=1.5)
    axes.set_xscale("log")
    axes.set_xlim(1e-2, 3e3)
    axes.set_ylim(0.0, 103.0)
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_title(f"{robot}: many solutions", fontsize=11, color=INK)
    axes.set_xlabel("CPU ms per pose", fontsize=9)
    axes.tick_params(labelsize=8)
    if labels:
        axes.set_ylabel("coverage of all solutions [%]", fontsize=9)


def _way(name: str) -> str:
    """Return the name of a curve. Each of our calls has one curve for all budgets, and each peer has its own curve."""
    if name.endswith(("all", "complete")):
        return name
    return name.rpartition(", ")[0] if name.startswith(OURS) or name.endswith(" calls") else name


def _marker(name: str) -> str:
    others = [peer for peer in PEERS if _colour(peer) == NO_GROUP_COLOUR]
    for peer, marker in zip(others, MARKERS, strict=False):
        if name.startswith(peer):
            return marker
    return "*" if "charts" in name or "complete" in name else "o"


def _draw_key(axes: Axes) -> None:
    axes.axis("off")
    ours = [f"{OURS}, {way}" for way in ("default call", "all", "all, complete", "refine")]
    names = [*ours, "ssik", "ssik, self-motion charts", "EAIK"]
    for name in [*names, *(peer for peer in PEERS if _colour(peer) == NO_GROUP_COLOUR)]:
        axes.plot([], [], marker=_marker(name), markersize=6, color=_colour(name), label=name)
    axes.legend(loc="upper left", fontsize=9, frameon=False, ncols=3, columnspacing=1.2)
    text = (
        "above: dot the median, line to the 99th percentile; share of solved poses where below 100 %\n"
        "below: ours at 50, 200 and 1000 solutions or seeds, peers of one solution called 50 times;\n"
        "stars: all self-motion components"
    )
    axes.text(0.0, 0.1, text, transform=axes.transAxes, fontsize=9, color=MUTED, va="top")
