"""Motions of a robot as they are looked at: demonstrations, and what a motion prior makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.errors import ConfigurationError, DataError
from eim_ros.kinematics import Robot
from eim_ros.motion import Demonstrations, MotionPrior, ViaPoint, weigh

__all__ = ["MotionStudy", "ShownMotions"]

FloatArray = npt.NDArray[np.float64]

WIDTH = 2.0  # standard deviations of the contexts to either side that can be chosen where no demonstration tells more


@dataclass(frozen=True, eq=False)
class ShownMotions:
    """Motions with what is told of them.

    Attributes
    ----------
    positions : (n, n_points, dof)
        In the order of the robot's joints [rad] or [m].
    tips : (n, n_points, 3)
        Way of the tip [m].
    log_prob : (n,)
        Log density given the context, and the wishes of begin and end [nat].
    components : (n,) int
        By which component of the prior each was drawn; -1 of what was demonstrated.
    valid : (n,) bool
        Whether it is within the joint limits.
    quantiles : (n,)
        Share of held-out demonstrations that are less likely; NaN of what was drawn.
    log_evidence : float
        Log density [nat] of the wishes of begin and end before; 0 without.
    """

    positions: FloatArray
    tips: FloatArray
    log_prob: FloatArray
    components: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    quantiles: FloatArray
    log_evidence: float = 0.0

    def __len__(self) -> int:
        return len(self.positions)

    def at(self, index: int, phase: float) -> FloatArray:
        """Configuration (dof,) of a motion at a phase from 0 to 1, between its points on the straight line."""
        motion = self.positions[index]
        place = phase * (len(motion) - 1)
        before = min(int(place), len(motion) - 2)
        return np.asarray(motion[before] + (place - before) * (motion[before + 1] - motion[before]))


class MotionStudy:
    """A prior of a robot's motions, with demonstrations where they are given.

    Parameters
    ----------
    robot : Robot
    prior : MotionPrior
        Of all joints of the robot, maybe of others besides.
    demonstrations : Demonstrations, optional
        Of the same joints and contexts as the prior.

    Raises
    ------
    ConfigurationError
        If joints or contexts do not match.
    """

    def __init__(self, robot: Robot, prior: MotionPrior, demonstrations: Demonstrations | None = None) -> None:
        self.robot, self.prior = robot, prior
        self._columns = _columns(prior.joint_names, robot.joint_names, "motion prior", "robot")
        self.contexts = np.empty((0, prior.n_context))
        self.demonstrations: ShownMotions | None = None
        if demonstrations is not None:
            self.demonstrations = self._demonstrated(demonstrations)
            self.contexts = demonstrations.context

    @property
    def duration(self) -> float:
        """Of a motion, on average [s]."""
        return self.prior.mean_duration

    def context_ranges(self) -> list[tuple[str, float, float, float]]:
        """Name, least and largest value of each context that can be chosen, and the step between values."""
        middle, spread = self.prior.context_center.numpy(), WIDTH * self.prior.context_scale.numpy()
        low, high = middle - spread, middle + spread
        if len(self.contexts):
            low, high = self.contexts.min(axis=0), self.contexts.max(axis=0)
        high = np.maximum(high, low + 1e-3)  # a context that never changed
        steps = 10.0 ** np.floor(np.log10((high - low) / 50.0))
        low, high = np.floor(low / steps) * steps, np.ceil(high / steps) * steps
        columns = (low.round(9).tolist(), high.round(9).tolist(), steps.round(9).tolist())
        return list(zip(self.prior.context_names, *columns, strict=True))

    def sample(
        self,
        context: npt.ArrayLike,
        n: int,
        random_seed: int,
        start: FloatArray | None = None,
        end: FloatArray | None = None,
    ) -> ShownMotions:
        """Draw motions for a context, which begin or end in configurations (dof,) where those are given.

        Raises
        ------
        EimError
            A context of another length, or a begin or an end beyond the limits.
        """
        wishes = [(0.0, start), (1.0, end)]
        points = [ViaPoint(at, self.robot.joint_names, tuple(q.tolist())) for at, q in wishes if q is not None]
        given = self.prior.condition(context, points)
        drawn = given.sample(n, torch.Generator().manual_seed(random_seed))
        positions = drawn.positions[:, :, self._columns]
        unknown = np.full(n, np.nan)
        return ShownMotions(
            positions, self._tips(positions), drawn.log_prob, drawn.component, drawn.valid, unknown, given.log_evidence
        )

    def end_log_prob(self, context: npt.ArrayLike, rows: FloatArray) -> FloatArray:
        """Log density (n,) [nat] of ending in configurations (n, dof), for a context."""
        if len(self._columns) < len(self.prior.joint_names):
            return np.zeros(len(rows))  # the prior is of joints that the robot has not: nothing is known of theirs
        return weigh(self.prior.condition(context), 1.0, self.robot.joint_names, rows).log_prob

    def _demonstrated(self, motions: Demonstrations) -> ShownMotions:
        prior = self.prior
        columns = _columns(motions.joint_names, prior.joint_names, "demonstrations", "motion prior")
        if motions.context.shape[1] != prior.n_context:
            raise DataError(
                f"the demonstrations have {motions.context.shape[1]} contexts, the motion prior has {prior.n_context}",
                motions.context.shape,
            )
        times = np.linspace(0.0, 1.0, motions.positions.shape[1])
        whole = np.stack([prior.representation.resampled(times, each[:, columns]) for each in motions.positions])
        scores = prior.score(whole, motions.context)
        positions = whole[:, :, self._columns]
        n = len(positions)
        return ShownMotions(
            positions, self._tips(positions), scores.log_prob, np.full(n, -1), np.ones(n, dtype=bool), scores.quantile
        )

    def _tips(self, positions: FloatArray) -> FloatArray:
        n, n_points, dof = positions.shape
        return np.asarray(self.robot.forward(positions.reshape(-1, dof))[:, :3, 3].reshape(n, n_points, 3))


def _columns(names: tuple[str, ...], wanted: tuple[str, ...], owner: str, asker: str) -> list[int]:
    """Where the wanted joints are among those of the owner."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ConfigurationError(
            f"the joints of the {asker} and of the {owner} differ: {', '.join(missing)} of the {asker} are none of "
            f"{', '.join(names)}; give the robot that the motions are of",
            missing,
        )
    return [names.index(name) for name in wanted]
