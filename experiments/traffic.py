"""Prediction of vehicle positions: mixtures of linear experts by EM and EIM, and their share off the road (thesis 6.5).

The context is the position (x, y) of a vehicle, and the sample is its positions at the next five steps of 2.5 s. A
position does not show whether the vehicle waits, turns or changes lanes. EM averages over these cases, and puts
vehicles on the median strip and off the road. The thesis uses NGSIM's Lankershim Boulevard. Its file is the setting
`ngsim`. Without this file, the tracks are from a synthetic intersection, and every row and figure states this.

A kernel density of the test vehicles' positions defines the road. A position is off the road if its density is below a
quantile of the densities at positions of other vehicles. The density uses Gaussian kernels on binned counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from scipy.ndimage import gaussian_filter
from torch import Tensor

from eim_ros.core.errors import DataError
from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig, FitResult
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.run import completed, timed
from eim_ros.view.style import FAINT, INK, MUTED, write_figure
from experiments.harness import Cell, Experiment, Outcome, of_start, with_starts
from experiments.pictures import METHOD_COLOURS, RATIO_LINES, THESIS, method_label, panel_figure
from experiments.report import Claim, Finding, Setup, judged, listed, paired_means
from experiments.table import ResultTable, Row, mean_and_error
from experiments.traffic_data import VehicleTrack, read_ngsim, split_by_vehicle, synthetic_intersection, track_windows

Array = npt.NDArray[np.float64]

BINS_PER_BANDWIDTH = 3.0
REACH = 4.0  # radius at which kernels are truncated [bandwidths]
MOST_BINS = 4000  # maximum number of bins along each axis


@dataclass(frozen=True)
class RoadMap:
    """Density of vehicle positions on a grid.

    Attributes
    ----------
    origin : array (2,)
        Corner of the first cell [m].
    cell : float
        Width of a cell [m].
    density : array (n_x, n_y)
        [1/m^2]
    threshold : float
        Positions with a lower density are off the road [1/m^2].
    """

    origin: Array
    cell: float
    density: Array
    threshold: float

    @classmethod
    def from_positions(cls, positions: Array, others: Array, bandwidth: float, share_off: float) -> RoadMap:
        """Build the map from vehicle positions.

        Parameters
        ----------
        positions : array (n, 2)
            Positions of the test vehicles [m].
        others : array (m, 2)
            Positions of vehicles outside the test set [m]. These positions determine the threshold.
        bandwidth : float
            Standard deviation of the kernels [m].
        share_off : float
            Share of `others` that counts as off the road.

        Raises
        ------
        DataError
            If there are no positions, or if the area needs too many bins with this bandwidth.
        """
        if not len(positions) or not len(others):
            raise DataError(
                "a road map needs positions of test vehicles and of other vehicles, but one of the two sets is empty",
                (len(positions), len(others)),
            )
        cell = bandwidth / BINS_PER_BANDWIDTH
        origin = positions.min(0) - REACH * bandwidth
        n_bins = np.ceil((positions.max(0) + REACH * bandwidth - origin) / cell).astype(int)
        if n_bins.max() > MOST_BINS:
            raise DataError(
                f"a bandwidth of {bandwidth:g} m is too narrow for an area of {n_bins.max() * cell:.0f} m; give a "
                "wider one",
                bandwidth,
            )
        edges = [start + cell * np.arange(n + 1) for start, n in zip(origin, n_bins, strict=True)]
        counts = np.histogram2d(positions[:, 0], positions[:, 1], bins=edges)[0]
        blurred = gaussian_filter(counts, BINS_PER_BANDWIDTH, mode="constant", truncate=REACH)
        map_without = cls(origin, cell, blurred / (len(positions) * cell**2), 0.0)
        threshold = float(np.quantile(map_without.density_at(others), share_off))
        return cls(origin, cell, map_without.density, max(threshold, np.finfo(float).tiny))

    def density_at(self, positions: Array) -> Array:
        """Return the density [1/m^2] (...) at positions (..., 2). The density is zero outside the grid."""
        index = np.floor((positions - self.origin) / self.cell)
        inside = np.all((index >= 0) & (index < np.array(self.density.shape)), axis=-1)
        rows, columns = np.where(inside[..., None], index, 0).astype(int).transpose(-1, *range(index.ndim - 1))
        return np.where(inside, self.density[rows, columns], 0.0)

    def is_off(self, positions: Array) -> npt.NDArray[np.bool_]:
        """Return whether positions (..., 2) [m] are off the road, (...)."""
        return np.asarray(self.density_at(positions) < self.threshold)


SYNTHETIC, NGSIM = "synthetic intersection", "NGSIM Lankershim"
TEST_DATA = "test data"  # method name of the row of vehicles that do not define the road
STEP, N_STEPS = 2.5, 5  # duration of a step [s], and number of steps (thesis 6.5)
N_DRAWN = 150  # number of trajectories stored in a row for the figure
DRAWN_CELLS = 160  # maximum number of road cells along the longer side of the figure
WINDOWS_PER_VEHICLE = 4  # smallest expected number per synthetic vehicle; determines the number of simulated vehicles


@dataclass(frozen=True)
class TrafficConfig(Settings):
    """Settings of the experiment. Settings in thesis table B.1 have the defaults of this table."""

    ngsim: str = option("", "CSV file of the NGSIM trajectories; if empty, a synthetic intersection is simulated")
    location: str = option("lankershim", "location in the NGSIM file whose rows are used")
    n_components: tuple[int, ...] = option((5, 10, 20, 50), "numbers of experts", minimum=1)
    n_samples: int = option(8000, "windows for training", minimum=50)
    n_test: int = option(
        3430, "number of windows for testing, and for each statistic that needs separate vehicles", minimum=20
    )
    bandwidth: float = option(1.5, "bandwidth of the kernel density of positions", unit="m", minimum=0.05)
    share_off: float = option(
        0.01, "share of the positions of other vehicles that counts as off the road", minimum=0.0, maximum=0.5
    )
    em_iterations: int = option(200, "maximum number of EM iterations", minimum=1)
    n_iterations: int = option(300, "maximum number of EIM iterations", minimum=0)
    plateau_window: int = option(
        20,
        "EIM ends when the held-out KL has not improved for this number of iterations; with 0, it runs to the end",
        minimum=0,
    )
    kl_bound: float = option(0.005, "maximum KL divergence of an expert's update", unit="nat", minimum=0.0)
    gating_kl_bound: float = option(0.005, "maximum KL divergence of the gating's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.01, "maximum loss of entropy per update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(
        0.01, "maximum loss of entropy per update of the gating", unit="nat", minimum=0.0
    )
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    n_epochs: int = option(5, "maximum passes of the ratio network over the data per iteration", minimum=1)
    n_expert_samples: int = option(400, "number of samples per expert for its update", minimum=2)
    ratios: tuple[str, ...] = option(RATIO_ESTIMATORS, "density ratio estimators of EIM", choices=RATIO_ESTIMATORS)


@dataclass(frozen=True)
class TrafficData:
    """Windows of three disjoint sets of vehicles.

    Attributes
    ----------
    train, test : tuple of Tensor
        Positions (n, 2) and following positions (n, 10) [m].
    road : RoadMap
        Map of all positions of the test vehicles.
    off_road : float
        Share of the following positions of the third set that are off the road.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    road: RoadMap
    off_road: float


def traffic_data(config: TrafficConfig, seed: int) -> TrafficData:
    """Read or simulate tracks, and split them by vehicle."""
    generator = np.random.default_rng(seed)
    sizes = (config.n_samples, config.n_test, config.n_test)
    if config.ngsim:
        tracks = _tracks(config.ngsim, config.location)
    else:
        tracks = synthetic_intersection(max(sum(sizes) // WINDOWS_PER_VEHICLE, 3), generator)
    parts = split_by_vehicle(tracks, sizes, generator)
    train, test, other = (
        _some(track_windows(part, STEP, N_STEPS), n, generator) for part, n in zip(parts, sizes, strict=True)
    )
    positions, others = (np.concatenate([track.positions for track in part]) for part in parts[1:])
    road = RoadMap.from_positions(positions, others, config.bandwidth, config.share_off)
    return TrafficData(train, test, road, _off_road(road, other[1])[0])


def _cells(config: TrafficConfig) -> list[Cell]:
    data = NGSIM if config.ngsim else SYNTHETIC
    cells: list[Cell] = [{"data": data, "method": TEST_DATA, "estimator": "none", "n_components": 0}]
    for count in config.n_components:
        thesis = [(THESIS, "network")] if "network" in config.ratios else []
        methods = [("EM", "none"), *thesis, *(("EIM", ratio) for ratio in config.ratios)]
        cells += [{"data": data, "method": name, "estimator": ratio, "n_components": count} for name, ratio in methods]
    return with_starts(cells, ("EIM", THESIS))


def _measure(config: TrafficConfig, cell: Cell, seed: int) -> Outcome:
    data = _data(config, seed)
    count = int(cell["n_components"])
    context, following = data.test
    if cell["method"] == TEST_DATA:
        rows = slice(0, N_DRAWN)
        return Outcome(
            0.0, {"off_road": data.off_road, **_drawn(context[rows], following[rows]), **_drawn_road(data.road)}
        )
    generator = torch.Generator().manual_seed(1_000_003 * seed + count)
    fit, seconds = timed(lambda: _fitted(config, cell, data.train, generator))
    model = completed(fit)
    assert isinstance(model, MixtureOfExperts)
    sample = model.sample(context, torch.Generator().manual_seed(seed))
    points, trajectories = _off_road(data.road, sample)
    figures = {
        "off_road": points,
        "off_road_trajectories": trajectories,
        "log_likelihood": float(model.log_prob(context, following).mean()),
        "iterations": fit.state.iteration,
    }
    return Outcome(seconds, {**figures, **_drawn(context[:N_DRAWN], sample[:N_DRAWN])})


EXPERIMENT = Experiment(
    "traffic",
    "positions of vehicles predicted by EM and EIM, and their share off the road (thesis 6.5, figure 6.7)",
    TrafficConfig,
    _cells,
    _measure,
    figures={"off_road": "share of positions off the road"},
    by=("n_components",),
)


@lru_cache(maxsize=1)  # all methods with the same seed share the data
def _data(config: TrafficConfig, seed: int) -> TrafficData:
    return traffic_data(config, seed)


@lru_cache(maxsize=1)  # all seeds share the file
def _tracks(path: str, location: str) -> list[VehicleTrack]:
    return read_ngsim(path, location)


def _some(windows: tuple[np.ndarray, np.ndarray], n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return n random windows, or all windows if there are fewer."""
    chosen = generator.permutation(len(windows[0]))[:n]
    context, following = (torch.from_numpy(part[chosen]) for part in windows)
    return context, following


def _fitted(
    config: TrafficConfig, cell: Cell, train: tuple[Tensor, Tensor], generator: torch.Generator
) -> FitResult[Any]:
    """Fit the model of a cell."""
    (method, is_start), ratio, n_components = of_start(cell), str(cell["estimator"]), int(cell["n_components"])
    if len(train[0]) < n_components:
        raise DataError(
            f"{n_components} experts need at least as many windows of tracks, got {len(train[0])}", len(train[0])
        )
    if ratio == "none":
        em_config = EMConfig(n_components=n_components, n_iterations=config.em_iterations)
        return EM(em_config).fit(train, generator=generator)
    settings = {
        "n_components": n_components,
        "n_iterations": 0 if is_start else config.n_iterations,
        "m_step.kl_bound": config.kl_bound,
        "m_step.gating.kl_bound": config.gating_kl_bound,
        "m_step.entropy_loss_bound": config.entropy_loss_bound,
        "m_step.gating.entropy_loss_bound": config.gating_entropy_loss_bound,
        "m_step.n_samples": config.n_expert_samples,
        "ratio.hidden_layers": config.hidden_layers,
        "ratio.dropout": config.dropout,
        "ratio.n_epochs": config.n_epochs,
    }
    ours = {"plateau_window": config.plateau_window, "ratio.estimator": ratio}
    eim_config = EIMConfig.thesis(**settings) if method == THESIS else EIMConfig.from_mapping({**settings, **ours})
    return EIM(eim_config).fit(train, generator=generator)


def _off_road(road: RoadMap, following: Tensor) -> tuple[float, float]:
    """Return the share of positions (n, 10) off the road, and the share of trajectories with at least one such
    position.
    """
    off = road.is_off(following.reshape(len(following), N_STEPS, 2).numpy())
    return float(off.mean()), float(off.any(-1).mean())


def _drawn(context: Tensor, following: Tensor) -> dict[str, list[list[float]]]:
    """Return trajectories [m] that start with the context: x, y, x, y, ..."""
    return {"trajectories": ((torch.cat([context, following], -1) * 10.0).round() / 10.0).tolist()}


def _drawn_road(road: RoadMap) -> dict[str, object]:
    """Return the road on a coarser grid, for the figure.

    `road` contains the indices at which runs of cells begin and end, for each row of y. `road_corner` contains the
    corner and the width of a cell [m].
    """
    stride = max(1, -(-max(road.density.shape) // DRAWN_CELLS))
    on = (road.density >= road.threshold)[::stride, ::stride]
    runs = [np.flatnonzero(np.diff(np.pad(column.astype(int), 1))).tolist() for column in on.T]
    return {"road": runs, "road_corner": [*road.origin.round(2).tolist(), round(road.cell * stride, 4)]}


MOST_OF_EM = 0.5  # largest share, relative to the share of EM, that counts as "far fewer"


SETUPS = (Setup("network", THESIS), Setup("network"), Setup("residual"), Setup("plug-in"))


def _more_plausible(table: ResultTable, setup: Setup) -> Finding | None:
    pairs = paired_means(table, "off_road", ("n_components",), setup.key, {"method": "EM"})
    if not pairs:
        return None
    shown = "; ".join(f"{eim:.1%} with k = {n} (EM {em:.1%})" for (n,), (eim, em) in pairs.items())
    data = "synthetic traffic" if SYNTHETIC in table.distinct("data") else "NGSIM"
    failing = {n: (eim, em) for (n,), (eim, em) in pairs.items() if eim > MOST_OF_EM * em}
    return judged(
        f"{data}, positions off the road with k components: {shown}; EIM has at most half of EM's share for "
        f"{len(pairs) - len(failing)} of {len(pairs)} numbers of components",
        not failing,
        _why_not_fewer({n: em for (n,), (_, em) in pairs.items()}, failing),
    )


def _why_not_fewer(of_em: dict[int, float], failing: dict[int, tuple[float, float]]) -> str:
    """Explain numbers of components at which the share off the road of EIM is more than half the share of EM."""
    if not failing:
        return ""
    most = max(em for _, em in failing.values())
    others = [share for count, share in of_em.items() if count not in failing]
    where = f"with k = {listed(failing)}"
    if others and most < min(others):
        where += f", where EM itself has at most {most:.1%} off the road"
    worst = max(failing.values(), key=lambda pair: pair[0] / pair[1])
    return f"{where}, EIM has up to {worst[0] / worst[1]:.0%} of EM's share"


CLAIMS = (
    Claim(
        "6.5, figure 6.7a",
        "EIM puts far fewer positions off the road than EM, with any number of components.",
        _more_plausible,
    ),
)


MARKERS = {"network": "o", "plug-in": "s", "residual": "^", "none": "o"}
MARGIN = 15.0  # margin of the maps around the road [m]


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with shares off the road over the number of components, and a map of the trajectories of each method.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment traffic.
    folder : Path

    Returns
    -------
    list of Path
    """
    rows = [row for row in table.rows if row["method"] != TEST_DATA and not of_start(row)[1]]
    methods = list(dict.fromkeys((row["method"], row["estimator"]) for row in rows))
    truths = {row["seed"]: row for row in table.where(method=TEST_DATA)}
    truth = truths[min(truths)]
    figure, (left, first, *others) = panel_figure(2 + len(methods), 3.6, 3.8)
    name = f"{truth['data']}: not measured traffic" if truth["data"] == SYNTHETIC else str(truth["data"])
    figure.suptitle(f"Vehicles off the road, {name}", fontsize=10, color=INK)
    _draw_shares(left, table, methods)
    _draw_map(first, truth, truth, METHOD_COLOURS["expert"])
    first.set_title(f"test vehicles\n{float(truth['off_road']):.1%} off the road", fontsize=9, color=INK)
    counts = table.distinct("n_components")[1:]
    count = counts[(len(counts) - 1) // 2]  # a middle number; all methods look alike with the largest number
    for axes, (method, ratio) in zip(others, methods, strict=True):
        row = table.where(method=method, estimator=ratio, n_components=count)[0]
        _draw_map(axes, truths[row["seed"]], row, METHOD_COLOURS[method])
        label = f"{method_label(method, ratio)}, {count} components\n{float(row['off_road']):.1%} off the road"
        axes.set_title(label, fontsize=9, color=INK)
    figure.supxlabel(
        f"maps, of one seed: grey: road; lines: up to {N_DRAWN} trajectories; dots: the given positions",
        fontsize=9,
    )
    return [write_figure(figure, folder / "traffic.png")]


def _draw_shares(axes: Axes, table: ResultTable, methods: list[tuple[str, str]]) -> None:
    counts = table.distinct("n_components")[1:]
    for method, ratio in methods:
        shares = [
            mean_and_error(table.where(method=method, estimator=ratio, n_components=count), "off_road")
            for count in counts
        ]
        mean, error = 100.0 * np.array(shares).T
        colour, name = METHOD_COLOURS[method], method_label(method, ratio)
        axes.errorbar(counts, mean, np.nan_to_num(error), color=colour, capsize=2, linestyle="none")
        axes.plot(
            counts, mean, color=colour, linestyle=RATIO_LINES[ratio], marker=MARKERS[ratio], markersize=4, label=name
        )
    level = 100.0 * mean_and_error(table.where(method=TEST_DATA), "off_road")[0]
    axes.axhline(level, color=MUTED, linewidth=1.0, label="vehicles of another set")
    axes.set_ylim(bottom=0.0)
    axes.set_xticks(counts)
    axes.set_xlabel("number of components", fontsize=9)
    axes.set_ylabel("positions off the road [%]", fontsize=9)
    n_seeds = len(table.distinct("seed"))
    title = f"means of {n_seeds} seeds\nbars: standard error" if n_seeds > 1 else "one seed"
    axes.set_title(title, fontsize=9, color=INK)
    axes.legend(fontsize=8, frameon=False)


def _draw_map(axes: Axes, truth: Row, row: Row, colour: str) -> None:
    """Draw the trajectories of a row over the grey road, with a dot at each start."""
    x, y, cell = truth["road_corner"]
    for index, ends in enumerate(truth["road"]):
        spans = [(x + cell * begin, cell * (end - begin)) for begin, end in zip(ends[::2], ends[1::2], strict=True)]
        axes.broken_barh(spans, (y + cell * index, cell), color=FAINT, linewidth=0.0)
    for trajectory in row["trajectories"]:
        places = np.array(trajectory).reshape(-1, 2)
        axes.plot(places[:, 0], places[:, 1], color=colour, linewidth=0.6, alpha=0.7)
        axes.plot(*places[0], marker="o", markersize=1.5, color=colour)
    occupied = [ends for ends in truth["road"] if ends]
    right = x + cell * max(max(ends) for ends in occupied)
    left = x + cell * min(min(ends) for ends in occupied)
    axes.set_xlim(left - MARGIN, right + MARGIN)
    axes.set_ylim(y - MARGIN, y + cell * len(truth["road"]) + MARGIN)
    axes.set_aspect("equal")
    axes.set_xlabel("x [m]", fontsize=9)
    axes.set_ylabel("y [m]", fontsize=9)
