"""Parsers to be fuzzed. Each has a writer for seed files and a reader for arbitrary bytes.

A reader may raise an `EimError`. Any other exception is a bug. A reader that does not return is also a bug.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.reader import open_bag, recover_bag
from eim_ros.bags.selection import Selection
from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import EimError
from eim_ros.core.files import BLANK, sealed
from eim_ros.core.settings import read_yaml
from eim_ros.core.tables import load_columns
from eim_ros.ik import CapabilityGrid, CapabilityMap, IKModel
from eim_ros.kinematics import CollisionOptions, Robot, refine
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.srdf import srdf_groups
from eim_ros.learning import EMConfig

__all__ = ["TARGETS", "Target", "parsed"]

MARKS = (b'\\"file_sha256\\": \\"', b"eim_ros sha256 ")  # prefix of the digest in a model and in a data set

URDF = """<robot name="arm">
<link name="l0"><collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
<link name="l1"><collision><origin xyz="0 0 0.1" rpy="0 1 0"/><geometry><cylinder radius="0.1" length="0.2"/></geometry>
</collision></link><link name="l2"/>
<link name="l3"><collision><geometry><sphere radius="0.1"/></geometry></collision></link>
<joint name="a" type="revolute"><parent link="l0"/><child link="l1"/><origin xyz="0 0 0.1" rpy="0 0.5 0"/>
<axis xyz="0 0 1"/><limit lower="-1" upper="2" effort="1" velocity="1"/></joint>
<joint name="b" type="continuous"><parent link="l1"/><child link="l2"/><axis xyz="0 1 0"/></joint>
<joint name="c" type="prismatic"><parent link="l2"/><child link="l3"/><limit lower="0" upper="0.2"/>
<mimic joint="a" multiplier="0.1" offset="0.05"/></joint></robot>
"""
SRDF = """<robot name="planar3"><group name="arm"><chain base_link="base_link" tip_link="tip_link"/></group>
<group name="all"><group name="arm"/><joint name="joint_1"/><link name="tip_link"/></group>
<disable_collisions link1="base_link" link2="tip_link" reason="Adjacent"/></robot>
"""
YAML = b"n_components: 12\nhard: false\ntolerance: 1e-3\ncomponents: linear\nparameter_layers: [50, 50]\n"


@dataclass(frozen=True)
class Target:
    """Parser to be fuzzed.

    Attributes
    ----------
    seeds : callable
        Return the contents of files from our own writers, given a scratch folder.
    read : callable
        Read the file at a path.
    suffix : str
        Suffix of the file's name.
    """

    seeds: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    suffix: str


def parsed(target: Target, content: bytes, folder: Path) -> list[EimError]:
    """Read a file with this content and return the errors. If it has a digest, also read a copy with a correct digest.

    Without the copy, damaged files would never pass the check of the digest.
    """
    refusals = []
    for number, variant in enumerate(dict.fromkeys((content, _with_right_digest(content)))):
        path = folder / f"file{number}{target.suffix}"
        path.write_bytes(variant)
        try:
            target.read(path)
        except EimError as error:
            refusals.append(error)
    return refusals


def _with_right_digest(content: bytes) -> bytes:
    for mark in MARKS:
        found = re.search(re.escape(mark) + rb"[0-9a-f]{64}", content)
        if found:
            start = found.start() + len(mark)
            return sealed(content[:start] + BLANK.encode() + content[start + len(BLANK) :], mark)
    return content


def _model(folder: Path) -> list[bytes]:
    import torch

    from eim_ros.learning.models import MixtureOfExperts

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(*shape, dtype=torch.float64)

    tensors = {
        "gating.weights": zeros(2, 3),
        "gating.biases": zeros(2),
        "experts.weights": zeros(2, 3, 3),
        "experts.biases": zeros(2, 3),
        "experts.scale_trils": torch.eye(3, dtype=torch.float64).repeat(2, 1, 1),
    }
    model = IKModel(MixtureOfExperts.from_tensors(tensors), Robot("planar3"), "position", {"data_source": "drawn"})
    model.save(folder / "model.safetensors")
    return [(folder / "model.safetensors").read_bytes()]


def _data_set(folder: Path) -> list[bytes]:
    data_set = DataSet(np.arange(6.0).reshape(3, 2), np.arange(9.0).reshape(3, 3), {"robot": "planar3", "n": 3})
    save_data_set(folder / "data.npz", data_set)
    return [(folder / "data.npz").read_bytes()]


def _arrays(folder: Path) -> list[bytes]:
    np.savez(folder / "own.npz", x=np.arange(3.0), y=np.arange(6.0).reshape(3, 2))
    return [(folder / "own.npz").read_bytes()]


def _read_columns(path: Path) -> None:
    load_columns(path, ["x"], ["y"])


def _map(folder: Path) -> list[bytes]:
    grid = CapabilityGrid((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0.5, 2, 1, 1)
    CapabilityMap.of("planar3", grid, np.zeros((grid.n_poses, 4), dtype=np.float32)).save(folder / "map.npz")
    return [(folder / "map.npz").read_bytes()]


def _bag(folder: Path, suffix: str, gripper: str = "") -> list[bytes]:
    """Write a bag of joint states. If a topic for a gripper is given, the bag also contains its joint states."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    from eim_ros.bags.writer import standard_types

    types, kind = standard_types(), "sensor_msgs/msg/JointState"
    storage = StoragePlugin.MCAP if suffix == ".mcap" else StoragePlugin.SQLITE3
    publishers = {"/joint_states": ["a", "b"]} | ({gripper: ["c"]} if gripper else {})
    with Writer(folder / f"bag{gripper.replace('/', '_')}", version=9, storage_plugin=storage) as writer:
        connections = {topic: writer.add_connection(topic, kind, typestore=types) for topic in publishers}
        for i in range(20):
            for topic, names in publishers.items():
                stamp = types.types["builtin_interfaces/msg/Time"](sec=1, nanosec=10_000_000 * i)
                header = types.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
                values = np.array([0.01 * i, 1.0][: len(names)])
                state = types.types[kind](header=header, name=names, position=values, velocity=values, effort=values)
                writer.write(connections[topic], 1_000_000_000 + 10_000_000 * i, types.serialize_cdr(state, kind))
        written = writer.path
    return [path.read_bytes() for path in written.iterdir() if path.suffix == suffix]


def _compressed_bag(folder: Path) -> list[bytes]:
    import zstandard

    return [zstandard.ZstdCompressor().compress(content) for content in _bag(folder, ".mcap")]


def _own_bag(folder: Path) -> list[bytes]:
    from eim_ros.bags.writer import BagWriter, Topic

    writer = BagWriter(folder / "own")
    channel = writer.add_topic(Topic("/note", "std_msgs/msg/String"))
    for i in range(3):
        writer.write(channel, i, b"\0\1\0\0\2\0\0\0a\0")
    writer.close()
    return [path.read_bytes() for path in (folder / "own").iterdir() if path.suffix == ".mcap"]


def _read_bag(path: Path) -> None:
    with open_bag(path) as bag:
        for _ in bag.messages(list(bag.topics)):
            pass
    import_motions([path], Selection(), MotionForm(n_points=5))


def _read_publishers(path: Path) -> None:
    import_motions([path], Selection(joint_names=("a", "b", "c")), MotionForm(n_points=5))


def _recover(path: Path) -> None:
    recover_bag(path)
    _read_bag(path)


def _read_metadata(path: Path) -> None:
    """Read the metadata of a bag without its data file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "metadata.yaml").write_bytes(path.read_bytes())
        _read_bag(Path(folder))


def _metadata(folder: Path) -> list[bytes]:
    _bag(folder, ".mcap")
    return [(folder / "bag" / "metadata.yaml").read_bytes()]


def _read_urdf(path: Path) -> None:
    robot = Robot(path)
    robot.fk(0.5 * (robot.lower + robot.upper))
    with contextlib.suppress(EimError):
        refine(robot, robot.random(1, seed=0), np.eye(4))
    collision_model(robot)


def _read_srdf(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    robot = Robot(Robot("planar3").urdf, collision=CollisionOptions(srdf=text))
    srdf_groups(robot, text)
    collision_model(robot)


def _read_yaml(path: Path) -> None:
    EMConfig.from_mapping(read_yaml(path))


TARGETS: dict[str, Target] = {
    "model": Target(_model, IKModel.load, ".safetensors"),
    "data_set": Target(_data_set, load_data_set, ".npz"),
    "table": Target(lambda _: [b"x,y\n1,2\n3,4\n"], _read_columns, ".csv"),
    "arrays": Target(_arrays, _read_columns, ".npz"),
    "map": Target(_map, CapabilityMap.load, ".npz"),
    "mcap": Target(lambda folder: _bag(folder, ".mcap") + _own_bag(folder), _read_bag, ".mcap"),
    "compressed": Target(_compressed_bag, _read_bag, ".mcap.zstd"),
    "publishers": Target(lambda folder: _bag(folder, ".mcap", "/gripper"), _read_publishers, ".mcap"),
    "recover": Target(_own_bag, _recover, ".mcap"),
    "sqlite": Target(lambda folder: _bag(folder, ".db3"), _read_bag, ".db3"),
    "metadata": Target(_metadata, _read_metadata, ".yaml"),
    "urdf": Target(lambda _: [URDF.encode()], _read_urdf, ".urdf"),
    "srdf": Target(lambda _: [SRDF.encode()], _read_srdf, ".srdf"),
    "yaml": Target(lambda _: [YAML], _read_yaml, ".yaml"),
}
