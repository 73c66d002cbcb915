"""The expert: draws configurations from the posterior p(q | task), proportional to prior, goal and clearance.

    prior      N(q; 0, C) within the joint limits: smooth arms, as neighbouring joints bend alike
    goal       exp(-distance^2 / (2 goal_deviation^2))
    clearance  exp(-max(0, margin - clearance)^2 / (2 clearance_deviation^2))

It has a mode for each way around the obstacles, for each side of the elbow and so on. An annealed population, `Chains`,
finds all of them in their proportions; each draw is a chain of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eim_ros.errors import ConfigurationError
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.chains import Chains
from eim_ros.planar.task import PlanarTask
from eim_ros.settings import Settings, option

__all__ = ["Expert", "ExpertConfig"]

POPULATION = 2000  # least number of chains: fewer lose modes
UNLIKELY = -50.0  # [nat] log likelihood of draws that are ten deviations off: the task cannot be done


@dataclass(frozen=True)
class ExpertConfig(Settings):
    """What the expert prefers, and how its posterior is sampled."""

    first_deviation: float = option(1.0, "prior standard deviation of the first joint", unit="rad", minimum=1e-3)
    deviation: float = option(0.4, "prior standard deviation of the other joints", unit="rad", minimum=1e-3)
    correlation_length: float = option(
        5.0, "over how many joints the arm bends alike; 0: each joint bends by itself", minimum=0.0
    )
    roughness: float = option(
        0.1, "what a joint bends by itself, as a share of its deviation, where joints bend alike", minimum=1e-2
    )
    goal_deviation: float = option(0.01, "standard deviation of the tip's distance to the goal", unit="m", minimum=1e-4)
    margin: float = option(0.1, "clearance from obstacles below which it becomes unlikely", unit="m", minimum=0.0)
    clearance_deviation: float = option(0.02, "standard deviation of what lacks of the margin", unit="m", minimum=1e-4)
    moves_per_temperature: int = option(6, "Metropolis moves of each kind after each resampling", minimum=1)
    final_moves: int = option(150, "Metropolis moves of each kind at the posterior itself", minimum=1)


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def covariance(self) -> Tensor:
        """Of the prior (n_links, n_links) [rad^2]: the first joint by itself, the others a smooth random curve."""
        config, index = self.config, torch.arange(self.arm.n_links - 1, dtype=torch.float64)
        alone = torch.eye(len(index), dtype=torch.float64)
        alike = alone
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
        """Of the prior (n_links, n_links) [1/rad^2]."""
        return torch.cholesky_inverse(self.scale_tril)

    def log_prior(self, q: Tensor) -> Tensor:
        """Up to a constant, (...) [nat], of configurations (..., n_links); minus infinity beyond the joint limits."""
        value = -0.5 * (q * (q @ self.precision)).sum(-1)
        return torch.where(self.arm.within_limits(q), value, -torch.inf)

    def log_likelihood(self, q: Tensor) -> Tensor:
        """Of goal and clearance, (...) [nat]; 0 at best."""
        return self.log_likelihood_of(self.arm.points(q))

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
        chains = Chains(self, max(n_samples, POPULATION), generator)
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

    def log_likelihood_of(self, points: Tensor) -> Tensor:
        """The same of the links' end points (..., n_points, 2), as `PlanarArm.points` gives them."""
        distance = self.task.distance(points[..., -1, :]) / self.config.goal_deviation
        lacking = (self.config.margin - self.task.clearance(points)).clamp_min(0.0) / self.config.clearance_deviation
        return -0.5 * (distance.square() + lacking.square())
