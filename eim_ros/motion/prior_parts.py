"""Parts of a motion prior as its file holds them: tensors by name, and the rest as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.errors import DataError
from eim_ros.motion.basis import Basis
from eim_ros.motion.calibration import Calibration
from eim_ros.motion.latent_space import LatentSpace
from eim_ros.motion.representation import Representation

if TYPE_CHECKING:
    from eim_ros.motion.prior import MotionPrior

__all__ = ["check_parts", "restored_parts", "stored_prior"]

PARTS = ("mixture.", "latent.", "calibration.")


def stored_prior(prior: MotionPrior) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and document of a prior."""
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
        "lower": _finite_or_none(prior.lower),
        "upper": _finite_or_none(prior.upper),
        "mean_duration": prior.mean_duration,
        "training": prior.training,
    }
    return tensors, document


def restored_parts(tensors: dict[str, Tensor], document: dict[str, Any]) -> dict[str, Any]:
    """Fields of a prior by name; many errors are possible where a file is damaged."""
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
        "mean_duration": float(document["mean_duration"]),
        "calibration": Calibration(calibration["log_prob"], calibration["residual"]),
        "training": dict(document.get("training") or {}),
    }


def check_parts(prior: MotionPrior) -> None:
    """`DataError` unless all parts fit each other and are finite."""
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
        "joint limits": prior.lower.shape == prior.upper.shape == (n_joints,),
        "calibration": prior.calibration.log_prob.shape == prior.calibration.residual.shape
        and len(prior.calibration) > 0,
        "mean duration": np.isfinite(prior.mean_duration) and prior.mean_duration > 0.0,
        "scales": bool((latent.scales > 0.0).all() and (prior.context_scale > 0.0).all()),
    }
    wrong = [name for name, holds in checks.items() if not holds]
    if wrong:
        raise DataError(f"its {', '.join(wrong)} do not fit the rest", wrong)
    tensors = (*latent.tensors().values(), prior.context_center, prior.context_scale, prior.calibration.log_prob)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise DataError("it has entries that are not finite")


def _finite_or_none(values: npt.NDArray[np.float64]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
