"""What came of a request, in a code and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eim_ros.ik.completeness import FoundFamilies
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.goal import Goal
from eim_ros.ik.pool import Pool
from eim_ros.ik.request import SampleRequest

__all__ = ["Finding", "outcome_of"]


@dataclass(frozen=True, eq=False)
class Finding:
    """What came of a request.

    Attributes
    ----------
    pool : Pool
    out_of_time, is_cut_short : bool
        Whether time was up in the search, or while configurations were moved towards a posture.
    n_all : float, optional
        How many configurations there are, where that is known.
    is_singular : bool
        Whether the arm is known to be singular in one of them.
    families : FoundFamilies, optional
        Of curves that were traced, or of a closed form.
    worth : float, optional
        Of draws from a distribution: as many independent ones as they are worth; 0 of what was not drawn from it.
    """

    pool: Pool
    out_of_time: bool = False
    is_cut_short: bool = False
    n_all: float | None = None
    is_singular: bool = False
    families: FoundFamilies | None = None
    worth: float | None = None


def outcome_of(found: Finding, pool: Pool, wanted: SampleRequest, goal: Goal) -> tuple[ErrorCode, str]:
    """Error code and message of a request, of whose configurations those of `pool` were kept."""
    n, refine, n_colliding, n_violating = wanted.n, wanted.refine, goal.n_colliding, goal.n_violating
    n_valid = min(int(np.count_nonzero(pool.valid)), n)
    n = len(pool) if wanted.separation is not None else n
    is_certified = found.families is not None and found.families.certified
    out_of_time = found.out_of_time or found.is_cut_short or goal.n_unchecked > 0
    if out_of_time:
        code, reason = ErrorCode.TIMED_OUT, "timed out: "
    else:
        code, reason = (ErrorCode.SUCCESS if n_valid else ErrorCode.NO_IK_SOLUTION), ""
    if n_valid and found.worth == 0.0:
        why = "" if out_of_time else ", for the arm is singular there, or at its limits"
        what = f"{n_valid} of {n} configurations are valid, but not drawn from the distribution{why}"
        return (code if out_of_time else ErrorCode.FAILURE), f"{reason}{what}"
    if n_valid:
        if not refine:
            return code, f"{n_valid} of {n} raw configurations are valid"
        what = "different configurations" if wanted.distinct else "configurations"
        rest = "" if n_valid == n or out_of_time else "; the search ended without more"
        if found.n_all is not None and not goal.n_unchecked:
            rest = ", all that there are" if n_valid == found.n_all else f", of {found.n_all:.0f} that there are"
        rest += (
            "; the arm is singular there, joints may turn while the tip stays: there are more"
            if found.is_singular
            else ""
        )
        rest += f"; {n_colliding} more collide" if n_colliding and n_valid < n else ""
        rest += f"; {n_violating} more have a link where it must not be" if n_violating and n_valid < n else ""
        rest += f"; {goal.n_unchecked} more could not be checked in time" if goal.n_unchecked else ""
        rest += "; not all were moved towards the posture" if found.is_cut_short else ""
        rest += f"; worth {found.worth:.0f} independent draws" if found.worth is not None and found.worth < n else ""
        rest += f"; {found.families}" if found.families is not None and found.n_all is None else ""
        if wanted.certified and found.n_all is None and not is_certified:
            rest += "; not certified, for the arm is singular or next to it, or a limit is but touched"
        return code, f"{reason}{n_valid} of {n} {what} are valid{rest}"
    if n_colliding:
        code = code if out_of_time else ErrorCode.GOAL_IN_COLLISION
        rest = f", or have a link where it must not be ({n_violating} more)" if n_violating else ""
        return code, f"{reason}all of the {n_colliding} configurations found that reach the pose collide{rest}"
    if n_violating:
        return code, f"{reason}all of the {n_violating} configurations found have a link where it must not be"
    best = pool.best()
    error = f"{best.position_error[0]:.3g} m and {best.orientation_error[0]:.3g} rad"
    is_nothing = (found.n_all == 0.0 and not out_of_time) or (
        is_certified and found.families is not None and not found.families.n_families
    )
    known = "there is no valid configuration" if is_nothing else "no valid configuration found"
    return code, f"{reason}{known}; the best is off by {error}"
