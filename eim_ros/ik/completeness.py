"""Completeness of an answer: its self-motion components, and a bound on missing solutions.

A restart moves a random configuration onto the pose and ignores the limits of revolute joints. Suppose that a share of
more than eps of all restarts leads to components that were not found. Then r restarts in a row miss all of these
components with a probability of at most (1 - eps)^r. This probability gives the bound on missing solutions, see
`solver/search/self_motions.hpp`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import as_number, with_hints
from eim_ros.core.errors import ConfigurationError


@with_hints
@dataclass(frozen=True)
class Completeness:
    """Bound on missing solutions at which a search may stop.

    Attributes
    ----------
    confidence : float
        Probability that the bound is true, between 0 and 1.
    missed_share : float
        Upper bound of the share of restarts that lead to a component that was not found, between 0 and 1.

    Examples
    --------
    >>> from eim_ros import Completeness, Sampler
    >>> sampler, pose = Sampler("panda"), [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    >>> solutions = sampler.solve_all(pose, guarantee=Completeness(missed_share=0.01), seed=0, timeout=10.0)
    >>> print(solutions.completeness)
    3 components, complete with 99 % confidence
    """

    confidence: float = 0.99
    missed_share: float = 0.002

    def __post_init__(self) -> None:
        for name, value in (("confidence", self.confidence), ("missed share", self.missed_share)):
            if not 0.0 < as_number(value) < 1.0:
                raise ConfigurationError(f"the {name} must be between 0 and 1, both excluded, got {value!r}", value)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence of a strategy about the solutions of a pose. `Evidence()` is empty and proves nothing.

    Attributes
    ----------
    lengths, closed, traced : (n_components,)
        See `CompletenessReport`.
    is_exhaustive : bool
        Whether these are all components. There are three proofs: each case of a closed form was decided, as many
        solutions were verified as an elimination allows, or further curves are excluded.
    is_exact : bool
        Whether `is_exhaustive` relies on bounds of all errors instead of a measured noise level.
    missed_share : float
        Upper bound from a search, see `CompletenessReport`.
    is_singular : bool
        Whether some of the solutions lie on surfaces instead of curves.
    """

    lengths: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    closed: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    traced: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    is_exhaustive: bool = False
    is_exact: bool = False
    missed_share: float = 1.0
    is_singular: bool = False

    def with_points(self, n: int) -> Evidence:
        """Return the evidence with n isolated solutions in front of its components."""
        return replace(
            self,
            lengths=np.concatenate([np.zeros(n), self.lengths]),
            closed=np.concatenate([np.zeros(n, np.bool_), self.closed]),
            traced=np.concatenate([np.ones(n, np.bool_), self.traced]),
        )


@dataclass(frozen=True, eq=False)
class CompletenessReport:
    """Self-motion components of a pose: connected pieces of its solutions within the limits.

    Collisions, branches and conditions on links do not divide components.

    Attributes
    ----------
    lengths : (n_components,)
        Length of each component along its curve [rad, m]; 0 for isolated solutions.
    closed : (n_components,) of bool
        Whether the component is a closed curve. Other curves end at limits.
    traced : (n_components,) of bool
        Whether the component is known from end to end. A curve that passes too close to a singularity cannot be
        followed. A curve that touches a joint limit or runs along it is not traced either, because rounding decides
        which part of it is within the limits.
    missed_share : float
        Upper bound of the share of restarts that lead to a component that was not found; 0 for closed forms, 1 if
        nothing is known.
    confidence : float
        Probability that `missed_share` is a true bound.
    is_complete : bool
        Whether every component was traced, and `missed_share` is at most the requested bound (0.002 by default). The
        value is False if `is_singular` is True.
    certified : bool
        Whether a closed form, or an elimination with bounds of all errors, proves that there are no other components.
        Unless a certificate is requested, solutions of six revolute joints without special geometry are counted with a
        measured noise level. Such answers may be complete, but they are not certified.
    is_singular : bool
        Whether the arm is singular in some of the solutions found. More joints can move at a singularity while the tip
        stays still. The solutions then form surfaces, and an answer contains only a small part of each surface.

    Examples
    --------
    The solutions of a UR5e are isolated points, and its closed form finds all of them:

    >>> from eim_ros import Sampler
    >>> report = Sampler("ur5e").solve_all([0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0], seed=0).completeness
    >>> report.certified, report.missed_share, float(report.lengths.max())
    (True, 0.0, 0.0)
    """

    lengths: npt.NDArray[np.float64]
    closed: npt.NDArray[np.bool_]
    traced: npt.NDArray[np.bool_]
    missed_share: float
    confidence: float
    is_complete: bool
    certified: bool
    is_singular: bool = False

    @property
    def n_components(self) -> int:
        """Number of components found."""
        return len(self.lengths)

    def __str__(self) -> str:
        """Return a phrase for messages, such as "12 components, complete with 99 % confidence"."""
        n_traced = int(np.count_nonzero(self.traced))
        components = "1 component" if n_traced == 1 else f"{n_traced} components"
        if self.certified:
            return f"{components}, certified complete"
        if self.is_complete:
            confidence = f" with {100.0 * self.confidence:.4g} % confidence" if self.missed_share else ""
            return f"{components}, complete{confidence}"
        if self.is_singular:
            return (
                f"{components} traced; in other solutions the arm is singular, so more joints can move while the tip "
                "stays, and not all solutions were returned"
            )
        if n_traced < self.n_components:  # curves meet at a singularity, so their pieces are not separate components
            return f"{components} traced, but others were not, because the arm is near a singularity or touches a limit"
        if self.missed_share < 1.0:
            share, confidence = f"{100.0 * self.missed_share:.2g} %", f"{100.0 * self.confidence:.4g} %"
            return f"{components}; at most {share} of restarts lead to other components, with {confidence} confidence"
        return components


def grant(evidence: Evidence, wanted: Completeness | None = None) -> CompletenessReport:
    """Return the report that follows from evidence. Only this function grants completeness.

    Parameters
    ----------
    evidence : Evidence
    wanted : Completeness, optional
        Bound at which the result of a search counts as complete. Default: `Completeness()`.
    """
    wanted = wanted or Completeness()
    missed_share = 0.0 if evidence.is_exhaustive else evidence.missed_share
    is_complete = bool(evidence.traced.all()) and missed_share <= wanted.missed_share and not evidence.is_singular
    certified = is_complete and evidence.is_exhaustive and evidence.is_exact
    components = evidence.lengths, evidence.closed, evidence.traced
    bound = missed_share, wanted.confidence
    return CompletenessReport(*components, *bound, is_complete, certified, evidence.is_singular)


@functools.lru_cache(maxsize=256)
def grant_points(n: int, wanted: Completeness | None, is_exact: bool) -> CompletenessReport:
    """Return the report on a complete set of n isolated solutions. Answers with equal n share one report."""
    return grant(Evidence(is_exhaustive=True, is_exact=is_exact).with_points(n), wanted)
