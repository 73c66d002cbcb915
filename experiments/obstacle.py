"""A robot that reaches around a disc, modelled by one Gaussian that averages or selects (thesis figure 1.1).

The arm of the expert passes above or below the disc. The Gaussian with the highest likelihood lies between these
routes, and collides with the disc. The Gaussian of EIM selects one route and ignores the other. The figure shows
sampled arms of the expert, EM and EIM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.run import completed, timed
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, PlanarTask, passing_side, point_task
from eim_ros.planar.picture import draw_arms, draw_task
from eim_ros.view.style import INK, write_figure
from experiments.harness import Cell, Experiment, Outcome, of_start, with_starts
from experiments.pictures import METHOD_COLOURS, THESIS, method_label, panel_figure
from experiments.report import Claim, Finding, Setup, judged, listed
from experiments.table import ResultTable, mean_and_error

LEARNERS = ("EM", "EIM")
EXPERT = "expert"  # method name of the row with the training data
LONGER = 10  # factor on the number of iterations with the bounds of the thesis, because these are 20 times smaller
N_DRAWN = 60  # number of configurations stored in a row for the figure


@dataclass(frozen=True)
class ObstacleConfig(Settings):
    """Settings of the experiment."""

    n_samples: int = option(10000, "number of samples drawn from the expert", minimum=100)
    n_links: int = option(10, "number of 1 m links of the robot", minimum=2)
    goal_x: float = option(7.0, "x coordinate of the point to reach", unit="m")
    disc_x: float = option(3.5, "x coordinate of the disc's centre", unit="m")
    disc_radius: float = option(2.0, "radius of the disc", unit="m", minimum=1e-3)
    n_components: int = option(1, "number of components of each model", minimum=1)
    n_iterations: int = option(100, "number of EIM iterations", minimum=0)
    ratios: tuple[str, ...] = option(RATIO_ESTIMATORS, "density ratio estimators of EIM", choices=RATIO_ESTIMATORS)


def obstacle_arm(config: ObstacleConfig) -> tuple[PlanarArm, PlanarTask]:
    """Return the robot, and its task with the goal point and the disc."""
    disc = (config.disc_x, 0.0, config.disc_radius)
    return PlanarArm(n_links=config.n_links), point_task((config.goal_x, 0.0), disc)


def _cells(config: ObstacleConfig) -> list[Cell]:
    thesis = [(THESIS, "network")] if "network" in config.ratios else []
    methods = [(EXPERT, "none"), ("EM", "none"), *(("EIM", ratio) for ratio in config.ratios), *thesis]
    return with_starts([{"method": method, "estimator": ratio} for method, ratio in methods], ("EIM", THESIS))


def _measure(config: ObstacleConfig, cell: Cell, seed: int) -> Outcome:
    data = _data(config, seed)
    seconds, sample = 0.0, data
    if cell["method"] != EXPERT:
        generator = torch.Generator().manual_seed(1_000_003 * seed + 1)  # differs from the seed of the data
        mixture, seconds = timed(lambda: _mixture(config, cell, data, generator))
        sample = mixture.sample(config.n_samples, generator)
    drawn = ((sample[:N_DRAWN] * 1e4).round() / 1e4).tolist()
    return Outcome(seconds, {**_judged(sample, *obstacle_arm(config)), "samples": drawn})


EXPERIMENT = Experiment(
    "obstacle",
    "one Gaussian by EM and EIM for a planar robot that reaches around a disc (thesis figure 1.1)",
    ObstacleConfig,
    _cells,
    _measure,
    figures={"collisions": "share of samples that collide", "distance": "mean distance to the point [m]"},
)


@lru_cache(maxsize=1)  # all cells with the same seed share the data
def _data(config: ObstacleConfig, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return Expert(*obstacle_arm(config), ExpertConfig()).draw(config.n_samples, generator)


def _mixture(config: ObstacleConfig, cell: Cell, data: Tensor, generator: torch.Generator) -> GaussianMixture:
    """Fit the mixture of a cell."""
    (method, is_start), ratio = of_start(cell), str(cell["estimator"])
    if method == THESIS:
        n_iterations = 0 if is_start else LONGER * config.n_iterations
        thesis = EIMConfig.thesis(n_components=config.n_components, n_iterations=n_iterations)
        model = completed(EIM(thesis).fit(data, generator=generator))
    elif ratio == "none":
        model = completed(EM(EMConfig(n_components=config.n_components)).fit(data, generator=generator))
    else:
        eim_config = EIMConfig.from_mapping(
            {
                "n_components": config.n_components,
                "n_iterations": 0 if is_start else config.n_iterations,
                "plateau_window": 0,
                "start.n_starts": 1,
                "ratio.estimator": ratio,
                "ratio.reference.factors": (2.0, 5.0, 10.0, 20.0, 40.0, 80.0),
            }
        )
        model = completed(EIM(eim_config).fit(data, generator=generator))
    assert isinstance(model, GaussianMixture)
    return model


def _judged(q: Tensor, arm: PlanarArm, task: PlanarTask) -> dict[str, float]:
    """Return the share of colliding configurations, the mean distance to the goal [m], and the share above the disc."""
    points = arm.points(q)
    return {
        "collisions": float((task.clearance(points) <= 0.0).double().mean()),
        "distance": float(task.distance(points[:, -1]).mean()),
        "above": float((passing_side(points, task.obstacles[0, :2]) > 0).double().mean()),
    }


LEAST_ON_ONE_SIDE = 0.95  # smallest share of samples on one side that counts as a single route
MOST_COLLISIONS, MOST_OFF = 0.05, 0.2  # share of samples, and distance from the goal [m]; the arm is 10 m long


SETUPS = (Setup("network", THESIS), Setup("network"), Setup("residual"), Setup("plug-in"))


def _solves_the_task(table: ResultTable, setup: Setup) -> Finding | None:
    rows, of_em = table.where(**setup.key), table.where(method="EM")
    if not rows or not of_em:
        return None
    (collisions, _), (distance, _) = mean_and_error(rows, "collisions"), mean_and_error(rows, "distance")
    (em_collisions, _), (em_distance, _) = mean_and_error(of_em, "collisions"), mean_and_error(of_em, "distance")
    reasons = {
        f"{collisions:.1%} of EIM's samples collide": collisions > MOST_COLLISIONS,
        f"EIM misses the point by {distance:.2f} m": distance > MOST_OFF,
        f"only {em_collisions:.1%} of EM's samples collide": em_collisions <= 0.5,
        f"EM is within {em_distance:.2f} m of the point": em_distance <= MOST_OFF,
    }
    return judged(
        f"{collisions:.1%} of EIM's samples collide, and their mean distance to the point is {distance:.2f} m "
        f"(EM {em_collisions:.1%}, {em_distance:.2f} m)",
        not any(reasons.values()),
        listed(reason for reason, applies in reasons.items() if applies),
    )


def _keeps_to_one_way(table: ResultTable, setup: Setup) -> Finding | None:
    rows = table.where(**setup.key)
    if not rows:
        return None
    shares = [max(row["above"], 1.0 - row["above"]) for row in rows]
    n_both = sum(share <= LEAST_ON_ONE_SIDE for share in shares)
    return judged(
        f"with each seed, at least {min(shares):.1%} of the samples are on one side of the disc",
        n_both == 0,
        f"for {n_both} of {len(shares)} seeds, the Gaussian spans both routes",
    )


CLAIMS = (
    Claim(
        "figure 1.1",
        "The Gaussian of highest likelihood averages over both routes, misses the point and hits the disc. EIM's "
        "Gaussian does neither.",
        _solves_the_task,
    ),
    Claim("figure 1.1", "EIM's Gaussian takes one route and ignores the other.", _keeps_to_one_way),
)


def draw(table: ResultTable, folder: Path) -> list[Path]:
    """Write a PNG with a panel for the expert and one for each method, from the first seed.

    Parameters
    ----------
    table : ResultTable
        Table of the experiment obstacle.
    folder : Path

    Returns
    -------
    list of Path
    """
    arm, task = obstacle_arm(ObstacleConfig.from_mapping(table.settings))
    results = [row for row in table.rows if not of_start(row)[1]]
    rows = list({(row["method"], row["estimator"]): row for row in reversed(results)}.values())[::-1]
    figure, panels = panel_figure(len(rows), 3.6, 3.3)
    for axes, row in zip(panels, rows, strict=True):
        draw_task(axes, task)
        draw_arms(axes, arm, torch.tensor(row["samples"], dtype=torch.float64), METHOD_COLOURS[row["method"]])
        label = method_label(row["method"], row["estimator"])
        figures = f"{row['collisions']:.1%} collide, {row['distance']:.2f} m off"
        axes.set_title(f"{label}\n{figures}", fontsize=9, color=INK)
        axes.set_xlim(-0.35 * arm.reach, 1.0 * arm.reach)
        axes.set_ylim(-0.55 * arm.reach, 0.55 * arm.reach)
        axes.set_xlabel("x [m]", fontsize=8)
        axes.set_ylabel("y [m]", fontsize=8)
    figure.supxlabel(
        "lines: 60 sampled arms; black dots: their tips, square: their base; green: the point to reach\n"
        "orange: the disc; off: mean distance of the tips to the point",
        fontsize=9,
    )
    return [write_figure(figure, folder / "obstacle.png")]
