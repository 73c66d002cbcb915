"""An annealed population of Metropolis chains that draws from an expert's posterior (Del Moral, Doucet, Jasra 2006).

Draws from the prior, the likelihood raised to a power that grows from 0 to 1, resampling, and Metropolis moves between
the modes and within them: along the prior, mirrored, with the tip where it is, back to the goal's line.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eim_ros.planar.arm import wrapped
from eim_ros.planar.crankshaft import closed_loop, determinant, pair_log_prior, prior_step, turned_to

if TYPE_CHECKING:
    from eim_ros.planar.expert import Expert

__all__ = ["Chains"]


class Chains:
    """A population of configurations (n, n_links) at one temperature.

    Attributes
    ----------
    q : Tensor (n, n_links)
        [rad].
    points : Tensor
        Of `q`.
    log_likelihood : Tensor (n,)
        [nat].
    power : float
        Of the likelihood, from 0 to 1.
    """

    def __init__(self, expert: Expert, n_chains: int, generator: torch.Generator) -> None:
        self.expert, self.arm, self.generator = expert, expert.arm, generator
        self.q = self._from_prior(n_chains)
        self.points = self.arm.points(self.q)
        self.log_likelihood = expert.log_likelihood_of(self.points)
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
        if self.expert.task.is_line:
            self._move_along_line()

    def _move_by_prior(self) -> None:
        proposed = self._prior_step()
        self._accept(proposed, torch.zeros(len(proposed), dtype=proposed.dtype))

    def _mirror(self) -> None:
        """Reflect the arm in the x axis, or in the line from its base to its tip: elsewhere moves rarely change sides.

        Both are their own inverses and keep volumes. Half the chains stay: in a symmetric task all would change.
        """
        tip = self.points[:, -1]
        turn = 2.0 * torch.atan2(tip[:, 1], tip[:, 0]) * (self._uniform() < 0.5)
        proposed = -self.q
        proposed[:, 0] = wrapped(proposed[:, 0] + turn)
        first = torch.stack([self.q[:, 0], proposed[:, 0]]) / self.expert.config.first_deviation
        stays = torch.where(self._uniform() < 0.5, 0.0, -torch.inf).to(self.q)
        self._accept(proposed, 0.5 * (first[0].square() - first[1].square()) + stays)

    def _move_with_tip(self) -> None:
        n, links = self.q.shape
        second = 1 + torch.randint(links - 1, (n,), generator=self.generator)
        first = (self._uniform() * second).long().clamp_max(links - 2)
        first = torch.where(self._uniform() < 0.5, 0, first)  # the first joint is free to follow
        elbow = self._sign()
        proposed, after = closed_loop(self.arm, self._prior_step(), first, second, self._moved_tip(), elbow)
        before = determinant(self.points, first, second)
        precision = self.expert.precision
        old, new = (pair_log_prior(q, precision, first, second) for q in (self.q, proposed))
        self._accept(proposed, new - old + before.log() - after.log())

    def _move_along_line(self) -> None:
        """The first joint turns the arm back to the line, or as near to it as it was."""
        task = self.expert.task
        direction = (task.end - task.start) / task.length
        normal = torch.stack([direction[1], -direction[0]])
        tip = self.points[:, -1]
        size = self._log_uniform(0.1 * self.expert.config.goal_deviation, 1.0)
        height = tip @ normal + size * torch.randn(len(tip), generator=self.generator, dtype=tip.dtype)
        proposed, after = turned_to(self.arm, self._prior_step(), normal, height, self._sign())
        before = (tip @ direction).abs()  # that is how fast the coordinate changes as the arm turns
        first = torch.stack([self.q[:, 0], proposed[:, 0]]) / self.expert.config.first_deviation
        self._accept(proposed, 0.5 * (first[0].square() - first[1].square()) + before.log() - after.log())

    def _accept(self, proposed: Tensor, log_factor: Tensor) -> None:
        """Metropolis; the factor is that of all but the likelihood."""
        allowed = torch.isfinite(proposed).all(-1) & self.arm.within_limits(proposed)
        proposed = torch.where(allowed.unsqueeze(-1), proposed, self.q)
        points = self.arm.points(proposed)
        log_likelihood = self.expert.log_likelihood_of(points)
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

    def _prior_step(self) -> Tensor:
        return prior_step(self.q, self.expert.scale_tril, self._log_uniform(0.01, 1.0), self.generator)

    def _sign(self) -> Tensor:
        return torch.where(self._uniform() < 0.5, 1.0, -1.0).to(self.q)

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
        bad = torch.ones(n_chains, dtype=torch.bool)
        while bool(bad.any()):
            fresh = torch.randn(q.shape, generator=self.generator, dtype=q.dtype) @ self.expert.scale_tril.mT
            q = torch.where(bad.unsqueeze(-1), fresh, q)
            bad = ~self.arm.within_limits(q)
        return q
