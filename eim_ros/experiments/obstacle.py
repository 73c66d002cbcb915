"""One Gaussian for a robot that reaches a point around a disc: averaging against choosing (thesis figure 1.1).

The expert's arm passes above the disc or below it. The Gaussian of highest likelihood lies between, through the disc;
EIM's takes one of the two ways, and leaves the other out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.experiments.experiment import RATIOS, Cell, Experiment, Outcome, completed, timed
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, PlanarTask, passing_side, point_task
from eim_ros.settings import Settings, option

__all__ = ["EXPERIMENT", "LEARNERS", "ObstacleConfig", "obstacle_arm"]

LEARNERS = ("EM", "EIM")
EXPERT = "expert"  # the row of the training data
N_DRAWN = 60  # configurations that a row keeps for the picture


@dataclass(frozen=True)
class ObstacleConfig(Settings):
    """Settings of the experiment."""

    n_samples: int = option(10000, "samples of the expert", minimum=100)
    n_links: int = option(10, "links of the robot, 1 m each", minimum=2)
    goal_x: float = option(7.0, "where the point is on the x axis", unit="m")
    disc_x: float = option(3.5, "where the disc's centre is on the x axis", unit="m")
    disc_radius: float = option(2.0, "radius of the disc", unit="m", minimum=1e-3)
    n_components: int = option(1, "components of the models", minimum=1)
    n_iterations: int = option(100, "iterations of EIM", minimum=1)
    ratios: tuple[str, ...] = option(RATIOS, "density ratio estimators of EIM", choices=RATIOS)


def obstacle_arm(config: ObstacleConfig) -> tuple[PlanarArm, PlanarTask]:
    """The robot, its point and the disc."""
    disc = (config.disc_x, 0.0, config.disc_radius)
    return PlanarArm(n_links=config.n_links), point_task((config.goal_x, 0.0), disc)


def _cells(config: ObstacleConfig) -> list[Cell]:
    methods = [(EXPERT, "none"), ("EM", "none"), *(("EIM", ratio) for ratio in config.ratios)]
    return [{"method": method, "estimator": ratio} for method, ratio in methods]


def _measure(config: ObstacleConfig, cell: Cell, seed: int) -> Outcome:
    data = _data(config, seed)
    ratio, seconds, sample = str(cell["estimator"]), 0.0, data
    if cell["method"] != EXPERT:
        generator = torch.Generator().manual_seed(1_000_003 * seed + 1)  # not that of the data
        mixture, seconds = timed(lambda: _mixture(config, ratio, data, generator))
        sample = mixture.sample(config.n_samples, generator)
    drawn = ((sample[:N_DRAWN] * 1e4).round() / 1e4).tolist()
    return Outcome(seconds, {**_judged(sample, *obstacle_arm(config)), "samples": drawn})


EXPERIMENT = Experiment(
    "obstacle",
    "one Gaussian by EM and EIM for a planar robot that reaches around a disc (thesis figure 1.1)",
    ObstacleConfig,
    _cells,
    _measure,
    {"n_components": "--components"},
)


@lru_cache(maxsize=1)  # all cells of a seed share it
def _data(config: ObstacleConfig, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return Expert(*obstacle_arm(config), ExpertConfig()).draw(config.n_samples, generator)


def _mixture(config: ObstacleConfig, ratio: str, data: Tensor, generator: torch.Generator) -> GaussianMixture:
    """By EIM, or by EM where there is no density ratio."""
    if ratio == "none":
        model = completed(EM(EMConfig(n_components=config.n_components)).fit(data, generator=generator))
    else:
        eim_config = EIMConfig(
            n_components=config.n_components,
            n_iterations=config.n_iterations,
            initial_starts=1,
            ratio=ratio,
            reference_factors=(2.0, 5.0, 10.0, 20.0, 40.0, 80.0),  # a manifold wants many more than the model has
        )
        model = completed(EIM(eim_config).fit(data, generator=generator))
    assert isinstance(model, GaussianMixture)
    return model


def _judged(q: Tensor, arm: PlanarArm, task: PlanarTask) -> dict[str, float]:
    """Share of configurations that collide, mean distance to the goal [m], share that passes above the disc."""
    points = arm.points(q)
    return {
        "collisions": float((task.clearance(points) <= 0.0).double().mean()),
        "distance": float(task.distance(points[:, -1]).mean()),
        "above": float((passing_side(points, task.obstacles[0, :2]) > 0).double().mean()),
    }
