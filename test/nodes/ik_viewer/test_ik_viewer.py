"""The node `ik_viewer` is tested as a real process. Messages like RViz's drag the target; markers show solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml
from geometry_msgs.msg import PoseStamped, TransformStamped
from nodes.client_node import ClientNode
from nodes.server_process import ServerProcess
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from visualization_msgs.msg import InteractiveMarkerFeedback, InteractiveMarkerUpdate, Marker, MarkerArray
from visualization_msgs.srv import GetInteractiveMarkers

from eim_ros.kinematics import Robot, pose_from, share_path
from eim_ros.nodes.common.interfaces import TFMessage
from eim_ros.nodes.common.messages import pose_message, transform_of
from eim_ros.nodes.common.qos import LATCHED_QOS

NODE = "/ik_viewer"
ROBOT = Robot("panda")
DOWN = (1.0, 0.0, 0.0, 0.0)
TOLERANCE = 1e-6  # tolerance of a solution [m]


class Listener:
    """Client that listens to the topics of the node and sends feedback like RViz."""

    def __init__(self, client: ClientNode, server: ServerProcess) -> None:
        self.client, self.server = client, server
        self.markers: list[MarkerArray] = []
        self.chosen: list[JointState] = []
        self.updates: list[InteractiveMarkerUpdate] = []
        node = client.node
        node.create_subscription(MarkerArray, f"{NODE}/solutions", self.markers.append, LATCHED_QOS)
        node.create_subscription(JointState, f"{NODE}/chosen", self.chosen.append, LATCHED_QOS)
        updates = QoSProfile(depth=100)
        node.create_subscription(InteractiveMarkerUpdate, f"{NODE}/target/update", self.updates.append, updates)
        self.feedback = node.create_publisher(InteractiveMarkerFeedback, f"{NODE}/target/feedback", 1)
        self.targets = node.create_publisher(PoseStamped, f"{NODE}/set_target", 10)
        self.hear(lambda: self.markers and self.chosen, "the first solutions")
        for publisher in (self.feedback, self.targets):
            self.hear(lambda publisher=publisher: publisher.get_subscription_count(), "a subscription")

    def hear(self, wanted: Callable[[], Any], what: str) -> None:
        self.client.hear(self.server, wanted, what)

    def drag(self, pose: np.ndarray) -> None:
        message = InteractiveMarkerFeedback(client_id="rviz", marker_name="target", control_name="move_x")
        message.event_type, message.pose = InteractiveMarkerFeedback.POSE_UPDATE, pose_message(pose)
        message.header.frame_id = ROBOT.base_link
        self.feedback.publish(message)


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    started = start_server(node="ik_viewer", robot="panda", n_solutions=30)
    started.wait_for_log("configured for 'panda'")
    return started


@pytest.fixture(scope="module")
def listener(client_of_file: ClientNode, server: ServerProcess) -> Listener:
    return Listener(client_of_file, server)


def tips(message: MarkerArray) -> np.ndarray:
    """Return the tips of all ghosts. A tip is the end of the last line of a ghost."""
    n_lines = ROBOT.skeleton(np.zeros(ROBOT.dof)).shape[0] - 1
    ghosts = [marker for marker in message.markers if marker.ns == "ghosts"]
    assert all(marker.type == Marker.LINE_LIST for marker in ghosts)
    points = np.array([[point.x, point.y, point.z] for marker in ghosts for point in marker.points])
    return points.reshape(-1, n_lines, 2, 3)[:, -1, 1]


def marker_of(client: ClientNode, server: ServerProcess) -> Any:
    client.waits_for_start = False
    name = f"{NODE}/target/get_interactive_markers"
    return client.call(server, GetInteractiveMarkers, name, GetInteractiveMarkers.Request())


def test_all_ghosts_reach_the_target_where_it_is_dragged_to(listener: Listener) -> None:
    pose = pose_from([0.4, 0.1, 0.5], DOWN)
    listener.drag(pose)
    listener.hear(
        lambda: np.linalg.norm(tips(listener.markers[-1])[:1] - pose[:3, 3]) < 0.01, "the new target's markers"
    )
    found = tips(listener.markers[-1])
    assert len(found) == 30
    np.testing.assert_allclose(found, np.broadcast_to(pose[:3, 3], found.shape), rtol=0, atol=TOLERANCE)
    components = {marker.id for marker in listener.markers[-1].markers if marker.ns == "self_motions"}
    assert {marker.id for marker in listener.markers[-1].markers if marker.ns == "ghosts"} <= components
    listener.hear(lambda: ROBOT.verify(np.array(listener.chosen[-1].position), pose)[1].all(), "the chosen solution")
    assert tuple(listener.chosen[-1].name) == ROBOT.joint_names
    assert listener.markers[-1].markers[0].action == Marker.DELETEALL
    assert {marker.header.frame_id for marker in listener.markers[-1].markers[1:]} == {ROBOT.base_link}


def test_clients_get_the_marker_and_then_every_move_by_number(
    client: ClientNode, server: ServerProcess, listener: Listener
) -> None:
    known = marker_of(client, server)
    assert [marker.name for marker in known.markers] == ["target"]
    assert known.markers[0].header.frame_id == ROBOT.base_link
    assert len(known.markers[0].controls) == 6
    listener.updates.clear()
    pose = pose_from([0.5, 0.1, 0.4], DOWN)
    message = PoseStamped(pose=pose_message(pose))
    listener.targets.publish(message)
    listener.hear(lambda: listener.updates, "an update of the marker")
    assert listener.updates[0].seq_num == known.sequence_number + 1
    np.testing.assert_allclose(transform_of(listener.updates[0].poses[0].pose), pose, atol=1e-12)
    again = marker_of(client, server)
    assert again.sequence_number == known.sequence_number + 1
    np.testing.assert_allclose(transform_of(again.markers[0].pose), pose, atol=1e-12)


def target_in(frame: str, pose: np.ndarray, stamp: int = 0) -> PoseStamped:
    message = PoseStamped(pose=pose_message(pose))
    message.header.frame_id, message.header.stamp.sec = frame, stamp
    return message


def send_transform(publisher: Any, child: str, pose: np.ndarray, stamp: int = 0) -> None:
    """Publish the pose of a frame in the base frame of the robot."""
    transform = TransformStamped(child_frame_id=child)
    transform.header.frame_id, transform.header.stamp.sec = ROBOT.base_link, stamp
    place, told = transform.transform, pose_message(pose)
    place.translation.x, place.translation.y, place.translation.z = pose[:3, 3].tolist()
    place.rotation = told.orientation
    publisher.publish(TFMessage(transforms=[transform]))


def test_a_target_in_a_frame_of_tf_is_solved_and_moves_along_with_its_frame(
    client_of_file: ClientNode, listener: Listener
) -> None:
    tf = client_of_file.node.create_publisher(TFMessage, "/tf", 10)
    listener.hear(tf.get_subscription_count, "the node's subscription to tf")
    in_belt = pose_from([0.1, 0.0, 0.05], DOWN)
    for stamp, along in ((100, 0.0), (101, 0.1)):
        belt = pose_from([0.35, along, 0.4], [0.0, 0.0, 0.6, 0.8])
        wanted = belt @ in_belt

        def is_solved(belt: np.ndarray = belt, stamp: int = stamp, wanted: np.ndarray = wanted) -> bool:
            send_transform(tf, "belt", belt, stamp)  # repeated: the subscription may belong to an ended node
            if stamp == 100:
                listener.targets.publish(target_in("belt", in_belt))
            found = tips(listener.markers[-1])
            return bool(len(found)) and bool(np.abs(found - wanted[:3, 3]).max() < 1e-5)

        listener.hear(is_solved, f"solutions of the target on the belt at {along} m")
        listener.hear(
            lambda wanted=wanted: ROBOT.verify(np.array(listener.chosen[-1].position), wanted)[1].all(),
            "the chosen one",
        )


def test_out_of_reach_there_is_nothing_to_show(listener: Listener) -> None:
    listener.drag(pose_from([4.0, 0.0, 0.0]))
    listener.hear(lambda: not listener.chosen[-1].name, "that there is no solution")
    listener.hear(lambda: len(listener.markers[-1].markers) == 1, "markers that are gone")


def test_an_inactive_node_takes_no_target_and_shows_no_marker(
    client: ClientNode, server: ServerProcess, listener: Listener
) -> None:
    client.waits_for_start = False
    assert client.change_state(server, "deactivate", NODE)
    assert marker_of(client, server).markers == []

    def is_refused() -> bool:  # repeated: the log has at most one warning per second
        listener.targets.publish(PoseStamped(pose=pose_message(pose_from([0.4, 0.1, 0.5], DOWN))))
        return "ik_viewer is inactive, not active" in server.log

    listener.hear(is_refused, "that the node is inactive")
    assert client.change_state(server, "activate", NODE)
    assert len(marker_of(client, server).markers) == 1


def test_the_configuration_of_rviz_listens_to_the_topics_of_the_node() -> None:
    shown = yaml.safe_load(share_path("config/ik_viewer.rviz").read_text())["Visualization Manager"]["Displays"]
    by_name = {display["Name"]: display for display in shown}
    assert by_name["Solutions"]["Topic"]["Value"] == f"{NODE}/solutions"
    assert by_name["Solutions"]["Topic"]["Durability Policy"] == "Transient Local"
    assert by_name["Target"]["Interactive Markers Namespace"] == f"{NODE}/target"
