"""Answers to many poses in arrays of all of them together; one of them is made into `Samples` when it is looked at."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.samples import GivenDensity, Samples

__all__ = ["BatchSamples"]

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
