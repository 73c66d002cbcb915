"""Only real jumps are detected, even if publishers, clocks and networks disturb the times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from bags.example_bags import Item, joint_state, label, write_own

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.selection import Selection
from eim_ros.bags.series import Cuts
from eim_ros.core.errors import DataError

RATES = (50, 100, 250, 500, 1000)  # [Hz]
FASTEST = 3.0  # [rad/s]
LONGEST_STALL = 0.15  # [s], less than a gap
NAMES = ("j1", "j2", "j3")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Motion:
    name: str
    jumps: bool
    items: list[Item]
    first: Array
    last: Array


def motions_of(rng: np.random.Generator, rate: int) -> Iterator[Motion]:
    begin = offset = 0.0  # [s] time of the recorder, and total change of the publisher's clock
    for index in range(4):
        duration = rng.uniform(1.5, 3.0)
        times = np.arange(0.0, duration, 1.0 / rate)
        positions = _smooth(rng, times)
        jumps = index > 0 and bool(rng.random() < 0.3)
        if jumps:
            size = rng.uniform(1.5, 3.0) * max(0.1, 20.0 / rate) * rng.choice((-1.0, 1.0))
            positions[rng.integers(len(times) // 4, 3 * len(times) // 4) :, rng.integers(len(NAMES))] += size
        stamps = _stamps(rng, times, rate)
        arrivals = _arrivals(rng, stamps)
        if rng.random() < 0.5:  # the publisher's clock is set forward or back
            row = rng.integers(len(times) // 4, 3 * len(times) // 4)
            step = rng.choice((-1.0, 1.0)) * np.exp(rng.uniform(np.log(0.005), np.log(5.0)))
            stamps = stamps + np.where(np.arange(len(times)) < row, 0.0, step)
        else:
            step = 0.0
        name = f"{'jump' if jumps else 'good'}{index}"
        items = [label(begin - 0.001, name)]
        for row, q in enumerate(positions):
            items.append(joint_state(begin + offset + stamps[row], NAMES, q, arrival=begin + arrivals[row]))
            if rng.random() < 0.02:  # a duplicate, with the same time stamp or a new one
                again = stamps[row] + rng.choice((0.0, 1e-4))
                items.append(joint_state(begin + offset + again, NAMES, q, arrival=begin + arrivals[row] + 5e-7))
        yield Motion(name, jumps, items, positions[0], positions[-1])
        begin, offset = begin + arrivals[-1] + 0.05, offset + step


def _smooth(rng: np.random.Generator, times: Array) -> Array:
    """Return sums of sines whose largest speed is `FASTEST`."""
    frequencies, phases = rng.uniform(0.2, 2.0, (3, 3)), rng.uniform(0.0, 6.3, (3, 3))
    waves = np.sin(2.0 * np.pi * frequencies[:, None] * times[:, None] + phases[:, None]).sum(-1).T
    speed = np.abs(np.diff(waves, axis=0)).max() / np.diff(times).max()
    return waves * FASTEST / speed


def _stamps(rng: np.random.Generator, times: Array, rate: int) -> Array:
    """Return time stamps with a jitter of 0.4 periods. After a stall, the publisher sends messages 0.1 ms apart."""
    stamps = times + rng.uniform(0.0, 0.4 / rate, len(times))
    for begin in rng.permutation(np.arange(0.1, times[-1] - 0.3, 0.5))[: rng.integers(0, 4)]:
        late = (stamps >= begin) & (stamps < begin + rng.uniform(0.02, LONGEST_STALL))
        stamps[late] = begin + LONGEST_STALL + 1e-4 * np.arange(late.sum())
        stamps = np.maximum.accumulate(stamps)
    return np.maximum(stamps, stamps[0] + 1e-5 * np.arange(len(stamps)))


def _arrivals(rng: np.random.Generator, stamps: Array) -> Array:
    """Return arrival times with a mean delay of 1 ms. The network sometimes delivers several late messages at once."""
    arrivals = stamps + rng.exponential(1e-3, len(stamps))
    for begin in rng.permutation(np.arange(0.35, stamps[-1] - 0.3, 0.5))[: rng.integers(0, 3)]:
        held = (arrivals >= begin) & (arrivals < begin + 0.5 * LONGEST_STALL)
        arrivals[held] = begin + 0.5 * LONGEST_STALL
    return np.maximum.accumulate(arrivals) + 1e-6 * np.arange(len(arrivals))


@pytest.mark.parametrize("use_arrival", [False, True])
@pytest.mark.parametrize("seed", [3, 4, 119, 135, 136, 3090, 3111])
def test_each_jump_is_found_and_no_good_motion_is_left_out(tmp_path: Path, seed: int, use_arrival: bool) -> None:
    """Messages come at 50 Hz to 1 kHz, and include jitter, stalled publishers, clock changes, duplicates and bursts."""
    motions = list(motions_of(np.random.default_rng(seed), RATES[seed % len(RATES)]))
    items = sorted((item for motion in motions for item in motion.items), key=lambda item: item[2])
    selection = Selection(cuts=Cuts(use_arrival=use_arrival))
    data_set, (report,) = import_motions([write_own(tmp_path / "bag", items)], selection, MotionForm(n_points=40))
    good = [motion for motion in motions if not motion.jumps]
    assert good
    assert data_set.description["labels"] == [motion.name for motion in good]
    ends = data_set.sample.reshape(len(good), 40, -1)[:, [0, -1]]
    np.testing.assert_allclose(ends, [[motion.first, motion.last] for motion in good], rtol=0.0, atol=1e-9)
    assert all(told.n_used or "jumps" in told.reason for told in report.segments)


@pytest.mark.parametrize(("size", "n_motions"), [(0.19, 1), (0.25, 0)])
def test_jump_is_as_large_as_the_largest_speed_allows(tmp_path: Path, size: float, n_motions: int) -> None:
    """At 20 rad/s and 100 Hz, positions may change by 0.2 rad between messages."""
    items = [label(0.0, "smooth"), *(joint_state(0.01 * i, ["j1"], [0.01 * i]) for i in range(100))]
    items += [label(1.0, "jump"), *(joint_state(1.0 + 0.01 * i, ["j1"], [size * (i > 50)]) for i in range(100))]
    data_set, _ = import_motions([write_own(tmp_path / "bag", items)], Selection(), MotionForm())
    assert len(data_set) == 1 + n_motions


@pytest.mark.parametrize("rate", [50, 100, 500])
def test_jump_among_messages_that_come_out_of_order_is_found(tmp_path: Path, rate: int) -> None:
    """Up to four messages overtake every fifth message. Jumps are 1.25 times the change at maximum speed."""
    rng = np.random.default_rng(rate)
    items = []
    for motion in range(12):
        times, jumps = np.arange(0.0, 1.0, 1.0 / rate), motion % 2 == 1
        positions = 0.3 * np.sin(2.0 * np.pi * times + motion)
        row = rng.integers(10, len(times) - 10)
        positions[row:] += jumps * 1.25 * max(0.1, 20.0 / rate)
        late = rng.random(len(times)) < 0.2
        late[[0, *range(-6, 0)]] = False
        late[row - 1 : row + 1] = True
        arrivals = times + late * rng.uniform(1.0, 4.0, len(times)) / rate
        items += [label(1.2 * motion, "jump" if jumps else "good")]
        items += [
            joint_state(1.2 * motion + 0.01 + t, ["j1"], [q], arrival=1.2 * motion + 0.01 + arrival)
            for t, q, arrival in zip(times, positions, arrivals, strict=True)
        ]
    bag = write_own(tmp_path / "bag", sorted(items, key=lambda item: item[2]))
    data_set, _ = import_motions([bag], Selection(), MotionForm())
    assert data_set.description["labels"] == ["good"] * 6


def test_robot_that_stands_still_is_no_motion(tmp_path: Path) -> None:
    """Example: a node plans before it has set a label."""
    items = [joint_state(0.01 * i, ["j1"], [1.0 + 1e-3 * np.sin(i)]) for i in range(100)]
    items += [label(1.0, "reach"), *(joint_state(1.0 + 0.01 * i, ["j1"], [0.01 * i]) for i in range(100))]
    bag = write_own(tmp_path / "bag", [label(0.0, ""), *items])
    data_set, (report,) = import_motions([bag], Selection(skipped_labels=("pause",)), MotionForm())
    assert data_set.description["labels"] == ["reach"]
    assert "the robot does not move: the largest change of a joint is 0.002" in report.segments[0].reason
    only_still = write_own(tmp_path / "still", [joint_state(0.01 * i, ["j1"], [1.0]) for i in range(100)])
    with pytest.raises(DataError, match="does not move"):
        import_motions([only_still], Selection(), MotionForm())


@pytest.mark.parametrize("step", [-490_000_000, -30_000_000, 30_000_000, 5_000_000_000])
def test_clock_that_is_set_is_mended_and_reported(tmp_path: Path, step: int) -> None:
    items = []
    for i in range(200):
        stamp = 0.01 * i + (1e-9 * step if i >= 120 else 0.0)
        items.append(joint_state(stamp, ["j1"], [0.01 * i], arrival=0.01 * i))
    data_set, (report,) = import_motions([write_own(tmp_path / "bag", items)], Selection(), MotionForm())
    assert data_set.description["durations"] == pytest.approx([1.99])
    assert np.allclose(data_set.sample[0], np.linspace(0.0, 1.99, 50), atol=1e-9)
    way = "back" if step < 0 else "forward"
    assert report.notes == [f"corrected the clock of its headers, which was set {way} by {abs(step) * 1e-9:.3f} s"]
