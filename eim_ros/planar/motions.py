"""Whole motions: from a start to configurations of the expert, around the obstacles.

q(s) = start + (goal - start) m(s) + sum_k w_k b_k(s), s = t / duration. m is the minimum-jerk profile; the bumps
b_k(s) = 16 s^2 (1 - s)^2 T_k(2 s - 1), T_k Chebyshev polynomials, are zero at both ends with their first derivatives.
Random weights are improved by gradient descent on what lacks of the clearance and of the joint limits (as CHOMP does;
Zucker et al. 2013); what still touches an obstacle is tried again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.errors import ConfigurationError
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.expert import Expert
from eim_ros.settings import Settings, option

__all__ = ["Motion", "MotionConfig", "draw_motions", "plan", "reaching_motion"]

N_CHECKED = 400  # points of a motion whose clearance is checked
N_PLANNED = 48  # points of a motion whose clearance is improved
LEARNING_RATE = 0.03


@dataclass(frozen=True)
class MotionConfig(Settings):
    """How motions are planned and timed."""

    n_points: int = option(101, "points of a trajectory", minimum=2)
    speed: float = option(0.5, "largest velocity of a joint, as a share of its limit", minimum=1e-3, maximum=1.0)
    least_duration: float = option(1.0, "shortest motion", unit="s", minimum=1e-3)
    margin: float = option(0.05, "clearance to keep on the way", unit="m", minimum=0.0)
    n_bumps: int = option(4, "polynomials by which a joint may leave the direct way", minimum=1)
    spread: float = option(0.3, "standard deviation of their weights at first: motions differ", unit="rad", minimum=0.0)
    n_steps: int = option(150, "gradient steps", minimum=1)
    n_tries: int = option(6, "fresh random weights for motions that are not free, each with more spread", minimum=1)


@dataclass(frozen=True, eq=False)
class Motion:
    """A trajectory of all joints.

    Attributes
    ----------
    times : (n_points,) float64
        [s], from 0, evenly spaced.
    positions : (n_points, n_links) float64
        [rad].
    """

    times: npt.NDArray[np.float64]
    positions: npt.NDArray[np.float64]


def draw_motions(
    expert: Expert, start: Tensor, n_motions: int, generator: torch.Generator, config: MotionConfig | None = None
) -> list[Motion]:
    """Motions of an expert: from the start to draws from its posterior that it finds a free way to.

    Parameters
    ----------
    expert : Expert
    start : Tensor (n_links,)
        [rad].
    n_motions : int
    generator : torch.Generator
    config : MotionConfig, optional

    Raises
    ------
    ConfigurationError
        Start in an obstacle, goal out of reach, or no way found to most of the draws.
    """
    config = config or MotionConfig()
    if float(expert.task.clearance(expert.arm.points(start))) <= 0.0:
        raise ConfigurationError("the arm touches an obstacle at the start of its motions", start.tolist())
    motions: list[Motion] = []
    for _ in range(4):
        goals = expert.draw(n_motions, generator)
        ways, free = plan(expert, start, goals, generator, config)
        motions += [_timed(expert.arm, way, config) for way in ways[free]]
        if len(motions) >= n_motions:
            return motions[:n_motions]
    raise ConfigurationError("from the start no way around the obstacles is found to most goals", len(motions))


def reaching_motion(arm: PlanarArm, start: Tensor, goal: Tensor, config: MotionConfig | None = None) -> Motion:
    """The direct way from a start to a goal, (n_links,) [rad] each, whatever stands there."""
    config = config or MotionConfig()
    share = torch.linspace(0.0, 1.0, N_CHECKED, dtype=torch.float64)
    still = torch.zeros(1, config.n_bumps, arm.n_links, dtype=torch.float64)
    return _timed(arm, _way(start, goal.unsqueeze(0), still, share)[0], config)


def plan(
    expert: Expert, start: Tensor, goals: Tensor, generator: torch.Generator, config: MotionConfig
) -> tuple[Tensor, Tensor]:
    """Ways from a start to goals.

    Parameters
    ----------
    expert : Expert
        Its arm and obstacles.
    start : Tensor (n_links,)
    goals : Tensor (n, n_links)
    generator : torch.Generator
    config : MotionConfig

    Returns
    -------
    ways : Tensor (n, 400, n_links)
        Evenly spaced in time [rad].
    free : Tensor (n,) of bool
        Whether it touches no obstacle and is within the joint limits.
    """
    weights = torch.zeros(len(goals), config.n_bumps, expert.arm.n_links, dtype=torch.float64)
    free = torch.zeros(len(goals), dtype=torch.bool)
    share = torch.linspace(0.0, 1.0, N_CHECKED, dtype=torch.float64)
    for attempt in range(config.n_tries):
        left = (~free).nonzero().flatten()
        if len(left) == 0:
            break
        noise = torch.randn(len(left), *weights.shape[1:], generator=generator, dtype=weights.dtype)
        found = _improved(expert, start, goals[left], config.spread * (1.0 + attempt) * noise, config)
        way = _way(start, goals[left], found, share)
        clear = expert.task.clearance(expert.arm.points(way)).amin(-1) > 0.5 * config.margin
        weights[left] = found
        free[left] = clear & expert.arm.within_limits(way).all(-1)
    return _way(start, goals, weights, share), free


def _improved(expert: Expert, start: Tensor, goals: Tensor, weights: Tensor, config: MotionConfig) -> Tensor:
    """Weights (n, n_bumps, n_links) after gradient descent on clearance and limits; the rest is left as it is."""
    share = torch.linspace(0.0, 1.0, N_PLANNED, dtype=torch.float64)
    weights = weights.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([weights], lr=LEARNING_RATE)
    for _ in range(config.n_steps):
        way = _way(start, goals, weights, share)
        lacking = (2.0 * config.margin - expert.task.clearance(expert.arm.points(way))).clamp_min(0.0)
        beyond = (way.abs() - 0.98 * expert.arm.joint_limit).clamp_min(0.0)
        cost = lacking.square().sum() + beyond[:, 1:-1].square().sum()
        if float(cost.detach()) == 0.0:
            break
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
    return weights.detach()


def _way(start: Tensor, goals: Tensor, weights: Tensor, share: Tensor) -> Tensor:
    """Configurations (n, n_points, n_links) at shares (n_points,) of the time."""
    profile = share**3 * (10.0 - 15.0 * share + 6.0 * share.square())
    angle = torch.arccos((2.0 * share - 1.0).clamp(-1.0, 1.0))
    bumps = torch.stack([16.0 * (share * (1.0 - share)).square() * (k * angle).cos() for k in range(weights.shape[1])])
    return start + profile.unsqueeze(-1) * (goals - start).unsqueeze(-2) + bumps.mT @ weights


def _timed(arm: PlanarArm, way: Tensor, config: MotionConfig) -> Motion:
    """Motion that is as fast as it may be."""
    steepest = float(way.diff(dim=0).abs().max()) * (len(way) - 1)
    duration = max(config.least_duration, steepest / (config.speed * arm.velocity_limit))
    index = np.linspace(0.0, len(way) - 1.0, config.n_points)
    columns = [np.interp(index, np.arange(len(way)), column) for column in way.T.numpy()]
    return Motion(np.linspace(0.0, math.ceil(100.0 * duration) / 100.0, config.n_points), np.stack(columns, 1))
