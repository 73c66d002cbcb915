"""A round of the search in one compiled call: it takes a fraction of a millisecond, and most requests need only one.

Draw, refine, keep what is new, walk, verify. Each part is a kernel of its own module; numba's disk cache notices a
change of this file only: touch it when one of them changes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.ik.proposal_kernels import draw, fill_normal
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.selection import is_duplicate
from eim_ros.kinematics.curves import spread_along
from eim_ros.kinematics.kernels import next_uniform
from eim_ros.kinematics.lanes import refine_lanes, verify_lanes
from eim_ros.kinematics.robot import MAX_ITERATIONS
from eim_ros.numerics.compiled import compiled

__all__ = ["search_round"]

FloatArray = npt.NDArray[np.float64]
Blocks = npt.NDArray[np.float32]
ExpertArray = npt.NDArray[np.uint32]

TWO_PI = 2.0 * math.pi


@compiled
def search_round(
    links: FloatArray,
    bounds: FloatArray,
    turning: FloatArray,
    target: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    patience: int,
    log_weights: FloatArray,
    tempering: float,
    contexts: FloatArray,
    weights: FloatArray,
    biases: FloatArray,
    scale_trils: FloatArray,
    n_reported: int,
    stratified: bool,
    n_drawn: int,
    n_uniform: int,
    given: FloatArray,
    tolerance: float,
    positions: FloatArray,
    errors: FloatArray,
    experts: ExpertArray,
    n_known: int,
    has_walked: bool,
    fewest_roots: int,
    n_wanted: int,
    redundancy: int,
    step: float,
    finest: float,
    seed: float,
    blocks: Blocks,
    best: FloatArray,
) -> tuple[int, int, int]:
    """Append what refined seeds and walks from them reach to the first n_known rows of positions (capacity, dof).

    And its errors (2, capacity), see `verify_lanes`, which alone decides what is appended, and the expert, modulo
    n_reported, that each came from, or NO_EXPERT. Seeds are those given (k, dof), n_uniform within the limits, and
    n_drawn samples, see `draw`, if stratified spread evenly over the weights of the experts; by the seed in [0, 1).
    Near-duplicates within the tolerance, if it is not negative, are left out. From fewest_roots rows on, walks follow
    until there are n_wanted; again, if a seed led far from all that was known. turning (dof,): 1 for joints that turn
    endlessly. best (dof + 1,): while there is no row, the best attempt so far and its error, 1 m counted as 1 rad.
    Returns the number of rows, the number without those that walks found, and after walks how many seeds led farther
    than half a step, in some joint, from all that was known.
    """
    n_given, dof = given.shape[0] + n_uniform, positions.shape[1]
    n_seeds, state = n_given + n_drawn, np.uint64(seed * 9007199254740992.0)
    seeds, drawn = np.empty((n_seeds, dof)), np.empty(n_drawn, dtype=np.int64)
    uniform, noise = np.empty(n_drawn), np.empty((n_drawn, dof))
    seeds[: given.shape[0]] = given
    for i in range(given.shape[0], n_given):
        for j in range(dof):
            state, share = next_uniform(state)
            seeds[i, j] = bounds[0, j] + (bounds[1, j] - bounds[0, j]) * share
    for i in range(n_drawn):
        state, share = next_uniform(state)
        uniform[i] = (i + share) / n_drawn if stratified else share
    state = fill_normal(state, noise)
    draw(log_weights, tempering, contexts, weights, biases, scale_trils, uniform, noise, seeds[n_given:], drawn)
    for j in range(dof):  # a narrowed joint that turns endlessly does not wrap by itself
        if turning[j] != 0.0 and bounds[2, j] == 0.0:
            for i in range(n_seeds):
                seeds[i, j] -= TWO_PI * np.floor(seeds[i, j] / TWO_PI + 0.5)
    converged, iterations = np.zeros(n_seeds, dtype=np.bool_), np.zeros(n_seeds, dtype=np.int64)
    reached, n_rows, n_remote = np.empty((2, n_seeds)), n_known, 0
    refine_lanes(
        links, bounds, seeds, target, position_only, tolerances, position_tolerance, orientation_tolerance,
        MAX_ITERATIONS, patience, converged, iterations, reached,
    )  # fmt: skip
    for i in range(n_seeds):
        if n_known == 0 and reached[0, i] + reached[1, i] < best[dof]:
            best[:dof], best[dof] = seeds[i], reached[0, i] + reached[1, i]
        if converged[i] and not is_duplicate(bounds, positions, n_rows, seeds[i], tolerance):
            positions[n_rows] = seeds[i]
            experts[n_rows] = NO_EXPERT if i < n_given else drawn[i - n_given] % n_reported
            if has_walked and not is_duplicate(bounds, positions, n_rows, seeds[i], 0.5 * step):
                n_remote += 1
            n_rows += 1
    n_seeded = n_rows
    if fewest_roots <= n_rows < n_wanted and (n_remote > 0 or not has_walked):
        n_rows = spread_along(
            links, bounds, positions[:n_wanted], n_rows, target, position_only, tolerances, position_tolerance,
            orientation_tolerance, step, finest, redundancy, seed, blocks,
        )  # fmt: skip
        experts[n_seeded:n_rows] = NO_EXPERT
    measured, valid = np.empty((2, n_rows - n_known)), np.empty(n_rows - n_known, dtype=np.bool_)
    verify_lanes(
        links, bounds, positions[n_known:n_rows], target, position_only, tolerances, position_tolerance,
        orientation_tolerance, measured, valid,
    )  # fmt: skip
    n_kept, n_seeded_kept = n_known, n_known
    for i in range(n_known, n_rows):
        if valid[i - n_known]:
            positions[n_kept], experts[n_kept] = positions[i], experts[i]
            errors[0, n_kept], errors[1, n_kept] = measured[0, i - n_known], measured[1, i - n_known]
            n_kept += 1
            n_seeded_kept += 1 if i < n_seeded else 0
    return n_kept, n_seeded_kept, n_remote
