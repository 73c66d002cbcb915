"""`MotionPrior`: what was demonstrated, as a distribution of motions given a context; one file.

The weights of a motion (`Representation`) have few whitened coordinates (`LatentSpace`), which are distributed as a
mixture of experts given the standardised context. For one context it becomes a Gaussian mixture of the weights, which
is conditioned on via points in closed form.
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

from eim_ros.distributions import MixtureOfExperts
from eim_ros.errors import DataError, EimError, JointStateError, ModelFileError
from eim_ros.motion.calibration import Calibration
from eim_ros.motion.distribution import MotionDistribution
from eim_ros.motion.latent_space import LatentSpace
from eim_ros.motion.prior_parts import check_parts, restored_parts, stored_prior
from eim_ros.motion.representation import Representation
from eim_ros.motion.via_point import ViaPoint, condition_on
from eim_ros.numerics.arguments import expect
from eim_ros.numerics.tensor_file import read_tensor_file, write_tensor_file

__all__ = ["MOTION_KIND", "MOTION_SCHEMA", "MotionPrior", "MotionScores"]

FloatArray = npt.NDArray[np.float64]

MOTION_KIND = "motion_prior"
MOTION_SCHEMA = 1
LIMIT_TOLERANCE = 1e-6  # [rad] or [m]: rounding of positions in messages and files


@dataclass(frozen=True, eq=False)
class MotionScores:
    """How likely motions are.

    Attributes
    ----------
    log_prob : (n,)
        Log density of the weights given the context [nat].
    quantile : (n,)
        Share of held-out demonstrations that are less likely, see `Calibration.quantile`.
    residual : (n,)
        Root mean square difference to what the basis can represent [rad or m].
    """

    log_prob: FloatArray
    quantile: FloatArray
    residual: FloatArray


@dataclass(frozen=True, eq=False)
class MotionPrior:
    """q(motion | context).

    Attributes
    ----------
    representation : Representation
        Joints, basis functions and the grid of the demonstrations.
    latent : LatentSpace
    mixture : MixtureOfExperts
        Of the latent coordinates, given standardised contexts; float64.
    context_names : tuple of str
    context_center, context_scale : Tensor (n_context,)
        Standardisation of the contexts.
    lower, upper : (n_joints,)
        Joint limits [rad] or [m]; infinite where unknown.
    mean_duration : float
        Of the demonstrations [s].
    calibration : Calibration
    training : dict
        JSON-compatible record of how it was made.
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

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.representation.joint_names

    @property
    def n_context(self) -> int:
        return len(self.context_names)

    def condition(
        self, context: npt.ArrayLike | None = None, via_points: Sequence[ViaPoint] = ()
    ) -> MotionDistribution:
        """Distribution of motions for one context (n_context,), given via points.

        Raises
        ------
        EimError
            A context of another length or not finite; a via point with unknown joints, or beyond the joint limits.
        """
        given = self._context(context)
        if not isinstance(via_points, Sequence):
            raise DataError(f"via points must be a list of ViaPoint, got {via_points!r}", via_points)
        for point in via_points:
            self._check_limits(expect(point, ViaPoint, "a via point", DataError))
        with torch.no_grad():
            batch = self.mixture(given)
            shape = (self.mixture.n_components, self.mixture.n_dims)
            factors = batch.scale_trils.expand(1, *shape, shape[1])[0]
            latent = dataclasses.replace(
                batch, log_weights=batch.log_weights[0], means=batch.means[0], scale_trils=factors
            )
            mixture, log_evidence = condition_on(via_points, self.latent.lifted(latent), self.representation)
        return MotionDistribution(self.representation, mixture, self.lower, self.upper, log_evidence)

    def score(self, positions: npt.ArrayLike, context: npt.ArrayLike | None = None) -> MotionScores:
        """How likely motions are.

        Parameters
        ----------
        positions : (n, n_points, n_joints) array_like
            On the grid of the demonstrations (see `Representation.resampled`) [rad or m].
        context : (n_context,) or (n, n_context) array_like, optional
            One for all, or one for each.

        Raises
        ------
        EimError
            Motions of another shape, not finite or beyond the joint limits; contexts of another shape.
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
        """`JointStateError` if one of the positions (n, n_joints) is not finite or beyond the joint limits."""
        if not np.isfinite(positions).all():
            raise JointStateError(f"{label}positions must be finite", positions)
        beyond = (positions < self.lower - LIMIT_TOLERANCE) | (positions > self.upper + LIMIT_TOLERANCE)
        if beyond.any():
            point, joint = (int(index) for index in np.argwhere(beyond)[0])
            raise JointStateError(
                f"{label}joint {self.joint_names[joint]} is at {positions[point, joint]:.6g} in point {point}, its "
                f"limits are {self.lower[joint]:.6g} and {self.upper[joint]:.6g}",
                positions[point, joint],
            )

    def save(self, path: str | Path) -> None:
        """Write atomically, as safetensors with the description in its header."""
        write_tensor_file(path, *stored_prior(self), kind=MOTION_KIND, schema=MOTION_SCHEMA)

    @classmethod
    def load(cls, path: str | Path) -> MotionPrior:
        """Read a prior; `ModelFileError` if the file is truncated, a pickle, of another kind or schema, or damaged."""
        tensors, document = read_tensor_file(path, kind=MOTION_KIND, schema=MOTION_SCHEMA)
        try:
            prior = cls(**restored_parts(tensors, document))
            check_parts(prior)
        except (EimError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            cause = f"{type(error).__name__}: {error}" if isinstance(error, (KeyError, TypeError)) else str(error)
            raise ModelFileError(f"{path} does not hold a valid motion prior: {cause}", str(path)) from error
        return prior

    def _context(self, context: npt.ArrayLike | None, n: int = 1) -> Tensor:
        """Standardised contexts (n, n_context)."""
        try:
            values = np.asarray(() if context is None else context, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"the context must be numbers: {error}", context) from error
        if values.ndim not in (1, 2) or values.shape[-1] != self.n_context or values.shape[:-1] not in ((), (n,)):
            names = ", ".join(self.context_names) or "none"
            raise DataError(
                f"the context has shape {values.shape}, expected {self.n_context} numbers ({names})", values.shape
            )
        if not np.isfinite(values).all():
            raise DataError(f"the context must be finite, got {values.tolist()}", values)
        given = torch.from_numpy(np.array(np.broadcast_to(values, (n, self.n_context))))
        return (given - self.context_center) / self.context_scale

    def _check_limits(self, point: ViaPoint) -> None:
        for name, position in zip(point.joint_names, point.positions, strict=True):
            if name not in self.joint_names:
                continue  # refused where it is used, with the names that are known
            joint = self.joint_names.index(name)
            if not self.lower[joint] - LIMIT_TOLERANCE <= position <= self.upper[joint] + LIMIT_TOLERANCE:
                raise JointStateError(
                    f"a via point wants joint {name} at {position:.6g}, its limits are {self.lower[joint]:.6g} and "
                    f"{self.upper[joint]:.6g}",
                    position,
                )
