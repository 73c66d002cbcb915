"""What is asked of the sampler: one request, validated once, from Python, the command line and the service alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import (
    LARGEST,
    as_number,
    as_numbers,
    checked_flag,
    is_number,
    names_wrong_keywords,
    whole_number,
)
from eim_ros.core.errors import ConfigurationError, JointStateError, PoseError
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.order import Order, Posture, check_order
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.poses import check_pose, is_position

FloatArray = npt.NDArray[np.float64]

Distribution: TypeAlias = str | Callable[[FloatArray], npt.ArrayLike]

DISTRIBUTIONS = ("uniform", "model", "posture")
MOST_SAMPLES = 1_000_000
UNCONSTRAINED = Constraints()


class SampleOptions(TypedDict, total=False):
    """Keywords of `Sampler.sample`, see `SampleRequest`."""

    near: npt.ArrayLike | None
    order: Order | None
    position_only: bool | None
    refine: bool
    distinct: bool | None
    position_tolerance: float
    orientation_tolerance: float
    explore: float | None
    constraints: Constraints | None
    posture: Posture | Mapping[str, float] | None
    until: Completeness | None
    separation: float | None
    distribution: Distribution | None
    temperature: float
    certified: bool
    max_solutions: int | None


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class SampleRequest:
    """Configurations wanted for one pose. Immutable; what it contains was checked when it was made.

    Attributes
    ----------
    pose : (4, 4) array_like
        Wanted pose of the tip in the base frame, also in any of the forms of `pose_forms.FORMS`; of a position (3,)
        alone any orientation will do.
    n : int
        Number of configurations, 1 to 1000000.
    random_seed : int, optional
        At least 0; the same seed gives the same answer on the same kind of processor, unless the timeout cuts it short.
        Fresh if missing.
    near : (dof,) array_like, optional
        Configuration to which solutions should be near [rad or m].
    order : str or mapping of str to float, optional
        How the answer is ordered, see `Ranking`. Default: by `posture` where that is given, else by the distance to
        `near` where that is given, else by density where the model prefers some configurations to others, else "none":
        as found.
    position_only : bool, optional
        Whether any orientation will do; default: as the model's context is a position or a pose; with tolerances per
        axis these decide.
    refine : bool
        Whether samples are moved onto the pose. If not, raw samples are returned and marked valid or not.
    distinct : bool, optional
        Whether near-duplicates (no joint differs by more than 0.01 rad or m) are dropped; default: as `refine`.
    position_tolerance, orientation_tolerance : float
        Largest errors of a valid configuration [m], [rad].
    timeout : float
        [s].
    explore : float, optional
        How much all solutions matter, and not those alone that the model prefers, 0 to 1: how much the weights of the
        experts are tempered, and where solutions are curves the share of the answer that may come from continuation
        along them, see `Search`. 1: curves are traced from end to end, and the answer is spread over them evenly,
        whatever the model prefers. Where more is free up to nine times as many solutions are found, by this share, of
        which those are chosen that are farthest from each other. Default: 1 for 16 and more samples without a model, or
        of one that prefers none, where solutions are curves; 0.85 for others without a model; else 0.
    constraints : Constraints
        Tolerances per axis, narrower limits, fixed joints, no collision.
    posture : Posture, or mapping of str to float, optional
        Preferred values of joints by name [rad] or [m], with equal weights where it is a mapping. With `refine` each
        solution is moved along the self-motion of the arm to the nearest local minimum of the posture's cost, as far as
        limits allow and nothing collides there; never to a higher cost.
    until : Completeness, optional
        Search until it is so sure that no family of solutions is missing, or time is up (TIMED_OUT then), whatever n
        is: for solutions that are curves, of an arm with one joint more than the pose takes, or points in closed form.
        `Samples.completeness` tells what came of it.
    separation : float, optional
        In place of n: as many solutions as it takes for successive ones along each family to be at most so far apart
        [rad, m], for solutions that are curves. Near-duplicates are then nearer than a small part of it. Where the arm
        is singular, and may move in more ways, as many as restarts find that differ by more than it in some joint.
    distribution : "uniform", "model", "posture" or callable, optional
        In place of an even spread: random draws from the set of all solutions, uniform by length, area or volume, with
        the density of the model there, or with exp(-cost / temperature), of the cost of `posture` or one that a
        callable gives of configurations (n, dof) as (n,), infinite where there are to be none; see
        `eim_ros.ik.strategies.densities`. `Samples.log_prob` is the logarithm of that density, normalised on the set,
        and `Samples.effective_size` as many independent draws as these are worth.
    temperature : float
        Of a distribution by a cost, in units of the cost.
    certified : bool
        Whether nothing is to be sampled: all solutions, or all families of them, by closed form with at most one joint
        held. `Samples.certified` tells whether they are known to be all; not where the arm is too close to singular,
        where the search adds to them.
    max_solutions : int, optional
        Largest number of solutions with `separation`, default 1000000.

    Raises
    ------
    PoseError, ConfigurationError
        If a value is malformed. What depends on the robot is checked by `resolved`.
    """

    pose: npt.ArrayLike
    n: int = 100
    random_seed: int | None = None
    near: npt.ArrayLike | None = None
    order: Order | None = None
    position_only: bool | None = None
    refine: bool = True
    distinct: bool | None = None
    position_tolerance: float = 1e-6
    orientation_tolerance: float = 1e-6
    timeout: float = 1.0
    explore: float | None = None
    constraints: Constraints | None = None
    posture: Posture | Mapping[str, float] | None = None
    until: Completeness | None = None
    separation: float | None = None
    distribution: Distribution | None = None
    temperature: float = 1.0
    certified: bool = False
    max_solutions: int | None = None

    def __post_init__(self) -> None:
        check_numbers(
            self.n, self.random_seed, self.position_tolerance, self.orientation_tolerance, self.timeout, self.explore
        )
        put = object.__setattr__
        for name in ("position_tolerance", "orientation_tolerance", "timeout"):
            put(self, name, float(getattr(self, name)))  # numpy's narrower floats overflow early
        put(self, "explore", None if self.explore is None else float(self.explore))
        if self.order is not None:
            check_order(self.order)
        if is_position(self.pose):
            if self.position_only is not None and not self.position_only:
                raise PoseError("a position has no orientation, which position_only=False asks for", self.pose)
            put(self, "position_only", True)
            put(self, "pose", pose_from(self.pose))
        put(self, "pose", _frozen(check_pose(self.pose)))
        if isinstance(self.near, np.ndarray):
            put(self, "near", _frozen(self.near.copy()))
        put(self, "refine", checked_flag(self.refine, "refine"))
        for name in ("position_only", "distinct"):
            value = getattr(self, name)
            put(self, name, None if value is None else checked_flag(value, name))
        put(self, "n", int(self.n))  # of numpy's integers some are too narrow to reckon with
        put(self, "random_seed", None if self.random_seed is None else int(self.random_seed))
        self._check_distribution()
        if self.distinct is None:
            put(self, "distinct", bool(self.refine) and self.distribution is None)
        if self.until is not None and not isinstance(self.until, Completeness):
            raise ConfigurationError(f"until must be a Completeness, got {self.until!r}", self.until)
        if self.separation is not None:
            put(self, "separation", _checked_separation(self.separation))
        if self.max_solutions is not None:
            put(self, "max_solutions", whole_number(self.max_solutions, 1, "max_solutions", MOST_SAMPLES))
        if not self.refine and (self.until is not None or self.separation is not None):
            raise ConfigurationError(
                "raw samples cannot be complete or evenly apart: leave refine as it is", self.refine
            )
        put(self, "certified", checked_flag(self.certified, "certified"))
        if self.certified and not self.refine:
            raise ConfigurationError("raw samples cannot be certified: leave refine as it is", self.refine)
        constraints = UNCONSTRAINED if self.constraints is None else self.constraints
        if not isinstance(constraints, Constraints):
            raise ConfigurationError(f"constraints must be a Constraints object, got {constraints!r}", constraints)
        put(self, "constraints", constraints)
        if self.posture is not None and not isinstance(self.posture, Posture):
            if not isinstance(self.posture, Mapping):
                raise ConfigurationError(f"posture must map joint names to values, got {self.posture!r}", self.posture)
            put(self, "posture", Posture(dict(self.posture)))

    def _check_distribution(self) -> None:
        is_name = isinstance(self.distribution, str) and self.distribution in DISTRIBUTIONS
        if self.distribution is not None and not callable(self.distribution) and not is_name:
            raise ConfigurationError(
                f"distribution must be one of {', '.join(DISTRIBUTIONS)}, or a callable, got {self.distribution!r}",
                self.distribution,
            )
        by_cost = callable(self.distribution) or self.distribution == "posture"
        if not 0.0 < as_number(self.temperature) <= LARGEST:
            raise ConfigurationError(
                f"the temperature must be positive and finite, got {self.temperature!r}", self.temperature
            )
        object.__setattr__(self, "temperature", float(self.temperature))
        if self.temperature != 1.0 and not by_cost:
            raise ConfigurationError(
                "a temperature is for a distribution by a cost: 'posture', or a callable", self.temperature
            )
        if self.distribution is None:
            return
        if self.distribution == "posture" and self.posture is None:
            raise ConfigurationError("distribution 'posture' needs a preferred posture", self.distribution)
        others = ("near", "order", "posture", "explore", "separation", "distinct")
        given = [name for name in others if getattr(self, name) is not None and getattr(self, name) is not False]
        given = [name for name in given if name != "posture" or self.distribution != "posture"]
        if given or not self.refine:
            raise ConfigurationError(
                f"draws from a distribution have no order, spread or preference beside it: leave "
                f"{' and '.join(given) or 'refine=False'} out",
                self.distribution,
            )

    @property
    def reference(self) -> FloatArray | None:
        """`near` as an array."""
        return None if self.near is None else np.asarray(self.near, dtype=np.float64)

    @property
    def preference(self) -> Posture | None:
        """`posture` as such."""
        return self.posture if isinstance(self.posture, Posture) else None

    def resolved(self, robot: Robot, context_kind: str) -> SampleRequest:
        """With what is left open filled in for a robot and a model's kind of context, and checked against the robot.

        Raises
        ------
        JointStateError, ConfigurationError
            If `near` or `posture` do not fit the robot.
        """
        changes: dict[str, Any] = {}
        if self.near is not None:
            changes["near"] = checked_configuration(robot, self.near)
        if self.preference is not None:
            self.preference.of(robot)
        if self.separation is not None:
            changes["n"] = MOST_SAMPLES if self.max_solutions is None else self.max_solutions
        if self.position_only is None:
            tolerances = self.constraints.tolerances if self.constraints else None
            changes["position_only"] = context_kind == "position" and tolerances is None
        return self._with(changes)

    def _with(self, changes: dict[str, Any]) -> SampleRequest:
        """A copy with values that were checked already."""
        copy = object.__new__(SampleRequest)
        copy.__dict__.update(self.__dict__, **changes)
        return copy


def checked_configuration(robot: Robot, near: npt.ArrayLike) -> FloatArray:
    """One configuration (dof,); `JointStateError` where it has another shape or is not finite."""
    names = ", ".join(robot.joint_names)
    wrong = JointStateError(f"the configuration to be near to needs {robot.dof} finite values, of {names}", near)
    try:
        reference = as_numbers(near)
    except (TypeError, ValueError) as error:
        raise wrong from error
    if reference.shape != (robot.dof,) or not (np.abs(reference) <= LARGEST).all():
        raise wrong
    return reference


def _frozen(values: FloatArray) -> FloatArray:
    values.flags.writeable = False
    return values


def _checked_separation(separation: float) -> float:
    if not 1e-3 <= as_number(separation) <= LARGEST:
        raise ConfigurationError(f"the separation must be at least 0.001 and finite, got {separation!r}", separation)
    return float(separation)


def check_numbers(
    n: int,
    random_seed: int | None,
    position_tolerance: float = 1.0,
    orientation_tolerance: float = 1.0,
    timeout: float = 1.0,
    explore: float | None = None,
) -> None:
    """Refuse what is no number or out of its bounds; the comparisons are also false for NaN."""
    wholes: dict[str, object] = {"n": n, "the random seed": 0 if random_seed is None else random_seed}
    for name, whole in wholes.items():
        if type(whole) is not int and (isinstance(whole, bool) or not isinstance(whole, Integral)):
            raise ConfigurationError(f"{name} must be a whole number, got {whole!r}", whole)
    numbers: dict[str, object] = {
        "the position tolerance": position_tolerance,
        "the orientation tolerance": orientation_tolerance,
        "the timeout": timeout,
        "explore": 0.0 if explore is None else explore,
    }
    for name, number in numbers.items():
        if type(number) is not float and not is_number(number):
            raise ConfigurationError(f"{name} must be a number, got {number!r}", number)
    if not n >= 1:
        raise ConfigurationError(f"n must be at least 1, got {n}", n)
    if not n <= MOST_SAMPLES:
        raise ConfigurationError(f"n must be at most {MOST_SAMPLES}, got {n}", n)
    if random_seed is not None and not random_seed >= 0:
        raise ConfigurationError(f"the random seed must be at least 0, got {random_seed}", random_seed)
    for name, tolerance in (("position", position_tolerance), ("orientation", orientation_tolerance)):
        if not tolerance > 0.0:
            raise ConfigurationError(f"the {name} tolerance must be positive, got {tolerance}", tolerance)
    if not timeout >= 0.0:
        raise ConfigurationError(f"the timeout must not be negative, got {timeout}", timeout)
    if explore is not None and not 0.0 <= explore <= 1.0:
        raise ConfigurationError(f"explore must be from 0 to 1, got {explore}", explore)
