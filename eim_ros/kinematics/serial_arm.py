"""A serial chain of joints: its limits and its forward kinematics, compiled.

Frames: poses and Jacobians are of the tip link in the base link's frame. Angles in [rad], lengths in [m].
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from eim_ros.errors import RobotError
from eim_ros.kinematics.arguments import checked_generator, number_from_zero, whole_number
from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION, build_chain
from eim_ros.kinematics.collision_options import CollisionOptions
from eim_ros.kinematics.shipped import robot_path
from eim_ros.kinematics.task import JointLimits
from eim_ros.kinematics.urdf import parse_urdf, read_urdf_source, urdf_folder
from eim_ros.numerics.arguments import LARGEST, as_numbers, checked_flag, expect
from eim_ros.solver import MOST_JOINTS, Chain, ClosedForm, HeldForm

__all__ = ["SerialArm"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
ArmT = TypeVar("ArmT", bound="SerialArm")

SOLVING = "robot.solve(pose) gives one solution, eim_ros.ik.Sampler.of(robot).sample(pose) all of them"
DRAWING = "`eim draw --robot NAME --pose ...` draws its solutions, eim_ros.viz.arm_picture.draw_solutions from Python"
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
