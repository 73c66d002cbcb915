"""Groups of flags that several verbs share: the robot, the constraints, and settings.

This module imports neither numpy nor torch. Thus, errors in flags are reported before slow imports.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from eim_ros.cli.flags import flag, switch
from eim_ros.core.errors import ConfigurationError, ConstraintError, PoseError, did_you_mean
from eim_ros.core.settings import assignments, parsed, read_yaml

if TYPE_CHECKING:
    from eim_ros.ik import Constraints, Posture, Sampler
    from eim_ros.kinematics import Box, Obstacle, Robot

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The robot."""

    robot: str | None = flag(
        None,
        "Name of an included robot (see `eim list robots`), or path of a URDF, xacro or MJCF file.",
        metavar="NAME|URDF",
    )
    base: str | None = flag(None, "Base link (default: the root).", metavar="LINK", is_expert=True)
    tip: str | None = flag(
        None, "Tip link (default: tool0, a tool or a hand, otherwise the end of the longest chain).", metavar="LINK"
    )
    package_path: tuple[str, ...] = flag(
        (),
        "Folder that is a ROS package or contains packages. Files of package:// and $(find ...) are searched here "
        "first, then near the file, then in the folders of the environment.",
        metavar="FOLDER",
        repeated=True,
        is_expert=True,
    )

    @property
    def file(self) -> Path | None:
        """File of the robot, or None without --robot."""
        from eim_ros.kinematics import robot_path

        return robot_path(self.robot, self.package_path) if self.robot else None

    def find(self) -> Robot | None:
        """Return the robot of the flags, or None without --robot."""
        from eim_ros.ik.prior import SHIPPED_MODELS
        from eim_ros.kinematics import Robot

        if self.robot:
            if self.robot in SHIPPED_MODELS:
                raise ConfigurationError(f"{self.robot} is a model and not a robot: give it as --model", self.robot)
            robot = Robot(self.robot, self.tip, base=self.base, package_paths=self.package_path)
            if self.tip is None:
                tell_tip(robot)
            return robot
        if self.base or self.tip:
            raise ConfigurationError("--base and --tip name links of a robot: also give --robot", self.base or self.tip)
        return None

    def load(self) -> Robot:
        """Return the robot of the flags, or raise `ConfigurationError` without --robot."""
        robot = self.find()
        if robot is None:
            raise ConfigurationError("the following arguments are required: --robot (see --help)")
        return robot


def tell_tip(robot: Robot) -> None:
    """Print which link is the tip if the robot has several end links."""
    from eim_ros.kinematics.urdf import listed, parse_urdf

    ends = parse_urdf(robot.urdf).leaves()
    if len(ends) > 1:
        told = f"the tip link is {robot.tip_link}; --tip selects another link, such as an end link: {listed(ends)}"
        print(told, file=sys.stderr)


@dataclass(frozen=True, kw_only=True)
class Source(Arm):
    """The robot, or a model of its solutions."""

    model: str | None = flag(
        None,
        "Model from eim train, or the name of an included model. Without a model, all solutions have equal weight.",
        metavar="FILE|NAME",
    )
    srdf: str | None = flag(
        None,
        "SRDF (a path or package://NAME/...) with pairs of links whose collisions are not checked.",
        metavar="FILE",
        is_expert=True,
    )

    def sampler(self, tool: Any = None) -> Sampler:
        """Return the sampler of the model or the robot, with a tool (4, 4). If both are given, the robot must match the
        model.
        """
        from eim_ros.ik import Sampler
        from eim_ros.kinematics import CollisionOptions

        if self.model is not None:
            if not self.robot:
                self.find()  # raises an error for --base and --tip without --robot
            folders = self.package_path
            sampler = Sampler.load(self.model, self.robot, self.tip, base=self.base, package_paths=folders)
        elif (robot := self.find()) is not None:
            sampler = Sampler(robot)
        else:
            raise ConfigurationError("neither a robot nor a model is given: give --robot or --model")
        if self.package_path or self.srdf:
            options = CollisionOptions(package_paths=self.package_path, srdf=self.srdf or "")
            sampler = sampler.with_collision_options(options)
        return sampler if tool is None else sampler.with_tool(tool)


@dataclass(frozen=True, kw_only=True)
class ConstraintFlags:
    """Conditions on every configuration. Other conditions are settings."""

    limit: tuple[str, ...] = flag(
        (),
        "Narrower limits of a joint [rad or m]. Either limit may be omitted.",
        metavar="JOINT=LOWER:UPPER",
        repeated=True,
    )
    fix: tuple[str, ...] = flag((), "Joint to keep at a fixed value [rad or m].", metavar="JOINT=VALUE", repeated=True)
    self_collision: bool = switch("Reject configurations in which the robot collides with itself.")
    box: tuple[tuple[float, ...], ...] = flag(
        (),
        "Box that the arm must avoid: its centre, the lengths of its edges [m], and optionally its orientation.",
        metavar="X Y Z SX SY SZ [QX QY QZ QW]",
        repeated=True,
    )

    def build(self, settings: Mapping[str, Any], has_orientation: bool) -> Constraints:
        """Return the constraints of the flags, and of settings with names of `Constraints`."""
        from eim_ros.ik import Constraints

        obstacles = (*map(_box, self.box), *settings.get("obstacles", ()))
        by_flag = {
            "limits": named("--limit", self.limit, "JOINT=LOWER:UPPER", _ends),
            "fixed": named("--fix", self.fix, "JOINT=VALUE", float),
            "self_collision": self.self_collision,
        }
        given = {**settings, **{name: value for name, value in by_flag.items() if value}, "obstacles": obstacles}
        if given.get("clearance") and not (obstacles or given.get("self_collision")):
            raise ConstraintError(
                f"clearance={given['clearance']} has no effect without obstacles: give --box, the setting obstacles, "
                "or --self-collision",
                given["clearance"],
            )
        return Constraints(**{"position_only": not has_orientation, **given})


@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """Settings, with the names of the Python method's keywords and of the constraints."""

    set: tuple[str, ...] = flag(
        (),
        "Keyword of the Python method, field of Constraints, or tool. Examples: order=manipulability, branch.elbow=up, "
        "tolerances='0 0 0 0 0 inf', 'obstacles=[{sphere: {centre: [0.5, 0, 0.2], radius: 0.1}}]'. --order "
        "manipulability is the same as --set order=manipulability.",
        metavar="NAME=VALUE",
        repeated=True,
    )
    config: str | None = flag(None, "YAML file of settings, with names as in --set.", metavar="FILE", is_expert=True)

    def read(self, method: Callable[..., Any] | None = None, others: Sequence[str] = ()) -> RequestSettings:
        """Return the settings for a method of a sampler, or raise `ConfigurationError` if a name is unknown.

        `others` are valid names that are neither keywords of the method nor constraints.
        """
        from eim_ros.ik import Constraints

        given: dict[str, Any] = {**read_yaml(self.config)} if self.config else {}
        for name, text in assignments(self.set).items():
            name, _, entry = name.partition(".")
            if entry:
                group = given.get(name)
                given[name] = {**(group if isinstance(group, dict) else {}), entry: parsed(text)}
            else:
                given[name] = parsed(text)
        keywords = keywords_of(method)
        constraints = [field.name for field in fields(Constraints) if field.name != "links"]
        known = setting_names(method, others)
        for name in given:
            if name not in known:
                raise ConfigurationError(
                    f"unknown setting {name}; the settings are {', '.join(known)}{did_you_mean(name, known)}", name
                )
        values = {name: CONVERTERS[name](value) if name in CONVERTERS else value for name, value in given.items()}
        return RequestSettings(
            {name: value for name, value in values.items() if name in keywords},
            {name: value for name, value in values.items() if name in constraints},
            {name: value for name, value in values.items() if name in ("tool", *others)},
        )


def keywords_of(method: Callable[..., Any] | None) -> list[str]:
    """Return the keywords of a method that are settings."""
    parameters = inspect.signature(method).parameters if method else ()
    return [name for name in parameters if name not in ("self", "pose", "poses")]


def setting_names(method: Callable[..., Any] | None = None, others: Sequence[str] = ()) -> list[str]:
    """Return the names that `SettingFlags.read` accepts for a method."""
    from eim_ros.ik import Constraints

    constraints = [field.name for field in fields(Constraints) if field.name != "links"]
    return [*keywords_of(method), *constraints, "tool", *others]


@dataclass(frozen=True)
class RequestSettings:
    """Settings of a request: keywords of the method, fields of `Constraints`, and others."""

    keywords: dict[str, Any]
    constraints: dict[str, Any]
    others: dict[str, Any]

    def tool(self) -> Any:
        """Return the pose (4, 4) of the tool in the frame of the tip link, or None."""
        from eim_ros.kinematics.robot import tool_from

        return tool_from(self.others["tool"]) if "tool" in self.others else None


def check_pose_length(pose: Sequence[float]) -> None:
    """Raise `PoseError` unless --pose is a position, or a position and a quaternion."""
    if len(pose) not in (3, 7):
        raise PoseError(f"--pose needs 3 or 7 numbers (X Y Z [QX QY QZ QW]), got {len(pose)}", pose)


def near_from(words: Sequence[str]) -> list[float] | dict[str, float]:
    """Return the configuration of --near: a list of numbers, or a dictionary by joint name."""
    if any("=" in word for word in words):
        return named("--near", words, "a number for each joint, or NAME=NUMBER", float)
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise ConfigurationError(f"--near needs a number for each joint, or NAME=NUMBER: {error}", words) from error


def named(name: str, words: Sequence[str], form: str, read: Callable[[str], T]) -> dict[str, T]:
    """Return the values of words NAME=VALUE by name, or raise `ConstraintError` if a name is repeated."""
    values: dict[str, T] = {}
    for word in words:
        key, separator, value = word.partition("=")
        wrong = ConstraintError(f"{name} needs {form}, each name once, got {word!r}", word)
        if not key or not separator or key in values:
            raise wrong
        try:
            values[key] = read(value)
        except ValueError as error:
            raise wrong from error
    return values


def _ends(text: str) -> tuple[float, float]:
    lower, upper = text.split(":")
    return float(lower or -math.inf), float(upper or math.inf)


def _box(values: Sequence[float]) -> Box:
    from eim_ros.kinematics import Box, pose_from

    if len(values) not in (6, 10):
        raise ConstraintError(f"--box needs 6 or 10 numbers (X Y Z SX SY SZ [QX QY QZ QW]), got {len(values)}", values)
    return Box(pose_from(values[:3], values[6:] or None), values[3:6])


def _obstacles(entries: Any) -> tuple[Obstacle, ...]:
    """Return the obstacles in a list such as [{sphere: {centre: [0, 0, 1], radius: 0.1}}]."""
    from eim_ros import kinematics

    kinds: dict[str, Callable[..., Obstacle]] = {
        **{kind.__name__.lower(): kind for kind in (kinematics.Box, kinematics.Sphere, kinematics.Capsule)},
        "cylinder": kinematics.Cylinder,
        "mesh": kinematics.Mesh.load,
    }
    found = []
    for entry in entries if isinstance(entries, list) else [entries]:
        kind, arguments = next(iter(entry.items())) if isinstance(entry, dict) and len(entry) == 1 else ("", None)
        if kind not in kinds or not isinstance(arguments, dict):
            raise ConstraintError(
                f"an obstacle must have the form KIND: {{ARGUMENTS}}, where KIND is one of {', '.join(kinds)}, got "
                f"{entry!r}",
                entry,
            )
        try:
            found.append(kinds[kind](**arguments))
        except TypeError as error:  # an unknown or a missing argument
            raise ConstraintError(f"{kind}: {error}", entry) from error
    return tuple(found)


def _posture(value: Any) -> Posture | Any:
    from eim_ros.ik import Posture

    if not isinstance(value, dict):
        return value
    return Posture(**value) if "positions" in value and set(value) <= {"positions", "weights"} else Posture(value)


def _guarantee(value: Any) -> Any:
    from eim_ros.ik import Completeness

    names = {"confidence", "missed_share"}
    return Completeness(**value) if isinstance(value, dict) and set(value) <= names else value


def _limits(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: tuple(ends) if isinstance(ends, list) else ends for name, ends in value.items()}


CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "obstacles": _obstacles,
    "posture": _posture,
    "density": _posture,
    "guarantee": _guarantee,
    "limits": _limits,
}
"""Functions that convert a value of YAML to the argument of a method, by name of the setting."""


def use_threads(n: int | None) -> None:
    """Make torch use n threads. None selects OMP_NUM_THREADS, or 1 if this variable is not set."""
    from eim_ros.core.parallel import use_torch_threads

    use_torch_threads(n)


def workers(jobs: int | None, scheduler: str | None) -> Any:
    """Return the workers of --jobs or --scheduler, or None without both flags."""
    from eim_ros.core.parallel import DaskWorkers, JoblibWorkers

    if scheduler is not None and jobs is not None:
        raise ConfigurationError("--jobs uses this machine and --scheduler uses others: give only one of them", jobs)
    if scheduler is not None:
        return DaskWorkers(scheduler)
    return None if jobs is None else JoblibWorkers(jobs)
