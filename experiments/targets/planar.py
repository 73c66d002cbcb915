"""Postures of a planar arm whose tip is at one of several goals (Arenz et al. 2020; Arenz et al. 2023, appendix J).

    log p~(q) = log N(q; 0, diag(prior_scale^2)) + max_g log N(tip(q); g, tolerance^2 I)

The arm has links of 1 m, so tip(q) = sum_i (cos, sin)(q_1 + ... + q_i). Both densities are normalised. Therefore, the
normaliser of p~ is the probability density of reaching a goal under the prior. Its log is -10.6145 nat with four goals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture
from eim_ros.planar import PlanarArm
from eim_ros.view.style import GROUP_COLOURS, INK, LIMITS, MUTED, NO_GROUP_COLOUR, new_figure, write_figure
from experiments.targets.target import MixtureStart, checked_samples

LOG_TWO_PI = math.log(2.0 * math.pi)
FOUR_GOALS = ((7.0, 0.0), (-7.0, 0.0), (0.0, 7.0), (0.0, -7.0))


@dataclass(frozen=True)
class PlanarRobot:
    """Posterior density of the joint angles.

    Attributes
    ----------
    goals : Tensor (n_goals, 2)
        [m].
    prior_scale : Tensor (n_joints,)
        Standard deviations of the angles around 0 [rad].
    tolerance : float
        Standard deviation of the tip around its goal, in each coordinate [m].
    """

    goals: Tensor
    prior_scale: Tensor
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.goals.dim() != 2 or self.goals.shape[1] != 2 or len(self.goals) == 0:
            raise DistributionError(f"goals must have shape (n_goals, 2), got {tuple(self.goals.shape)}", self.goals)
        if not (self.tolerance > 0.0 and bool((self.prior_scale > 0.0).all())):
            raise DistributionError("the tolerance and the scales of the prior must be above 0", self.tolerance)

    @property
    def n_dims(self) -> int:
        return len(self.prior_scale)

    @property
    def start(self) -> MixtureStart:
        """Start of VIPS: 100 components with means from the prior and a quarter of its standard deviations."""
        return MixtureStart(100, self.prior_scale, (0.25 * self.prior_scale).square())

    @property
    def prior_mean(self) -> Tensor:
        """Mean of the prior (n_joints,): 0 for all joints."""
        return torch.zeros_like(self.prior_scale)

    @property
    def n_goals(self) -> int:
        return len(self.goals)

    def tip(self, x: Tensor) -> Tensor:
        """Return the position of the tip (n_samples, 2) [m]."""
        angle = x.cumsum(-1)
        return torch.stack([angle.cos().sum(-1), angle.sin().sum(-1)], -1)

    def nearest_goal(self, x: Tensor) -> Tensor:
        """Return the index (n_samples,) of the goal nearest to the tip."""
        return torch.cdist(self.tip(x), self.goals).argmin(-1)

    def goal_shares(self, x: Tensor) -> Tensor:
        """Return the share of samples nearest to each goal, (n_goals,)."""
        return torch.bincount(self.nearest_goal(x), minlength=len(self.goals)) / len(x)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density [nat], (n_samples,)."""
        x = checked_samples(x, self.n_dims)
        return self._log_prob(x, self._error(self.tip(x)))

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient, with one evaluation of the kinematics."""
        x = checked_samples(x, self.n_dims)
        angle = x.cumsum(-1)
        cos, sin = angle.cos(), angle.sin()
        error = self._error(torch.stack([cos.sum(-1), sin.sum(-1)], -1))
        # The angle of a link is the sum of the joints before it. Therefore, the gradient of a joint is a sum over the
        # links after it.
        of_links = error[:, :1] * sin - error[:, 1:] * cos
        of_joints = of_links @ torch.ones(self.n_dims, self.n_dims, dtype=x.dtype).tril()
        score = of_joints / self.tolerance**2 - x / self.prior_scale.square()
        return self._log_prob(x, error), score

    def task(self, x: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return tip minus goal in units of the tolerance, with first and second derivatives. See `ReachingTarget`."""
        angle = x.cumsum(-1)
        links = torch.stack([angle.cos(), angle.sin()], 1)
        outer = links.flip(-1).cumsum(-1).flip(-1)  # from joint j to the tip, (n_samples, 2, n_joints)
        jacobian = torch.stack([-outer[:, 1], outer[:, 0]], 1)
        joint = torch.arange(self.n_dims)
        hessian = -outer[:, :, torch.maximum(joint, joint.unsqueeze(-1))]
        error = outer[:, :, 0] - self.goals[goal]
        return error / self.tolerance, jacobian / self.tolerance, hessian / self.tolerance

    def _error(self, tip: Tensor) -> Tensor:
        """Return tip minus the nearest goal, (n_samples, 2)."""
        if len(self.goals) == 1:
            return tip - self.goals
        nearest = (self.goals.square().sum(-1) - 2.0 * tip @ self.goals.T).argmin(-1)
        return tip - self.goals[nearest]

    def _log_prob(self, x: Tensor, error: Tensor) -> Tensor:
        constant = self.prior_scale.log().sum() + 2.0 * math.log(self.tolerance) + 0.5 * (self.n_dims + 2) * LOG_TWO_PI
        prior = (x / self.prior_scale).square().sum(-1)
        return -0.5 * (prior + error.square().sum(-1) / self.tolerance**2) - constant


def planar_robot(n_goals: int = 4, n_joints: int = 10) -> PlanarRobot:
    """Return PlanarRobot-4. With one goal, return PlanarRobot-1, whose goal is at (7, 0).

    Parameters
    ----------
    n_goals : int
        Number of goals from (7, 0), (-7, 0), (0, 7), (0, -7) [m], 1 to 4.
    n_joints : int
        Number of joints. The prior's standard deviation is 1 rad for the first joint and 0.2 rad for the others.

    Returns
    -------
    PlanarRobot
    """
    if not 1 <= n_goals <= len(FOUR_GOALS) or n_joints < 2:
        raise DistributionError(f"expected 1 to 4 goals and at least 2 joints, got {n_goals} and {n_joints}", n_goals)
    scale = torch.full((n_joints,), 0.2, dtype=torch.float64)
    scale[0] = 1.0
    return PlanarRobot(torch.tensor(FOUR_GOALS[:n_goals], dtype=torch.float64), scale)


N_SAMPLES = 2000
N_DRAWN = 60  # maximum number of arms drawn for each goal


def draw_planar_posterior(
    target: PlanarRobot,
    mixture: GaussianMixture,
    path: str | Path,
    *,
    generator: torch.Generator | None = None,
    title: str = "",
) -> None:
    """Write a PNG of sampled postures, with a panel for each goal.

    At each goal, the components with the largest weights are coloured, and all others are grey.

    Parameters
    ----------
    target : PlanarRobot
    mixture : GaussianMixture
        Mixture over joint angles [rad].
    path : path
        Path of the PNG.
    generator : torch.Generator, optional
        By default, a generator with seed 0.
    title : str
        Title above all panels.
    """
    generator = generator or torch.Generator().manual_seed(0)
    q, component = mixture.sample_with_components(N_SAMPLES, generator)
    nearest = target.nearest_goal(q)
    n = len(target.goals)
    figure = new_figure(3.6 * n, 4.2)
    for goal, axes in enumerate(figure.subplots(1, n, squeeze=False)[0]):
        here = nearest == goal
        _draw_goal(axes, target, goal, q[here], component[here])
        share = float(here.double().mean())
        inside = (target.tip(q[here]) - target.goals[goal]).norm(dim=-1) < 3.0 * target.tolerance
        reached = f", {100.0 * float(inside.double().mean()):.0f} % of it at the goal" if bool(here.any()) else ""
        axes.set_title(f"{100.0 * share:.1f} % of the mass{reached}", fontsize=9, color=INK)
    if title:
        figure.suptitle(title, fontsize=11, color=INK)
    write_figure(figure, path)


def _draw_goal(axes: Axes, target: PlanarRobot, goal: int, q: Tensor, component: Tensor) -> None:
    """Draw the arms (n_links + 1 points each), the goal and the base."""
    arm = PlanarArm(n_links=target.n_dims)
    points, owners = arm.points(q[:N_DRAWN]).numpy(), component[:N_DRAWN].tolist()
    _, counts = component.unique(return_counts=True)
    frequent = component.unique()[counts.argsort(descending=True)][: len(GROUP_COLOURS)].tolist()
    colours = [GROUP_COLOURS[frequent.index(owner)] if owner in frequent else NO_GROUP_COLOUR for owner in owners]
    axes.add_collection(LineCollection(list(points), colors=colours, linewidths=0.9, alpha=0.6, zorder=2))
    x, y = target.goals[goal].tolist()
    axes.scatter([x], [y], s=70, marker="x", color=INK, zorder=4)
    axes.scatter([0.0], [0.0], s=22, marker="s", color=INK, zorder=4)
    reach = 1.02 * float(target.goals.norm(dim=-1).max())
    axes.set_xlim(-reach - 1.0, reach + 1.0)
    axes.set_ylim(-reach - 1.0, reach + 1.0)
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
    axes.tick_params(labelsize=7, colors=MUTED, length=0)
