"""Answer to an inverse kinematics request: configurations with their densities, errors and validity.

An answer without a solution is empty and false, so that a loop over it moves nothing.

An answer as a table of a notebook: a row for each configuration, the first of them.

Answers to many poses in arrays of all of them together; one of them is made into `Samples` when it is looked at.
"""

from __future__ import annotations

import functools
import html
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from eim_ros.core.files import finite
from eim_ros.ik.candidates import ErrorCode
from eim_ros.ik.completeness import FoundFamilies
from eim_ros.ik.prior import Conditioning, GivenDensity
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot

MOST_ROWS = 10


def html_table(samples: Samples) -> str:
    """HTML: joint values [rad] or [m], errors [m], [rad], and what was found, in words."""
    shown = min(len(samples), MOST_ROWS)
    heads = ["", *samples.joint_names, "position error [m]", "orientation error [rad]", "valid"]
    lines = [_row("th", heads)]
    for i in range(shown):
        errors = (f"{samples.position_error[i]:.1e}", f"{samples.orientation_error[i]:.1e}")
        values = (f"{value:.4f}" for value in samples.positions[i])
        lines.append(_row("td", [str(i), *values, *errors, "yes" if samples.valid[i] else "no"]))
    rest = f"; {shown} of {len(samples)} are shown" if shown < len(samples) else ""
    return f"<table>{''.join(lines)}</table><p>{html.escape(samples.message + rest)}</p>"


def _row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


@dataclass(frozen=True, eq=False)
class Samples:
    """Configurations for one pose: solutions only, none if there is none.

    Raw samples of a model (`refine=False`) are the exception: all are returned, and `valid` marks the solutions among
    them. `bool()` of an answer is True if it holds at least one solution, also among raw samples.

    Attributes
    ----------
    joint_names : tuple of str
        Columns of `positions`.
    positions : (n, dof)
        [rad] or [m].
    position_error : (n,)
        Distance of the tip from the pose by forward kinematics [m], beyond the tolerances per axis if there are any.
    orientation_error : (n,)
        Angle to the pose's orientation by forward kinematics [rad], beyond the tolerances per axis if there are any; 0
        where only the position was asked for.
    valid : (n,) of bool
        Whether the errors are within the tolerances, the joints within the limits, and no collision was found. All are
        True, except of raw samples.
    expert : (n,) of uint32
        Expert that proposed each; `NO_EXPERT` for a uniform seed, or one found by continuation.
    error_code : ErrorCode
        SUCCESS; TIMED_OUT when time ended before n valid ones were found; when the search ended with none,
        GOAL_IN_COLLISION if there were some that only collide, else NO_IK_SOLUTION.
    message : str
        In words.
    elapsed : float
        [s].
    density : GivenDensity, optional
        The model given the pose; the server keeps it, so that answers of the service are without.
    known_log_prob : (n,), optional
        Log densities, where the order of the answer needed them, or the server told them.
    n_all : float, optional
        How many configurations satisfy the request, those included that differ by whole turns of joints, where the arm
        has a closed form: nothing was sampled, and none is missing.
    completeness : FoundFamilies, optional
        Where the solutions are points in closed form, or curves that were traced: their families, and how sure it is
        that there are no others. It says nothing of collisions, and does not depend on how many samples were wanted.
    effective_size : float, optional
        Of draws from a distribution: as many independent ones as these are worth (Kong 1992), at most their number,
        which it is where the set was divided as a whole, as curves and points are.
    best_attempt : (dof,), optional
        If no solution was found: the configuration that came closest to the pose [rad] or [m]. It is no solution: it
        misses the pose, collides, or has a link where it must not be. None if there is a solution, or if time was up
        before the first attempt.
    best_attempt_error : (float, float), optional
        Position [m] and orientation error [rad] of the best attempt; None if there is no attempt, or in an answer of
        the service, which only gives them in its message.
    """

    joint_names: tuple[str, ...]
    positions: npt.NDArray[np.float64]
    position_error: npt.NDArray[np.float64]
    orientation_error: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]
    error_code: ErrorCode
    message: str
    elapsed: float
    density: GivenDensity | None = None
    known_log_prob: npt.NDArray[np.float64] | None = None
    n_all: float | None = None
    completeness: FoundFamilies | None = None
    effective_size: float | None = None
    best_attempt: npt.NDArray[np.float64] | None = None
    best_attempt_error: tuple[float, float] | None = None

    @classmethod
    def not_begun(cls, joint_names: tuple[str, ...], message: str, elapsed: float = 0.0) -> Samples:
        """Return the answer to a pose for which no time was left."""
        nothing, no_rows = np.empty(0), np.empty((0, len(joint_names)))
        none, nobody = np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.uint32)
        return cls(joint_names, no_rows, nothing, nothing, none, nobody, ErrorCode.TIMED_OUT, message, elapsed)

    def first(self, n: int) -> Samples:
        """Return an answer with the first `n` rows alone."""
        columns: dict[str, Any] = {
            name: getattr(self, name)[:n]
            for name in ("positions", "position_error", "orientation_error", "valid", "expert")
        }
        known = self.known_log_prob
        return replace(self, **columns, known_log_prob=None if known is None else known[:n])

    @property
    def certified(self) -> bool:
        """Whether a closed form shows that nothing is missing.

        Of points: these are all that satisfy the request. Of curves: these are all families, collisions aside.
        """
        if self.n_all is not None:
            return bool(np.count_nonzero(self.valid) == self.n_all)
        return self.completeness is not None and self.completeness.certified

    @functools.cached_property
    def log_prob(self) -> npt.NDArray[np.float64]:
        """Log density (n,) of each returned configuration under the model, log q(positions | pose) [nat].

        Computed when first asked for, unless the order of the answer needed it; NaN where it is not known.
        """
        if self.known_log_prob is not None:
            return self.known_log_prob
        return np.full(len(self), np.nan) if self.density is None else self.density.log_prob(self.positions)

    @property
    def seconds_of_density(self) -> float:
        """About how long `log_prob` would take at most [s]; 0 where it is known, or there is no model."""
        is_known = self.known_log_prob is not None or self.density is None or "log_prob" in self.__dict__
        return 0.0 if is_known or self.density is None else self.density.seconds(len(self))

    @property
    def q(self) -> npt.NDArray[np.float64]:
        """`positions`, by the short name."""
        return self.positions

    def __len__(self) -> int:
        return len(self.positions)

    def __bool__(self) -> bool:
        """Whether there is at least one solution."""
        return bool(self.valid.any())

    def __getitem__(self, index: Any) -> npt.NDArray[np.float64]:
        """One configuration (dof,), or those of a slice or mask (k, dof), as of `positions`."""
        return np.asarray(self.positions[index])

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        """The configurations (dof,), one after the other; of raw samples also those that are not valid."""
        return iter(self.positions)

    def to_dict(self) -> dict[str, Any]:
        """JSON-compatible, under the names of the service's response: rows as lists, None for what is not finite."""
        columns = ("positions", "log_prob", "position_error", "orientation_error")
        return {
            "error_code": int(self.error_code),
            "message": self.message,
            "joint_names": list(self.joint_names),
            "n": len(self),
            **{name: finite(getattr(self, name)) for name in columns},
            "valid": self.valid.tolist(),
            "expert": self.expert.tolist(),
            "elapsed": finite(self.elapsed),
            **self._families,
            "effective_size": 0.0 if self.effective_size is None else self.effective_size,
            "best_attempt": [] if self.best_attempt is None else finite(self.best_attempt),
        }

    @property
    def _families(self) -> dict[str, Any]:
        """Of the dictionary: what is known of families."""
        found = self.completeness
        return {
            "family_lengths": [] if found is None else finite(found.lengths),
            "family_closed": [] if found is None else found.closed.tolist(),
            "family_traced": [] if found is None else found.traced.tolist(),
            "missed_share": 1.0 if found is None else found.missed_share,
            "confidence": 0.0 if found is None else found.confidence,
            "whole": found is not None and found.is_whole,
        }

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        return html_table(self)


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ROWS = ("positions", "position_error", "orientation_error", "valid", "expert", "known_log_prob")
POSES = (
    *("counts", "error_codes", "messages", "elapsed", "has_log_prob", "n_all", "effective_size", "completeness"),
    *("best_attempts", "best_attempt_errors"),
)


@dataclass(frozen=True, eq=False)
class BatchSamples(Sequence[Samples]):
    """Configurations for several poses: a sequence of `Samples`, each with arrays of its own.

    The answer to a pose without a solution is empty. `bool()` of a batch is True if at least one pose has a solution.

    Attributes
    ----------
    joint_names : tuple of str
    counts : (n_poses,)
        Configurations of each pose; 0 if it has no solution, or if time was up before it was begun.
    positions : (n, dof)
        Of all poses, one after the other [rad] or [m].
    position_error, orientation_error : (n,)
        [m], [rad].
    valid : (n,) of bool
    expert : (n,) of uint32
    error_codes : (n_poses,)
        Values of `ErrorCode`.
    messages : (n_poses,) of str
    elapsed : (n_poses,)
        [s]; where poses were solved side by side, each one's share.
    known_log_prob : (n,)
        [nat]; NaN where it is not known yet.
    has_log_prob : (n_poses,) of bool
        Whether `known_log_prob` holds the log densities of a pose.
    n_all : (n_poses,)
        As `Samples.n_all`; NaN where it is not known.
    effective_size : (n_poses,)
        As `Samples.effective_size`; NaN where nothing was drawn from a distribution.
    completeness : (n_poses,) of FoundFamilies or None
        As `Samples.completeness`.
    best_attempts : (n_poses, dof)
        As `Samples.best_attempt`; NaN if there is none.
    best_attempt_errors : (n_poses, 2)
        As `Samples.best_attempt_error` [m], [rad]; NaN if there is none.
    density : callable, optional
        The model given the i-th pose.
    """

    joint_names: tuple[str, ...]
    counts: IntArray
    positions: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: npt.NDArray[np.bool_]
    expert: npt.NDArray[np.uint32]
    error_codes: IntArray
    messages: npt.NDArray[np.object_]
    elapsed: FloatArray
    known_log_prob: FloatArray
    has_log_prob: npt.NDArray[np.bool_]
    n_all: FloatArray
    effective_size: FloatArray
    completeness: npt.NDArray[np.object_]
    best_attempts: FloatArray
    best_attempt_errors: FloatArray
    density: Callable[[int], GivenDensity | None] | None = None

    @classmethod
    def of(cls, answers: Sequence[Samples]) -> BatchSamples:
        """Of at least one answer."""
        messages = np.empty(len(answers), dtype=np.object_)
        messages[:] = [answer.message for answer in answers]
        completeness = np.empty(len(answers), dtype=np.object_)
        completeness[:] = [answer.completeness for answer in answers]
        densities = [answer.density for answer in answers]
        no_attempt, no_errors = np.full(len(answers[0].joint_names), np.nan), (np.nan, np.nan)
        log_probs = [
            np.full(len(answer), np.nan) if answer.known_log_prob is None else answer.known_log_prob
            for answer in answers
        ]
        return cls(
            joint_names=answers[0].joint_names,
            counts=np.array([len(answer) for answer in answers], dtype=np.int64),
            positions=np.concatenate([answer.positions for answer in answers]),
            position_error=np.concatenate([answer.position_error for answer in answers]),
            orientation_error=np.concatenate([answer.orientation_error for answer in answers]),
            valid=np.concatenate([answer.valid for answer in answers]),
            expert=np.concatenate([answer.expert for answer in answers]),
            error_codes=np.array([int(answer.error_code) for answer in answers], dtype=np.int64),
            messages=messages,
            elapsed=np.array([answer.elapsed for answer in answers]),
            known_log_prob=np.concatenate(log_probs),
            has_log_prob=np.array([answer.known_log_prob is not None for answer in answers], dtype=np.bool_),
            n_all=np.array([np.nan if answer.n_all is None else answer.n_all for answer in answers]),
            effective_size=np.array(
                [np.nan if answer.effective_size is None else answer.effective_size for answer in answers]
            ),
            completeness=completeness,
            best_attempts=np.array(
                [no_attempt if answer.best_attempt is None else answer.best_attempt for answer in answers]
            ),
            best_attempt_errors=np.array([answer.best_attempt_error or no_errors for answer in answers]),
            density=densities.__getitem__,
        )

    @classmethod
    def not_begun(cls, joint_names: tuple[str, ...], n: int, message: str) -> BatchSamples:
        """Answers to n poses for which no time was left."""
        nothing, unknown = np.empty(0), np.full(n, np.nan)
        messages, completeness = np.empty(n, dtype=np.object_), np.empty(n, dtype=np.object_)
        messages[:] = message
        return cls(
            joint_names=joint_names,
            counts=np.zeros(n, dtype=np.int64),
            positions=np.empty((0, len(joint_names))),
            position_error=nothing,
            orientation_error=nothing,
            valid=np.empty(0, dtype=np.bool_),
            expert=np.empty(0, dtype=np.uint32),
            error_codes=np.full(n, int(ErrorCode.TIMED_OUT)),
            messages=messages,
            elapsed=np.zeros(n),
            known_log_prob=nothing,
            has_log_prob=np.zeros(n, dtype=np.bool_),
            n_all=unknown,
            effective_size=unknown,
            completeness=completeness,
            best_attempts=np.full((n, len(joint_names)), np.nan),
            best_attempt_errors=np.full((n, 2), np.nan),
        )

    @classmethod
    def joined(cls, blocks: Sequence[BatchSamples]) -> BatchSamples:
        """Blocks one after the other, at least one."""
        if len(blocks) == 1:
            return blocks[0]
        ends = np.cumsum([len(block) for block in blocks])

        def density(index: int) -> GivenDensity | None:
            number = int(np.searchsorted(ends, index, side="right"))
            of = blocks_density[number]
            return None if of is None else of(index - int(ends[number] - sizes[number]))

        blocks_density, sizes = [block.density for block in blocks], [len(block) for block in blocks]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(block, name) for block in blocks]) for name in (*ROWS, *POSES)
        }
        return replace(blocks[0], **columns, density=density)

    def take(self, indices: IntArray) -> BatchSamples:
        """The answers of these indices, in this order."""
        counts = self.counts[indices]
        starts = np.repeat(self._ends[indices] - counts, counts)
        within = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        columns: dict[str, Any] = {name: getattr(self, name)[starts + within] for name in ROWS}
        columns |= {name: getattr(self, name)[indices] for name in POSES}
        of = self.density
        return replace(self, **columns, density=None if of is None else lambda index: of(int(indices[index])))

    @property
    def n_valid(self) -> IntArray:
        """Valid configurations (n_poses,) of each pose."""
        sums = np.concatenate([[0], np.cumsum(self.valid, dtype=np.int64)])
        return np.asarray(sums[self._ends] - sums[self._ends - self.counts])

    def __len__(self) -> int:
        return len(self.counts)

    def __bool__(self) -> bool:
        """Whether at least one pose has a solution."""
        return bool(self.valid.any())

    @overload
    def __getitem__(self, index: int) -> Samples: ...
    @overload
    def __getitem__(self, index: slice) -> list[Samples]: ...
    def __getitem__(self, index: int | slice) -> Samples | list[Samples]:
        """The answer to a pose; its arrays are copies, so that it keeps nothing of the others."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"answer {index} of {len(self)}")
        i = index % len(self)
        rows = slice(int(self._ends[i] - self.counts[i]), int(self._ends[i]))
        position_error, orientation_error = self.best_attempt_errors[i].tolist()
        has_attempt = not math.isnan(position_error)
        return Samples(
            self.joint_names,
            self.positions[rows].copy(),
            self.position_error[rows].copy(),
            self.orientation_error[rows].copy(),
            self.valid[rows].copy(),
            self.expert[rows].copy(),
            ErrorCode(int(self.error_codes[i])),
            self.messages[i],
            float(self.elapsed[i]),
            None if self.density is None else self.density(i),
            self.known_log_prob[rows].copy() if self.has_log_prob[i] else None,
            None if np.isnan(self.n_all[i]) else float(self.n_all[i]),
            self.completeness[i],
            None if np.isnan(self.effective_size[i]) else float(self.effective_size[i]),
            self.best_attempts[i].copy() if has_attempt else None,
            (position_error, orientation_error) if has_attempt else None,
        )

    @property
    def _ends(self) -> IntArray:
        ends = self.__dict__.get("ends")
        if ends is None:
            ends = self.__dict__["ends"] = np.cumsum(self.counts, dtype=np.int64)
        return ends


class Answerer(Protocol):
    """What answers requests: the part of `Sampler` that batches and paths use."""

    robot: Robot
    conditioning: Conditioning

    @property
    def n_experts(self) -> int:
        """Number of experts; 0 without a model."""
        ...

    @property
    def has_preference(self) -> bool:
        """Whether the model prefers some configurations to others."""
        ...

    def resolved(self, request: SampleRequest) -> SampleRequest:
        """Return a request with the constraints of the sampler, checked for the robot."""
        ...

    def answer(self, request: SampleRequest) -> Samples:
        """Answer a request."""
        ...
