"""Serial robots: joints, limits, forward kinematics and Jacobians. To solve poses, use `eim_ros.ik.Sampler`.

`Robot` is a chain of joints with limits. Each method validates its arguments and then runs compiled code from
`eim_ros/solver`. Poses and Jacobians describe the tip link in the base frame, with angles in [rad] and lengths in [m].
"""

from __future__ import annotations

import functools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, length, orthonormal_rows
from eim_ros.core.checks import (
    LARGEST,
    as_numbers,
    check_keywords,
    checked_flag,
    checked_generator,
    expect,
    number_from_zero,
    numbers_of,
    whole_number,
    with_hints,
)
from eim_ros.core.errors import Hinting, PoseError, RobotError, RobotWarning, warn_caller
from eim_ros.kinematics.branches import Branches
from eim_ros.kinematics.catalogue import checked_source, read_description, read_srdf, robot_path, urdf_folder
from eim_ros.kinematics.collision_options import CollisionOptions
from eim_ros.kinematics.poses import check_pose, is_position, pose_from
from eim_ros.kinematics.tolerances import JointLimits, TaskOptions, make_task
from eim_ros.kinematics.urdf import (
    MULTIPLIER,
    OFFSET,
    PRISMATIC,
    SOURCE,
    TRANSLATION,
    build_chain,
    limit_remarks,
    parse_urdf,
)
from eim_ros.kinematics.virtual_joints import VirtualForm
from eim_ros.solver import MOST_JOINTS, Chain, ClosedForm, General7R, ParameterisedForm, Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_CONFIGURATIONS = 2_000_000_000  # maximum number of configurations in a call; memory usually runs out before
LONGEST_SLIDE = 100.0  # wider limits of a slide mean "no limit", because rails and gantries are shorter [m]
LEAST_SINE = 1e-3  # slides count as parallel if the least singular value of their axes is smaller
FULL_POSE = 6  # number of joints that a pose determines


@with_hints
@dataclass(frozen=True, eq=False, init=False)
class Robot(Hinting):
    """Serial chain of revolute, continuous, prismatic and mimic joints.

    The source is the name of an included robot, the path or text of a URDF, or the path of a xacro or MJCF file. An
    MJCF file is converted to a URDF with the root `world`, see `mjcf.py`.

    A URDF does not define where the arm begins and ends. The default base is the root of the URDF. If the first joint
    is floating or planar, the default base is the link below this joint. The default tip is at the end of the longest
    chain of moving joints. If several links are fixed to this end, frames of tools are preferred (`tool0`, `tcp`,
    `ee_gripper_link`). Fingers, wheels and rotors do not count. Sliding joints count as fingers if they have at most
    10 cm of travel and start at the same body or follow each other. A warning lists these joints. The arguments `tip`
    and `base` select other links.

    A mimic joint may come before the joint that it follows. It must not follow a missing joint, a fixed joint, or
    itself.

    Solutions are always within the limits. A warning lists joints whose limits are both 0, which is the default of
    `<limit>`. Another warning lists joints that may turn more than eight times, because their limits are probably in
    degrees. Revolute joints with limits beyond 1e5 rad count as continuous. Sliding joints with a range of more than
    100 m are only searched where they can reach the pose, see `reaching_limits`. Tests solve poses up to 1 km from the
    base.

    Packages in `package://NAME/...` and `$(find NAME)` are searched first in `package_paths`, then near the file, and
    last in AMENT_PREFIX_PATH and ROS_PACKAGE_PATH, see docs/reference/paths.md. The search applies to the description
    itself, to xacro files that it includes, to meshes, and to an SRDF in `collision`.

    Attributes
    ----------
    name, base_link, tip_link : str
        Names in the URDF.
    urdf : str
        Links, joints and collision shapes of the complete URDF. Together with base and tip link, it defines the robot.
    joint_names : tuple of str
        Names of the independent joints from base to tip.
    lower, upper : (dof,)
        Limits [rad] or [m]. Continuous joints have the limits -pi and pi.
    velocity_limits : (dof,)
        Maximum velocities [rad/s] or [m/s]. A velocity that is missing or 0 in the URDF is infinite.
    continuous : (dof,) bool
        Whether each joint turns without limits. Results for such joints are wrapped to [-pi, pi).
    fingerprint : str
        SHA-256 hash of the kinematics. Equal robots have equal hashes, independent of the names of their links.
    links : (m + 1, 16)
        Chain in the form that the solver uses, see `urdf.py`.
    bounds : (3, dof)
        Lower limits, upper limits, and 1 for continuous joints or 0 for others, as the solver uses them.
    collision : CollisionOptions
        Options for reading the collision shapes.
    folder : Path or None
        Folder of the URDF, used to resolve relative names of meshes; None if the URDF was read from a text.
    remarks : tuple of str
        Warnings about the description: joints that cannot move, limits that seem to be in degrees, and sliding joints
        that count as fingers in the choice of the default tip. Each remark is issued as a `RobotWarning` when a robot
        is loaded.

    Examples
    --------
    >>> from eim_ros.kinematics import Robot
    >>> robot = Robot("panda")
    >>> robot.dof, robot.base_link, robot.tip_link
    (7, 'panda_link0', 'panda_link8')

    The next arm ends at another link of the URDF. The base and the tip may also be on different branches, such as the
    two hands of a robot. The chain then contains all joints between the hands, and a pose is the pose of one hand in
    the frame of the other:

    >>> Robot("panda", tip="panda_link5").dof
    5
    """

    name: str
    base_link: str
    tip_link: str
    urdf: str = field(repr=False)
    joint_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    velocity_limits: FloatArray = field(repr=False)
    continuous: BoolArray
    fingerprint: str
    links: FloatArray = field(repr=False)
    bounds: FloatArray = field(repr=False)
    collision: CollisionOptions = field(repr=False)
    folder: Path | None = field(repr=False)
    remarks: tuple[str, ...] = field(repr=False)

    _ELSEWHERE: ClassVar = {
        **dict.fromkeys(("fkine", "forward", "forward_kinematics"), "fk(q)"),
        **dict.fromkeys(("n", "n_joints", "ndof", "nq", "num_joints"), "dof"),
        **dict.fromkeys(
            ("inverse", "inverse_kinematics", "ik", "ikine", "ikine_LM", "ik_LM", "solve"), "Sampler(robot).solve(pose)"
        ),
        **dict.fromkeys(("jacob0", "jacobe"), "jacobian(q)"),
        **dict.fromkeys(("random_configuration", "random_configurations", "sample"), "random(n, seed)"),
        **dict.fromkeys(("joint_limits", "qlim"), "lower and upper"),
    }

    def __init__(
        self,
        source: str | Path,
        tip: str | None = None,
        *,
        base: str | None = None,
        collision: CollisionOptions | None = None,
        package_paths: Sequence[str | Path] = (),
    ) -> None:
        self._load(source, tip, base, collision, package_paths)
        for remark in self.remarks:
            warn_caller(remark, RobotWarning)

    @classmethod
    def quietly(
        cls,
        source: str | Path,
        tip: str | None = None,
        *,
        base: str | None = None,
        collision: CollisionOptions | None = None,
        package_paths: Sequence[str | Path] = (),
    ) -> Robot:
        """Return `Robot(source, tip, ...)` without issuing warnings; see `remarks`."""
        robot = object.__new__(cls)
        robot._load(source, tip, base, collision, package_paths)
        return robot

    def _load(
        self,
        source: str | Path,
        tip: str | None,
        base: str | None,
        collision: CollisionOptions | None,
        package_paths: Sequence[str | Path],
    ) -> None:
        options = CollisionOptions() if collision is None else collision
        options = expect(options, CollisionOptions, "collision", RobotError).with_package_paths(package_paths)
        source, folders = checked_source(source), options.package_paths
        if urdf_folder(source) is not None:
            source = robot_path(source, folders)
        folder = urdf_folder(source)
        description = read_description(source, folders)
        tree = replace(parse_urdf(description.text), in_loops=description.in_loops).between(base, tip)
        is_tip_given = tip is not None
        base, tip, joints = tree.chain(base, tip)
        model = build_chain(joints)
        on_tip = "" if is_tip_given else tree.tip_remark(base)
        bounds = JointLimits(model.lower, model.upper, model.continuous).bounds
        bounds.flags.writeable = False
        self.__dict__.update(
            vars(model),
            name=tree.name,
            base_link=base,
            tip_link=tip,
            urdf=tree.text,
            bounds=bounds,
            collision=replace(options, srdf=read_srdf(options.srdf, folder, folders)),
            folder=folder,
            remarks=(*limit_remarks(joints), *filter(None, [on_tip]), *description.remarks_on(joints)),
        )

    @classmethod
    def from_urdf(
        cls,
        source: str | Path,
        tip: str | None = None,
        *,
        base: str | None = None,
        package_paths: Sequence[str | Path] = (),
    ) -> Robot:
        """Return `Robot(source, tip, ...)`. Other libraries use this name."""
        return cls(source, tip, base=base, package_paths=package_paths)

    def with_tip(self, link: str) -> Robot:
        """Return the arm between the same base link and another tip link of the URDF.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> Robot("panda").with_tip("panda_link5").joint_names[-1]
        'panda_joint5'
        """
        return self._rebuilt(self.urdf, link)

    def with_tool(self, tool: npt.ArrayLike) -> Robot:
        """Return the robot with a tool. Its tip is a new link, `<tip link>_tool`, which is fixed to the current tip.

        `tool` is the pose (4, 4) of the tool's tip in the frame of the current tip [m], in any form of a pose. Three
        numbers are a translation. The tool has no collision shape.

        Raises
        ------
        PoseError
            If the tool is not a finite rigid transform.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> robot = Robot("panda").with_tool([0.0, 0.0, 0.1])
        >>> robot.tip_link
        'panda_link8_tool'
        """
        import pinocchio  # deferred because the import is slow

        pose = pose_from(tool) if is_position(tool) else check_pose(tool)
        description = ElementTree.fromstring(self.urdf)
        taken = {element.get("name") for kind in ("link", "joint") for element in description.findall(kind)}
        name = f"{self.tip_link}_tool"
        while name in taken:
            name += "_tool"
        ElementTree.SubElement(description, "link", name=name)
        joint = ElementTree.SubElement(description, "joint", name=name, type="fixed")
        ElementTree.SubElement(joint, "parent", link=self.tip_link)
        ElementTree.SubElement(joint, "child", link=name)
        angles = pinocchio.rpy.matrixToRpy(pose[:3, :3])
        xyz, rpy = (" ".join(map(repr, values)) for values in (pose[:3, 3].tolist(), angles.tolist()))
        ElementTree.SubElement(joint, "origin", xyz=xyz, rpy=rpy)
        text = ElementTree.tostring(description, encoding="unicode")
        return self._rebuilt(text, name)

    def _rebuilt(self, urdf: str, tip: str) -> Robot:
        """Return a robot with the same base, folder and options, without repeating the warnings."""
        robot = Robot.quietly(urdf, tip, base=self.base_link, collision=self.collision)
        return robot._with(folder=self.folder)

    def with_collision_options(self, options: CollisionOptions) -> Robot:
        """Return the same robot with other options for reading its collision shapes.

        The robot's folders of packages are searched after the folders in the options.
        """
        options = expect(options, CollisionOptions, "options", RobotError)
        folders = tuple(dict.fromkeys([*options.package_paths, *self.collision.package_paths]))
        srdf = read_srdf(options.srdf, self.folder, folders)
        return self._with(collision=replace(options, srdf=srdf, package_paths=folders))

    def with_continuous(self, joints: BoolArray) -> Robot:
        """Return the same robot, where joints are also continuous if `joints` (dof,) is true.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> robot = Robot("ur5e")
        >>> bool(robot.with_continuous(robot.revolves).continuous.all())
        True
        """
        lower, upper = np.where(joints, -math.pi, self.lower), np.where(joints, math.pi, self.upper)
        continuous = self.continuous | joints
        bounds = JointLimits(lower, upper, continuous).bounds
        robot = self._with(lower=lower, upper=upper, continuous=continuous, bounds=bounds)
        for name in ("branches", "plausible"):  # cached values that depend on the limits
            robot.__dict__.pop(name, None)
        return robot

    def _with(self, **changes: Any) -> Robot:
        """Return a copy with other attributes, which shares the compiled chain and the closed forms."""
        copy = object.__new__(Robot)
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    @property
    def dof(self) -> int:
        """Number of independent joints."""
        return len(self.joint_names)

    @property
    def limits(self) -> JointLimits:
        """Limits of the joints."""
        return JointLimits(self.lower, self.upper, self.continuous)

    @functools.cached_property
    def chain(self) -> Chain:
        """Compiled chain for the solver; raises `RobotError` if it has more joints than the solver supports."""
        try:
            return Chain(self.links, self.dof)
        except ValueError as error:
            raise RobotError(
                f"robot {self.name!r} has {self.dof} joints, expected 1 to {MOST_JOINTS} joints, and at most "
                f"{2 * MOST_JOINTS} with mimic joints",
                self.dof,
            ) from error

    @functools.cached_property
    def closed_form(self) -> ClosedForm | None:
        """Closed-form inverse kinematics of an arm with six joints, or None for other arms. One joint may be prismatic.

        If the first or last three axes intersect in a point, or three consecutive axes are parallel, the solutions are
        certified. For other arms, elimination finds all solutions, and bounds their number up to a measured noise
        level. Elimination takes about 20 ms to prepare. Some arms with six joints also have no closed form, for example
        if two axes coincide.
        """
        return self._form(-1)

    def closed_form_with_fixed(self, joint: int) -> ClosedForm | None:
        """Return the closed form of a seven-joint arm with one joint as the redundancy parameter, or None.

        The other six joints must satisfy the conditions of `closed_form`.
        """
        joint = whole_number(joint, 0, "the fixed joint", self.dof - 1)
        if joint not in self._held_forms:
            self._held_forms[joint] = self._form(joint)
        return self._held_forms[joint]

    def form_with_virtual_joints(self, free: str) -> VirtualForm | None:
        """Return the form of an arm with fewer joints than its task needs or with three sliding joints, or None.

        `free` contains the letters of the tip's axes about which the task allows any angle: "" for complete poses, "z"
        for a free rotation about z, and "xyz" for positions.
        """
        if free not in self._virtual_forms:
            self._virtual_forms[free] = VirtualForm.of(self.chain, self.links, self.reach, free)
        return self._virtual_forms[free]

    @functools.cached_property
    def branches(self) -> Branches:
        """Names of the branches of solutions: shoulder left or right, elbow up or down, wrist flip or no-flip."""
        return Branches.of(self.name, self.chain, self.links, self.bounds)

    @functools.cached_property
    def _virtual_forms(self) -> dict[str, VirtualForm | None]:
        return {}

    @functools.cached_property
    def parameterised_form(self) -> ParameterisedForm | None:
        """Parameterised closed form of the self-motions of an arm with seven revolute joints, or None.

        This form exists if the last three axes intersect in a point, and the second and third axes also intersect. The
        redundancy parameter is then the first joint. The form also exists if the axes counted from the tip satisfy
        these conditions. The parameter is then the last joint.
        """
        form = ParameterisedForm(self.chain)
        return form if form.fits else None

    @functools.cached_property
    def general_7r(self) -> General7R | None:
        """Form of an arm with seven revolute joints that can prove that all self-motions were found, or None.

        Almost all such arms have this form. Special axes make the elimination degenerate for a few arms. See
        `solver/certify/curves.hpp`.
        """
        form = General7R(self.chain)
        return form if form.fits else None

    @functools.cached_property
    def _held_forms(self) -> dict[int, ClosedForm | None]:
        return {}

    def _form(self, held: int) -> ClosedForm | None:
        form = ClosedForm(self.chain, held)
        return form if form.kind else None

    @functools.cached_property
    def prismatic(self) -> BoolArray:
        """Whether each joint (dof,) is prismatic, so that its value is in metres."""
        links, slides = self.links[:-1], np.zeros(self.dof, dtype=np.bool_)
        slides[links[links[:, PRISMATIC] != 0.0, SOURCE].astype(np.int64)] = True
        return slides

    @functools.cached_property
    def revolves(self) -> BoolArray:
        """Whether a full revolution of each joint (dof,) brings all links of the chain back to the same pose.

        The value is False for prismatic joints, and for joints with a mimic joint whose multiplier is not an integer.
        """
        links, revolves = self.links[:-1], np.ones(self.dof, dtype=np.bool_)
        ratios = links[:, MULTIPLIER]
        revolves[links[(links[:, PRISMATIC] != 0.0) | (ratios != np.round(ratios)), SOURCE].astype(np.int64)] = False
        return revolves

    @functools.cached_property
    def reach(self) -> float:
        """Upper bound of the distance from base to tip [m]: the sum of link lengths and prismatic travel."""
        sliding = self.links[self.links[:, PRISMATIC] != 0.0]
        source = sliding[:, SOURCE].astype(np.int64)
        ends = [sliding[:, MULTIPLIER] * limit[source] + sliding[:, OFFSET] for limit in (self.lower, self.upper)]
        return float(length(self.links[:, TRANSLATION]).sum() + np.abs(ends).max(axis=0).sum())

    @functools.cached_property
    def offset(self) -> float:
        """Distance from the base to the first joint, which does not move [m]."""
        return float(length(self.links[0, TRANSLATION]))

    @functools.cached_property
    def plausible(self) -> list[tuple[float, float]]:
        """Range of each joint, up to a revolution beyond its limits [rad]. Values beyond it are probably in degrees.

        The range is infinite for sliding joints and for joints that wrap.
        """
        lower, upper, wraps = self.bounds
        beyond = np.where((wraps > 0.0) | self.prismatic, np.inf, 2.0 * math.pi)
        return list(zip((lower - beyond).tolist(), (upper + beyond).tolist(), strict=True))

    @functools.cached_property
    def unlimited_slides(self) -> npt.NDArray[np.int64]:
        """Sliding joints whose limits mean "no limit", such as -999999 to 999999 m."""
        return np.flatnonzero(self.prismatic & (self.upper - self.lower > LONGEST_SLIDE))

    def reaching_limits(
        self, positions: FloatArray, slack: float, lower: FloatArray, upper: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return limits (dof,) that narrow unlimited sliding joints to the range that positions (n, 3) need.

        Seeds should be drawn within these limits. Positions p may be missed by `slack` [m]. Let s be the length of the
        arm, including the travel of its limited slides. Consecutive unlimited slides with values v and axes A move the
        tip by A v. If they are the first joints of the chain, |A v - p| <= s. If they follow a revolute joint,
        |A v| <= |p| + s. With the least singular value of A, both inequalities bound |v_j|. The limits are twice as
        wide, so that they also contain the configuration nearest to a pose out of reach.

        If unlimited slides are parallel, or have revolute joints between them, their motions may cancel out at any
        distance, and some solutions may be outside the result. Therefore an arm with at most six joints keeps its
        limits, because all of its solutions are counted. An arm with more joints gets the limits that it would have
        with perpendicular slides.
        """
        wide = np.array([j for j in self.unlimited_slides if upper[j] - lower[j] > LONGEST_SLIDE], dtype=np.int64)
        groups = self._slide_groups(wide)
        least = [np.linalg.svd(group.matrix)[1][-1] if len(group.axes) <= 3 else 0.0 for group in groups]
        is_bounded = len(groups) == 1 and least[0] >= LEAST_SINE
        if not len(wide) or not math.isfinite(slack) or (not is_bounded and self.dof <= FULL_POSE):
            return lower, upper
        sliding = self.links[self.links[:, PRISMATIC] != 0.0]
        source = sliding[:, SOURCE].astype(np.int64)
        ends = [sliding[:, MULTIPLIER] * limit[source] + sliding[:, OFFSET] for limit in (lower, upper)]
        travel = np.where(np.isin(source, wide), np.abs(sliding[:, OFFSET]), np.abs(ends).max(axis=0))
        reach = np.linalg.norm(self.links[:, TRANSLATION], axis=1).sum() + travel.sum() + slack
        low, high = lower.copy(), upper.copy()
        for group in groups:
            if is_bounded and group.is_first:
                values, bound = positions @ np.linalg.pinv(group.matrix).T, reach
            else:
                values, bound = np.zeros((1, len(group.axes))), reach + np.linalg.norm(positions, axis=-1).max()
            bound *= 2.0 / (least[0] if is_bounded else 1.0)
            for joint, value in zip(group.axes, values.T, strict=True):
                first, last = max(value.min() - bound, lower[joint]), min(value.max() + bound, upper[joint])
                low[joint] = min(first, upper[joint] - bound)  # keeps a range of this size if the pose is out of reach
                high[joint] = max(last, lower[joint] + bound)
        return low, high

    def _slide_groups(self, wide: npt.NDArray[np.int64]) -> list[_SlideGroup]:
        """Return groups of the slides `wide`, separated by revolute joints."""
        groups, is_open, is_first, turn = list[_SlideGroup](), False, True, np.eye(3)
        for link in self.links[:-1]:
            turn = turn @ link[:9].reshape(3, 3)
            joint = int(link[SOURCE])
            if link[PRISMATIC] == 0.0:
                is_open = is_first = False
            elif joint in wide:
                if not is_open:
                    groups.append(_SlideGroup({}, is_first))
                    is_open = True
                axes = groups[-1].axes
                axes[joint] = axes.get(joint, 0.0) + link[MULTIPLIER] * turn[:, 2]
        return groups

    def fk(self, q: npt.ArrayLike) -> FloatArray:
        """Compute the tip poses (n, 4, 4) of configurations (n, dof), or (4, 4) of one configuration (dof,).

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> q = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
        >>> (Robot("panda").fk(q)[:3, 3].round(3) + 0.0).tolist()
        [0.307, 0.0, 0.59]
        """
        return self._each(q, self.chain.forward)

    def jacobian(self, q: npt.ArrayLike) -> FloatArray:
        """Compute the Jacobians (n, 6, dof) of configurations (n, dof), or (6, dof) of one configuration.

        The first three rows are linear [m], and the last three rows are angular [rad].

        Examples
        --------
        Compute the linear velocity of the tip if only the first joint turns, at 1 rad/s:

        >>> from eim_ros.kinematics import Robot
        >>> q = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
        >>> (Robot("panda").jacobian(q)[:3, 0].round(3) + 0.0).tolist()
        [0.0, 0.307, 0.0]
        """
        return self._each(q, self.chain.jacobian)

    def manipulability(self, q: npt.ArrayLike, position_only: bool = False) -> FloatArray:
        """Compute Yoshikawa's manipulability (n,) of configurations (n, dof).

        Manipulability is the product of the singular values of the Jacobian, and is zero at a singularity. With
        `position_only`, only the three linear rows of the Jacobian are used. If the arm has fewer joints than rows, the
        product has dof factors. For one configuration (dof,), the result is a 0-dimensional array.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> robot = Robot("planar3")
        >>> float(robot.manipulability([0.0, 0.0, 0.0], position_only=True).round(6))  # a stretched arm is singular
        0.0
        """
        _, single = self._rows(q)
        jacobians = self.chain.jacobian(self._finite_rows(q, "configurations"))
        position_only = checked_flag(position_only, "position_only", RobotError)
        with np.errstate(over="ignore"):  # lengths are at most 1e100, but their products may overflow
            rows = jacobians[:, :3] if position_only else jacobians
            rows = rows if rows.shape[1] <= rows.shape[2] else rows.transpose(0, 2, 1)
            values = orthonormal_rows(rows)[1].prod(axis=-1)
        return np.asarray(values[0] if single else values)

    def skeleton(self, q: npt.ArrayLike) -> FloatArray:
        """Compute the origins (n, n_points, 3) of base, moving joints and tip [m]; (n_points, 3) for one row."""
        return self._each(q, self.chain.skeleton)

    def _each(self, q: npt.ArrayLike, compute: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return the result for rows (n, dof), or its only entry for one configuration (dof,)."""
        rows, single = self._rows(q)
        computed = compute(rows)
        return computed[0] if single else computed

    def within_limits(self, q: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Return whether each configuration (n, dof) is within the limits, widened by a tolerance [rad] or [m].

        Any finite value of a continuous joint is within its limits. NaN is never within limits.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> robot = Robot("panda")
        >>> robot.within_limits([robot.upper, robot.upper + 0.1]).tolist()
        [True, False]
        """
        rows, tolerance = self._rows(q)[0], number_from_zero(tolerance, "the tolerance")
        inside = (rows >= self.lower - tolerance) & (rows <= self.upper + tolerance)
        inside |= self.continuous & np.isfinite(rows)
        return np.asarray(inside.all(axis=1), dtype=np.bool_)

    def random(self, n: int | None = None, seed: int | np.random.Generator | None = None) -> FloatArray:
        """Draw configurations (n, dof), or one (dof,) without `n`, uniform within the limits.

        `n` is from 0 to 2e9. The seed is a number or a generator. By default, each call draws other configurations.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> robot = Robot("panda")
        >>> q = robot.random(100, seed=0)
        >>> q.shape, bool(robot.within_limits(q).all())
        ((100, 7), True)
        """
        rows = 1 if n is None else whole_number(n, 0, "n", MOST_CONFIGURATIONS)
        drawn = self.lower + (self.upper - self.lower) * checked_generator(seed).random((rows, self.dof))
        return np.asarray(drawn[0]) if n is None else drawn

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to pickle. The compiled chain is built again when they are unpickled."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def _rows(self, q: npt.ArrayLike) -> tuple[FloatArray, bool]:
        """Return contiguous float64 rows (n, dof), and whether the input was a single configuration."""
        try:
            rows = as_numbers(q)
        except (TypeError, ValueError) as error:
            expected = f"an (n, {self.dof}) array of numbers, in the order of robot.joint_names"
            raise RobotError(f"configurations must be {expected}", q) from error
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
        """Return rows (n, dof) after a check that they are finite and small enough to be squared."""
        rows = self._rows(q)[0]
        usable = np.abs(rows) <= LARGEST
        if not usable.all():
            row = int(usable.all(axis=1).argmin())
            raise RobotError(
                f"{what} must be finite, and at most {LARGEST:g} in magnitude; row {row} is {rows[row].tolist()}",
                q,
            )
        return rows

    def task(self, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]) -> Task:
        """Validate a pose and options, and return them as a task for the solver, see `TaskOptions` and `make_task`."""
        check_keywords(asked, TaskOptions.__annotations__, "a call with a pose")
        options: dict[str, Any] = {name: value for name, value in asked.items() if name not in ("lower", "upper")}
        return make_task(self._bounds(asked), pose, **options)

    def _bounds(self, asked: TaskOptions) -> FloatArray:
        """Return the bounds of a call (3, dof)."""
        if "lower" not in asked and "upper" not in asked:
            return self.bounds
        return self.limits.narrowed(asked.get("lower"), asked.get("upper")).bounds

    def pose_errors(
        self, q: npt.ArrayLike, pose: npt.ArrayLike, tolerances: npt.ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Compute position errors (n,) [m] and orientation errors (n,) [rad] of configurations relative to a pose.

        With tolerances (6,), an error is the amount that exceeds its tolerance, see `TaskOptions`.
        """
        position, orientation = self.verify(q, pose, tolerances=tolerances)[0]
        return position, orientation

    def verify(
        self, q: npt.ArrayLike, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]
    ) -> tuple[FloatArray, BoolArray]:
        """Compute the errors (2, n) [m], [rad] of configurations (n, dof), and whether each is valid (n,).

        A valid configuration is within the tolerances and within the limits. With `position_only`, the orientation
        error is 0. See `pose_errors` for the errors and `TaskOptions` for the keyword arguments.

        Examples
        --------
        >>> from eim_ros.kinematics import Robot
        >>> robot = Robot("panda")
        >>> q = robot.random(2, seed=0)
        >>> errors, valid = robot.verify(q, robot.fk(q[0]))
        >>> valid.tolist()
        [True, False]
        """
        rows = self._rows(q)[0]
        return self.chain.verify(self.task(pose, **asked), rows)


class _SlideGroup(NamedTuple):
    """Prismatic joints without a revolute joint between them."""

    axes: dict[int, FloatArray]  # motion (3,) of the tip for a unit of each slide, with all revolute joints at zero
    is_first: bool  # whether no revolute joint precedes the group

    @property
    def matrix(self) -> FloatArray:
        """The axes as columns (3, n_slides)."""
        return np.column_stack(list(self.axes.values()))


def tool_from(numbers: Sequence[float]) -> FloatArray:
    """Return the pose (4, 4) of a tool in the frame of the tip link, from X Y Z [m] or X Y Z QX QY QZ QW.

    Raises
    ------
    PoseError
        If the input is not 3 or 7 finite numbers, or if the quaternion is not of unit length.

    Examples
    --------
    >>> from eim_ros.kinematics.robot import tool_from
    >>> tool_from([0.0, 0.0, 0.1])[:3, 3].tolist()
    [0.0, 0.0, 0.1]
    """
    values = numbers_of(numbers, (None,), "a tool", PoseError)
    if len(values) not in (3, 7):
        raise PoseError(f"a tool needs 3 or 7 numbers (X Y Z [QX QY QZ QW]), got {len(values)}", numbers)
    return pose_from(values[:3], values[3:] if len(values) == 7 else None)
