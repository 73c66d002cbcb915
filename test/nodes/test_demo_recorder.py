"""Whatever happens to the process of the node `demo_recorder`, published messages are in the bag."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from geometry_msgs.msg import PoseStamped
from nodes.client_node import ClientNode
from nodes.joint_state_publisher import Robot
from nodes.server_process import ServerProcess, wait_until
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosbags.highlevel import AnyReader

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.reader import open_bag
from eim_ros.bags.selection import Selection
from eim_ros.bags.series import Cuts
from eim_ros.msg import RecorderStatus, ViaPoint
from eim_ros.srv import LabelRecording, StartRecording

JOINTS = ("j1", "j2")


class Recorder:
    """Client of the services of the node."""

    def __init__(self, client: ClientNode, server: ServerProcess, node: str = "/demo_recorder") -> None:
        self.client, self.server, self.node = client, server, node

    def start(self, path: Path | str, *topics: str, label: str = "") -> StartRecording.Response:
        request = StartRecording.Request(path=str(path), topics=list(topics), label=label)
        return self.client.call(self.server, StartRecording, f"{self.node}/start", request)

    def label(self, label: str) -> LabelRecording.Response:
        return self.client.call(self.server, LabelRecording, f"{self.node}/label", LabelRecording.Request(label=label))

    def ask(self, service: str) -> Any:
        return self.client.trigger(self.server, f"{self.node}/{service}")

    def status(self, wanted: Callable[[Any], bool], what: str) -> RecorderStatus:
        return self.client.next_message(self.server, RecorderStatus, f"{self.node}/status", wanted, what)

    def counted(self, n: int) -> RecorderStatus:
        """Wait until this number of messages of the only topic is recorded, and return the status."""
        return self.status(lambda message: list(message.n_messages) == [n], f"{n} messages")


@pytest.fixture(scope="module")
def recorder(
    start_server: Callable[..., ServerProcess], tmp_path_factory: pytest.TempPathFactory, client_of_file: ClientNode
) -> Recorder:
    folder = tmp_path_factory.mktemp("demos")
    given = {"folder": folder, "min_free_space": 1_000_000, "status_period": 0.1}
    return Recorder(client_of_file, start_server(node="demo_recorder", **given))


@pytest.fixture
def robot(client: ClientNode, recorder: Recorder) -> Iterator[Robot]:
    made = Robot(client, recorder.server, "/joint_states", JOINTS)
    made.wait_for_no_listener()
    yield made
    made.destroy()


def recorded(folder: Path) -> list[tuple[str, Any]]:
    """Return the topics and the messages of a bag, read by rosbags."""
    with AnyReader([folder]) as reader:
        return [
            (connection.topic, reader.deserialize(data, connection.msgtype))
            for connection, _, data in reader.messages()
        ]


def positions(folder: Path) -> list[float]:
    return [message.position[0] for name, message in recorded(folder) if name == "/joint_states"]


def test_everything_that_was_published_is_in_the_bag_with_its_label(
    recorder: Recorder, robot: Robot, tmp_path: Path
) -> None:
    answer = recorder.start(tmp_path / "bag", label="first")
    assert (answer.success, answer.path) == (True, str(tmp_path / "bag")), answer.message
    robot.wait_for_listener()
    again = recorder.start(tmp_path / "other")
    assert (again.success, "already recording" in again.message) == (False, True)
    assert not (tmp_path / "other").exists()
    for i in range(500):
        robot.publish(i, 0.0)
    recorder.counted(500)
    assert recorder.label("second").success
    for i in range(500, 600):
        robot.publish(i, 0.0)
    told = recorder.counted(600)
    assert (told.recording, told.label, told.n_segments) == (True, "second", 2)
    assert (list(told.topics), list(told.n_lost)) == (["/joint_states"], [0])
    assert told.size > 600 * 50
    assert told.free_space > 0
    stopped = recorder.ask("stop")
    assert (stopped.success, "600 messages" in stopped.message) == (True, True)
    assert positions(tmp_path / "bag") == list(range(600))
    labels = [(i, message.data) for i, (name, message) in enumerate(recorded(tmp_path / "bag")) if "segment" in name]
    assert labels == [(0, "first"), (501, "second")]
    data_set, (report,) = import_motions(
        [tmp_path / "bag"], Selection(cuts=Cuts(max_speed=1e9)), MotionForm(n_points=2, min_duration=1e-4)
    )
    assert data_set.description["labels"] == ["first", "second"]
    assert data_set.sample.reshape(2, 2, 2)[:, :, 0].tolist() == [[0.0, 499.0], [500.0, 599.0]]
    assert [segment.n_messages for segment in report.segments] == [500, 100]


@pytest.mark.parametrize("n_states", [1000, 3000])
def test_busy_moment_loses_nothing_of_a_second_and_what_is_lost_later_is_counted(
    recorder: Recorder, robot: Robot, tmp_path: Path, n_states: int
) -> None:
    """The publisher keeps the last 1000 joint states, which is 1 s at 1 kHz."""
    assert recorder.start(tmp_path / "bag").success
    robot.wait_for_listener()
    robot.publish(0.0, 0.0)
    recorder.counted(1)
    robot.publish_while_stopped(n_states)
    told = recorder.status(lambda message: message.n_messages[0] + message.n_lost[0] == 1 + n_states, "all of them")
    assert (told.n_lost[0] == 0) == (n_states <= 1000)
    assert ("lost" in recorder.ask("stop").message) == (told.n_lost[0] > 0)
    assert len(positions(tmp_path / "bag")) == told.n_messages[0] > 1000


def test_topics_of_any_type_time_and_reliability_are_recorded_as_they_are(
    client: ClientNode, recorder: Recorder, tmp_path: Path
) -> None:
    sensor = Robot(client, recorder.server, "/sensor", JOINTS, reliable=False)
    latched = client.node.create_publisher(
        PoseStamped, "/goal", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    goal = PoseStamped()
    goal.pose.position.x = 0.25
    latched.publish(goal)  # published before the recorder subscribes
    assert recorder.start(tmp_path / "bag", "/sensor", "goal", "/via").success
    own = client.node.create_publisher(ViaPoint, "/via", 10)  # created after the start of the recording
    sensor.wait_for_listener()
    recorder.status(lambda message: "/goal" not in message.message, "the latched goal")
    for _ in range(200):
        sensor.publish(1.0, 2.0)
        own.publish(ViaPoint(phase=0.5, joint_names=["j1"], positions=[3.0]))
        if all(recorder.status(lambda message: True, "a status").n_messages):
            break
    assert recorder.ask("stop").success
    by_topic = dict(recorded(tmp_path / "bag"))
    assert by_topic["/goal"].pose.position.x == 0.25
    assert list(by_topic["/sensor"].position) == [1.0, 2.0]
    assert (by_topic["/via"].phase, list(by_topic["/via"].joint_names)) == (0.5, ["j1"])
    about = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    qos = {
        topic["topic_metadata"]["name"]: topic["topic_metadata"]["offered_qos_profiles"]
        for topic in about["topics_with_message_count"]
    }
    assert qos["/sensor"][0]["reliability"] == "best_effort"
    assert qos["/goal"][0]["durability"] == "transient_local"
    hashes = {
        info.topic_type: str(info.topic_type_hash)
        for topic in ("/goal", "/sensor", "/via")
        for info in client.node.get_publishers_info_by_topic(topic)
    }
    for topic in about["topics_with_message_count"]:
        metadata = topic["topic_metadata"]
        if metadata["type"] in hashes:
            assert metadata["type_description_hash"] == hashes[metadata["type"]]
    sensor.destroy()
    client.node.destroy_publisher(latched)
    client.node.destroy_publisher(own)


def test_what_cannot_be_done_is_refused_with_its_reason(recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "file").touch()
    for answer, reason in (
        (recorder.ask("stop"), "no recording is running"),
        (recorder.ask("discard"), "no recording is running"),
        (recorder.label("a"), "start one first"),
        (recorder.start(tmp_path / "bag"), "exists, and bags are never overwritten"),
        (recorder.start(tmp_path / "file/bag"), "cannot create the folder"),
    ):
        assert (answer.success, reason in answer.message) == (False, True), answer.message
    assert list((tmp_path / "bag").iterdir()) == []


def test_topic_that_never_comes_is_told_and_a_discarded_recording_is_gone(recorder: Recorder, tmp_path: Path) -> None:
    for end in ("discard", "stop"):
        answer = recorder.start(tmp_path / "bag", "/nobody")
        assert (answer.success, "no node publishes /nobody" in answer.message) == (True, True)
        assert "no message arrived on /nobody" in recorder.status(lambda message: message.recording, "a status").message
        ended = recorder.ask(end)
        assert ended.success
        assert (tmp_path / "bag").exists() == (end == "stop")
    assert "no message arrived on /nobody" in ended.message
    assert [name for name, _ in recorded(tmp_path / "bag")] == [f"{recorder.node}/segment"]


def test_later_publisher_with_a_weaker_quality_of_service_is_told(
    client: ClientNode, recorder: Recorder, robot: Robot, tmp_path: Path
) -> None:
    assert recorder.start(tmp_path / "bag").success
    robot.wait_for_listener()
    robot.publish(1.0, 0.0)
    weaker = Robot(client, recorder.server, "/joint_states", JOINTS, reliable=False)
    told = recorder.status(
        lambda message: "weaker" in message.message and list(message.n_messages) == [1], "the weaker publisher"
    )
    assert told.message.startswith("/joint_states: test_client_")
    assert recorder.ask("stop").success
    assert positions(tmp_path / "bag") == [1.0]
    weaker.destroy()


def test_bag_without_a_path_gets_a_name_with_the_time_in_the_folder_of_the_parameter(recorder: Recorder) -> None:
    paths = []
    for _ in range(2):  # two bags in one second need different names
        answer = recorder.start("", "/nobody")
        assert answer.success, answer.message
        paths.append(Path(answer.path))
        assert recorder.ask("stop").success
    assert paths[0] != paths[1]
    assert all(path.parent.name.startswith("demos") and path.name.startswith("demo_2") for path in paths)
    assert all((path / "metadata.yaml").is_file() for path in paths)


def test_recorder_with_record_at_start_records_until_a_signal_ends_it(
    client: ClientNode, start_server: Callable[..., ServerProcess], robot: Robot, tmp_path: Path
) -> None:
    given = {"folder": tmp_path / "new", "record_at_start": True, "min_free_space": 0}
    server = start_server("-r", "__node:=eager", node="demo_recorder", **given)
    server.wait_for_log("recording /joint_states")
    robot.wait_for_listener()
    robot.publish(3.0, 0.0)
    Recorder(client, server, "/eager").counted(1)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0, server.log
    (bag,) = (tmp_path / "new").iterdir()
    assert positions(bag) == [3.0]


def test_full_disk_ends_a_recording_and_refuses_the_next(
    client: ClientNode, recorder: Recorder, robot: Robot, tmp_path: Path
) -> None:
    assert recorder.start(tmp_path / "bag").success
    robot.wait_for_listener()
    robot.publish(1.0, 0.0)
    recorder.counted(1)
    assert not client.set_parameters(recorder.server, recorder.node, min_free_space=2**60)
    assert "MB of free space" in recorder.status(lambda message: not message.recording, "end of the recording").message
    for answer in (recorder.ask("stop"), recorder.start(tmp_path / "other")):
        assert (answer.success, "MB of free space" in answer.message) == (False, True)
    assert not (tmp_path / "other").exists()
    assert not client.set_parameters(recorder.server, recorder.node, min_free_space=1_000_000)
    assert positions(tmp_path / "bag") == [1.0]


def test_killed_recorder_leaves_what_came_before_the_last_flush(
    client: ClientNode, start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = start_server("-r", "__node:=third", node="demo_recorder", min_free_space=0)
    robot = Robot(client, server, "/third/states", JOINTS)
    assert Recorder(client, server, "/third").start(tmp_path / "bag", "/third/states", label="a").success
    robot.wait_for_listener()
    for i in range(500):
        robot.publish(i, 0.0)

    def found() -> list[tuple[str, Any]]:
        with open_bag(tmp_path / "bag") as bag:  # the file may be truncated between two flushes
            return [(name, message) for name, _, message in bag.messages(bag.topics)]

    wait_until(lambda: len(found()) == 1 + 500, "flush", server)
    for i in range(500, 1000):
        robot.publish(i, 0.0)
    server.kill()
    robot.destroy()
    (_, label), *states = found()
    assert label.data == "a"
    assert [message.position[0] for _, message in states] == list(range(len(states)))
    assert len(states) >= 500
