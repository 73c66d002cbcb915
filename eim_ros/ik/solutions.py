"""Answers of inverse kinematics: configurations for one or several poses, their errors and other properties.

An answer without a solution is empty and false, so a loop over it does nothing.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.errors import ConfigurationError, Hinting
from eim_ros.core.files import finite
from eim_ros.ik.candidates import ErrorCode, Outcome
from eim_ros.ik.completeness import CompletenessReport
from eim_ros.ik.prior import ConditionalDensity, Densities
from eim_ros.kinematics import Robot
from eim_ros.solver import NO_EXPERT, farthest_rows

SHOWN_ROWS = 6
_SUCCESS = int(ErrorCode.SUCCESS)


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
"""All columns. Conversion to tables, JSON and messages goes through this list."""

_MESSAGE_COLUMNS = tuple((column.name, column.ros_name, np.dtype(column.dtype)) for column in SCHEMA if column.ros_name)


def _joined(parts: Sequence[Solutions]) -> Sequence[ConditionalDensity | None] | None:
    """Return the densities of all poses of answers. If all belong to one model, they are still evaluated on demand."""
    if all(part.densities is None for part in parts):
        return None
    unmade = [part.densities for part in parts if isinstance(part.densities, Densities)]
    if len(unmade) == len(parts) and all(each.prior is unmade[0].prior for each in unmade):
        return Densities(unmade[0].prior, np.concatenate([each.poses for each in unmade]))
    each = ([None] * part.n_poses if part.densities is None else part.densities for part in parts)
    return list(itertools.chain.from_iterable(each))


class Solutions(Hinting):
    """Configurations for one or several poses.

    `len`, iteration and indices refer to rows. An integer index returns a configuration (dof,). A slice, a mask or an
    array of indices returns `Solutions`. `bool` is true if any row is valid. The methods `pose` and `by_pose` select
    poses. Answers are immutable.

    Attributes
    ----------
    joint_names : tuple of str
        Columns of `q`.
    q : (n, dof)
        Configurations of all poses in sequence [rad] or [m].
    robot : Robot, optional
        The arm, which `branches` needs; None after pickling, and in answers of a service.

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

    __slots__ = (
        *("_counts", "_densities", "_errors", "_expert", "_joint_names", "_log_prob", "_outcomes", "_q", "_robot"),
        *("_tensor", "_times", "_valid"),
    )
    _ELSEWHERE: ClassVar = {
        **dict.fromkeys(("success", "found", "is_valid"), "bool(solutions), or `valid` for each row"),
        **dict.fromkeys(("configurations", "joint_positions", "joints", "positions", "solutions", "values"), "q"),
        **dict.fromkeys(("to_dataframe", "to_pandas"), "pandas.DataFrame(solutions.to_dict())"),
        **dict.fromkeys(("certified", "is_complete"), "completeness.certified"),
        **dict.fromkeys(("plot", "show", "draw"), "eim_ros.view.draw_solutions"),
        "to_csv": 'numpy.savetxt(path, solutions.q, delimiter=",")',
        "to_numpy": "q",
    }

    def __init__(
        self,
        joint_names: tuple[str, ...],
        q: FloatArray,
        errors: FloatArray,
        outcomes: tuple[Outcome, ...],
        times: FloatArray | float,
        *,
        counts: IntArray | None = None,
        valid: BoolArray | None = None,
        expert: npt.NDArray[np.uint32] | None = None,
        log_prob: FloatArray | None = None,
        densities: Sequence[ConditionalDensity | None] | None = None,
        robot: Robot | None = None,
    ) -> None:
        """Create an answer from rows (n, dof) and outcomes of poses.

        `errors` has the shape (2, n) and `times` (n_poses,). `counts` is the number of rows of each pose. By default,
        all rows belong to one pose, are valid, and come from no expert. The attributes describe the other arguments.
        """
        self._joint_names, self._q, self._errors, self._outcomes, self._times = joint_names, q, errors, outcomes, times
        self._counts, self._valid, self._expert, self._log_prob = counts, valid, expert, log_prob
        self._densities, self._robot = densities, robot
        self._tensor: Any = None  # `q` as a torch tensor with gradient, if the poses were a tensor

    def _replace(self, **changes: Any) -> Solutions:
        """Return a copy of the answer with changed slots, which are named without underscore."""
        other = object.__new__(Solutions)
        for name in self.__slots__:
            setattr(other, name, changes[name[1:]] if name[1:] in changes else getattr(self, name))
        return other

    @classmethod
    def empty(
        cls,
        joint_names: tuple[str, ...],
        n_poses: int,
        message: str,
        elapsed: float = 0.0,
        code: int = ErrorCode.TIMED_OUT,
    ) -> Solutions:
        """Return an answer without solutions, by default because no time was left."""
        return cls(
            joint_names,
            np.empty((0, len(joint_names))),
            np.empty((2, 0)),
            (Outcome(int(code), (message, None)),) * n_poses,
            np.full(n_poses, elapsed),
            counts=np.zeros(n_poses, np.int64),
        )

    @classmethod
    def concatenate(cls, parts: Iterable[Solutions]) -> Solutions:
        """Return all answers in sequence. At least one answer is needed."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            raise ConfigurationError("there are no answers to concatenate: give at least one answer", parts)

        def joined(name: str, axis: int = 0) -> npt.NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts], axis=axis)

        has_log_prob = any(part._log_prob is not None for part in parts)
        answer = cls(
            parts[0].joint_names,
            joined("_q"),
            joined("_errors", 1),
            tuple(itertools.chain.from_iterable(part._outcomes for part in parts)),
            joined("times"),
            counts=joined("n_per_pose"),
            valid=None if all(part._valid is None for part in parts) else joined("valid"),
            expert=None if all(part._expert is None for part in parts) else joined("expert"),
            log_prob=joined("_log_prob_so_far") if has_log_prob else None,
            densities=_joined(parts),
            robot=next((part.robot for part in parts if part.robot is not None), None),
        )
        if all(part._tensor is not None for part in parts):
            import torch  # already imported by the caller, because some answers are tensors

            answer._tensor = torch.cat([part._tensor for part in parts])
        return answer

    # Columns, see SCHEMA

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Columns of `q`."""
        return self._joint_names

    @property
    def q(self) -> FloatArray:
        """Configurations (n, dof) of all poses in sequence [rad] or [m].

        If the poses of a batch were a torch tensor, `q` is a tensor with gradient, see `Sampler.solve_batch`.
        """
        return self._q if self._tensor is None else self._tensor

    @property
    def robot(self) -> Robot | None:
        """The arm, which `branches` needs; None after pickling, and in answers of a service."""
        return self._robot

    @property
    def position_error(self) -> FloatArray:
        """Distance (n,) of the tip from its target by forward kinematics [m]. Tolerances per axis are subtracted."""
        return np.asarray(self._errors[0])

    @property
    def orientation_error(self) -> FloatArray:
        """Angle (n,) to the target orientation [rad]; 0 for a position. Tolerances per axis are subtracted."""
        return np.asarray(self._errors[1])

    @property
    def valid(self) -> BoolArray:
        """Whether each row (n,) is within tolerances and limits, and nothing collides.

        All rows are valid, except in answers of `Sampler.propose`.
        """
        if self._valid is None:
            self._valid = np.ones(len(self._q), np.bool_)
        return self._valid

    @property
    def expert(self) -> npt.NDArray[np.uint32]:
        """Component (n,) of the model that proposed each row.

        Rows that continuation found have the expert of the nearest row that was solved from a seed. The value is
        `NO_EXPERT` for uniform seeds, traced curves and closed forms.
        """
        if self._expert is None:
            self._expert = np.full(len(self._q), NO_EXPERT, np.uint32)
        return self._expert

    @property
    def n_per_pose(self) -> IntArray:
        """Number of rows (n_poses,) of each pose."""
        if self._counts is None:
            self._counts = np.array([len(self._q)])
        return self._counts

    @property
    def error_codes(self) -> IntArray:
        """Values of `ErrorCode` (n_poses,)."""
        return np.array([each.code for each in self._outcomes], np.int64)

    @property
    def messages(self) -> tuple[str, ...]:
        """Outcome of each pose, in words."""
        return tuple([each.message for each in self._outcomes])

    @property
    def times(self) -> FloatArray:
        """Time (n_poses,) spent on each pose [s]."""
        if isinstance(self._times, float):
            self._times = np.array([self._times])
        return self._times

    @property
    def n_totals(self) -> FloatArray:
        """Number of solutions (n_poses,) that exist, including 2π-equivalent solutions; NaN if it is unknown."""
        return np.array([each.n_total for each in self._outcomes], np.float64)

    @property
    def reports(self) -> tuple[CompletenessReport | None, ...]:
        """Self-motion components of each pose, if curves or a closed form determined them.

        Collisions and branches are ignored, except for isolated solutions.
        """
        return tuple([each.report for each in self._outcomes])

    @property
    def effective_sample_sizes(self) -> FloatArray:
        """Number (n_poses,) of independent draws with the same variance (Kong 1992); NaN except for `Sampler.draw`."""
        return np.array([each.effective_sample_size for each in self._outcomes], np.float64)

    @property
    def best_attempts(self) -> FloatArray:
        """Configurations (n_poses, dof) that came closest to poses without a solution [rad] or [m]; otherwise NaN.

        Best attempts miss the pose, collide, or violate a condition on a link.
        """
        rows = np.full((len(self._outcomes), len(self._joint_names)), np.nan)
        for row, outcome in zip(rows, self._outcomes, strict=True):
            if outcome.attempt is not None:
                row[:] = outcome.attempt[0]
        return rows

    @property
    def best_attempt_errors(self) -> FloatArray:
        """Errors (n_poses, 2) of the best attempts [m], [rad]; NaN without a best attempt."""
        nothing = math.nan, math.nan
        errors = [nothing if each.attempt is None else each.attempt[1:] for each in self._outcomes]
        return np.array(errors, np.float64).reshape(-1, 2)

    @property
    def densities(self) -> Sequence[ConditionalDensity | None] | None:
        """Density of the model given each pose; None without a model, or after `log_prob` was read."""
        return self._densities

    # Rows

    def __len__(self) -> int:
        return len(self._q)

    def __bool__(self) -> bool:
        """Return whether there is at least one solution."""
        return len(self._q) > 0 and (self._valid is None or bool(self._valid.any()))

    def __iter__(self) -> Iterator[FloatArray]:
        """Iterate over the configurations (dof,)."""
        return iter(self.q)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self._q, dtype=dtype) if copy is not False else np.asarray(self._q, dtype=dtype)

    def __getitem__(self, index: Any) -> Any:
        """Return a configuration (dof,) for an integer, and `Solutions` for a slice, mask or array of indices."""
        if isinstance(index, (int, np.integer)):
            return self.q[index]
        rows = np.arange(len(self)) if isinstance(index, str) else np.arange(len(self))[index]
        if rows.ndim != 1 or isinstance(index, str):
            raise ConfigurationError(
                f"rows must be selected by an integer, a slice, a mask or indices, got {index!r}", index
            )
        counts = np.full(1, len(rows), np.int64)
        if self.n_poses != 1:
            owners = np.repeat(np.arange(self.n_poses), self.n_per_pose)[rows]
            rows = rows[np.argsort(owners, kind="stable")]
            counts = np.bincount(owners, minlength=self.n_poses)
        return self._replace(**self._taken(rows), counts=counts)

    def _taken(self, rows: IntArray) -> dict[str, Any]:
        """Return the slots that have an entry for each row, for some of the rows."""
        columns = {"valid": self._valid, "expert": self._expert, "log_prob": self._log_prob}
        taken = {name: None if column is None else column[rows] for name, column in columns.items()}
        taken["tensor"] = None if self._tensor is None else self._tensor[rows]
        return {"q": self._q[rows], "errors": self._errors[:, rows], **taken}

    def spread(self, n: int) -> Solutions:
        """Return n rows that are far apart. Each one is the row farthest from all previous ones (Gonzalez 1985)."""
        if n >= len(self):
            return self
        bounds = np.stack([self._q.min(axis=0), self._q.max(axis=0), np.zeros(len(self.joint_names))])
        return self[np.sort(farthest_rows(bounds, self._q, n, np.inf))]  # type: ignore[no-any-return]

    @property
    def log_prob(self) -> FloatArray:
        """Log density (n,) of each row [nat]; NaN without a model.

        For `Sampler.draw`, this is the log density on the set of solutions. Otherwise it is the log density of the
        model given the pose. It is computed on first use unless the order of the answer needs it.
        """
        known = self._log_prob_so_far
        if self._densities is not None and (unknown := np.isnan(known)).any():
            known = known.copy()
            for i, rows in enumerate(self._slices()):
                density = self._densities[i]
                if density is not None and unknown[rows].any():
                    known[rows] = density.log_prob(self._q[rows])
            self._log_prob, self._densities = known, None
        return known

    @property
    def branches(self) -> dict[str, npt.NDArray[np.str_]]:
        """Labels (n,) of the rows by name, such as "left" or "right" for "shoulder"; see `Constraints.branch`.

        A row on a boundary between branches has an empty label. Names that are not defined for the arm are missing. The
        labels are computed at each access.
        """
        if self.robot is None:
            raise ConfigurationError(
                "an answer of a service or from a file does not contain its robot: call robot.branches.labels(answer.q)"
            )
        return self.robot.branches.labels(self._q)

    @property
    def _log_prob_so_far(self) -> FloatArray:
        return np.full(len(self), np.nan) if self._log_prob is None else self._log_prob

    @property
    def seconds_of_log_prob(self) -> float:
        """Upper estimate of the time to compute `log_prob` [s]; 0 if it is known, or without a model."""
        if self._densities is None or self._log_prob is not None:
            return 0.0
        counts = zip(self._densities, self.n_per_pose.tolist(), strict=True)
        return sum(density.seconds(n) for density, n in counts if density is not None)

    # Poses

    @property
    def n_poses(self) -> int:
        """Number of poses."""
        return len(self._outcomes)

    @property
    def n_valid(self) -> IntArray:
        """Number of solutions (n_poses,) of each pose."""
        if self._valid is None:
            return self.n_per_pose.astype(np.int64)
        owners = np.repeat(np.arange(self.n_poses), self.n_per_pose)
        return np.bincount(owners[self._valid], minlength=self.n_poses).astype(np.int64)

    def pose(self, i: int) -> Solutions:
        """Return the answer to one pose, with its own arrays."""
        return self.poses([range(self.n_poses)[i]])

    def by_pose(self) -> Iterator[Solutions]:
        """Iterate over the answers to single poses."""
        return (self.pose(i) for i in range(self.n_poses))

    def poses(self, indices: Sequence[int] | IntArray) -> Solutions:
        """Return the answers to several poses, in this order."""
        index = np.asarray(indices, dtype=np.int64)
        densities = self._densities
        if isinstance(densities, Densities):
            densities = densities[index]
        elif densities is not None:
            densities = [densities[i] for i in index]
        counts = self.n_per_pose[index]
        firsts = (np.cumsum(self.n_per_pose) - self.n_per_pose)[index]
        rows = np.arange(counts.sum()) + np.repeat(firsts - (np.cumsum(counts) - counts), counts)
        return self._replace(
            **self._taken(rows),
            counts=counts,
            outcomes=tuple([self._outcomes[i] for i in index]),
            times=self.times[index],
            densities=densities,
        )

    def _slices(self) -> list[slice]:
        ends = np.cumsum(self.n_per_pose).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.n_per_pose.tolist(), strict=True)]

    @property
    def error_code(self) -> ErrorCode:
        """SUCCESS if all poses have solutions, otherwise the code of the first pose without a solution."""
        return ErrorCode(next((code for code in self.error_codes.tolist() if code != _SUCCESS), _SUCCESS))

    @property
    def message(self) -> str:
        """Outcome in words."""
        if self.n_poses == 1:
            return self._outcomes[0].message
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
        return self._outcomes[self._only].n_total

    @property
    def completeness(self) -> CompletenessReport | None:
        """Self-motion components, if they are known; for a single pose."""
        return self._outcomes[self._only].report

    @property
    def certified(self) -> bool:
        """Whether a closed form proves that nothing is missing; for a single pose.

        If solutions are isolated, the answer then contains all of them. If solutions form curves, all components are
        known, where collisions are ignored.
        """
        report = self.completeness
        if not np.isnan(self.n_total):
            return self.is_complete and (report is None or report.certified)
        return report is not None and report.certified

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing according to the completeness report; for a single pose.

        Unlike `certified`, this property accepts bounds with a confidence and bounds by a measured noise level.
        """
        if not np.isnan(self.n_total):
            return bool(np.count_nonzero(self.valid) == self.n_total)
        return self.completeness is not None and self.completeness.is_complete

    @property
    def effective_sample_size(self) -> float:
        """Effective sample size of draws, otherwise NaN; for a single pose."""
        return self._outcomes[self._only].effective_sample_size

    @property
    def best_attempt(self) -> FloatArray | None:
        """Configuration (dof,) that came closest to the pose, if there is no solution; for a single pose."""
        attempt = self._outcomes[self._only].attempt
        return None if attempt is None else attempt[0]

    @property
    def best_attempt_error(self) -> tuple[float, float] | None:
        """Position error [m] and orientation error [rad] of the best attempt; for a single pose."""
        attempt = self._outcomes[self._only].attempt
        return None if attempt is None or math.isnan(attempt[1]) else attempt[1:]

    @property
    def _only(self) -> int:
        if self.n_poses != 1:
            raise ConfigurationError(
                f"these are the answers to {self.n_poses} poses: select one pose by pose(i)", self.n_poses
            )
        return 0

    # Conversion

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a table for pandas.DataFrame, with one column for each joint and each property of rows."""
        table: dict[str, list[Any]] = dict(zip(self.joint_names, self._q.T.tolist(), strict=True))
        if self.n_poses != 1:
            table["pose"] = np.repeat(np.arange(self.n_poses), self.n_per_pose).tolist()
        for column in SCHEMA:
            if column.per == "row" and column.name != "q":
                table[column.name] = getattr(self, column.name).tolist()
        return table

    def to_message(self, with_log_prob: bool = True) -> dict[str, Any]:
        """Return the fields of `eim_ros/msg/IKSolutions`, with flattened arrays and the dtypes of the message.

        Without `with_log_prob`, unknown log densities are not computed, and their field is empty.
        """
        known = self.reports
        reports = [report for report in known if report is not None]
        skipped = () if with_log_prob or not self.seconds_of_log_prob else ("log_prob",)
        fields: dict[str, Any] = {
            "error_code": {"val": int(self.error_code), "message": self.message},
            "joint_names": list(self.joint_names),
            "n": len(self),
        }
        for name, ros_name, dtype in _MESSAGE_COLUMNS:
            if ros_name not in skipped and name != "best_attempts":  # most answers have no attempts
                values = self._q if name == "q" else getattr(self, name)
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
            fields["n_components"] = np.array([0 if each is None else each.n_components for each in known], "u4")
            fields["missed_share"] = np.array([1.0 if each is None else each.missed_share for each in known])
            fields["complete"] = np.array([each is not None and each.is_complete for each in known], np.bool_)
            fields["certified"] = np.array([each is not None and each.certified for each in known], np.bool_)
            fields["component_lengths"] = np.concatenate([report.lengths for report in reports])
            fields["component_closed"] = np.concatenate([report.closed for report in reports])
            fields["component_traced"] = np.concatenate([report.traced for report in reports])
            fields["confidence"] = max(report.confidence for report in reports)
        return fields

    @classmethod
    def from_message(cls, message: Any) -> Solutions:
        """Return the answer in an `eim_ros/msg/IKSolutions`. Missing log densities become NaN."""
        names, n, n_poses = tuple(message.joint_names), int(message.n), len(message.n_per_pose)
        columns: dict[str, Any] = {
            column.name: np.array(getattr(message, column.ros_name), column.dtype)
            for column in SCHEMA
            if column.ros_name
        }
        counts = columns["n_per_pose"].astype(np.int64)
        valid = columns["valid"] if len(columns["valid"]) else None
        n_valid = counts if valid is None else np.add.reduceat(np.append(valid, False), np.cumsum(counts) - counts)
        attempts = iter(columns["best_attempts"].reshape(-1, len(names)) if names else ())
        outcomes: list[Outcome] = []
        first = 0
        for i, n_components in enumerate(message.n_components):
            rows, first = slice(first, first + n_components), first + n_components
            bound = (message.missed_share[i], message.confidence, bool(message.complete[i]), bool(message.certified[i]))
            curves = (np.array(message.component_lengths[rows]), np.array(message.component_closed[rows], np.bool_))
            report = CompletenessReport(*curves, np.array(message.component_traced[rows], np.bool_), *bound)
            says_something = message.confidence and (report.is_complete or n_components or report.missed_share < 1.0)
            code = int(columns["error_codes"][i])
            told = message.error_code.message if n_poses == 1 else ErrorCode(code).name, report
            attempt = next(attempts) if counts[i] == 0 or not n_valid[i] else None
            outcomes.append(
                Outcome(
                    code,
                    told if says_something else (told[0], None),
                    float(columns["n_totals"][i]),
                    float(columns["effective_sample_sizes"][i]),
                    None if attempt is None or np.isnan(attempt).any() else (attempt, math.nan, math.nan),
                )
            )
        return cls(
            names,
            columns["q"].reshape(n, len(names)),
            np.stack([columns["position_error"], columns["orientation_error"]]),
            tuple(outcomes),
            np.full(n_poses, message.elapsed / max(n_poses, 1)),
            counts=counts,
            valid=valid,
            expert=columns["expert"],
            log_prob=columns["log_prob"] if len(columns["log_prob"]) else None,
        )

    def to_json(self) -> str:
        """Return the answer as JSON with the names of `to_message`.

        Values that are not finite become null. The expert of a row is null if the row comes from no expert.
        """
        fields = self.to_message()
        fields["positions"], fields["valid"] = self._q, self.valid
        fields["expert"] = [None if each == NO_EXPERT else each for each in self.expert.tolist()]
        return json.dumps(finite(fields))

    def __repr__(self) -> str:
        """Return the outcome, the joint names and the first rows in at most ten lines."""
        poses = "" if self.n_poses == 1 else f" of {self.n_poses} poses"
        lines = [f"Solutions: {len(self)} rows{poses}; {self.message}"]
        if len(self):
            lines.append("joints: " + ", ".join(self.joint_names))
            for i, row in enumerate(self._q[:SHOWN_ROWS]):
                lines.append(f"{i:4d}  " + " ".join(f"{value:8.4f}" for value in row.tolist()))
            if len(self) > SHOWN_ROWS:
                lines.append(f"  ... {len(self) - SHOWN_ROWS} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        heads = ["", *self.joint_names, "position error [m]", "orientation error [rad]", "valid"]
        lines = [_html_row("th", heads)]
        for i, row in enumerate(self._q[:SHOWN_ROWS]):
            errors = (f"{self.position_error[i]:.1e}", f"{self.orientation_error[i]:.1e}")
            values = (f"{value:.4f}" for value in row)
            lines.append(_html_row("td", [str(i), *values, *errors, "yes" if self.valid[i] else "no"]))
        rest = f"; {SHOWN_ROWS} of {len(self)} are shown" if len(self) > SHOWN_ROWS else ""
        return f"<table>{''.join(lines)}</table><p>{html.escape(self.message + rest)}</p>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns without robot, model and gradient. Log densities that were not read become NaN."""
        state = {name[1:]: getattr(self, name) for name in self.__slots__}
        return _restored, (state | {"densities": None, "robot": None, "tensor": None},)


def _restored(state: dict[str, Any]) -> Solutions:
    """Return an answer with these slots, which are named without underscore."""
    return object.__new__(Solutions)._replace(**state)


def _html_row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
