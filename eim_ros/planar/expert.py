"""Expert for a planar task, which draws configurations from a posterior p(q | task).

The posterior is proportional to the product of three factors:

    prior      N(q; 0, C) within the joint limits: smooth arms whose neighbouring joints bend similarly
    goal       exp(-distance^2 / (2 goal_deviation^2))
    clearance  exp(-max(0, margin - clearance)^2 / (2 clearance_deviation^2))

The posterior has several modes, one for each way around the obstacles and each side of the elbow. An annealed
population of Metropolis chains, `Chains`, samples all modes in the right proportions (Del Moral, Doucet, Jasra 2006).
Moves based on `closed_loop` make large changes of the posture, but keep the tip near its goal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.planar.arm import PlanarArm, wrapped
from eim_ros.planar.task import PlanarTask

POPULATION = 2000  # minimum number of chains; fewer chains lose modes
UNLIKELY = -50.0  # log likelihood at ten standard deviations, below which the task is impossible [nat]


def prior_step(q: Tensor, scale_tril: Tensor, size: Tensor, generator: torch.Generator) -> Tensor:
    """Take a random step from configurations q (n, n_links) that is reversible under N(0, scale_tril scale_tril').

    The size (n,) of the step ranges from 0 (no step) to 1 (an independent draw).
    """
    size = size.unsqueeze(-1)
    noise = torch.randn(q.shape, generator=generator, dtype=q.dtype) @ scale_tril.mT
    return (1.0 - size.square()).sqrt() * q + size * noise


def pair_log_prior(q: Tensor, precision: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the log density (n,) [nat] of two joints given the others, up to a constant.

    The joint density is N(0, precision^-1).
    """
    rows = torch.arange(len(q))
    pull = q @ precision  # A (pair - conditional mean), where A is the block of the precision for the pair
    u, v = pull[rows, first], pull[rows, second]
    a, b, c = precision[first, first], precision[first, second], precision[second, second]
    return -0.5 * (c * u.square() - 2.0 * b * u * v + a * v.square()) / (a * c - b.square())


def closed_loop(
    arm: PlanarArm, q: Tensor, first: Tensor, second: Tensor, tip: Tensor, elbow: Tensor
) -> tuple[Tensor, Tensor]:
    """Set two joints of each configuration so that the tip reaches a given position.

    The two joint angles are computed in closed form from the intersection of two circles.

    Metropolis moves use this function as follows. A step that leaves the prior invariant redraws all other joints, and
    the tip is moved by a small amount. The map (q_i, q_j) -> tip has the determinant
    J = |p_j - p_i| |p_n - p_j| |sin gamma|. Here p_i and p_j are the positions of the two joints, p_n is the tip, and
    gamma is the bend at joint j. The proposal has the density J(q'). With the likelihood f, the move is accepted with
    probability

        min(1, f(q') prior(q_i', q_j' | others') J(q) / (f(q) prior(q_i, q_j | others) J(q')))

    (Dodd, Boone, Theodorou, Molecular Physics 78, 1993, for polymers). Large changes of the posture are possible even
    if the distance of the tip from its goal must be below a hundredth of a link's length.

    The indices (n,) of the joints satisfy first < second. The tips (n, 2) are in [m]. The signs `elbow` (n,), 1 or -1,
    select one of the two solutions. Return the configurations (n, n_links), with both joints in [-pi, pi), or NaN if
    the tip is out of reach. Also return the determinants J (n,) [m^2].
    """
    rows = torch.arange(len(q))
    q = q.clone()
    q[rows, first] = 0.0
    q[rows, second] = 0.0
    points = arm.points(q)
    begin, hinge = points[rows, first], points[rows, second]
    upper, lower, way = hinge - begin, points[:, -1] - hinge, tip - begin
    lengths = upper.norm(dim=-1) * lower.norm(dim=-1)
    cosine = (way.square().sum(-1) - upper.square().sum(-1) - lower.square().sum(-1)) / (2.0 * lengths)
    bend = elbow * torch.arccos(cosine)
    q[rows, second] = wrapped(bend - _angle(lower) + _angle(upper))
    ends = arm.points(q)[:, -1] - begin
    q[rows, first] = wrapped(_angle(way) - _angle(ends))
    return q, lengths * bend.sin().abs()


def determinant(points: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the determinant (n,) [m^2] of `closed_loop` for existing points (n, n_links + 1, 2)."""
    rows = torch.arange(len(points))
    begin, hinge = points[rows, first], points[rows, second]
    upper, lower = hinge - begin, points[:, -1] - hinge
    return (upper[:, 0] * lower[:, 1] - upper[:, 1] * lower[:, 0]).abs()


def turned_to(arm: PlanarArm, q: Tensor, normal: Tensor, height: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
    """Set the first joint so that the tip has a given coordinate along a direction.

    A goal line fixes only one coordinate of the tip, so one joint is enough. In the acceptance probability of
    `closed_loop`, the derivative of that coordinate replaces the determinant J.

    The coordinate is normal' tip = height (n,) [m]. The signs `branch` (n,), 1 or -1, select one of the two solutions.
    Return the configurations (n, n_links), with the first joint in [-pi, pi), or NaN if the coordinate is out of reach.
    Also return the absolute derivative (n,) of the coordinate with respect to the first joint [m].
    """
    q = q.clone()
    q[:, 0] = 0.0
    tip = arm.tip(q)
    radius = tip.square().sum(-1).sqrt()
    angle = branch * torch.arccos(height / radius)
    q[:, 0] = wrapped(_angle(normal) + angle - _angle(tip))
    return q, radius * angle.sin().abs()


def _angle(vector: Tensor) -> Tensor:
    return torch.atan2(vector[..., 1], vector[..., 0])


class Chains:
    """Population of Metropolis chains at one temperature.

    Chains start with draws from the prior. `cool` raises the power of the likelihood and resamples the chains. `move`
    changes configurations within modes and between modes.

    Attributes
    ----------
    q : Tensor (n, n_links)
        Configurations [rad].
    points : Tensor (n, n_links + 1, 2)
        Base, joints and tip of `q` [m].
    log_likelihood : Tensor (n,)
        Log likelihood of `q` [nat].
    power : float
        Power of the likelihood, from 0 to 1.
    """

    def __init__(self, expert: Expert, n_chains: int, generator: torch.Generator) -> None:
        self.expert, self.arm, self.generator = expert, expert.arm, generator
        self.q = self._from_prior(n_chains)
        self.points = self.arm.points(self.q)
        self.log_likelihood = expert.log_likelihood_of(self.points)
        self.power = 0.0

    def cool(self) -> None:
        """Raise the power until the effective sample size is half the number of chains, and resample."""
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
        """Make one move of each kind."""
        self._accept(self._prior_step(), torch.zeros_like(self.log_likelihood))
        self._mirror()
        if self.arm.n_links > 1:
            self._move_with_tip()
        if self.expert.task.is_line:
            self._move_along_line()

    def _mirror(self) -> None:
        """Reflect the arm about the x axis, or about the line from its base to its tip.

        Other moves rarely change the side of the elbow. Both reflections are their own inverses and preserve volume.
        Only half of the chains are reflected, because in a symmetric task all chains would otherwise change sides at
        once.
        """
        tip = self.points[:, -1]
        turn = 2.0 * torch.atan2(tip[:, 1], tip[:, 0]) * (self._uniform() < 0.5)
        proposed = -self.q
        proposed[:, 0] = wrapped(proposed[:, 0] + turn)
        stays = torch.where(self._uniform() < 0.5, 0.0, -torch.inf).to(self.q)
        self._accept(proposed, self._first_log_ratio(proposed) + stays)

    def _move_with_tip(self) -> None:
        n, links = self.q.shape
        second = 1 + torch.randint(links - 1, (n,), generator=self.generator)
        first = (self._uniform() * second).long().clamp_max(links - 2)
        first = torch.where(self._uniform() < 0.5, 0, first)  # the first joint is independent in the prior
        elbow = self._sign()
        proposed, after = closed_loop(self.arm, self._prior_step(), first, second, self._moved_tip(), elbow)
        before = determinant(self.points, first, second)
        precision = self.expert.precision
        old, new = (pair_log_prior(q, precision, first, second) for q in (self.q, proposed))
        self._accept(proposed, new - old + before.log() - after.log())

    def _move_along_line(self) -> None:
        """Change the posture, and turn the first joint so that the distance of the tip to the line hardly changes."""
        task = self.expert.task
        direction = task.direction
        normal = torch.stack([direction[1], -direction[0]])
        tip, size = self.points[:, -1], self._log_uniform(0.1 * self.expert.config.goal_deviation, 1.0)
        height = tip @ normal + size * torch.randn(len(tip), generator=self.generator, dtype=tip.dtype)
        proposed, after = turned_to(self.arm, self._prior_step(), normal, height, self._sign())
        before = (tip @ direction).abs()  # derivative of the coordinate with respect to the first joint
        self._accept(proposed, self._first_log_ratio(proposed) + before.log() - after.log())

    def _first_log_ratio(self, proposed: Tensor) -> Tensor:
        """Return the log ratio (n,) of the priors of the first joint."""
        first = torch.stack([self.q[:, 0], proposed[:, 0]]) / self.expert.config.first_deviation
        return 0.5 * (first[0].square() - first[1].square())

    def _accept(self, proposed: Tensor, log_factor: Tensor) -> None:
        """Accept or reject proposals (Metropolis). `log_factor` (n,) includes everything except the likelihood."""
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
        """Return tips near the current tips, moved in all directions and along the goal line."""
        task = self.expert.task
        tip, size = self.points[:, -1], self._log_uniform(0.1 * self.expert.config.goal_deviation, 1.0)
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
        """Draw step sizes (n,) uniformly on a log scale, because the best size depends on temperature and posture."""
        return low * (math.log(high / low) * self._uniform()).exp()

    def _uniform(self) -> Tensor:
        return torch.rand(len(self.q), generator=self.generator, dtype=torch.float64)

    def _effective(self, step: float) -> float:
        """Return the effective sample size, as a share of the chains, after raising the power by `step`."""
        weights = torch.softmax(step * self.log_likelihood, 0)
        return 1.0 / float(weights.square().sum() * len(weights))

    def _from_prior(self, n_chains: int) -> Tensor:
        """Draw configurations within the joint limits from the prior, by rejection."""
        q = torch.full((n_chains, self.arm.n_links), torch.inf, dtype=torch.float64)
        bad = torch.ones(n_chains, dtype=torch.bool)
        while bool(bad.any()):
            fresh = torch.randn(q.shape, generator=self.generator, dtype=q.dtype) @ self.expert.scale_tril.mT
            q = torch.where(bad.unsqueeze(-1), fresh, q)
            bad = ~self.arm.within_limits(q)
        return q


@with_hints
@dataclass(frozen=True)
class ExpertConfig(Settings):
    """Preferences of the expert, and settings of its sampler.

    Examples
    --------
    >>> from eim_ros.planar import ExpertConfig
    >>> ExpertConfig(margin=0.2).margin
    0.2
    """

    first_deviation: float = option(1.0, "prior standard deviation of the first joint", unit="rad", minimum=1e-3)
    deviation: float = option(0.4, "prior standard deviation of the other joints", unit="rad", minimum=1e-3)
    correlation_length: float = option(
        5.0, "number of joints over which the prior correlates bending; 0: joints are independent", minimum=0.0
    )
    roughness: float = option(
        0.1, "independent part of a joint's deviation, as a share, if bending is correlated", minimum=1e-2
    )
    goal_deviation: float = option(0.01, "standard deviation of the tip's distance to the goal", unit="m", minimum=1e-4)
    margin: float = option(0.1, "clearance from obstacles; smaller clearances are unlikely", unit="m", minimum=0.0)
    clearance_deviation: float = option(
        0.02, "standard deviation of the shortfall from the margin", unit="m", minimum=1e-4
    )
    moves_per_temperature: int = option(6, "number of Metropolis moves of each kind after a resampling", minimum=1)
    final_moves: int = option(150, "number of Metropolis moves of each kind at the posterior", minimum=1)


@with_hints
@dataclass(frozen=True, eq=False)
class Expert:
    """Posterior density of configurations that fulfil a task.

    Attributes
    ----------
    arm : PlanarArm
    task : PlanarTask
    config : ExpertConfig

    Examples
    --------
    >>> import torch
    >>> from eim_ros.planar import Expert, ExpertConfig, PlanarArm, line_task
    >>> arm, task = PlanarArm(n_links=3), line_task((2.0, -1.0), (2.0, 1.0))
    >>> expert = Expert(arm, task, ExpertConfig(moves_per_temperature=3, final_moves=20))
    >>> q = expert.draw(100, torch.Generator().manual_seed(0))
    >>> bool((task.distance(arm.tip(q)) < 0.1).all())
    True
    """

    arm: PlanarArm
    task: PlanarTask
    config: ExpertConfig = ExpertConfig()

    @cached_property
    def covariance(self) -> Tensor:
        """Covariance of the prior (n_links, n_links) [rad^2].

        The first joint is independent. The other joints form a smooth random curve.
        """
        config, index = self.config, torch.arange(self.arm.n_links - 1, dtype=torch.float64)
        alike = alone = torch.eye(len(index), dtype=torch.float64)
        first = torch.full((1, 1), config.first_deviation**2, dtype=torch.float64)
        if config.correlation_length > 0.0:
            steps = (index.unsqueeze(-1) - index) / config.correlation_length
            alike = (-0.5 * steps.square()).exp() + config.roughness**2 * alone
        covariance: Tensor = torch.block_diag(first, config.deviation**2 * alike)
        return covariance

    @cached_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the prior's covariance (n_links, n_links) [rad]."""
        factor: Tensor = torch.linalg.cholesky(self.covariance)
        return factor

    @cached_property
    def precision(self) -> Tensor:
        """Precision of the prior (n_links, n_links) [1/rad^2]."""
        return torch.cholesky_inverse(self.scale_tril)

    def log_prior(self, q: Tensor) -> Tensor:
        """Return the log prior (...) [nat] of configurations (..., n_links), up to a constant.

        The value is minus infinity beyond the joint limits.
        """
        value = -0.5 * (q * (q @ self.precision)).sum(-1)
        return torch.where(self.arm.within_limits(q), value, -torch.inf)

    def log_likelihood(self, q: Tensor) -> Tensor:
        """Return the log likelihood of goal and clearance, (...) [nat]; at most 0."""
        return self.log_likelihood_of(self.arm.points(q))

    def log_prob(self, q: Tensor) -> Tensor:
        """Return the log posterior (...) [nat], up to a constant."""
        return self.log_prior(q) + self.log_likelihood(q)

    def draw(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draw configurations (n_samples, n_links) from the posterior.

        Raises
        ------
        ConfigurationError
            If no configuration fulfils the task.
        """
        chains = Chains(self, max(n_samples, POPULATION), generator)
        while chains.power < 1.0:
            chains.cool()
            for _ in range(self.config.moves_per_temperature):
                chains.move()
        for _ in range(self.config.final_moves):
            chains.move()
        if float(chains.log_likelihood.median()) < UNLIKELY:
            raise ConfigurationError(
                f"the arm cannot reach the goal, because its reach is {self.arm.reach:g} m, or because of obstacles: "
                "move the goal or an obstacle",
                self.task.to_mapping(),
            )
        order = torch.randperm(len(chains.q), generator=generator)
        return chains.q[order[:n_samples]]

    def log_likelihood_of(self, points: Tensor) -> Tensor:
        """Return the log likelihood (...) [nat] of the points (..., n_points, 2) from `PlanarArm.points`."""
        distance = self.task.distance(points[..., -1, :]) / self.config.goal_deviation
        lacking = (self.config.margin - self.task.clearance(points)).clamp_min(0.0) / self.config.clearance_deviation
        return -0.5 * (distance.square() + lacking.square())
