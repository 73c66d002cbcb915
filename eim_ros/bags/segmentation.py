"""From the content of a bag to continuous pieces of motion: cut by label, where time or position jump, and at gaps.

Times of messages are not those of the motion: a publisher that was late sends several at once, .1 ms apart. So a jump
is a change of a joint that is both large and too fast for the time that messages take on average; and where several
come at once after a pause, the first of them was due earlier by the time that the others take on average.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.bags.content import BagContent, Series

SECOND = 1e9  # [ns]
STAYS = 0.5  # share of a sudden change by which the joint is away after it
AT_ONCE = 0.5  # of the mean time between messages: one that comes sooner than that waited with the one before it


@dataclass(frozen=True)
class Cuts:
    """Where a recording is not continuous.

    Attributes
    ----------
    max_gap : float
        Longest time between two joint states of one piece [s].
    max_speed : float
        Fastest change of a joint between two of them [rad/s] or [m/s], by the time between them or, where that is
        longer, by the mean time between messages.
    min_jump : float
        Smaller changes are no jumps [rad] or [m].
    use_arrival : bool
        Go by the times of arrival instead of those in the headers.
    """

    max_gap: float = 0.2
    max_speed: float = 20.0
    min_jump: float = 0.1
    use_arrival: bool = False


@dataclass(frozen=True, eq=False)
class Piece:
    """Continuous motion: times (n,) [s], strictly ascending, and positions (n, n_joints)."""

    times: np.ndarray
    positions: np.ndarray

    @property
    def duration(self) -> float:
        """From first to last [s]."""
        return float(self.times[-1] - self.times[0])


@dataclass(frozen=True, eq=False)
class Segment:
    """What was recorded under one label.

    Attributes
    ----------
    label : str
    begin, end : int
        Times of arrival, the latter excluded [ns].
    n_messages : int
        Joint states in it.
    pieces : tuple of Piece
    cuts : tuple of str
        Why it was cut into pieces.
    dropped : Counter
        Joint states left out, by reason.
    """

    label: str
    begin: int
    end: int
    n_messages: int
    pieces: tuple[Piece, ...]
    cuts: tuple[str, ...]
    dropped: Counter[str]


def segments_of(
    content: BagContent, cuts: Cuts, continuous: npt.NDArray[np.bool_] | None = None
) -> tuple[list[Segment], Counter[str]]:
    """The segments of a bag, one without labels being one segment, and what belongs to none.

    `continuous` (n_joints,) marks joints whose full turns are no jumps.
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
    """Largest change of a joint from each row to the next (n - 1,); half a turn at most where it is continuous."""
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
    """Whether a joint is too fast from each kept row to the next (n - 1,), or between messages left out there.

    A message takes at least the mean time between two where nothing is cut, however late it is stamped. What was left
    out counts only where the joint stays as far away: it may be of another time. It counts in the order of arrival and
    in that of the clock: of a message that was overtaken the latter tells which of its neighbours it jumps from.
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
    """Times (n - 1,) [s] from each message to when the next was due: sooner than it came where others came with it."""
    rows = np.arange(len(steps))
    punctual = np.where(steps < AT_ONCE * mean, len(steps), rows)
    n_waiting = np.minimum.accumulate(punctual[::-1])[::-1] - rows  # messages that come at once with each row's
    return np.asarray(steps - mean * np.append(n_waiting[1:], 0))


def _in_order(times: np.ndarray, max_gap: float) -> tuple[list[int], list[int], list[str], int]:
    """Rows whose time is later than all before, rows among them at which the clock was set back, why, rows left out."""
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
