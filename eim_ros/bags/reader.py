"""Reading and recovery of bags in the format of rosbag2.

A bag is a folder or a single file (MCAP or sqlite3), and may be truncated. The package rosbags reads it. Messages of a
few standard types (`DECODED_TYPES`) are decoded. Other topics are only listed.

If metadata.yaml is missing or unusable, the files are read one by one. In this case, compressed files are recognised by
the suffix `.zstd`. Compressed messages are recognised by the first bytes of a zstd frame, because no uncompressed
message begins with them.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import zstandard
from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader

from eim_ros.bags.mcap_file import is_whole, recover
from eim_ros.bags.writer import METADATA_FILE, DataFile, Topic, bag_metadata, definition, standard_types
from eim_ros.core.errors import DataError, EimError
from eim_ros.core.files import write_atomically

DECODED_TYPES = (
    "sensor_msgs/msg/JointState",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PointStamped",
    "std_msgs/msg/Float64MultiArray",
    "std_msgs/msg/String",
    "trajectory_msgs/msg/JointTrajectory",
)
SUFFIXES = (".mcap", ".db3")
COMPRESSED = ".zstd"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LARGEST_MESSAGE = 1 << 26  # [byte] limit for a decompressed message; a damaged message may contain any length
LATEST = 1 << 62  # [ns], in the year 2116; later times are damaged, and their differences may exceed 64 bits


@dataclass
class Bag:
    """An open bag."""

    path: Path
    topics: dict[str, str]  # Type of each topic. A type that can be decoded is preferred.
    notes: list[str]  # notes about repaired faults of the bag
    _readers: list[Reader] = field(repr=False)
    n_undecoded: int = 0  # number of messages so far that could not be decoded

    def topics_of(self, type_name: str) -> list[str]:
        """Return the names of the topics with a type."""
        return [name for name, kind in self.topics.items() if kind == type_name]

    def messages(self, topics: Collection[str]) -> Iterator[tuple[str, int, Any]]:
        """Yield topic, time of arrival [ns] and message, in the order of arrival.

        `DataError` is raised if the bag is damaged in the middle.
        """
        with _refused(f"{self.path} is damaged"):
            for connection, log_time, data in heapq.merge(*(_raw(r, topics) for r in self._readers), key=itemgetter(1)):
                if not (isinstance(log_time, int) and 0 <= log_time < LATEST):
                    raise DataError(
                        f"{self.path} is damaged: the time of a message is {log_time!r}, expected 0 to {LATEST} ns",
                        str(self.path),
                    )
                try:
                    if data[:4] == ZSTD_MAGIC:
                        data = _decompressed(data)
                    message = standard_types().deserialize_cdr(data, connection.msgtype)
                except Exception:  # damaged bytes can raise any error
                    self.n_undecoded += 1
                    continue
                yield connection.topic, log_time, message


@contextlib.contextmanager
def open_bag(path: str | Path) -> Iterator[Bag]:
    """Open a bag, and recover truncated MCAP files as far as possible.

    The path is a data file (.mcap, .db3, or one of them with .zstd), or a folder with data files and usually
    metadata.yaml. `DataError` is raised if there is no bag, or if it cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from eim_ros.bags.reader import open_bag
    >>> from eim_ros.bags.writer import BagWriter, Topic
    >>> writer = BagWriter(Path("recording"), "/label")
    >>> channel = writer.add_topic(Topic("/joint_states", "sensor_msgs/msg/JointState"))
    >>> writer.close()
    >>> with open_bag("recording") as bag:
    ...     bag.topics_of("sensor_msgs/msg/JointState"), list(bag.messages(["/joint_states"]))
    (['/joint_states'], [])
    """
    path = Path(path)
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        readers = _readers(path, notes, stack)
        topics: dict[str, str] = {}
        for connection in (connection for reader in readers for connection in reader.connections):
            if not (isinstance(connection.topic, str) and isinstance(connection.msgtype, str)):
                raise DataError(f"{path} is damaged: a topic has no name or no type", str(path))
            if topics.get(connection.topic) not in DECODED_TYPES:
                topics[connection.topic] = connection.msgtype
        yield Bag(path, topics, notes, readers)


def recover_bag(path: str | Path) -> list[str]:
    """Repair a bag in place: rewrite truncated MCAP files, and replace a missing or unusable metadata.yaml.

    The path is the folder of a bag, or one MCAP file. The result is a list of the repairs. `DataError` is raised if
    there is no MCAP file, or if a file cannot be read.

    Examples
    --------
    Create a missing metadata.yaml:

    >>> from pathlib import Path
    >>> from eim_ros.bags.reader import recover_bag
    >>> from eim_ros.bags.writer import BagWriter
    >>> BagWriter(Path("interrupted"), "/label").close()
    >>> Path("interrupted", "metadata.yaml").unlink()
    >>> recover_bag("interrupted")
    ['wrote interrupted/metadata.yaml']
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(path.glob("*.mcap"))
    if not files:
        raise DataError(f"{path} contains no .mcap file, and other files cannot be repaired", str(path))
    done = []
    for file in files:
        if not is_whole(file):
            done.append(_recover_in_place(file))
    if path.is_dir() and (done or not _has_metadata(path)):
        write_atomically(path / METADATA_FILE, _metadata_of(files).encode("utf-8"))
        done.append(f"wrote {path / METADATA_FILE}")
    return done


def _has_metadata(folder: Path) -> bool:
    """Return whether the bag in a folder can be opened with its metadata.yaml."""
    reader, _ = _by_metadata(folder)
    if reader:
        reader.close()
    return reader is not None


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Convert all exceptions in a block to `DataError`, with a message that begins with `what`.

    Damaged bytes make rosbags, databases and decompressors raise errors of many types.
    """
    try:
        yield
    except EimError:
        raise
    except Exception as error:
        raise DataError(f"{what}: {error or type(error).__name__}") from error


def _raw(reader: Reader, topics: Collection[str]) -> Iterator[tuple[Connection, int, bytes]]:
    wanted = [item for item in reader.connections if item.topic in topics and item.msgtype in DECODED_TYPES]
    return reader.messages(wanted) if wanted else iter(())


def _readers(path: Path, notes: list[str], stack: contextlib.ExitStack) -> list[Reader]:
    """Open a bag with its metadata.yaml. If this fails, open each file of the bag, and recover it if necessary."""
    files = _files(path)
    damaged = [file for file in files if file.suffix == ".mcap" and not is_whole(file)]
    if path.is_dir() and not damaged:
        reader, problem = _by_metadata(path)
        if reader:
            stack.callback(reader.close)
            return [reader]
        if not files:
            raise DataError(f"{path} cannot be opened: {problem}", str(path))
        notes.append(f"{problem}, so each file of the bag was read separately")
    readers = []
    for file in files:
        plain = _uncompressed(file, notes, stack) if file.suffix == COMPRESSED else file
        if plain.suffix == ".mcap" and (file in damaged or not is_whole(plain)):
            plain = _recovered(plain, notes, stack)
        with _refused(f"{path} cannot be opened"):
            readers.append(stack.enter_context(Reader(plain)))
    return readers


def _files(path: Path) -> list[Path]:
    """Return the data files of a bag. If a file exists with and without compression, return the uncompressed one.

    If a recorder is killed while it compresses a file, both files exist, and only the uncompressed file is complete.
    """
    if path.is_file():
        files = [path]
    elif path.is_dir():
        found = sorted(file for file in path.iterdir() if _is_data_file(file))
        files = [file for file in found if file.suffix != COMPRESSED or file.with_suffix("") not in found]
    else:
        raise DataError(f"the bag {path} does not exist", str(path))
    if path.is_dir() and not files and not (path / METADATA_FILE).is_file():
        expected = "neither metadata.yaml nor .mcap, .db3, .mcap.zstd or .db3.zstd files"
        raise DataError(f"{path} is not a bag: it contains {expected}", str(path))
    if path.is_file() and not _is_data_file(path):
        raise DataError(f"{path} is not a bag: expected a folder, .mcap, .db3, .mcap.zstd or .db3.zstd", str(path))
    if empty := [file for file in files if not file.stat().st_size]:
        raise DataError(f"{empty[0]} is empty", str(path))
    return files


def _is_data_file(path: Path) -> bool:
    return (path.with_suffix("") if path.suffix == COMPRESSED else path).suffix in SUFFIXES


def _by_metadata(folder: Path) -> tuple[Reader | None, str]:
    """Open a bag with its metadata.yaml, or return the reason why it cannot be opened.

    Possible reasons are renamed files, or a recorder that was killed while it wrote metadata.yaml. Another reason is an
    empty `storage_identifier`, which `ros2 bag reindex` of ROS 2 Humble writes.
    """
    if not (folder / METADATA_FILE).is_file():
        return None, f"{METADATA_FILE} is missing"
    try:
        reader = Reader(folder)
        reader.open()
    except Exception as error:  # a damaged file can raise any error
        reason = str(error).removesuffix("; please report issue.") or type(error).__name__
        return None, f"{METADATA_FILE} cannot be used ({reason})"
    return reader, ""


def _uncompressed(file: Path, notes: list[str], stack: contextlib.ExitStack) -> Path:
    """Decompress a file to a temporary folder as far as possible. Raise `DataError` if the result is empty."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eim_bag_")))
    plain = folder / file.with_suffix("").name
    try:
        with file.open("rb") as source, plain.open("wb") as destination:
            shutil.copyfileobj(zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True), destination)
    except zstandard.ZstdError as error:
        if not plain.stat().st_size:
            raise DataError(f"{file} cannot be opened: {error}", str(file)) from error
        notes.append(f"{file.name} is damaged: {error}")
    if not plain.stat().st_size:
        raise DataError(f"{file} cannot be opened: it is truncated and contains no data", str(file))
    return plain


def _decompressed(data: bytes) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(data)
    return bytes(reader.read(LARGEST_MESSAGE))


def _recovered(file: Path, notes: list[str], stack: contextlib.ExitStack) -> Path:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eim_bag_")))
    found = recover(file, folder / file.name)
    notes.append("; ".join([f"{file.name} is truncated: {found.n_messages} messages were recovered", *found.problems]))
    return folder / file.name


def _recover_in_place(file: Path) -> str:
    temporary = file.with_name(f".{file.name}.recovered")
    temporary.unlink(missing_ok=True)
    try:
        found = recover(file, temporary)
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return "; ".join([f"recovered {found.n_messages} messages of {file}", *found.problems])


def _metadata_of(files: list[Path]) -> str:
    """Return the content of metadata.yaml for complete MCAP files."""
    listed, counts = [], dict[Topic, int]()
    for file in files:
        with _refused(f"{file} cannot be read"), Reader(file) as reader:
            n = reader.message_count
            listed.append(DataFile(file.name, reader.start_time if n else 0, reader.end_time - 1 if n else 0, n))
            for item in reader.connections:
                topic = Topic(item.topic, item.msgtype, _type_hash(item.msgtype), tuple(item.ext.offered_qos_profiles))
                counts[topic] = counts.get(topic, 0) + item.msgcount
    return bag_metadata(listed, list(counts), list(counts.values()))[0]


def _type_hash(name: str) -> str:
    try:
        return definition(name)[1]
    except DataError:  # the type is not installed; rosbag2 uses an empty hash for unknown types
        return ""
