"""Verbs that compute configurations, such as `eim solve`, `sample` and `solve-all`.

Each verb calls the method of `Sampler` with the same name. With --service, it calls a service of a running node. The
exit code is 0 if a valid configuration was found, otherwise 1. `eim --help-all` explains other codes.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from eim_ros.cli.flags import count, flag, json_flag, seed_flag
from eim_ros.cli.options import (
    ConstraintFlags,
    RequestSettings,
    SettingFlags,
    Source,
    check_pose_length,
    near_from,
    setting_names,
)
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.core.files import check_outputs, to_json

ROWS_SHOWN = 10
KEYWORDS = ("n", "near", "revolutions", "seed", "timeout")  # flags that are keywords of the method
OF_SERVICE = ("frame", "wait")  # settings of a request to a node


def timeout_flag(**options: Any) -> Any:
    """Return the flag --timeout."""
    return flag(None, "Maximum time of the search [s] (default: the default of the method).", **options)


def revolutions_flag() -> Any:
    """Return the flag --revolutions."""
    return flag(
        None, "List all 2π-equivalent solutions within the limits, or one of each set (default: all).", is_expert=True
    )


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Base class of the verbs. `operation` is the name of the method of `Sampler`."""

    operation: ClassVar[str]

    source: Source
    constraints: ConstraintFlags
    settings: SettingFlags
    service: str | None = flag(
        None,
        "Name of a running node, such as /ik_server, that answers with its robot and model. This flag adds two "
        "settings: frame is the frame of the pose, and wait is the maximum time to wait for the node [s].",
        metavar="NODE",
    )
    seed: int | None = seed_flag(None, is_expert=True)
    json: bool = json_flag()

    @classmethod
    def setting_names(cls, words: Sequence[str]) -> list[str]:
        """Return the names of the settings, which may also be given as flags."""
        from eim_ros.ik import Sampler

        return setting_names(getattr(Sampler, cls.operation), OF_SERVICE if "--service" in words else ())

    def run(self) -> int:
        answer = self.answer()
        if not self.json:
            self.show(answer)
        else:
            print(answer.to_json())
        return self.exit_code(answer)

    def answer(self) -> Any:
        """Return the answer of the service, or of a sampler in this process."""
        target, settings = self.target(), self.read_settings()
        keywords = self.keywords(settings)
        constraints = self.constraints.build(settings.constraints, has_orientation=self.has_orientation())
        if self.service is not None:
            from eim_ros.cli.service import ask

            return ask(self, target, keywords, constraints, settings)
        sampler = self.source.sampler(settings.tool()).with_constraints(constraints)
        sampler.prepare()
        return getattr(sampler, self.operation)(target, **keywords)

    def read_settings(self) -> RequestSettings:
        """Return the settings of --config and --set."""
        from eim_ros.ik import Sampler

        return self.settings.read(getattr(Sampler, self.operation), OF_SERVICE if self.service else ())

    def keywords(self, settings: RequestSettings) -> dict[str, Any]:
        """Return the keywords of the method from settings and flags. Flags have priority."""
        given = {name: value for name in KEYWORDS if (value := getattr(self, name, None)) is not None}
        if "near" in given:
            given["near"] = near_from(given["near"])
        return {**settings.keywords, **given}

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

    def show(self, answer: Any) -> None:
        """Print the answer as a table."""
        print_configurations(answer, getattr(self, "n", None) or 0)

    def exit_code(self, answer: Any) -> int:
        """Return 0 if there is a solution, otherwise 1. Print the reason for a failure on stderr."""
        if answer.error_code.name != "SUCCESS":
            verb = re.sub(r"\B(?=[A-Z])", "-", type(self).__name__).lower()
            print(f"eim {verb}: {answer.error_code.name}: {answer.message}", file=sys.stderr)
        return 0 if answer else 1


@dataclass(frozen=True, kw_only=True)
class OfPose(Operation):
    """Base class of the verbs for one pose."""

    first_words: ClassVar[tuple[str, ...]] = ("robot", "pose")

    pose: tuple[float, ...] = flag(
        text="Position [m] and optionally quaternion of the tip in the frame of the base link.",
        metavar="X Y Z [QX QY QZ QW]",
    )
    rpy: tuple[float, float, float] | None = flag(
        None, "Roll, pitch and yaw [rad] of the tip instead of a quaternion.", metavar="R P Y"
    )

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
            raise ConfigurationError(
                f"--rpy needs angles in radians of at most 2π, got {' '.join(f'{one:g}' for one in self.rpy)}"
            )
        return pose_from(self.pose, rpy=self.rpy)


@dataclass(frozen=True, kw_only=True)
class NearPose(OfPose):
    """Base class of the verbs with --near."""

    near: tuple[str, ...] | None = flag(
        None, "Preferred configuration: a value for each joint [rad or m], or NAME=VALUE.", metavar="JOINT"
    )
    timeout: float | None = timeout_flag()


@dataclass(frozen=True, kw_only=True)
class Solve(NearPose):
    """Find one configuration that reaches a pose. With --near, find the solution closest to a given configuration."""

    operation = "solve"


@dataclass(frozen=True, kw_only=True)
class Sample(NearPose):
    """Find distinct configurations that reach a pose.

    Settings: order, posture, diversity, and the constraints.
    """

    operation = "sample"

    n: int = count(100, "Number of configurations.", short="-n")
    revolutions: Literal["all", "one"] | None = revolutions_flag()


@dataclass(frozen=True, kw_only=True)
class SolveAll(NearPose):
    """Find all configurations that reach a pose, and report whether they are complete.

    Settings: max_spacing, guarantee, order, max_solutions, and the constraints.
    """

    operation = "solve_all"

    revolutions: Literal["all", "one"] | None = revolutions_flag()


@dataclass(frozen=True, kw_only=True)
class SolveNearestPose(OfPose):
    """Find the configuration whose pose is nearest to a target, even if the target is out of reach.

    Settings: priority, start, and the constraints.
    """

    operation = "solve_nearest_pose"

    timeout: float | None = timeout_flag()

    def show(self, answer: Any) -> None:
        exact = ", a solution" if answer.is_exact else ""
        print(f"{answer.position_error:.2e} m and {answer.orientation_error:.2e} rad from the target{exact}")
        names = [f"{name:>8}" for name in short_names(answer.joint_names)]
        print("  ".join(names))
        print(_row(names, answer.q))

    def exit_code(self, answer: Any) -> int:
        """Return 0 if there is a configuration, otherwise 1. Report on stderr if there is none, or if a nearer pose may
        exist.
        """
        remark = "" if answer.in_time else "timed out: there may be a nearer pose; give a longer --timeout"
        if not answer:
            remark = "no configuration without collision was found"
        if remark:
            print(f"eim solve-nearest-pose: {remark}", file=sys.stderr)
        return 0 if answer else 1


@dataclass(frozen=True, kw_only=True)
class Draw(OfPose):
    """Draw independent random configurations from all solutions of a pose.

    Settings: density (uniform, model, or the values of a posture), temperature, guarantee, and the constraints.
    """

    operation = "draw"

    n: int = count(100, "Number of configurations.", short="-n")
    timeout: float | None = timeout_flag()


@dataclass(frozen=True, kw_only=True)
class Propose(OfPose):
    """Print raw draws of a model. They are not refined, and the column `valid` marks the draws that reach the pose."""

    operation = "propose"

    n: int = count(100, "Number of configurations.", short="-n")


@dataclass(frozen=True, kw_only=True)
class Follow(Operation):
    """Find one configuration per pose of a path, so that no joint jumps if a path without jumps exists.

    Settings: max_step, objective, n_candidates, and the constraints.
    """

    operation = "follow"
    first_words: ClassVar[tuple[str, ...]] = ("robot", "poses")

    pose: tuple[tuple[float, ...], ...] = flag(
        (),
        "Position [m] and quaternion of the tip in the frame of the base link. Repeat it for each pose.",
        metavar="X Y Z [QX QY QZ QW]",
        repeated=True,
    )
    poses: str | None = flag(
        None,
        "Text file with one pose per line, in the form of --pose, with spaces or commas between numbers.",
        metavar="FILE",
    )
    near: tuple[str, ...] | None = flag(
        None, "Configuration near the start of the path: a value for each joint, or NAME=VALUE.", metavar="JOINT"
    )
    timeout: float | None = timeout_flag()

    def rows(self) -> Sequence[Sequence[float]]:
        rows = [*self.pose, *(read_rows(self.poses) if self.poses else ())]
        if not rows:
            raise ConfigurationError(
                "there are no poses to follow: give a file with poses by --poses, or several --pose"
            )
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

    output: str = flag("solutions.png", "File to write, .png or .svg.", metavar="FILE", short="-o")
    timeout: float | None = timeout_flag(is_expert=True)

    def run(self) -> int:
        from eim_ros.view import draw_solutions  # imported here: matplotlib takes a second
        from eim_ros.view.style import check_picture_name

        check_picture_name(self.output)
        check_outputs({"--output": self.output}, {"--model": self.source.model, "--robot": self.source.robot})
        answer = self.answer()
        if answer:
            draw_solutions(
                answer.robot or self.source.sampler().robot, answer.q[answer.valid], self.target(), self.output
            )
            told = {"picture": str(self.output), "n": int(answer.valid.sum()), "message": answer.message}
            print(to_json(told) if self.json else f"{answer.message}: {self.output}")
        return self.exit_code(answer)


def read_rows(path: str) -> list[tuple[float, ...]]:
    """Return the numbers in each line of a file of poses, or raise `DataError` if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.replace(",", " ").split() for line in file]
        return [tuple(map(float, words)) for words in lines if words]
    except (ValueError, OSError) as error:
        raise DataError(f"cannot read poses from {path}: {error}", path) from error


def print_configurations(answer: Any, n_wanted: int) -> None:
    """Print a summary and the first rows of an answer, and the reason for missing rows.

    If there is no solution, print the best attempt with a warning.
    """
    n = len(answer)
    print(f"{answer.valid.sum()} of {n} configurations are valid, after {1e3 * answer.elapsed:.2f} ms")
    if n < n_wanted and answer.error_code.name == "SUCCESS":
        print(answer.message)
    if answer.completeness is not None and math.isnan(answer.n_total):
        print(answer.completeness)
    names = [f"{name:>8}" for name in short_names(answer.joint_names)]
    if not n:
        if answer.best_attempt is not None:
            print("no solution was found; the following best attempt misses the pose, so do not execute it:")
            print("  ".join(names))
            print(_row(names, answer.best_attempt))
        return
    shown = answer[:ROWS_SHOWN]
    labels = {} if answer.robot is None else shown.branches  # answers of a service contain no robot
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
    """Return the names without their common first and last words."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rpartition("_")
    end = os.path.commonprefix([name[::-1] for name in names])[::-1].partition("_")
    first, last = len(begin[0] + begin[1]), len(end[1] + end[2])
    short = [name[first : len(name) - last] for name in names]
    return short if all(name and not name.isdigit() for name in short) else list(names)
