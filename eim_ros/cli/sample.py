"""Verbs that ask for configurations: `eim solve`, `sample`, `solve-all`, `draw`, `propose`, `follow`, `picture`.

Each calls the method of `Sampler` that has its name, or with --service the node that serves one. Exit code 0 if there
is a valid configuration, 1 if none was found, otherwise as `eim --help` says.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from tyro.conf import UseAppendAction, arg

from eim_ros.cli.options import (
    NO_DEFAULT,
    ConstraintFlags,
    Count,
    File,
    FreshSeed,
    Number,
    Source,
    Switch,
    Text,
    Words,
    check_pose_length,
    given,
    near_from,
    order_from,
    posture_from,
    read_number,
)
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.core.files import check_outputs, to_json

if TYPE_CHECKING:
    from eim_ros.ik import Sampler

ROWS_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class ServiceFlags:
    """A running node that answers instead of this process. It has a robot and a model of its own."""

    service: Annotated[Text, arg(metavar="NODE")] = None
    """Name of the node, such as /ik_server."""
    frame: Annotated[str, NO_DEFAULT] = ""
    """Frame of the pose, any of tf, at the present time (default: the base link)."""
    wait: float = 5.0
    """Longest time to wait until the node is active [s]."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Base of the verbs. `arguments` are the keywords of the method of `Sampler`; None means its own default."""

    operation: ClassVar[str]

    source: Source
    constraints: ConstraintFlags
    server: ServiceFlags
    seed: FreshSeed = None
    """Random seed (default: a fresh one)."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> int:
        """Ask for configurations, print them, and return the exit code."""
        answer = self.answer()
        if self.json:
            print(answer.to_json() if hasattr(answer, "to_json") else to_json(_plain(answer)))
        else:
            self.show(answer)
        return self.exit_code(answer)

    def answer(self) -> Any:
        """Return the answer of the service, or of a sampler in this process."""
        target, arguments = self.target(), given(self.arguments())
        constraints = self.constraints.build(self.has_orientation)
        if self.server.service is not None:
            from eim_ros.cli.service import ask

            return ask(self, target, arguments, constraints)
        sampler = self.source.sampler().with_constraints(constraints)
        sampler.prepare()
        return self.call(sampler, target, arguments)

    def call(self, sampler: Sampler, target: Any, arguments: dict[str, Any]) -> Any:
        """Call the method of the sampler."""
        return getattr(sampler, self.operation)(target, **arguments)

    @property
    def has_orientation(self) -> bool:
        """Whether the pose has a quaternion."""
        raise NotImplementedError

    def target(self) -> Any:
        """Return the first argument of the method: a pose, or poses."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Return the keywords of the method."""
        return {"seed": self.seed}

    def show(self, answer: Any) -> None:
        """Print the answer as a table."""
        print_configurations(answer, getattr(self, "samples", 0))

    def exit_code(self, answer: Any) -> int:
        """Return 0 with a solution, else 1; print the reason on stderr if the operation did not succeed."""
        if answer.error_code.name != "SUCCESS":
            verb = re.sub(r"\B(?=[A-Z])", "-", type(self).__name__).lower()
            print(f"eim {verb}: {answer.error_code.name}: {answer.message}", file=sys.stderr)
        return 0 if answer else 1


@dataclass(frozen=True, kw_only=True)
class OfPose(Operation):
    """Base of the verbs for one pose."""

    pose: Annotated[tuple[float, ...], arg(metavar="X Y Z [QX QY QZ QW]")]
    """Position [m] and optionally quaternion of the tip in the frame of the base link."""

    @property
    def has_orientation(self) -> bool:
        return len(self.pose) == 7

    def target(self) -> Any:
        """Return the transform (4, 4)."""
        check_pose_length(self.pose)
        from eim_ros.kinematics import pose_from

        return pose_from(self.pose[:3], self.pose[3:] or None)


@dataclass(frozen=True, kw_only=True)
class Solve(OfPose):
    """Find one configuration that reaches a pose; with --near the closest one."""

    operation = "solve"

    near: Annotated[Words, arg(metavar="JOINT ...")] = None
    """Configuration [rad or m]: a value for each joint, or NAME=VALUE for some."""
    timeout: Number = None
    """Longest time to search [s] (default: 1)."""

    def arguments(self) -> dict[str, Any]:
        return {"near": near_from(self.near) if self.near else None, "seed": self.seed, "timeout": self.timeout}


@dataclass(frozen=True, kw_only=True)
class Sample(Solve):
    """Find distinct configurations that reach a pose."""

    operation = "sample"

    samples: Annotated[Count, arg(aliases=("-n",))] = 100
    """Number of configurations."""
    posture: Annotated[Words, arg(metavar="JOINT=VALUE[:WEIGHT] ...")] = None
    """Preferred values of joints [rad or m]; solutions are moved as close to them as the pose allows."""
    order: Annotated[Words, arg(metavar="NAME[=WEIGHT] ...")] = None
    """Criteria for the order: density, distance (to --near), posture, manipulability, limits, or none."""
    diversity: Annotated[Number, arg(metavar="SHARE")] = None
    """From 0 (as the model prefers) to 1 (evenly over all solutions) (default: depends on the model)."""

    def arguments(self) -> dict[str, Any]:
        return {
            "n": self.samples,
            "posture": posture_from(self.posture) if self.posture else None,
            "order": order_from(self.order) if self.order else None,
            "diversity": self.diversity,
            **super().arguments(),
        }


@dataclass(frozen=True, kw_only=True)
class SolveAll(Solve):
    """Find all configurations that reach a pose, and report whether they are complete."""

    operation = "solve_all"

    max_spacing: float = 0.3
    """Largest distance between neighbours along a self-motion [rad or m]."""
    guarantee: Annotated[Words, arg(metavar="CONFIDENCE SHARE|certified")] = None
    """Search until it is so certain that at most this share of restarts would find new solutions, as in 0.99 0.002;
    or use closed forms only, which are certified."""
    order: Annotated[Words, arg(metavar="NAME[=WEIGHT] ...")] = None
    """Criteria for the order, see eim sample."""
    max_solutions: Count = 10_000
    """Largest number of configurations."""

    def arguments(self) -> dict[str, Any]:
        return {
            "max_spacing": self.max_spacing,
            "guarantee": _guarantee(self.guarantee),
            "order": order_from(self.order) if self.order else None,
            "max_solutions": self.max_solutions,
            **super().arguments(),
        }


@dataclass(frozen=True, kw_only=True)
class Draw(OfPose):
    """Draw independent random configurations from all solutions of a pose."""

    operation = "draw"

    samples: Annotated[Count, arg(aliases=("-n",))] = 100
    """Number of draws."""
    density: Literal["uniform", "model", "posture"] = "uniform"
    """Density of the draws: equal everywhere, that of the model, or by the cost of --posture."""
    posture: Annotated[Words, arg(metavar="JOINT=VALUE[:WEIGHT] ...")] = None
    """Preferred values of joints [rad or m]."""
    temperature: float = 1.0
    """Temperature of --density posture, in units of the cost."""
    guarantee: Annotated[Words, arg(metavar="CONFIDENCE SHARE|certified")] = None
    """Completeness of the set of solutions, see eim solve-all."""
    timeout: Number = None
    """Longest time to search [s] (default: 1)."""

    def arguments(self) -> dict[str, Any]:
        if (self.density == "posture") != (self.posture is not None):
            raise ConfigurationError("--density posture and --posture need each other", self.density)
        return {
            "n": self.samples,
            "density": posture_from(self.posture) if self.posture else self.density,
            "temperature": self.temperature,
            "guarantee": _guarantee(self.guarantee),
            "seed": self.seed,
            "timeout": self.timeout,
        }


@dataclass(frozen=True, kw_only=True)
class Propose(OfPose):
    """Print raw draws of a model. They are not solved: the column `valid` marks the solutions."""

    operation = "propose"

    samples: Annotated[Count, arg(aliases=("-n",))] = 100
    """Number of draws."""

    def arguments(self) -> dict[str, Any]:
        return {"n": self.samples, "seed": self.seed}


@dataclass(frozen=True, kw_only=True)
class Follow(Operation):
    """Find one configuration per pose of a path, so that no joint jumps if a path without jumps exists."""

    operation = "follow"

    pose: Annotated[UseAppendAction[tuple[tuple[float, ...], ...]], arg(metavar="X Y Z QX QY QZ QW")] = ()
    """Position [m] and quaternion of the tip in the frame of the base link."""
    poses: File = None
    """Text file with a pose in each line, as --pose; numbers are separated by spaces or commas."""
    near: Annotated[Words, arg(metavar="JOINT ...")] = None
    """Present configuration [rad or m]: a value for each joint, or NAME=VALUE for each."""
    max_step: float = 0.3
    """Largest change of a joint between two poses [rad or m]."""
    candidates: Count = 48
    """Solutions of each pose, if they are neither points nor curves."""
    timeout: Number = None
    """Longest time to search [s] (default: 5)."""

    @property
    def has_orientation(self) -> bool:
        return any(len(row) == 7 for row in self.rows)

    @functools.cached_property
    def rows(self) -> list[tuple[float, ...]]:
        """Numbers of the poses."""
        rows = [*self.pose, *(_read_rows(self.poses) if self.poses else ())]
        if not rows:
            raise ConfigurationError("give the path by --poses FILE, or by several --pose")
        for row in rows:
            check_pose_length(row)
        return rows

    def target(self) -> Any:
        from eim_ros.kinematics import pose_from

        return [pose_from(row[:3], row[3:] or None) for row in self.rows]

    def arguments(self) -> dict[str, Any]:
        return {
            "near": near_from(self.near) if self.near else None,
            "max_step": self.max_step,
            "n_candidates": self.candidates,
            "seed": self.seed,
            "timeout": self.timeout,
        }

    def show(self, answer: Any) -> None:
        print(answer.message or f"{len(answer)} configurations")
        names = [f"{name:>8}" for name in short_names(answer.joint_names)]
        print("  ".join([*names, "valid"]))
        for q, is_valid in zip(answer.positions, answer.valid, strict=True):
            print("  ".join([_row(names, q), "yes" if is_valid else "no"]))


@dataclass(frozen=True, kw_only=True)
class Picture(Sample):
    """Draw a picture of an arm in the configurations that `eim sample` finds."""

    output: str = "solutions.png"
    """File to write, .png or .svg."""

    def run(self) -> int:
        from eim_ros.view import draw_solutions  # imported here: matplotlib takes a second
        from eim_ros.view.figure_file import check_picture_name

        check_picture_name(self.output)
        check_outputs({"--output": self.output}, {"--model": self.source.model, "--robot": self.source.robot})
        answer = self.answer()
        if answer:
            draw_solutions(self.source.sampler().robot, answer.q[answer.valid], self.target(), self.output)
            told = {"picture": str(self.output), "n": int(answer.valid.sum()), "message": answer.message}
            print(to_json(told) if self.json else f"{answer.message}: {self.output}")
        return self.exit_code(answer)


def _guarantee(words: Sequence[str] | None) -> Any:
    """Return the `Completeness` of two numbers, "certified", or None."""
    if words is None or list(words) == ["certified"]:
        return words and "certified"
    from eim_ros.ik import Completeness

    try:
        confidence, missed_share = (read_number(float, word) for word in words)
    except ValueError as error:
        raise ConfigurationError(
            f"--guarantee is two numbers, as in 0.99 0.002, or certified; got {' '.join(words)!r}", words
        ) from error
    return Completeness(confidence, missed_share)


def _read_rows(path: str) -> list[tuple[float, ...]]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.replace(",", " ").split() for line in file]
        return [tuple(map(float, words)) for words in lines if words]
    except (ValueError, OSError) as error:
        raise DataError(f"cannot read poses from {path}: {error}", path) from error


def _plain(answer: Any) -> dict[str, Any]:
    """Return an answer as a mapping that `to_json` accepts."""
    if hasattr(answer, "to_dict"):
        return dict(answer.to_dict())
    return {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}


def print_configurations(answer: Any, n_wanted: int) -> None:
    """Print a summary and the first rows of an answer, and why there are fewer than requested.

    Without a solution, print the best attempt, and say that it is none.
    """
    n = len(answer)
    print(f"{answer.valid.sum()} valid of {n} configurations in {1e3 * answer.elapsed:.2f} ms")
    if n < n_wanted and answer.error_code.name == "SUCCESS":
        print(answer.message)
    if answer.completeness is not None and answer.n_all is None:
        print(answer.completeness)
    names = [f"{name:>8}" for name in short_names(answer.joint_names)]
    if not n:
        if answer.best_attempt is not None:
            print("no solution; the best attempt, which must not be executed:")
            print("  ".join(names))
            print(_row(names, answer.best_attempt))
        return
    print("  ".join([*names, "error [m]", "error [rad]", "valid"]))
    for i in range(min(n, ROWS_SHOWN)):
        errors = [f"{answer.position_error[i]:9.1e}", f"{answer.orientation_error[i]:11.1e}"]
        print("  ".join([_row(names, answer.q[i]), *errors, "  yes" if answer.valid[i] else "   no"]))
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")


def _row(names: Sequence[str], q: Sequence[float]) -> str:
    """Return one configuration, to be printed below the names of its joints."""
    return "  ".join(f"{value:{len(name)}.4f}" for name, value in zip(names, q, strict=True))


def short_names(names: Sequence[str]) -> list[str]:
    """Return names without the words that all of them begin and end with."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rpartition("_")
    end = os.path.commonprefix([name[::-1] for name in names])[::-1].partition("_")
    first, last = len(begin[0] + begin[1]), len(end[1] + end[2])
    short = [name[first : len(name) - last] for name in names]
    return short if all(name and not name.isdigit() for name in short) else list(names)
