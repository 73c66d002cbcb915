"""Bags from the recorder follow the conventions of rosbag2, and the library rosbags can read them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from bags.example_bags import ITEMS_OF_A_ROBOT, JOINT_STATE, START, TYPES, data_file, joint_state, serialized, write_own
from mcap.records import Channel, Header, Schema
from mcap.stream_reader import StreamReader
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from eim_ros.bags.reader import open_bag
from eim_ros.bags.writer import BagWriter, Topic
from eim_ros.core.errors import DataError

FOREVER = QosTime(9223372036, 854775807)
QOS = Qos(
    QosHistory.KEEP_LAST,
    7,
    QosReliability.RELIABLE,
    QosDurability.TRANSIENT_LOCAL,
    FOREVER,
    FOREVER,
    QosLiveliness.AUTOMATIC,
    FOREVER,
    False,
)


def test_rosbags_reads_every_message_with_its_own_definitions(tmp_path: Path) -> None:
    folder = write_own(tmp_path / "bag", ITEMS_OF_A_ROBOT)
    with AnyReader([folder]) as reader:
        found = [
            (connection.topic, time, reader.deserialize(data, connection.msgtype))
            for connection, time, data in reader.messages()
        ]
    assert [(topic, time) for topic, time, _ in found] == [(item[0], item[2]) for item in ITEMS_OF_A_ROBOT]
    for (_, _, message), item in zip(found, ITEMS_OF_A_ROBOT, strict=True):
        assert bytes(TYPES.serialize_cdr(message, item[1])) == serialized(item)


def test_metadata_follow_rosbag2_version_9(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    channel = writer.add_topic(Topic("/joint_states", JOINT_STATE, qos=(QOS,)))
    for i in range(5):
        writer.write(channel, START + i, serialized(joint_state(i, ["j"], [0.0])))
    writer.close()
    text = (tmp_path / "bag" / "metadata.yaml").read_text()
    assert "&id" not in text
    content = yaml.safe_load(text)["rosbag2_bagfile_information"]
    assert content["version"] == 9
    assert content["storage_identifier"] == "mcap"
    assert content["relative_file_paths"] == ["bag_0.mcap"]
    assert content["starting_time"] == {"nanoseconds_since_epoch": START}
    assert content["duration"] == {"nanoseconds": 4}
    assert content["message_count"] == content["files"][0]["message_count"] == 5
    (topic,) = content["topics_with_message_count"]
    assert topic["message_count"] == 5
    about = topic["topic_metadata"]
    assert (about["name"], about["type"], about["serialization_format"]) == ("/joint_states", JOINT_STATE, "cdr")
    assert about["type_description_hash"] == TYPES.hash_rihs01(JOINT_STATE)
    (offered,) = about["offered_qos_profiles"]
    assert (offered["depth"], offered["reliability"], offered["durability"]) == (7, "reliable", "transient_local")


def test_channels_and_schemas_follow_the_profile_ros2(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    channel = writer.add_topic(Topic("/joint_states", JOINT_STATE, qos=(QOS,)))
    writer.write(channel, START, serialized(joint_state(0, ["j"], [0.0])))
    writer.close()
    with data_file(tmp_path / "bag").open("rb") as file:
        records = {type(record): record for record in StreamReader(file).records}
    schema, channel_record = records[Schema], records[Channel]
    assert records[Header].profile == "ros2"
    assert (schema.name, schema.encoding) == (JOINT_STATE, "ros2msg")
    assert schema.data.decode() == TYPES.generate_msgdef(JOINT_STATE, ros_version=2)[0]
    assert (channel_record.topic, channel_record.message_encoding) == ("/joint_states", "cdr")
    about = channel_record.metadata
    assert yaml.safe_load(about["offered_qos_profiles"])[0]["depth"] == 7
    assert about["topic_type_hash"] == TYPES.hash_rihs01(JOINT_STATE)


def test_flush_comes_with_the_clock_and_not_with_each_message(tmp_path: Path) -> None:
    now = [0.0]
    writer = BagWriter(tmp_path / "bag", flush_period=0.25, clock=lambda: now[0])
    channel = writer.add_topic(Topic("/joint_states", JOINT_STATE))
    data = serialized(joint_state(0, ["j"], [0.0]))

    def n_readable() -> int:
        with open_bag(tmp_path / "bag") as bag:
            return sum(1 for _ in bag.messages(["/joint_states"]))

    writer.write(channel, START, data)
    assert n_readable() == 0
    now[0] = 0.26
    writer.write(channel, START + 1, data)
    assert n_readable() == 2
    writer.write(channel, START + 2, data)
    now[0] = 0.52
    writer.tick()
    assert n_readable() == 3
    writer.close()


def test_definitions_of_our_own_types_are_found_where_they_are_installed(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    writer.add_topic(Topic("/status", "eim_ros/msg/RecorderStatus"))
    writer.close()
    with AnyReader([tmp_path / "bag"]) as reader:
        assert "n_lost" in reader.connections[0].msgdef.data
        assert "eim_ros/msg/RecorderStatus" in reader.typestore.fielddefs


def test_unknown_type_is_refused_by_name_and_the_bag_goes_on(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    with pytest.raises(DataError, match="definition of the message type nobody_msgs/msg/Unknown cannot be read"):
        writer.add_topic(Topic("/x", "nobody_msgs/msg/Unknown"))
    channel = writer.add_topic(Topic("/joint_states", JOINT_STATE))
    writer.write(channel, START, serialized(joint_state(0, ["j"], [0.0])))
    writer.close()
    with open_bag(tmp_path / "bag") as bag:
        assert len(list(bag.messages(["/joint_states"]))) == 1


def test_existing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exists, and bags are never overwritten"):
        BagWriter(tmp_path)


def test_discarded_bag_is_gone(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "bag")
    writer.label("a", START)
    writer.discard()
    assert list(tmp_path.iterdir()) == []
