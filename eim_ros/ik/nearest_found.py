"""The nearest of solutions that cannot be traced, as they are surfaces or points without closed form.

Many are found, and of these the nearest are moved along the self-motion to where the distance is least. Where that is
depends on where one begins: of 40 random poses of each of five arms, 128 solutions and the 16 nearest of them led to
the least distance of all that 4000 led to, in .6 ms (64 and 8: in 37 of 40 of the worst arm). With tolerances per axis
the descents take 2 ms each; half as many lead to within .1 rad of the least distance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eim_ros.ik.goal import Goal
from eim_ros.ik.pool import Pool
from eim_ros.ik.posture import Posture
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.search import DISTINCT_TOLERANCE, Search
from eim_ros.ik.selection import distance_to, distinct_rows

__all__ = ["NEAR_AT_ONCE", "nearest_found"]

FloatArray = npt.NDArray[np.float64]

NEAR_AT_ONCE = 0.2  # [rad, m]: a solution so near is taken for the nearest one without a look at the others
N_FOUND, N_MOVED, N_MOVED_WITHIN_TOLERANCES = 128, 16, 8
FRUITLESS_SEEDS = 512  # tried without any new solution, where there are few


def nearest_found(goal: Goal, search: Search, near: FloatArray, n: int, deadline: float) -> tuple[Pool, bool]:
    """Solutions, the nearest of all among them, or the best attempt, and whether time was up.

    Parameters
    ----------
    goal : Goal
    search : Search
        Has `near` as its first seed.
    near : (dof,)
        Configuration to which solutions should be near [rad or m].
    n : int
        Number of solutions that are wanted at least.
    deadline : float
        A time of `perf_counter` [s].
    """
    posture = Posture(dict(zip(goal.robot.joint_names, near.tolist(), strict=True)))
    if n == 1:
        first = goal.refined(near[None], np.full(1, NO_EXPERT, np.uint32))
        if first.valid[0]:
            moved, _ = goal.descended(first, posture, deadline)
            if distance_to(goal.robot, moved.positions, near)[0] <= NEAR_AT_ONCE:
                return moved, False
    search.patience = min(search.patience, FRUITLESS_SEEDS)
    pool, out_of_time = search.run(max(n, N_FOUND), deadline)
    if not pool.valid.any():
        return pool, out_of_time
    order = np.argsort(distance_to(goal.robot, pool.positions, near), kind="stable")
    n_moved = N_MOVED if goal.constraints.tolerances is None else N_MOVED_WITHIN_TOLERANCES
    moved, _ = goal.descended(pool.pick(order[:n_moved]), posture, deadline)
    everything = moved.joined(pool.pick(order))
    everything = everything.pick(np.argsort(distance_to(goal.robot, everything.positions, near), kind="stable"))
    if search.distinct:
        everything = everything.pick(distinct_rows(goal.robot, everything.positions, DISTINCT_TOLERANCE))
    return everything, out_of_time and len(everything) < n
