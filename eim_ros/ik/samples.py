"""Answer to an inverse kinematics request: configurations with their densities, errors and validity."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.proposal import Proposal
from eim_ros.solver import NO_EXPERT

__all__ = ["NO_EXPERT", "GivenDensity", "Samples", "to_mapping"]


@dataclass(frozen=True, eq=False)
class GivenDensity:
    """A model's density given a pose, evaluated anew each time: answers are kept, mixtures are large.

    Attributes
    ----------
    proposal : Proposal
    contexts : (n_contexts, n_context)
        Over which it is averaged.
    """

    proposal: Proposal
    contexts: npt.NDArray[np.float64]

    def log_prob(self, samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Log density (n,) [nat] of configurations (n, dof); NaN without a model."""
        return self.proposal.condition(self.contexts).log_prob(samples)


@dataclass(frozen=True, eq=False)
class Samples:
    """Configurations for one pose.

    Attributes
    ----------
    joint_names : tuple of str
        Columns of `positions`.
    positions : (n, dof)
        [rad] or [m].
    position_error : (n,)
        Distance of the tip from the pose by forward kinematics [m], beyond the tolerances per axis if there are any.
    orientation_error : (n,)
        Angle to the pose's orientation by forward kinematics [rad], beyond the tolerances per axis if there are any; 0
        where only the position was asked for.
    valid : (n,) of bool
        Whether the errors are within the tolerances, the joints within the limits, and no collision was found.
    expert : (n,) of uint32
        Expert that proposed each; `NO_EXPERT` for a uniform seed, or one found by a walk.
    error_code : ErrorCode
        SUCCESS; TIMED_OUT when time ended before n valid ones were found; when the search ended with none,
        GOAL_IN_COLLISION if there were some that only collide, else NO_IK_SOLUTION.
    message : str
        In words.
    elapsed : float
        [s].
    density : GivenDensity
        The model given the pose.
    known_log_prob : (n,), optional
        Log densities, where the order of the answer needed them.
    """

    joint_names: tuple[str, ...]
    positions: npt.NDArray[np.float64]
    position_error: npt.NDArray[np.float64]
    orientation_error: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]
    error_code: ErrorCode
    message: str
    elapsed: float
    density: GivenDensity
    known_log_prob: npt.NDArray[np.float64] | None = None

    @functools.cached_property
    def log_prob(self) -> npt.NDArray[np.float64]:
        """Log density (n,) of each returned configuration under the model, log q(positions | pose) [nat].

        Computed when first asked for, unless the order of the answer needed it; NaN without a model.
        """
        return self.density.log_prob(self.positions) if self.known_log_prob is None else self.known_log_prob

    def __len__(self) -> int:
        return len(self.positions)


def to_mapping(samples: Samples) -> dict[str, Any]:
    """JSON-compatible, under the field names of the service's response; positions as n lists."""
    return {
        "error_code": int(samples.error_code),
        "message": samples.message,
        "joint_names": list(samples.joint_names),
        "n": len(samples),
        "positions": samples.positions.tolist(),
        "log_prob": [value if math.isfinite(value) else None for value in samples.log_prob.tolist()],
        "position_error": samples.position_error.tolist(),
        "orientation_error": samples.orientation_error.tolist(),
        "valid": samples.valid.tolist(),
        "expert": samples.expert.tolist(),
        "elapsed": samples.elapsed,
    }
