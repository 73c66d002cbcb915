"""Motion prior: a distribution of demonstrated motions given a context, stored in one file.

The weights of a motion (`Representation`) are reduced to a few whitened coordinates (`LatentSpace`). A mixture of
experts models these coordinates, given the standardised context. For one context, the prior is a Gaussian mixture of
the weights. Conditioning on via points has a closed form.

The scores of held-out demonstrations calibrate log densities. A file contains named tensors, and all other fields as
JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DataError, EimError, JointStateError, ModelFileError
from eim_ros.core.files import finite, read_tensor_file, write_tensor_file
from eim_ros.kinematics import Robot
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.motion.distribution import LIMIT_TOLERANCE, LIMITS_SOURCES, RECORDING, ROBOT, MotionDistribution, ViaPoint
from eim_ros.motion.representation import Basis, LatentSpace, Representation
from eim_ros.motion.tip_goal import TipGoal, check_goals, restored_goals, stored_goals

RESIDUAL_MARGIN = 2.0  # maximum residual as a multiple of the largest held-out residual
PARTS = ("mixture.", "latent.", "calibration.")
MOTION_KIND = "motion_prior"
MOTION_SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of held-out demonstrations, used as a reference for other motions."""

    log_prob: Tensor  # (n,), log densities [nat], ascending
    residual: Tensor  # (n,), root mean square errors of the basis [rad or m], ascending

    @classmethod
    def from_scores(cls, log_prob: Tensor, residual: Tensor) -> Calibration:
        """Create a calibration from scores in any order."""
        return cls(log_prob.sort().values, residual.sort().values)

    def __len__(self) -> int:
        return len(self.log_prob)

    def quantile(self, log_prob: Tensor, residual: Tensor) -> Tensor:
        """Return the share (n,) of held-out demonstrations that are less likely than motions with these scores (n,).

        The share is 0 if the basis represents a motion much worse than all demonstrations. The weights of such a motion
        say little about it.
        """
        share = torch.searchsorted(self.log_prob, log_prob.contiguous()).to(log_prob) / len(self)
        foreign = residual > RESIDUAL_MARGIN * self.residual[-1] + torch.finfo(residual.dtype).eps
        return torch.where(foreign | ~torch.isfinite(log_prob), torch.zeros_like(share), share)


def stored_prior(prior: MotionPrior) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON document of a prior."""
    tensors = {
        **{f"mixture.{name}": value for name, value in prior.mixture.tensors().items()},
        **{f"latent.{name}": value for name, value in prior.latent.tensors().items()},
        "calibration.log_prob": prior.calibration.log_prob,
        "calibration.residual": prior.calibration.residual,
        "context_center": prior.context_center,
        "context_scale": prior.context_scale,
    }
    document = {
        "joint_names": list(prior.joint_names),
        "basis": prior.representation.basis.to_mapping(),
        "n_points": prior.representation.n_points,
        "ridge": prior.representation.ridge,
        "n_latent": prior.latent.n_latent,
        "context_names": list(prior.context_names),
        "lower": finite(prior.lower),
        "upper": finite(prior.upper),
        "limits_source": prior.limits_source,
        "mean_duration": prior.mean_duration,
        "training": prior.training,
        **stored_goals(prior.robot, prior.goals),
    }
    return tensors, document


def restored_parts(tensors: dict[str, Tensor], document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a prior by name. A damaged file can cause many kinds of errors."""
    values = {name: value.to(torch.float64) for name, value in tensors.items()}
    mixture, latent, calibration = (
        {name.removeprefix(part): value for name, value in values.items() if name.startswith(part)} for part in PARTS
    )
    joint_names = tuple(str(name) for name in document["joint_names"])
    basis = Basis(**document["basis"])
    return {
        "representation": Representation(basis, joint_names, int(document["n_points"]), float(document["ridge"])),
        "latent": LatentSpace(latent["center"], latent["axes"], latent["scales"], int(document["n_latent"])),
        "mixture": MixtureOfExperts.from_tensors(mixture),
        "context_names": tuple(str(name) for name in document["context_names"]),
        "context_center": values["context_center"],
        "context_scale": values["context_scale"],
        "lower": np.array([-np.inf if value is None else float(value) for value in document["lower"]]),
        "upper": np.array([np.inf if value is None else float(value) for value in document["upper"]]),
        "limits_source": document.get("limits_source", ROBOT),  # older files lack this entry
        "mean_duration": float(document["mean_duration"]),
        "calibration": Calibration(calibration["log_prob"], calibration["residual"]),
        "training": dict(document.get("training") or {}),
        **restored_goals(document),
    }


def check_parts(prior: MotionPrior) -> None:
    """Raise `DataError` unless all parts are consistent and finite."""
    n_joints, n_weights, n_context = prior.representation.n_joints, prior.representation.n_weights, prior.n_context
    latent = prior.latent
    checks = {
        "joint names": len(set(prior.joint_names)) == n_joints > 0,
        "n_points": prior.representation.n_points >= 2,
        "latent space": (latent.center.shape, latent.axes.shape, latent.scales.shape)
        == ((n_weights,), (n_weights, n_weights), (n_weights,)),
        "mixture": (prior.mixture.n_dims, prior.mixture.n_context) == (latent.n_latent, n_context),
        "number of latent coordinates": 1 <= latent.n_latent <= n_weights,
        "context": prior.context_center.shape == prior.context_scale.shape == (n_context,),
        "joint limits": prior.lower.shape == prior.upper.shape == (n_joints,) and prior.limits_source in LIMITS_SOURCES,
        "calibration": prior.calibration.log_prob.shape == prior.calibration.residual.shape
        and len(prior.calibration) > 0,
        "mean duration": np.isfinite(prior.mean_duration) and prior.mean_duration > 0.0,
        "scales": bool((latent.scales > 0.0).all() and (prior.context_scale > 0.0).all()),
    }
    check_goals(prior.goals, prior.robot, prior.joint_names, prior.context_names)
    wrong = [name for name, holds in checks.items() if not holds]
    if wrong:
        raise DataError(f"its {', '.join(wrong)} do not match the other parts", wrong)
    tensors = (*latent.tensors().values(), prior.context_center, prior.context_scale, prior.calibration.log_prob)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise DataError("it contains numbers that are not finite")


@dataclass(frozen=True, eq=False)
class MotionScores:
    """Scores of motions under a prior.

    Attributes
    ----------
    log_prob : (n,)
        Log density of the weights given the context [nat].
    quantile : (n,)
        Share of held-out demonstrations that are less likely; see `Calibration.quantile`.
    residual : (n,)
        Root mean square error of the basis [rad or m].
    """

    log_prob: FloatArray
    quantile: FloatArray
    residual: FloatArray


@with_hints
@dataclass(frozen=True, eq=False)
class MotionPrior:
    """Distribution q(motion | context).

    Attributes
    ----------
    representation : Representation
        Joints, basis functions and the grid of the demonstrations.
    latent : LatentSpace
    mixture : MixtureOfExperts
        Distribution of the latent coordinates given standardised contexts; float64.
    context_names : tuple of str
    context_center, context_scale : Tensor (n_context,)
        Mean and scale for standardising contexts.
    lower, upper : (n_joints,)
        Joint limits [rad] or [m]; infinite for joints without limits.
    mean_duration : float
        Mean duration of the demonstrations [s].
    calibration : Calibration
    training : dict
        JSON-compatible record of the training.
    limits_source : str
        Source of the joint limits: "robot", or "recording" if the limits of the robot are unknown. The range of a
        recording limits drawn motions, but not via points and motions to score.
    robot : Robot, optional
        Robot of the motions. The robot is needed for goals, to compute the position of the tip.
    goals : tuple of TipGoal
        Planes that the tip reaches in all motions; see `with_goals`.

    Examples
    --------
    A joint moves from 0 to a goal. The goal is the context:

    >>> import numpy as np
    >>> from eim_ros.core.data_set import DataSet
    >>> from eim_ros.learning import EMConfig
    >>> from eim_ros.motion import MotionTraining
    >>> goals = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> about = {"task": "motion", "joint_names": ["elbow"], "n_points": 20, "context_names": ["goal"]}
    >>> data_set = DataSet(goals, goals * np.linspace(0.0, 1.0, 20), about)
    >>> prior = MotionTraining(learner=EMConfig(n_components=1)).run(data_set).model
    >>> prior.condition([0.5]).marginal(1.0).means.numpy().round(2).tolist()
    [[0.5]]
    """

    representation: Representation
    latent: LatentSpace
    mixture: MixtureOfExperts
    context_names: tuple[str, ...]
    context_center: Tensor
    context_scale: Tensor
    lower: FloatArray
    upper: FloatArray
    mean_duration: float
    calibration: Calibration
    training: dict[str, Any] = field(default_factory=dict)
    limits_source: str = ROBOT
    robot: Robot | None = None
    goals: tuple[TipGoal, ...] = ()

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.representation.joint_names

    @property
    def n_context(self) -> int:
        return len(self.context_names)

    def with_goals(self, robot: Robot, *goals: TipGoal) -> MotionPrior:
        """Return the prior of the motions that reach goals of the tip, such as the line that all demonstrations reach.

        Raises
        ------
        EimError
            If the robot has other joints, or if the value of a goal is a name that is not in the context.

        Examples
        --------
        The motions end where the tip of a planar arm is within 2 cm of a line:

        >>> import numpy as np, torch
        >>> from eim_ros import Robot
        >>> from eim_ros.core.data_set import DataSet
        >>> from eim_ros.learning import EMConfig
        >>> from eim_ros.motion import MotionTraining, TipGoal
        >>> robot, ends = Robot("planar3"), np.random.default_rng(0).normal(0.5, 0.1, (40, 3))
        >>> motions = (np.linspace(0.0, 1.0, 20)[:, None] * ends[:, None]).reshape(40, -1)
        >>> about = {"task": "motion", "joint_names": list(robot.joint_names), "n_points": 20, "context_names": []}
        >>> data_set = DataSet(np.zeros((40, 0)), motions, about)
        >>> prior = MotionTraining(learner=EMConfig(n_components=1)).run(data_set).model
        >>> reaching = prior.with_goals(robot, TipGoal("x", 1.5, tolerance=0.02))
        >>> drawn = reaching.condition().sample(50, torch.Generator().manual_seed(0)).positions
        >>> bool((abs(robot.fk(drawn[:, -1])[:, 0, 3] - 1.5) <= 0.02).all())
        True
        """
        check_goals(goals, robot, self.joint_names, self.context_names)
        return dataclasses.replace(self, robot=robot, goals=goals)

    def condition(
        self,
        context: npt.ArrayLike | None = None,
        via_points: Sequence[ViaPoint] = (),
        goals: Sequence[TipGoal] | None = None,
    ) -> MotionDistribution:
        """Return the distribution of motions for one context (n_context,), via points and goals of the tip.

        Parameters
        ----------
        context : (n_context,) array_like, optional
        via_points : sequence of ViaPoint
        goals : sequence of TipGoal, optional
            Goals that replace the goals of the prior. With an empty sequence, the tip may end anywhere. Goals of the
            prior do not apply at a phase with a via point of all joints.

        Raises
        ------
        EimError
            If the context has the wrong length or is not finite, or if a via point has unknown joints or exceeds the
            joint limits. This error is also raised if goals need a robot, but the prior contains none.
        """
        given = self._context(context)
        numbers = dict(zip(self.context_names, np.ravel(() if context is None else context).tolist(), strict=True))
        wanted = self.goals if goals is None else tuple(goals)
        check_goals(wanted, self.robot, self.joint_names, self.context_names)
        with torch.no_grad():
            batch = self.mixture(given)
            shape = (self.mixture.n_components, self.mixture.n_dims)
            factors = batch.scale_trils.expand(1, *shape, shape[1])[0]
            latent = dataclasses.replace(
                batch, log_weights=batch.log_weights[0], means=batch.means[0], scale_trils=factors
            )
            lifted = self.latent.lifted(latent)
            everywhere = MotionDistribution(
                self.representation, lifted, self.lower, self.upper, limits_source=self.limits_source
            )
            conditioned = everywhere.condition(via_points)
        if goals is None:
            prescribed = [point.phase for point in via_points if set(point.joint_names) == set(self.joint_names)]
            wanted = tuple(goal for goal in wanted if goal.phase not in prescribed)
        tasks = [goal.task(self.robot, self.joint_names, numbers) for goal in wanted if self.robot is not None]
        return conditioned.reaching(*tasks)

    def score(self, positions: npt.ArrayLike, context: npt.ArrayLike | None = None) -> MotionScores:
        """Score motions under the prior, without truncation to the joint limits.

        Parameters
        ----------
        positions : (n, n_points, n_joints) array_like
            Motions on the grid of the demonstrations (see `Representation.resampled`) [rad or m].
        context : (n_context,) or (n, n_context) array_like, optional
            One context for all motions, or one per motion.

        Raises
        ------
        EimError
            If motions have the wrong shape, are not finite or exceed the joint limits, or if contexts have the wrong
            shape.
        """
        motions = np.asarray(positions, dtype=np.float64)
        shape = (self.representation.n_points, self.representation.n_joints)
        if motions.ndim != 3 or motions.shape[1:] != shape:
            raise DataError(f"motions must be of shape (n, {shape[0]}, {shape[1]}), got {motions.shape}", motions.shape)
        for index, motion in enumerate(motions):
            self.check_motion(motion, f"motion {index}: ")
        weights = torch.from_numpy(self.representation.weights(motions))
        residual = torch.from_numpy(self.representation.residual(motions))
        with torch.no_grad():
            log_prob = self.latent.log_prob(self.mixture, self._context(context, len(motions)), weights)
        quantile = self.calibration.quantile(log_prob, residual)
        return MotionScores(log_prob.numpy(), quantile.numpy(), residual.numpy())

    def check_motion(self, positions: FloatArray, label: str = "") -> None:
        """Raise `JointStateError` if a position (n, n_joints) is not finite or exceeds the joint limits."""
        if not np.isfinite(positions).all():
            raise JointStateError(f"{label}positions must be finite", positions)
        if self.limits_source == RECORDING:
            return
        beyond = (positions < self.lower - LIMIT_TOLERANCE) | (positions > self.upper + LIMIT_TOLERANCE)
        if beyond.any():
            point, joint = (int(index) for index in np.argwhere(beyond)[0])
            raise JointStateError(
                f"{label}joint {self.joint_names[joint]} is at {positions[point, joint]:.6g} in point {point}, but "
                f"its limits are {self.lower[joint]:.6g} and {self.upper[joint]:.6g}",
                positions[point, joint],
            )

    def save(self, path: str | Path) -> None:
        """Write the prior atomically as a safetensors file. The header contains the description."""
        write_tensor_file(path, *stored_prior(self), kind=MOTION_KIND, schema=MOTION_SCHEMA)

    @classmethod
    def load(cls, path: str | Path) -> MotionPrior:
        """Read a prior from a file.

        Raises
        ------
        ModelFileError
            If the file is truncated, damaged or a pickle, or has another kind or schema.
        """
        tensors, document = read_tensor_file(path, kind=MOTION_KIND, schema=MOTION_SCHEMA)
        try:
            prior = cls(**restored_parts(tensors, document))
            check_parts(prior)
        except (EimError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            cause = f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, TypeError)) else str(error)
            raise ModelFileError(f"{path} does not contain a valid motion prior: {cause}", str(path)) from error
        return prior

    def _context(self, context: npt.ArrayLike | None, n: int = 1) -> Tensor:
        """Return the standardised contexts (n, n_context)."""
        try:
            values = np.asarray(() if context is None else context, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"the context must consist of numbers: {error}", context) from error
        if values.ndim not in (1, 2) or values.shape[-1] != self.n_context or values.shape[:-1] not in ((), (n,)):
            names = ", ".join(self.context_names) or "none"
            raise DataError(
                f"the context has shape {values.shape}, expected {self.n_context} numbers ({names})", values.shape
            )
        if not np.isfinite(values).all():
            raise DataError(f"the context must be finite, got {values.tolist()}", values)
        given = torch.from_numpy(np.array(np.broadcast_to(values, (n, self.n_context))))
        return (given - self.context_center) / self.context_scale
