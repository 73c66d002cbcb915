"""What the compiled solver offers. Arrays are copied where they are not contiguous float64; what does not fit raises
`ValueError`. n: configurations, dof: independent joints, m: moving joints, k: experts.
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LANES: int  # numbers side by side in double precision
MOST_JOINTS: int
NO_EXPERT: int  # `Found.experts` of what came from no expert
SPACING: float  # of solutions found by continuation at least, as a share of the step

def first_not_rigid(poses: FloatArray, tolerance: float) -> int:
    """Index of the first of transforms (n, 4, 4) that is not finite, orthonormal within a tolerance, right-handed,
    above a row 0 0 0 1; n if there is none.
    """

def distinct_rows(bounds: FloatArray, rows: FloatArray, tolerance: float, deadline: float) -> tuple[IntArray, int]:
    """Indices of rows (n, dof) that differ in some joint by more than a tolerance from all earlier ones kept, and how
    many rows were looked at until the deadline, a time of `perf_counter`.
    """

def is_within(bounds: FloatArray, rows: FloatArray, others: FloatArray, tolerance: float) -> BoolArray:
    """Whether some of others (m, dof) differs from each row (n, dof) by no more than a tolerance in any joint."""

def farthest_rows(bounds: FloatArray, rows: FloatArray, n: int, deadline: float) -> IntArray:
    """Indices of at most n rows (n_rows, dof): the first, and then always the one farthest from all before
    it, each moved to the middle of those that are nearest to it. At the deadline, a time of `perf_counter`, the rest
    are the first rows that are not chosen yet.
    """

def log_gate(contexts: FloatArray, weights: FloatArray, biases: FloatArray) -> FloatArray:
    """log softmax(contexts weights + biases) - log n (n, k), of contexts (n, n_context), weights (n_context, k)."""

def windings(
    chain: Chain,
    task: Task,
    roots: FloatArray,
    reference: FloatArray | None,
    weights: FloatArray | None,
    most: int,
    deadline: float,
) -> tuple[FloatArray, FloatArray, IntArray, float]:
    """Roots (n, dof) turned by whole turns into the limits of a task: at most `most` valid configurations (k, dof),
    their errors (2, k), the roots they belong to (k,), and how many there are in all.

    In the order of sum_j w_j (q_j - r_j)^2, with reference r and weights w (dof,), 1 by default. Without a reference it
    is the middle of the limits, and the sum counts from the least of the same root. At the deadline, a time of
    `perf_counter`, no more are enumerated.
    """

class ClosedForm:
    """Of an arm of six joints, or of seven of which one is held, else `held` is -1: `kind` says which, and is empty
    where it has none. Roots may be those of an arm next to it, from which it deviates by sines of angles, and
    shares of its size, of up to `deviation`.
    """

    kind: str
    deviation: float
    def __init__(self, chain: Chain, held: int) -> None: ...
    def roots(self, chain: Chain, task: Task, tolerance: float) -> Roots:
        """Those that differ by more than a tolerance in some joint [rad]."""

class Roots:
    """Configurations (n, dof) that reach the pose of a task, each joint within half a turn of zero, whatever the
    limits; whether some are of infinitely many, and whether it is certain that there are no others.
    """

    positions: FloatArray
    is_singular: bool
    is_whole: bool
    def __len__(self) -> int: ...
    def windings(
        self,
        chain: Chain,
        task: Task,
        reference: FloatArray | None,
        weights: FloatArray | None,
        most: int,
        deadline: float,
    ) -> tuple[FloatArray, FloatArray, IntArray, float]:
        """See `windings`."""

class Task:
    """Limits and a pose: bounds (3, dof), 1 in the last row where a joint is continuous, tolerances (6,) or (0,)."""

    def __init__(
        self,
        bounds: FloatArray,
        pose: FloatArray,
        position_only: bool,
        tolerances: FloatArray,
        position_tolerance: float,
        orientation_tolerance: float,
    ) -> None: ...

class Effort:
    """Errors to reach [m], [rad], most steps, and steps within which the squared error has to halve."""

    def __init__(
        self, position_tolerance: float, orientation_tolerance: float, max_iterations: int, patience: int
    ) -> None: ...

class Spread:
    """Length of a step [rad, m], least difference in some joint or -1, dimensions of the self-motion, and when to end
    [s], a time of `perf_counter`.
    """

    def __init__(self, step: float, finest: float, redundancy: int, deadline: float) -> None: ...

class Round:
    """Of a search: attributes as in `search/search_round.hpp`."""

    n_uniform: int
    n_drawn: int
    tempering: float
    stratified: bool
    distinct_tolerance: float
    has_continued: bool
    fewest_roots: int
    n_wanted: int
    spread: Spread
    effort: Effort
    seed: float

class Found:
    """What a search has found so far: verified configurations."""

    def __init__(self, dof: int) -> None: ...
    def __len__(self) -> int: ...
    def keep(self, mask: BoolArray) -> None:
        """Forget the rows where mask (n,) is false."""
    @property
    def rows(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.uint32]]:
        """Positions (n, dof), errors (2, n) [m], [rad], and experts (n,)."""
    @property
    def best(self) -> FloatArray:
        """While nothing was found, the best attempt (1, dof)."""
    @property
    def n_seeded(self) -> int:
        """Rows without those of the last round's continuation."""
    @property
    def n_remote(self) -> int:
        """Seeds of the last round, after continuation, that led far from all known rows."""

class HeldForm:
    """Self-motions of an arm of seven joints as functions of one joint: `closed_form/redundancy_parameter.hpp`."""

    fits: bool
    held: int
    def __init__(self, chain: Chain) -> None: ...

class SelfMotions:
    """The solutions of a task that are curves: the arm has one free joint more than the pose, or the position, takes.

    The seed is from 0 to below 1.
    """

    def __init__(self, chain: Chain, task: Task, seed: float) -> None: ...
    def search(self, chain: Chain, effort: Effort, confidence: float, missed_share: float, deadline: float) -> bool:
        """Restarts until a missed share below 1 is bounded, else until hardly a curve can be missing; False where time
        was up before, a time of `perf_counter`, or where there are too many families.
        """
    def certify(self, chain: Chain, form: HeldForm) -> bool:
        """All families by closed form, in place of a search; False where not everything is decided: nothing is changed
        then.
        """
    def even(
        self, chain: Chain, n: int, separation: float, distinct_tolerance: float, deadline: float
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Verified solutions (n, dof) spread evenly over all families, or where a separation > 0 is given as many as it
        takes, their errors (2, n), and whether there was time for all until the deadline, a time of `perf_counter`.
        Near-duplicates are left out, with a negative tolerance none.
        """
    def scattered(self, chain: Chain, spacing: float, deadline: float) -> tuple[FloatArray, FloatArray, bool]:
        """Verified solutions (n, dof) at random on the families, on average one for each spacing [rad, m] of their
        length, their errors (2, n), and whether there was time for all.
        """
    def nearest(self, chain: Chain, reference: FloatArray, most: int) -> FloatArray:
        """Of the families nearest to a configuration (dof,) about the nearest places (n, dof), the nearest first."""
    def missed_share(self, confidence: float) -> float:
        """Upper bound of the share of restarts that lead to a family not found."""
    @property
    def families(self) -> FloatArray:
        """Length [rad, m], whether closed, whether traced from end to end (n, 3)."""
    @property
    def n_restarts(self) -> int: ...
    @property
    def is_too_many(self) -> bool:
        """Whether families were left out, for there are too many whole turns."""

class Experts:
    """Linear Gaussian experts: weights (k, d, n_context), biases (k, d), Cholesky factors (k, d, d)."""

    def __init__(self, weights: FloatArray, biases: FloatArray, scale_trils: FloatArray, n_reported: int) -> None: ...
    def draw(
        self, log_weights: FloatArray, contexts: FloatArray, n: int, seed: float
    ) -> tuple[FloatArray, npt.NDArray[np.uint32]]:
        """Samples (n, d) and the experts they came from; log weights (n_contexts k,), contexts (n_contexts, ...)."""
    def log_density(self, log_weights: FloatArray, contexts: FloatArray, samples: FloatArray) -> FloatArray:
        """Log density (n,) [nat] of samples (n, d), exact to rounding."""

class Chain:
    """A serial chain: links (m + 1, 16), see `kinematics/chain.py`."""

    def __init__(self, links: FloatArray, dof: int) -> None: ...
    def forward(self, q: FloatArray) -> FloatArray:
        """Poses (n, 4, 4)."""
    def jacobian(self, q: FloatArray) -> FloatArray:
        """Jacobians (n, 6, dof)."""
    def gram_log_dets(self, q: FloatArray, weights: FloatArray, n_rows: int) -> FloatArray:
        """log det(J diag(w) J^T) (n,) of the first 3 or all 6 rows of Jacobians, of weights (n, dof)."""
    def skeleton(self, q: FloatArray) -> FloatArray:
        """Points (n, m + 2, 3)."""
    def verify(self, task: Task, q: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Errors (2, n) [m], [rad], and whether each configuration is within the tolerances and the limits."""
    def refine(
        self, task: Task, effort: Effort, seeds: FloatArray
    ) -> tuple[FloatArray, BoolArray, IntArray, FloatArray]:
        """Configurations (n, dof), converged (n,), steps (n,), errors (2, n)."""
    def solve(
        self, task: Task, effort: Effort, poses: FloatArray, max_restarts: int, seed: float
    ) -> tuple[FloatArray, BoolArray, IntArray, FloatArray]:
        """As `refine`, one solution of each pose (n, 4, 4) from uniform seeds."""
    def spread(self, task: Task, spread: Spread, solutions: FloatArray, most: int, seed: float) -> FloatArray:
        """Solutions and those found from them along the self-motion, at most so many in all."""
    def descend(
        self, task: Task, solutions: FloatArray, preferred: FloatArray, weights: FloatArray, continuous: BoolArray
    ) -> FloatArray:
        """Solutions moved along the self-motion to a local minimum of a quadratic cost."""
    def search_round(
        self,
        task: Task,
        round: Round,
        conditional: tuple[Experts, FloatArray, FloatArray],
        given: FloatArray,
        continuous: BoolArray,
        found: Found,
    ) -> None:
        """One round of a search: experts, log weights and contexts; seeds given (n, dof)."""

def solve_poses(
    chain: Chain,
    task: Task,
    effort: Effort,
    poses: FloatArray,
    numbers: npt.NDArray[np.uint64],
    patience: IntArray,
    n_wanted: int,
    distinct_tolerance: float,
    n_threads: int,
    deadline: float,
) -> tuple[FloatArray, FloatArray, BoolArray, IntArray, BoolArray]:
    """Solutions of poses (m, 4, 4) from uniform seeds, each with a random number (m,) and its patience, in attempts.

    Positions (n, dof), errors (2, n) [m], [rad], valid (n,), how many rows a pose has (m,), whether time was up (m,). A
    pose without solution has its best attempt, or nothing if none was made. The deadline is a time of `perf_counter`.
    """

def fill_self_motions(
    chain: Chain, task: Task, spread: Spread, solutions: FloatArray, most: int, seed: float
) -> FloatArray:
    """Solutions (n, dof), and verified ones between them along the self-motions, which have to be curves."""

def chart_poses(
    chain: Chain,
    task: Task,
    effort: Effort,
    spread: Spread,
    poses: FloatArray,
    numbers: npt.NDArray[np.uint64],
    n_seeds: int,
    n_threads: int,
) -> FloatArray:
    """Of poses (m, 4, 4): number of solutions and of families, length of self-motions, manipulability (m, 4)."""

def trace_families(
    chain: Chain, task: Task, solutions: FloatArray, spacing: float, most: int, seed: float
) -> tuple[FloatArray, IntArray, BoolArray]:
    """The self-motions through solutions (m, dof), which have to be curves, from end to end: verified places along them
    (n, dof), in order and about a spacing apart, the family of each (n,), and whether each family is closed (k,).
    """

def approach(
    chain: Chain,
    task: Task,
    effort: Effort,
    positions: FloatArray,
    reference: FloatArray,
    continuous: BoolArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Configurations moved onto the pose, and along the self-motion to where a reference (dof,) is nearest: the valid
    ones of them (n, dof), their errors (2, n) and their distances (n,).
    """

def shortest_path(rows: FloatArray, counts: IntArray, wraps: BoolArray, largest: float, penalty: float) -> IntArray:
    """Which of the rows (n, dof) of each layer (m,), of counts (m,) rows, the shortest path takes; -1 without rows."""

def path_reach(rows: FloatArray, counts: IntArray, wraps: BoolArray, largest: float) -> tuple[BoolArray, int, float]:
    """Which rows lie on a path of steps within the largest (n,), how many layers it reaches, the least step beyond."""
