"""A serial robot: an arm that finds configurations for poses. Refinement, continuation, null-space descent, restarts.

Each call checks its arguments and is then compiled; the algorithms are in `eim_ros/solver`.

A serial chain of joints: its limits and its forward kinematics, compiled.

Frames: poses and Jacobians are of the tip link in the base link's frame. Angles in [rad], lengths in [m].

A tool on the tip of a robot: a further link, fixed to the tip link, that reaches poses in its place.

Files that come with the package (urdf/, config/, launch/), in a checkout and in an installed package alike.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import (
    LARGEST,
    as_numbers,
    check_keywords,
    checked_flag,
    checked_generator,
    checked_path,
    expect,
    number_from_zero,
    numbers_of,
    positive_number,
    whole_number,
)
from eim_ros.core.errors import MissingFileError, PoseError, RobotError, did_you_mean
from eim_ros.kinematics.collision_options import CollisionOptions
from eim_ros.kinematics.poses import check_pose, is_position, pose_from
from eim_ros.kinematics.tolerances import JointLimits, TaskOptions, make_task, redundancy, transforms
from eim_ros.kinematics.urdf import (
    MULTIPLIER,
    OFFSET,
    PRISMATIC,
    SOURCE,
    TRANSLATION,
    build_chain,
    parse_urdf,
    read_urdf_source,
    urdf_folder,
)
from eim_ros.solver import MOST_JOINTS, Chain, ClosedForm, Effort, HeldForm, Spread, Task

if TYPE_CHECKING:
    from typing_extensions import Unpack


SHIPPED_ROBOTS = (
    "fetch",
    "gen3",
    "iiwa14",
    "panda",
    "planar3",
    "planar5",
    "planar10",
    "sawyer",
    "ur3e",
    "ur5",
    "ur5e",
    "ur10e",
    "xarm7",
)
DESCRIPTIONS = "robot_descriptions"  # a package of many robots, by names such as ur5_description


def share_path(relative: str) -> Path:
    """Path of a shipped file or folder, such as "urdf/iiwa14.urdf".

    Looked for beside the package (checkout, editable install), in `share/eim_ros` of the prefix that the package is
    installed in (pip, also with --user or --target; colcon) and of each entry of AMENT_PREFIX_PATH.

    Raises
    ------
    MissingFileError
        With the folders that were searched. It is a `FileNotFoundError`, too.
    """
    relative = str(checked_path(relative, MissingFileError))
    above = Path(__file__).resolve().parents[2:6]  # the package is in <prefix>/lib/python3.x/site-packages
    prefixes = [*above, *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))]
    folders = [above[0], *(prefix / "share" / "eim_ros" for prefix in prefixes)]
    for folder in folders:
        candidate = folder / relative
        if os.path.exists(candidate):  # unlike Path.exists false for a name that is too long
            return candidate
    searched = ", ".join(str(folder) for folder in folders)
    raise MissingFileError(f"{relative} of eim_ros is not installed; searched {searched}", relative)


def shipped_urdf(name: str) -> Path:
    """Path of a shipped robot's URDF."""
    try:
        return share_path(f"urdf/{name}.urdf")
    except FileNotFoundError as error:
        raise RobotError(str(error), name) from error


def robot_path(name_or_path: str | Path) -> Path:
    """Path of a robot's URDF, given as such, by the name of a shipped robot, or by one of `robot_descriptions`.

    Raises
    ------
    RobotError
        For a name that is none of them, with those that are nearest to it.
    """
    path = checked_path(name_or_path, RobotError)
    name = str(path)
    if name in SHIPPED_ROBOTS:
        return shipped_urdf(name)
    if not name.isidentifier() or os.path.exists(path):
        return path
    described = _described(name)
    if described is not None:
        return described
    raise RobotError(
        f"no shipped robot {name!r}: there are {', '.join(SHIPPED_ROBOTS)}; any other by the path of its URDF, or by "
        f"its name in {DESCRIPTIONS} where that is installed{did_you_mean(name, SHIPPED_ROBOTS)}",
        name,
    )


def _described(name: str) -> Path | None:
    """The file of a robot of `robot_descriptions`, which fetches it first where it has to; None where there is none."""
    try:
        module = importlib.import_module(f"{DESCRIPTIONS}.{name}")
    except ModuleNotFoundError:
        return None
    except Exception as error:  # of what it fetches by: no network, no disk
        raise RobotError(f"{DESCRIPTIONS} cannot bring {name!r}: {error}", name) from error
    path = getattr(module, "URDF_PATH", None) or getattr(module, "XACRO_PATH", None)
    if path is None:
        raise RobotError(f"{DESCRIPTIONS} has no URDF of {name!r}, only MJCF, which is not read: convert it", name)
    return Path(path)


FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
ArmT = TypeVar("ArmT", bound="SerialArm")

SOLVING = "robot.solve(pose) gives one solution, eim_ros.ik.Sampler.of(robot).sample(pose) all of them"
DRAWING = "`eim draw --robot NAME --pose ...` draws its solutions, eim_ros.view.draw_solutions from Python"
NAMING = "its joints are robot.joint_names, robot.dof is their number"
INSTEAD = {
    **dict.fromkeys(("ik", "inverse", "inverse_kinematics", "solve_ik", "ikine", "compute_ik"), SOLVING),
    **dict.fromkeys(("fkine", "forward_kinematics", "compute_fk"), "robot.forward(q), or robot.fk(q), gives its poses"),
    **dict.fromkeys(("plot", "show", "draw", "visualize"), DRAWING),
    **dict.fromkeys(("joints", "n_joints", "num_joints", "nq", "n", "n_dof"), NAMING),
    **dict.fromkeys(("jacob0", "jac"), "robot.jacobian(q) gives its Jacobians in the base frame"),
    **dict.fromkeys(("lower_limits", "upper_limits", "joint_limits", "qlim"), "robot.lower and robot.upper are they"),
    **dict.fromkeys(("random_q", "random", "sample"), "robot.random_configuration() gives one within the limits"),
}  # names that other libraries have

MOST_CONFIGURATIONS = 2_000_000_000  # that may be asked for at once; memory ends before


@dataclass(frozen=True, eq=False)
class SerialArm:
    """A serial chain of revolute, continuous and prismatic joints, some of which may follow others.

    Attributes
    ----------
    name, base_link, tip_link : str
        Names in the URDF.
    urdf : str
        Links, joints and collision shapes of the whole URDF; with base and tip it rebuilds the robot.
    joint_names : tuple of str
        Independent joints from base to tip.
    lower, upper : (dof,)
        Limits [rad] or [m]; -pi and pi for continuous joints.
    continuous : (dof,) bool
        Joints that turn without limits; their results are wrapped to [-pi, pi).
    fingerprint : str
        SHA-256 of the kinematics: equal for equal robots, whatever their links are called.
    links : (m + 1, 16)
        The chain in the form the solver works on, see `chain.py`.
    bounds : (3, dof)
        Lower limits, upper limits, and 1 where a joint is continuous, else 0; also for the solver.
    collision : CollisionOptions
        How the collision shapes are read when they are needed.
    folder : Path or None
        Where the URDF is, from which relative names of its meshes count; None where it was read from a text.
    """

    name: str
    base_link: str
    tip_link: str
    urdf: str = field(repr=False)
    joint_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    continuous: BoolArray
    fingerprint: str
    links: FloatArray = field(repr=False)
    bounds: FloatArray = field(init=False, repr=False)
    collision: CollisionOptions = field(default_factory=CollisionOptions, repr=False)
    folder: Path | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        bounds = self.limits.bounds
        bounds.flags.writeable = False
        object.__setattr__(self, "bounds", bounds)

    @classmethod
    def from_urdf(
        cls: type[ArmT],
        source: str | Path,
        base: str | None = None,
        tip: str | None = None,
        collision: CollisionOptions | None = None,
    ) -> ArmT:
        """Read a robot from the path or the XML text of a URDF.

        Parameters
        ----------
        source : str or Path
            Path, or XML text (starts with '<').
        base, tip : str, optional
            Links between which the chain lies; default the root link and the only leaf.
        collision : CollisionOptions, optional
            How the collision shapes are read, meshes above all, when they are needed; default: as they are.

        Raises
        ------
        RobotError
            If the file cannot be read, or there is no serial chain of supported joints between base and tip.
        """
        if collision is not None:
            expect(collision, CollisionOptions, "collision", RobotError)
        tree = parse_urdf(read_urdf_source(source))
        base, tip, joints = tree.chain(base, tip)
        model = build_chain(joints)
        return cls(
            name=tree.name,
            base_link=base,
            tip_link=tip,
            urdf=tree.text,
            joint_names=model.joint_names,
            lower=model.lower,
            upper=model.upper,
            continuous=model.continuous,
            fingerprint=model.fingerprint,
            links=model.links,
            collision=collision or CollisionOptions(),
            folder=urdf_folder(source),
        )

    @classmethod
    def load(
        cls: type[ArmT],
        name_or_path: str | Path,
        base: str | None = None,
        tip: str | None = None,
        collision: CollisionOptions | None = None,
    ) -> ArmT:
        """A robot by its name or its file.

        Parameters
        ----------
        name_or_path : str or Path
            A shipped robot (see `SHIPPED_ROBOTS`), or the path of a URDF; where xacro is installed that of a xacro too;
            where `robot_descriptions` is installed also a name of that package, such as "ur5_description".
        base, tip, collision : optional
            See `from_urdf`.

        Raises
        ------
        RobotError
            If there is no such robot, or as `from_urdf`.
        """
        is_text = urdf_folder(name_or_path) is None
        return cls.from_urdf(name_or_path if is_text else robot_path(name_or_path), base, tip, collision)

    @property
    def dof(self) -> int:
        """Number of independent joints."""
        return len(self.joint_names)

    @property
    def limits(self) -> JointLimits:
        """Of the joints."""
        return JointLimits(self.lower, self.upper, self.continuous)

    @functools.cached_property
    def chain(self) -> Chain:
        """For the solver; `RobotError` for more joints than it takes."""
        try:
            return Chain(self.links, self.dof)
        except ValueError as error:
            raise RobotError(
                f"robot {self.name!r} has {self.dof} joints, expected 1 to {MOST_JOINTS}, and at most twice as many "
                "with their followers",
                self.dof,
            ) from error

    @functools.cached_property
    def closed_form(self) -> ClosedForm | None:
        """Of arms of six turning joints, of which the first or last three axes meet, or three in a row are parallel."""
        return self._form(-1)

    def closed_form_holding(self, joint: int) -> ClosedForm | None:
        """The same of the six other joints of an arm of seven, while one is held."""
        joint = whole_number(joint, 0, "the joint that is held", self.dof - 1)
        forms = self._held_forms
        if joint not in forms:
            forms[joint] = self._form(joint)
        return forms[joint]

    @functools.cached_property
    def held_form(self) -> HeldForm | None:
        """Of arms of seven turning joints, of which the first (or last) three axes meet, and two that neighbour the
        last (or first) one: their self-motions as functions of that one.
        """
        form = HeldForm(self.chain)
        return form if form.fits else None

    @functools.cached_property
    def _held_forms(self) -> dict[int, ClosedForm | None]:
        return {}

    def _form(self, held: int) -> ClosedForm | None:
        form = ClosedForm(self.chain, held)
        return form if form.kind else None

    @functools.cached_property
    def reach(self) -> float:
        """Upper bound of the distance from base to tip [m]: link lengths and prismatic travel, summed."""
        sliding = self.links[self.links[:, PRISMATIC] != 0.0]
        source = sliding[:, SOURCE].astype(np.int64)
        ends = [sliding[:, MULTIPLIER] * limit[source] + sliding[:, OFFSET] for limit in (self.lower, self.upper)]
        return float(np.linalg.norm(self.links[:, TRANSLATION], axis=1).sum() + np.abs(ends).max(axis=0).sum())

    def forward(self, q: npt.ArrayLike) -> FloatArray:
        """Poses (n, 4, 4) of configurations (n, dof), or (4, 4) of one (dof,)."""
        rows, single = self._rows(q)
        poses = self.chain.forward(rows)
        return poses[0] if single else poses

    fk = forward

    def jacobian(self, q: npt.ArrayLike) -> FloatArray:
        """Jacobians (n, 6, dof) of configurations (n, dof), or (6, dof) of one: linear rows [m], then angular [rad]."""
        rows, single = self._rows(q)
        jacobians = self.chain.jacobian(rows)
        return jacobians[0] if single else jacobians

    def manipulability(self, q: npt.ArrayLike, position_only: bool = False) -> FloatArray:
        """Yoshikawa's measure (n,) of configurations (n, dof): the product of the Jacobian's singular values.

        It is zero where the arm is singular. Of the six rows, or with `position_only` of the three of the position; of
        the largest dof singular values where the arm has fewer joints than that. Of one configuration (dof,) an array
        of no dimension, which is as good as a number.
        """
        _, single = self._rows(q)
        jacobians = self.chain.jacobian(self._finite_rows(q, "configurations"))
        position_only = checked_flag(position_only, "position_only", RobotError)
        with np.errstate(over="ignore"):  # lengths are at most 1e100, but products of them may be infinite
            values = np.linalg.svd(jacobians[:, :3] if position_only else jacobians, compute_uv=False).prod(axis=-1)
        return np.asarray(values[0] if single else values)

    def skeleton(self, q: npt.ArrayLike) -> FloatArray:
        """Points (n, n_points, 3), or (n_points, 3) of one: base, origin of each moving joint, tip [m]."""
        rows, single = self._rows(q)
        points = self.chain.skeleton(rows)
        return points[0] if single else points

    def within_limits(self, q: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Whether each configuration (n, dof) is within the limits, widened by a tolerance [rad] or [m]; NaN is not.

        A continuous joint has no limits, whatever turn it is in.
        """
        rows, _ = self._rows(q)
        tolerance = number_from_zero(tolerance, "the tolerance")
        inside = (rows >= self.lower - tolerance) & (rows <= self.upper + tolerance)
        inside |= self.continuous & np.isfinite(rows)
        return np.asarray(inside.all(axis=1), dtype=np.bool_)

    def random_configuration(self, rng: np.random.Generator | None = None) -> FloatArray:
        """One configuration (dof,), uniform within the limits; the generator is fresh if missing."""
        return np.asarray(self.sample_configurations(1, rng)[0])

    def sample_configurations(self, n: int, rng: np.random.Generator | None = None) -> FloatArray:
        """Configurations (n, dof), uniform within the limits; the generator is fresh if missing."""
        shares = checked_generator(rng).random((whole_number(n, 0, "n", MOST_CONFIGURATIONS), self.dof))
        return self.lower + (self.upper - self.lower) * shares

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process needs: the compiled chain is made anew there."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    if not TYPE_CHECKING:  # a type checker knows what is missing by itself

        def __getattr__(self, name: str) -> Any:
            """`AttributeError` that says what does what other libraries call by this name."""
            instead = f"; {INSTEAD[name]}" if name in INSTEAD else ""
            raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}{instead}", name=name, obj=self)

    def _rows(self, q: npt.ArrayLike) -> tuple[FloatArray, bool]:
        """Contiguous float64 rows (n, dof), and whether one row was given."""
        try:
            rows = as_numbers(q)
        except (TypeError, ValueError) as error:
            raise RobotError(f"configurations must be an (n, {self.dof}) array of numbers", q) from error
        single = rows.ndim == 1 and rows.size == self.dof
        if single:
            rows = rows[None]
        elif rows.size == 0:
            rows = np.empty((0, self.dof))
        if rows.ndim != 2 or rows.shape[1] != self.dof:
            raise RobotError(
                f"configurations of robot {self.name!r} must have shape (n, {self.dof}), got {np.shape(q)}", q
            )
        return rows, single

    def _finite_rows(self, q: npt.ArrayLike, what: str) -> FloatArray:
        """Rows (n, dof), refused unless finite, and so that their squares are."""
        rows, _ = self._rows(q)
        if not (np.abs(rows) <= LARGEST).all():
            raise RobotError(f"{what} must be finite", q)
        return rows


MAX_ITERATIONS = 60
REFINE_PATIENCE = 6
RESTART_PATIENCE = 3
MAX_RESTARTS = 1000


@dataclass(frozen=True, eq=False)
class Refinement:
    """Refined configurations and their errors, measured by forward kinematics on the very configurations returned.

    A row that did not converge is no solution. `bool()` is True if at least one did.

    Attributes
    ----------
    positions : (n, dof)
        [rad] or [m], always within the limits; where not converged, the best configuration met.
    converged : (n,) bool
        Whether both errors are within the tolerances.
    iterations : (n,) int
        Steps taken; with restarts, summed over the attempts.
    position_error : (n,)
        [m].
    orientation_error : (n,)
        [rad]; 0 when only the position was asked for.
    """

    positions: FloatArray
    converged: BoolArray
    iterations: npt.NDArray[np.int64]
    position_error: FloatArray
    orientation_error: FloatArray

    def __bool__(self) -> bool:
        """Whether at least one row is a solution."""
        return bool(self.converged.any())


@dataclass(frozen=True, eq=False)
class Robot(SerialArm):
    """A serial arm with its inverse kinematics; for its attributes see `SerialArm`."""

    def task(self, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]) -> Task:
        """Pose and limits as the solver takes them, checked; see `TaskOptions` and `make_task`."""
        check_keywords(asked, TaskOptions.__annotations__, "a call with a pose")
        options = dict(asked)
        limits = self.limits.narrowed(asked.get("lower"), asked.get("upper"))
        bounds = self.bounds if "lower" not in options and "upper" not in options else limits.bounds
        options.pop("lower", None), options.pop("upper", None)
        return make_task(bounds, pose, **options)  # type: ignore[arg-type]

    def pose_errors(
        self, q: npt.ArrayLike, pose: npt.ArrayLike, tolerances: npt.ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Position errors (n,) [m] and orientation errors (n,) [rad] of configurations against one pose (4, 4).

        With tolerances (6,), see `TaskOptions`: only what is beyond them.
        """
        errors, _ = self.verify(q, pose, tolerances=tolerances)
        return errors[0], errors[1]

    def verify(
        self, q: npt.ArrayLike, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]
    ) -> tuple[FloatArray, BoolArray]:
        """Errors (2, n) [m], [rad] of configurations (n, dof), see `pose_errors`, and whether each is valid (n,).

        That is, within the tolerances and within the limits; the orientation's error is 0 with `position_only`. For
        keywords see `TaskOptions`.
        """
        rows = self._rows(q)[0]
        return self.chain.verify(self.task(pose, **asked), rows)

    def refine(
        self,
        seeds: npt.ArrayLike,
        pose: npt.ArrayLike,
        *,
        max_iterations: int = MAX_ITERATIONS,
        patience: int = REFINE_PATIENCE,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """Move each seed onto the pose by damped least squares, within limits.

        Parameters
        ----------
        seeds : (n, dof) array_like
            Finite configurations; those outside the limits are clamped first. They are not changed.
        pose : (4, 4) array_like
            Wanted pose of the tip in the base frame.
        max_iterations : int
            Most steps per seed, 0 to 1000000.
        patience : int
            A seed is given up when its squared error does not halve within so many steps, 1 to 1000000.
        **asked
            See `TaskOptions`.

        Raises
        ------
        RobotError
            If seeds are not finite or of a wrong shape, a number is out of its bounds, or the limits are empty or wider
            than the robot's.
        ConstraintError
            If the tolerances are not six numbers of at least 0.
        PoseError
            If the pose is not a finite rigid transform.
        """
        parameters = ("seeds", "pose", "max_iterations", "patience")
        check_keywords(asked, TaskOptions.__annotations__, "Robot.refine", parameters)
        rows, task = self._finite_rows(seeds, "seeds"), self.task(pose, **asked)
        positions, converged, iterations, errors = self.chain.refine(
            task, _effort(asked, max_iterations, patience), rows
        )
        return Refinement(positions, converged, iterations, errors[0], errors[1])

    def spread(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        n: int,
        rng: np.random.Generator | None = None,
        *,
        step: float = 0.4,
        finest: float | None = None,
        **asked: Unpack[TaskOptions],
    ) -> FloatArray:
        """Further solutions of a pose, by continuation along the self-motion of a redundant arm from known ones.

        Where the self-motions are curves, for the arm has one joint more than the pose takes, continuation goes on
        outside the limits for a while, and so finds pieces of the curves from which none was known.

        Parameters
        ----------
        solutions : (m, dof) array_like
            Configurations that reach the pose, within the limits.
        pose : (4, 4) array_like
        n : int
            Most solutions wanted, 0 to 1000000.
        rng : numpy Generator, optional
            Fresh if missing.
        step : float
            Length of a step [rad, m]. New solutions are at least 0.6 of it from all others, in Euclidean distance.
        finest : float, optional
            Where the self-motions are curves and fewer than n are found, the gaps between them are divided evenly, as
            long as each differs from all others by more than this [rad, m] in some joint; default: not.
        **asked
            See `TaskOptions`.

        Returns
        -------
        (k, dof) array
            k <= n; fewer, where steps from all solutions lead to no more.
        """
        known, task = self._finite_rows(solutions, "solutions"), self.task(pose, **asked)
        finest = -1.0 if finest is None else positive_number(finest, "the finest difference of solutions")
        step, n = positive_number(step, "the step"), whole_number(n, 0, "n")
        if not max(step, finest) < math.inf:
            raise RobotError("the step and the finest difference of solutions must be finite", (step, finest))
        free = redundancy(
            self.limits.narrowed(asked.get("lower"), asked.get("upper")).bounds, asked.get("position_only", False)
        )
        spread = Spread(step, finest, free, math.inf)
        return self.chain.spread(task, spread, known, len(known) + n, checked_generator(rng).random())[len(known) :]

    def descend(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        preferred: npt.ArrayLike,
        weights: npt.ArrayLike,
        **asked: Unpack[TaskOptions],
    ) -> FloatArray:
        """Null-space descent: solutions of a pose, moved along the self-motion to a local minimum of a cost.

        The cost is sum_j w_j (q_j - p_j)^2, with differences on the circle where a joint is continuous. No solution's
        gets higher; those of an arm without redundancy stay where they are.

        Parameters
        ----------
        solutions : (n, dof) array_like
            Configurations that reach the pose, within the limits.
        pose : (4, 4) array_like
        preferred : (dof,) array_like
            p [rad] or [m].
        weights : (dof,) array_like
            w >= 0.
        **asked
            See `TaskOptions`.

        Returns
        -------
        (n, dof) array
        """
        known, task = self._finite_rows(solutions, "solutions"), self.task(pose, **asked)
        (liked, is_one), (weighed, is_other) = self._rows(preferred), self._rows(weights)
        if not (is_one and is_other):
            raise RobotError(f"a cost needs a value and a weight of each of {self.dof} joints", (preferred, weights))
        cost = np.concatenate([liked, weighed])
        if not np.isfinite(cost).all() or (cost[1] < 0.0).any():
            raise RobotError("a cost needs finite joint values, and finite weights of at least 0", (preferred, weights))
        if not cost[1].any():
            return np.array(known)
        return self.chain.descend(task, known, cost[0], cost[1] / cost[1].max(), self.continuous)

    def solve(
        self,
        pose: npt.ArrayLike,
        rng: np.random.Generator | None = None,
        *,
        max_restarts: int = MAX_RESTARTS,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """One solution of one pose from uniform random seeds, or the best attempt of all restarts (n = 1).

        Parameters
        ----------
        pose : (4, 4) array_like
            Or in any of the forms of `pose_forms.FORMS`; with a position (3,) alone any orientation will do.
        rng : numpy Generator, optional
            Fresh if missing.
        max_restarts : int
            Most seeds, 1 to 1000000.
        **asked
            See `TaskOptions`.
        """
        if is_position(pose):
            pose, asked = pose_from(pose), {**asked, "position_only": True}
        return self._solve(check_pose(pose)[None], rng, max_restarts, asked)

    def solve_many(
        self,
        poses: npt.ArrayLike,
        rng: np.random.Generator | None = None,
        *,
        max_restarts: int = MAX_RESTARTS,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """One solution for each of the poses (n, 4, 4), as `solve` but in one compiled call."""
        return self._solve(transforms(poses), rng, max_restarts, asked)

    def _solve(
        self, targets: FloatArray, rng: np.random.Generator | None, max_restarts: int, asked: TaskOptions
    ) -> Refinement:
        check_keywords(asked, TaskOptions.__annotations__, "Robot.solve", ("pose", "rng", "max_restarts"))
        max_restarts, rng = whole_number(max_restarts, 1, "max_restarts"), checked_generator(rng)
        task, effort = self._restarts(asked) if asked else self._plain_restarts
        positions, converged, iterations, errors = self.chain.solve(task, effort, targets, max_restarts, rng.random())
        return Refinement(positions, converged, iterations, errors[0], errors[1])

    def _restarts(self, asked: TaskOptions) -> tuple[Task, Effort]:
        """What `Chain.solve` needs beside the targets; the pose of the task does not count."""
        return self.task(np.eye(4), **asked), _effort(asked, MAX_ITERATIONS, RESTART_PATIENCE)

    @functools.cached_property
    def _plain_restarts(self) -> tuple[Task, Effort]:
        return self._restarts({})


def _effort(asked: TaskOptions, max_iterations: int, patience: int) -> Effort:
    tolerances = asked.get("position_tolerance", 1e-6), asked.get("orientation_tolerance", 1e-6)
    most_steps, most_vain = whole_number(max_iterations, 0, "max_iterations"), whole_number(patience, 1, "patience")
    return Effort(float(tolerances[0]), float(tolerances[1]), most_steps, most_vain)


def tool_from(numbers: Sequence[float]) -> FloatArray:
    """Pose (4, 4) of a tool's tip in the frame of the tip link, from X Y Z [m], or X Y Z QX QY QZ QW.

    Raises
    ------
    PoseError
        If there are not 3 or 7 finite numbers, or the quaternion is not of unit length.
    """
    values = numbers_of(numbers, (None,), "a tool", PoseError)
    if len(values) not in (3, 7):
        raise PoseError(f"a tool needs 3 or 7 numbers (X Y Z [QX QY QZ QW]), got {len(values)}", numbers)
    return pose_from(values[:3], values[3:] if len(values) == 7 else None)


def with_tool(robot: Robot, tool: npt.ArrayLike) -> Robot:
    """The robot with a tool: its tip link is a new one, `<tip link>_tool`, fixed to the present one.

    Parameters
    ----------
    robot : Robot
    tool : (4, 4) array_like
        Pose of the tool's tip in the frame of the tip link [m]. The tool has no shape that collides.

    Raises
    ------
    PoseError
        If it is not a finite rigid transform.
    """
    expect(robot, Robot, "robot", RobotError)
    pose = check_pose(tool)
    description = ElementTree.fromstring(robot.urdf)
    taken = {link.get("name") for link in description.findall("link")}
    taken |= {joint.get("name") for joint in description.findall("joint")}
    name = f"{robot.tip_link}_tool"
    while name in taken:
        name += "_tool"
    ElementTree.SubElement(description, "link", name=name)
    joint = ElementTree.SubElement(description, "joint", name=name, type="fixed")
    ElementTree.SubElement(joint, "parent", link=robot.tip_link)
    ElementTree.SubElement(joint, "child", link=name)
    xyz, rpy = (" ".join(map(repr, values)) for values in (pose[:3, 3].tolist(), _roll_pitch_yaw(pose)))
    ElementTree.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
    text = ElementTree.tostring(description, encoding="unicode")
    carrying = Robot.from_urdf(text, robot.base_link, name, robot.collision)
    return dataclasses.replace(carrying, folder=robot.folder)


def _roll_pitch_yaw(pose: FloatArray) -> list[float]:
    """Angles about the fixed axes x, y, z [rad], R = R_z(yaw) R_y(pitch) R_x(roll); yaw is 0 where it is free."""
    r = pose[:3, :3]
    level = math.hypot(r[0, 0], r[1, 0])  # cos pitch
    pitch = math.atan2(-r[2, 0], level)
    if level < 1e-8:  # only roll - yaw or roll + yaw is defined
        return [math.atan2(-r[1, 2], r[1, 1]), pitch, 0.0]
    return [math.atan2(r[2, 1], r[2, 2]), pitch, math.atan2(r[1, 0], r[0, 0])]
