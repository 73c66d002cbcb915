"""Interface of the compiled solver.

Arrays that are not contiguous float64 are copied. Arguments that do not match raise `ValueError`. A deadline is a time
of `perf_counter` [s]. Unless a docstring says otherwise, shapes use these letters: n is the number of configurations,
dof the number of independent joints, m the number of moving joints, and k the number of experts.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LANES: int  # number of double-precision numbers that are processed together
MOST_JOINTS: int  # maximum number of joints
NO_EXPERT: int
"""Number of the expert of rows that came from no expert."""
SPACING: float  # minimum distance of solutions found by continuation, as a share of the step

def sin(x: npt.ArrayLike) -> FloatArray:
    """Return the sines of angles [rad]. This and the next functions return the same bits on every processor."""

def cos(x: npt.ArrayLike) -> FloatArray: ...
def acos(x: npt.ArrayLike) -> FloatArray: ...
def atan2(y: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray: ...
def exp(x: npt.ArrayLike) -> FloatArray: ...
def log(x: npt.ArrayLike) -> FloatArray: ...
def first_not_rigid(poses: FloatArray, tolerance: float) -> int:
    """Return the index of the first of the transforms (n, 4, 4) that is not rigid, or n if all are rigid.

    A rigid transform is finite, its rotation is orthonormal within a tolerance and right-handed, and its last row is
    0 0 0 1.
    """

def rigid_copy(pose: FloatArray, tolerance: float) -> FloatArray | None:
    """Return a copy of a pose (4, 4), or None if it is not a rigid transform."""

def distinct_rows(bounds: FloatArray, rows: FloatArray, tolerance: float, deadline: float) -> tuple[IntArray, int]:
    """Return the indices of distinct rows (n, dof), and how many rows were examined before the deadline.

    A row is distinct if it differs from each earlier distinct row by more than a tolerance in some joint.
    """

def is_within(bounds: FloatArray, rows: FloatArray, others: FloatArray, tolerance: float) -> BoolArray:
    """Return whether each row (n, dof) agrees with one of `others` (m, dof) within a tolerance in every joint."""

def farthest_rows(bounds: FloatArray, rows: FloatArray, n: int, deadline: float) -> IntArray:
    """Return the indices of at most n rows (n_rows, dof) that are far apart.

    The choice begins with the first row. Each further row is the one farthest from all rows chosen before. Afterwards,
    each chosen row is replaced by a row in the middle of the rows nearest to it. If the deadline passes, the first rows
    that are not yet chosen complete the result.
    """

def log_gate(contexts: FloatArray, weights: FloatArray, biases: FloatArray, separate: bool = False) -> FloatArray:
    """Return log softmax(contexts @ weights + biases) - log n of n contexts, shape (n, k) [nat].

    Shapes: contexts (n, n_context), weights (n_context, k), biases (k,). With `separate`, log n is not subtracted,
    because the contexts are not averaged.
    """

def in_revolution_of(reference: FloatArray, q: FloatArray, wraps: BoolArray) -> FloatArray:
    """Return configurations (n, dof) whose wrapping joints are in the revolution nearest to a reference (dof,)."""

def revolutions(
    chain: Chain,
    task: Task,
    roots: FloatArray,
    reference: FloatArray | None,
    weights: FloatArray | None,
    most: int,
    deadline: float,
) -> tuple[FloatArray, FloatArray, IntArray, float]:
    """Return the 2π-equivalent solutions of roots (n, dof) that are within the limits of a task.

    Returns at most `most` valid configurations (k, dof), their errors (2, k) [m], [rad], the index of the root of each
    (k,), and the total number of such configurations.

    The configurations are sorted by the cost sum_j w_j (q_j - r_j)^2 with reference r and weights w (dof,), which are 1
    by default. Without a reference, r is the middle of the limits, and the smallest cost of the same root is
    subtracted. The enumeration ends at the deadline.
    """

class ClosedForm:
    """Closed form of an arm with six joints, or with seven if one of them is the redundancy parameter.

    `held` is the index of the redundancy parameter, or -1 for six joints. `kind` names the closed form and is empty if
    the arm has none. The roots may belong to a nearby arm that has a closed form. `deviation` bounds the difference of
    the two arms: sines of angles, and lengths relative to the size of the arm.

    Other arms with six joints have the kind "general". One of their joints may be prismatic. Elimination finds all
    their solutions (see `general_6r/general_6r.hpp`). It also solves poses that the form of a nearby arm leaves open.
    `certifies` is true if roots can be certified.
    """

    kind: str
    deviation: float
    certifies: bool
    def __init__(self, chain: Chain, held: int) -> None: ...
    def roots(self, chain: Chain, task: Task, tolerance: float, wants_proof: bool = False) -> Roots:
        """Return the roots that differ by more than a tolerance [rad] in some joint.

        With `wants_proof`, the general form tries to certify that no root is missing.
        """
    def solutions(
        self,
        chain: Chain,
        task: Task,
        poses: FloatArray,
        tolerance: float,
        wants_proof: bool = False,
        reference: FloatArray | None = None,
        weights: FloatArray | None = None,
        most: int = 0,
        deadline: float = ...,
        n_threads: int = 1,
        choices: FloatArray | Sequence[float] = ...,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the solutions (k, dof) of poses (m, 4, 4), their errors (2, k) [m], [rad], and a table (m, 8).

        Solutions are ordered by pose. Each pose has the solutions that `revolutions` returns for its roots, at most
        `most`, or the number of roots if this is larger. The columns of the table are the number of solutions returned,
        the number of roots among them, the number of all solutions, and whether the roots are complete, certified,
        singular, swept and nearly equal (within 0.01 in each joint). If a pose was not begun in time, its number of all
        solutions is NaN. The pose of the task does not matter. `choices` (m,) in [0, 1) select one of the roots within
        the limits for each pose, all equally likely, but the table still counts all of them. If at most one solution
        near a reference is requested, and the reference is itself a solution, only the reference is returned, and the
        number of all solutions is infinite.
        """

class Roots:
    """Configurations (n, dof) that reach the pose of a task, regardless of the limits.

    Each joint value is within half a turn of zero. `is_singular` is true if some of the roots belong to a continuum of
    solutions. `is_complete` is true if there are no other roots, except other members of such a continuum.
    `is_certified` is true if completeness does not rely on a measured noise level. `is_swept` is true if
    `swept_self_motions` returns the complete continua. The first `n_isolated` roots do not belong to a continuum.
    """

    positions: FloatArray
    n_isolated: int
    is_swept: bool
    is_singular: bool
    is_complete: bool
    is_certified: bool
    def __len__(self) -> int: ...

class Task:
    """Pose to be reached, limits and tolerances.

    The rows of bounds (3, dof) are the lower limits, the upper limits, and 1 for continuous joints. `tolerances` has
    shape (6,), or (0,) if there are no tolerances per axis.
    """

    def __init__(
        self,
        bounds: FloatArray,
        pose: FloatArray,
        position_only: bool,
        tolerances: FloatArray,
        position_tolerance: float,
        orientation_tolerance: float,
    ) -> None: ...

class StepOptions:
    """Stopping criteria of the iterative solver.

    They are the tolerances [m], [rad], the maximum number of steps, and the number of steps within which the squared
    error must halve.
    """

    def __init__(
        self, position_tolerance: float, orientation_tolerance: float, max_iterations: int, patience: int
    ) -> None: ...

class ContinuationOptions:
    """Settings of the continuation along self-motions.

    They are the length of a step [rad, m], the minimum difference of two solutions in some joint (or -1 for none), the
    dimension of the self-motion, and the deadline [s].
    """

    def __init__(self, step: float, finest: float, redundancy: int, deadline: float) -> None: ...

class SearchOptions:
    """Settings of a search; `search/search.hpp` describes the attributes."""

    n: int
    diversity: float
    apart: float
    is_distinct: bool
    is_sampled: bool
    until_deadline: bool
    redundancy: int
    oversampling: float
    effort: StepOptions
    ordering_seconds: float

class Patience:
    """Number of seeds without a new solution after which a pose is given up.

    The number is `within` up to the distance `farthest` from a centre (3,) [m], and `beyond` for farther poses.
    """

    def __init__(self, centre: FloatArray, farthest: float, within: int, beyond: int) -> None: ...

class ParameterisedForm:
    """Parameterised closed form of an arm with seven joints (see `closed_form/redundancy_parameter.hpp`).

    The self-motions are functions of one joint, the redundancy parameter with index `held`. `fits` is false if the arm
    has no such form.
    """

    fits: bool
    held: int
    def __init__(self, chain: Chain) -> None: ...
    def nearest(
        self,
        chain: Chain,
        task: Task,
        effort: StepOptions,
        reference: FloatArray,
        start: FloatArray,
        continuous: BoolArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the solution nearest to a reference (dof,), as `nearest_on_curve` does.

        `start` is the reference within the limits. The solution next to it shortens the search. There is no row if
        there is no solution, or if something is undecided near a singularity.
        """

class General7R:
    """Any arm with seven revolute joints, for proofs about its self-motions (see `general_7r/general_7r.hpp`).

    If the axes nearly meet as a parameterised closed form requires, the proof starts from the arm whose axes do meet,
    see `certify/isotopy.hpp`. `fits` is false for other arms, and if every elimination is degenerate.
    """

    fits: bool
    def __init__(self, chain: Chain) -> None: ...

class SelfMotions:
    """Self-motion curves of a task, for an arm with one joint more than the pose or the position requires.

    The seed is a number in [0, 1).
    """

    def __init__(self, chain: Chain, task: Task, seed: float) -> None: ...
    @property
    def is_certified(self) -> bool: ...
    @property
    def free_joints(self) -> IntArray: ...
    def search(
        self, chain: Chain, effort: StepOptions, confidence: float, missed_share: float, deadline: float
    ) -> bool:
        """Trace self-motion components from random restarts. Return False if the search ended early.

        If `missed_share` is below 1, the search continues until this bounds the share of restarts that lead to unknown
        components, with the given confidence. Otherwise the search ends when a missing curve is very unlikely. It ends
        early at the deadline, or if there are too many components.
        """
    def certify(self, chain: Chain, form: ParameterisedForm) -> bool:
        """Compute all self-motion components in closed form, instead of by a search.

        Returns False, without changes, if the closed form cannot decide every case.
        """
    def prove(self, chain: Chain, form: ParameterisedForm | General7R, deadline: float) -> bool:
        """Prove that `search` has found all self-motions, and trace curves that the proof finds missing.

        Returns False if something is undecided, or at the deadline.
        """
    def divided(
        self, chain: Chain, task: Task, n: int, spacing: float, deadline: float
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Return distinct solutions (n, dof) that divide all self-motion components evenly.

        Also returns their errors (2, n) [m], [rad], and whether all were computed before the deadline. If `spacing` is
        above 0, it limits the distance of neighbours, and `n` has no effect.
        """
    def even(
        self,
        chain: Chain,
        task: Task,
        n: int,
        spacing: float,
        deadline: float,
        conditions: Callable[[FloatArray], BoolArray] | None,
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Return at most n solutions that divide all self-motion components evenly, in random order.

        `conditions` returns which configurations (k, dof) satisfy further conditions. If few do, more are tried. The
        other results are those of `divided`.
        """
    def scattered(self, chain: Chain, spacing: float, deadline: float) -> tuple[FloatArray, FloatArray, bool]:
        """Return verified solutions (n, dof) at random positions on the self-motion components.

        On average there is one solution per `spacing` [rad, m] of the length of the components. Also returns the errors
        (2, n) [m], [rad], and whether all were computed before the deadline.
        """
    def nearest(
        self,
        chain: Chain,
        task: Task,
        effort: StepOptions,
        reference: FloatArray,
        equivalents: FloatArray,
        continuous: BoolArray,
        most: int,
        n: int,
        deadline: float,
    ) -> tuple[FloatArray, FloatArray, bool]:
        """Return solutions ordered by their distance from a reference (dof,), and the other results of `divided`.

        The solutions are the nearest one on each of the `most` nearest components, and n others that divide all
        components. `equivalents` (k, dof) are 2π-equivalents of the reference within narrowed limits.
        """
    def missed_share(self, confidence: float) -> float:
        """Return an upper bound of the share of restarts that lead to components not yet found."""
    @property
    def components(self) -> FloatArray:
        """Table (n, 3) of self-motion components: length [rad, m], whether closed, whether traced from end to end."""
    @property
    def n_restarts(self) -> int: ...

class Experts:
    """Linear Gaussian experts with weights (k, d, n_context), biases (k, d) and Cholesky factors (k, d, d)."""

    def __init__(self, weights: FloatArray, biases: FloatArray, scale_trils: FloatArray, n_reported: int) -> None: ...
    def draw(
        self, log_weights: FloatArray, contexts: FloatArray, n: int, seed: float
    ) -> tuple[FloatArray, npt.NDArray[np.uint32]]:
        """Draw samples, and return them (n, d) with the index of the expert that drew each (n,).

        Shapes: log_weights (n_contexts * k,), contexts (n_contexts, n_context).
        """
    def log_density(self, log_weights: FloatArray, contexts: FloatArray, samples: FloatArray) -> FloatArray:
        """Return the log density (n,) [nat] of samples (n, d), exact up to rounding."""
    def log_densities(
        self, log_weights: FloatArray, contexts: FloatArray, samples: FloatArray, counts: IntArray, n_threads: int
    ) -> FloatArray:
        """Return the log density (n,) [nat] of samples of m mixtures.

        The first `counts[0]` samples belong to the first mixture, and so on.
        Shapes: log weights (m, c), contexts (m, n_contexts, n_context), samples (n, d).
        """

class Chain:
    """Serial chain with links (m + 1, 16): rotation, translation, whether it slides, source, multiplier and offset."""

    def __init__(self, links: FloatArray, dof: int) -> None: ...
    def forward(self, q: FloatArray) -> FloatArray:
        """Return the poses (n, 4, 4) of the tip."""
    def jacobian(self, q: FloatArray) -> FloatArray:
        """Return the Jacobians (n, 6, dof)."""
    def gram_log_dets(self, q: FloatArray, weights: FloatArray, n_rows: int) -> FloatArray:
        """Return log det(J diag(w) J^T) (n,) for weights w (n, dof), with the first `n_rows` (3 or 6) rows of J."""
    def skeleton(self, q: FloatArray) -> FloatArray:
        """Return the points (n, m + 2, 3) of the chain's skeleton [m]."""
    def verify(self, task: Task, q: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the errors (2, n) [m], [rad], and whether each configuration satisfies the tolerances and limits."""
    def refine(
        self, task: Task, effort: StepOptions, seeds: FloatArray
    ) -> tuple[FloatArray, BoolArray, IntArray, FloatArray]:
        """Solve from seeds (n, dof).

        Returns configurations (n, dof), whether each has converged (n,), the steps taken (n,), and the errors (2, n)
        [m], [rad].
        """
    def spread(
        self, task: Task, spread: ContinuationOptions, solutions: FloatArray, most: int, seed: float
    ) -> FloatArray:
        """Return the solutions, and others found by continuation along the self-motion, at most `most` in total."""
    def is_surely_nearest(self, q: FloatArray, distance: float, position_only: bool) -> bool:
        """Return whether q (dof,), a local minimum of the distance from a reference, is surely the nearest solution."""
    def descend(
        self, task: Task, solutions: FloatArray, preferred: FloatArray, weights: FloatArray, continuous: BoolArray
    ) -> FloatArray:
        """Return solutions after null-space optimisation, which moves each to a local minimum of a quadratic cost."""

def search_poses(
    chain: Chain,
    task: Task,
    options: SearchOptions,
    poses: FloatArray,
    seeds: Sequence[float],
    patience: Patience,
    conditional: tuple[Experts, FloatArray, FloatArray],
    near: FloatArray,
    continuous: BoolArray,
    conditions: Callable[[FloatArray], BoolArray] | None,
    n_threads: int,
    deadline: float,
) -> tuple[FloatArray, FloatArray, BoolArray, npt.NDArray[np.uint32], IntArray, BoolArray, IntArray]:
    """Search for solutions of poses (m, 4, 4), each with a seed in [0, 1).

    `conditional` consists of experts, log weights (m, c) and contexts (m, n_contexts, n_context). `near` (0 or 1, dof)
    is the first seed. `conditions` returns which configurations (k, dof) satisfy further conditions. It is allowed only
    with one thread.

    Returns configurations (n, dof), their errors (2, n) [m], [rad], whether they are valid (n,), and the expert of each
    (n,). For each pose, also returns the number of rows (m,), whether the deadline ended the search (m,), and the
    number of seeds (m,). A pose without a solution has its best attempt.
    """

def solve_on_curves(
    chain: Chain,
    task: Task,
    effort: StepOptions,
    poses: FloatArray,
    seeds: Sequence[float],
    n: int,
    spacing: float,
    confidence: float,
    reference: FloatArray | None,
    equivalents: FloatArray,
    continuous: BoolArray,
    form: ParameterisedForm | None,
    n_threads: int,
    deadline: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return at most n solutions of each of the poses (m, 4, 4) on its self-motion curves.

    Without a reference, they divide the curves evenly, or by a `spacing` above 0. Otherwise they are nearest to the
    reference (dof,), as in `SelfMotions`. For one solution near a reference, a closed form makes tracing unnecessary.

    Returns configurations (k, dof), their errors (2, k) [m], [rad], a table (m, 7), and the components of all poses
    (see `SelfMotions.components`). Columns of the table are the number of rows, the number of components, the bound on
    the share of missing components at a confidence, and four flags: whether the row is surely the nearest solution, the
    search ended in time, all solutions were computed in time, and the spacing needs more than n. The bound is NaN if a
    pose was not begun in time.
    """

def solve_poses(
    chain: Chain,
    task: Task,
    effort: StepOptions,
    poses: FloatArray,
    numbers: npt.NDArray[np.uint64],
    patience: Patience,
    n_wanted: int,
    distinct_tolerance: float,
    n_threads: int,
    deadline: float,
) -> tuple[FloatArray, FloatArray, BoolArray, IntArray, BoolArray, IntArray]:
    """Solve many poses (m, 4, 4) from uniform seeds.

    `numbers` (m,) contains a seed for each pose. A pose is given up after the number of attempts that `patience` says.

    Returns configurations (n, dof), their errors (2, n) [m], [rad], and whether they are valid (n,). For each pose,
    also returns the number of rows (m,), whether the deadline ended the search (m,), and the number of attempts (m,). A
    pose without a solution has its best attempt, or no row if there was no attempt.
    """

def fill_self_motions(
    chain: Chain, task: Task, spread: ContinuationOptions, solutions: FloatArray, most: int, seed: float
) -> FloatArray:
    """Return solutions (n, dof) and verified solutions between them along the self-motions.

    The self-motions must be curves.
    """

def chart_poses(
    chain: Chain,
    task: Task,
    effort: StepOptions,
    spread: ContinuationOptions,
    poses: FloatArray,
    numbers: npt.NDArray[np.uint64],
    n_seeds: int,
    n_threads: int,
) -> FloatArray:
    """Return a table (m, 4) with one row for each pose (m, 4, 4).

    Its columns are the number of solutions, the number of self-motion components, the length of the self-motions, and
    the manipulability.
    """

def swept_self_motions(form: ClosedForm, chain: Chain, task: Task, seed: float) -> SelfMotions:
    """Return the self-motions of a pose at which angles of a closed form are free. `free_joints` names their joints.

    `is_certified` is true if it is certain which curves exist, and how limits cut them.
    """

def trace_components(
    chain: Chain, task: Task, solutions: FloatArray, spacing: float, most: int, seed: float
) -> tuple[FloatArray, IntArray, BoolArray]:
    """Trace the self-motion components through solutions (m, dof) from end to end.

    The self-motions must be curves. Returns verified points (n, dof) along them, in order and about `spacing` apart,
    the component of each point (n,), and whether each component is closed (k,).
    """

def nearest_on_curve(
    chain: Chain,
    task: Task,
    effort: StepOptions,
    positions: FloatArray,
    reference: FloatArray,
    continuous: BoolArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Move configurations onto the pose, then along the self-motion as close as possible to a reference (dof,).

    Returns the valid results (n, dof), their errors (2, n) [m], [rad], and their distances to the reference (n,).
    """

def shortest_path(
    rows: FloatArray,
    counts: IntArray,
    wraps: BoolArray,
    scale: FloatArray,
    largest: float,
    penalty: float,
    blocked: IntArray,
) -> IntArray:
    """Return the row of each layer (m,) that is on the shortest path through all layers, or -1 for an empty layer.

    `rows` (n, dof) contains the layers one after the other, and `counts` (m,) their numbers of rows. Motions of
    joints to layer k are multiplied by `scale[k]`, shape (m, dof), before they are compared with `largest`. The steps
    between the pairs of rows in `blocked` (n_blocked, 2) count as too large.
    """

def path_reach(
    rows: FloatArray, counts: IntArray, wraps: BoolArray, scale: FloatArray, largest: float, blocked: IntArray
) -> tuple[BoolArray, int, float]:
    """Return how far paths lead if each step is at most `largest` (see `shortest_path`).

    Returns which rows are on such a path (n,), the number of layers that are reached, and the smallest step to the next
    layer.
    """
