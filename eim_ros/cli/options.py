"""Flags that several verbs have in common: parsing of values, and groups such as the robot or the constraints.

A verb is a dataclass. Its fields are the flags, and its method `run` does the work and returns the exit code. tyro
reads the flags. This module imports neither numpy nor torch, so that errors in flags are reported before slow imports.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import tyro
from tyro import _errors as events
from tyro.conf import DisallowNone, FlagCreatePairsOff, OmitArgPrefixes, Positional, UseAppendAction, arg
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from eim_ros.core.errors import ConfigurationError, ConstraintError, PoseError, did_you_mean
from eim_ros.core.settings import Settings

if TYPE_CHECKING:
    from eim_ros.ik import Constraints, Posture, Sampler
    from eim_ros.kinematics import Box, Mesh, Robot

T = TypeVar("T")
SettingsT = TypeVar("SettingsT", bound=Settings)

OTHER_FLAGS = {
    "--pose X Y Z [QX QY QZ QW]": ("--xyz", "--position", "--pos", "--quat", "--orientation", "--target"),
    "--rpy R P Y in radians": ("--euler", "--degrees", "--deg"),
    "--branch NAME=LABEL": ("--elbow", "--shoulder", "--wrist"),
    "--fix JOINT=VALUE": ("--fixed", "--lock"),
    "--robot FILE": ("--urdf", "--description"),
    "--samples": ("--num", "--count", "--num-samples", "--n-samples"),
}  # our flag, and its names in other programs
LARGEST_COUNT = 2**32 - 1  # largest value in messages of the service
LARGEST_SEED = 2**63 - 1
LARGEST_PORT = 2**16 - 1


def read_number(kind: type[T], word: str) -> T:
    """Convert a word to int, float or str; the ValueError names the expected type."""
    try:
        return kind(word)  # type: ignore[call-arg]  # int, float and str accept a word
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        listed = "; separate several by spaces" if set(word) & set(",;[]()") else ""
        raise ValueError(f"expected {expected}, got {word!r}{listed}") from None


def _values(metavar: str, read: Callable[[list[str]], Any], nargs: Any = 1) -> PrimitiveConstructorSpec[Any]:
    """Return the rule that converts the words of a flag to its value."""

    def words_of(value: Any) -> list[str]:
        return [str(word) for word in value] if isinstance(value, tuple) else [str(value)]

    return PrimitiveConstructorSpec(nargs, metavar, read, lambda value: True, words_of)


def _whole(least: int, most: int) -> PrimitiveConstructorSpec[Any]:
    def read(words: list[str]) -> int:
        value = read_number(int, words[0])
        if not least <= value <= most:
            raise ValueError(f"must be between {least} and {most}, got {value}")
        return value

    return _values("N", read)


def _positive(words: list[str]) -> float:
    value = read_number(float, words[0])
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"must be positive, got {words[0]}")
    return value


NO_DEFAULT = arg(help_behavior_hint="")  # the help text explains the default

Switch: TypeAlias = Annotated[bool, FlagCreatePairsOff, NO_DEFAULT]
Choice: TypeAlias = Annotated[bool | None, NO_DEFAULT]  # --flag and --no-flag
Text: TypeAlias = Annotated[str | None, NO_DEFAULT]
File: TypeAlias = Annotated[str | None, arg(metavar="FILE"), NO_DEFAULT]
Number: TypeAlias = Annotated[float | None, NO_DEFAULT]
Numbers: TypeAlias = Annotated[tuple[float, ...] | None, NO_DEFAULT]
Words: TypeAlias = Annotated[tuple[str, ...] | None, NO_DEFAULT]
Repeated: TypeAlias = Annotated[tuple[str, ...], UseAppendAction]
Six: TypeAlias = Annotated[tuple[float, float, float, float, float, float] | None, NO_DEFAULT]
Positive: TypeAlias = Annotated[float, _values("NUMBER", _positive)]
Count: TypeAlias = Annotated[int, _whole(1, LARGEST_COUNT)]
OptionalCount: TypeAlias = Annotated[int | None, _whole(1, LARGEST_COUNT), NO_DEFAULT]
CountOrNone: TypeAlias = Annotated[int, _whole(0, LARGEST_COUNT)]
Seed: TypeAlias = Annotated[int, _whole(0, LARGEST_SEED)]
FreshSeed: TypeAlias = Annotated[int | None, _whole(0, LARGEST_SEED), NO_DEFAULT]
Port: TypeAlias = Annotated[int, _whole(0, LARGEST_PORT)]
Json: TypeAlias = Annotated[Switch, arg(help="Print one JSON object.")]
Quiet: TypeAlias = Annotated[Switch, arg(help="Show no progress.")]
Threads: TypeAlias = Annotated[OptionalCount, arg(help="Threads of torch (default: OMP_NUM_THREADS, else 1).")]


def read_values(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Read numbers, and tuples of numbers or texts, with specific error messages; each may be optional."""
    kind: Any = info.type
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kind = next(inner for inner in typing.get_args(kind) if inner is not type(None))
    if kind in (int, float):
        return _values("NUMBER", lambda words: read_number(kind, words[0]))
    inner = typing.get_args(kind)
    if UseAppendAction in info.markers or typing.get_origin(kind) is not tuple or inner[0] not in (int, float, str):
        return None

    def read(words: list[str]) -> tuple[Any, ...]:
        if not words:
            raise ValueError("expected at least one value")
        return tuple(read_number(inner[0], word) for word in words)

    metavar = "TEXT" if inner[0] is str else "NUMBER"
    is_any_length = inner[-1] is Ellipsis
    return _values(metavar, read, "*") if is_any_length else _values(" ".join([metavar] * len(inner)), read, len(inner))


def read_settings(root: Any, aliases: Mapping[str, str], info: StructTypeInfo) -> StructConstructorSpec | None:
    """Derive the flags of settings from their fields: description, unit, choices and default; groups are nested.

    Fields of `root` have the short flags of `aliases` as well.
    """
    kind = info.type
    if not (isinstance(kind, type) and issubclass(kind, Settings)):
        return None
    default = info.default if isinstance(info.default, kind) else kind()
    hints = typing.get_type_hints(kind)
    fields = []
    for field in dataclasses.fields(kind):
        if field.name in kind.unused:
            continue
        annotation = hints[field.name]
        if choices := field.metadata.get("choices"):
            choice: Any = Literal[tuple(choices)]
            annotation = tuple[choice, ...] if typing.get_origin(annotation) is tuple else choice
        if kind is root and field.name in aliases:
            annotation = Annotated[annotation, arg(aliases=(aliases[field.name],))]
        unit = f" [{field.metadata['unit']}]" if field.metadata.get("unit") else ""
        text = f"{field.metadata.get('description') or ''}{unit}"
        fields.append(StructFieldSpec(field.name, annotation, getattr(default, field.name), text or None))

    def build(**values: Any) -> Settings:
        return dataclasses.replace(default, **values)

    build.__doc__ = kind.__doc__  # shown in the help
    return StructConstructorSpec(build, tuple(fields))


def parse(
    kind: Any,
    program: str,
    words: Sequence[str],
    *,
    default: Any = None,
    aliases: Mapping[str, str] = types.MappingProxyType({}),
    keep_unknown: bool = False,
) -> Any:
    """Return an instance of `kind`, a verb, a union of verbs, or settings, with the flags among `words`.

    `default` has the values of flags that are not given, and `aliases` short flags of settings, such as "--experts".
    With `keep_unknown`, the words that are not flags are returned as well. A mistake raises a `ConfigurationError`.
    """
    if words and not words[0].startswith("-") and "--robot" not in words and _takes_robot(kind):
        words = ["--robot", *words]  # eim solve panda --pose ...
    registry = ConstructorRegistry()
    registry.primitive_rule(read_values)
    registry.struct_rule(partial(read_settings, kind, aliases))
    is_settings = isinstance(kind, type) and issubclass(kind, Settings)
    with events.on_parse_error(partial(_refuse, kind, aliases)):
        return tyro.cli(
            kind,
            prog=program,
            args=list(words),
            config=(DisallowNone,) if is_settings else (DisallowNone, OmitArgPrefixes),
            registry=registry,
            return_unknown_args=keep_unknown,  # type: ignore[call-overload]  # the overloads need a literal
            **({} if default is None else {"default": default}),
        )


def parse_settings(
    default: SettingsT, program: str, words: Sequence[str], aliases: Mapping[str, str] = types.MappingProxyType({})
) -> SettingsT:
    """Return settings in which the flags among `words` replace the values of `default`."""
    settings: SettingsT = parse(type(default), program, words, default=default, aliases=aliases)
    return settings


def read_with_settings(
    kind: Any, program: str, words: Sequence[str], settings: Callable[[], Settings], aliases: Mapping[str, str]
) -> Any:
    """Read the flags of a verb. All other words become its field `settings`, for `parse_settings`.

    The help also shows the flags of `settings()`, which imports the learner.
    """
    if {"-h", "--help"} & set(words):
        with contextlib.suppress(SystemExit):
            parse(kind, program, ["--help"])
        default = settings()
        print(f"\nThe settings of {type(default).__name__} are flags as well:\n")
        parse_settings(default, program, ["--help"], aliases)
    verb, rest = parse(kind, program, words, keep_unknown=True)
    return dataclasses.replace(verb, settings=tuple(rest))


def _refuse(kind: Any, aliases: Mapping[str, str], event: events.ParseErrorEvent) -> None:
    """Replace the box that tyro prints for a wrong flag by an error of one line; leave unknown events to tyro."""
    if reason := _reason(lambda: [*flags_of(kind), *aliases.values()], event):
        raise ConfigurationError(f"{' '.join(reason.split())} (see {event.prog} --help)")


def _reason(known: Callable[[], Sequence[str]], event: Any) -> str:
    flag = _name(event.argument) if getattr(event, "argument", None) else ""
    if isinstance(event, events.InstantiationFailure):
        return f"{flag}: {event.message}"
    if isinstance(event, events.BadValue):
        n = event.argument.lowered.nargs
        return f"{flag}: expected {n} values" if isinstance(n, int) and n > 1 else f"{flag}: expected a value"
    if isinstance(event, events.InvalidChoice):
        meant = did_you_mean(event.value, event.choices)
        return f"{flag}: invalid choice: {event.value!r} (choose from {', '.join(event.choices)}){meant}"
    if isinstance(event, events.MissingSubcommand):
        return f"expected one of {', '.join(event.subcommand_spec.parser_from_name)}"
    unknown = getattr(event, "tokens", None) or getattr(event, "unrecognized_tokens", None) or []
    for name in (word.partition("=")[0] for word in unknown if word.startswith("-")):
        flags = known()
        meant = next((ours for ours, names in OTHER_FLAGS.items() if name in names and ours.split()[0] in flags), "")
        return f"there is no flag {name}{f'; give {meant}' if meant else did_you_mean(name, flags)}"
    if isinstance(event, events.MissingArgs):
        names = [_name(missing.arg).rpartition("/")[2] for missing in event.missing_arguments]
        return f"the following arguments are required: {', '.join(names)}"
    meant = did_you_mean(unknown[0], known()) or "; values follow a flag, as in --robot panda" if unknown else ""
    return f"there is no place for {' '.join(unknown)}{meant}" if unknown else ""


def _name(argument: Any) -> str:
    """Return the flags of an argument, or its placeholder in the usage line if it has no flags."""
    if argument.is_positional():
        return str(argument.lowered.metavar).partition(" ")[0]
    return "/".join(argument.lowered.name_or_flags)


def flags_of(kind: Any) -> list[str]:
    """Return the long flags of a verb or of settings, or the names and flags of several verbs."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return [flag for inner in typing.get_args(kind) for flag in flags_of(inner)]
    if typing.get_origin(kind) is Annotated:
        kind, verb = typing.get_args(kind)
        return [verb.name, *flags_of(kind)]
    return list(dict.fromkeys(_flags(kind, "")))


def _takes_robot(kind: Any) -> bool:
    """Return whether a verb has the flag --robot and no other place for a first word."""
    if "--robot" not in flags_of(kind):
        return False
    hints = typing.get_type_hints(kind, include_extras=True).values()
    return not any(Positional in getattr(hint, "__metadata__", ()) for hint in hints)


def _flags(kind: Any, prefix: str) -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    for name, annotation in ((field.name, hints[field.name]) for field in dataclasses.fields(kind)):
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            yield from _flags(annotation, f"{prefix}{name}." if issubclass(annotation, Settings) else prefix)
            continue
        flag = f"{prefix}{name}".replace("_", "-")
        yield f"--{flag}"
        if annotation in (bool, bool | None):
            yield f"--no-{flag}"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The robot."""

    robot: Annotated[Text, arg(metavar="NAME|URDF")] = None
    """Name of an included robot (see `eim list robots`), or path of a URDF or xacro file."""
    base: Annotated[Text, arg(metavar="LINK")] = None
    """Base link (default: the root)."""
    tip: Annotated[Text, arg(metavar="LINK")] = None
    """Tip link (default: tool0, a tool or a hand, or else the end of the longest chain)."""

    @property
    def file(self) -> Path | None:
        """File of the robot; None without --robot."""
        from eim_ros.kinematics import robot_path

        return robot_path(self.robot) if self.robot else None

    def find(self) -> Robot | None:
        """Return the robot of the flags; None without --robot."""
        from eim_ros.kinematics import Robot

        if self.robot:
            robot = Robot(self.robot, self.tip, base=self.base)
            if self.tip is None:
                tell_tip(robot)
            return robot
        if self.base or self.tip:
            raise ConfigurationError("--base and --tip are links of --robot: give it too", self.base or self.tip)
        return None

    def load(self) -> Robot:
        """Return the robot of the flags; `ConfigurationError` without --robot."""
        robot = self.find()
        if robot is None:
            raise ConfigurationError("the following arguments are required: --robot (see --help)")
        return robot


def tell_tip(robot: Robot) -> None:
    """Say which of several ends is the tip."""
    from eim_ros.kinematics.urdf import listed, parse_urdf

    ends = parse_urdf(robot.urdf).leaves()
    if len(ends) > 1:
        print(
            f"tip link: {robot.tip_link}; branches end in {listed(ends)}: --tip selects another link", file=sys.stderr
        )


@dataclass(frozen=True, kw_only=True)
class Source(Arm):
    """The robot, or a model of its solutions."""

    model: Annotated[Text, arg(metavar="FILE|NAME")] = None
    """Model from eim train, or the name of an included model. Without a model, all solutions have equal weight."""
    tool: Numbers = None
    """Tip of a tool in the frame of the tip link: X Y Z [m], optionally QX QY QZ QW. It then reaches the pose."""

    def sampler(self) -> Sampler:
        """Return the sampler of the model or the robot. A robot given with a model must fit it."""
        from eim_ros.ik import Sampler

        if self.model is not None:
            if not self.robot:
                self.find()  # refuses links without a robot
            sampler = Sampler.load(self.model, self.robot, self.tip, base=self.base)
        elif (robot := self.find()) is not None:
            sampler = Sampler(robot)
        else:
            raise ConfigurationError("give --model, or --robot for all solutions without a model")
        return sampler if self.tool is None else sampler.with_tool(self.tool_pose())

    def tool_pose(self) -> Any:
        """Return --tool as a transform (4, 4)."""
        from eim_ros.kinematics.robot import tool_from

        return tool_from(self.tool or ())


@dataclass(frozen=True, kw_only=True)
class ConstraintFlags:
    """Conditions on every configuration."""

    limit: Annotated[Repeated, arg(metavar="JOINT=LOWER:UPPER")] = ()
    """Narrower limits of a joint [rad or m]. One of the limits may be omitted."""
    fix: Annotated[Repeated, arg(metavar="JOINT=VALUE")] = ()
    """Joint that must not move [rad or m]."""
    branch: Annotated[Repeated, arg(metavar="NAME=LABEL")] = ()
    """Branch of the solutions: shoulder=left or right, elbow=up or down, wrist=flip or no-flip."""
    tolerance: Annotated[Six, arg(metavar="X Y Z RX RY RZ")] = None
    """Permitted deviation along [m] and about [rad] the axes of the target frame; inf leaves an axis free."""
    self_collision: Switch = False
    """Reject configurations in which the robot collides with itself."""
    box: UseAppendAction[tuple[tuple[float, ...], ...]] = ()
    """Obstacle: centre X Y Z, edges SX SY SZ [m], optionally QX QY QZ QW."""
    sphere: UseAppendAction[tuple[tuple[float, float, float, float], ...]] = ()
    """Obstacle: centre X Y Z and radius [m]."""
    mesh: UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Solid obstacle: file (STL, OBJ, DAE), optionally at X Y Z [m] and turned by QX QY QZ QW."""
    clearance: float = 0.0
    """Minimum distance from obstacles and between links [m]."""
    position_only: Choice = None
    """Accept every orientation (default: if and only if --pose has no quaternion)."""
    position_tolerance: Number = None
    """Largest position error [m] (default: 1e-6, or the default of the server with --service)."""
    orientation_tolerance: Number = None
    """Largest orientation error [rad] (default: 1e-6, or the default of the server with --service)."""

    def build(self, has_orientation: bool) -> Constraints:
        """Return the constraints; `ConstraintError` or `PoseError` if a flag is malformed."""
        obstacles = [*self.box, *self.sphere, *self.mesh]
        if self.clearance and not (obstacles or self.self_collision):
            raise ConstraintError(
                f"--clearance {self.clearance:g} has nothing to keep away from: give --box, --sphere, --mesh or "
                "--self-collision",
                self.clearance,
            )
        from eim_ros.ik import Constraints
        from eim_ros.kinematics import Sphere

        tolerances: dict[str, Any] = {
            "position_tolerance": self.position_tolerance,
            "orientation_tolerance": self.orientation_tolerance,
        }
        return Constraints(
            limits=named("--limit", self.limit, "JOINT=LOWER:UPPER", _ends),
            fixed=named("--fix", self.fix, "JOINT=VALUE", float),
            branch=named("--branch", self.branch, "NAME=LABEL", str),
            self_collision=self.self_collision,
            obstacles=(
                *map(_box, self.box),
                *(Sphere(values[:3], values[3]) for values in self.sphere),
                *map(_mesh, self.mesh),
            ),
            tolerances=self.tolerance,
            clearance=self.clearance,
            position_only=not has_orientation if self.position_only is None else self.position_only,
            **given(tolerances),
        )


def given(values: Mapping[str, T | None]) -> dict[str, T]:
    """Return the entries that are not None, which are the given flags."""
    return {name: value for name, value in values.items() if value is not None}


def check_pose_length(pose: Sequence[float]) -> None:
    """Raise `PoseError` unless --pose is a position, or a position and a quaternion."""
    if len(pose) not in (3, 7):
        raise PoseError(f"--pose needs 3 or 7 numbers (X Y Z [QX QY QZ QW]), got {len(pose)}", pose)


def posture_from(words: Sequence[str]) -> Posture:
    """Return the posture of words JOINT=VALUE or JOINT=VALUE:WEIGHT."""
    from eim_ros.ik import Posture

    preferred = named("--posture", words, "JOINT=VALUE[:WEIGHT]", _weighted)
    values, weights = ({name: pair[which] for name, pair in preferred.items()} for which in (0, 1))
    return Posture(values, weights)


def order_from(words: Sequence[str]) -> dict[str, float]:
    """Return the weights of words NAME or NAME=WEIGHT."""
    return named("--order", [word if "=" in word else f"{word}=1" for word in words], "NAME or NAME=WEIGHT", float)


def near_from(words: Sequence[str]) -> list[float] | dict[str, float]:
    """Return the configuration of --near: numbers, or numbers by joint names."""
    if any("=" in word for word in words):
        return named("--near", words, "a number for each joint, or NAME=NUMBER", float)
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise ConfigurationError(f"--near needs a number for each joint, or NAME=NUMBER: {error}", words) from error


def steps_from(words: Sequence[str]) -> float | list[float] | dict[str, float]:
    """Return the largest steps of --max-step: one number, a number for each joint, or numbers by joint names."""
    form = "one number, a number for each joint, or NAME=NUMBER"
    if any("=" in word for word in words):
        return named("--max-step", words, form, float)
    try:
        steps = [float(word) for word in words]
    except ValueError as error:
        raise ConfigurationError(f"--max-step needs {form}: {error}", words) from error
    return steps[0] if len(steps) == 1 else steps


def guarantee_from(words: Sequence[str]) -> Any:
    """Return the `Completeness` of two numbers, or "certified"."""
    if list(words) == ["certified"]:
        return "certified"
    from eim_ros.ik import Completeness

    try:
        confidence, missed_share = map(float, words)
    except ValueError as error:
        raise ConfigurationError(
            f"--guarantee is two numbers, as in 0.99 0.002, or certified; got {' '.join(words)!r}", words
        ) from error
    return Completeness(confidence, missed_share)


def named(flag: str, words: Sequence[str], form: str, read: Callable[[str], T]) -> dict[str, T]:
    """Return the values of words NAME=VALUE by name; a name must not be repeated."""
    values: dict[str, T] = {}
    for word in words:
        name, separator, value = word.partition("=")
        wrong = ConstraintError(f"{flag} needs {form}, each name once, got {word!r}", word)
        if not name or not separator or name in values:
            raise wrong
        try:
            values[name] = read(value)
        except ValueError as error:
            raise wrong from error
    return values


def _ends(text: str) -> tuple[float, float]:
    lower, upper = text.split(":")
    return float(lower or -math.inf), float(upper or math.inf)


def _weighted(text: str) -> tuple[float, float]:
    value, separator, weight = text.partition(":")
    return float(value), float(weight) if separator else 1.0


def _box(values: Sequence[float]) -> Box:
    from eim_ros.kinematics import Box, pose_from

    if len(values) not in (6, 10):
        raise ConstraintError(f"--box needs 6 or 10 numbers (X Y Z SX SY SZ [QX QY QZ QW]), got {len(values)}", values)
    return Box(pose_from(values[:3], values[6:] or None), values[3:6])


def _mesh(words: Sequence[str]) -> Mesh:
    from eim_ros.kinematics import Mesh, pose_from

    path, *numbers = words
    expected = "--mesh needs a file, and 0, 3 or 7 numbers (X Y Z [QX QY QZ QW])"
    try:
        values = [float(number) for number in numbers]
    except ValueError as error:
        raise ConstraintError(f"{expected}: {error}", words) from error
    if len(values) not in (0, 3, 7):
        raise ConstraintError(f"{expected}, got {len(values)}", words)
    return Mesh.load(path, pose_from(values[:3], values[3:] or None) if values else None)


def use_threads(n: int | None) -> None:
    """Make torch use n threads. None selects OMP_NUM_THREADS, or 1 if it is not set."""
    from eim_ros.core.parallel import default_threads, use_torch_threads

    use_torch_threads(n or default_threads())


def workers(jobs: int | None, scheduler: str | None) -> Any:
    """Return the workers of --jobs or --scheduler; None if neither is given."""
    from eim_ros.core.parallel import DaskWorkers, JoblibWorkers

    if scheduler is not None and jobs is not None:
        raise ConfigurationError("--jobs is for this machine, --scheduler for others: give one of them", jobs)
    if scheduler is not None:
        return DaskWorkers(scheduler)
    return None if jobs is None else JoblibWorkers(jobs)
