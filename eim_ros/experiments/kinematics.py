"""Inverse kinematics of real arms from samples: mixtures of linear experts by EM and EIM (thesis 6.4, figure 6.6).

Data: uniform configurations q, and the positions y that they reach. The model is asked for q at y. An arm of seven
joints reaches a position in infinitely many ways; EM averages over them, and the average reaches something else.
Measured are the error of the tip's position under raw samples and two entropies of the gating: experts should share all
positions, H(E q(z|y)) high, and each should answer for few of them, E H(q(z|y)) low.

The data lie exactly on FK(q) = y, where p has no density: the better a classifier is, the less its ratio means. So the
contexts of both classes are blurred, y + sigma n, and sigma is annealed. Beside the thesis' classifier and the plug-in
density, the row "known" has the kinematics themselves in the ratio (`KinematicInputs`) and no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from eim_ros.data import DataSet
from eim_ros.distributions import MixtureOfExperts
from eim_ros.experiments.experiment import RATIOS, Cell, Experiment, Outcome, completed, timed
from eim_ros.ik import IKModel
from eim_ros.ik.training.collect import collect
from eim_ros.ik.training.evaluate import evaluate
from eim_ros.ik.training.inputs import KinematicEIMConfig, KinematicInputs
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig, FeatureInputs
from eim_ros.kinematics import Robot
from eim_ros.settings import Settings, option

__all__ = ["CURVES", "EXPERIMENT", "KNOWN", "KinematicsConfig"]

KNOWN = "known"  # the estimator that knows the kinematics
CURVES = {
    "rmse_position": "curve_rmse",
    "entropy_conditional": "curve_conditional",
    "entropy_marginal": "curve_marginal",
}  # columns over the iterations, and the figures of `evaluate` that they are of
N_POINTS = 20  # of a curve, at most, beside the start
N_CURVE = 1000  # test samples that its points are of


@dataclass(frozen=True)
class KinematicsConfig(Settings):
    """Settings of the experiment; sizes of thesis table B.1."""

    robots: tuple[str, ...] = option(("iiwa14", "panda"), "robots by name")
    n_components: tuple[int, ...] = option((10, 25, 50, 100), "mixtures of so many experts", minimum=1)
    n_samples: int = option(10000, "samples for training", minimum=100)
    n_validation: int = option(5000, "samples that EIM's estimators are judged by", minimum=10)
    n_test: int = option(5000, "samples for testing", minimum=10)
    em_iterations: int = option(100, "iterations of EM at most", minimum=1)
    start_iterations: int = option(10, "iterations of EM at most for EIM's start", minimum=1)
    n_iterations: int = option(100, "iterations of EIM", minimum=1)
    kl_bound: float = option(0.15, "largest KL of an expert's update", unit="nat", minimum=0.0)
    gating_kl_bound: float = option(0.015, "largest KL of the gating's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.15, "largest loss of entropy per update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(0.1, "the same of the gating", unit="nat", minimum=0.0)
    hidden_layers: tuple[int, ...] = option((150, 150, 150), "widths of the ratio network's layers", minimum=1)
    dropout: float = option(0.1, "dropout probability of the ratio network", minimum=0.0, maximum=0.9)
    batch_size: int = option(200, "pairs of each class in a batch", minimum=1)
    n_epochs: int = option(3, "most passes over the data per iteration", minimum=1)
    smoothing: float = option(
        0.3, "noise on the classifier's positions at the start, in standard deviations; 0: none", minimum=0.0
    )
    smoothing_decay: float = option(0.97, "factor on it per iteration", minimum=0.0, maximum=1.0)
    smoothing_floor: float = option(0.2, "least noise, as a share of that at the start", minimum=0.0, maximum=1.0)
    ratios: tuple[str, ...] = option(
        ("network", "plug-in", KNOWN), "density ratio estimators of EIM", choices=(*RATIOS, KNOWN)
    )


def _cells(config: KinematicsConfig) -> list[Cell]:
    methods = [("EM", "none"), *(("EIM", ratio) for ratio in config.ratios)]
    return [
        {"robot": robot, "method": method, "estimator": ratio, "n_components": count}
        for robot in config.robots
        for count in config.n_components
        for method, ratio in methods
    ]


def _measure(config: KinematicsConfig, cell: Cell, seed: int) -> Outcome:
    data = _data(config, str(cell["robot"]), seed)
    ratio, count = str(cell["estimator"]), int(cell["n_components"])
    generator = torch.Generator().manual_seed(1_000_003 * seed + count)
    models: list[MixtureOfExperts] = []
    model, seconds = timed(lambda: _fitted(config, ratio, count, data, generator, models))
    chosen = [models[index] for index in _evenly(len(models))]
    points = [_figures(data, one, data.test, seed, N_CURVE) for one in chosen]
    curves = {column: [round(point[name], 4) for point in points] for name, column in CURVES.items()}
    return Outcome(seconds, {**_figures(data, model, data.test, seed), **curves})


EXPERIMENT = Experiment(
    "kinematics",
    "inverse kinematics of arms by EM and EIM from samples (thesis 6.4, figure 6.6)",
    KinematicsConfig,
    _cells,
    _measure,
    {"n_components": "--components"},
)


@dataclass(frozen=True)
class _Data:
    """Samples of a robot: those for training, those for validation behind them, and those for testing."""

    robot: Robot
    both: tuple[Tensor, Tensor]
    train: tuple[Tensor, Tensor]
    test: DataSet


@lru_cache(maxsize=1)  # all methods of a robot and seed share it
def _data(config: KinematicsConfig, name: str, seed: int) -> _Data:
    robot = Robot.load(name)
    drawn = collect(robot, config.n_samples + config.n_validation, "position", 2 * seed)
    both = torch.from_numpy(drawn.context), torch.from_numpy(drawn.sample)
    train = both[0][: config.n_samples], both[1][: config.n_samples]
    return _Data(robot, both, train, collect(robot, config.n_test, "position", 2 * seed + 1))


def _fitted(
    config: KinematicsConfig,
    ratio: str,
    n_components: int,
    data: _Data,
    generator: torch.Generator,
    models: list[MixtureOfExperts],
) -> MixtureOfExperts:
    """By EIM, or by EM where there is no density ratio; the start and the model of each iteration go to `models`."""

    def keep(state: Any, record: dict[str, float]) -> None:
        models.append(state.model)

    n_iterations = config.em_iterations if ratio == "none" else config.start_iterations
    em = EM(EMConfig(n_components=n_components, n_iterations=n_iterations))
    if ratio == "none":
        return _mixture(completed(em.fit(data.train, generator=generator, callbacks=[keep])))
    start = _mixture(completed(em.fit(data.train, generator=generator)))
    models.append(start)
    learner = _learner(config, ratio, n_components, data)
    return _mixture(completed(learner.fit(data.both, start, generator, callbacks=[keep])))


def _learner(config: KinematicsConfig, ratio: str, n_components: int, data: _Data) -> EIM:
    """EIM with one of the estimators. It returns its last model: a blurred ratio cannot tell which is the best."""
    n_held_out = config.n_validation / (config.n_samples + config.n_validation)
    shared: dict[str, Any] = {
        "n_components": n_components,
        "n_iterations": config.n_iterations,
        "kl_bound": config.kl_bound,
        "gating_kl_bound": config.gating_kl_bound,
        "entropy_loss_bound": config.entropy_loss_bound,
        "gating_entropy_loss_bound": config.gating_entropy_loss_bound,
        "n_gating_contexts": 200,
        "n_expert_samples": 100,
        "n_selection_samples": 0,
        "validation_share": n_held_out,
    }
    context, sample = data.both
    if ratio == KNOWN:
        kinematic = KinematicEIMConfig(ratio="plug-in", **shared)
        return EIM(kinematic, KinematicInputs.from_data(data.robot, "position", context, kinematic))
    inputs = None
    if config.smoothing > 0.0 and ratio == "network":
        inputs = FeatureInputs.from_data(
            context,
            sample,
            _no_features,
            smoothing=config.smoothing,
            decay=config.smoothing_decay,
            floor=config.smoothing_floor,
        )
    network: dict[str, Any] = {
        "hidden_layers": config.hidden_layers,
        "dropout": config.dropout,
        "batch_size": config.batch_size,
        "n_epochs": config.n_epochs,
    }
    return EIM(EIMConfig(ratio=ratio, **shared, **network), inputs)


def _no_features(context: Tensor, sample: Tensor) -> Tensor:
    """The classifier sees configurations and positions, and nothing else."""
    return sample[:, :0]


def _mixture(model: Any) -> MixtureOfExperts:
    assert isinstance(model, MixtureOfExperts)
    return model


def _evenly(n: int) -> list[int]:
    """At most so many places of n as a curve has points, first and last among them."""
    last = min(n - 1, N_POINTS)
    return [round(index * (n - 1) / max(last, 1)) for index in range(last + 1)]


def _figures(data: _Data, model: MixtureOfExperts, test: DataSet, seed: int, n: int | None = None) -> dict[str, float]:
    """Those of `evaluate`, for the first n test samples."""
    some = DataSet(test.context[:n], test.sample[:n], test.description)
    return evaluate(IKModel(model, data.robot, "position"), some, seed)
