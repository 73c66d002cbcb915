"""Reading, writing and recovery of MCAP files. The format is specified at https://mcap.dev/spec.

A record is an opcode (1 byte), the length of its content (8 bytes), and the content. All numbers are little-endian.

`McapWriter` writes files that are complete after every flush. If the process is killed, only messages after the last
flush are lost. Each flush appends to the open chunk and writes indexes, summary and footer after the chunk. The next
flush overwrites indexes, summary and footer. The length in the chunk header is updated last. Therefore, records within
this length are always complete.

`recover` reads a truncated file record by record and writes the messages to a new file. In a chunk, it uses only
complete records within the length in the chunk header. Bytes after this length may come from an interrupted flush.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcap import records
from mcap.data_stream import ReadDataStream, RecordBuilder
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from rosbags.rosbag2.storage_mcap import decompress

from eim_ros.core.errors import DataError

MAGIC = b"\x89MCAP0\r\n"
FOOTER_SIZE = 1 + 8 + 20
CHUNK_HEADER_SIZE = 1 + 8 + 40  # length of an uncompressed chunk before its first record
_PREFIX = struct.Struct("<BQ")
PROFILE = "ros2"
LIBRARY = "eim_ros"
CHUNK_SIZE = 1 << 20  # [byte] size above which a chunk is closed
_LATEST = 2**64 - 1
_CHUNK = struct.Struct("<QQQI")
_FLUSH_EVERY = 1 << 22  # [byte]
_KNOWN = frozenset(map(int, Opcode))


def packed(record: records.McapRecord) -> bytes:
    """Return the bytes of a record in a file."""
    builder = RecordBuilder()
    record.write(builder)
    content: bytes = builder.end()
    return content


def read_records(data: bytes | memoryview, start: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Yield opcode and content of each record from `start` up to the first incomplete record."""
    view = memoryview(data)
    while start + _PREFIX.size <= len(view):
        opcode, length = _PREFIX.unpack_from(view, start)
        start += _PREFIX.size
        if start + length > len(view):
            return
        yield opcode, view[start : start + length]
        start += length


class _OpenChunk:
    """Chunk that is not complete yet: its position, and the records that are not in the file yet."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.written = 0  # number of bytes of records in the file
        self.pending: list[bytes] = []
        self.size = 0  # number of bytes of records, including pending ones
        self.crc = 0
        self.first, self.last = _LATEST, 0
        self.entries: dict[int, list[tuple[int, int]]] = {}

    def add(self, record: bytes) -> None:
        self.pending.append(record)
        self.size += len(record)

    @property
    def end(self) -> int:
        """Position after the records, including pending ones."""
        return self.start + CHUNK_HEADER_SIZE + self.size

    def header(self, size: int, crc: int) -> bytes:
        """Return the header of an uncompressed chunk with `size` bytes of records. 0 means no checksum."""
        times = struct.pack("<QQQIIQ", self._earliest, self.last, size, crc, 0, size)
        return _PREFIX.pack(Opcode.CHUNK, 40 + size) + times

    def indexes(self) -> tuple[bytes, bytes]:
        """Return the message indexes that follow the records, and the index of the chunk."""
        indexes, offsets = b"", {}
        for channel_id, entries in self.entries.items():
            offsets[channel_id] = self.end + len(indexes)
            indexes += packed(records.MessageIndex(channel_id, entries))
        index = records.ChunkIndex(
            chunk_length=CHUNK_HEADER_SIZE + self.size,
            chunk_start_offset=self.start,
            compression="",
            compressed_size=self.size,
            message_end_time=self.last,
            message_index_length=len(indexes),
            message_index_offsets=offsets,
            message_start_time=self._earliest,
            uncompressed_size=self.size,
        )
        return indexes, packed(index)

    @property
    def _earliest(self) -> int:
        return 0 if self.first == _LATEST else self.first


class McapWriter:
    """Writer of one MCAP file with the profile ros2. The class is not thread-safe.

    The file must not exist. A chunk is closed when it exceeds `chunk_size` [byte]. Methods that write raise `OSError`,
    for example if the disk is full. The file then keeps the state of the last flush.
    """

    def __init__(self, path: Path, chunk_size: int = CHUNK_SIZE) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._chunk_size = chunk_size
        self._schemas: list[bytes] = []
        self._channels: list[bytes] = []
        self._chunk_indexes: list[bytes] = []
        self._metadata_indexes: list[bytes] = []
        self.counts: dict[int, int] = {}  # number of messages of each topic, including pending ones
        self._first, self._last = _LATEST, 0
        self._size = 0
        start = MAGIC + packed(records.Header(PROFILE, LIBRARY))
        self._chunk = _OpenChunk(len(start))
        try:
            self._commit(0, start, [])
        except OSError:
            os.close(self._handle)
            raise

    @property
    def size(self) -> int:
        """Length of the file [byte]."""
        return self._size

    @property
    def times(self) -> tuple[int, int]:
        """Times of the first and the last message [ns]; 0 without messages."""
        return (self._first, self._last) if self._last else (0, 0)

    @property
    def pending(self) -> int:
        """Length of the records that are not in the file yet [byte]."""
        return self._chunk.size - self._chunk.written

    def add_schema(self, name: str, encoding: str, definition: str) -> int:
        """Add a message type and return its number."""
        self._schemas.append(packed(records.Schema(len(self._schemas) + 1, definition.encode(), encoding, name)))
        self._chunk.add(self._schemas[-1])
        return len(self._schemas)

    def add_channel(self, schema_id: int, topic: str, encoding: str, about: Mapping[str, str]) -> int:
        """Add a topic and return its number."""
        id_ = len(self._channels) + 1
        self._channels.append(packed(records.Channel(id_, topic, encoding, dict(about), schema_id)))
        self._chunk.add(self._channels[-1])
        self.counts[id_] = 0
        return id_

    def write(self, channel_id: int, log_time: int, publish_time: int, data: bytes) -> None:
        """Add a message with its times [ns]. The next flush writes it to the file."""
        chunk = self._chunk
        count = self.counts[channel_id]
        chunk.entries.setdefault(channel_id, []).append((log_time, chunk.size))
        chunk.add(packed(records.Message(channel_id, log_time, data, publish_time, count & 0xFFFFFFFF)))
        chunk.first, chunk.last = min(chunk.first, log_time), max(chunk.last, log_time)
        self._first, self._last = min(self._first, log_time), max(self._last, log_time)
        self.counts[channel_id] = count + 1

    def flush(self) -> None:
        """Write all messages to the file, and complete the file."""
        chunk = self._chunk
        if not chunk.pending:
            return
        data = b"".join(chunk.pending)
        indexes, index = chunk.indexes()
        start, header = (chunk.end - len(data), b"") if chunk.written else (chunk.start, chunk.header(0, 0))
        self._commit(start, header + data + indexes, [*self._chunk_indexes, index])
        chunk.crc = zlib.crc32(data, chunk.crc)
        # An open chunk has no checksum, because an old checksum would be wrong between the two writes.
        os.pwrite(self._handle, chunk.header(chunk.size, 0), chunk.start)
        chunk.written, chunk.pending = chunk.size, []
        if chunk.size > self._chunk_size:
            self._end_chunk()

    def close(self, metadata: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Flush, add metadata (named maps of texts), and close the file."""
        try:
            self.flush()
            if self._chunk.written:
                self._end_chunk()
            if metadata:
                self._add(metadata)
            os.fsync(self._handle)
        finally:
            os.close(self._handle)

    def abandon(self) -> None:
        """Close the file in the state of the last flush."""
        os.close(self._handle)

    def _end_chunk(self) -> None:
        """Write the checksum of the open chunk and start the next chunk."""
        chunk = self._chunk
        os.pwrite(self._handle, chunk.header(chunk.size, chunk.crc), chunk.start)
        indexes, index = chunk.indexes()
        self._chunk_indexes.append(index)
        self._chunk = _OpenChunk(chunk.end + len(indexes))

    def _add(self, metadata: Mapping[str, Mapping[str, str]]) -> None:
        start, data = self._chunk.start, b""
        for name, values in metadata.items():
            record = packed(records.Metadata(name, dict(values)))
            self._metadata_indexes.append(packed(records.MetadataIndex(start + len(data), len(record), name)))
            data += record
        self._commit(start, data, self._chunk_indexes)

    def _commit(self, start: int, data: bytes, chunk_indexes: list[bytes]) -> None:
        """Write data at a position, followed by the summary and the footer. On failure, restore the previous
        content.
        """
        content = data + self._rear(start + len(data), chunk_indexes)
        before = os.pread(self._handle, self._size - start, start) if start < self._size else b""
        try:
            done = os.pwrite(self._handle, content, start)
            while done < len(content):  # after an incomplete write, the next call raises the error
                done += os.pwrite(self._handle, content[done:], start + done)
        except OSError:
            os.pwrite(self._handle, before, start)
            os.ftruncate(self._handle, self._size)
            raise
        self._size = start + len(content)

    def _rear(self, start: int, chunk_indexes: list[bytes]) -> bytes:
        """Return the content that follows the data: end of data, summary, offsets and footer."""
        end, (first, last) = packed(records.DataEnd(0)), self.times
        counts = records.Statistics(
            attachment_count=0,
            channel_count=len(self.counts),
            channel_message_counts=self.counts,
            chunk_count=len(chunk_indexes),
            message_count=sum(self.counts.values()),
            message_end_time=last,
            message_start_time=first,
            metadata_count=len(self._metadata_indexes),
            schema_count=len(self._schemas),
        )
        groups = {
            Opcode.SCHEMA: b"".join(self._schemas),
            Opcode.CHANNEL: b"".join(self._channels),
            Opcode.STATISTICS: packed(counts),
            Opcode.CHUNK_INDEX: b"".join(chunk_indexes),
            Opcode.METADATA_INDEX: b"".join(self._metadata_indexes),
        }
        summary_start = position = start + len(end)
        offsets = b""
        for opcode, group in groups.items():
            if group:
                offsets += packed(records.SummaryOffset(opcode, position, len(group)))
                position += len(group)
        summary = b"".join(groups.values()) + offsets
        footer = packed(records.Footer(summary_start, position, 0))
        crc = zlib.crc32(footer[:-4], zlib.crc32(summary))  # covers the summary, and the footer up to the checksum
        return end + summary + packed(records.Footer(summary_start, position, crc)) + MAGIC


@dataclass
class Recovery:
    """Result of the recovery of a file."""

    n_messages: int = 0  # number of recovered messages
    problems: list[str] = field(default_factory=list)  # lost parts of the file, with reasons


def is_whole(path: Path) -> bool:
    """Return whether an MCAP file has a footer and an undamaged summary.

    `DataError` is raised if the file cannot be read or is not an MCAP file.
    """
    size = _size(path)
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DataError(f"{path} is not an MCAP file: it does not start with the MCAP signature", str(path))
        rear = FOOTER_SIZE + len(MAGIC)
        if size < len(MAGIC) + rear:
            return False
        file.seek(size - rear)
        content = file.read()
        opcode, length, summary_start, _, crc = struct.unpack_from("<BQQQI", content)
        if (opcode, length) != (Opcode.FOOTER, 20) or content[-len(MAGIC) :] != MAGIC:
            return False
        if summary_start == 0:
            return True  # some writers omit the summary
        if not len(MAGIC) <= summary_start <= size - rear:
            return False
        file.seek(summary_start)
        summary = file.read(size - rear - summary_start)
    if crc:
        return bool(zlib.crc32(content[: FOOTER_SIZE - 4], zlib.crc32(summary)) == crc)
    return sum(9 + len(record) for _, record in read_records(summary)) == len(summary)


def recover(source: Path, destination: Path) -> Recovery:
    """Write all readable messages of an MCAP file to a new file.

    The destination must not exist. `DataError` is raised if the source is empty, cannot be read, or is not an MCAP
    file.
    """
    if not _size(source):
        raise DataError(f"{source} is empty", str(source))
    with source.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed automatically with its last reference
    if content[: len(MAGIC)] != MAGIC:
        raise DataError(f"{source} is not an MCAP file: it does not start with the MCAP signature", str(source))
    result, writer = Recovery(), McapWriter(destination)
    try:
        _copy(memoryview(content), writer, result)
    except (ValueError, struct.error, McapError) as error:
        reason = str(error) or "a record is truncated"
        result.problems.append(f"the file is damaged after message {result.n_messages}: {reason}")
    except BaseException:
        writer.abandon()
        raise
    writer.close()
    return result


def _copy(content: memoryview, writer: McapWriter, result: Recovery) -> None:
    """Copy all records up to the first damaged record. Types and topics get new numbers."""
    schemas: dict[int, int] = {}
    channels: dict[int, int] = {}
    for opcode, record in _data_records(content, result):
        stream = ReadDataStream(io.BytesIO(record))
        if opcode == Opcode.SCHEMA:
            schema = records.Schema.read(stream)
            if schema.id not in schemas:
                schemas[schema.id] = writer.add_schema(schema.name, schema.encoding, schema.data.decode())
        elif opcode == Opcode.CHANNEL:
            channel = records.Channel.read(stream)
            if channel.id not in channels:
                about = channel.topic, channel.message_encoding, channel.metadata
                channels[channel.id] = writer.add_channel(schemas.get(channel.schema_id, 0), *about)
        elif opcode == Opcode.MESSAGE:
            message = records.Message.read(stream, len(record))
            if message.channel_id not in channels:
                raise ValueError(f"a message belongs to channel {message.channel_id}, which is not defined")
            writer.write(channels[message.channel_id], message.log_time, message.publish_time, message.data)
            result.n_messages += 1
            if writer.pending > _FLUSH_EVERY:
                writer.flush()


def _data_records(view: memoryview, result: Recovery) -> Iterator[tuple[int, memoryview]]:
    """Yield schemas, channels and messages, inside and outside chunks, up to the first incomplete record."""
    position, in_chunks = len(MAGIC), False
    while position + 9 <= len(view):
        opcode, length = struct.unpack_from("<BQ", view, position)
        if opcode in (Opcode.DATA_END, Opcode.FOOTER):
            return
        start, position = position + 9, position + 9 + length
        if opcode not in _KNOWN or (opcode == Opcode.MESSAGE and in_chunks):
            result.problems.append(f"the bytes after byte {start - 9} are not records")
            return
        if position > len(view):
            result.problems.append(
                f"the record at byte {start - 9} is truncated: {position - len(view)} bytes are missing"
            )
        if opcode == Opcode.CHUNK:
            in_chunks = True
            yield from _chunk_records(view[start:position], position <= len(view), result)
        elif position <= len(view):
            yield opcode, view[start:position]


def _chunk_records(content: memoryview, is_whole: bool, result: Recovery) -> Iterator[tuple[int, memoryview]]:
    """Yield the records of a chunk. A truncated chunk is read only if it is not compressed."""
    try:
        _, _, size, crc = _CHUNK.unpack_from(content)
        stream = ReadDataStream(io.BytesIO(content[_CHUNK.size :]))
        compression, start = stream.read_prefixed_string(), _CHUNK.size + stream.count
        data: bytes | memoryview = content[start + 8 :]
        if is_whole:
            data = decompress(bytes(data), compression, size, crc)
        elif compression:
            raise ValueError(f"its data, compressed by {compression}, is truncated")
    except Exception as error:  # the compression library may raise any error
        result.problems.append(f"a chunk of {len(content)} bytes cannot be read: {error}")
        return
    yield from read_records(data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", str(path)) from error
