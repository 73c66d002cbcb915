"""Inverse kinematics as inference with a known density: log p(q | y) up to a constant, annealed (thesis 5.5, 4.3.1).

    log p(q | y) = -1/2 |FK(q) - y|^2 / sigma^2 + soft joint limits + log prior(q | y)

No samples of solutions are needed, only contexts y that can be reached. Sigma falls from iteration to iteration, as in
`KinematicInputs`, which measures errors and limits: a wide target is easy to cover, and each narrower one is close to
the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from eim_ros.ik.training.inputs import KinematicInputs, SmoothingConfig
from eim_ros.inference import KnownDensityEIMConfig
from eim_ros.settings import option

__all__ = ["KinematicTarget", "KnownKinematicsConfig"]


@dataclass(frozen=True)
class KnownKinematicsConfig(SmoothingConfig, KnownDensityEIMConfig):
    """Settings of inference with known kinematics; the start is a truncated EM on samples of forward kinematics."""

    n_components: int = option(1000, "number of experts of the start", minimum=1)
    n_iterations: int = option(100, "iterations", minimum=0)
    initial_em_iterations: int = option(10, "iterations of truncated EM for the start", minimum=0)
    kl_bound: float = option(0.3, "largest KL of an expert's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.3, "largest loss of an expert's entropy per iteration", unit="nat", minimum=0.0
    )
    gating_kl_bound: float = option(0.05, "largest mean KL of the gating's update", unit="nat", minimum=0.0)
    n_gating_contexts: int = option(200, "contexts at which the gating's rewards are taken", minimum=1)
    n_expert_samples: int = option(60, "samples per expert for its surrogate", minimum=2)
    n_contexts: int = option(10000, "contexts of the data that an iteration looks at, drawn anew; 0: all", minimum=0)
    n_objective_samples: int = option(500, "samples for the record of the objective", minimum=2)
    plateau_window: int = option(
        0, "stop when the objective rises by no more than its noise from so many iterations to the next; 0: never",
        minimum=0,
    )  # fmt: skip
    sigma_decay: float = option(0.95, "factor on the smoothing per iteration", minimum=0.0, maximum=1.0)


@dataclass(frozen=True)
class KinematicTarget:
    """log p(q | y) as an annealed target of `KnownDensityEIM`.

    Attributes
    ----------
    inputs : KinematicInputs
        Measures errors and limits.
    log_prior : callable, optional
        Maps contexts (n, n_context) and configurations (n, dof) to log densities (n,) [nat], written with torch
        operations: a model of demonstrations, a user's cost with negative sign. Uniform within the limits if missing.
    """

    inputs: KinematicInputs
    log_prior: Callable[[Tensor, Tensor], Tensor] | None = None

    def at(self, iteration: int) -> Callable[[Tensor, Tensor], Tensor]:
        """The target at an iteration, a function of contexts (n, n_context) and configurations (n, dof)."""

        def log_density(context: Tensor, sample: Tensor) -> Tensor:
            value = self.inputs.known_log_density(context, sample, iteration)
            assert value is not None
            return value if self.log_prior is None else value + self.log_prior(context, sample)

        return log_density
