"""KL(model || target) of EIM beside adversarial training, and beside its own variants (thesis figures 6.1, 6.2).

The second figure has EM and VIPS too, which the thesis shows in part: maximum likelihood, and who knows the density.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from eim_ros.experiments.adversarial import ADVERSARIAL, WEIGHTS
from eim_ros.experiments.baselines import EIM_VARIANTS
from eim_ros.experiments.table import ResultTable, Row, mean_and_error
from eim_ros.viz.figure_file import new_figure, write_figure
from eim_ros.viz.palette import FAINT, INK, METHOD_COLOURS, method_label

__all__ = ["draw"]

TITLES = {
    "none": "one Gaussian",
    "gumbel": "mixtures; adversarial weights\nby Gumbel-softmax",
    "mutual-information": "mixtures; adversarial weights\nby mutual information",
}
MARKERS = {"network": "o", "plug-in": "D", "residual": "s", "known": "P", "none": "X"}
LINEAR_BELOW = 1e-3  # [nat]: the axis is linear there, as estimates of zero may be negative


@dataclass(frozen=True)
class _Series:
    """Rows of one method with one estimator."""

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
    """Write two PNGs: EIM against adversarial methods, and EIM against its variants, EM and VIPS.

    Parameters
    ----------
    table : ResultTable
        Of the experiment adversarial.
    folder : Path

    Returns
    -------
    list of Path
    """
    pairs = list(dict.fromkeys((row["method"], row["estimator"]) for row in table.rows))
    eim = [_Series(*pair) for pair in pairs if pair[0] == "EIM"]
    games = [_Series(*pair) for pair in pairs if pair[0] in ADVERSARIAL]
    variants = [_Series(*pair) for method in (*EIM_VARIANTS, "EM", "VIPS") for pair in pairs if pair[0] == method]
    panels = []
    for way in ("none", *WEIGHTS):
        rows = [row for row in table.rows if (row["n_components"] == 1) == (way == "none")]
        if any(row["method"] in ADVERSARIAL and row["weights"] == way for row in rows):
            chosen = [row for row in rows if row["method"] == "EIM" or row["weights"] == way]
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
