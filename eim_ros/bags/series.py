"""What is read of a recording: joint positions, vectors of other topics, labels, each with its times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.clock_steps import mended_stamps

__all__ = ["BagContent", "GrowingSeries", "Series"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Series:
    """Vectors over time.

    Attributes
    ----------
    arrival : (n,) int64
        When each message arrived, ascending [ns].
    stamp : (n,) int64
        What its header says [ns]; that of the arrival where it has none.
    values : (n, n_dims)
    frame : str
        Frame of the first message.
    is_pose : bool
        Whether the values are position and quaternion.
    clock_steps : tuple of int
        By how much the clock of the headers was set [ns]; the stamps are those of the clock before.
    """

    arrival: IntArray
    stamp: IntArray
    values: FloatArray
    frame: str = ""
    is_pose: bool = False
    clock_steps: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival)

    def part(self, chosen: Any) -> Series:
        """Some of its rows."""
        return replace(self, arrival=self.arrival[chosen], stamp=self.stamp[chosen], values=self.values[chosen])


@dataclass(frozen=True, eq=False)
class BagContent:
    """Content of one bag.

    Attributes
    ----------
    joint_names : tuple of str
    joints : Series
        Positions [rad] or [m] of these joints.
    vectors : dict
        Series of other topics; poses have 7 columns (position [m], quaternion xyzw), points 3.
    labels : list of (int, str)
        When each segment begins [ns], and its label; empty in a bag without labels.
    dropped : Counter
        Messages left out, by reason.
    """

    joint_names: tuple[str, ...]
    joints: Series
    vectors: dict[str, Series]
    labels: list[tuple[int, str]]
    dropped: Counter[str]


@dataclass
class GrowingSeries:
    """A series that grows."""

    arrival: list[int] = field(default_factory=list)
    stamp: list[int] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)
    frame: str = ""

    def add(self, arrival: int, header: Any, values: FloatArray) -> None:
        if not self.values and header is not None:
            self.frame = header.frame_id
        stamp = arrival if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec
        self.arrival.append(arrival)
        self.stamp.append(stamp)
        self.values.append(values)

    def series(self, n_dims: int, is_pose: bool = False) -> Series:
        values = np.array(self.values, dtype=np.float64).reshape(len(self.values), n_dims)
        stamp, arrival = np.array(self.stamp, dtype=np.int64), np.array(self.arrival, dtype=np.int64)
        mended, steps = mended_stamps(stamp if stamp.any() else arrival, arrival)
        return Series(arrival, mended, values, self.frame, is_pose, tuple(steps))
