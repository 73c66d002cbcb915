"""Answers of inverse kinematics: configurations for one or several poses, their errors and other properties.

An answer without a solution is empty and false, so a loop over it does nothing.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import finite
from eim_ros.ik.candidates import ErrorCode
from eim_ros.ik.completeness import CompletenessReport
from eim_ros.ik.prior import ConditionalDensity
from eim_ros.kinematics import Robot
from eim_ros.solver import farthest_rows

SHOWN_ROWS = 6


@dataclass(frozen=True)
class Column:
    """One column of `Solutions`."""

    name: str  # attribute of `Solutions`
    per: Literal["row", "pose"]  # whether there is an entry for each configuration, or for each pose
    dtype: str  # type in messages
    unit: str = ""
    ros_name: str = ""  # field of `eim_ros/msg/IKSolutions`; empty if several fields or no field correspond to it


SCHEMA = (
    Column("q", "row", "f8", "rad, m", "positions"),
    Column("position_error", "row", "f8", "m", "position_error"),
    Column("orientation_error", "row", "f8", "rad", "orientation_error"),
    Column("valid", "row", "?", "", "valid"),
    Column("expert", "row", "u4", "", "expert"),
    Column("log_prob", "row", "f8", "nat", "log_prob"),
    Column("n_per_pose", "pose", "u4", "", "n_per_pose"),
    Column("error_codes", "pose", "i4", "", "error_codes"),
    Column("messages", "pose", "O"),
    Column("times", "pose", "f8", "s"),
    Column("n_totals", "pose", "f8", "", "n_total"),
    Column("reports", "pose", "O"),
    Column("effective_sample_sizes", "pose", "f8", "", "effective_sample_size"),
    Column("best_attempts", "pose", "f8", "rad, m", "best_attempt"),
    Column("best_attempt_errors", "pose", "f8", "m, rad"),
)
"""All columns. Slicing, joining, and conversion to tables, JSON and messages go through this list."""

ROW_COLUMNS = tuple(column.name for column in SCHEMA if column.per == "row" and column.name != "log_prob")
_MESSAGE_COLUMNS = tuple((column.name, column.ros_name, np.dtype(column.dtype)) for column in SCHEMA if column.ros_name)
_SUCCESS = int(ErrorCode.SUCCESS)
POSE_COLUMNS = tuple(column.name for column in SCHEMA if column.per == "pose")


@dataclass(frozen=True, eq=False, repr=False)
class Solutions:
    """Configurations for one or several poses.

    `len`, iteration and indices count rows: an integer gives a configuration (dof,), and a slice, mask or array of
    indices gives `Solutions`. `bool` is true if a row is valid. The methods `pose` and `by_pose` select poses.

    Attributes
    ----------
    joint_names : tuple of str
        Columns of `q`.
    q : (n, dof)
        Configurations of all poses in turn [rad] or [m].
    position_error : (n,)
        Distance of the tip from its target by forward kinematics [m], beyond the tolerances per axis.
    orientation_error : (n,)
        Angle to the target orientation [rad], beyond the tolerances per axis; 0 if only the position was asked for.
    valid : (n,) of bool
        Whether the errors are within the tolerances, the joints within the limits, and nothing collides. All rows are
        valid, except in answers of `Sampler.propose`.
    expert : (n,) of uint32
        Component of the model that proposed the row; `NO_EXPERT` for uniform seeds, continuation and closed forms.
    n_per_pose : (n_poses,) of int
        Number of rows of each pose.
    error_codes : (n_poses,) of int
        Values of `ErrorCode`.
    messages : tuple of str
        Outcome of each pose, in words.
    times : (n_poses,)
        Time spent on each pose [s].
    n_totals : (n_poses,)
        Number of solutions that exist, including revolutions of joints, if it is known from a closed form; else NaN.
    reports : tuple of CompletenessReport or None
        Self-motion components of each pose, if they are known from curves or a closed form. Collisions and branches
        do not count, except for single solutions.
    effective_sample_sizes : (n_poses,)
        Number of independent draws with the same variance (Kong 1992) in answers of `Sampler.draw`; else NaN.
    best_attempts : (n_poses, dof)
        Configuration that came closest to a pose without a solution [rad] or [m]; else NaN. It is not a solution: it
        misses the pose, collides, or violates a condition on a link.
    best_attempt_errors : (n_poses, 2)
        Errors of the best attempts [m], [rad]; NaN if there is none.
    robot : Robot, optional
        The arm, for `branches`; None after pickling, and in answers of a service.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> solutions = Sampler("ur5e").solve_all([0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0], seed=0)
    >>> bool(solutions), len(solutions) == solutions.n_total, solutions.completeness.certified
    (True, True, True)
    >>> solutions[0].shape, solutions[:2].q.shape
    ((6,), (2, 6))
    """

    SCHEMA: ClassVar[tuple[Column, ...]] = SCHEMA

    joint_names: tuple[str, ...]
    q: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]
    n_per_pose: IntArray
    error_codes: IntArray
    messages: tuple[str, ...]
    times: FloatArray
    n_totals: FloatArray
    reports: tuple[CompletenessReport | None, ...]
    effective_sample_sizes: FloatArray
    best_attempts: FloatArray
    best_attempt_errors: FloatArray
    known_log_prob: FloatArray | None = None
    densities: Sequence[ConditionalDensity | None] | None = None
    robot: Robot | None = None

    @classmethod
    def empty(cls, joint_names: tuple[str, ...], n_poses: int, message: str, elapsed: float = 0.0) -> Solutions:
        """Return the answer to poses for which no time was left."""
        no_rows, unknown = np.empty(0), np.full(n_poses, np.nan)
        return cls(
            joint_names,
            np.empty((0, len(joint_names))),
            no_rows,
            no_rows,
            np.empty(0, np.bool_),
            np.empty(0, np.uint32),
            np.zeros(n_poses, np.int64),
            np.full(n_poses, int(ErrorCode.TIMED_OUT), np.int64),
            (message,) * n_poses,
            np.full(n_poses, elapsed),
            unknown,
            (None,) * n_poses,
            unknown,
            np.full((n_poses, len(joint_names)), np.nan),
            np.full((n_poses, 2), np.nan),
        )

    @classmethod
    def concatenate(cls, parts: Iterable[Solutions]) -> Solutions:
        """Return the answers of at least one part, in turn."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            raise ConfigurationError("there are no answers to concatenate", parts)
        columns: dict[str, Any] = {}
        for name in (*ROW_COLUMNS, *POSE_COLUMNS):
            values = [getattr(part, name) for part in parts]
            columns[name] = sum(values, ()) if isinstance(values[0], tuple) else np.concatenate(values)
        if any(part.known_log_prob is not None for part in parts):
            columns["known_log_prob"] = np.concatenate([part._log_prob_so_far for part in parts])
        densities: list[ConditionalDensity | None] = []
        for part in parts:
            densities.extend([None] * part.n_poses if part.densities is None else part.densities)
        has_density = any(part.densities is not None for part in parts)
        robot = next((part.robot for part in parts if part.robot is not None), None)
        return cls(parts[0].joint_names, **columns, densities=densities if has_density else None, robot=robot)

    # Rows

    def __len__(self) -> int:
        return len(self.q)

    def __bool__(self) -> bool:
        """Return whether there is at least one solution."""
        return bool(self.valid.any())

    def __iter__(self) -> Iterator[FloatArray]:
        """Iterate over the configurations (dof,)."""
        return iter(self.q)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.q, dtype=dtype) if copy is not False else np.asarray(self.q, dtype=dtype)

    def __getitem__(self, index: Any) -> Any:
        """Return a configuration (dof,) for an integer, else the `Solutions` of a slice, mask or array of indices."""
        if isinstance(index, (int, np.integer)):
            return self.q[index]
        rows = np.arange(len(self)) if isinstance(index, str) else np.arange(len(self))[index]
        if rows.ndim != 1 or isinstance(index, str):
            raise ConfigurationError(f"rows are chosen by an integer, a slice, a mask or indices, got {index!r}", index)
        counts = np.full(1, len(rows), np.int64)
        if self.n_poses != 1:
            owners = np.repeat(np.arange(self.n_poses), self.n_per_pose)[rows]
            rows = rows[np.argsort(owners, kind="stable")]
            counts = np.bincount(owners, minlength=self.n_poses)
        return replace(self, **self._taken(rows), n_per_pose=counts)

    def _taken(self, rows: IntArray) -> dict[str, Any]:
        """Return the entries of some rows by column."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in ROW_COLUMNS}
        return {**columns, "known_log_prob": None if self.known_log_prob is None else self.known_log_prob[rows]}

    def spread(self, n: int) -> Solutions:
        """Return n rows that are far from each other. Each row is the farthest from those before it (Gonzalez 1985)."""
        if n >= len(self):
            return self
        bounds = np.stack([self.q.min(axis=0), self.q.max(axis=0), np.zeros(len(self.joint_names))])
        return self[np.sort(farthest_rows(bounds, self.q, n, np.inf))]  # type: ignore[no-any-return]

    @property
    def log_prob(self) -> FloatArray:
        """Log density (n,) of each row [nat]; NaN without a model.

        For `Sampler.draw` it is the log density on the set of solutions. Otherwise it is the model's log density given
        the pose, computed on first use unless the order of the answer needed it.
        """
        known = self._log_prob_so_far
        if self.densities is not None and (unknown := np.isnan(known)).any():
            known = known.copy()
            for i, rows in enumerate(self._slices()):
                density = self.densities[i]
                if density is not None and unknown[rows].any():
                    known[rows] = density.log_prob(self.q[rows])
            object.__setattr__(self, "known_log_prob", known)
            object.__setattr__(self, "densities", None)
        return known

    @property
    def branches(self) -> dict[str, npt.NDArray[np.str_]]:
        """Labels (n,) of each row by name: "left" or "right" for "shoulder", and so on; see `Constraints.branch`.

        Empty labels are boundaries between branches. Names that are not defined for the arm are missing. The labels are
        computed at each call.
        """
        if self.robot is None:
            raise ConfigurationError(
                "an answer of a service or from a file does not contain its robot: call robot.branches.labels(answer.q)"
            )
        return self.robot.branches.labels(self.q)

    @property
    def _log_prob_so_far(self) -> FloatArray:
        return np.full(len(self), np.nan) if self.known_log_prob is None else self.known_log_prob

    @property
    def seconds_of_log_prob(self) -> float:
        """Upper estimate of the time for `log_prob` [s]; 0 if it is known or there is no model."""
        if self.densities is None or self.known_log_prob is not None:
            return 0.0
        counts = zip(self.densities, self.n_per_pose.tolist(), strict=True)
        return sum(density.seconds(n) for density, n in counts if density is not None)

    # Poses

    @property
    def n_poses(self) -> int:
        """Number of poses."""
        return len(self.n_per_pose)

    @property
    def n_valid(self) -> IntArray:
        """Number of solutions (n_poses,) of each pose."""
        owners = np.repeat(np.arange(self.n_poses), self.n_per_pose)
        return np.bincount(owners[self.valid], minlength=self.n_poses).astype(np.int64)

    def pose(self, i: int) -> Solutions:
        """Return the answer to one pose, with its own arrays."""
        return self.poses([range(self.n_poses)[i]])

    def by_pose(self) -> Iterator[Solutions]:
        """Iterate over the answers to single poses."""
        return (self.pose(i) for i in range(self.n_poses))

    def poses(self, indices: Sequence[int] | IntArray) -> Solutions:
        """Return the answers to several poses, in this order."""
        index = np.asarray(indices, dtype=np.int64)
        slices = self._slices()
        rows = np.concatenate([np.empty(0, np.int64), *(np.arange(len(self))[slices[i]] for i in index)])
        columns = self._taken(rows)
        for name in POSE_COLUMNS:
            values = getattr(self, name)
            columns[name] = tuple(values[i] for i in index) if isinstance(values, tuple) else values[index]
        densities = None if self.densities is None else [self.densities[int(i)] for i in index]
        return replace(self, **columns, densities=densities)

    def _slices(self) -> list[slice]:
        ends = np.cumsum(self.n_per_pose).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.n_per_pose.tolist(), strict=True)]

    @property
    def error_code(self) -> ErrorCode:
        """SUCCESS if all poses have solutions, else the code of the first pose without one."""
        return ErrorCode(next((code for code in self.error_codes.tolist() if code != _SUCCESS), _SUCCESS))

    @property
    def message(self) -> str:
        """Outcome in words."""
        if self.n_poses == 1:
            return self.messages[0]
        n_solved = int(np.count_nonzero(self.n_valid))
        failed = np.flatnonzero(self.error_codes != ErrorCode.SUCCESS)
        rest = f"; pose {failed[0]}: {self.messages[failed[0]]}" if len(failed) else ""
        return f"{n_solved} of {self.n_poses} poses have a solution{rest}"

    @property
    def elapsed(self) -> float:
        """Time spent on all poses [s]."""
        return float(self.times.sum())

    @property
    def n_total(self) -> float:
        """Number of solutions that exist, or NaN if it is unknown; for a single pose."""
        return float(self.n_totals[self._only])

    @property
    def completeness(self) -> CompletenessReport | None:
        """Self-motion components, if they are known; for a single pose."""
        return self.reports[self._only]

    @property
    def certified(self) -> bool:
        """Whether a closed form shows that nothing is missing; for a single pose.

        Single solutions are then all solutions that exist. For curves, all components are known, ignoring collisions.
        """
        report = self.completeness
        if not np.isnan(self.n_total):
            return self.is_complete and (report is None or report.certified)
        return report is not None and report.certified

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing, as far as the completeness report says; for a single pose.

        Unlike `certified`, this includes bounds that hold with a confidence or rely on a measured noise level.
        """
        if not np.isnan(self.n_total):
            return bool(np.count_nonzero(self.valid) == self.n_total)
        return self.completeness is not None and self.completeness.is_complete

    @property
    def effective_sample_size(self) -> float:
        """Effective sample size of draws, else NaN; for a single pose."""
        return float(self.effective_sample_sizes[self._only])

    @property
    def best_attempt(self) -> FloatArray | None:
        """Configuration (dof,) that came closest, if there is no solution; for a single pose."""
        best = self.best_attempts[self._only]
        return None if not best.size or np.isnan(best).any() else best

    @property
    def best_attempt_error(self) -> tuple[float, float] | None:
        """Position [m] and orientation error [rad] of the best attempt; for a single pose."""
        position, orientation = self.best_attempt_errors[self._only].tolist()
        return None if np.isnan(position) else (position, orientation)

    @property
    def _only(self) -> int:
        if self.n_poses != 1:
            raise ConfigurationError(f"these are answers to {self.n_poses} poses: choose one by pose(i)", self.n_poses)
        return 0

    # Conversion

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a table by columns: one for each joint, and one for each property of rows; for pandas.DataFrame."""
        table: dict[str, list[Any]] = dict(zip(self.joint_names, self.q.T.tolist(), strict=True))
        if self.n_poses != 1:
            table["pose"] = np.repeat(np.arange(self.n_poses), self.n_per_pose).tolist()
        for column in SCHEMA:
            if column.per == "row" and column.name != "q":
                table[column.name] = getattr(self, column.name).tolist()
        return table

    def to_message(self, with_log_prob: bool = True) -> dict[str, Any]:
        """Return the fields of `eim_ros/msg/IKSolutions`, arrays flattened, with the dtypes of the message.

        Without `with_log_prob`, log densities that are not known yet are not computed, and that field is empty.
        """
        reports = [report for report in self.reports if report is not None]
        skipped = () if with_log_prob or not self.seconds_of_log_prob else ("log_prob",)
        fields: dict[str, Any] = {
            "error_code": {"val": int(self.error_code), "message": self.message},
            "joint_names": list(self.joint_names),
            "n": len(self),
        }
        for name, ros_name, dtype in _MESSAGE_COLUMNS:
            if ros_name not in skipped:
                values = getattr(self, name)
                fields[ros_name] = values if values.dtype is dtype else values.astype(dtype)
        fields["positions"] = fields["positions"].ravel()
        if is_valid := bool(self.valid.all()):
            fields["valid"] = np.empty(0, np.bool_)
        n_valid = self.n_per_pose if is_valid else self.n_valid
        fields["best_attempt"] = np.empty(0) if n_valid.all() else self.best_attempts[n_valid == 0].ravel()
        fields["elapsed"] = self.elapsed
        fields["n_components"] = np.zeros(self.n_poses, np.uint32)
        fields["missed_share"] = np.ones(self.n_poses)
        fields["complete"] = fields["certified"] = np.zeros(self.n_poses, np.bool_)
        if reports:
            fields["n_components"] = np.array([0 if each is None else each.n_components for each in self.reports], "u4")
            fields["missed_share"] = np.array([1.0 if each is None else each.missed_share for each in self.reports])
            fields["complete"] = np.array([each is not None and each.is_complete for each in self.reports], np.bool_)
            fields["certified"] = np.array([each is not None and each.certified for each in self.reports], np.bool_)
            fields["component_lengths"] = np.concatenate([report.lengths for report in reports])
            fields["component_closed"] = np.concatenate([report.closed for report in reports])
            fields["component_traced"] = np.concatenate([report.traced for report in reports])
            fields["confidence"] = max(report.confidence for report in reports)
        return fields

    @classmethod
    def from_message(cls, message: Any) -> Solutions:
        """Return the answer that an `eim_ros/msg/IKSolutions` contains; missing log densities become NaN."""
        names, n, n_poses = tuple(message.joint_names), int(message.n), len(message.n_per_pose)
        columns: dict[str, Any] = {
            column.name: np.array(getattr(message, column.ros_name), column.dtype)
            for column in SCHEMA
            if column.ros_name
        }
        log_prob = columns.pop("log_prob")
        columns["q"] = columns["q"].reshape(n, len(names))
        columns["valid"] = columns["valid"] if len(columns["valid"]) else np.ones(n, np.bool_)
        attempts = np.full((n_poses, len(names)), np.nan)
        owners = np.repeat(np.arange(n_poses), columns["n_per_pose"])
        failed = np.bincount(owners[columns["valid"]], minlength=n_poses) == 0
        attempts[failed] = columns["best_attempts"].reshape(np.count_nonzero(failed), len(names))
        columns["best_attempts"] = attempts
        messages: tuple[str, ...] = (message.error_code.message,)
        if n_poses != 1:
            messages = tuple(ErrorCode(int(code)).name for code in columns["error_codes"])
        reports: list[CompletenessReport | None] = []
        first = 0
        for i, n_components in enumerate(message.n_components):
            rows, first = slice(first, first + n_components), first + n_components
            bound = (message.missed_share[i], message.confidence, bool(message.complete[i]), bool(message.certified[i]))
            curves = (np.array(message.component_lengths[rows]), np.array(message.component_closed[rows], np.bool_))
            report = CompletenessReport(*curves, np.array(message.component_traced[rows], np.bool_), *bound)
            says_something = message.confidence and (report.is_complete or n_components or report.missed_share < 1.0)
            reports.append(report if says_something else None)
        return cls(
            names,
            **columns,
            messages=messages,
            times=np.full(n_poses, message.elapsed / max(n_poses, 1)),
            reports=tuple(reports),
            best_attempt_errors=np.full((n_poses, 2), np.nan),
            known_log_prob=log_prob if len(log_prob) else None,
        )

    def to_json(self) -> str:
        """Return the answer as JSON with the names of `to_message`; values that are not finite are null."""
        fields = self.to_message()
        fields["positions"], fields["valid"] = self.q, self.valid
        return json.dumps(finite(fields))

    def __repr__(self) -> str:
        """Return at most ten lines: the outcome, joints, and the first rows."""
        poses = "" if self.n_poses == 1 else f" of {self.n_poses} poses"
        lines = [f"Solutions: {len(self)} rows{poses}; {self.message}"]
        if len(self):
            lines.append("joints: " + ", ".join(self.joint_names))
            for i, row in enumerate(self.q[:SHOWN_ROWS]):
                lines.append(f"{i:4d}  " + " ".join(f"{value:8.4f}" for value in row.tolist()))
            if len(self) > SHOWN_ROWS:
                lines.append(f"  ... {len(self) - SHOWN_ROWS} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        heads = ["", *self.joint_names, "position error [m]", "orientation error [rad]", "valid"]
        lines = [_html_row("th", heads)]
        for i, row in enumerate(self.q[:SHOWN_ROWS]):
            errors = (f"{self.position_error[i]:.1e}", f"{self.orientation_error[i]:.1e}")
            values = (f"{value:.4f}" for value in row)
            lines.append(_html_row("td", [str(i), *values, *errors, "yes" if self.valid[i] else "no"]))
        rest = f"; {SHOWN_ROWS} of {len(self)} are shown" if len(self) > SHOWN_ROWS else ""
        return f"<table>{''.join(lines)}</table><p>{html.escape(self.message + rest)}</p>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without robot and model; log densities that were not read become NaN."""
        return {**self.__dict__, "densities": None, "robot": None}


def _html_row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
