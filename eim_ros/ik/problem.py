"""Verification: configurations are measured by forward kinematics against what a request asks for.

What came of a request, in a code and in words.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eim_ros.core.deadlines import NEVER, is_past, with_grace
from eim_ros.ik.candidates import ErrorCode, Pool
from eim_ros.ik.completeness import FoundFamilies
from eim_ros.ik.constraints import Constraints, LinkCheck
from eim_ros.ik.order import Posture
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import CollisionScene
from eim_ros.kinematics.robot import MAX_ITERATIONS
from eim_ros.kinematics.tolerances import make_task, redundancy
from eim_ros.solver import Effort, Task

FloatArray = npt.NDArray[np.float64]

PATIENCE = 3  # of the refiner: another seed is cheaper than a longer attempt
HALVINGS = 8  # of the way to an obstacle: the last is shorter than 1/100 of what a joint moves
DESCENDED_AT_ONCE = 16  # configurations moved between two looks at the clock; with tolerances one may take 3 ms


@dataclass(frozen=True, eq=False)
class Goal:
    """What a request asks of each configuration: a pose, how close to it, and constraints.

    Attributes that follow from these: `lower` and `upper` (dof,), the limits of the request [rad] or [m]; `bounds`
    (3, dof), the limits and which joints wrap, see `JointLimits`, and `task`, all of it but collisions, for the solver.

    The deadline is a time of `perf_counter` [s]: until then shapes are prepared, else there is `OutOfTime`, and
    configurations checked further. Those for which there is no time do not count as valid.
    """

    robot: Robot
    pose: FloatArray
    position_only: bool
    position_tolerance: float
    orientation_tolerance: float
    constraints: Constraints = field(default_factory=Constraints)
    deadline: float = NEVER
    lower: FloatArray = field(init=False)
    upper: FloatArray = field(init=False)
    bounds: FloatArray = field(init=False)
    task: Task = field(init=False, repr=False)
    _scene: CollisionScene | None = field(init=False, repr=False)
    _links: LinkCheck | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lower, upper = self.constraints.bounds(self.robot)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        bounds = self.robot.limits.narrowed(lower, upper).bounds if self.narrows else self.robot.bounds
        object.__setattr__(self, "bounds", bounds)
        task = make_task(
            bounds,
            self.pose,
            self.position_only,
            self.constraints.tolerances,
            self.position_tolerance,
            self.orientation_tolerance,
        )
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "_scene", self.constraints.scene(self.robot, with_grace(self.deadline)))
        object.__setattr__(self, "_links", self.constraints.link_check(self.robot))

    @classmethod
    def of(cls, robot: Robot, request: SampleRequest, deadline: float = NEVER) -> Goal:
        """Of a request that was fitted to the robot."""
        constraints = request.constraints or Constraints()
        pose = np.asarray(request.pose)
        tolerances = request.position_tolerance, request.orientation_tolerance
        return cls(robot, pose, bool(request.position_only), *tolerances, constraints, deadline)

    def at(self, pose: FloatArray, bounds: FloatArray) -> Goal:
        """The same at another pose (4, 4), and with other bounds (3, dof) for the solver; checks are shared."""
        goal = copy.copy(self)
        task = make_task(
            bounds,
            pose,
            self.position_only,
            self.constraints.tolerances,
            self.position_tolerance,
            self.orientation_tolerance,
        )
        for name, value in (("pose", pose), ("bounds", bounds), ("task", task)):
            object.__setattr__(goal, name, value)
        return goal

    @property
    def narrows(self) -> bool:
        """Whether the limits are narrower than the robot's."""
        return self.lower is not self.robot.lower

    @property
    def redundancy(self) -> int:
        """Dimensions of the self-motion, see `redundancy`; they may be negative."""
        return redundancy(self.bounds, self.position_only)

    @property
    def is_checked(self) -> bool:
        """Whether configurations that reach the pose are checked further: for collisions, or where links are."""
        return self._scene is not None or self._links is not None

    @property
    def is_within_reach(self) -> bool:
        """Whether the arm is as long as the wanted position is away; it may be out of reach nevertheless."""
        away = math.hypot(*self.pose[:3, 3].tolist())
        return away <= self.robot.reach + self.position_tolerance + self.constraints.slack

    @property
    def n_colliding(self) -> int:
        """How many configurations were met that reach the pose, but collide."""
        return 0 if self._scene is None else self._scene.n_colliding

    @property
    def n_violating(self) -> int:
        """How many configurations were met that reach the pose, but with a link where it must not be."""
        return 0 if self._links is None else self._links.n_violating

    @property
    def n_unchecked(self) -> int:
        """How many configurations there was no time to check further."""
        return (0 if self._scene is None else self._scene.n_unchecked) + (
            0 if self._links is None else self._links.n_unchecked
        )

    def refined(self, positions: FloatArray, expert: npt.NDArray[np.uint32], patience: int = PATIENCE) -> Pool:
        """Configurations moved onto the pose, and verified."""
        refined, *_ = self.robot.chain.refine(self.task, self.effort(patience), self.turned(positions))
        return self.verified(refined, expert)

    def turned(self, positions: FloatArray) -> FloatArray:
        """Configurations (n, dof), continuous joints of narrower limits within half a turn of 0."""
        if self.narrows:  # before they are clamped: a narrowed continuous joint does not wrap by itself
            turned = (positions + np.pi) % (2.0 * np.pi) - np.pi
            positions = np.where(self.robot.continuous, turned, positions)
        return positions

    def effort(self, patience: int = PATIENCE) -> Effort:
        """Of the refiner."""
        return Effort(float(self.position_tolerance), float(self.orientation_tolerance), MAX_ITERATIONS, patience)

    def descended(self, pool: Pool, posture: Posture, deadline: float) -> tuple[Pool, bool]:
        """Valid configurations moved towards a posture, see `Robot.descend`, and whether time was up before the last.

        One that an obstacle stops goes as far as it may. One whose cost would be higher stays where it is. The
        deadline is a time of `perf_counter` [s].
        """
        preferred, weights = posture.of(self.robot)
        positions, valid = pool.positions.copy(), np.flatnonzero(pool.valid)
        n_moved = 0
        while n_moved < len(valid) and time.perf_counter() < deadline:
            rows = valid[n_moved : n_moved + DESCENDED_AT_ONCE]
            n_moved += len(rows)
            positions[rows] = self.robot.chain.descend(
                self.task, positions[rows], preferred, weights / weights.max(), self.robot.continuous
            )
        moved = self.verified(positions, pool.expert)
        stopped = np.flatnonzero(pool.valid & ~moved.valid)
        if self.is_checked and len(stopped):
            rows = np.arange(len(pool))
            rows[stopped] = len(pool) + np.arange(len(stopped))
            moved = moved.joined(self._as_far_as_valid(pool.pick(stopped), positions[stopped])).pick(rows)
        costs = posture.costs(self.robot, np.concatenate([moved.positions, pool.positions])).reshape(2, -1)
        stays = pool.valid & ~(moved.valid & (costs[0] <= costs[1]))
        rows = np.arange(len(pool)) + len(pool) * stays
        return moved.joined(pool).pick(rows), n_moved < len(valid)

    def _as_far_as_valid(self, start: Pool, goal: FloatArray) -> Pool:
        """Valid configurations moved towards others (n, dof) that are not, each as far as halving the way leads."""
        reached, stopped, rows = start, goal, np.arange(len(start))
        for _ in range(HALVINGS):
            if is_past(self.deadline):
                break
            middle = self.refined(0.5 * (reached.positions + stopped), start.expert)
            stopped = np.where(middle.valid[:, None], stopped, middle.positions)
            reached = middle.joined(reached).pick(rows + len(start) * ~middle.valid)
        return reached

    def verified(self, positions: FloatArray, expert: npt.NDArray[np.uint32]) -> Pool:
        """Configurations as they are, measured by forward kinematics, and checked further."""
        pool = self.measured(positions, expert)
        if self.is_checked:
            reaching = np.flatnonzero(pool.valid)
            pool.valid[reaching] = self.allowed(positions[reaching])
        return pool

    def measured(self, positions: FloatArray, expert: npt.NDArray[np.uint32]) -> Pool:
        """Configurations as they are, measured by forward kinematics; those that were checked further already."""
        errors, valid = self.robot.chain.verify(self.task, positions)
        return Pool(positions, errors[0], errors[1], valid, expert)

    def allowed(self, positions: FloatArray) -> npt.NDArray[np.bool_]:
        """Which of the configurations (n, dof), which reach the pose, have their links in place and do not collide."""
        found = np.ones(len(positions), dtype=np.bool_)
        if self._links is not None:
            found = self._links.satisfied(positions, self.deadline)
        if self._scene is not None:
            found[found] = ~self._scene.colliding(positions[found], self.deadline)
        return found


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
