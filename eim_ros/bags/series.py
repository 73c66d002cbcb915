"""Vectors over time from the messages of one publisher, correction of their times, and removal of wrong values.

Time stamps in headers can be wrong in four ways:

- All stamps are missing (zero) or equal. Times of arrival replace them.
- The clock is set during the recording. The step is removed; see `mended_stamps`.
- A few stamps are far from the stamps before and after. Their messages are dropped; see `plausible_stamps`.
- Messages overtake each other, or arrive twice. Only messages in ascending order are kept; see `ascending_rows`.

With `Cuts.use_arrival`, the times of arrival replace all stamps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray

SECOND = 1e9  # [ns]
SMALLEST = 10_000_000  # [ns] minimum clock step that is corrected; smaller steps affect few messages
WINDOW = 1_000_000_000  # [ns] time before and after a step; messages are rarely delayed by half of this time
FEWEST = 10  # minimum number of messages on each side for a median
N_EARLIER = 5  # a message rarely overtakes more than this number of other messages
ALIKE = 0.3  # maximum difference between the sudden change and the change of the medians, as a fraction of the step

NO_STAMP = "without a time stamp (--time arrival uses them)"
WRONG_STAMP = "with a wrong time stamp (--time arrival uses them)"
SMALLEST_SPIKE = 2e-3  # [rad] or [m]; an encoder of 12 bits has steps of 1.5e-3 rad
FASTEST_ACCELERATION = 10.0  # [rad/s^2] or [m/s^2]; an arm may reach this between two samples
ABOVE_NEIGHBOURS = 4.0  # minimum deviation of a spike, as a multiple of the deviations of the adjacent rows
ABOVE_ONE = 3.0  # further factor if only one adjacent row counts, because the other one is next to a spike
OFF_COURSE = 0.5  # minimum distance of a spike from extrapolated rows, as a fraction of its deviation
ABOVE_OTHERS = 5.0  # minimum deviation of a spike, as a multiple of the upper quartile of the rows around it
AROUND = 25  # rows on each side for the quartile; four spikes among 50 rows hardly change it


@dataclass(frozen=True)
class Cuts:
    """Criteria for cutting a recording into continuous pieces."""

    max_gap: float = 0.2  # maximum time between two consecutive joint states of a piece [s]
    # Maximum speed of a joint between two joint states [rad/s] or [m/s]. The change is divided by the time between the
    # joint states, or by the mean time between messages if the mean is longer.
    max_speed: float = 20.0
    min_jump: float = 0.1  # minimum change that counts as a jump [rad] or [m]
    use_arrival: bool = False  # whether to use the times of arrival instead of the times in the headers
    # Joints that keep their position until the next message, such as a gripper that is open or closed. Held joints may
    # jump. If they have their own publisher, the time between its messages is not limited.
    held: tuple[str, ...] = ()

    def is_held(self, joint_names: Sequence[str]) -> BoolArray:
        """Return whether each joint (n_joints,) is held."""
        return np.array([name in self.held for name in joint_names], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Series:
    """Vectors over time, from the messages of one topic."""

    arrival: IntArray  # (n,) int64: times of arrival, ascending [ns]
    # (n,) int64: times in the headers [ns]; times of arrival if there are no headers, or if `Cuts.use_arrival` is set
    stamp: IntArray
    values: FloatArray  # (n, n_dims)
    frame: str = ""  # frame of the first message
    is_pose: bool = False  # whether the values are position and quaternion
    notes: tuple[str, ...] = ()  # notes about corrections of the clock

    def __len__(self) -> int:
        return len(self.arrival)

    def part(self, chosen: Any) -> Series:
        """Return a series with only the chosen rows."""
        return replace(self, arrival=self.arrival[chosen], stamp=self.stamp[chosen], values=self.values[chosen])


@dataclass
class GrowingSeries:
    """Series to which messages are appended."""

    arrival: list[int] = field(default_factory=list)
    stamp: list[int] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)
    frame: str = ""

    def __len__(self) -> int:
        return len(self.arrival)

    def add(self, arrival: int, header: Any, values: FloatArray) -> None:
        """Append a message. Without a header, its time of arrival [ns] is used."""
        if not self.values and header is not None:
            self.frame = header.frame_id
        stamp = arrival if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec
        self.arrival.append(arrival)
        self.stamp.append(stamp)
        self.values.append(values)

    def series(self, n_dims: int, cuts: Cuts, is_pose: bool = False) -> tuple[Series, Counter[str]]:
        """Return the series with corrected times, and the number of messages that were dropped for each reason."""
        values = np.array(self.values, dtype=np.float64).reshape(len(self.values), n_dims)
        stamp, arrival = np.array(self.stamp, dtype=np.int64), np.array(self.arrival, dtype=np.int64)
        found = Series(arrival, stamp, values, self.frame, is_pose)
        if cuts.use_arrival:
            return replace(found, stamp=arrival), Counter()
        if not stamp.any() or (len(stamp) > 1 and (stamp == stamp[0]).all()):
            note = "its headers have no time stamps, or all have the same time stamp: times of arrival are used instead"
            return replace(found, stamp=arrival, notes=(note,)), Counter()
        found, n_missing = found.part(stamp != 0), int(np.sum(stamp == 0))
        mended, steps = mended_stamps(found.stamp, found.arrival)
        plausible = plausible_stamps(mended, found.arrival, cuts.max_gap)
        found = replace(found, stamp=mended, notes=tuple(map(_step_note, steps)))
        return found.part(plausible), +Counter({NO_STAMP: n_missing, WRONG_STAMP: int(np.sum(~plausible))})


def _step_note(step: int) -> str:
    way = "back" if step < 0 else "forward"
    return f"corrected the clock of its headers, which was set {way} by {abs(step) / SECOND:.3f} s"


def mended_stamps(stamp: IntArray, arrival: IntArray) -> tuple[IntArray, list[int]]:
    """Remove the steps of a publisher's clock that was changed during a recording.

    The difference between stamp and arrival is the delay of a message plus the offset between two clocks. Delays vary,
    but they return to their usual value, whereas a step of the clock remains. Therefore, a clock step is a sudden
    change of the difference by about the same amount as the medians before and after it.

    Parameters
    ----------
    stamp, arrival : (n,)
        Times in the headers and times of arrival, in the order of arrival [ns].

    Returns
    -------
    stamps : (n,)
        Stamps [ns] on the clock at the time of the first message.
    steps : list of int
        Removed clock steps [ns].
    """
    offset = stamp - arrival
    mended, steps = stamp.copy(), list[int]()
    for row in np.flatnonzero(np.abs(np.diff(offset)) > SMALLEST) + 1:
        first, last = np.searchsorted(arrival, (arrival[row] - WINDOW, arrival[row] + WINDOW))
        before, after = offset[first:row], offset[row:last]
        if min(len(before), len(after)) < FEWEST:
            continue
        step = int(np.median(after) - np.median(before))
        if abs(step) > SMALLEST and abs(int(offset[row] - offset[row - 1]) - step) <= ALIKE * abs(step):
            mended[row:] -= step
            offset[row:] -= step
            steps.append(step)
    return mended, steps


def plausible_stamps(stamp: IntArray, arrival: IntArray, max_gap: float) -> BoolArray:
    """Return which stamps fit the stamps of the messages before and after (n,).

    Fewer than `FEWEST` consecutive messages with wrong stamps are detected by the messages around them. Without the
    wrong messages, stamps and times of arrival both advance by at most `max_gap` [s]. There must be fewer wrong
    messages than messages on each side, unless they are at the start or the end of the recording. Therefore,
    alternating messages of two publishers with different clocks are kept. A few messages at the start or the end are
    wrong if their stamps are far from the stamps of many other messages that arrived at the same time.
    """
    plausible = np.ones(len(stamp), dtype=np.bool_)
    times, arrivals = (stamp - stamp[:1]) / SECOND, (arrival - arrival[:1]) / SECOND
    edges = [0, *(np.flatnonzero(np.abs(np.diff(times)) > max_gap) + 1).tolist(), len(times)]
    begins, ends = edges[:-1], edges[1:]
    # The current chain of runs: its last row, its number of rows, whether it contains the first row, and the next run.
    last, length, is_first, run = ends[0] - 1, ends[0], True, 1
    while run < len(begins):
        begin, found = begins[run], run
        for other in range(run + 1, len(begins)):
            n_wrong = begins[other] - begin
            if n_wrong >= FEWEST:
                break
            step, wait = times[begins[other]] - times[last], arrivals[begins[other]] - arrivals[last]
            is_connected = 0.0 < step <= max_gap and abs(wait - step) <= max_gap
            n_after = ends[other] - begins[other]
            is_enough = length > n_wrong or (is_first and n_after >= FEWEST)
            is_enough &= n_after > n_wrong or (other == len(begins) - 1 and length >= FEWEST)
            if is_connected and is_enough:
                found = other
                break
        plausible[begin : begins[found]] = False
        is_first &= found > run
        length = ends[found] - begins[found] + (length if found > run else 0)
        last, run = ends[found] - 1, found + 1
    for rows in (np.flatnonzero(plausible), np.flatnonzero(plausible)[::-1]):
        apart = np.flatnonzero(np.abs(np.diff(times[rows])) > max_gap) + 1
        n_first = int(apart[0]) if len(apart) else len(rows)
        n_next = int(apart[1] if len(apart) > 1 else len(rows)) - n_first
        if n_first < FEWEST <= n_next and abs(arrivals[rows[n_first]] - arrivals[rows[n_first - 1]]) <= max_gap:
            plausible[rows[:n_first]] = False
    return plausible


def ascending_rows(times: FloatArray) -> list[int]:
    """Return rows whose times ascend strictly, without messages that were overtaken.

    After a single time that is too late, all messages before that time would seem to be overtaken. Therefore, a row is
    dropped if its time alone is later than the times of the next `N_EARLIER` messages.
    """
    is_early = np.zeros(len(times), dtype=np.bool_)
    if len(times) > N_EARLIER:
        following = np.lib.stride_tricks.sliding_window_view(times[1:], N_EARLIER)
        own, before = times[: len(following)], np.concatenate([[-np.inf], times[: len(following) - 1]])
        is_early[: len(following)] = (own > following.max(axis=1)) & (before < following.min(axis=1))
    rows = np.flatnonzero(~is_early)
    newest = np.maximum.accumulate(np.concatenate([[-np.inf], times[rows]]))[:-1]
    return [int(row) for row in rows[times[rows] > newest]]


def in_order(times: FloatArray, max_gap: float) -> tuple[list[int], list[int], list[str]]:
    """Select rows whose times ascend.

    If a time is earlier than the previous time by more than `max_gap` [s], the clock was set back. The times ascend
    again from this row.

    Returns
    -------
    kept : list of int
        Selected rows.
    starts : list of int
        Indices into `kept` at which the clock was set back.
    reasons : list of str
        Description of each such step.
    """
    begins, reasons, newest = [0], list[str](), -np.inf
    for row, moment in enumerate(times.tolist()):
        if newest - moment > max_gap:
            begins.append(row)
            reasons.append(f"its time goes backwards by {newest - moment:.3f} s after {newest:.3f} s")
            newest = moment
        newest = max(newest, moment)
    kept, starts = list[int](), list[int]()
    for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
        starts.append(len(kept))
        kept += [begin + row for row in ascending_rows(times[begin:end])]
    return kept, starts[1:], reasons


def spikes(times: FloatArray, values: FloatArray, max_gap: float) -> npt.NDArray[np.intp]:
    """Find single samples that a joint cannot have reached between the samples before and after.

    The deviation of a row is its distance from the mean of the rows before and after. A spike lies beyond both of these
    rows on the same side, and its deviation is larger than

    - the resolution of sensors, and the deviation that an acceleration of 10 rad/s^2 causes,
    - several times the deviations of the rows before and after, computed without the spike. In a well-sampled quick
      motion back and forth, these deviations are large too.
    - several times the upper quartile of the deviations around it, because noise causes large deviations everywhere.

    A spike is far from extrapolations of the two rows before it and of the two rows after it. A row near an
    extrapolation is next to a jump, for example between two demonstrations.

    Rows at gaps cannot be examined.

    Parameters
    ----------
    times : (n,)
        Times [s], ascending except where the clock was set back.
    values : (n, d)
        Values [rad] or [m]. A change by more than half a revolution counts as the shorter change in the other
        direction.
    max_gap : float
        Maximum time to the rows before and after [s].

    Returns
    -------
    (n,)
        For each row, the column in which it is a spike, or -1.
    """
    n = len(times)
    columns: npt.NDArray[np.intp] = np.full(n, -1, dtype=np.intp)
    if n < 4:
        return columns
    steps = np.diff(times)
    linked = (steps > 0.0) & (steps <= max_gap)
    if not linked.any():
        return columns
    floor = max(SMALLEST_SPIKE, 0.5 * FASTEST_ACCELERATION * float(np.median(steps[linked])) ** 2)
    values = np.unwrap(values, axis=0)
    # Entry i belongs to row i + 1. The deviations of the adjacent rows are computed without row i + 1.
    before, after = values[1:-1] - values[:-2], values[2:] - values[1:-1]
    deviation = 0.5 * np.abs(before - after)
    inner = np.zeros((2, n, values.shape[1]))
    inner[0, 2:-1] = values[1:-2] - (2.0 * values[:-3] + values[3:]) / 3.0
    inner[1, 1:-2] = values[2:-1] - (values[:-3] + 2.0 * values[3:]) / 3.0
    known = np.zeros((2, n), dtype=np.bool_)
    known[0, 2:-1] = linked[:-2] & linked[1:-1] & linked[2:]
    known[1, 1:-2] = known[0, 2:-1]
    beside = np.where(known[..., None], np.abs(inner), np.nan)
    beside = np.fmin(np.fmax(*beside), ABOVE_ONE * np.fmin(*beside))[1:-1]
    is_inside: BoolArray = np.asarray(linked[:-1] & linked[1:] & np.any(known, axis=0)[1:-1])
    is_apart: BoolArray = (before * after < 0.0) & (deviation > floor) & (deviation > ABOVE_NEIGHBOURS * beside)
    is_apart &= is_inside[:, None]
    course = np.full((2, n, values.shape[1]), np.inf)  # distances from both extrapolations
    course[0, 2:] = np.where((linked[:-1] & linked[1:])[:, None], np.abs(np.diff(values, 2, axis=0)), np.inf)
    course[1, :-2] = course[0, 2:]
    is_apart &= course.min(axis=0)[1:-1] > OFF_COURSE * deviation
    for row, column in zip(*np.nonzero(is_apart), strict=True):
        around = deviation[max(row - AROUND, 0) : row + AROUND + 1, column]
        if deviation[row, column] > ABOVE_OTHERS * np.quantile(around, 0.75):
            columns[row + 1] = column
    return columns


def without_spikes(
    series: Series, names: tuple[str, ...], max_gap: float, held: Collection[str] = ()
) -> tuple[Series, Counter[str]]:
    """Remove messages with a spike (see `spikes`) in a named column. The named columns are the first columns.

    Held columns may have spikes. Also return the number of removed messages by the name of the column.
    """
    columns = [i for i, name in enumerate(names) if name not in held]
    if not columns:
        return series, Counter()
    times = (series.stamp - series.stamp[:1]) / SECOND
    kept, _, _ = in_order(times, max_gap)
    found = spikes(times[kept], series.values[kept][:, columns], max_gap)
    is_spike = np.zeros(len(series), dtype=np.bool_)
    is_spike[np.array(kept, dtype=np.intp)[found >= 0]] = True
    dropped = Counter(f"in which {names[columns[i]]} jumps away and back" for i in found[found >= 0])
    return series.part(~is_spike), dropped
