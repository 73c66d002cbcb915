"""MCAP files that were cut off: what is in them is found by reading record after record, and written as a whole file.

Trusted are whole records of chunks, up to the length that the chunk's header gives. Behind that may lie what a killed
writer was about to replace.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rosbags.rosbag2.storage_mcap import decompress

from eim_ros.bags.mcap_records import FOOTER_SIZE, MAGIC, Opcode, read_records, read_text, read_text_map
from eim_ros.bags.mcap_writer import McapWriter
from eim_ros.errors import DataError

__all__ = ["Recovery", "is_whole", "recover"]

_MESSAGE = struct.Struct("<HIQQ")
_CHUNK = struct.Struct("<QQQI")
_FLUSH_EVERY = 1 << 22  # [byte]
_KNOWN = frozenset(int(opcode) for opcode in Opcode) | {0x09, 0x0A}  # attachments are passed over


@dataclass
class Recovery:
    """What was found in a file.

    Attributes
    ----------
    n_messages : int
    problems : list of str
        What was left out, and why.
    """

    n_messages: int = 0
    problems: list[str] = field(default_factory=list)


def is_whole(path: Path) -> bool:
    """Whether an MCAP file has its footer, and the summary that the footer speaks of.

    Raises
    ------
    DataError
        When it is empty or no MCAP file at all.
    """
    size = _size(path)
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{path} is no MCAP file", str(path))
        rear = FOOTER_SIZE + len(MAGIC)
        if size < len(MAGIC) + rear:
            return False
        file.seek(size - rear)
        content = file.read()
        opcode, length, summary_start, _, crc = struct.unpack_from("<BQQQI", content)
        if (opcode, length) != (Opcode.FOOTER, 20) or content[-len(MAGIC) :] != MAGIC:
            return False
        if summary_start == 0:
            return True  # a file without summary, as some writers make it
        if not len(MAGIC) <= summary_start <= size - rear:
            return False
        file.seek(summary_start)
        summary = file.read(size - rear - summary_start)
    if crc:
        return bool(zlib.crc32(content[: FOOTER_SIZE - 4], zlib.crc32(summary)) == crc)
    return sum(9 + len(record) for _, record in read_records(summary)) == len(summary)


def recover(source: Path, destination: Path) -> Recovery:
    """Write all messages that can be read in an MCAP file to a new one.

    Parameters
    ----------
    source : Path
    destination : Path
        A file that must not exist.

    Raises
    ------
    DataError
        When the source is no MCAP file.
    """
    if not _size(source):
        raise DataError(f"{source} is empty", str(source))
    with source.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed when nothing refers to it any more
    if content[: len(MAGIC)] != MAGIC:
        raise DataError(f"{source} is no MCAP file", str(source))
    result = Recovery()
    writer = McapWriter(destination)
    copy = _Copy(writer)
    try:
        for opcode, record in _data_records(memoryview(content), result):
            try:
                copy.add(opcode, record)
            except (ValueError, struct.error) as error:
                result.problems.append(f"what follows message {copy.n_messages} is damaged: {error}")
                break
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    result.n_messages = copy.n_messages
    return result


class _Copy:
    """Writes records to a new file, with new numbers."""

    def __init__(self, writer: McapWriter) -> None:
        self._writer = writer
        self._schemas: dict[int, int] = {}
        self._channels: dict[int, int] = {}
        self.n_messages = 0

    def add(self, opcode: int, record: memoryview) -> None:
        if opcode == Opcode.SCHEMA:
            self._add_schema(record)
        elif opcode == Opcode.CHANNEL:
            self._add_channel(record)
        elif opcode == Opcode.MESSAGE:
            self._add_message(record)

    def _add_schema(self, record: memoryview) -> None:
        (id_,) = struct.unpack_from("<H", record)
        if id_ not in self._schemas:
            name, end = read_text(record, 2)
            encoding, end = read_text(record, end)
            self._schemas[id_] = self._writer.add_schema(name, encoding, read_text(record, end)[0])

    def _add_channel(self, record: memoryview) -> None:
        id_, schema_id = struct.unpack_from("<HH", record)
        if id_ not in self._channels:
            topic, end = read_text(record, 4)
            encoding, end = read_text(record, end)
            about = read_text_map(record, end)
            schema = self._schemas.get(schema_id, 0)
            self._channels[id_] = self._writer.add_channel(schema, topic, encoding, about)

    def _add_message(self, record: memoryview) -> None:
        id_, _, log_time, publish_time = _MESSAGE.unpack_from(record)
        if id_ not in self._channels:
            raise ValueError(f"a message belongs to no topic (channel {id_})")
        self._writer.write(self._channels[id_], log_time, publish_time, bytes(record[_MESSAGE.size :]))
        self.n_messages += 1
        if self._writer.pending > _FLUSH_EVERY:
            self._writer.flush()


def _data_records(view: memoryview, result: Recovery) -> Iterator[tuple[int, memoryview]]:
    """Schemas, channels and messages, in and outside of chunks, up to the first that is not whole."""
    position, in_chunks = len(MAGIC), False
    while position + 9 <= len(view):
        opcode, length = struct.unpack_from("<BQ", view, position)
        if opcode in (Opcode.DATA_END, Opcode.FOOTER):
            return
        start, position = position + 9, position + 9 + length
        if opcode not in _KNOWN or (opcode == Opcode.MESSAGE and in_chunks):
            result.problems.append(f"from byte {start - 9} on there are no records")
            return
        if position > len(view):
            result.problems.append(f"cut off: the record at byte {start - 9} ends {position - len(view)} bytes later")
        if opcode == Opcode.CHUNK:
            in_chunks = True
            yield from _chunk_records(view[start:position], position <= len(view), result)
        elif position <= len(view):
            yield opcode, view[start:position]


def _chunk_records(content: memoryview, is_whole: bool, result: Recovery) -> Iterator[tuple[int, memoryview]]:
    """The records of a chunk; of one that is cut off only where it is not compressed."""
    try:
        _, _, size, crc = _CHUNK.unpack_from(content)
        compression, start = read_text(content, _CHUNK.size)
        data: bytes | memoryview = content[start + 8 :]
        if is_whole:
            data = decompress(bytes(data), compression, size, crc)
        elif compression:
            raise ValueError(f"its {compression} data is cut off")
    except Exception as error:  # of the compression's library, too
        result.problems.append(f"a chunk of {len(content)} bytes cannot be read: {error}")
        return
    yield from read_records(data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", str(path)) from error
