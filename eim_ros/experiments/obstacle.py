"""One Gaussian for a robot that reaches a point around a disc: averaging against choosing (thesis figure 1.1).

The expert's arm passes above the disc or below it. The Gaussian of highest likelihood lies between, through the disc;
EIM's takes one of the two ways, and leaves the other out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, PlanarTask, passing_side, point_task
from eim_ros.settings import Settings, option

__all__ = ["LEARNERS", "ObstacleConfig", "ObstacleFit", "ObstacleResult", "fit_obstacle"]

LEARNERS = ("EM", "EIM")


@dataclass(frozen=True)
class ObstacleConfig(Settings):
    """Settings of `fit_obstacle`."""

    n_samples: int = option(10000, "samples of the expert", minimum=100)
    n_links: int = option(10, "links of the robot, 1 m each", minimum=2)
    goal_x: float = option(7.0, "where the point is on the x axis", unit="m")
    disc_x: float = option(3.5, "where the disc's centre is on the x axis", unit="m")
    disc_radius: float = option(2.0, "radius of the disc", unit="m", minimum=1e-3)
    n_components: int = option(1, "components of the models", minimum=1)
    n_iterations: int = option(100, "iterations of EIM", minimum=1)


@dataclass(frozen=True)
class ObstacleFit:
    """One learner's model.

    Attributes
    ----------
    mixture : GaussianMixture
    collisions : float
        Share of its samples with a link in the disc.
    distance : float
        Mean distance of its samples' tips to the point [m].
    above : float
        Share of its samples that pass above the disc.
    """

    mixture: GaussianMixture
    collisions: float
    distance: float
    above: float


@dataclass(frozen=True)
class ObstacleResult:
    """Outcome.

    Attributes
    ----------
    arm : PlanarArm
    task : PlanarTask
    expert : Tensor (n_samples, n_links)
        The training data.
    expert_collisions, expert_distance, expert_above : float
        As of a fit.
    fits : dict
        By learner.
    """

    arm: PlanarArm
    task: PlanarTask
    expert: Tensor
    expert_collisions: float
    expert_distance: float
    expert_above: float
    fits: dict[str, ObstacleFit]


def fit_obstacle(
    config: ObstacleConfig, seed: int = 0, progress: Callable[[str, ObstacleFit], None] | None = None
) -> ObstacleResult:
    """Draw the expert's samples and fit both models.

    Parameters
    ----------
    config : ObstacleConfig
    seed : int
        Of data and learners.
    progress : callable, optional
        Called after each fit with learner and fit.
    """
    generator = torch.Generator().manual_seed(seed)
    arm = PlanarArm(n_links=config.n_links)
    task = point_task((config.goal_x, 0.0), (config.disc_x, 0.0, config.disc_radius))
    data = Expert(arm, task, ExpertConfig()).draw(config.n_samples, generator)
    fits = {}
    for learner in LEARNERS:
        mixture = _fit(config, learner, data, generator)
        fits[learner] = ObstacleFit(mixture, *_judged(mixture.sample(config.n_samples, generator), arm, task))
        if progress is not None:
            progress(learner, fits[learner])
    return ObstacleResult(arm, task, data, *_judged(data, arm, task), fits)


def _fit(config: ObstacleConfig, learner: str, data: Tensor, generator: torch.Generator) -> GaussianMixture:
    if learner == "EM":
        em_config = EMConfig(n_components=config.n_components)
        return EM(em_config).fit(data, generator=generator).mixture_of_experts.as_mixture()
    eim_config = EIMConfig(
        n_components=config.n_components,
        n_iterations=config.n_iterations,
        initial_starts=1,
        reference_factors=(2.0, 5.0, 10.0, 20.0, 40.0, 80.0),  # a manifold wants many more than the model has
    )
    return EIM(eim_config).fit(data, generator=generator).mixture_of_experts.as_mixture()


def _judged(q: Tensor, arm: PlanarArm, task: PlanarTask) -> tuple[float, float, float]:
    """Share of collisions, mean distance to the goal [m], share above the disc."""
    points = arm.points(q)
    collisions = (task.clearance(points) <= 0.0).double().mean()
    above = (passing_side(points, task.obstacles[0, :2]) > 0).double().mean()
    return float(collisions), float(task.distance(points[:, -1]).mean()), float(above)
