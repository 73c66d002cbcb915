"""The node `demo_recorder` as a real process: what was published is in the bag, whatever happens to the recorder."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from geometry_msgs.msg import PoseStamped
from nodes.client_node import ClientNode
from nodes.recorder_client import Robot, status, trigger
from nodes.server_process import ServerProcess, wait_until
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosbags.highlevel import AnyReader

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.reader import open_bag
from eim_ros.bags.selection import Selection
from eim_ros.bags.series import Cuts
from eim_ros.msg import RecorderStatus, ViaPoint
from eim_ros.srv import LabelRecording, StartRecording

NODE = "/demo_recorder"
JOINTS = ("j1", "j2")


@pytest.fixture(scope="module")
def recorder(start_server: Callable[..., ServerProcess], tmp_path_factory: pytest.TempPathFactory) -> ServerProcess:
    folder = tmp_path_factory.mktemp("demos")
    return start_server(node="demo_recorder", folder=folder, min_free_space=1_000_000, status_period=0.1)


@pytest.fixture
def robot(client: ClientNode, recorder: ServerProcess) -> Iterator[Robot]:
    made = Robot(client, "/joint_states", JOINTS)
    made.wait_for_no_listener(recorder)
    yield made
    made.destroy()


def start(
    client: ClientNode,
    server: ServerProcess,
    path: Path | str,
    topics: tuple[str, ...] = (),
    label: str = "",
    node: str = NODE,
) -> Any:
    request = StartRecording.Request(path=str(path), topics=list(topics), label=label)
    return client.call(server, StartRecording, f"{node}/start", request)


def stop(client: ClientNode, server: ServerProcess) -> Any:
    return trigger(client, server, f"{NODE}/stop")


def recorded(folder: Path) -> list[tuple[str, Any]]:
    """Topic and message of all in a bag, as rosbags reads it."""
    with AnyReader([folder]) as reader:
        return [
            (connection.topic, reader.deserialize(data, connection.msgtype))
            for connection, _, data in reader.messages()
        ]


def positions(folder: Path, topic: str = "/joint_states") -> list[float]:
    return [message.position[0] for name, message in recorded(folder) if name == topic]


def status_of(
    client: ClientNode, server: ServerProcess, wanted: Callable[[Any], bool], what: str, node: str = NODE
) -> RecorderStatus:
    return status(client, server, RecorderStatus, f"{node}/status", wanted, what)


def test_everything_that_was_published_is_in_the_bag_with_its_label(
    client: ClientNode, recorder: ServerProcess, robot: Robot, tmp_path: Path
) -> None:
    answer = start(client, recorder, tmp_path / "bag", label="first")
    assert answer.success, answer.message
    assert answer.path == str(tmp_path / "bag")
    robot.wait_for_listener(recorder)
    again = start(client, recorder, tmp_path / "other")
    assert (again.success, "already recording" in again.message) == (False, True)
    assert not (tmp_path / "other").exists()
    for i in range(500):
        robot.publish([i, 0.0])
    status_of(client, recorder, lambda message: list(message.n_messages) == [500], "500 messages")
    label = client.call(recorder, LabelRecording, f"{NODE}/label", LabelRecording.Request(label="second"))
    assert label.success, label.message
    for i in range(500, 600):
        robot.publish([i, 0.0])
    told = status_of(client, recorder, lambda message: list(message.n_messages) == [600], "600 messages")
    assert (told.recording, told.label, told.n_segments) == (True, "second", 2)
    assert list(told.topics) == ["/joint_states"]
    assert list(told.n_lost) == [0]
    assert told.size > 600 * 50
    assert told.free_space > 0
    stopped = stop(client, recorder)
    assert stopped.success
    assert "600 messages" in stopped.message
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
    client: ClientNode, recorder: ServerProcess, robot: Robot, tmp_path: Path, n_states: int
) -> None:
    """The publisher keeps the last 1000 joint states, a second of them at 1 kHz."""
    assert start(client, recorder, tmp_path / "bag").success
    robot.wait_for_listener(recorder)
    robot.publish([0.0, 0.0])
    status_of(client, recorder, lambda message: list(message.n_messages) == [1], "the first joint state")
    robot.publish_while_stopped(recorder, n_states)
    told = status_of(
        client, recorder, lambda message: message.n_messages[0] + message.n_lost[0] == 1 + n_states, "all of them"
    )
    assert (told.n_lost[0] == 0) == (n_states <= 1000)
    assert ("lost" in stop(client, recorder).message) == (told.n_lost[0] > 0)
    assert len(positions(tmp_path / "bag")) == told.n_messages[0] > 1000


def test_topics_of_any_type_time_and_reliability_are_recorded_as_they_are(
    client: ClientNode, recorder: ServerProcess, tmp_path: Path
) -> None:
    sensor = Robot(client, "/sensor", JOINTS, reliable=False)
    latched = client.node.create_publisher(
        PoseStamped, "/goal", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    goal = PoseStamped()
    goal.pose.position.x = 0.25
    latched.publish(goal)  # before the recorder listens
    assert start(client, recorder, tmp_path / "bag", topics=("/sensor", "goal", "/via")).success
    own = client.node.create_publisher(ViaPoint, "/via", 10)  # after the start
    sensor.wait_for_listener(recorder)
    status_of(client, recorder, lambda message: "/goal" not in message.message, "the latched goal")
    for _ in range(200):
        sensor.publish([1.0, 2.0])
        own.publish(ViaPoint(phase=0.5, joint_names=["j1"], positions=[3.0]))
        told = status_of(client, recorder, lambda message: True, "a status")
        if all(told.n_messages):
            break
    assert stop(client, recorder).success
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


def test_what_needs_a_recording_is_refused_without_one(client: ClientNode, recorder: ServerProcess) -> None:
    for service in ("stop", "discard"):
        answer = trigger(client, recorder, f"{NODE}/{service}")
        assert not answer.success
        assert "not recording" in answer.message
    label = client.call(recorder, LabelRecording, f"{NODE}/label", LabelRecording.Request(label="a"))
    assert not label.success
    assert "start first" in label.message


@pytest.mark.parametrize(("path", "reason"), [("bag", "exists already"), ("file/bag", "cannot make the folder")])
def test_folder_that_exists_or_cannot_be_made_is_refused(
    client: ClientNode, recorder: ServerProcess, tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "file").write_text("")
    answer = start(client, recorder, tmp_path / path)
    assert (answer.success, reason in answer.message) == (False, True)
    assert list((tmp_path / "bag").iterdir()) == []


def test_topic_that_never_comes_is_told_while_recording_and_at_its_end(
    client: ClientNode, recorder: ServerProcess, tmp_path: Path
) -> None:
    answer = start(client, recorder, tmp_path / "bag", topics=("/nobody",))
    assert answer.success
    assert "nobody publishes /nobody" in answer.message
    told = status_of(client, recorder, lambda message: message.recording, "a status")
    assert "nothing came on /nobody" in told.message
    stopped = stop(client, recorder)
    assert stopped.success
    assert "nothing came on /nobody" in stopped.message
    assert [name for name, _ in recorded(tmp_path / "bag")] == [f"{NODE}/segment"]


def test_later_publisher_with_a_weaker_quality_of_service_is_told(
    client: ClientNode, recorder: ServerProcess, robot: Robot, tmp_path: Path
) -> None:
    assert start(client, recorder, tmp_path / "bag").success
    robot.wait_for_listener(recorder)
    robot.publish([1.0, 0.0])
    weaker = Robot(client, "/joint_states", JOINTS, reliable=False)
    told = status_of(
        client,
        recorder,
        lambda message: "weaker" in message.message and list(message.n_messages) == [1],
        "the weaker publisher",
    )
    assert told.message.startswith("/joint_states: test_client_")
    assert stop(client, recorder).success
    assert positions(tmp_path / "bag") == [1.0]
    weaker.destroy()


def test_discarded_recording_is_gone_and_the_next_one_starts(
    client: ClientNode, recorder: ServerProcess, tmp_path: Path
) -> None:
    for _ in range(2):
        assert start(client, recorder, tmp_path / "bag", topics=("/nobody",)).success
        assert trigger(client, recorder, f"{NODE}/discard").success
        assert not (tmp_path / "bag").exists()


def test_bag_without_a_path_gets_a_name_with_the_time_in_the_folder_of_the_parameter(
    client: ClientNode, recorder: ServerProcess
) -> None:
    paths = []
    for _ in range(2):  # within one second
        answer = start(client, recorder, "", topics=("/nobody",))
        assert answer.success, answer.message
        paths.append(Path(answer.path))
        assert stop(client, recorder).success
    assert paths[0] != paths[1]
    assert all(path.parent.name.startswith("demos") and path.name.startswith("demo_2") for path in paths)
    assert all((path / "metadata.yaml").is_file() for path in paths)


def test_recorder_with_record_at_start_records_until_a_signal_ends_it(
    client: ClientNode, start_server: Callable[..., ServerProcess], robot: Robot, tmp_path: Path
) -> None:
    server = start_server(
        "-r", "__node:=eager", node="demo_recorder", folder=tmp_path / "new", record_at_start=True, min_free_space=0
    )
    server.wait_for_log("recording /joint_states")
    robot.wait_for_listener(server)
    robot.publish([3.0, 0.0])
    status(
        client, server, RecorderStatus, "/eager/status", lambda message: list(message.n_messages) == [1], "1 message"
    )
    server.signal(signal.SIGTERM)
    assert server.wait() == 0, server.log
    (bag,) = (tmp_path / "new").iterdir()
    assert positions(bag) == [3.0]


def set_min_free_space(client: ClientNode, server: ServerProcess, value: int) -> None:
    message = SetParameters.Request(parameters=[Parameter("min_free_space", value=value).to_parameter_msg()])
    assert client.call(server, SetParameters, f"{NODE}/set_parameters", message).results[0].successful


def test_full_disk_ends_a_recording_and_refuses_the_next(
    client: ClientNode, recorder: ServerProcess, robot: Robot, tmp_path: Path
) -> None:
    assert start(client, recorder, tmp_path / "bag").success
    robot.wait_for_listener(recorder)
    robot.publish([1.0, 0.0])
    status_of(client, recorder, lambda message: list(message.n_messages) == [1], "a message")
    set_min_free_space(client, recorder, 2**60)
    told = status_of(client, recorder, lambda message: not message.recording, "end of the recording")
    assert "MB free" in told.message
    stopped = stop(client, recorder)
    assert not stopped.success
    assert "MB free" in stopped.message
    answer = start(client, recorder, tmp_path / "other")
    assert not answer.success
    assert "MB free" in answer.message
    assert not (tmp_path / "other").exists()
    set_min_free_space(client, recorder, 1_000_000)
    assert positions(tmp_path / "bag") == [1.0]


def test_killed_recorder_leaves_what_came_before_the_last_flush(
    client: ClientNode, start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = start_server("-r", "__node:=third", node="demo_recorder", min_free_space=0)
    robot = Robot(client, "/third/states", JOINTS)
    assert start(client, server, tmp_path / "bag", ("/third/states",), "a", "/third").success
    robot.wait_for_listener(server)
    for i in range(500):
        robot.publish([i, 0.0])

    def found() -> list[tuple[str, Any]]:
        with open_bag(tmp_path / "bag") as bag:  # reads what is cut off, as in the moment of a flush
            return [(name, message) for name, _, message in bag.messages(bag.topics)]

    wait_until(lambda: len(found()) == 1 + 500, "flush", server)
    for i in range(500, 1000):
        robot.publish([i, 0.0])
    server.kill()
    robot.destroy()
    (_, label), *states = found()
    assert label.data == "a"
    assert [message.position[0] for _, message in states] == list(range(len(states)))
    assert len(states) >= 500
