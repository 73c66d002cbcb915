"""Many poses at once in one compiled call, by uniform restarts in lanes and threads.

That is where no model prefers some configurations, none is found by continuation or known in closed form, and nothing
but the pose, tolerances and limits is asked for. The answer to a pose depends on its random seed alone, not on other
poses or the number of threads.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from eim_ros.ik.all_solutions import has_closed_form
from eim_ros.ik.batch_samples import BatchSamples
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.finder import FEWEST_TO_EXPLORE
from eim_ros.ik.goal import Goal
from eim_ros.ik.ranking import UNORDERED
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.samples import NO_EXPERT, GivenDensity
from eim_ros.ik.search import DISTINCT_TOLERANCE, FRUITLESS_SEEDS, OUT_OF_REACH_SEEDS
from eim_ros.kinematics.deadlines import NEVER
from eim_ros.solver import solve_poses

__all__ = ["SideBySide"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class SideBySide:
    """Answers poses of which all else is asked alike.

    Parameters
    ----------
    sampler : Sampler
    request : SampleRequest
        Of which the pose, the random seed and the timeout do not count.
    deadline : float
        A time of `perf_counter` [s] until which shapes are prepared; else there is `OutOfTime`.
    """

    def __init__(self, sampler: Sampler, request: SampleRequest, deadline: float = NEVER) -> None:
        self.sampler, self.robot = sampler, sampler.robot
        self.request = sampler.fitted(request)
        self.goal = Goal.of(self.robot, self.request, deadline)

    @property
    def fits(self) -> bool:
        """Whether uniform restarts answer the request as the sampler would: as many, as fair, as valid."""
        asked = self.request
        explores = asked.explore if asked.explore is not None else float(asked.n >= FEWEST_TO_EXPLORE)
        is_plain = (
            asked.refine
            and asked.near is None
            and asked.until is None
            and asked.separation is None
            and asked.distribution is None
            and asked.posture is None
            and asked.order in (None, UNORDERED)
        )
        has_model = self.sampler.n_experts > 0
        averages = self.goal.constraints.tolerances is not None or self.goal.position_only
        by_model = has_model and (self.sampler.prefers or averages or asked.explore is not None)
        is_sampled = not (self.goal.is_checked or by_model or has_closed_form(self.goal, asked))
        return is_plain and not explores and is_sampled

    def answer(
        self, poses: FloatArray, random_seeds: npt.NDArray[np.uint64], deadline: float, n_threads: int
    ) -> BatchSamples:
        """Answers to poses (m, 4, 4) with random seeds (m,); the deadline is a time of `perf_counter` [s]."""
        began = time.perf_counter()
        goal, n = self.goal, self.request.n
        away = np.linalg.norm(poses[:, :3, 3], axis=1)
        is_near = away <= self.robot.reach + goal.position_tolerance + goal.constraints.slack
        patience = np.where(is_near, FRUITLESS_SEEDS, OUT_OF_REACH_SEEDS)
        positions, errors, valid, counts, late = solve_poses(
            self.robot.chain,
            goal.task,
            goal.effort(),
            poses,
            random_seeds,
            patience,
            n,
            DISTINCT_TOLERANCE if self.request.distinct else -1.0,
            n_threads,
            deadline,
        )
        ends = np.cumsum(counts)
        n_valid = np.add.reduceat(np.append(valid, False), ends - counts, dtype=np.int64) * (counts > 0)
        attempts, attempt_errors = np.full((len(poses), self.robot.dof), np.nan), np.full((len(poses), 2), np.nan)
        if not valid.all():  # the only row of a pose without a solution is its best attempt
            without = np.flatnonzero((n_valid == 0) & (counts > 0))
            attempts[without], attempt_errors[without] = positions[ends[without] - 1], errors[:, ends[without] - 1].T
            positions, errors, valid = positions[valid], errors[:, valid], valid[valid]
        codes = np.where(n_valid > 0, int(ErrorCode.SUCCESS), int(ErrorCode.NO_IK_SOLUTION))
        codes[late] = int(ErrorCode.TIMED_OUT)
        nothing_known = np.full(len(positions), np.nan)
        no_expert = np.full(len(positions), NO_EXPERT, dtype=np.uint32)
        return BatchSamples(
            self.robot.joint_names,
            n_valid,
            positions,
            errors[0],
            errors[1],
            valid,
            no_expert,
            codes,
            self._messages(n_valid, late, attempt_errors),
            np.full(len(poses), (time.perf_counter() - began) / len(poses)),
            nothing_known,
            np.zeros(len(poses), dtype=np.bool_),
            np.full(len(poses), np.nan),
            np.full(len(poses), np.nan),
            np.full(len(poses), None),
            attempts,
            attempt_errors,
            _Densities(self.sampler, poses) if self.sampler.n_experts else None,
        )

    def _messages(
        self, n_valid: IntArray, late: npt.NDArray[np.bool_], attempt_errors: FloatArray
    ) -> npt.NDArray[np.object_]:
        """In words; `attempt_errors` (m, 2) of poses without a solution, NaN where nothing was tried."""
        n = self.request.n
        kind = "different configurations" if self.request.distinct else "configurations"
        messages = np.empty(len(n_valid), dtype=np.object_)
        messages[:] = f"{n} of {n} {kind} are valid"
        for index in np.flatnonzero(late | (n_valid < n)):
            reason = "timed out: " if late[index] else ""
            rest = "" if late[index] else "; the search ended without more"
            if n_valid[index]:
                messages[index] = f"{reason}{n_valid[index]} of {n} {kind} are valid{rest}"
            elif not np.isnan(attempt_errors[index, 0]):
                off = f"{attempt_errors[index, 0]:.3g} m and {attempt_errors[index, 1]:.3g} rad"
                messages[index] = f"{reason}no valid configuration found; the best is off by {off}"
            else:
                messages[index] = "timed out: no time was left to begin this pose"
        return messages


class _Densities:
    """The model given each of poses (m, 4, 4)."""

    def __init__(self, sampler: Sampler, poses: FloatArray) -> None:
        self._sampler, self._poses = sampler, poses

    def __call__(self, index: int) -> GivenDensity:
        conditioning = self._sampler.conditioning
        return conditioning.density(conditioning.contexts_of(self._poses[index][None].copy()))
