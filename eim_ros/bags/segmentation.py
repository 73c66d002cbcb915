"""Segmentation of a recording into continuous pieces of motion.

A recording is cut at labels, at gaps, at steps back in time, and at jumps of a joint.

The times of messages may differ from the times of the motion: a delayed publisher may send several messages at once,
0.1 ms apart. Therefore, a jump is a change of a joint that is large, and too fast for the mean time between messages.
If several messages arrive at once after a pause, each message was due one mean time before the next one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.bags.content import BagContent
from eim_ros.bags.series import SECOND, Cuts, Series, in_order

STAYS = 0.5  # minimum change that remains after a jump, as a fraction of the sudden change
MANY = 0.2  # if a larger fraction of joint states is out of order, the stamps are wrong
OUT_OF_ORDER = "joint states that are not in the order of their times"
STRAY = "joint states at the start or the end of a segment that are far from the others"
TRY_ARRIVAL = " (the stamps of the headers contradict the times of arrival: try --time arrival)"
AT_ONCE = 0.5  # messages within this fraction of the mean interval were sent together


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
    # range of times of arrival [ns], without the end
    begin: int
    end: int
    n_messages: int  # number of joint states
    pieces: tuple[Piece, ...]
    cuts: tuple[str, ...]  # reasons for the cuts between pieces
    dropped: Counter[str]  # number of skipped joint states for each reason
    hint: str = ""  # advice for the user if time stamps look wrong; otherwise empty

    @property
    def problem(self) -> str:
        """Up to three reasons for cuts, and the hint; empty if there are no cuts."""
        more = f" and {len(self.cuts) - 3} more" if len(self.cuts) > 3 else ""
        return f"{'; '.join(self.cuts[:3])}{more}{self.hint}" if self.cuts else ""


def segments_of(
    content: BagContent, cuts: Cuts, continuous: npt.NDArray[np.bool_] | None = None
) -> tuple[list[Segment], Counter[str]]:
    """Split a recording into segments by its labels. A recording without labels is one segment.

    `continuous` (n_joints,) marks joints for which a change by a revolution is not a jump.

    Returns
    -------
    segments : list of Segment
    dropped : Counter
        Number of joint states that do not belong to a segment, for each reason.

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
        segments.append(_segment(label, begin, end, inside, cuts, continuous, ~cuts.is_held(content.joint_names)))
    return segments, dropped


def _segment(
    label: str,
    begin: int,
    end: int,
    series: Series,
    cuts: Cuts,
    continuous: npt.NDArray[np.bool_] | None,
    is_smooth: npt.NDArray[np.bool_],
) -> Segment:
    if not len(series):
        return Segment(label, begin, end, 0, (), (), Counter())
    clock = series.stamp
    times = (clock - int(clock[0])) / SECOND
    kept, starts, reasons = in_order(times, cuts.max_gap)
    n_late = len(times) - len(kept)
    times, positions, arrival = times[kept], series.values[kept], series.arrival[kept] / SECOND
    steps = np.diff(times)
    unbroken = np.ones(len(steps), dtype=bool)
    unbroken[[start - 1 for start in starts]] = False
    is_gap = unbroken & (steps > cuts.max_gap)
    continuous = None if continuous is None else continuous[is_smooth]
    changes = _changes(positions[:, is_smooth], continuous)
    fast = _too_fast(clock, series.values[:, is_smooth], kept, unbroken & ~is_gap, cuts, continuous)
    jumps = unbroken & ~is_gap & (changes > cuts.min_jump) & fast
    first, last = _stray(jumps, unbroken & ~is_gap), _stray(jumps[::-1], (unbroken & ~is_gap)[::-1])
    rows, inner = slice(first, len(times) - last), slice(first, len(steps) - last)
    times, positions, arrival = times[rows], positions[rows], arrival[rows]
    steps, changes, is_gap, jumps = steps[inner], changes[inner], is_gap[inner], jumps[inner]
    starts = [start - first for start in starts]
    back_or_gap = [*(start - 1 for start in starts), *np.flatnonzero(is_gap).tolist()]
    for i in np.flatnonzero(is_gap | jumps):
        starts.append(int(i) + 1)
        if is_gap[i]:
            reasons.append(f"there is a gap of {steps[i]:.3f} s after {times[i]:.3f} s")
        else:
            reasons.append(f"a joint jumps by {changes[i]:.3g} within {steps[i]:.4f} s after {times[i]:.3f} s")
    edges = [0, *sorted(starts), len(times)]
    pieces = tuple(Piece(times[a:b], positions[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True))
    dropped = +Counter({OUT_OF_ORDER: n_late, STRAY: first + last})
    is_stamped = not np.array_equal(series.stamp, series.arrival)
    is_punctual = bool((np.diff(arrival)[back_or_gap] <= cuts.max_gap).any())
    is_wrong = is_stamped and (is_punctual or n_late > MANY * len(series))
    return Segment(label, begin, end, len(series), pieces, tuple(reasons), dropped, TRY_ARRIVAL if is_wrong else "")


def _stray(jumps: npt.NDArray[np.bool_], linked: npt.NDArray[np.bool_]) -> int:
    """Return 1 if a joint jumps after the first row but not after the second one, otherwise 0."""
    return int(len(jumps) > 2 and bool(jumps[0] and linked[1] and not jumps[1]))


def _changes(positions: np.ndarray, continuous: npt.NDArray[np.bool_] | None) -> np.ndarray:
    """Return the largest change of a joint from each row to the next (n - 1,) [rad] or [m].

    Changes of continuous joints are at most half a revolution.
    """
    changes = np.diff(positions, axis=0)
    if continuous is not None:
        changes = np.where(continuous, (changes + np.pi) % (2.0 * np.pi) - np.pi, changes)
    return np.asarray(np.abs(changes).max(axis=1, initial=0.0))


def _too_fast(
    clock: npt.NDArray[np.int64],
    values: np.ndarray,
    kept: list[int],
    counts: npt.NDArray[np.bool_],
    cuts: Cuts,
    continuous: npt.NDArray[np.bool_] | None,
) -> npt.NDArray[np.bool_]:
    """Return whether a joint is too fast between successive kept rows (n - 1,), including skipped rows in between.

    The time between messages counts as at least the mean time between messages without cuts, because a stamp may be
    late.

    A skipped row may belong to another time. Therefore, a sudden change to a skipped row is a jump only if the joint
    does not return afterwards. Skipped rows are examined both in the order of arrival and in the order of the clock.
    Only the clock shows the true neighbours of an overtaken message.
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
    """Return the time (n - 1,) [s] from each message to the time at which the next message was due.

    If messages arrive together, the earlier ones were due before their arrival.
    """
    rows = np.arange(len(steps))
    punctual = np.where(steps < AT_ONCE * mean, len(steps), rows)
    n_waiting = np.minimum.accumulate(punctual[::-1])[::-1] - rows  # number of later messages sent together
    return np.asarray(steps - mean * np.append(n_waiting[1:], 0))
