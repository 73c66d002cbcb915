"""Merging of the joint states of several publishers by time, such as an arm and a gripper, or two arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from eim_ros.bags.series import SECOND, Series, ascending_rows
from eim_ros.core.arrays import BoolArray, FloatArray, IntArray

CLOCKS_APART = 0.1  # [s]; delays cannot explain a larger difference between the clocks of two publishers


def merged(
    publishers: Sequence[tuple[str, tuple[str, ...], Series]],
    joint_names: tuple[str, ...],
    max_gap: float,
    held: Collection[str] = (),
) -> tuple[Series, list[str], Counter[str]]:
    """Merge the joint states of several publishers by time.

    The result has the times of the first publisher. The positions of other publishers are interpolated linearly between
    their messages before and after each time. A joint state is dropped if these two messages are more than `max_gap`
    [s] apart. A joint state is also dropped if one of the messages is missing, because a publisher started later or
    stopped earlier. A held joint has the position of its latest message, even if this message is old. If several
    publishers have a joint, the first publisher is used. Differences between the clocks of publishers are removed; see
    `on_the_clock_of`.

    Parameters
    ----------
    publishers : sequence of tuples
        Name, joints and series of each publisher. Together they have all joints in `joint_names`.
    joint_names : tuple of str
        Joints of the result, in this order.
    max_gap : float
    held : collection of str
        Joints that are not interpolated.

    Returns
    -------
    joints : Series
        Merged positions (n, n_joints) [rad] or [m].
    notes : list of str
        Notes about merged joints and corrected clocks.
    dropped : Counter
        Number of dropped joint states for each reason.
    """
    base_name, names, base = publishers[0]
    columns = dict(zip(names, base.values.T, strict=True))
    notes, dropped = list[str](), Counter[str]()
    known = np.ones(len(base), dtype=np.bool_)
    for name, names, series in publishers[1:]:
        added = [joint for joint in names if joint in joint_names and joint not in columns]
        kept = [joint for joint in added if joint in held]
        notes += [
            f"{', '.join(joints)}: {way} the times of {base_name}"
            for joints, way in (([joint for joint in added if joint not in held], "interpolated at"), (kept, "held at"))
            if joints
        ]
        if twice := [joint for joint in names if joint in columns]:
            notes.append(f"{', '.join(twice)}: the positions of {base_name} are used, not those of {name}")
        series, difference = on_the_clock_of(series, base)
        if difference:
            way = "ahead of" if difference > 0.0 else "behind"
            notes.append(f"corrected the clock of {name}, which is {abs(difference):.3f} s {way} that of {base_name}")
        values, is_near = values_at(series, base.stamp, max_gap)
        latest, is_known = latest_at(series, base.stamp)
        columns |= {joint: (latest if joint in held else values)[:, names.index(joint)] for joint in added}
        if len(kept) == len(added):
            known &= is_known
            if n_early := int(np.sum(~is_known)):
                dropped[f"before the first {', '.join(added)}"] = n_early
            continue
        if n_alone := int(np.sum(known & ~is_near)):
            period = np.median(np.diff(series.stamp)) / SECOND if len(series) > 1 else 0.0
            slow = f" (messages come every {period:.3g} s: increase --max-gap)" if period > max_gap else ""
            dropped[f"without {', '.join(added)} within {max_gap} s before and after{slow}"] = n_alone
        known &= is_near
    positions = np.column_stack([columns[name] for name in joint_names])
    return replace(base, values=positions).part(known), notes, dropped


def latest_at(series: Series, stamp: IntArray) -> tuple[FloatArray, BoolArray]:
    """Return the latest values (m, n_dims) of a series at times (m,) [ns], and whether they exist (m,)."""
    rows = ascending_rows((series.stamp - series.stamp[0]) / SECOND)
    latest = np.searchsorted(series.stamp[rows], stamp, side="right") - 1
    return series.values[rows][np.maximum(latest, 0)], latest >= 0


def on_the_clock_of(series: Series, reference: Series) -> tuple[Series, float]:
    """Convert the stamps of a series to the clock of another series.

    The difference between stamp and arrival is the offset of a clock from the recorder's clock. The offset may change
    slowly, for example in a simulation that is slower than real time. Therefore, the offsets of both series are
    compared at the same times of arrival. If they differ by less than `CLOCKS_APART`, delays may be the reason, and the
    stamps stay the same.

    Returns
    -------
    series : Series
    difference : float
        Lead of the clock of the series over the reference [s]; 0.0 if the stamps stay the same.
    """
    zero = reference.arrival[0]
    at, known_at = (series.arrival - zero) / SECOND, (reference.arrival - zero) / SECOND
    common = (at >= known_at[0]) & (at <= known_at[-1])
    if not common.any():
        return series, 0.0
    offset = (series.stamp - series.arrival)[common] / SECOND
    expected = np.interp(at[common], known_at, (reference.stamp - reference.arrival) / SECOND)
    difference = float(np.median(offset - expected))
    if abs(difference) < CLOCKS_APART:
        return series, 0.0
    return replace(series, stamp=series.stamp - round(difference * SECOND)), difference


def values_at(series: Series, stamp: IntArray, max_gap: float) -> tuple[FloatArray, BoolArray]:
    """Interpolate a series linearly at other times.

    The value of a continuous joint jumps by almost a revolution at the ends of its range. If a value changes by more
    than half a revolution from one message to the next, the value of the nearer message is returned.

    Parameters
    ----------
    series : Series
    stamp : (m,)
        Times [ns].
    max_gap : float
        Maximum time between the messages before and after [s].

    Returns
    -------
    values : (m, n_dims)
    known : (m,)
        Whether there is a message at this time, or messages before and after it that are at most `max_gap` [s] apart.
    """
    rows = ascending_rows((series.stamp - series.stamp[0]) / SECOND)
    times, values = (series.stamp[rows] - series.stamp[0]) / SECOND, series.values[rows]
    moments = (stamp - series.stamp[0]) / SECOND
    right = np.clip(np.searchsorted(times, moments), 1, max(len(times) - 1, 1))
    if len(times) < 2:
        return np.repeat(values[:1], len(moments), axis=0), moments == times[0]
    step = times[right] - times[right - 1]
    known = (moments >= times[0]) & (moments <= times[-1]) & ((step <= max_gap) | (moments == times[right]))
    share = (np.clip(moments, times[0], times[-1]) - times[right - 1]) / step
    change = values[right] - values[right - 1]
    share = np.where(np.abs(change) > np.pi, np.round(share)[:, None], share[:, None])
    return values[right - 1] + share * change, known
