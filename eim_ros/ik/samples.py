"""Answer to an inverse kinematics request: configurations with their densities, errors and validity.

An answer without a solution is empty and false, so that a loop over it moves nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.ik.completeness import FoundFamilies
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.proposal import ConditionalMixture, Proposal
from eim_ros.ik.samples_table import html_table
from eim_ros.numerics.strict_json import finite
from eim_ros.solver import NO_EXPERT

__all__ = ["NO_EXPERT", "GivenDensity", "Samples"]

TERM = 4e-9  # [s] that one component takes at most for the density of one configuration


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

    @property
    def conditional(self) -> ConditionalMixture:
        """The mixture given the pose."""
        return self.proposal.condition(self.contexts)

    def log_prob(self, samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Log density (n,) [nat] of configurations (n, dof); NaN without a model."""
        return self.conditional.log_prob(samples)

    def seconds(self, n: int) -> float:
        """About how long the densities of n configurations take at most [s]."""
        return TERM * n * len(self.contexts) * self.proposal.n_experts


@dataclass(frozen=True, eq=False)
class Samples:
    """Configurations for one pose: solutions only, none if there is none.

    Raw samples of a model (`refine=False`) are the exception: all are returned, and `valid` marks the solutions among
    them. `bool()` of an answer is True if it holds at least one solution, also among raw samples.

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
        Whether the errors are within the tolerances, the joints within the limits, and no collision was found. All are
        True, except of raw samples.
    expert : (n,) of uint32
        Expert that proposed each; `NO_EXPERT` for a uniform seed, or one found by continuation.
    error_code : ErrorCode
        SUCCESS; TIMED_OUT when time ended before n valid ones were found; when the search ended with none,
        GOAL_IN_COLLISION if there were some that only collide, else NO_IK_SOLUTION.
    message : str
        In words.
    elapsed : float
        [s].
    density : GivenDensity, optional
        The model given the pose; the server keeps it, so that answers of the service are without.
    known_log_prob : (n,), optional
        Log densities, where the order of the answer needed them, or the server told them.
    n_all : float, optional
        How many configurations satisfy the request, those included that differ by whole turns of joints, where the arm
        has a closed form: nothing was sampled, and none is missing.
    completeness : FoundFamilies, optional
        Where the solutions are points in closed form, or curves that were traced: their families, and how sure it is
        that there are no others. It says nothing of collisions, and does not depend on how many samples were wanted.
    effective_size : float, optional
        Of draws from a distribution: as many independent ones as these are worth (Kong 1992), at most their number,
        which it is where the set was divided as a whole, as curves and points are.
    best_attempt : (dof,), optional
        If no solution was found: the configuration that came closest to the pose [rad] or [m]. It is no solution: it
        misses the pose, collides, or has a link where it must not be. None if there is a solution, or if time was up
        before the first attempt.
    best_attempt_error : (float, float), optional
        Position [m] and orientation error [rad] of the best attempt; None if there is no attempt, or in an answer of
        the service, which only gives them in its message.
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
    density: GivenDensity | None = None
    known_log_prob: npt.NDArray[np.float64] | None = None
    n_all: float | None = None
    completeness: FoundFamilies | None = None
    effective_size: float | None = None
    best_attempt: npt.NDArray[np.float64] | None = None
    best_attempt_error: tuple[float, float] | None = None

    @property
    def certified(self) -> bool:
        """Whether a closed form shows that nothing is missing.

        Of points: these are all that satisfy the request. Of curves: these are all families, collisions aside.
        """
        if self.n_all is not None:
            return bool(np.count_nonzero(self.valid) == self.n_all)
        return self.completeness is not None and self.completeness.certified

    @functools.cached_property
    def log_prob(self) -> npt.NDArray[np.float64]:
        """Log density (n,) of each returned configuration under the model, log q(positions | pose) [nat].

        Computed when first asked for, unless the order of the answer needed it; NaN where it is not known.
        """
        if self.known_log_prob is not None:
            return self.known_log_prob
        return np.full(len(self), np.nan) if self.density is None else self.density.log_prob(self.positions)

    @property
    def seconds_of_density(self) -> float:
        """About how long `log_prob` would take at most [s]; 0 where it is known, or there is no model."""
        is_known = self.known_log_prob is not None or self.density is None or "log_prob" in self.__dict__
        return 0.0 if is_known or self.density is None else self.density.seconds(len(self))

    @property
    def q(self) -> npt.NDArray[np.float64]:
        """`positions`, by the short name."""
        return self.positions

    def __len__(self) -> int:
        return len(self.positions)

    def __bool__(self) -> bool:
        """Whether there is at least one solution."""
        return bool(self.valid.any())

    def __getitem__(self, index: Any) -> npt.NDArray[np.float64]:
        """One configuration (dof,), or those of a slice or mask (k, dof), as of `positions`."""
        return np.asarray(self.positions[index])

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        """The configurations (dof,), one after the other; of raw samples also those that are not valid."""
        return iter(self.positions)

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible, under the names of the service's response: rows as lists, None for what is not finite."""
        columns = ("positions", "log_prob", "position_error", "orientation_error")
        return {
            "error_code": int(self.error_code),
            "message": self.message,
            "joint_names": list(self.joint_names),
            "n": len(self),
            **{name: finite(getattr(self, name)) for name in columns},
            "valid": self.valid.tolist(),
            "expert": self.expert.tolist(),
            "elapsed": finite(self.elapsed),
            **self._families,
            "effective_size": 0.0 if self.effective_size is None else self.effective_size,
            "best_attempt": [] if self.best_attempt is None else finite(self.best_attempt),
        }

    @property
    def _families(self) -> dict[str, Any]:
        """Of the dictionary: what is known of families."""
        found = self.completeness
        return {
            "family_lengths": [] if found is None else finite(found.lengths),
            "family_closed": [] if found is None else found.closed.tolist(),
            "family_traced": [] if found is None else found.traced.tolist(),
            "missed_share": 1.0 if found is None else found.missed_share,
            "confidence": 0.0 if found is None else found.confidence,
            "whole": found is not None and found.is_whole,
        }

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        return html_table(self)
