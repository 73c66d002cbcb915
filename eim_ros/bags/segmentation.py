"""Segmentation of a recording into continuous pieces of motion.

A recording is cut at labels, at gaps, where time runs backwards, and where a joint jumps.

The times of messages differ from the times of the motion. A delayed publisher may send several messages at once, 0.1 ms
apart. A jump is therefore a change of a joint that is both large and too fast for the mean time between messages. If
several messages arrive at once after a pause, the first one was due earlier, by the mean time for each of the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.bags.content import BagContent, Series

SECOND = 1e9  # [ns]
STAYS = 0.5  # minimum remaining change after a jump, as a share of the sudden change
AT_ONCE = 0.5  # share of the mean time between messages; a shorter step means that messages were sent together


@dataclass(frozen=True)
class Cuts:
    """Criteria for cutting a recording into continuous pieces."""

    max_gap: float = 0.2  # longest time between two consecutive joint states of a piece [s]
    # Fastest change of a joint between two joint states [rad/s] or [m/s]. The speed refers to the time between them, or
    # to the mean time between messages if that is longer.
    max_speed: float = 20.0
    min_jump: float = 0.1  # smallest change that counts as a jump [rad] or [m]
    use_arrival: bool = False  # whether to use the times of arrival instead of the times in the headers


@dataclass(frozen=True, eq=False)
class Piece:
    """Continuous motion: strictly ascending times (n,) [s] and positions (n, n_joints) [rad] or [m]."""

    times: np.ndarray
    positions: np.ndarray

    @property
    def duration(self) -> float:
        """Time from the first to the last row [s]."""
        return float(self.times[-1] - self.times[0])


@dataclass(frozen=True, eq=False)
class Segment:
    """Part of a recording with one label."""

    label: str
    # range of times of arrival, without the end [ns]
    begin: int
    end: int
    n_messages: int  # number of joint states
    pieces: tuple[Piece, ...]
    cuts: tuple[str, ...]  # reasons for the cuts between pieces
    dropped: Counter[str]  # number of skipped joint states for each reason


def segments_of(
    content: BagContent, cuts: Cuts, continuous: npt.NDArray[np.bool_] | None = None
) -> tuple[list[Segment], Counter[str]]:
    """Split a recording into segments by its labels. Without labels it is one segment.

    `continuous` (n_joints,) marks joints for which a change by a revolution is not a jump.

    Returns
    -------
    segments : list of Segment
    dropped : Counter
        Number of joint states that belong to no segment, for each reason.

    Examples
    --------
    A pause of more than 0.2 s divides a recording into two pieces:

    >>> from pathlib import Path
    >>> import numpy as np
    >>> from eim_ros.bags.content import read_table
    >>> from eim_ros.bags.segmentation import Cuts, segments_of
    >>> np.savez("table.npz", time=[0.0, 0.1, 1.0, 1.1], positions=np.zeros((4, 1)), joint_names=["elbow"])
    >>> segments, dropped = segments_of(read_table(Path("table.npz"), None), Cuts(max_gap=0.2))
    >>> [piece.times.tolist() for piece in segments[0].pieces]
    [[0.0, 0.1], [1.0, 1.1]]
    """
    joints = content.joints
    last = int(joints.arrival[-1]) + 1
    labels = sorted(content.labels) or [(int(joints.arrival[0]), "")]
    ends = [begin for begin, _ in labels[1:]] + [max(last, labels[-1][0])]
    dropped: Counter[str] = Counter()
    if n_before := int(np.sum(joints.arrival < labels[0][0])):
        dropped["joint states before the first label"] = n_before
    segments = []
    for (begin, label), end in zip(labels, ends, strict=True):
        inside = joints.part((joints.arrival >= begin) & (joints.arrival < end))
        pieces, reasons, left_out = _pieces(inside, cuts, continuous)
        segments.append(Segment(label, begin, end, len(inside), pieces, reasons, left_out))
    return segments, dropped


def _pieces(
    series: Series, cuts: Cuts, continuous: npt.NDArray[np.bool_] | None
) -> tuple[tuple[Piece, ...], tuple[str, ...], Counter[str]]:
    if not len(series):
        return (), (), Counter()
    clock = series.arrival if cuts.use_arrival else series.stamp
    origin = int(clock[0])
    times = (clock - origin) / SECOND
    kept, starts, reasons, n_late = _in_order(times, cuts.max_gap)
    times, positions = times[kept], series.values[kept]
    steps = np.diff(times)
    unbroken = np.ones(len(steps), dtype=bool)
    unbroken[[start - 1 for start in starts]] = False
    is_gap = unbroken & (steps > cuts.max_gap)
    changes = _changes(positions, continuous)
    fast = _too_fast(clock, series.values, kept, unbroken & ~is_gap, cuts, continuous)
    jumps = unbroken & ~is_gap & (changes > cuts.min_jump) & fast
    for i in np.flatnonzero(is_gap | jumps):
        starts.append(int(i) + 1)
        if is_gap[i]:
            reasons.append(f"gap of {steps[i]:.3f} s at {times[i]:.3f} s")
        else:
            reasons.append(f"a joint jumps at {times[i]:.3f} s, by {changes[i]:.3g} within {steps[i]:.4f} s")
    edges = [0, *sorted(starts), len(times)]
    pieces = tuple(Piece(times[a:b], positions[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True))
    dropped = Counter({"joint states not later than the one before": n_late} if n_late else {})
    return pieces, tuple(reasons), dropped


def _changes(positions: np.ndarray, continuous: npt.NDArray[np.bool_] | None) -> np.ndarray:
    """Return the largest change of a joint from each row to the next (n - 1,) [rad] or [m].

    Changes of continuous joints are at most half a turn.
    """
    changes = np.diff(positions, axis=0)
    if continuous is not None:
        changes = np.where(continuous, (changes + np.pi) % (2.0 * np.pi) - np.pi, changes)
    return np.asarray(np.abs(changes).max(axis=1)) if len(changes) else np.zeros(0)


def _too_fast(
    clock: npt.NDArray[np.int64],
    values: np.ndarray,
    kept: list[int],
    counts: npt.NDArray[np.bool_],
    cuts: Cuts,
    continuous: npt.NDArray[np.bool_] | None,
) -> npt.NDArray[np.bool_]:
    """Return whether a joint is too fast from each kept row to the next (n - 1,), or between skipped rows there.

    Each message counts for at least the mean time between messages without cuts, even if its stamp is late.

    A skipped row may belong to another time. A sudden change to it is therefore a jump only if the joint stays away
    afterwards. Skipped rows are examined both in the order of arrival and in the order of the clock. For a message that
    was overtaken, only the order of the clock shows its true neighbours.
    """
    n_messages = np.diff(kept)
    steps = np.diff(clock[kept]) / SECOND
    if not counts.any():
        return np.zeros(len(steps), dtype=np.bool_)
    mean = steps[counts].sum() / n_messages[counts].sum()
    changes = _changes(values[kept], continuous)
    between = _changes(values[kept[0] : kept[-1] + 1], continuous)
    spent = np.maximum(_due(np.diff(clock[kept[0] : kept[-1] + 1]) / SECOND, mean), mean)
    sudden = np.where(between > cuts.max_speed * spent, between, 0.0)
    largest = np.maximum.reduceat(sudden, np.array(kept[:-1]) - kept[0])
    by_rows = changes > cuts.max_speed * np.maximum(_due(steps, mean), mean * n_messages)
    fast = np.asarray(by_rows | ((largest > 0.0) & (changes > STAYS * largest)))
    left_out = np.setdiff1d(np.arange(len(clock)), kept)
    for i in np.flatnonzero(counts & ~fast & (changes > cuts.min_jump)):
        begin, end = kept[i], kept[i + 1]
        since = clock[left_out] - clock[begin]
        late = left_out[(since < clock[end] - clock[begin]) & ((since > 0) | ((since == 0) & (left_out < end)))]
        rows = [begin, *late[np.argsort(clock[late], kind="stable")], end]
        elsewhere = int(np.sum((left_out > begin) & (left_out < end))) - int(np.sum((late > begin) & (late < end)))
        each = _changes(values[rows], continuous)
        sudden = each > cuts.max_speed * np.maximum(np.diff(clock[rows]) / SECOND, mean * (1 + elsewhere))
        fast[i] = bool(np.any(sudden & (each > cuts.min_jump) & (changes[i] > STAYS * each)))
    return fast


def _due(steps: np.ndarray, mean: float) -> np.ndarray:
    """Return the time from each message to when the next one was due (n - 1,) [s].

    A message that arrives together with later ones was due earlier than it arrived.
    """
    rows = np.arange(len(steps))
    punctual = np.where(steps < AT_ONCE * mean, len(steps), rows)
    n_waiting = np.minimum.accumulate(punctual[::-1])[::-1] - rows  # later messages that were sent together
    return np.asarray(steps - mean * np.append(n_waiting[1:], 0))


def _in_order(times: np.ndarray, max_gap: float) -> tuple[list[int], list[int], list[str], int]:
    """Select the rows whose times ascend.

    If the time steps back by more than `max_gap`, the clock was set back, and the times ascend again from there.

    Returns
    -------
    kept : list of int
        Selected rows.
    starts : list of int
        Indices into `kept` at which the clock was set back.
    reasons : list of str
        Description of each such step.
    n_late : int
        Number of skipped rows.
    """
    kept: list[int] = []
    starts: list[int] = []
    reasons: list[str] = []
    newest = -np.inf
    for row, moment in enumerate(times.tolist()):
        if moment <= newest:
            if newest - moment <= max_gap:
                continue
            starts.append(len(kept))
            reasons.append(f"time goes backwards by {newest - moment:.3f} s after {newest:.3f} s")
        kept.append(row)
        newest = moment
    return kept, starts, reasons, len(times) - len(kept)
