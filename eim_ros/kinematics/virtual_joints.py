"""All solutions of arms with fewer than six joints or with three prismatic joints, from a loop with six joints.

Virtual joints at the tip complete an arm to six joints. If the task leaves rotations free, some virtual joints turn
about the free axes: one for the roll about an axis of the tip, or three for any orientation. The other virtual joints
are *locked*. They have generic axes, and their angles must be 0. Each solution of the arm is therefore a solution of
the loop, and the complete set of solutions of the loop contains all solutions of the arm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eim_ros.core.arrays import BoolArray, FloatArray, length, orthonormal_rows, product, transformed
from eim_ros.kinematics.urdf import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION
from eim_ros.solver import Chain, ClosedForm, StepOptions, Task, acos, atan2, cos, sin

N_JOINTS, N_SLIDES = 6, 3
ROTATION = slice(0, 9)
ALMOST_LOCKED = 1e-3  # a solution of the loop may solve the pose if its locked joints have smaller angles [rad]
EXACT = 1e-9  # error of an exact solution, up to rounding [m, rad]
POLISH = StepOptions(1e-12, 1e-12, 25, 1)
NO_TOLERANCES = np.empty(0)
CIRCLE = 2.0 * math.pi
DISTINCT = 1e-7  # smallest squared sine of an angle at which two solutions of an orientation are distinct
LOOSE = 1e-6  # error of roots of a loop [m, rad]
SAME = 1e-6  # closer solutions of a loop count as one [rad, m]; a locked joint may deviate from 0 by the same value
REGULAR = 1e-5  # a solution is isolated within tolerances if the Jacobian's least singular value is larger
FAR = 100.0  # a pose has no solution if the smallest error of all attempts exceeds the allowed error by this factor
MERGED = 0.05  # an inexact row counts as a copy of an exact solution at smaller distances [rad, m]
INDEPENDENT = 1e-6  # three slides are independent if the least singular value of their directions is larger


@dataclass(frozen=True, eq=False)
class RootSet:
    """Solutions of a pose without joint limits.

    Attributes
    ----------
    positions : (n, dof)
        Configurations. Values of revolute joints are between -pi and pi.
    is_complete, is_certified, is_singular : bool
        Whether there are no other solutions, whether this is proven, and whether some solutions may belong to a
        continuum.
    """

    positions: FloatArray
    is_complete: bool
    is_certified: bool
    is_singular: bool


@dataclass(frozen=True, eq=False)
class ThreeSlides:
    """Closed form of a loop with three revolute and three prismatic joints in any order.

    The orientation depends only on the three angles, which have at most two solutions. The values of the prismatic
    joints are computed from linear equations.
    """

    chain: Chain
    slides: BoolArray  # (6,)
    turns: tuple[FloatArray, ...]  # rotations (3, 3) before, between and after the three revolute joints

    @classmethod
    def of(cls, links: FloatArray, chain: Chain) -> ThreeSlides | None:
        """Return the form for links (7, 16), or None if there is none."""
        slides = links[:-1, PRISMATIC] != 0.0
        if slides.sum() != N_SLIDES:
            return None
        turns, turn = [], np.eye(3)
        for row, is_slide in zip(links[:-1], slides, strict=True):
            turn = product(turn, row[ROTATION].reshape(3, 3))
            if not is_slide:
                turns.append(turn)
                turn = np.eye(3)
        turns.append(product(turn, links[-1, ROTATION].reshape(3, 3)))
        form = cls(chain, slides, tuple(turns))
        aslant = length(turns[1][2, :2]), length(turns[2][:2, 2])
        return form if min(aslant) > INDEPENDENT else None

    def roots(self, pose: FloatArray) -> RootSet:
        """Return the solutions of a pose (4, 4)."""
        first, second = self.turns[1], self.turns[2]
        wanted = product(self.turns[0].T, pose[:3, :3], self.turns[3].T)  # Rz(t1) first Rz(t2) second Rz(t3)
        u, v = first[2], second[:, 2]
        cosine, sine = u[0] * v[0] + u[1] * v[1], u[1] * v[0] - u[0] * v[1]
        size = math.sqrt(cosine * cosine + sine * sine)
        ratio = (wanted[2, 2] - u[2] * v[2]) / size
        if 1.0 - ratio * ratio < DISTINCT:
            is_far = abs(ratio) > 1.0 + DISTINCT
            return RootSet(np.empty((0, N_JOINTS)), is_far, is_far, not is_far)
        middle, away = atan2(sine, cosine), acos(ratio)
        q = np.zeros((2, N_JOINTS))
        is_singular = False
        for row, angle in zip(q, (middle - away, middle + away), strict=True):
            turn = _about_z(float(angle))
            end, start = transformed(product(first, turn), v), transformed(product(second.T, turn.T), u)
            reached, left = wanted[:, 2], wanted[2]
            is_singular |= bool(min(length(end[:2]), length(start[:2])) < math.sqrt(DISTINCT))
            row[~self.slides] = (
                atan2(reached[1], reached[0]) - atan2(end[1], end[0]),
                angle,
                atan2(start[1], start[0]) - atan2(left[1], left[0]),
            )
        directions = self.chain.jacobian(q)[:, :3, self.slides]
        if np.linalg.svd(directions, compute_uv=False)[:, -1].min() < INDEPENDENT:
            return RootSet(np.empty((0, N_JOINTS)), False, False, True)
        for _ in range(2):  # the second pass reduces rounding errors
            rest = pose[:3, 3] - self.chain.forward(q)[:, :3, 3]
            q[:, self.slides] += _solved(directions, rest)
        return RootSet(q, not is_singular, not is_singular, is_singular)


@dataclass(frozen=True, eq=False)
class Loop:
    """An arm with virtual joints, and its closed form."""

    chain: Chain
    form: ClosedForm | ThreeSlides

    @classmethod
    def of(cls, links: FloatArray) -> Loop | None:
        """Return the loop of links (7, 16), or None without a closed form."""
        chain = Chain(links, N_JOINTS)
        three = ThreeSlides.of(links, chain)
        if three is not None:
            return cls(chain, three)
        form = ClosedForm(chain, -1)
        return cls(chain, form) if form.kind else None

    @property
    def certifies(self) -> bool:
        """Whether roots can be certified."""
        return isinstance(self.form, ThreeSlides) or self.form.certifies

    def roots(self, pose: FloatArray, wants_proof: bool) -> RootSet:
        """Return the roots of a pose (4, 4)."""
        if isinstance(self.form, ThreeSlides):
            return self.form.roots(pose)
        bounds = np.zeros((3, N_JOINTS))
        # the tolerances are loose, because nearly equal roots are less exact
        task = Task(bounds, pose, False, NO_TOLERANCES, LOOSE, LOOSE)
        found = self.form.roots(self.chain, task, SAME, wants_proof)
        return RootSet(found.positions, found.is_complete, found.is_certified, found.is_singular)


@dataclass(frozen=True, eq=False)
class Target:
    """A pose (4, 4), the task to reach it without joint limits, and the allowed errors [m], [rad]."""

    pose: FloatArray
    task: Task
    position_only: bool
    errors: tuple[float, float]

    @classmethod
    def of(
        cls, pose: FloatArray, position_only: bool, tolerances: FloatArray, errors: tuple[float, float], dof: int
    ) -> Target:
        """Return the target for tolerances of single axes (6,), or (0,) if there are none."""
        bounds = np.array([np.full(dof, -np.inf), np.full(dof, np.inf), np.zeros(dof)])
        return cls(pose, Task(bounds, pose, position_only, tolerances, *errors), position_only, errors)

    @property
    def pose_of_loop(self) -> FloatArray:
        """Pose (4, 4) of the loop. If any orientation is allowed, the orientation is generic."""
        if not self.position_only:
            return self.pose
        pose = np.array(self.pose, dtype=np.float64)
        pose[:3, :3] = _generic_rotation(np.random.default_rng(0))
        return pose


@dataclass(frozen=True, eq=False)
class VirtualForm:
    """Solver for all solutions of an arm by loops with virtual joints. The task may leave rotations free.

    Attributes
    ----------
    chain : Chain
        The arm.
    slides : (dof,) of bool
        Whether each joint is prismatic.
    free : str
        Letters of the free axes, see `of`.
    n_locked : int
        Number of locked virtual joints. If there are locked joints, the task has more dimensions than the arm has
        joints, and few poses have solutions.
    loops : tuple of Loop
        Loops with different locked joints. The second loop confirms that a pose has no solution.
    """

    chain: Chain
    slides: BoolArray
    free: str
    n_locked: int
    loops: tuple[Loop, ...]

    @classmethod
    def of(cls, chain: Chain, links: FloatArray, reach: float, free: str) -> VirtualForm | None:
        """Return the form for links (dof + 1, 16), or None if the arm has no such form.

        `free` contains the letters of the free axes of the tip: "", "x", "y", "z", or "xyz" for any orientation.
        """
        dof = len(links) - 1
        n_locked = N_JOINTS - dof - len(free)
        is_plain = np.array_equal(links[:-1, SOURCE], np.arange(dof))
        is_plain &= bool((links[:-1, MULTIPLIER] == 1.0).all() and (links[:-1, OFFSET] == 0.0).all())
        if dof < 2 or n_locked < 0 or not is_plain:
            return None
        slides = links[:-1, PRISMATIC] != 0.0
        if dof == N_JOINTS and slides.sum() != N_SLIDES:
            return None
        loops = []
        for variant in range(1 if n_locked == 0 else 2):
            loop = Loop.of(_with_virtual_joints(links, reach, free, n_locked, variant))
            if loop is None:
                return None
            loops.append(loop)
        return cls(chain, slides, free, n_locked, tuple(loops))

    @property
    def certifies(self) -> bool:
        """Whether roots can be certified. This is impossible if rounding errors decide whether a pose has solutions."""
        return self.n_locked == 0 and self.loops[0].certifies

    def roots(self, target: Target, tolerance: float, wants_proof: bool) -> RootSet:
        """Return the roots of a target that differ by more than a tolerance in some joint."""
        found = self.loops[0].roots(target.pose_of_loop, wants_proof)
        if self.n_locked == 0:
            rows = np.ascontiguousarray(found.positions[:, : len(self.slides)])
            errors = self.chain.verify(target.task, rows)[0].max(axis=0)
            is_complete = found.is_complete and bool((errors <= EXACT).all())
            kept = self._distinct(rows, errors, tolerance)
            return RootSet(kept, is_complete, is_complete and found.is_certified, found.is_singular)
        rows, errors = self._locked(found, target)
        is_complete = found.is_complete and not found.is_singular
        if len(rows):  # near a double solution, rounding of the pose may remove both from the loop
            is_complete &= bool((errors <= EXACT).any()) and self._are_regular(rows, target)
        elif is_complete:
            is_complete = self._is_out_of_reach(found, target)
        return RootSet(self._distinct(rows, errors, tolerance), is_complete, False, found.is_singular)

    def _is_out_of_reach(self, found: RootSet, target: Target) -> bool:
        """Return whether the second loop also has no solution, and all attempts stay far from the pose."""
        other = self.loops[1].roots(target.pose_of_loop, False)
        if not other.is_complete or other.is_singular or len(self._locked(other, target)[0]):
            return False
        rows = np.concatenate([found.positions, other.positions])[:, : len(self.slides)]
        if not len(rows):
            return True
        errors = self.chain.refine(target.task, POLISH, np.ascontiguousarray(rows))[3]
        return bool((errors > FAR * np.array(target.errors)[:, None]).any(axis=0).all())

    def _locked(self, found: RootSet, target: Target) -> tuple[FloatArray, FloatArray]:
        """Return the solutions (n, dof) of the loop that solve the pose for the arm, and their errors (n,)."""
        dof = len(self.slides)
        angles = found.positions[:, dof : dof + self.n_locked]
        is_near = np.abs(angles).max(axis=1, initial=0.0) < ALMOST_LOCKED
        return self._polished(found.positions[is_near, :dof], target)

    def _are_regular(self, rows: FloatArray, target: Target) -> bool:
        """Return whether all solutions (n, dof) are far enough from singularities to be isolated within tolerances."""
        jacobians = self.chain.jacobian(rows)
        if target.position_only:
            jacobians = jacobians[:, :3]
        elif self.free:  # errors about the free axis of the target do not count
            axes = np.delete(target.pose[:3, :3], "xyz".index(self.free), axis=1)
            jacobians = np.concatenate([jacobians[:, :3], axes.T @ jacobians[:, 3:]], axis=1)
        return bool(np.linalg.svd(jacobians, compute_uv=False)[:, -1].min() > REGULAR)

    def _polished(self, rows: FloatArray, target: Target) -> tuple[FloatArray, FloatArray]:
        """Move rows (n, dof) as close to the pose as possible. Return rows that reach it, and their errors (n,)."""
        if not len(rows):
            return rows, np.empty(0)
        moved, _, _, errors = self.chain.refine(target.task, POLISH, np.ascontiguousarray(rows))
        reaches = (errors <= np.array(target.errors)[:, None]).all(axis=0)
        return moved[reaches], errors[:, reaches].max(axis=0)

    def _distinct(self, rows: FloatArray, errors: FloatArray, tolerance: float) -> FloatArray:
        """Return rows that differ by more than a tolerance, exact ones first, with angles between -pi and pi."""
        rows = np.where(self.slides, rows, rows - CIRCLE * np.round(rows / CIRCLE))
        kept: list[int] = []
        for i in np.argsort(errors > EXACT, kind="stable").tolist():
            off = np.abs(rows[kept] - rows[i])
            off = np.where(self.slides, off, np.minimum(off, CIRCLE - off)).max(axis=1, initial=0.0)
            if (off > (tolerance if errors[i] <= EXACT else max(tolerance, MERGED))).all():
                kept.append(i)
        return np.ascontiguousarray(rows[kept])


def _solved(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the solutions (n, 3) of linear equations with matrices (n, 3, 3) and right sides (n, 3)."""
    first, second, third = np.moveaxis(matrices, -1, 0)
    across = np.stack([np.cross(second, third), np.cross(third, first), np.cross(first, second)], axis=1)
    return np.asarray(transformed(across, vectors) / np.add.reduce(first * across[:, 0], axis=-1)[:, None])


def _about_z(angle: float) -> FloatArray:
    c, s = cos(angle), sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _generic_rotation(rng: np.random.Generator) -> FloatArray:
    q, _ = orthonormal_rows(rng.standard_normal((3, 3)))
    return np.asarray(q * np.sign(np.add.reduce(q[0] * np.cross(q[1], q[2]))))


def _with_virtual_joints(links: FloatArray, reach: float, free: str, n_locked: int, variant: int) -> FloatArray:
    """Return the links (7, 16) of the arm with virtual joints before its tip. Locked joints precede free joints."""
    rng = np.random.default_rng((variant, n_locked, len(free)))
    frames = []  # frames of the joints in the frame of the tip
    for _ in range(n_locked):
        frames.append((_generic_rotation(rng), rng.uniform(-0.4, 0.4, 3) * reach))
    if len(free) == 3:
        turn = _generic_rotation(rng)
        frames += [(turn[:, order], np.zeros(3)) for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0])]
    elif free:  # permutations have no rounding errors
        k = "xyz".index(free)
        frames.append((np.eye(3)[:, [(k + 1) % 3, (k + 2) % 3, k]], np.zeros(3)))
    rows = [row.copy() for row in links]
    rotation, translation = np.eye(3), np.zeros(3)  # pose of the last frame in the frame of the tip
    for turn, point in [*frames, (np.eye(3), np.zeros(3))]:
        row, is_first = rows[-1], len(rows) == len(links)
        before = row[ROTATION].reshape(3, 3).copy() if is_first else np.eye(3)
        offset = row[TRANSLATION].copy() if is_first else np.zeros(3)
        if not is_first:
            row[:] = 0.0
        row[ROTATION] = product(before, rotation.T, turn).ravel()
        row[TRANSLATION] = offset + transformed(product(before, rotation.T), point - translation)
        row[[PRISMATIC, SOURCE, MULTIPLIER, OFFSET]] = 0.0, len(rows) - 1, 1.0, 0.0
        rotation, translation = turn, point
        rows.append(row.copy())
    return np.array(rows[:-1])
