"""The expert: draws configurations from the posterior p(q | task), proportional to prior, goal and clearance.

    prior      N(q; 0, diag(1, .2^2, ...)) within the joint limits: smooth arms
    goal       exp(-distance^2 / (2 goal_deviation^2))
    clearance  exp(-max(0, margin - clearance)^2 / (2 clearance_deviation^2))

It has a mode for each way around the obstacles, for each side of the elbow and so on. An annealed population finds all
of them in their proportions: draws from the prior, the likelihood raised to a power that grows from 0 to 1, resampling,
and Metropolis moves (sequential Monte Carlo; Del Moral, Doucet, Jasra 2006). Each draw is a chain of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import ConfigurationError
from eim_ros.planar.arm import PlanarArm, wrapped
from eim_ros.planar.crankshaft import closed_loop, determinant, prior_step
from eim_ros.planar.task import PlanarTask
from eim_ros.settings import Settings, option

__all__ = ["Expert", "ExpertConfig"]

POPULATION = 2000  # least number of chains: fewer lose modes
UNLIKELY = -50.0  # [nat] log likelihood of draws that are ten deviations off: the task cannot be done


@dataclass(frozen=True)
class ExpertConfig(Settings):
    """What the expert prefers, and how its posterior is sampled."""

    first_deviation: float = option(1.0, "prior standard deviation of the first joint", unit="rad", minimum=1e-3)
    deviation: float = option(0.2, "prior standard deviation of the other joints", unit="rad", minimum=1e-3)
    goal_deviation: float = option(0.01, "standard deviation of the tip's distance to the goal", unit="m", minimum=1e-4)
    margin: float = option(0.1, "clearance from obstacles below which it becomes unlikely", unit="m", minimum=0.0)
    clearance_deviation: float = option(0.02, "standard deviation of what lacks of the margin", unit="m", minimum=1e-4)
    moves_per_temperature: int = option(6, "Metropolis moves of each kind after each resampling", minimum=1)
    final_moves: int = option(150, "Metropolis moves of each kind at the posterior itself", minimum=1)


@dataclass(frozen=True)
class Expert:
    """Posterior over configurations that do a task.

    Attributes
    ----------
    arm : PlanarArm
    task : PlanarTask
    config : ExpertConfig
    """

    arm: PlanarArm
    task: PlanarTask
    config: ExpertConfig = ExpertConfig()

    @property
    def deviations(self) -> Tensor:
        """Standard deviations of the prior (n_links,) [rad]."""
        deviations = torch.full((self.arm.n_links,), self.config.deviation, dtype=torch.float64)
        deviations[0] = self.config.first_deviation
        return deviations

    def log_prior(self, q: Tensor) -> Tensor:
        """Up to a constant, (...) [nat], of configurations (..., n_links); minus infinity beyond the joint limits."""
        value = -0.5 * (q / self.deviations).square().sum(-1)
        return torch.where(self.arm.within_limits(q), value, -torch.inf)

    def log_likelihood(self, q: Tensor) -> Tensor:
        """Of goal and clearance, (...) [nat]; 0 at best."""
        return self._log_likelihood(self.arm.points(q))

    def log_prob(self, q: Tensor) -> Tensor:
        """Log posterior (...) [nat], up to a constant."""
        return self.log_prior(q) + self.log_likelihood(q)

    def draw(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Configurations (n_samples, n_links) from the posterior.

        Raises
        ------
        ConfigurationError
            No configuration does the task.
        """
        chains = _Chains(self, max(n_samples, POPULATION), generator)
        while chains.power < 1.0:
            chains.cool()
            for _ in range(self.config.moves_per_temperature):
                chains.move()
        for _ in range(self.config.final_moves):
            chains.move()
        if float(chains.log_likelihood.median()) < UNLIKELY:
            raise ConfigurationError(
                f"the arm's reach, {self.arm.reach:g} m, or the obstacles do not let it reach the goal",
                self.task.to_mapping(),
            )
        order = torch.randperm(len(chains.q), generator=generator)
        return chains.q[order[:n_samples]]

    def _log_likelihood(self, points: Tensor) -> Tensor:
        distance = self.task.distance(points[..., -1, :]) / self.config.goal_deviation
        lacking = (self.config.margin - self.task.clearance(points)).clamp_min(0.0) / self.config.clearance_deviation
        return -0.5 * (distance.square() + lacking.square())


class _Chains:
    """A population of configurations (n, n_links) at one temperature."""

    def __init__(self, expert: Expert, n_chains: int, generator: torch.Generator) -> None:
        self.expert, self.arm, self.generator = expert, expert.arm, generator
        self.deviations = expert.deviations
        self.q = self._from_prior(n_chains)
        self.points = self.arm.points(self.q)
        self.log_likelihood = expert._log_likelihood(self.points)
        self.power = 0.0

    def cool(self) -> None:
        """Raise the power until the weights are worth half the chains, and resample by them."""
        low, high = 0.0, 1.0 - self.power
        if self._effective(high) < 0.5:
            while high - low > 1e-3 * high:
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self._effective(middle) >= 0.5 else (low, middle)
            step = high
            self.power += step
        else:
            step, self.power = high, 1.0
        weights = torch.softmax(step * self.log_likelihood, 0)
        start = torch.rand(1, generator=self.generator, dtype=weights.dtype)
        ticks = (torch.arange(len(weights)) + start) / len(weights)
        index = torch.searchsorted(weights.cumsum(0), ticks).clamp_max(len(weights) - 1)
        self.q, self.points, self.log_likelihood = self.q[index], self.points[index], self.log_likelihood[index]

    def move(self) -> None:
        """One move of each kind."""
        self._move_by_prior()
        self._mirror()
        if self.arm.n_links > 1:
            self._move_with_tip()

    def _move_by_prior(self) -> None:
        proposed = prior_step(self.q, self.deviations, self._step_size(), self._mask(), self.generator)
        self._accept(proposed, torch.zeros(len(proposed), dtype=proposed.dtype))

    def _mirror(self) -> None:
        """Reflect the arm in the x axis, or in the line from its base to its tip: elsewhere moves rarely change sides.

        Both are their own inverses and keep volumes. Half the chains stay: in a symmetric task all would change.
        """
        tip = self.points[:, -1]
        turn = 2.0 * torch.atan2(tip[:, 1], tip[:, 0]) * (self._uniform() < 0.5)
        proposed = -self.q
        proposed[:, 0] = wrapped(proposed[:, 0] + turn)
        first = torch.stack([self.q[:, 0], proposed[:, 0]]) / self.deviations[0]
        stays = torch.where(self._uniform() < 0.5, 0.0, -torch.inf).to(self.q)
        self._accept(proposed, 0.5 * (first[0].square() - first[1].square()) + stays)

    def _move_with_tip(self) -> None:
        n, links = self.q.shape
        second = 1 + torch.randint(links - 1, (n,), generator=self.generator)
        first = (self._uniform() * second).long().clamp_max(links - 2)
        first = torch.where(self._uniform() < 0.5, 0, first)  # the first joint is free to follow
        proposed = prior_step(self.q, self.deviations, self._step_size(), self._mask(), self.generator)
        elbow = torch.where(self._uniform() < 0.5, 1.0, -1.0).to(self.q)
        proposed, after = closed_loop(self.arm, proposed, first, second, self._moved_tip(), elbow)
        before = determinant(self.points, first, second)
        pair = torch.stack([first, second], -1)
        spread = self.deviations[pair]
        old, new = (-0.5 * (q.gather(-1, pair) / spread).square().sum(-1) for q in (self.q, proposed))
        self._accept(proposed, new - old + before.log() - after.log())

    def _accept(self, proposed: Tensor, log_factor: Tensor) -> None:
        """Metropolis; the factor is that of all but the likelihood."""
        allowed = torch.isfinite(proposed).all(-1) & self.arm.within_limits(proposed)
        proposed = torch.where(allowed.unsqueeze(-1), proposed, self.q)
        points = self.arm.points(proposed)
        log_likelihood = self.expert._log_likelihood(points)
        log_ratio = log_factor + self.power * (log_likelihood - self.log_likelihood)
        taken = allowed & (self._uniform().log() < log_ratio)
        self.q = torch.where(taken.unsqueeze(-1), proposed, self.q)
        self.points = torch.where(taken[:, None, None], points, self.points)
        self.log_likelihood = torch.where(taken, log_likelihood, self.log_likelihood)

    def _moved_tip(self) -> Tensor:
        """Near the present one: in all directions, and along the goal's line."""
        task = self.expert.task
        tip = self.points[:, -1]
        size = self._log_uniform(0.1 * self.expert.config.goal_deviation, 1.0)
        noise = torch.randn(tip.shape, generator=self.generator, dtype=tip.dtype)
        tip = tip + size.unsqueeze(-1) * noise
        if not task.is_line:
            return tip
        slide = self._log_uniform(0.01, 1.0) * (2.0 * self._uniform() - 1.0)
        return tip + slide.unsqueeze(-1) * (task.end - task.start)

    def _mask(self) -> Tensor:
        """Joints that move, few or many."""
        share = self._uniform().unsqueeze(-1)
        return torch.rand(self.q.shape, generator=self.generator, dtype=self.q.dtype) < share

    def _step_size(self) -> Tensor:
        return self._log_uniform(0.01, 1.0)

    def _log_uniform(self, low: float, high: float) -> Tensor:
        """(n,), all scales equally likely: what fits depends on temperature and posture."""
        return low * (math.log(high / low) * self._uniform()).exp()

    def _uniform(self) -> Tensor:
        return torch.rand(len(self.q), generator=self.generator, dtype=torch.float64)

    def _effective(self, step: float) -> float:
        """Effective share of the chains once the power is raised by a step."""
        weights = torch.softmax(step * self.log_likelihood, 0)
        return 1.0 / float(weights.square().sum() * len(weights))

    def _from_prior(self, n_chains: int) -> Tensor:
        """Draws within the joint limits, by rejection."""
        q = torch.full((n_chains, self.arm.n_links), torch.inf, dtype=torch.float64)
        bad = torch.ones_like(q, dtype=torch.bool)
        while bool(bad.any()):
            fresh = torch.randn(q.shape, generator=self.generator, dtype=q.dtype) * self.deviations
            q = torch.where(bad, fresh, q)
            bad = q.abs() > self.arm.joint_limit
        return q
