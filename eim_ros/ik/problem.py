"""One inverse kinematics problem: a pose, constraints, the aim of the search, and the verification of solutions.

A `Setup` is a robot with its constraints, resolved once for each sampler. A `Problem` adds the arguments of one call.
Strategies solve it, and `outcome` describes the result by an error code and a message.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import LARGEST, as_numbers
from eim_ros.core.deadlines import NEVER, is_past, with_grace
from eim_ros.core.errors import JointStateError
from eim_ros.core.portable import length
from eim_ros.ik.candidates import Candidates, ErrorCode
from eim_ros.ik.completeness import Completeness, CompletenessReport
from eim_ros.ik.constraints import BranchCheck, Constraints, LinkCheck
from eim_ros.ik.order import AS_FOUND, Ordering, Posture
from eim_ros.ik.prior import NO_COMPONENTS, ConditionalMixture
from eim_ros.ik.revolutions import TURN
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import CollisionScene
from eim_ros.kinematics.robot import MAX_ITERATIONS
from eim_ros.kinematics.tolerances import checked_tolerances, redundancy
from eim_ros.kinematics.urdf import TRANSLATION
from eim_ros.solver import NO_EXPERT, StepOptions, Task

Guarantee: TypeAlias = Completeness | Literal["certified"] | None
Density: TypeAlias = Literal["uniform", "model"] | Posture | Callable[[FloatArray], npt.ArrayLike]

MAX_SOLUTIONS = 1_000_000
PATIENCE = 3  # iterations without progress before the solver gives up; another seed costs less than a longer attempt
COLLISION_STEP = 0.02  # largest motion of a joint between two checks of a motion for collisions [rad or m]
HALVINGS = 8  # number of bisections of the way to an obstacle; the last one is below 1/100 of a joint's motion
MOVED_AT_ONCE = 16  # configurations moved between two checks of the deadline; with tolerances one may take 3 ms
FIXED = 1e-5  # [m, rad]: with larger tolerances, a collision at the tip is no proof for all configurations
ROUNDING = 1e-12  # relative error of the length of an arm
OUT_OF_REACH = "because the target is farther away than the arm is long"
NO_TOLERANCES = np.empty(0)


@dataclass(frozen=True)
class Spread:
    """Find `n` distinct solutions.

    Attributes
    ----------
    n : int
    diversity : float, optional
        From 0 (samples of the model) to 1 (evenly over the set of solutions). Default: depends on the arm and `n`.
    among : int
        Number of solutions to choose the best `n` from. It has no effect if it is not larger than `n`.
    """

    n: int
    diversity: float | None = None
    among: int = 0
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

    @property
    def n_searched(self) -> int:
        """Number of draws."""
        return self.n


Aim: TypeAlias = Spread | Covering | Draws | Proposals
ONE = Spread(1)


class Setup:
    """A robot and constraints, checked against each other once; immutable, so threads may share it.

    Parameters
    ----------
    robot : Robot
    constraints : Constraints

    Attributes
    ----------
    lower, upper : (dof,)
        Limits of the joints within the constraints [rad] or [m].
    bounds : (3, dof)
        Rows: lower limits, upper limits, and 1 for joints that wrap; see `JointLimits`.
    tolerances : (6,), optional
        Tolerances along and about the axes of the target frame [m, rad].
    effort : StepOptions
        Tolerances of the numerical solver, and its number of iterations without progress.
    slack : float
        Farthest distance of the tip from the target that the tolerances allow [m].
    first_joint : (3,)
        Position of the first joint, which stays where it is [m].
    length : float
        Largest distance of the tip from the first joint [m].
    is_narrowed : bool
        Whether the limits are narrower than the robot's.
    plausible : list of (float, float)
        Range of each joint beyond which a configuration is refused, because it seems to be in degrees [rad] or [m].
    redundancies : (int, int)
        Dimension of the self-motion at a pose, and at a position; negative if the arm has too few joints.
    is_checked : bool
        Whether configurations that reach the pose are checked further, for collisions, links or a branch.

    Raises
    ------
    ConstraintError
        If the robot has no such joint or link, or if a limit exceeds the limits of the robot.
    """

    __slots__ = (
        *("bounds", "constraints", "effort", "first_joint", "is_checked", "is_narrowed", "length", "lower"),
        *("plausible", "redundancies", "robot", "slack", "tolerances", "upper"),
    )

    def __init__(self, robot: Robot, constraints: Constraints) -> None:
        self.robot, self.constraints = robot, constraints
        self.lower, self.upper = constraints.bounds(robot)
        self.is_narrowed = self.lower is not robot.lower
        self.bounds = robot.limits.narrowed(self.lower, self.upper).bounds if self.is_narrowed else robot.bounds
        self.tolerances = None if constraints.tolerances is None else checked_tolerances(constraints.tolerances)
        self.slack, self.first_joint = constraints.slack, robot.links[0, TRANSLATION]
        self.length = (robot.reach - float(length(self.first_joint))) * (1.0 + ROUNDING)
        self.redundancies = redundancy(self.bounds, False), redundancy(self.bounds, True)
        self.effort = self.effort_of(PATIENCE)
        self.plausible = _plausible(robot)
        self.is_checked = bool(
            constraints.self_collision or constraints.obstacles or constraints.links or constraints.branch
        )
        if constraints.links:
            constraints.link_check(robot)
        if constraints.branch:
            constraints.branch_check(robot)

    def reaching(self, poses: FloatArray) -> Setup:
        """Return the setup with unlimited slides limited to the range that poses (n, 4, 4) need.

        See `Robot.reaching_limits`. Almost all robots have no such slides.
        """
        robot = self.robot
        if not len(robot.unlimited_slides) or not len(poses):
            return self
        slack = self.slack + self.constraints.position_tolerance
        setup = copy.copy(self)
        setup.lower, setup.upper = robot.reaching_limits(poses[:, :3, 3], slack, self.lower, self.upper)
        setup.bounds = robot.limits.narrowed(setup.lower, setup.upper).bounds
        return setup

    def task(self, pose: FloatArray, position_only: bool, bounds: FloatArray | None = None) -> Task:
        """Return the solver's form of the problem, with narrower `bounds` (3, dof) if they are given."""
        constraints, tolerances = self.constraints, NO_TOLERANCES
        if self.tolerances is not None:
            tolerances = self.tolerances
            if position_only:
                tolerances = np.concatenate([tolerances[:3], np.full(3, np.inf)])
        return Task(
            self.bounds if bounds is None else bounds,
            pose,
            position_only,
            tolerances,
            constraints.position_tolerance,
            constraints.orientation_tolerance,
        )

    def are_within_reach(self, poses: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which poses (n, 4, 4) are no farther from the first joint than the arm is long.

        No configuration reaches the others. Those within may be out of reach nevertheless.
        """
        away = length(poses[:, :3, 3] - self.first_joint)
        return np.asarray(away <= self.length + self.constraints.position_tolerance + self.slack)

    def effort_of(self, patience: int) -> StepOptions:
        """Return the options of the numerical solver, with a number of iterations without progress."""
        constraints = self.constraints
        return StepOptions(constraints.position_tolerance, constraints.orientation_tolerance, MAX_ITERATIONS, patience)

    def is_position_only(self, context_kind: str) -> bool:
        """Return whether any orientation is accepted at a pose (4, 4), for a model with this kind of context."""
        chosen = self.constraints.position_only
        return chosen if chosen is not None else context_kind == "position" and self.tolerances is None

    def configuration(self, near: npt.ArrayLike) -> FloatArray:
        """Return a configuration (dof,); raise `JointStateError` if it has another shape or is not finite."""
        cause: Exception | None = None
        try:
            q = as_numbers(near)
            if q.shape == self.lower.shape and all(abs(value) <= LARGEST for value in q.tolist()):
                for name, value, (least, most) in zip(self.robot.joint_names, q.tolist(), self.plausible, strict=True):
                    if not least <= value <= most:
                        raise JointStateError(
                            f"near is {value:g} at {name}, beyond its limits; angles are in radians", q
                        )
                return q
        except (TypeError, ValueError) as error:
            cause = error
        names = ", ".join(self.robot.joint_names)
        raise JointStateError(f"near needs {self.robot.dof} finite values, of {names}", near) from cause


def _plausible(robot: Robot) -> list[tuple[float, float]]:
    """Return a range for each joint: a revolution beyond its limits, without bounds for slides and joints that wrap."""
    lower, upper, wraps = robot.bounds
    beyond = np.where((wraps > 0.0) | robot.prismatic, np.inf, TURN)
    return list(zip((lower - beyond).tolist(), (upper + beyond).tolist(), strict=True))


class Problem:
    """Requirements of one call on each configuration and on the answer.

    Parameters
    ----------
    setup : Setup
    pose : (4, 4)
        Pose of the tip in the base frame.
    position_only : bool
        Whether any orientation is accepted.
    aim : Spread, Covering, Draws or Proposals
    order : Ordering
        Order of the answer.
    conditional : ConditionalMixture
        The model given the pose; without components if there is no model.
    seed : int, optional
        Seed of random numbers. Default: a fresh one.
    deadline : float
        A time of `perf_counter` [s]. Configurations that were not checked in time do not count as valid.
    until_deadline : bool
        Whether the search continues until the deadline while there is no solution, and no proof that there is none.
        Otherwise it ends after a number of restarts.

    Attributes
    ----------
    redundancy : int
        Dimension of the self-motion; negative if the arm has fewer joints than the task needs.

    Raises
    ------
    OutOfTime
        If collision shapes cannot be prepared before the deadline.
    """

    __slots__ = (
        *("_branch", "_links", "_scene", "aim", "bounds", "conditional", "deadline", "order", "pose"),
        *("position_only", "redundancy", "robot", "seed", "setup", "task", "until_deadline"),
    )

    def __init__(
        self,
        setup: Setup,
        pose: FloatArray,
        position_only: bool,
        aim: Aim = ONE,
        order: Ordering = AS_FOUND,
        *,
        conditional: ConditionalMixture = NO_COMPONENTS,
        seed: int | None = None,
        deadline: float = NEVER,
        until_deadline: bool = False,
    ) -> None:
        self.setup, self.robot, self.bounds = setup, setup.robot, setup.bounds
        self.pose, self.position_only = pose, position_only
        self.aim, self.order, self.seed, self.deadline = aim, order, seed, deadline
        self.conditional, self.until_deadline = conditional, until_deadline
        self.task = setup.task(pose, position_only)
        self.redundancy = setup.redundancies[position_only]
        self._scene: CollisionScene | None = None
        self._links: LinkCheck | None = None
        self._branch: BranchCheck | None = None
        if not setup.is_checked:
            return
        constraints = setup.constraints
        if constraints.self_collision or constraints.obstacles:  # a scene serves only one thread, and counts collisions
            self._scene = constraints.scene(setup.robot, with_grace(deadline))
        if constraints.links:
            self._links = constraints.link_check(setup.robot)
        if constraints.branch:
            self._branch = constraints.branch_check(setup.robot)

    def at(self, pose: FloatArray, bounds: FloatArray) -> Problem:
        """Return the problem for another pose (4, 4) with other bounds (3, dof); both share the checks."""
        other = copy.copy(self)
        other.pose, other.bounds = pose, bounds
        other.task = self.setup.task(pose, self.position_only, bounds)
        other.redundancy = redundancy(bounds, self.position_only)
        return other

    def with_aim(self, aim: Aim, order: Ordering = AS_FOUND) -> Problem:
        """Return the same problem with another aim."""
        other = copy.copy(self)
        other.aim, other.order = aim, order
        return other

    @property
    def n(self) -> int:
        """Number of solutions to look for."""
        return self.aim.n_searched

    @property
    def tolerances(self) -> FloatArray | None:
        """Tolerances per axis (6,) of the constraints."""
        return self.setup.tolerances

    @property
    def effort(self) -> StepOptions:
        """Tolerances of the numerical solver, and its number of iterations without progress."""
        return self.setup.effort

    def effort_of(self, patience: int) -> StepOptions:
        """Return the same options with another number of iterations without progress."""
        return self.setup.effort_of(patience)

    @property
    def guarantee(self) -> Guarantee:
        """Requested guarantee of completeness."""
        return self.aim.guarantee

    @property
    def until(self) -> Completeness | None:
        """Bound that the search must reach; None if no bound was requested."""
        guarantee = self.aim.guarantee
        return guarantee if isinstance(guarantee, Completeness) else None

    @property
    def is_certified(self) -> bool:
        """Whether only closed forms may prove completeness."""
        return self.aim.guarantee == "certified"

    @property
    def max_spacing(self) -> float | None:
        """Largest distance between neighbours [rad, m] if all solutions are requested, otherwise None."""
        return self.aim.max_spacing

    @property
    def is_sampled(self) -> bool:
        """Whether solutions are samples of the model: its experts supply the seeds, and nothing else is requested."""
        aim, is_modelled = self.aim, len(self.conditional.log_weights) > 0
        return is_modelled and isinstance(aim, Spread) and aim.diversity == 0.0 and self.order.reference is None

    @property
    def near(self) -> FloatArray | None:
        """Reference (dof,) if distance from it is the only criterion, otherwise None."""
        order = self.order
        return order.reference if order.criterion == "distance" and order.posture is None else None

    @property
    def is_curve(self) -> bool:
        """Whether the solutions, if there are any, form curves."""
        return self.redundancy == 1 and self.tolerances is None

    @property
    def is_checked(self) -> bool:
        """Whether configurations that reach the pose are checked further, for collisions, links or a branch."""
        return self._scene is not None or self._links is not None or self._branch is not None

    @property
    def avoids_collisions(self) -> bool:
        """Whether configurations are checked for collisions."""
        return self._scene is not None

    @property
    def is_within_reach(self) -> bool:
        """Whether the target is within the length of the arm, see `Setup.are_within_reach`."""
        setup = self.setup
        x, y, z = (self.pose[:3, 3] - setup.first_joint).tolist()
        farthest = setup.length + setup.constraints.position_tolerance + setup.slack
        return math.sqrt(x * x + y * y + z * z) <= farthest  # as above, at a tenth of the time

    @property
    def n_colliding(self) -> int:
        """Number of configurations that reach the pose, but collide."""
        return 0 if self._scene is None else self._scene.n_colliding

    @property
    def n_violating(self) -> int:
        """Number of configurations that reach the pose, but violate a condition on a link."""
        return 0 if self._links is None else self._links.n_violating

    @property
    def n_outside_branch(self) -> int:
        """Number of configurations that reach the pose, but are in other branches or on a boundary of branches."""
        return 0 if self._branch is None else self._branch.n_outside

    @property
    def n_unchecked(self) -> int:
        """Number of configurations that were not checked in time."""
        scene, links = self._scene, self._links
        return (0 if scene is None else scene.n_unchecked) + (0 if links is None else links.n_unchecked)

    def solved(self, q: FloatArray, expert: npt.NDArray[np.uint32], patience: int = PATIENCE) -> Candidates:
        """Return configurations (n, dof) moved onto the pose and verified."""
        moved, *_ = self.robot.chain.refine(self.task, self.effort_of(patience), self.unwound(q))
        return self.verified(moved, expert)

    def unwound(self, q: FloatArray) -> FloatArray:
        """Return configurations (n, dof) with continuous joints moved between -pi and pi if limits are narrowed.

        The solver treats a joint with narrowed limits as a joint with limits. It would clamp a value of another
        revolution.
        """
        if not self.setup.is_narrowed:
            return q
        return np.where(self.robot.continuous, (q + np.pi) % (2.0 * np.pi) - np.pi, q)

    def optimized(self, found: Candidates, posture: Posture, deadline: float) -> tuple[Candidates, bool]:
        """Move solutions along the null space towards a posture; also return whether time ended before the last.

        A solution stops at the first obstacle. It is not moved if its cost would increase. The deadline is a time of
        `perf_counter` [s].
        """
        preferred, weights = posture.of(self.robot)
        q, valid = found.q.copy(), np.flatnonzero(found.valid)
        n_moved = 0
        while n_moved < len(valid) and time.perf_counter() < deadline:
            rows = valid[n_moved : n_moved + MOVED_AT_ONCE]
            n_moved += len(rows)
            q[rows] = self.robot.chain.descend(
                self.task, q[rows], preferred, weights / weights.max(), self.robot.continuous
            )
        if not n_moved:
            return found, len(valid) > 0
        moved = self.verified(q, found.expert)
        stopped = np.flatnonzero(found.valid & ~moved.valid)
        if self.is_checked and len(stopped):
            rows = np.arange(len(found))
            rows[stopped] = len(found) + np.arange(len(stopped))
            moved = moved.joined(self._as_far_as_valid(found.pick(stopped), q[stopped])).pick(rows)
        costs = posture.costs(self.robot, np.concatenate([moved.q, found.q])).reshape(2, -1)
        stays = found.valid & ~(moved.valid & (costs[0] <= costs[1]))
        rows = np.arange(len(found)) + len(found) * stays
        return moved.joined(found).pick(rows), n_moved < len(valid)

    def _as_far_as_valid(self, start: Candidates, goal: FloatArray) -> Candidates:
        """Move valid configurations towards invalid ones (n, dof) by bisection, as far as they stay valid."""
        reached, stopped, rows = start, goal, np.arange(len(start))
        for _ in range(HALVINGS):
            if is_past(self.deadline):
                break
            middle = self.solved(0.5 * (reached.q + stopped), start.expert)
            stopped = np.where(middle.valid[:, None], stopped, middle.q)
            reached = middle.joined(reached).pick(rows + len(start) * ~middle.valid)
        return reached

    def verified(self, q: FloatArray, expert: npt.NDArray[np.uint32]) -> Candidates:
        """Return configurations (n, dof) as they are, with errors by forward kinematics and all checks."""
        found = self.measured(q, expert)
        if self.is_checked:
            reaching = np.flatnonzero(found.valid)
            found.valid[reaching] = self.allowed(q[reaching])
        return found

    def measured(self, q: FloatArray, expert: npt.NDArray[np.uint32]) -> Candidates:
        """Return configurations (n, dof) with errors by forward kinematics; collisions were checked before."""
        errors, valid = self.robot.chain.verify(self.task, q)
        return Candidates(q, errors[0], errors[1], valid, expert)

    def allowed(self, q: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which configurations (n, dof) are in the branch, satisfy conditions on links, and do not collide."""
        found = np.ones(len(q), dtype=np.bool_)
        if self._branch is not None:
            found = self._branch.satisfied(q)
        if self._links is not None:
            found[found] = self._links.satisfied(q[found], self.deadline)
        if self._scene is not None:
            found[found] = ~self._scene.colliding(q[found], self.deadline)
        return found

    def is_excluded_at_tip(self, q: FloatArray) -> bool:
        """Return whether links fixed to the tip collide or violate conditions, in every configuration at the pose.

        The configuration (dof,) is an attempt to reach the pose. The answer is False if it misses the pose, or if the
        tolerances leave room for the pose of the tip.
        """
        scene, links, constraints = self._scene, self._links, self.setup.constraints
        if self.position_only or self.tolerances is not None:
            return False
        if max(constraints.position_tolerance, constraints.orientation_tolerance) > FIXED:
            return False
        if not self.robot.chain.verify(self.task, q[None])[1][0]:
            return False
        return (scene is not None and scene.collides_at_tip(q)) or (links is not None and links.is_violated_at_tip(q))

    def is_free(self, q: FloatArray, motions: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which straight motions (n, dof) from configurations (n, dof) do not collide on the way.

        No joint moves more than COLLISION_STEP between two checks. The ends are not checked. Motions that cannot be
        checked in time count as colliding.
        """
        found = np.ones(len(q), dtype=np.bool_)
        if self._scene is not None and len(q):
            n_parts = np.ceil(np.abs(motions).max(axis=1) / COLLISION_STEP).astype(np.int64)
            motion = np.repeat(np.arange(len(q)), np.maximum(n_parts - 1, 0))
            part = 1 + np.arange(len(motion)) - np.searchsorted(motion, motion)
            is_middle = part == n_parts[motion] // 2
            for some in (is_middle, ~is_middle):  # most motions that collide do so in the middle
                rows = np.flatnonzero(some & found[motion])
                between = q[motion[rows]] + (part[rows] / n_parts[motion[rows]])[:, None] * motions[motion[rows]]
                if len(rows):
                    found[motion[rows[self._scene.colliding(between, self.deadline)]]] = False
        return found


class Found(NamedTuple):
    """Result of a strategy.

    Attributes
    ----------
    candidates : Candidates
    is_final : bool
        Whether no other strategy should be tried.
    timed_out : bool
        Whether time ended in the search.
    is_exhausted : bool
        Whether all solutions are known. A search then only looks for the best attempt.
    is_minor : bool
        Whether solutions of the next strategy come first.
    n_total : float, optional
        Number of solutions, if it is known.
    is_singular : bool
        Whether the arm is known to be singular in one of the solutions.
    report : CompletenessReport, optional
        Report on traced curves or on a closed form.
    log_prob : (n,), optional
        Log densities of draws [nat].
    effective_sample_size : float, optional
        Effective sample size of draws; 0 if solutions could not be drawn from the density.
    free_joints : tuple of str
        Joints that can turn alone or with others while the tip stays.
    n_restarts : int
        Number of seeds of the search.
    """

    candidates: Candidates
    is_final: bool = True
    timed_out: bool = False
    is_exhausted: bool = False
    is_minor: bool = False
    n_total: float | None = None
    is_singular: bool = False
    report: CompletenessReport | None = None
    log_prob: FloatArray | None = None
    effective_sample_size: float | None = None
    free_joints: tuple[str, ...] = ()
    n_restarts: int = 0


def outcome(problem: Problem, found: Found, kept: Candidates, is_cut_short: bool) -> tuple[ErrorCode, str]:
    """Return the error code and message of an answer.

    Parameters
    ----------
    problem : Problem
    found : Found
    kept : Candidates
        Distinct solutions among those found.
    is_cut_short : bool
        Whether there was no time to optimize or compare all solutions.
    """
    aim, n = problem.aim, problem.n
    n_valid = min(kept.n_valid, n)
    n = len(kept) if isinstance(aim, Covering) else n
    timed_out = found.timed_out or is_cut_short or problem.n_unchecked > 0
    if timed_out:
        code, reason = ErrorCode.TIMED_OUT, "timed out: "
    else:
        code, reason = (ErrorCode.SUCCESS if n_valid else ErrorCode.NO_IK_SOLUTION), ""
    if isinstance(aim, Proposals):
        return code, f"{reason}{n_valid} of {n} proposals are valid"
    if not n_valid:
        return _failure(problem, found, kept, code, reason)
    if found.effective_sample_size == 0.0:
        why = "" if timed_out else ", because the arm is singular or at its limits"
        what = f"{n_valid} of {n} configurations are valid, but could not be drawn from the density{why}"
        return (code if timed_out else ErrorCode.FAILURE), f"{reason}{what}"
    if isinstance(aim, Spread) and aim.among > aim.n and not problem.order.moves:
        return code, f"{reason}the best {min(aim.n, n_valid)} of {n_valid} solutions"
    if isinstance(aim, Spread) and aim.among > aim.n:
        return code, f"{reason}the best of {n_valid} solutions after null-space optimisation"
    what = "draws" if isinstance(aim, Draws) else "solutions" if isinstance(aim, Covering) else "distinct solutions"
    count = f"{n_valid} {what}" if isinstance(aim, Covering) else f"{n_valid} of {n} {what}"
    return code, f"{reason}{count}{''.join(_remarks(problem, found, n_valid, n, timed_out, is_cut_short))}"


def _remarks(problem: Problem, found: Found, n_valid: int, n: int, timed_out: bool, is_cut_short: bool) -> list[str]:
    """Return remarks for the message of an answer with solutions."""
    remarks, report, is_known = [], found.report, found.n_total is not None and not problem.n_unchecked
    is_sampled = problem.is_sampled
    if is_known:
        remarks.append(", all that exist" if n_valid == found.n_total else f" of {found.n_total:.0f} that exist")
    elif n_valid >= problem.aim.n and isinstance(problem.aim, Covering):
        remarks.append("; the search ended at max_solutions, there may be more")
    elif n_valid < n and not timed_out:
        remarks.append("; samples of the model lead to no more" if is_sampled else "; the search found no more")
    if is_sampled and (found.candidates.expert[found.candidates.valid] == NO_EXPERT).any():
        remarks.append("; samples of the model lead to none, so these are from uniform seeds")
    if found.free_joints:
        remarks.append(f"; {' and '.join(found.free_joints)} can turn there while the tip stays")
    if found.is_singular:
        remarks.append("; the arm is singular there, so joints can turn while the tip stays, and there are more")
    if n_valid < n and problem.n_colliding:
        remarks.append(f"; {problem.n_colliding} more collide")
    if n_valid < n and problem.n_violating:
        remarks.append(f"; {problem.n_violating} more have a link outside of its region")
    if n_valid < n and problem.n_outside_branch:
        remarks.append(f"; {problem.n_outside_branch} more are not in the branch")
    if problem.n_unchecked:
        remarks.append(f"; there was no time to check {problem.n_unchecked} more")
    if is_cut_short:
        remarks.append("; there was no time to optimize and compare all")
    if found.effective_sample_size is not None and found.effective_sample_size < n:
        remarks.append(f"; effective sample size {found.effective_sample_size:.0f}")
    if report is not None and found.n_total is None:
        remarks.append(f"; {report}{', counting all branches' if problem.setup.constraints.branch else ''}")
    if problem.is_certified and not (found.n_total is not None if report is None else report.certified):
        why = "the arm is near a singularity, a curve only touches a limit, or solutions nearly meet"
        if found.n_total is not None:
            why = "that nothing is missing relies on a measured noise level"
        remarks.append(f"; not certified, because {why}")
    return remarks


def _failure(problem: Problem, found: Found, kept: Candidates, code: ErrorCode, reason: str) -> tuple[ErrorCode, str]:
    """Return the error code and message of an answer without a solution."""
    n_colliding, n_violating, n_outside = problem.n_colliding, problem.n_violating, problem.n_outside_branch
    timed_out, tried = code == ErrorCode.TIMED_OUT, f" in {found.n_restarts} restarts" if found.n_restarts else ""
    report = found.report
    is_proven = found.n_total == 0.0 or (report is not None and report.certified and not report.n_components)
    is_proven, rest = is_proven and not timed_out, ""
    if is_proven:
        rest = "; there are no others" if problem.redundancy <= 0 else "; the pose of the tip excludes all others"
    others = f", or are not in the branch ({n_outside} more)" if n_outside else ""
    if n_colliding:
        code = code if timed_out else ErrorCode.GOAL_IN_COLLISION
        outside = f", or have a link outside of its region ({n_violating} more)" if n_violating else ""
        others = f"{outside}{others}{rest}"
        return code, f"{reason}all {n_colliding} configurations found that reach the pose collide{others}"
    if n_violating:
        return code, f"{reason}all {n_violating} configurations found have a link outside of its region{others}{rest}"
    if n_outside:
        return code, f"{reason}all {n_outside} configurations found are in other branches{rest}"
    known = f"no solution found{tried}"
    if is_proven:
        known = f"there is no solution, {OUT_OF_REACH if not problem.is_within_reach else 'as a closed form shows'}"
    best = kept.best()
    error = f"{best.position_error[0]:.3g} m and {best.orientation_error[0]:.3g} rad" if len(best) else "nothing tried"
    far = too_far(problem.setup.robot, best.position_error[0]) if len(best) else ""
    return code, f"{reason}{known}; the best attempt is off by {error}{far}"


def too_far(robot: Robot, distance: float) -> str:
    """Return a remark on the unit of a position that is missed by a distance [m], if it is far out of reach."""
    return "; positions are in metres" if distance > 10.0 * robot.reach else ""
