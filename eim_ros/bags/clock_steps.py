"""Times of headers when the publisher's clock was set in a recording: those of arrival make them one clock's.

The difference of stamp and arrival is the delay of a message and the offset of two clocks. Delays vary, and those of
messages that had to wait return to what they were; a step of a clock stays. So where the difference changes at once,
and its medians before and after differ by as much, a clock was set.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["mended_stamps"]

IntArray = npt.NDArray[np.int64]

SMALLEST = 10_000_000  # [ns] of a step; less is in order after some messages
WINDOW = 1_000_000_000  # [ns] on each side: messages seldom have to wait for half as long
FEWEST = 10  # messages on each side from which there is a median
ALIKE = 0.3  # of a step, by which the change at once and that of the medians may differ


def mended_stamps(stamp: IntArray, arrival: IntArray) -> tuple[IntArray, list[int]]:
    """Stamps as if no clock had been set after the first message, and the steps that were taken out; all in [ns].

    Parameters
    ----------
    stamp, arrival : (n,)
        Of messages in the order of arrival.
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
