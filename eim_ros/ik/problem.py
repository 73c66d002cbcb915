"""An inverse kinematics problem: a request for one pose, the checks of configurations, and the result of a search.

Strategies solve problems, and the engine turns their results into answers.
"""

from __future__ import annotations

import copy
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.deadlines import NEVER, is_past, with_grace
from eim_ros.ik.candidates import Candidates
from eim_ros.ik.completeness import Completeness, CompletenessReport
from eim_ros.ik.constraints import BranchCheck, LinkCheck
from eim_ros.ik.order import AS_FOUND, Ordering, Posture
from eim_ros.ik.prior import NO_COMPONENTS, ConditionalMixture
from eim_ros.ik.request import ONE, Aim, Guarantee, Spread
from eim_ros.ik.setup import PATIENCE, Setup
from eim_ros.kinematics.collision import CollisionScene
from eim_ros.kinematics.tolerances import redundancy
from eim_ros.solver import StepOptions

COLLISION_STEP = 0.02  # largest motion of a joint between two checks of a motion for collisions [rad or m]
HALVINGS = 8  # number of bisections on the way to an obstacle; the last step is then below 1/100 of the motion
# number of configurations moved between two checks of the deadline; with tolerances, each may take 3 ms
MOVED_AT_ONCE = 16
FIXED = 1e-5  # with larger tolerances, a collision at the tip does not exclude all configurations [m, rad]


class Problem:
    """Requirements of a call: conditions on each configuration, and the aim and order of the answer.

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
        Density of the model given the pose. It has no components if there is no model.
    seed : int, optional
        Seed of random numbers. Default: a new seed.
    deadline : float
        A time of `perf_counter` [s]. Configurations that were not checked in time do not count as valid.
    until_deadline : bool
        Whether the search continues until the deadline if there is neither a solution nor a proof that there is none.
        Otherwise the search ends after a number of restarts.

    Attributes
    ----------
    redundancy : int
        Dimension of the self-motion; negative if the arm has fewer joints than the task needs.
    has_model : bool

    Raises
    ------
    OutOfTime
        If collision shapes cannot be prepared before the deadline.
    """

    __slots__ = (
        *("_branch", "_links", "_scene", "aim", "bounds", "conditional", "deadline", "has_model", "order", "pose"),
        *("position_only", "redundancy", "robot", "seed", "setup", "task", "until_deadline"),
    )

    def __init__(
        self,
        setup: Setup,
        pose: FloatArray,
        position_only: bool,
        aim: Aim = ONE,
        order: Ordering = AS_FOUND,
        conditional: ConditionalMixture = NO_COMPONENTS,
        seed: int | None = None,
        deadline: float = NEVER,
        until_deadline: bool = False,
    ) -> None:
        self.setup, self.robot, self.bounds = setup, setup.robot, setup.bounds
        self.pose, self.position_only = pose, position_only
        self.aim, self.order, self.seed, self.deadline = aim, order, seed, deadline
        self.conditional, self.until_deadline = conditional, until_deadline
        self.has_model = len(conditional.log_weights) > 0
        self.task = setup.task(pose, position_only)
        self.redundancy = setup.redundancies[position_only]
        self._scene: CollisionScene | None = None
        self._links: LinkCheck | None = None
        self._branch: BranchCheck | None = None
        if not setup.is_checked:
            return
        constraints = setup.constraints
        if constraints.self_collision or constraints.obstacles:  # one scene per problem, because it counts collisions
            self._scene = constraints.scene(setup.robot, with_grace(deadline))
        if constraints.links:
            self._links = constraints.link_check(setup.robot)
        if constraints.branch:
            self._branch = constraints.branch_check(setup.robot)

    def at(self, pose: FloatArray, bounds: FloatArray) -> Problem:
        """Return the problem for another pose (4, 4) with other bounds (3, dof). Both problems share the checks."""
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
        """Whether solutions are samples of the model. Its experts then supply all seeds."""
        aim = self.aim
        return self.has_model and isinstance(aim, Spread) and aim.diversity == 0.0 and self.order.reference is None

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
        """Whether the target is within the length of the arm, see `Setup.is_within_reach`."""
        return self.setup.is_within_reach(self.pose)

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
        """Return configurations (n, dof) with continuous joints in [-pi, pi) if limits are narrowed.

        The solver treats a continuous joint with narrowed limits like any joint with limits. It would therefore clamp a
        value that is in another revolution.
        """
        if not self.setup.is_narrowed:
            return q
        return np.where(self.robot.continuous, (q + np.pi) % (2.0 * np.pi) - np.pi, q)

    def optimized(self, found: Candidates, posture: Posture, deadline: float) -> tuple[Candidates, bool]:
        """Move solutions along the null space towards a posture, and return whether time ran out before the last one.

        A solution stops at the first obstacle, and is not moved if its cost would increase. The deadline is a time of
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
        """Move valid configurations towards invalid ones (n, dof) by bisection, as far as they remain valid."""
        reached, stopped, rows = start, goal, np.arange(len(start))
        for _ in range(HALVINGS):
            if is_past(self.deadline):
                break
            middle = self.solved(0.5 * (reached.q + stopped), start.expert)
            stopped = np.where(middle.valid[:, None], stopped, middle.q)
            reached = middle.joined(reached).pick(rows + len(start) * ~middle.valid)
        return reached

    def verified(self, q: FloatArray, expert: npt.NDArray[np.uint32]) -> Candidates:
        """Return configurations (n, dof) unchanged, with errors by forward kinematics and all checks."""
        found = self.measured(q, expert)
        if self.is_checked:
            reaching = np.flatnonzero(found.valid)
            found.valid[reaching] = self.allowed(q[reaching])
        return found

    def measured(self, q: FloatArray, expert: npt.NDArray[np.uint32]) -> Candidates:
        """Return configurations (n, dof) with errors by forward kinematics, without checks for collisions."""
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
        """Return whether links fixed to the tip collide or violate conditions in every configuration at the pose.

        `q` (dof,) is an attempt to reach the pose. The answer is False if `q` misses the pose, or if the tolerances
        allow different poses of the tip.
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
            for some in (is_middle, ~is_middle):  # most colliding motions collide in the middle
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
        Whether the search ran out of time.
    is_exhausted : bool
        Whether all solutions are known. Further searches then only look for the best attempt.
    is_minor : bool
        Whether solutions of the next strategy precede these solutions.
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
        Joints that can turn, alone or together with other joints, while the tip stays still.
    n_restarts : int
        Number of seeds of the search.
    n_distinct : int, optional
        Number of solutions if 2π-equivalent solutions count once; None if it is unknown.
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
    n_distinct: int | None = None
