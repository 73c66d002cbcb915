"""Imports of bags restore the recorded motions. Invalid segments are skipped or refused with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from bags.example_bags import (
    Item,
    data_file,
    joint_state,
    label,
    numbers,
    pose,
    write_own,
    write_sqlite,
    write_standard,
)
from kinematics.descriptions import chain_urdf, joint
from scipy.spatial.transform import Rotation

from eim_ros.bags.importing import MotionForm, PairForm, import_motions, import_pairs
from eim_ros.bags.selection import BagReport, Selection
from eim_ros.bags.series import Cuts
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

NAMES = ("j1", "j2")
PERIOD = 0.01  # [s]
Write = Callable[[Path, Iterable[Item]], Path]


def swing(time: float) -> list[float]:
    """Return the positions of both joints."""
    return [np.sin(time), 0.5 * time]


def states(begin: float, end: float, names: tuple[str, ...] = NAMES, topic: str = "/joint_states") -> list[Item]:
    times = np.arange(begin, end, PERIOD)
    return [joint_state(float(time), names, swing(float(time)), topic) for time in times]


def motions(path: Path, selection: Selection | None = None, **form: object):
    return import_motions([path], selection or Selection(), MotionForm(**form))


def only_report(error: DataError) -> BagReport:
    (report,) = error.value
    return report


@pytest.mark.parametrize("write", [write_own, write_standard, write_sqlite])
@pytest.mark.parametrize("as_file", [False, True])
def test_segments_become_motions_whoever_wrote_the_bag(tmp_path: Path, write: Write, as_file: bool) -> None:
    items = [label(0.0, "a"), *states(0.0, 1.0), label(1.0, "b"), *states(1.0, 3.0)]
    folder = write(tmp_path / "bag", items)
    data_set, (report,) = motions(data_file(folder) if as_file else folder, n_points=30)
    assert data_set.sample.shape == (2, 60)
    assert data_set.context.shape == (2, 0)
    description = data_set.description
    assert description["task"] == "motion"
    assert description["joint_names"] == ["j1", "j2"]
    assert description["labels"] == ["a", "b"]
    assert description["n_points"] == 30
    recorded = data_set.sample.reshape(-1, 2)  # without a robot, the limits are the range of the recording
    assert description["limits_source"] == "recording"
    assert (description["lower"], description["upper"]) == (recorded.min(0).tolist(), recorded.max(0).tolist())
    assert np.allclose(description["durations"], [0.99, 1.99])
    assert [segment.n_messages for segment in report.segments] == [100, 200]
    second = data_set.sample[1].reshape(30, 2)
    moments = np.linspace(1.0, 2.99, 30)
    # a chord of a sine is off by at most PERIOD^2 / 8
    assert np.allclose(second, np.column_stack([np.sin(moments), 0.5 * moments]), rtol=0.0, atol=PERIOD**2 / 8 + 1e-9)


def test_trim_leaves_out_the_rest_before_and_after_a_motion(tmp_path: Path) -> None:
    def position(time: float) -> list[float]:  # moves only from 1 s to 2 s
        return [float(np.clip(time - 1.0, 0.0, 1.0)), 0.3]

    items = [joint_state(float(time), NAMES, position(float(time))) for time in np.arange(0.0, 4.0, PERIOD)]
    folder = write_own(tmp_path / "bag", [label(0.0, "a"), *items])
    whole, _ = motions(folder, n_points=11)
    trimmed, _ = motions(folder, n_points=11, trim=True)
    assert whole.description["durations"] == pytest.approx([3.99])
    # the displacement that counts as rest is smaller than the step between two messages
    assert trimmed.description["durations"] == pytest.approx([1.0], abs=2.1 * PERIOD)
    assert trimmed.sample[0, ::2] == pytest.approx(np.linspace(0.0, 1.0, 11), abs=2.1 * PERIOD)


def test_joints_are_matched_by_name_in_the_order_asked_for(tmp_path: Path) -> None:
    items = []
    for i in range(100):
        names, values = ["gripper", "j2", "j1"], [9.0, *swing(0.01 * i)[::-1]]
        order = np.roll(np.arange(3), i)  # the order of the joints changes with each message
        items.append(joint_state(0.01 * i, [names[k] for k in order], [values[k] for k in order]))
    folder = write_own(tmp_path / "bag", items)
    data_set, _ = motions(folder, Selection(joint_names=("j2", "j1")), n_points=2)
    assert np.allclose(data_set.sample, [[*swing(0.0)[::-1], *swing(0.99)[::-1]]])
    assert data_set.description["joint_names"] == ["j2", "j1"]


def test_labels_choose_segments(tmp_path: Path) -> None:
    items = []
    for i, name in enumerate(("a", "pause", "b", "pause", "a")):
        items += [label(float(i), name), *states(float(i), i + 1.0)]
    folder = write_own(tmp_path / "bag", items)
    assert motions(folder, Selection(labels=("a",)))[0].description["labels"] == ["a", "a"]
    data_set, (report,) = motions(folder, Selection(skipped_labels=("pause",)))
    assert data_set.description["labels"] == ["a", "b", "a"]
    assert [segment.reason for segment in report.segments] == [
        "",
        "its label is excluded",
        "",
        "its label is excluded",
        "",
    ]


def test_context_is_the_start_and_the_newest_value_at_the_middle_of_each_segment(tmp_path: Path) -> None:
    items = [numbers(-0.1, [1.0, 2.0]), label(0.0, "a"), *states(0.0, 1.0), numbers(0.97, [3.0, 4.0])]
    items += [label(1.0, "b"), *states(1.0, 2.0)]
    items += [pose(0.05, [0.1, 0.2, 0.3], topic="/tip"), pose(1.05, [0.4, 0.5, 0.6], topic="/tip")]
    folder = write_own(tmp_path / "bag", sorted(items, key=lambda item: item[2]))
    data_set, _ = motions(folder, contexts=("/goal", "start", "/tip"))
    assert data_set.description["context_names"] == [
        "/goal.0", "/goal.1", "start.j1", "start.j2", "/tip.x", "/tip.y", "/tip.z"
    ]  # fmt: skip
    expected = [[1.0, 2.0, *swing(0.0), 0.1, 0.2, 0.3], [3.0, 4.0, *swing(1.0), 0.4, 0.5, 0.6]]
    assert np.allclose(data_set.context, expected)


def test_segment_without_its_context_is_left_out(tmp_path: Path) -> None:
    items = [label(0.0, "a"), *states(0.0, 1.0), label(1.0, "b"), *states(1.0, 2.0), numbers(1.9, [1.0])]
    data_set, (report,) = motions(
        write_own(tmp_path / "bag", sorted(items, key=lambda item: item[2])), contexts=("/goal",)
    )
    assert data_set.description["labels"] == ["b"]
    assert "no message arrived on /goal" in report.segments[0].reason


def test_cut_off_bag_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    folder = write_own(tmp_path / "bag", [label(0.0, "a"), *states(0.0, 1.0), label(1.0, "b"), *states(1.0, 4.0)])
    file = data_file(folder)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    before = file.read_bytes()
    data_set, (report,) = motions(folder)
    assert data_set.description["labels"] == ["a", "b"]
    assert data_set.description["durations"][1] < 2.5
    assert "truncated" in report.notes[0]
    assert file.read_bytes() == before


def test_times_of_the_headers_count_unless_those_of_arrival_are_asked_for(tmp_path: Path) -> None:
    items = [joint_state(0.01 * i, NAMES, [0.01 * i, 0.0], arrival=0.02 * i) for i in range(101)]
    folder = write_own(tmp_path / "bag", items)
    assert motions(folder)[0].description["durations"] == pytest.approx([1.0])
    by_arrival = Selection(cuts=Cuts(use_arrival=True))
    assert motions(folder, by_arrival)[0].description["durations"] == pytest.approx([2.0])


def spoilt(kind: str) -> list[Item]:
    """Return one second of good joint states, labelled "good", and one second with an error."""
    bad = states(1.0, 2.0)
    if kind == "gap":
        bad = [item for i, item in enumerate(bad) if not 30 <= i < 60]
    elif kind == "clock set back":
        times = [1.0 + 0.01 * i for i in range(100)]  # the time alternates, as with two publishers whose clocks differ
        bad = [joint_state(t - 0.4 * (i % 2), NAMES, swing(t), arrival=t) for i, t in enumerate(times)]
    elif kind == "jump":
        bad = [joint_state(1.0 + 0.01 * i, NAMES, [3.0 * (i > 50), 0.0]) for i in range(100)]
    elif kind == "two robots in turn":
        bad = [joint_state(1.0 + 0.01 * i, NAMES, [1.5 * (i % 2), 0.0]) for i in range(100)]
    elif kind == "empty":
        bad = []
    elif kind == "short":
        bad = bad[:5]
    elif kind == "NaN for long":
        bad = [joint_state(1.0 + 0.01 * i, NAMES, [np.nan if 30 < i < 60 else 0.0, 0.0]) for i in range(100)]
    return [label(0.0, "good"), *states(0.0, 1.0), label(1.0, "bad"), *bad]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("gap", r"not continuous: there is a gap of 0\.310 s"),
        ("clock set back", r"time goes backwards by 0\.390 s"),
        ("jump", "a joint jumps"),
        ("two robots in turn", "a joint jumps .* and 96 more"),
        ("empty", "it has no joint states"),
        ("short", "5 joint states within 0.040 s"),
        ("NaN for long", "gap of 0.300 s"),
    ],
)
def test_spoilt_segment_is_left_out_with_its_reason_and_the_good_one_kept(
    tmp_path: Path, kind: str, reason: str
) -> None:
    data_set, (report,) = motions(write_own(tmp_path / "bag", spoilt(kind)))
    assert data_set.description["labels"] == ["good"]
    assert np.isfinite(data_set.sample).all()
    assert report.segments[1].n_used == 0
    assert re.search(reason, report.segments[1].reason), report.segments[1].reason


def test_single_bad_messages_are_left_out_and_counted(tmp_path: Path) -> None:
    items = states(0.0, 1.0)
    items[20] = joint_state(0.2, NAMES, [np.nan, 0.0])
    items[30] = joint_state(0.3, NAMES, [0.0, np.inf])
    items[40] = joint_state(0.4, ["j1"], [0.0])
    items[50] = joint_state(0.5, NAMES, [0.0])
    items[60] = joint_state(0.58, NAMES, [5.0, 5.0], arrival=0.6)  # 0.01 s earlier than the message before
    items[70] = joint_state(0.69, NAMES, [5.0, 5.0], arrival=0.7)  # same time as the message before
    selection = Selection(joint_names=NAMES)
    data_set, (report,) = motions(write_own(tmp_path / "bag", items), selection)
    assert dict(report.dropped) == {
        "joint states in which j1 is not finite": 1,
        "joint states in which j2 is not finite": 1,
        "joint states without j2": 1,
        "joint states with 2 names but 1 positions": 1,
        "joint states that are not in the order of their times": 2,
    }
    assert np.abs(data_set.sample).max() < 1.0


def test_two_robots_on_one_topic_are_refused_unless_joints_are_named(tmp_path: Path) -> None:
    others = [joint_state(0.005 + 0.01 * i, ["k1", "k2"], [1.0, 1.0]) for i in range(100)]
    folder = write_own(tmp_path / "bag", sorted([*states(0.0, 1.0), *others], key=lambda item: item[2]))
    with pytest.raises(DataError, match="different joints on /joint_states") as caught:
        motions(folder)
    assert "--joints" in only_report(caught.value).error
    data_set, (report,) = motions(folder, Selection(joint_names=NAMES))
    assert len(data_set) == 1
    assert report.dropped == {"joint states other joints": 100}


def test_two_robots_with_the_same_joints_on_two_topics_are_refused_unless_one_is_chosen(tmp_path: Path) -> None:
    other = [joint_state(0.01 * i, NAMES, [2.0, 2.0 + 0.01 * i], topic="/right") for i in range(100)]
    folder = write_own(tmp_path / "bag", sorted([*states(0.0, 1.0, topic="/left"), *other], key=lambda item: item[2]))
    with pytest.raises(DataError, match="several topics, /left, /right"):
        motions(folder)
    data_set, _ = motions(folder, Selection(joint_topics=("/right",)))
    assert np.allclose(data_set.sample[0, [0, 1, -2, -1]], [2.0, 2.0, 2.0, 2.99])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "is not a bag"),
        (lambda path: path.with_suffix(".mcap"), "does not exist"),
        (lambda path: path.write_bytes(b""), "expected a folder"),
    ],
)
def test_what_is_no_bag_is_refused(tmp_path: Path, make: Callable[[Path], object], reason: str) -> None:
    make(tmp_path / "bag")
    with pytest.raises(DataError, match=reason):
        motions(tmp_path / "bag")


@pytest.mark.parametrize(("name", "content"), [("a.mcap", b""), ("a.db3", b""), ("a.db3", b"x" * 5000)])
def test_empty_and_foreign_files_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} (is empty|cannot be opened)"):
        motions(tmp_path / name)


def test_cut_off_sqlite_bag_is_refused(tmp_path: Path) -> None:
    folder = write_sqlite(tmp_path / "bag", states(0.0, 5.0))
    file = data_file(folder)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(DataError, match="damaged|cannot be opened"):
        motions(folder)


def test_bag_without_messages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no topic of joint states or trajectories"):
        motions(write_own(tmp_path / "bag", []))


def test_bad_bag_among_good_ones_is_reported_and_left_out(tmp_path: Path) -> None:
    good = [write_own(tmp_path / f"good{i}", states(0.0, 1.0)) for i in range(2)]
    (tmp_path / "bad.mcap").write_bytes(b"")
    paths = [good[0], tmp_path / "bad.mcap", good[1]]
    data_set, reports = import_motions(paths, Selection(), MotionForm())
    assert len(data_set) == 2
    assert ["empty" in report.error for report in reports] == [False, True, False]


def test_bags_of_different_robots_do_not_mix(tmp_path: Path) -> None:
    paths = [write_own(tmp_path / "a", states(0.0, 1.0)), write_own(tmp_path / "b", states(0.0, 1.0, ("k1", "k2")))]
    data_set, reports = import_motions(paths, Selection(), MotionForm())
    assert len(data_set) == 1
    assert "no usable joint states of j1, j2" in reports[1].error


PLANAR = Robot("planar3")


def arm_states(shift: float = 0.0) -> list[Item]:
    """Return joint states of the planar arm at 100 Hz for one second."""
    return [joint_state(0.01 * i + shift, PLANAR.joint_names, arm(0.01 * i)) for i in range(100)]


def arm(time: float) -> np.ndarray:
    return np.array([time, 1.0 - time, np.sin(2.0 * time)])


def test_motion_out_of_the_robots_limits_is_left_out(tmp_path: Path) -> None:
    items = [label(0.0, "in"), *arm_states(), label(1.0, "out")]
    items += [joint_state(1.0 + 0.01 * i, PLANAR.joint_names, [3.0 + 0.01 * i, 0.0, 0.0]) for i in range(50)]
    data_set, (report,) = motions(write_own(tmp_path / "bag", items), Selection(robot=PLANAR))
    assert data_set.description["labels"] == ["in"]
    assert "joint_1 exceeds its limits by 0.348" in report.segments[1].reason
    assert data_set.description["lower"] == pytest.approx(list(PLANAR.lower))


def test_pairs_are_configurations_and_what_they_reach(tmp_path: Path) -> None:
    poses, q, (report,) = import_pairs([write_own(tmp_path / "bag", arm_states())], Selection(robot=PLANAR), PairForm())
    assert np.allclose(q, [arm(0.01 * i) for i in range(100)], rtol=0, atol=1e-12)
    assert np.array_equal(poses, PLANAR.fk(q))
    assert report.n_used == 100


def test_pairs_at_a_rate(tmp_path: Path) -> None:
    folder = write_own(tmp_path / "bag", arm_states())
    _, q, _ = import_pairs([folder], Selection(robot=PLANAR), PairForm(rate=7.0))
    expected = np.array([arm(time) for time in np.arange(0.0, 0.99, 1.0 / 7.0)])
    assert np.allclose(q, expected, rtol=0, atol=4 * PERIOD**2 / 8 + 1e-9)


def arm_poses(frame: str = "base_link") -> list[Item]:
    """Return poses of the planar arm's tip at 30 Hz, from 0.1 s to 0.8 s."""
    items = []
    for time in np.arange(0.1, 0.8, 1.0 / 30.0):
        transform = PLANAR.fk(arm(time))
        quaternion = Rotation.from_matrix(transform[:3, :3]).as_quat()
        items.append(pose(float(time), transform[:3, 3], quaternion * (-1.0) ** len(items), frame=frame))
    return items


def test_recorded_poses_are_aligned_in_time_with_the_configurations(tmp_path: Path) -> None:
    items = sorted([*arm_states(), *arm_poses()], key=lambda item: item[2])
    poses, q, (report,) = import_pairs(
        [write_own(tmp_path / "bag", items)], Selection(robot=PLANAR), PairForm(pose_topic="/pose")
    )
    assert 70 <= len(q) <= 71
    assert report.dropped["configurations without a pose within 0.2 s"] == 100 - len(q)
    # error of linear interpolation between poses 1/30 s apart, for accelerations below 12 m/s^2
    assert np.allclose(poses, PLANAR.fk(q), rtol=0, atol=12 / 30**2 / 8)
    assert "differ from forward kinematics" in report.notes[0]


def test_poses_in_another_frame_are_refused(tmp_path: Path) -> None:
    items = sorted([*arm_states(), *arm_poses("world")], key=lambda item: item[2])
    with pytest.raises(DataError, match="in frame 'world', expected the base link 'base_link'"):
        import_pairs([write_own(tmp_path / "bag", items)], Selection(robot=PLANAR), PairForm(pose_topic="/pose"))


def test_pairs_survive_gaps_and_leave_out_what_is_out_of_limits(tmp_path: Path) -> None:
    items = [item for i, item in enumerate(arm_states()) if not 30 <= i < 60]
    items += [joint_state(time, PLANAR.joint_names, [4.0, 0.0, 0.0]) for time in (1.0, 1.01)]
    _, q, (report,) = import_pairs([write_own(tmp_path / "bag", items)], Selection(robot=PLANAR), PairForm())
    assert len(q) == 70
    assert "gap of 0.310 s" in report.segments[0].reason
    assert report.dropped["configurations outside the robot's limits"] == 2


def test_continuous_joint_does_not_jump_at_half_a_turn(tmp_path: Path) -> None:
    robot = Robot(chain_urdf(joint("turn", "continuous", "l0", "l1", '<origin xyz="1 0 0"/><axis xyz="0 0 1"/>')))
    angles = np.linspace(2.0, 5.0, 100)
    wrapped = (angles + np.pi) % (2 * np.pi) - np.pi
    items = [joint_state(0.01 * i, ["turn"], [angle]) for i, angle in enumerate(wrapped)]
    folder = write_own(tmp_path / "bag", items)
    data_set, _ = motions(folder, Selection(robot=robot), n_points=100)
    assert np.allclose(data_set.sample[0], angles, rtol=0, atol=1e-9)
    assert (data_set.description["lower"], data_set.description["upper"]) == ([None], [None])
    _, q, _ = import_pairs([folder], Selection(robot=robot), PairForm())
    assert np.allclose(q[:, 0], wrapped, rtol=0, atol=1e-9)
