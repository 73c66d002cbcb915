"""Bags of known motions as bad publishers and networks would have them recorded, some with real jumps.

    python disturbed_bags.py [SEED [N]]

imports N bags by header times and by arrival times, and lists the motions that were judged wrongly.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bags.example_bags import Item, joint_state, label, write_own

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.selection import Selection
from eim_ros.bags.series import Cuts

__all__ = ["Judgement", "judged"]

RATES = (50, 100, 250, 500, 1000)  # [Hz]
FASTEST = 3.0  # [rad/s]
LONGEST_STALL = 0.15  # [s], less than a gap
NAMES = ("j1", "j2", "j3")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """Labels of one bag's motions, by what they are and by what the import took them for."""

    good: tuple[str, ...]
    jumping: tuple[str, ...]
    taken: tuple[str, ...]
    largest_error: float

    @property
    def wrong(self) -> list[str]:
        """Good ones that were left out, and jumping ones that were taken."""
        return sorted(set(self.good) ^ set(self.taken))


def judged(folder: Path, seed: int, *, use_arrival: bool) -> Judgement:
    """Make a bag, import it, compare."""
    rng = np.random.default_rng(seed)
    motions = list(_motions(rng, RATES[seed % len(RATES)]))
    bag = folder / f"{seed}-{use_arrival}"
    write_own(bag, sorted((item for motion in motions for item in motion.items), key=lambda item: item[2]))
    selection = Selection(cuts=Cuts(use_arrival=use_arrival))
    data_set, (report,) = import_motions([bag], selection, MotionForm(n_points=40))
    errors = []
    by_name = {motion.name: motion for motion in motions}
    for name, row in zip(data_set.description["labels"], data_set.sample, strict=True):
        positions = row.reshape(40, -1)
        errors.append(
            max(np.abs(positions[0] - by_name[name].first).max(), np.abs(positions[-1] - by_name[name].last).max())
        )
    for told in report.segments:
        assert told.n_used or "jumps" in told.reason or not by_name[told.label].jumps, told
    return Judgement(
        tuple(motion.name for motion in motions if not motion.jumps),
        tuple(motion.name for motion in motions if motion.jumps),
        tuple(data_set.description["labels"]),
        float(max(errors, default=0.0)),
    )


@dataclass(frozen=True)
class _Motion:
    name: str
    jumps: bool
    items: list[Item]
    first: Array
    last: Array


def _motions(rng: np.random.Generator, rate: int) -> Iterator[_Motion]:
    begin = offset = 0.0  # [s]; of the publisher's clock
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
        if rng.random() < 0.5:  # the clock is set
            row = rng.integers(len(times) // 4, 3 * len(times) // 4)
            step = rng.choice((-1.0, 1.0)) * np.exp(rng.uniform(np.log(0.005), np.log(5.0)))
            stamps = stamps + np.where(np.arange(len(times)) < row, 0.0, step)
        else:
            step = 0.0
        name = f"{'jump' if jumps else 'good'}{index}"
        items = [label(begin - 0.001, name)]
        for row, q in enumerate(positions):
            items.append(joint_state(begin + offset + stamps[row], NAMES, q, arrival=begin + arrivals[row]))
            if rng.random() < 0.02:  # once more, with the same time or a new one
                again = stamps[row] + rng.choice((0.0, 1e-4))
                items.append(joint_state(begin + offset + again, NAMES, q, arrival=begin + arrivals[row] + 5e-7))
        yield _Motion(name, jumps, items, positions[0], positions[-1])
        begin, offset = begin + arrivals[-1] + 0.05, offset + step


def _smooth(rng: np.random.Generator, times: Array) -> Array:
    """Sums of sines with a largest speed."""
    frequencies, phases = rng.uniform(0.2, 2.0, (3, 3)), rng.uniform(0.0, 6.3, (3, 3))
    waves = np.sin(2.0 * np.pi * frequencies[:, None] * times[:, None] + phases[:, None]).sum(-1).T
    speed = np.abs(np.diff(waves, axis=0)).max() / np.diff(times).max()
    return waves * FASTEST / speed


def _stamps(rng: np.random.Generator, times: Array, rate: int) -> Array:
    """Jitter of 0.4 periods, and a publisher that stalls and then sends what is due 0.1 ms apart."""
    stamps = times + rng.uniform(0.0, 0.4 / rate, len(times))
    for begin in rng.permutation(np.arange(0.1, times[-1] - 0.3, 0.5))[: rng.integers(0, 4)]:
        late = (stamps >= begin) & (stamps < begin + rng.uniform(0.02, LONGEST_STALL))
        stamps[late] = begin + LONGEST_STALL + 1e-4 * np.arange(late.sum())
        stamps = np.maximum.accumulate(stamps)
    return np.maximum(stamps, stamps[0] + 1e-5 * np.arange(len(stamps)))


def _arrivals(rng: np.random.Generator, stamps: Array) -> Array:
    """Delays of 1 ms, and a network that holds back what it then delivers at once."""
    arrivals = stamps + rng.exponential(1e-3, len(stamps))
    for begin in rng.permutation(np.arange(0.35, stamps[-1] - 0.3, 0.5))[: rng.integers(0, 3)]:
        held = (arrivals >= begin) & (arrivals < begin + 0.5 * LONGEST_STALL)
        arrivals[held] = begin + 0.5 * LONGEST_STALL
    return np.maximum.accumulate(arrivals) + 1e-6 * np.arange(len(arrivals))


if __name__ == "__main__":
    first, n = (int(word) for word in (*sys.argv[1:], "0", "50")[:2])
    with tempfile.TemporaryDirectory() as temporary:
        for use_arrival in (False, True):
            every = [judged(Path(temporary), seed, use_arrival=use_arrival) for seed in range(first, first + n)]
            n_good, n_jumps = (sum(len(getattr(each, kind)) for each in every) for kind in ("good", "jumping"))
            wrong = [(first + i, each.wrong) for i, each in enumerate(every) if each.wrong]
            wrong += [(first + i, "jump taken") for i, each in enumerate(every) if set(each.taken) & set(each.jumping)]
            error = max(each.largest_error for each in every)
            by = "arrival" if use_arrival else "header"
            text = f"by {by}: {n_good} good motions, {n_jumps} with a jump; wrong: {wrong}; ends off by {error:.2g} rad"
            sys.stdout.write(f"{text}\n")
