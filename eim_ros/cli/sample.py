"""Verbs that compute configurations, such as `eim solve`, `sample` and `solve-all`.

Each verb calls the method of `Sampler` with the same name, or with --service a service of a running node. The exit code
is 0 if there is a valid configuration and 1 if none was found. For other codes see `eim --help`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from tyro.conf import UseAppendAction, arg

from eim_ros.cli.options import (
    NO_DEFAULT,
    ConstraintFlags,
    Count,
    File,
    FreshSeed,
    Json,
    Number,
    Source,
    Text,
    Words,
    check_pose_length,
    given,
    guarantee_from,
    near_from,
    order_from,
    posture_from,
    steps_from,
)
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.core.files import check_outputs, to_json

ROWS_SHOWN = 10
CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "near": near_from,
    "max_step": steps_from,
    "posture": posture_from,
    "order": order_from,
    "guarantee": guarantee_from,
}  # functions that convert the words of a flag to the argument of that name
KEYWORDS = {"samples": "n", "candidates": "n_candidates"}  # keywords with flags of another name

Amount: TypeAlias = Annotated[Count, arg(aliases=("-n",), help="Number of configurations.")]
Near: TypeAlias = Annotated[Words, arg(metavar="JOINT ...", help="A value for each joint [rad or m], or NAME=VALUE.")]
PostureWords: TypeAlias = Annotated[Words, arg(metavar="JOINT=VALUE[:WEIGHT] ...")]
OrderWords: TypeAlias = Annotated[Words, arg(metavar="NAME[=WEIGHT] ...")]
GuaranteeWords: TypeAlias = Annotated[Words, arg(metavar="CONFIDENCE SHARE|certified")]
Timeout: TypeAlias = Annotated[Number, arg(help="Longest time to search [s] (default: the method's default).")]


@dataclass(frozen=True, kw_only=True)
class ServiceFlags:
    """A running node that answers instead of this process. Its robot and model are used."""

    service: Annotated[Text, arg(metavar="NODE")] = None
    """Name of the node, such as /ik_server."""
    frame: Annotated[str, NO_DEFAULT] = ""
    """Frame of the pose at the current time, any frame of tf (default: the base link)."""
    wait: float = 5.0
    """Longest time to wait until the node is active [s]."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Base class of the verbs.

    The fields of a subclass are keywords of the method of `Sampler`, and None selects its default.
    """

    operation: ClassVar[str]

    source: Source
    constraints: ConstraintFlags
    server: ServiceFlags
    seed: FreshSeed = None
    """Random seed (default: a fresh one)."""
    json: Json = False

    def run(self) -> int:
        answer = self.answer()
        if not self.json:
            self.show(answer)
        else:
            print(answer.to_json())
        return self.exit_code(answer)

    def answer(self) -> Any:
        """Return the answer of the service, or of a sampler in this process."""
        target, arguments = self.target(), self.arguments()
        constraints = self.constraints.build(has_orientation=self.has_orientation())
        if self.server.service is not None:
            from eim_ros.cli.service import ask

            return ask(self, target, arguments, constraints)
        sampler = self.source.sampler().with_constraints(constraints)
        sampler.prepare()
        return getattr(sampler, self.operation)(target, **arguments)

    def rows(self) -> Sequence[Sequence[float]]:
        """Return the numbers of each pose."""
        raise NotImplementedError

    def has_orientation(self) -> bool:
        """Return whether the poses have orientations."""
        return len(self.rows()[0]) == 7

    def target(self) -> Any:
        """Return the first argument of the method: transforms (4, 4) of the poses."""
        from eim_ros.kinematics import pose_from

        rows = self.rows()
        for row in rows:
            check_pose_length(row)
        return [pose_from(row[:3], row[3:] or None) for row in rows]

    def arguments(self) -> dict[str, Any]:
        """Return the keywords of the method that were given."""
        others = {field.name for field in dataclasses.fields(Operation)} - {"seed"} | {"pose", "poses", "rpy", "output"}
        words = {
            field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in others
        }
        return {
            KEYWORDS.get(name, name): CONVERTERS[name](value) if name in CONVERTERS else value
            for name, value in given(words).items()
        }

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
    """Base class of the verbs for one pose."""

    pose: Annotated[tuple[float, ...], arg(metavar="X Y Z [QX QY QZ QW]", aliases=("--xyz",))]
    """Position [m] and optionally quaternion of the tip in the frame of the base link."""
    rpy: Annotated[tuple[float, float, float] | None, arg(metavar="R P Y"), NO_DEFAULT] = None
    """Roll, pitch and yaw [rad] of the tip in place of a quaternion."""

    def rows(self) -> Sequence[Sequence[float]]:
        return [self.pose]

    def has_orientation(self) -> bool:
        return self.rpy is not None or super().has_orientation()

    def target(self) -> Any:
        from eim_ros.kinematics import pose_from

        if self.rpy is None:
            return super().target()[0]
        if len(self.pose) != 3:
            raise ConfigurationError(f"--pose needs 3 numbers with --rpy (X Y Z), got {len(self.pose)}")
        if max(map(abs, self.rpy)) > 2.0 * math.pi:
            raise ConfigurationError(f"--rpy needs angles in radians, got {' '.join(f'{one:g}' for one in self.rpy)}")
        return pose_from(self.pose, rpy=self.rpy)


@dataclass(frozen=True, kw_only=True)
class Solve(OfPose):
    """Find one configuration that reaches a pose; with --near the closest one."""

    operation = "solve"

    near: Near = None
    timeout: Timeout = None


@dataclass(frozen=True, kw_only=True)
class Sample(OfPose):
    """Find distinct configurations that reach a pose."""

    operation = "sample"

    samples: Amount = 100
    near: Near = None
    posture: PostureWords = None
    """Preferred values of joints [rad or m]; solutions are moved as close to them as the pose allows."""
    order: OrderWords = None
    """Criteria for the order: density, distance (to --near), posture, manipulability, limits, or none."""
    diversity: Annotated[Number, arg(metavar="SHARE")] = None
    """From 0 (as the model prefers) to 1 (evenly over all solutions) (default: depends on the model)."""
    timeout: Timeout = None


@dataclass(frozen=True, kw_only=True)
class SolveAll(OfPose):
    """Find all configurations that reach a pose, and report whether they are complete."""

    operation = "solve_all"

    max_spacing: float = 0.3
    """Largest distance between neighbours along a self-motion [rad or m]."""
    guarantee: GuaranteeWords = None
    """Search until at most SHARE of all restarts would find new solutions, with this CONFIDENCE, as in 0.99 0.002.
    The word certified selects closed forms only, which prove completeness."""
    near: Near = None
    order: OrderWords = None
    """Criteria for the order, see eim sample."""
    max_solutions: Count = 10_000
    """Largest number of configurations."""
    timeout: Timeout = None


@dataclass(frozen=True, kw_only=True)
class SolveNearestPose(OfPose):
    """Find the configuration whose pose is nearest to a target, also if the target is out of reach."""

    operation = "solve_nearest_pose"

    priority: Literal["position", "orientation"] = "position"
    """Error that is minimised first."""
    weights: Annotated[tuple[float, float] | None, arg(metavar="PER_METRE PER_RADIAN")] = None
    """Weights of position and orientation error [1/m, 1/rad], whose squares are added, instead of a priority."""
    timeout: Timeout = None

    def arguments(self) -> dict[str, Any]:
        arguments = super().arguments()
        return {**arguments, "priority": arguments.pop("weights", self.priority)}

    def show(self, answer: Any) -> None:
        exact = ", a solution" if answer.is_exact else ""
        print(f"{answer.position_error:.2e} m and {answer.orientation_error:.2e} rad from the target{exact}")
        names = [f"{name:>8}" for name in short_names(answer.joint_names)]
        print("  ".join(names))
        print(_row(names, answer.q))

    def exit_code(self, answer: Any) -> int:
        """Return 0 if there is a configuration; say on stderr if there is none, or if there may be nearer ones."""
        remark = "" if answer.in_time else "timed out: there may be nearer poses"
        if not answer:
            remark = "every configuration that was found collides"
        if remark:
            print(f"eim solve-nearest-pose: {remark}", file=sys.stderr)
        return 0 if answer else 1


@dataclass(frozen=True, kw_only=True)
class Draw(OfPose):
    """Draw independent random configurations from all solutions of a pose."""

    operation = "draw"

    samples: Amount = 100
    density: Literal["uniform", "model", "posture"] = "uniform"
    """Density of the draws: uniform, the density of the model, or decreasing with the cost of --posture."""
    posture: PostureWords = None
    """Preferred values of joints [rad or m]."""
    temperature: float = 1.0
    """Temperature of --density posture, in units of the cost."""
    guarantee: GuaranteeWords = None
    """Guarantee that the set of solutions is complete, see eim solve-all."""
    timeout: Timeout = None

    def arguments(self) -> dict[str, Any]:
        if (self.density == "posture") != (self.posture is not None):
            raise ConfigurationError("--density posture and --posture need each other", self.density)
        arguments = super().arguments()
        density = arguments.pop("posture", self.density)
        return {**arguments, "density": density}


@dataclass(frozen=True, kw_only=True)
class Propose(OfPose):
    """Print raw draws of a model. They are not solved: the column `valid` marks the solutions."""

    operation = "propose"

    samples: Amount = 100


@dataclass(frozen=True, kw_only=True)
class Follow(Operation):
    """Find one configuration per pose of a path, so that no joint jumps if a path without jumps exists."""

    operation = "follow"

    pose: Annotated[UseAppendAction[tuple[tuple[float, ...], ...]], arg(metavar="X Y Z QX QY QZ QW")] = ()
    """Position [m] and quaternion of the tip in the frame of the base link."""
    poses: File = None
    """Text file with one pose per line, in the form of --pose, with spaces or commas between numbers."""
    near: Near = None
    max_step: Annotated[Words, arg(metavar="STEP ...")] = None
    """Largest change of a joint between two poses [rad or m]: one for all, one for each, or NAME=VALUE
    (default: 0.3 rad for revolute and 0.05 m for prismatic joints)."""
    objective: Literal["squares", "length", "largest_step", "time"] = "squares"
    """Cost of the path that smoothing reduces."""
    candidates: Count = 48
    """Number of solutions of each pose, if they are neither points nor curves."""
    timeout: Timeout = None

    def rows(self) -> Sequence[Sequence[float]]:
        rows = [*self.pose, *(read_rows(self.poses) if self.poses else ())]
        if not rows:
            raise ConfigurationError("give the path by --poses FILE, or by several --pose")
        return rows

    def show(self, answer: Any) -> None:
        print(answer.message)
        names = [f"{name:>8}" for name in short_names(answer.joint_names)]
        print("  ".join([*names, "valid"]))
        for q, is_valid in zip(answer.q, answer.valid, strict=True):
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


def read_rows(path: str) -> list[tuple[float, ...]]:
    """Return the numbers of each line of a file of poses; `DataError` if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.replace(",", " ").split() for line in file]
        return [tuple(map(float, words)) for words in lines if words]
    except (ValueError, OSError) as error:
        raise DataError(f"cannot read poses from {path}: {error}", path) from error


def print_configurations(answer: Any, n_wanted: int) -> None:
    """Print a summary and the first rows of an answer, and why there are fewer than requested.

    If there is no solution, print the best attempt, marked as such.
    """
    n = len(answer)
    print(f"{answer.valid.sum()} valid of {n} configurations in {1e3 * answer.elapsed:.2f} ms")
    if n < n_wanted and answer.error_code.name == "SUCCESS":
        print(answer.message)
    if answer.completeness is not None and math.isnan(answer.n_total):
        print(answer.completeness)
    names = [f"{name:>8}" for name in short_names(answer.joint_names)]
    if not n:
        if answer.best_attempt is not None:
            print("no solution; the best attempt, which must not be executed:")
            print("  ".join(names))
            print(_row(names, answer.best_attempt))
        return
    shown = answer[:ROWS_SHOWN]
    labels = {} if answer.robot is None else shown.branches  # the answer of a service has no robot
    print("  ".join([*names, "error [m]", "error [rad]", "valid", *(f"{name:8}" for name in labels)]).rstrip())
    for i, q in enumerate(shown.q):
        errors = [f"{answer.position_error[i]:9.1e}", f"{answer.orientation_error[i]:11.1e}"]
        words = [f"{label[i] or '-':8}" for label in labels.values()]
        print("  ".join([_row(names, q), *errors, "  yes" if answer.valid[i] else "   no", *words]).rstrip())
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")


def _row(names: Sequence[str], q: Sequence[float]) -> str:
    """Return one configuration as a line below the names of its joints."""
    return "  ".join(f"{value:{len(name)}.4f}" for name, value in zip(names, q, strict=True))


def short_names(names: Sequence[str]) -> list[str]:
    """Return names without their common first and last words."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rpartition("_")
    end = os.path.commonprefix([name[::-1] for name in names])[::-1].partition("_")
    first, last = len(begin[0] + begin[1]), len(end[1] + end[2])
    short = [name[first : len(name) - last] for name in names]
    return short if all(name and not name.isdigit() for name in short) else list(names)
