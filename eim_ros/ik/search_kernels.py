"""A round of the search in one compiled call: it takes a fraction of a millisecond, and most requests need only one.

Draw, refine, keep what is new, walk. Each part is a kernel of its own module; numba's disk cache notices a change of
this file only: touch it when one of them changes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.ik.proposal_kernels import draw
from eim_ros.ik.samples import NO_EXPERT
from eim_ros.ik.selection import is_duplicate
from eim_ros.kinematics.curves import spread_along
from eim_ros.kinematics.lanes import refine_lanes
from eim_ros.kinematics.robot import MAX_ITERATIONS
from eim_ros.numerics.compiled import compiled

__all__ = ["search_round"]

FloatArray = npt.NDArray[np.float64]
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
    uniform: FloatArray,
    noise: FloatArray,
    anywhere: FloatArray,
    given: FloatArray,
    tolerance: float,
    positions: FloatArray,
    experts: ExpertArray,
    n_known: int,
    fewest_roots: int,
    n_wanted: int,
    redundancy: int,
    step: float,
    shortest: float,
    seed: float,
    blocks: FloatArray,
    best: FloatArray,
) -> tuple[int, int]:
    """Append what refined seeds and walks from them reach to the first n_known rows of positions (capacity, dof).

    And the expert, modulo n_reported, that each came from, or NO_EXPERT. Seeds are those given (k, dof), some anywhere
    within the limits by uniform numbers (l, dof), and samples, see `draw`, if stratified spread evenly over the weights
    of the experts. Near-duplicates within the tolerance, if it is not negative, are left out. From fewest_roots rows
    on, walks follow until there are n_wanted. turning (dof,): 1 for joints that turn endlessly. best (dof + 1,): while
    there is no row, the best attempt so far and its error, 1 m counted as 1 rad. Returns the number of rows, and
    without walks.
    """
    n_given, n_drawn, dof = given.shape[0] + anywhere.shape[0], uniform.shape[0], positions.shape[1]
    n_seeds = n_given + n_drawn
    seeds, drawn = np.empty((n_seeds, dof)), np.empty(n_drawn, dtype=np.int64)
    seeds[: given.shape[0]] = given
    for i in range(anywhere.shape[0]):
        for j in range(dof):
            seeds[given.shape[0] + i, j] = bounds[0, j] + (bounds[1, j] - bounds[0, j]) * anywhere[i, j]
    if stratified:
        for i in range(n_drawn):
            uniform[i] = (i + uniform[i]) / n_drawn
    draw(log_weights, tempering, contexts, weights, biases, scale_trils, uniform, noise, seeds[n_given:], drawn)
    for j in range(dof):  # a narrowed joint that turns endlessly does not wrap by itself
        if turning[j] != 0.0 and bounds[2, j] == 0.0:
            for i in range(n_seeds):
                seeds[i, j] -= TWO_PI * np.floor(seeds[i, j] / TWO_PI + 0.5)
    converged, iterations = np.zeros(n_seeds, dtype=np.bool_), np.zeros(n_seeds, dtype=np.int64)
    errors, n_rows = np.empty((2, n_seeds)), n_known
    refine_lanes(
        links, bounds, seeds, target, position_only, tolerances, position_tolerance, orientation_tolerance,
        MAX_ITERATIONS, patience, converged, iterations, errors,
    )  # fmt: skip
    for i in range(n_seeds):
        if n_known == 0 and errors[0, i] + errors[1, i] < best[dof]:
            best[:dof], best[dof] = seeds[i], errors[0, i] + errors[1, i]
        if converged[i] and not is_duplicate(bounds, positions, n_rows, seeds[i], tolerance):
            positions[n_rows] = seeds[i]
            experts[n_rows] = NO_EXPERT if i < n_given else drawn[i - n_given] % n_reported
            n_rows += 1
    n_seeded = n_rows
    if fewest_roots <= n_rows < n_wanted:
        n_rows = spread_along(
            links, bounds, positions[:n_wanted], n_rows, target, position_only, tolerances, position_tolerance,
            orientation_tolerance, step, shortest, redundancy, seed, blocks,
        )  # fmt: skip
        experts[n_seeded:n_rows] = NO_EXPERT
    return n_rows, n_seeded
