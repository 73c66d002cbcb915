"""Forward kinematics inside the density ratio (thesis 4.3.1, extra features theta(x)), with annealed smoothing.

Samples of an arm lie exactly on FK(q) = y, so a classifier that sees FK(q) - y tells the classes apart perfectly and
the ratio means nothing. The contexts of both classes are therefore blurred, y~ = y + sigma n, n ~ N(0, I), and sigma
is annealed. The smoothing is ours, so its density is known: p(q, y~) = p(q) N(y~; FK(q), sigma^2 I), and the network
only has to learn what the samples tell about p(q).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.inference import EIMConfig
from eim_ros.kinematics import Robot
from eim_ros.kinematics.torch_kinematics import forward_context
from eim_ros.settings import Settings, option

__all__ = ["KinematicEIMConfig", "KinematicInputs", "SmoothingConfig"]

ERROR_CLIP = 20.0  # largest error shown to the network, in units of sigma
VIOLATION_SHOWN = 0.02  # violation of a limit shown to the network as one, as a share of the joint's range


@dataclass(frozen=True)
class SmoothingConfig(Settings):
    """Settings of p(q, y~) = p(q) N(y~; FK(q), sigma^2 I), and of the annealing of sigma."""

    sigma_start: float = option(0.5, "smoothing at the start, in units of the positions' spread", minimum=1e-6)
    sigma_decay: float = option(0.96, "factor on the smoothing per iteration", minimum=0.0, maximum=1.0)
    sigma_floor: float = option(0.05, "least smoothing, in units of the positions' spread", minimum=1e-6)
    limit_softness: float = option(
        0.01, "standard deviation of the soft joint limits, as a share of the joint's range", minimum=1e-6
    )


@dataclass(frozen=True)
class KinematicEIMConfig(SmoothingConfig, EIMConfig):
    """Settings of EIM with kinematic inputs: the ratio is known but for p(q), so larger steps and less training do."""

    n_iterations: int = option(80, "iterations", minimum=0)
    initial_starts: int = option(1, "k-means starts, of which EM continues the best one", minimum=1)
    initial_em_iterations: int = option(5, "iterations of EM after the k-means start", minimum=0)
    kl_bound: float = option(0.2, "largest KL of an expert's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.2, "largest loss of an expert's entropy per iteration", unit="nat", minimum=0.0
    )
    gating_kl_bound: float = option(0.02, "largest mean KL of the gating's update", unit="nat", minimum=0.0)
    n_gating_contexts: int = option(1000, "contexts at which the gating's rewards are taken", minimum=1)
    dropout: float = option(0.0, "dropout probability", minimum=0.0, maximum=0.9)
    initial_epochs: int = option(10, "passes over the data in the first iteration", minimum=1)
    n_selection_samples: int = option(
        0, "samples by which the best model is told from the last; 0: the last model is returned", minimum=0
    )


@dataclass(frozen=True)
class KinematicInputs:
    """Density ratio inputs of an arm; satisfies `eim_ros.inference.RatioInputs`.

    Attributes
    ----------
    robot : Robot
    kind : str
        "position" or "pose", the context's kind.
    center, scale : Tensor (n_context,)
        Standardisation of the contexts.
    spread : float
        Root mean square standard deviation of the positions [m]: the length by which errors are measured, whatever the
        size of the robot. A difference of rotation columns by one counts as one spread.
    config : SmoothingConfig
    """

    robot: Robot
    kind: str
    center: Tensor
    scale: Tensor
    spread: float
    config: SmoothingConfig = SmoothingConfig()

    @classmethod
    def from_data(cls, robot: Robot, kind: str, context: Tensor, config: SmoothingConfig) -> KinematicInputs:
        spread = float(context[:, :3].var(0, correction=0).mean().sqrt()) or 1.0
        scale = context.std(0, correction=0)
        constant = torch.ones_like(scale)  # a column that never changes, such as the height of a planar robot
        constant[:3] = spread
        return cls(robot, kind, context.mean(0), torch.where(scale > 0.0, scale, constant), spread, config)

    @property
    def n_inputs(self) -> int:
        return 2 * self.robot.dof + 2 * len(self.center) + 1

    def sigma(self, iteration: int) -> float:
        """Smoothing of positions [m] at an iteration."""
        share = max(self.config.sigma_floor, self.config.sigma_start * self.config.sigma_decay**iteration)
        return share * self.spread

    def smoothing(self, iteration: int) -> Tensor:
        return self.sigma(iteration) / self._metric()

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        violation = self._violation(sample) / self.config.limit_softness
        return -0.5 * (self._error(context, sample, iteration).square().sum(-1) + violation.square().sum(-1))

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        error = self._error(context, sample, iteration)
        squared = error.square().sum(-1, keepdim=True) / ERROR_CLIP
        return torch.cat(
            [
                self._relative(sample),
                (context - self.center) / self.scale,
                error.clamp(-ERROR_CLIP, ERROR_CLIP),
                -squared.clamp_max(ERROR_CLIP),
                self._violation(sample) / VIOLATION_SHOWN,
            ],
            -1,
        )

    def _metric(self) -> Tensor:
        metric = torch.ones_like(self.center)
        metric[3:] = self.spread
        return metric

    def _error(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """(FK(q) - y)/sigma, (n_samples, n_context)."""
        return (forward_context(self.robot, sample, self.kind) - context) * (self._metric() / self.sigma(iteration))

    def _relative(self, sample: Tensor) -> Tensor:
        """Each joint from -2 at its lower limit to 2 at its upper one, (n_samples, dof)."""
        lower, upper, extent = self._limits(sample)
        return (4.0 * sample - 2.0 * (lower + upper)) / extent

    def _violation(self, sample: Tensor) -> Tensor:
        """By how much each joint is beyond its limits, (n_samples, dof), as a share of its range."""
        lower, upper, extent = self._limits(sample)
        return (torch.relu(sample - upper) + torch.relu(lower - sample)) / extent

    def _limits(self, sample: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lower and upper limits and their distance, (dof,); a joint that cannot move counts as one of range 1."""
        lower, upper = torch.tensor(self.robot.lower).to(sample), torch.tensor(self.robot.upper).to(sample)
        return lower, upper, torch.where(upper > lower, upper - lower, torch.ones_like(upper))
