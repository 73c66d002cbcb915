"""Where vehicles will be: mixtures of linear experts by EM and EIM, and how much they put off the road (thesis 6.5).

Context: a position (x, y) of a vehicle. Sample: its positions at the next five steps of 2.5 s. From one position nobody
knows whether it waits, turns or changes lanes; EM averages over what its experts cannot tell apart and puts vehicles on
the median strip and off the road. The thesis uses NGSIM's Lankershim Boulevard: give its file as `ngsim`. Without, the
tracks are those of a synthetic intersection, and every row and figure says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eim_ros.data.ngsim import read_ngsim
from eim_ros.data.vehicle_tracks import VehicleTrack, split_by_vehicle, track_windows
from eim_ros.distributions import MixtureOfExperts
from eim_ros.errors import DataError
from eim_ros.experiments.experiment import RATIOS, Cell, Experiment, Outcome, completed, timed
from eim_ros.experiments.intersection import synthetic_intersection
from eim_ros.experiments.off_road import RoadMap
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig, FitResult
from eim_ros.settings import Settings, option

__all__ = ["EXPERIMENT", "NGSIM", "SYNTHETIC", "TEST_DATA", "TrafficConfig", "traffic_data"]

SYNTHETIC, NGSIM = "synthetic intersection", "NGSIM Lankershim"
TEST_DATA = "test data"  # the row of what other vehicles than those of the road map do
STEP, N_STEPS = 2.5, 5  # [s], thesis 6.5
N_DRAWN = 150  # trajectories that a row keeps for the picture
DRAWN_CELLS = 160  # of the road, along the longer side of the picture
WINDOWS_PER_VEHICLE = 4  # of the synthetic ones, at least: so many vehicles are simulated


@dataclass(frozen=True)
class TrafficConfig(Settings):
    """Settings of the experiment; defaults of thesis table B.1 where it has them."""

    ngsim: str = option("", "CSV file of the NGSIM trajectories; without, a synthetic intersection stands in")
    location: str = option("lankershim", "rows of the file that are taken")
    n_components: tuple[int, ...] = option((5, 10, 20, 50), "mixtures of so many experts", minimum=1)
    n_samples: int = option(8000, "windows for training", minimum=50)
    n_test: int = option(3430, "windows for testing, and as many for what needs vehicles of its own", minimum=20)
    bandwidth: float = option(1.5, "of the kernel density of positions", unit="m", minimum=0.05)
    share_off: float = option(
        0.01, "share of other vehicles' positions that counts as off the road", minimum=0.0, maximum=0.5
    )
    em_iterations: int = option(200, "iterations of EM at most", minimum=1)
    n_iterations: int = option(300, "iterations of EIM at most", minimum=0)
    plateau_window: int = option(
        20, "EIM ends when the held-out KL falls no more from so many iterations to the next; 0: never", minimum=0
    )
    kl_bound: float = option(0.005, "largest KL of an expert's update", unit="nat", minimum=0.0)
    gating_kl_bound: float = option(0.005, "largest KL of the gating's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.01, "largest loss of entropy per update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(0.01, "the same of the gating", unit="nat", minimum=0.0)
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    n_epochs: int = option(5, "most passes of that network over the data per iteration", minimum=1)
    n_expert_samples: int = option(400, "samples per expert for its surrogate", minimum=2)
    ratios: tuple[str, ...] = option(RATIOS, "density ratio estimators of EIM", choices=RATIOS)


@dataclass(frozen=True)
class TrafficData:
    """Windows of three sets of vehicles.

    Attributes
    ----------
    train, test : tuple of Tensor
        Positions (n, 2) and following positions (n, 10) [m].
    road : RoadMap
        By all positions of the test vehicles.
    off_road : float
        Share of the positions of the third set that are off the road.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    road: RoadMap
    off_road: float


def traffic_data(config: TrafficConfig, seed: int) -> TrafficData:
    """Read or simulate tracks, and part them by vehicle."""
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
        methods = [("EM", "none"), *(("EIM", ratio) for ratio in config.ratios)]
        cells += [{"data": data, "method": name, "estimator": ratio, "n_components": count} for name, ratio in methods]
    return cells


def _measure(config: TrafficConfig, cell: Cell, seed: int) -> Outcome:
    data = _data(config, seed)
    ratio, count = str(cell["estimator"]), int(cell["n_components"])
    context, following = data.test
    if cell["method"] == TEST_DATA:
        rows = slice(0, N_DRAWN)
        return Outcome(
            0.0, {"off_road": data.off_road, **_drawn(context[rows], following[rows]), **_drawn_road(data.road)}
        )
    generator = torch.Generator().manual_seed(1_000_003 * seed + count)
    fit, seconds = timed(lambda: _fitted(config, ratio, count, data.train, generator))
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
    "positions of vehicles by EM and EIM: how many are off the road (thesis 6.5, figure 6.7)",
    TrafficConfig,
    _cells,
    _measure,
    {"n_components": "--components"},
)


@lru_cache(maxsize=1)  # all methods of a seed share it
def _data(config: TrafficConfig, seed: int) -> TrafficData:
    return traffic_data(config, seed)


@lru_cache(maxsize=1)  # all seeds share the file
def _tracks(path: str, location: str) -> list[VehicleTrack]:
    return read_ngsim(path, location)


def _some(windows: tuple[np.ndarray, np.ndarray], n: int, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """So many of the windows, drawn at random; all where there are no more."""
    chosen = generator.permutation(len(windows[0]))[:n]
    context, following = (torch.from_numpy(part[chosen]) for part in windows)
    return context, following


def _fitted(
    config: TrafficConfig, ratio: str, n_components: int, train: tuple[Tensor, Tensor], generator: torch.Generator
) -> FitResult[Any]:
    """By EIM, or by EM where there is no density ratio."""
    if len(train[0]) < n_components:
        raise DataError(f"{n_components} experts need as many windows of tracks, got {len(train[0])}", len(train[0]))
    if ratio == "none":
        em_config = EMConfig(n_components=n_components, n_iterations=config.em_iterations)
        return EM(em_config).fit(train, generator=generator)
    eim_config = EIMConfig(
        n_components=n_components,
        n_iterations=config.n_iterations,
        plateau_window=config.plateau_window,
        ratio=ratio,
        kl_bound=config.kl_bound,
        gating_kl_bound=config.gating_kl_bound,
        entropy_loss_bound=config.entropy_loss_bound,
        gating_entropy_loss_bound=config.gating_entropy_loss_bound,
        hidden_layers=config.hidden_layers,
        dropout=config.dropout,
        n_epochs=config.n_epochs,
        n_expert_samples=config.n_expert_samples,
    )
    return EIM(eim_config).fit(train, generator=generator)


def _off_road(road: RoadMap, following: Tensor) -> tuple[float, float]:
    """Shares of the positions (n, 10) off the road, and of the trajectories that are there at least once."""
    off = road.is_off(following.reshape(len(following), N_STEPS, 2).numpy())
    return float(off.mean()), float(off.any(-1).mean())


def _drawn(context: Tensor, following: Tensor) -> dict[str, list[list[float]]]:
    """Trajectories [m], each from its context on: x, y, x, y, ..."""
    return {"trajectories": ((torch.cat([context, following], -1) * 10.0).round() / 10.0).tolist()}


def _drawn_road(road: RoadMap) -> dict[str, object]:
    """The road on a coarser grid: for each row of y, where runs of cells begin and end; corner and cell [m]."""
    stride = max(1, -(-max(road.density.shape) // DRAWN_CELLS))
    on = (road.density >= road.threshold)[::stride, ::stride]
    runs = [np.flatnonzero(np.diff(np.pad(column.astype(int), 1))).tolist() for column in on.T]
    return {"road": runs, "road_corner": [*road.origin.round(2).tolist(), round(road.cell * stride, 4)]}
