"""The file metadata.yaml beside a bag's data: rosbag2's list of files, topics, counts and times, version 9."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from rosbags.interfaces import Qos
from rosbags.rosbag2.metadata import dump_qos_v9

__all__ = ["METADATA_FILE", "DataFile", "Topic", "bag_metadata", "qos_text"]

METADATA_FILE = "metadata.yaml"
VERSION = 9
_Dumper: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Topic:
    """A topic as it is recorded.

    Attributes
    ----------
    name, type : str
        Such as "/joint_states" and "sensor_msgs/msg/JointState".
    type_hash : str
        RIHS01 of the type; may be empty.
    qos : tuple of Qos
        What its publishers offered.
    """

    name: str
    type: str
    type_hash: str = ""
    qos: tuple[Qos, ...] = ()


@dataclass(frozen=True)
class DataFile:
    """One file of a bag: its name, the times of its first and last message [ns], and how many there are."""

    name: str
    first: int
    last: int
    n_messages: int


def qos_text(topic: Topic) -> str:
    """Offered quality of service, as in the metadata of an MCAP channel."""
    return _yaml(dump_qos_v9(list(topic.qos))) if topic.qos else ""


def bag_metadata(files: Sequence[DataFile], topics: Sequence[Topic], counts: Sequence[int]) -> tuple[str, str]:
    """Content of metadata.yaml, and of the record "rosbag2" inside the MCAP file.

    Parameters
    ----------
    files : sequence of DataFile
        At least one.
    topics, counts
        Topics, and messages of each in all files.
    """
    filled = [file for file in files if file.n_messages] or list(files)
    first, last = min(file.first for file in filled), max(file.last for file in filled)
    content = {
        "version": VERSION,
        "storage_identifier": "mcap",
        **_times(first, last, sum(counts)),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": dump_qos_v9(list(topic.qos)),
                    "type_description_hash": topic.type_hash,
                },
                "message_count": count,
            }
            for topic, count in zip(topics, counts, strict=True)
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.name for file in files],
        "files": [{"path": file.name, **_times(file.first, file.last, file.n_messages)} for file in files],
        "custom_data": None,
        "ros_distro": os.environ.get("ROS_DISTRO", "unknown"),
    }
    return _yaml({"rosbag2_bagfile_information": content}), _yaml(content)


def _times(first: int, last: int, n_messages: int) -> dict[str, Any]:
    return {
        "starting_time": {"nanoseconds_since_epoch": first},
        "duration": {"nanoseconds": last - first},
        "message_count": n_messages,
    }


def _yaml(content: object) -> str:
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, default_flow_style=False))
