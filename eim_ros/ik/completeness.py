"""How whole an answer is: the families of solutions found, and a bound on what may be missing.

A restart is a random configuration moved onto the pose, without limits of the joints that turn. If more than a share
eps of restarts led to families not found, r of them in a row would all miss these with a probability of at most
(1 - eps)^r. That is where the bound comes from (see `solver/search/self_motions.hpp`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import as_number, names_wrong_keywords
from eim_ros.core.errors import ConfigurationError


@names_wrong_keywords
@dataclass(frozen=True)
class Completeness:
    """How sure it is to be that no family of solutions is missing.

    Attributes
    ----------
    confidence : float
        Probability with which the bound holds, between 0 and 1.
    missed_share : float
        Upper bound of the share of restarts that would lead to a family not found, between 0 and 1.
    """

    confidence: float = 0.99
    missed_share: float = 0.002

    def __post_init__(self) -> None:
        for name, value in (("confidence", self.confidence), ("missed share", self.missed_share)):
            if not 0.0 < as_number(value) < 1.0:
                raise ConfigurationError(f"the {name} must be between 0 and 1, both excluded, got {value!r}", value)


@dataclass(frozen=True, eq=False)
class FoundFamilies:
    """Families of solutions of a pose: connected pieces of its self-motions within the limits, collisions aside.

    Attributes
    ----------
    lengths : (n_families,)
        Of each family along the curve [rad, m]; 0 of solutions that are points.
    closed : (n_families,) of bool
        Whether it leads back to itself; others end at limits.
    traced : (n_families,) of bool
        Whether it is known from end to end. Not where the arm is so close to singular that a curve could not be
        followed, or a curve only touches a limit or runs along it, so that rounding decides what of it is within.
    missed_share : float
        Upper bound of the share of restarts that would lead to a family not found; 0 of closed forms, 1 where nothing
        is known.
    confidence : float
        Of that bound: the one asked for, or 0.99.
    is_whole : bool
        Whether these are certified, or the bound asked for holds, or by default 0.002, and all families are traced from
        end to end.
    certified : bool
        Whether it is known by closed forms that there are no others: nothing was sampled.
    is_singular : bool
        Whether the arm is singular in some of the solutions that were found. More joints may move there while the tip
        stays, so that these solutions are surfaces, of which any answer is a small part.
    """

    lengths: npt.NDArray[np.float64]
    closed: npt.NDArray[np.bool_]
    traced: npt.NDArray[np.bool_]
    missed_share: float
    confidence: float
    is_whole: bool
    certified: bool = False
    is_singular: bool = False

    @classmethod
    def of(
        cls,
        lengths: npt.NDArray[np.float64],
        closed: npt.NDArray[np.bool_],
        traced: npt.NDArray[np.bool_],
        missed_share: float,
        wanted: Completeness,
        certified: bool = False,
    ) -> FoundFamilies:
        """Of a bound that holds at the confidence wanted."""
        is_whole = bool(traced.all()) and missed_share <= wanted.missed_share
        return cls(lengths, closed, traced, missed_share, wanted.confidence, is_whole, certified)

    @property
    def n_families(self) -> int:
        """How many were found."""
        return len(self.lengths)

    def __str__(self) -> str:
        """As in messages: "12 families, whole with 99 %", or "certified whole"."""
        n_traced = int(np.count_nonzero(self.traced))
        families = "1 family" if n_traced == 1 else f"{n_traced} families"
        if self.certified:
            return f"{families}, certified whole"
        if self.is_whole:
            return f"{families}, whole" + (f" with {100.0 * self.confidence:.4g} %" if self.missed_share else "")
        if self.is_singular:
            return (
                f"{families} traced from end to end; in other solutions the arm is singular: more joints may move "
                "there while the tip stays, and the set of solutions is larger than what was returned"
            )
        if n_traced < self.n_families:  # curves meet where the arm is singular: pieces of them are no families
            return f"{families} traced from end to end, others not: the arm is close to singular, or touches a limit"
        rest = ""
        if self.missed_share < 1.0:
            share, confidence = 100.0 * self.missed_share, 100.0 * self.confidence
            rest += f", others in at most {share:.2g} % of restarts with {confidence:.4g} %"
        return families + rest
