"""A model given a pose, parts of which may be left open: the contexts over which its mixture is averaged.

A model of positions is given the position of a pose, a model of poses all of it. Where the task leaves some of that
open, by tolerances or since any orientation will do, the mixture is averaged over a few poses that satisfy the task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal
from eim_ros.ik.proposal import Proposal
from eim_ros.ik.samples import GivenDensity
from eim_ros.kinematics import context_from_pose
from eim_ros.kinematics.agreement import Placement

__all__ = ["Conditioning"]

FloatArray = npt.NDArray[np.float64]

NO_CONTEXT = np.empty((1, 0))
FREE_ORIENTATIONS = 8  # poses over which a model is averaged where the task leaves some of it free


@dataclass(frozen=True, eq=False)
class Conditioning:
    """A model, and how the robot that it serves lies beside the one that it was trained for.

    Attributes
    ----------
    kind : str
        Of the model's contexts: "position" or "pose".
    proposal : Proposal
    placement : Placement
    """

    kind: str
    proposal: Proposal
    placement: Placement

    @classmethod
    def none(cls, dof: int) -> Conditioning:
        """Without a model, of an arm of so many joints."""
        return cls("pose", Proposal.none(dof), Placement.none())

    def carrying(self, tool: FloatArray) -> Conditioning:
        """The same with a tool (4, 4) on the tip of the robot that is served."""
        return replace(self, placement=self.placement.carrying(tool))

    def contexts(self, goal: Goal, random_seed: int | None) -> FloatArray:
        """Contexts (n_contexts, n_context) over which the mixture is averaged for a goal; one without columns if none.

        The seed decides the poses that are taken where some of the pose is open.
        """
        if not self.proposal.n_experts:
            return NO_CONTEXT
        poses, constraints = goal.pose[None], goal.constraints
        is_turned = goal.position_only and (self.kind == "pose" or self.placement.is_off_tip)
        if constraints.tolerances is None and not is_turned:
            return self.contexts_of(poses)
        rng = np.random.default_rng(None if random_seed is None else (random_seed, FREE_ORIENTATIONS))
        if constraints.tolerances is not None:
            poses = constraints.wanted(goal.pose, goal.robot, FREE_ORIENTATIONS, rng)
        if is_turned:
            poses = np.repeat(poses, FREE_ORIENTATIONS // len(poses), axis=0)
            poses[:, :3, :3] = _random_rotations(FREE_ORIENTATIONS, rng)
        return self.contexts_of(poses)

    def contexts_of(self, poses: FloatArray) -> FloatArray:
        """Contexts (n, n_context) of poses (n, 4, 4) of the robot's tip: those of the tip that the model knows."""
        known = poses if self.placement.is_none else self.placement.poses_of_other(poses)
        return context_from_pose(known, self.kind)

    def density(self, contexts: FloatArray) -> GivenDensity:
        """Of configurations, averaged over contexts (n_contexts, n_context)."""
        return GivenDensity(self.proposal, contexts)


def _random_rotations(n: int, rng: np.random.Generator) -> FloatArray:
    """Rotations (n, 3, 3), uniform: QR of Gaussian matrices (Stewart 1980)."""
    orthogonal, triangular = np.linalg.qr(rng.standard_normal((n, 3, 3)))
    orthogonal = orthogonal * np.sign(np.diagonal(triangular, axis1=1, axis2=2))[:, None, :]
    flip = np.linalg.det(orthogonal) < 0.0
    orthogonal[flip, :, 0] *= -1.0
    return np.asarray(orthogonal)
