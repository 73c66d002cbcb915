"""Requests: the aim of the search and the order of the answer. All arguments of operations are checked here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import LARGEST, as_number, is_number
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.order import AS_FOUND, BY_DENSITY, Order, Ordering, Posture
from eim_ros.ik.setup import Setup

Guarantee: TypeAlias = Completeness | Literal["certified"] | None
Density: TypeAlias = Literal["uniform", "model"] | Posture | Callable[[FloatArray], npt.ArrayLike]
Near: TypeAlias = npt.ArrayLike | Mapping[str, float] | Posture
Revolutions: TypeAlias = Literal["all", "one"]
Progress: TypeAlias = Callable[[int, int], None]  # takes the number of finished poses and the number of all poses

MAX_SOLUTIONS = 1_000_000
N_NEAR = 128  # number of solutions whose costs are compared to find the best one
ARRAYS = (list, tuple, np.ndarray)


@dataclass(frozen=True)
class Spread:
    """Find `n` distinct solutions.

    Attributes
    ----------
    n : int
    diversity : float, optional
        From 0 (samples of the model) to 1 (evenly over the set of solutions). The default depends on the arm and `n`.
    among : int
        Number of solutions from which the best `n` are chosen. It has no effect unless it is larger than `n`.
    from_model : bool
        Whether the seeds come from the model, if there is one.
    revolutions : "all" or "one"
        Whether 2π-equivalent solutions count separately.
    """

    n: int
    diversity: float | None = None
    among: int = 0
    from_model: bool = True
    revolutions: Revolutions = "all"
    guarantee: ClassVar[None] = None
    max_spacing: ClassVar[None] = None

    @property
    def n_searched(self) -> int:
        """Number of solutions to look for."""
        return max(self.n, self.among)


@dataclass(frozen=True)
class Covering:
    """Find all solutions. Neighbours along a self-motion are at most `max_spacing` [rad, m] apart."""

    max_spacing: float
    max_solutions: int = MAX_SOLUTIONS
    guarantee: Guarantee = None
    revolutions: Revolutions = "all"

    @property
    def n(self) -> int:
        """Largest number of solutions."""
        return self.max_solutions

    @property
    def n_searched(self) -> int:
        """Number of solutions to look for."""
        return self.max_solutions


@dataclass(frozen=True)
class Draws:
    """Draw `n` independent solutions from a density on the set of all solutions; see `Sampler.draw`."""

    n: int
    density: Density = "uniform"
    temperature: float = 1.0
    guarantee: Guarantee = None
    max_spacing: ClassVar[None] = None
    revolutions: ClassVar[Revolutions] = "all"

    @property
    def n_searched(self) -> int:
        """Number of draws."""
        return self.n


@dataclass(frozen=True)
class Proposals:
    """Draw `n` configurations from the model, without solving them."""

    n: int
    guarantee: ClassVar[None] = None
    max_spacing: ClassVar[None] = None
    revolutions: ClassVar[Revolutions] = "all"

    @property
    def n_searched(self) -> int:
        """Number of draws."""
        return self.n


Aim: TypeAlias = Spread | Covering | Draws | Proposals
ONE = Spread(1)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checks of the arguments of operations. Each check returns the aim and the order of a request."""

    setup: Setup
    has_model: bool
    has_preference: bool

    def one(self, near: Near | None) -> tuple[Spread, Ordering]:
        """Return the request for one solution."""
        if near is None or not self.is_partial(near):
            return Spread(1, from_model=self.has_preference), self._ordering(None, near, None)
        return Spread(1, 1.0, N_NEAR, self.has_preference), self._ordering("posture", None, near)

    def several(
        self,
        n: int,
        near: Near | None,
        posture: Posture | Mapping[str, float] | None,
        order: Order | None,
        diversity: float | None,
        revolutions: Revolutions,
    ) -> tuple[Spread, Ordering]:
        """Return the request for several solutions.

        By default, a model without a preference supplies no seeds. Its seeds would take time and cover less of the set
        of solutions.
        """
        n = checked_count(n, "n")
        is_partial = near is not None and self.is_partial(near)
        if is_partial and posture is not None:
            raise ConfigurationError(
                "a near that names only some joints acts as a posture: give either near or posture", near
            )
        if is_partial:
            ordering = replace(self._ordering(order, None, near), moves=False)
        else:
            ordering = self._ordering(order, near, posture)
        from_model = self.has_preference or diversity is not None or ordering.needs_density
        if diversity is not None:
            if not 0.0 <= as_number(diversity) <= 1.0:
                raise ConfigurationError(f"diversity must be a number from 0 to 1, got {diversity!r}", diversity)
            diversity = float(diversity)
        elif self.has_model and near is None and from_model:
            diversity = 0.0
        among = max(n, N_NEAR) if is_partial else 0
        return Spread(n, diversity, among, from_model, _checked_revolutions(revolutions)), ordering

    def everything(
        self,
        max_spacing: float,
        guarantee: Guarantee,
        near: Near | None,
        order: Order | None,
        max_solutions: int,
        revolutions: Revolutions,
    ) -> tuple[Covering, Ordering]:
        """Return the request for all solutions."""
        if not 1e-3 <= as_number(max_spacing) <= LARGEST:
            raise ConfigurationError(f"max_spacing must be finite and at least 0.001, got {max_spacing!r}", max_spacing)
        max_solutions, guarantee = checked_count(max_solutions, "max_solutions"), _checked_guarantee(guarantee)
        aim = Covering(float(max_spacing), max_solutions, guarantee, _checked_revolutions(revolutions))
        if near is None or not self.is_partial(near):
            return aim, self._ordering(order, near, None)
        return aim, replace(self._ordering(order, None, near), moves=False)

    def draws(self, n: int, density: Density, temperature: float, guarantee: Guarantee) -> tuple[Draws, Ordering]:
        """Return the request for draws from a density on the solutions."""
        if isinstance(density, Posture):
            density.of(self.setup.robot)
        elif not callable(density) and not (isinstance(density, str) and density in ("uniform", "model")):
            raise ConfigurationError(
                f"density must be 'uniform', 'model', a Posture or a function of configurations, got {density!r}",
                density,
            )
        if not 0.0 < as_number(temperature) <= LARGEST:
            raise ConfigurationError(f"temperature must be positive and finite, got {temperature!r}", temperature)
        if temperature != 1.0 and isinstance(density, str):
            raise ConfigurationError("a temperature needs a cost: give a Posture or a function as density", temperature)
        return Draws(checked_count(n, "n"), density, float(temperature), _checked_guarantee(guarantee)), AS_FOUND

    def _ordering(
        self, order: Order | None, near: Near | None, posture: Posture | Mapping[str, float] | npt.ArrayLike | None
    ) -> Ordering:
        """Return the requested order, or the default."""
        if near is None and posture is None and order is None:
            return BY_DENSITY if self.has_preference else AS_FOUND
        if posture is not None and not isinstance(posture, Posture):
            if not isinstance(posture, Mapping):
                raise ConfigurationError(f"posture must map joint names to values, got {posture!r}", posture)
            posture = Posture(dict(posture))
        reference = None if near is None else self.configuration(near)
        if posture is not None:
            posture.of(self.setup.robot)
        if order is None:
            order = "posture" if posture is not None else "distance"
        ordering = Ordering(order, reference, posture)
        if ordering.needs_density and not self.has_model:
            raise ConfigurationError(
                "ordering by density needs a model: give one by Sampler.load, or choose another order", order
            )
        return ordering

    def is_partial(self, near: Near) -> bool:
        """Return whether `near` is a posture, or names only some of the joints."""
        if isinstance(near, Mapping):
            return set(near) != set(self.setup.robot.joint_names)
        return isinstance(near, Posture)

    def configuration(self, near: Near) -> FloatArray:
        """Return `near` as a configuration (dof,). Values of a mapping are put in the order of the robot's joints."""
        if isinstance(near, (Posture, Mapping)):
            if self.is_partial(near):
                names = ", ".join(self.setup.robot.joint_names)
                raise ConfigurationError(f"near must give a value for each of the joints {names}", near)
            near = [near[name] for name in self.setup.robot.joint_names]  # type: ignore[index]  # a mapping of all joints
        return self.setup.configuration(near)


def _checked_guarantee(guarantee: Guarantee) -> Guarantee:
    if guarantee is None or isinstance(guarantee, Completeness):
        return guarantee
    if isinstance(guarantee, str) and guarantee == "certified":
        return "certified"
    raise ConfigurationError(f"guarantee must be a Completeness, 'certified' or None, got {guarantee!r}", guarantee)


def _checked_revolutions(revolutions: Any) -> Revolutions:
    if not isinstance(revolutions, str) or revolutions not in ("all", "one"):
        raise ConfigurationError(f"revolutions must be 'all' or 'one', got {revolutions!r}", revolutions)
    return cast(Revolutions, revolutions)


def checked_count(value: Any, name: str) -> int:
    """Return a number of solutions, or raise `ConfigurationError` if it is not from 1 to MAX_SOLUTIONS."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        is_orientation = isinstance(value, ARRAYS) or hasattr(type(value), "as_quat")
        hint = "; pose is (position, orientation)" if is_orientation else ""
        told = " ".join(repr(value).split())
        raise ConfigurationError(f"{name} must be a whole number, got {told}{hint}", value)
    if not 1 <= int(value) <= MAX_SOLUTIONS:
        raise ConfigurationError(f"{name} must be at least 1 and at most {MAX_SOLUTIONS}, got {value}", value)
    return int(value)


def checked_progress(value: Any) -> Progress:
    """Return the function, or a function without effect for None. Raise `ConfigurationError` if it is not callable."""
    if value is None:
        return lambda done, total: None
    if not callable(value):
        raise ConfigurationError(f"progress must be callable, got {value!r}", value)
    return cast(Progress, value)


def checked_seed(value: Any) -> int | None:
    """Return a seed, or raise `ConfigurationError` if it is neither None nor a whole number of at least 0."""
    if value is None:
        return None
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        hint = "; near=q starts from a configuration" if isinstance(value, ARRAYS) else ""
        raise ConfigurationError(f"seed must be a whole number or None, got {value!r}{hint}", value)
    if int(value) < 0:
        raise ConfigurationError(f"seed must be at least 0, got {value}", value)
    return int(value)


def checked_timeout(value: Any) -> float:
    """Return a timeout [s], or raise `ConfigurationError` if it is not a number of at least 0."""
    if not is_number(value):
        raise ConfigurationError(f"timeout must be a number [s], got {value!r}", value)
    if not value >= 0.0:  # also rejects NaN
        raise ConfigurationError(f"timeout must be at least 0, got {value}", value)
    return float(value)
