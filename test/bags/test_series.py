"""Wrong time stamps and single wrong samples are removed and counted. Nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from bags.example_bags import START, Item, joint_state, label, pose, write_own

from eim_ros.bags.importing import MotionForm, PairForm, import_motions, import_pairs
from eim_ros.bags.selection import BagReport, Selection
from eim_ros.bags.series import Cuts, spikes
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

NAMES = ("j1", "j2")
PERIOD = 0.01  # [s]
N = 1000  # 10 s
CHORD = PERIOD**2 / 2  # a chord of a sine over two periods is off by at most (2 PERIOD)^2 / 8
Array = npt.NDArray[np.float64]


def swing(time: float) -> list[float]:
    return [np.sin(time), 0.5 * np.cos(time)]


def recorded(stamps: Array, arrivals: Array | None = None) -> list[Item]:
    """Return joint states of a swing that lasts 10 s. Their headers have `stamps` [s], which may be wrong."""
    times = PERIOD * np.arange(N)
    arrivals = times if arrivals is None else arrivals
    return [
        joint_state(float(stamp), NAMES, swing(float(time)), arrival=float(arrival))
        for time, stamp, arrival in zip(times, stamps, arrivals, strict=True)
    ]


def imported(path: Path, items: list[Item], **cuts: object) -> tuple[DataSet, BagReport]:
    data_set, (report,) = import_motions([write_own(path, items)], Selection(cuts=Cuts(**cuts)), MotionForm())
    return data_set, report


def is_the_swing(data_set: DataSet, duration: float = PERIOD * (N - 1)) -> bool:
    (motion,) = data_set.sample.reshape(len(data_set), 50, 2)
    assert data_set.description["durations"] == pytest.approx([duration])
    expected = np.array([swing(float(time)) for time in np.linspace(0.0, duration, 50)])
    return bool(np.allclose(motion, expected, rtol=0.0, atol=CHORD + 1e-9))


@pytest.mark.parametrize("row", [0, 1, 500, N - 2, N - 1])
@pytest.mark.parametrize("error", [-1e9, -3.0, -0.3, 0.3, 3.0, 1e8])
def test_one_wrong_stamp_costs_one_message(tmp_path: Path, row: int, error: float) -> None:
    stamps = PERIOD * np.arange(N)
    stamps[row] += error
    data_set, (report) = imported(tmp_path / "bag", recorded(stamps))
    assert len(data_set) == 1
    n_dropped = sum(report.dropped.values())
    assert n_dropped == 1
    assert report.dropped == {"joint states with a wrong time stamp (--time arrival uses them)": 1}
    (motion,) = data_set.sample.reshape(1, 50, 2)
    first, last = PERIOD * (row == 0), PERIOD * (N - 1 - (row == N - 1))
    expected = np.array([swing(float(time)) for time in np.linspace(first, last, 50)])
    np.testing.assert_allclose(motion, expected, rtol=0.0, atol=CHORD + 1e-9)


def test_several_wrong_stamps_together_cost_only_their_messages(tmp_path: Path) -> None:
    """Four wrong stamps in the middle of the recording have different errors, and one good stamp is between them."""
    stamps = PERIOD * np.arange(N)
    stamps[[300, 301, 303, 304]] = [5.0, -70.0, 1e6, 9.0]
    stamps[600:609] -= 50.0
    data_set, report = imported(tmp_path / "bag", recorded(stamps))
    assert is_the_swing(data_set)
    assert sum(report.dropped.values()) <= 5 + 9


@pytest.mark.parametrize("error", [0.06, 0.15])
def test_stamp_that_is_a_little_ahead_costs_no_other_message(tmp_path: Path, error: float) -> None:
    """Messages after a stamp that is too late by less than the maximum gap do not count as out of order."""
    stamps = PERIOD * np.arange(N)
    stamps[500] += error
    data_set, report = imported(tmp_path / "bag", recorded(stamps))
    assert is_the_swing(data_set)
    assert report.dropped == {"joint states that are not in the order of their times": 1}


def test_zero_stamps_are_missing_stamps(tmp_path: Path) -> None:
    """A publisher has no clock at the start and sometimes later."""
    stamps = PERIOD * np.arange(N)
    stamps[[*range(40), 333, 334, 600]] = -START / 1e9
    data_set, report = imported(tmp_path / "bag", recorded(stamps))
    assert data_set.description["durations"] == pytest.approx([PERIOD * (N - 1 - 40)])
    assert report.dropped == {"joint states without a time stamp (--time arrival uses them)": 43}


def test_stamps_that_never_change_are_replaced_by_times_of_arrival(tmp_path: Path) -> None:
    data_set, report = imported(tmp_path / "bag", recorded(np.full(N, 7.0)))
    assert is_the_swing(data_set)
    assert report.notes == [
        "its headers have no time stamps, or all have the same time stamp: times of arrival are used instead"
    ]


@pytest.mark.parametrize("offset", [-1.6e9, 1e6])
def test_stamps_of_another_clock_are_as_good(tmp_path: Path, offset: float) -> None:
    data_set, report = imported(tmp_path / "bag", recorded(PERIOD * np.arange(N) + offset))
    assert is_the_swing(data_set)
    assert not report.dropped


def test_messages_that_come_twice_or_out_of_order_cost_themselves(tmp_path: Path) -> None:
    arrivals = PERIOD * np.arange(N)
    arrivals[400] += 1.5 * PERIOD
    items = recorded(PERIOD * np.arange(N), arrivals)
    items += [(topic, kind, arrival + 100_000, message) for topic, kind, arrival, message in items[10::50]]
    data_set, report = imported(tmp_path / "bag", sorted(items, key=lambda item: item[2]))
    assert is_the_swing(data_set)
    assert report.dropped == {"joint states that are not in the order of their times": 21}


@pytest.mark.parametrize("kind", ["two clocks in turn", "coarse", "backwards"])
def test_stamps_that_cannot_be_used_lead_to_the_times_of_arrival(tmp_path: Path, kind: str) -> None:
    stamps = PERIOD * np.arange(N)
    if kind == "two clocks in turn":
        stamps[::2] -= 40.0
    elif kind == "coarse":  # the clock advances only twice per second
        stamps = np.floor(2.0 * stamps) / 2.0
    else:
        stamps = stamps[::-1]
    items = recorded(stamps)
    with pytest.raises(DataError, match="try --time arrival"):
        imported(tmp_path / "bag", items)
    data_set, report = imported(tmp_path / "again", items, use_arrival=True)
    assert is_the_swing(data_set)
    assert not report.dropped


def test_a_real_gap_does_not_lead_to_the_times_of_arrival(tmp_path: Path) -> None:
    items = [item for i, item in enumerate(recorded(PERIOD * np.arange(N))) if not 300 < i < 400]
    with pytest.raises(DataError, match=r"gap of 1\.000 s after 3\.000 s$"):
        imported(tmp_path / "bag", items)


def with_positions(positions: Array) -> list[Item]:
    return [joint_state(PERIOD * i, NAMES, row) for i, row in enumerate(positions)]


@pytest.mark.parametrize("size", [-2.5, -0.5, 0.05, 0.5, 3.0, 1000.0])
def test_single_spikes_do_not_stay_in_a_data_set(tmp_path: Path, size: float) -> None:
    """Without the removal, small spikes would remain in the data, and a large spike would cost the complete segment."""
    positions = np.array([swing(PERIOD * i) for i in range(N)])
    rows = [1, 17, 250, 252, 500, 731, N - 2]
    positions[rows, 1] += size
    data_set, report = imported(tmp_path / "bag", with_positions(positions))
    assert is_the_swing(data_set)
    if size < 1000.0:  # 1000 rad is 159.15 revolutions
        assert report.dropped == {"joint states in which j2 jumps away and back": len(rows)}


def test_spike_while_the_robot_stands_still(tmp_path: Path) -> None:
    positions = np.array([swing(PERIOD * max(i - 500, 0)) for i in range(N)])
    positions[[100, 400], [0, 1]] += 0.02
    _, report = imported(tmp_path / "bag", with_positions(positions))
    assert report.dropped == {f"joint states in which {name} jumps away and back": 1 for name in NAMES}


def test_first_and_last_message_apart_from_the_others_cost_themselves(tmp_path: Path) -> None:
    """Examples: zeros before a driver has read the joints, and the old pose of a simulation that was reset."""
    items = []
    for segment in range(3):
        items.append(label(1.0 * segment - 0.001, f"{segment}"))
        for i in range(100):
            values = [segment + PERIOD * i, 3.0]
            if (segment, i) in ((0, 0), (2, 99)):
                values = [0.0, 0.0]
            elif segment == 1 and i > 0:
                values = [5.0 + PERIOD * i, 3.0]
            items.append(joint_state(1.0 * segment + PERIOD * i, NAMES, values))
    data_set, report = imported(tmp_path / "bag", items)
    assert data_set.description["labels"] == ["0", "1", "2"]
    assert data_set.description["durations"] == pytest.approx([0.98, 0.98, 0.98])
    begins = data_set.sample.reshape(3, 50, 2)[:, [0, -1]]
    assert begins == pytest.approx(np.array([[[0.01, 3], [0.99, 3]], [[5.01, 3], [5.99, 3]], [[2.0, 3], [2.98, 3]]]))
    apart = "joint states at the start or the end of a segment that are far from the others"
    assert report.dropped == {apart: 3}


def stepped(times: Array) -> Array:
    """Return positions of a gripper that opens within one sample, stays open for two samples, and closes."""
    return np.where((times > 0.3) & (times < 0.3 + 2.5 * PERIOD), 0.04, 0.0)


MOTIONS: dict[str, Callable[[Array], Array]] = {
    "triangle": lambda t: np.abs((3.0 * t) % 2.0 - 1.0),
    "fast swing": lambda t: 0.5 * np.sin(2.0 * np.pi * 3.0 * t),
    "start and stop": lambda t: np.clip(2.0 * t - 1.0, 0.0, 1.0),
    "knock": lambda t: 0.05 * np.exp(-(((t - 0.5) / 0.03) ** 2)),  # takes 0.1 s and reaches 1.4 rad/s
    "gripper": stepped,
    "noise": lambda t: t + 0.01 * np.random.default_rng(0).standard_normal(len(t)),
    "encoder": lambda t: np.round(t / 0.3) * 0.3,
    "blocked encoder": lambda t: 0.0015 * (np.random.default_rng(0).random(len(t)) < 0.02),
    "revolution": lambda t: (2.9 + t) % (2.0 * np.pi) - 2.0 * np.pi * ((2.9 + t) % (2.0 * np.pi) > np.pi),
    "vibration": lambda t: 0.02 * (np.arange(len(t)) % 2),
    "next demonstration": lambda t: np.where(
        t < 1.0, 2.5 * t, 2.4 - 0.5 * (t - 1.0)
    ),  # starts at another position, without a gap in time
}


@pytest.mark.parametrize("rate", [10.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("name", MOTIONS)
def test_no_motion_is_a_spike(name: str, rate: float) -> None:
    """Motions are sampled at `rate`, except that of the gripper, which is always sampled every 10 ms."""
    times = np.arange(0.0, 2.0, PERIOD if name == "gripper" else 1.0 / rate)
    assert not (spikes(times, MOTIONS[name](times)[:, None], 0.2) >= 0).any()


def test_spikes_of_a_table_are_removed(tmp_path: Path) -> None:
    positions = np.array([swing(PERIOD * i) for i in range(N)])
    positions[[300, 700], [0, 1]] += 0.3
    np.savez(tmp_path / "table.npz", time=PERIOD * np.arange(N), positions=positions, joint_names=NAMES)
    data_set, (report,) = import_motions([tmp_path / "table.npz"], Selection(), MotionForm())
    assert is_the_swing(data_set)
    assert report.dropped == {f"rows in which {name} jumps away and back": 1 for name in NAMES}


def test_spike_of_a_pose_gives_no_pair(tmp_path: Path) -> None:
    robot = Robot("planar3")
    items = []
    for i in range(100):
        q = np.array([PERIOD * i, 1.0 - PERIOD * i, 0.3])
        position = robot.fk(q)[:3, 3] + (0.1 if i == 40 else 0.0)
        items += [joint_state(PERIOD * i, robot.joint_names, q), pose(PERIOD * i, position)]
    poses, q, (report,) = import_pairs(
        [write_own(tmp_path / "bag", items)], Selection(robot=robot), PairForm(pose_topic="/pose")
    )
    np.testing.assert_allclose(poses[:, :3, 3], robot.fk(q)[:, :3, 3], atol=2.0 * CHORD)
    assert sum("jumps away" in reason for reason in report.dropped) == 1


@pytest.mark.parametrize("names", [("j1", "j2", "passive"), ("passive", "j1", "j2")])
def test_joint_that_is_never_finite_is_named_with_the_remedy(tmp_path: Path, names: tuple[str, ...]) -> None:
    values = {"j1": 0.5, "j2": 0.1, "passive": np.nan}
    items = [joint_state(PERIOD * i, names, [i * PERIOD * values[name] for name in names]) for i in range(100)]
    path = write_own(tmp_path / "bag", items)
    with pytest.raises(DataError, match=r"100 in which passive is not finite; .* \(--joints j1,j2\)"):
        import_motions([path], Selection(), MotionForm())
    data_set, _ = import_motions([path], Selection(joint_names=NAMES), MotionForm())
    assert len(data_set) == 1
