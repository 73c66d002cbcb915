"""Answer to an inverse kinematics request: configurations with their densities, errors and validity."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.proposal import ConditionalMixture
from eim_ros.solver import NO_EXPERT

__all__ = ["NO_EXPERT", "Samples", "to_mapping"]


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
    density : ConditionalMixture
        The model given the pose.
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
    density: ConditionalMixture

    @functools.cached_property
    def log_prob(self) -> npt.NDArray[np.float64]:
        """Log density (n,) of each returned configuration under the model, log q(positions | pose) [nat].

        Computed when first asked for: it takes as long as finding the configurations.
        """
        return self.density.log_prob(self.positions)

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
        "log_prob": samples.log_prob.tolist(),
        "position_error": samples.position_error.tolist(),
        "orientation_error": samples.orientation_error.tolist(),
        "valid": samples.valid.tolist(),
        "expert": samples.expert.tolist(),
        "elapsed": samples.elapsed,
    }
