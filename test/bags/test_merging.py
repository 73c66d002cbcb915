"""Joint states of several publishers, such as an arm and a gripper or two arms, are merged by time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bags.example_bags import START, Item, joint_state, pose, write_own, write_standard
from kinematics.descriptions import chain_urdf, joint

from eim_ros.bags.importing import EpisodeForm, MotionForm, PairForm, import_episodes, import_motions, import_pairs
from eim_ros.bags.selection import BagReport, Selection
from eim_ros.bags.series import Cuts
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

ARM, GRIPPER = ("j1", "j2", "j3"), ("finger",)
WANTED = (*ARM, *GRIPPER)
ROUNDING = 1e-6  # tolerance for time stamps in integer nanoseconds, while joints move slower than 10 rad/s
Values = Callable[[float], list[float]]


def arm(time: float) -> list[float]:
    return [0.5 * time, 1.0 - 0.2 * time, 0.1 * time]  # linear in time, so that interpolation is exact


def finger(time: float) -> list[float]:
    return [0.01 + 0.01 * time]


def published(
    names: tuple[str, ...],
    values: Values,
    topic: str = "/joint_states",
    *,
    rate: float = 50.0,
    begin: float = 0.0,
    end: float = 2.0,
    clock: float = 0.0,
) -> list[Item]:
    """Return joint states whose time stamps are `clock` [s] ahead of the recorder's clock."""
    times = np.arange(begin, end, 1.0 / rate).tolist()
    return [joint_state(time + clock, names, values(time), topic, arrival=time) for time in times]


def in_turn(*publishers: list[Item]) -> list[Item]:
    return sorted((item for items in publishers for item in items), key=lambda item: item[2])


def merged(path: Path, wanted: tuple[str, ...] = WANTED, **form: object) -> tuple[np.ndarray, float, BagReport]:
    """Import a bag with one motion; return the motion (n_points, n_joints), its duration [s], and the report."""
    data_set, (report,) = import_motions([path], Selection(joint_names=wanted, **form), MotionForm())
    assert data_set.description["joint_names"] == list(wanted)
    (motion,) = data_set.sample.reshape(len(data_set), -1, len(wanted))
    return motion, data_set.description["durations"][0], report


def expected(begin: float, end: float, *values: Values) -> np.ndarray:
    return np.array([[q for of in values for q in of(time)] for time in np.linspace(begin, end, 50)])


@pytest.mark.parametrize("topic", ["/joint_states", "/gripper/joint_states"])
@pytest.mark.parametrize("write", [write_own, write_standard])
def test_arm_and_gripper_are_merged_by_time(tmp_path: Path, topic: str, write: Callable) -> None:
    """The gripper starts 4 ms later. The first joint state of the arm has no message of the gripper before it."""
    items = in_turn(published(ARM, arm), published(GRIPPER, finger, topic, begin=0.004))
    motion, duration, report = merged(write(tmp_path / "bag", items))
    assert duration == pytest.approx(1.96)
    np.testing.assert_allclose(motion, expected(0.02, 1.98, arm, finger), atol=ROUNDING)
    assert report.notes == ["finger: interpolated at the times of j1, j2, j3 of /joint_states"]
    assert report.dropped == {"joint states without finger within 0.2 s before and after": 1}


@pytest.mark.parametrize("rate", [8.0, 21.0, 500.0])
def test_times_are_those_of_the_publisher_with_most_joints(tmp_path: Path, rate: float) -> None:
    """The result is correct whether the gripper publishes slower or faster."""
    items = in_turn(published(ARM, arm), published(GRIPPER, finger, "/gripper", rate=rate, end=2.1))
    path = write_own(tmp_path / "bag", items)
    motion, duration, report = merged(path)
    assert duration == pytest.approx(1.98)
    assert report.segments[0].n_messages == 100
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)


@pytest.mark.parametrize("clock", [-37.0, 0.5, 1000.0])
def test_clocks_of_publishers_may_differ(tmp_path: Path, clock: float) -> None:
    items = in_turn(published(ARM, arm), published(GRIPPER, finger, "/gripper", clock=clock))
    motion, _, report = merged(write_own(tmp_path / "bag", items))
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)
    way = "ahead of" if clock > 0 else "behind"
    change = f"which is {abs(clock):.3f} s {way} that of j1, j2, j3 of /joint_states"
    assert f"corrected the clock of finger of /gripper, {change}" in report.notes


def test_publisher_without_time_stamps_is_merged_by_arrival(tmp_path: Path) -> None:
    unstamped = [joint_state(-START / 1e9, GRIPPER, finger(0.02 * i), arrival=0.02 * i) for i in range(100)]
    motion, _, report = merged(write_own(tmp_path / "bag", in_turn(published(ARM, arm), unstamped)))
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)
    assert any("finger of /joint_states: its headers have no time stamps" in note for note in report.notes)


def test_slow_simulation_has_one_clock(tmp_path: Path) -> None:
    """At half of real time, a publisher that starts later has a different mean offset but the same clock."""

    def slowed(items: list[Item]) -> list[Item]:
        return [(topic, kind, START + 2 * (arrival - START), message) for topic, kind, arrival, message in items]

    items = in_turn(published(ARM, arm, end=8.0), published(GRIPPER, finger, begin=4.0, end=8.0))
    motion, duration, report = merged(write_own(tmp_path / "bag", slowed(items)))
    assert duration == pytest.approx(3.98)
    np.testing.assert_allclose(motion, expected(4.0, 7.98, arm, finger), atol=ROUNDING)
    assert not any("clock" in note for note in report.notes)


def test_joint_states_are_dropped_while_a_publisher_is_silent(tmp_path: Path) -> None:
    """The gripper starts late, stops early, and pauses for longer than the maximum gap."""
    gripper = published(GRIPPER, finger, begin=0.5, end=3.5)
    gripper = [item for item in gripper if not 2.0 < (item[2] - START) / 1e9 < 2.5]
    path = write_own(tmp_path / "bag", in_turn(published(ARM, arm, end=4.0), gripper))
    with pytest.raises(DataError, match=r"not continuous: there is a gap of 0\.5\d+ s") as caught:
        merged(path)
    (report,) = caught.value.value
    # 25 before the gripper's first value, 25 after its last value at 3.48 s, and 24 in the pause
    assert report.dropped == {"joint states without finger within 0.2 s before and after": 25 + 25 + 24}
    motion, duration, _ = merged(path, cuts=Cuts(max_gap=0.6))
    assert duration == pytest.approx(2.98)
    np.testing.assert_allclose(motion, expected(0.5, 3.48, arm, finger), atol=ROUNDING)


def test_publisher_that_is_too_slow_is_named_with_the_option(tmp_path: Path) -> None:
    path = write_own(tmp_path / "bag", in_turn(published(ARM, arm), published(GRIPPER, finger, rate=2.0, end=2.6)))
    with pytest.raises(DataError, match=r"without finger .*messages come every 0\.5 s: increase --max-gap"):
        merged(path)
    motion, _, _ = merged(path, cuts=Cuts(max_gap=0.6))
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)


def test_publishers_at_different_times_are_refused(tmp_path: Path) -> None:
    path = write_own(tmp_path / "bag", in_turn(published(ARM, arm), published(GRIPPER, finger, begin=3.0, end=4.0)))
    with pytest.raises(DataError, match="cannot be merged, because no joint state is complete: 100 without finger"):
        merged(path)


def test_publisher_of_all_joints_wins(tmp_path: Path) -> None:
    """Example: a node repeats the joint states of all controllers on another topic."""
    raw = published(ARM, lambda time: [9.0, 9.0, 9.0], "/arm", rate=200.0)
    path = write_own(tmp_path / "bag", in_turn(published(WANTED, lambda time: [*arm(time), *finger(time)]), raw))
    motion, _, report = merged(path)
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)
    assert report.dropped == {"joint states without finger": 400}


def test_publisher_of_more_joints_wins_a_joint_of_both_and_the_report_says_so(tmp_path: Path) -> None:
    other = published(("j3", "finger"), lambda time: [7.0, *finger(time)], "/gripper")
    motion, _, report = merged(write_own(tmp_path / "bag", in_turn(published(ARM, arm), other)))
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)
    assert (
        "j3: the positions of j1, j2, j3 of /joint_states are used, not those of j3, finger of /gripper" in report.notes
    )


def test_same_joints_on_two_topics_are_refused_unless_topics_are_chosen(tmp_path: Path) -> None:
    items = in_turn(
        published(ARM, arm, "/left"),
        published(ARM, lambda time: [0.0, time, 0.0], "/right"),
        published(GRIPPER, finger, "/gripper"),
    )
    path = write_own(tmp_path / "bag", items)
    with pytest.raises(DataError, match=r"several topics, /left, /right: select one of them with --joint-topic"):
        merged(path)
    motion, _, _ = merged(path, joint_topics=("/left", "/gripper"))
    np.testing.assert_allclose(motion, expected(0.0, 1.98, arm, finger), atol=ROUNDING)


def test_several_publishers_are_refused_if_no_joints_are_named_and_the_message_names_them(tmp_path: Path) -> None:
    for number, topic in enumerate(("/joint_states", "/gripper")):
        path = write_own(tmp_path / f"{number}", in_turn(published(ARM, arm), published(GRIPPER, finger, topic)))
        with pytest.raises(DataError, match=r"--joints j1,j2,j3,finger or --robot"):
            import_motions([path], Selection(), MotionForm())


def test_joint_that_nobody_publishes_is_named(tmp_path: Path) -> None:
    path = write_own(tmp_path / "bag", in_turn(published(ARM, arm), published(GRIPPER, finger)))
    with pytest.raises(
        DataError, match="no usable joint states of .*: 100 without finger, k1, 100 without j1, j2, j3, k1"
    ):
        merged(path, (*WANTED, "k1"))


def test_joint_that_turns_endlessly_is_merged_without_a_turn_back(tmp_path: Path) -> None:
    def turning(time: float) -> list[float]:
        return [(3.0 + time + np.pi) % (2.0 * np.pi) - np.pi]

    items = in_turn(published(ARM, arm), published(("turn",), turning, rate=21.0, end=2.1))
    hinge = '<origin xyz="1 0 0"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="9"/>'
    turn_joint = joint("turn", "continuous", "l0", "l1", '<axis xyz="0 0 1"/>')
    robot = Robot(chain_urdf(turn_joint, joint("j1", "revolute", "l1", "l2", hinge)))
    data_set, _ = import_motions([write_own(tmp_path / "bag", items)], Selection(robot=robot), MotionForm(n_points=100))
    turn = data_set.sample.reshape(100, 2)[:, 0]
    # near the wrap, there is no interpolation: the nearer of two messages 1/21 s apart is used
    np.testing.assert_allclose(turn, 3.0 + np.linspace(0.0, 1.98, 100), atol=0.5 / 21 + ROUNDING)


def test_spike_of_a_slow_publisher_does_not_spread(tmp_path: Path) -> None:
    """Interpolation would spread a spike in messages at 20 Hz over 50 joint states at 500 Hz."""
    gripper = published(GRIPPER, finger, "/gripper", rate=20.0, end=2.1)
    gripper[20] = joint_state(1.0, GRIPPER, [0.5], "/gripper")
    motion, _, report = merged(write_own(tmp_path / "bag", in_turn(published(ARM, arm, rate=500.0), gripper)))
    np.testing.assert_allclose(motion, expected(0.0, 1.998, arm, finger), atol=ROUNDING)
    assert report.dropped["joint states in which finger jumps away and back"] == 1


def test_poses_of_another_clock_are_paired_with_their_configurations(tmp_path: Path) -> None:
    robot = Robot("planar3")
    items = []
    for i in range(100):
        q = np.array([0.01 * i, 1.0 - 0.01 * i, 0.3])
        items.append(joint_state(0.01 * i, robot.joint_names, q))
        topic, kind, arrival, message = pose(0.01 * i + 37.0, robot.fk(q)[:3, 3])
        items.append((topic, kind, arrival - 37 * 10**9, message))
    path = write_own(tmp_path / "bag", in_turn(items))
    poses, q, (report,) = import_pairs([path], Selection(robot=robot), PairForm(pose_topic="/pose"))
    assert len(q) == 100
    np.testing.assert_allclose(poses[:, :3, 3], robot.fk(q)[:, :3, 3], atol=ROUNDING)
    assert "corrected the clock of /pose, which is 37.000 s ahead of that of the joints" in report.notes


SECOND_ARM = ("k1", "k2")
SHUT_AT = (0.0, 0.5, 1.27)  # the gripper publishes only when it opens or closes


def second_arm(time: float) -> list[float]:
    return [-0.3 * time, 0.4 * time]


def cell(begin: float = 0.0) -> list[Item]:
    """Return messages of two arms with different rates, and of a gripper that rarely publishes 0 (open) or 100."""
    shut = [joint_state(time + begin, GRIPPER, [100.0 * (i % 2)], "/gripper") for i, time in enumerate(SHUT_AT)]
    return in_turn(
        published(ARM, lambda time: arm(time - begin), "/arm", begin=begin, end=begin + 2.0),
        published(SECOND_ARM, lambda time: second_arm(time - begin), "/arm_2", rate=31.0, begin=begin, end=begin + 2.1),
        shut,
    )


@pytest.mark.parametrize("rate", [20.0, 60.0])
def test_episode_has_the_arms_interpolated_and_the_gripper_held(tmp_path: Path, rate: float) -> None:
    bag = write_own(tmp_path / "bag", cell())
    wanted = (*ARM, *GRIPPER, *SECOND_ARM)
    selection = Selection(joint_names=wanted, cuts=Cuts(held=GRIPPER))
    names, (episode,), (report,) = import_episodes([bag], selection, EpisodeForm(rate))
    assert names == wanted
    assert "finger: held at the times of j1, j2, j3 of /arm" in report.notes
    moments = np.arange(len(episode.positions)) / rate
    assert moments[-1] == pytest.approx(1.98, abs=1.0 / rate)  # end of the first arm's messages
    found = episode.positions
    np.testing.assert_allclose(found[:, :3], [arm(time) for time in moments], atol=ROUNDING)
    np.testing.assert_allclose(found[:, 4:], [second_arm(time) for time in moments], atol=ROUNDING)
    sent = np.array(SHUT_AT)
    latest = (
        np.searchsorted(sent, np.floor(50.0 * moments + 1e-6) / 50.0 + 1e-6) - 1
    )  # values are held at the time stamps of the arm
    np.testing.assert_array_equal(found[:, 3], 100.0 * (latest % 2))


def test_gripper_that_is_not_held_cuts_the_episode(tmp_path: Path) -> None:
    """Messages of the gripper are too far apart for interpolation. The previous test holds their values instead."""
    bag = write_own(tmp_path / "bag", cell())
    with pytest.raises(DataError, match=r"without finger within 0.2 s before and after .*increase --max-gap"):
        import_episodes([bag], Selection(joint_names=(*ARM, *GRIPPER)), EpisodeForm())


def test_joint_states_before_the_first_message_of_a_held_joint_are_dropped(tmp_path: Path) -> None:
    items = in_turn(published(ARM, arm, "/arm"), [joint_state(0.5, GRIPPER, [1.0], "/gripper")])
    bag = write_own(tmp_path / "bag", items)
    selection = Selection(joint_names=WANTED, cuts=Cuts(held=GRIPPER))
    _, (episode,), (report,) = import_episodes([bag], selection, EpisodeForm(50.0))
    assert report.dropped == {"joint states before the first finger": 25}
    assert len(episode.positions) == 75


def test_held_joint_that_is_missing_is_named(tmp_path: Path) -> None:
    bag = write_own(tmp_path / "bag", cell())
    with pytest.raises(DataError, match="no joint 'fingre' to hold; the joints are j1, j2, j3"):
        import_episodes([bag], Selection(joint_names=ARM, cuts=Cuts(held=("fingre",))), EpisodeForm())


def test_hand_with_more_joints_than_the_arm_gives_no_times_if_it_is_held(tmp_path: Path) -> None:
    hand = ("a", "b", "c", "d")
    items = in_turn(published(ARM, arm, "/arm"), [joint_state(0.0, hand, [1.0, 2.0, 3.0, 4.0], "/hand")])
    bag = write_own(tmp_path / "bag", items)
    selection = Selection(joint_names=(*ARM, *hand), cuts=Cuts(held=hand))
    _, (episode,), _ = import_episodes([bag], selection, EpisodeForm(50.0))
    np.testing.assert_allclose(episode.positions[:, 3:], np.tile([1.0, 2.0, 3.0, 4.0], (100, 1)))
