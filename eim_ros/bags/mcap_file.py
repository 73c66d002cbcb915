"""Reading, writing and recovery of MCAP files, see the format specification at https://mcap.dev/spec.

A record is an opcode (1 byte), the length of its content (8 bytes), and the content. All numbers are little-endian.

`McapWriter` writes files that are complete after every flush. A process that is killed loses only the messages after
its last flush. Each flush appends to the open chunk and writes indexes, summary and footer after it, and the next flush
overwrites these. The length in the chunk header is updated last, so the records that it covers are always complete.

`recover` reads a truncated file record by record and writes the messages to a new file. It trusts the complete records
of a chunk up to the length in the chunk header. The bytes after them may be remains of an interrupted flush.
"""

from __future__ import annotations

import enum
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rosbags.rosbag2.storage_mcap import decompress

from eim_ros.core.errors import DataError

MAGIC = b"\x89MCAP0\r\n"
FOOTER_SIZE = 1 + 8 + 20
CHUNK_HEADER_SIZE = 1 + 8 + 40  # length of an uncompressed chunk before its first record
_PREFIX = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQHIQQ")
_UINT32 = struct.Struct("<I")


class Opcode(enum.IntEnum):
    """First byte of a record, which defines its type."""

    HEADER = 0x01
    FOOTER = 0x02
    SCHEMA = 0x03
    CHANNEL = 0x04
    MESSAGE = 0x05
    CHUNK = 0x06
    MESSAGE_INDEX = 0x07
    CHUNK_INDEX = 0x08
    STATISTICS = 0x0B
    METADATA = 0x0C
    METADATA_INDEX = 0x0D
    SUMMARY_OFFSET = 0x0E
    DATA_END = 0x0F


def header_record(profile: str, library: str) -> bytes:
    """Pack the first record of a file."""
    return _record(Opcode.HEADER, _text(profile) + _text(library))


def schema_record(id_: int, name: str, encoding: str, definition: str) -> bytes:
    """Pack the definition of a message type."""
    return _record(Opcode.SCHEMA, struct.pack("<H", id_) + _text(name) + _text(encoding) + _text(definition))


def channel_record(id_: int, schema_id: int, topic: str, encoding: str, about: Mapping[str, str]) -> bytes:
    """Pack the description of a topic."""
    return _record(Opcode.CHANNEL, struct.pack("<HH", id_, schema_id) + _text(topic) + _text(encoding) + _map(about))


def message_record(channel_id: int, sequence: int, log_time: int, publish_time: int, data: bytes) -> bytes:
    """Pack a message with its times of arrival and publication [ns]."""
    return _MESSAGE.pack(Opcode.MESSAGE, 22 + len(data), channel_id, sequence, log_time, publish_time) + data


def chunk_header(first: int, last: int, size: int, crc: int) -> bytes:
    """Pack the header of an uncompressed chunk.

    The records of the chunk have `size` bytes and times from `first` to `last` [ns]. A `crc` of 0 means no checksum.
    """
    return _PREFIX.pack(Opcode.CHUNK, 40 + size) + struct.pack("<QQQIIQ", first, last, size, crc, 0, size)


def message_index(channel_id: int, entries: bytes) -> bytes:
    """Pack the positions of a channel's messages in a chunk: pairs of time [ns] and offset, packed as <QQ."""
    return _record(Opcode.MESSAGE_INDEX, struct.pack("<HI", channel_id, len(entries)) + entries)


def chunk_index(
    first: int, last: int, start: int, length: int, index_offsets: Mapping[int, int], index_length: int, size: int
) -> bytes:
    """Pack the positions of an uncompressed chunk and of its message indexes in the file."""
    offsets = b"".join(struct.pack("<HQ", *pair) for pair in index_offsets.items())
    return _record(
        Opcode.CHUNK_INDEX,
        struct.pack("<QQQQI", first, last, start, length, len(offsets))
        + offsets
        + struct.pack("<QIQQ", index_length, 0, size, size),
    )


def statistics_record(
    n_schemas: int, n_metadata: int, n_chunks: int, first: int, last: int, counts: Mapping[int, int]
) -> bytes:
    """Pack the number of messages of each channel and the other statistics of the summary."""
    by_channel = b"".join(struct.pack("<HQ", *pair) for pair in counts.items())
    numbers = (sum(counts.values()), n_schemas, len(counts), 0, n_metadata, n_chunks, first, last, len(by_channel))
    return _record(Opcode.STATISTICS, struct.pack("<QHIIIIQQI", *numbers) + by_channel)


def metadata_record(name: str, values: Mapping[str, str]) -> bytes:
    """Pack a named map of texts."""
    return _record(Opcode.METADATA, _text(name) + _map(values))


def metadata_index(start: int, length: int, name: str) -> bytes:
    """Pack the position of a metadata record."""
    return _record(Opcode.METADATA_INDEX, struct.pack("<QQ", start, length) + _text(name))


def summary_offset_record(opcode: Opcode, start: int, length: int) -> bytes:
    """Pack the position of the records of one type in the summary."""
    return _record(Opcode.SUMMARY_OFFSET, struct.pack("<BQQ", opcode, start, length))


def data_end() -> bytes:
    """Pack the record that separates data and summary."""
    return _record(Opcode.DATA_END, _UINT32.pack(0))


def footer_record(summary_start: int, offset_start: int, crc: int) -> bytes:
    """Pack the last record of a file."""
    return _record(Opcode.FOOTER, struct.pack("<QQI", summary_start, offset_start, crc))


def read_records(data: bytes | memoryview, start: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Yield opcode and content of each record from `start` up to the first incomplete one."""
    view = memoryview(data)
    while start + _PREFIX.size <= len(view):
        opcode, length = _PREFIX.unpack_from(view, start)
        start += _PREFIX.size
        if start + length > len(view):
            return
        yield opcode, view[start : start + length]
        start += length


def read_text(content: memoryview, start: int) -> tuple[str, int]:
    """Return a text and the position after it; raise ValueError if the text is truncated."""
    end = start + 4
    if end > len(content):
        raise ValueError("a text is cut off")
    end += _UINT32.unpack_from(content, start)[0]
    if end > len(content):
        raise ValueError("a text is cut off")
    return bytes(content[start + 4 : end]).decode("utf-8"), end


def read_text_map(content: memoryview, start: int) -> dict[str, str]:
    """Return a map of texts; raise ValueError if the map is truncated."""
    if start + 4 > len(content):
        raise ValueError("a map is cut off")
    end = start + 4 + _UINT32.unpack_from(content, start)[0]
    start += 4
    result = {}
    while start < end:
        key, start = read_text(content, start)
        result[key], start = read_text(content, start)
    return result


def _record(opcode: Opcode, content: bytes) -> bytes:
    return _PREFIX.pack(opcode, len(content)) + content


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return _UINT32.pack(len(data)) + data


def _map(values: Mapping[str, str]) -> bytes:
    content = b"".join(_text(key) + _text(value) for key, value in values.items())
    return _UINT32.pack(len(content)) + content


PROFILE = "ros2"
LIBRARY = "eim_ros"
CHUNK_SIZE = 1 << 20  # [byte] after which a chunk is closed
_ENTRY = struct.Struct("<QQ")
_LATEST = 2**64 - 1


class _OpenChunk:
    """Chunk that is being written: its position, and its records that are not yet in the file."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.written = 0  # number of bytes of records in the file
        self.pending: list[bytes] = []
        self.size = 0  # number of bytes of records, including pending ones
        self.crc = 0
        self.first, self.last = _LATEST, 0
        self.entries: dict[int, bytearray] = {}

    def add(self, record: bytes) -> None:
        self.pending.append(record)
        self.size += len(record)

    def header(self, size: int, crc: int) -> bytes:
        return chunk_header(self._earliest, self.last, size, crc)

    def indexes(self, start: int) -> tuple[bytes, bytes]:
        """Return the message indexes, which begin at `start`, and the index of the chunk."""
        indexes, offsets = b"", {}
        for channel_id, entries in self.entries.items():
            offsets[channel_id] = start + len(indexes)
            indexes += message_index(channel_id, bytes(entries))
        length = CHUNK_HEADER_SIZE + self.size
        index = chunk_index(self._earliest, self.last, self.start, length, offsets, len(indexes), self.size)
        return indexes, index

    @property
    def _earliest(self) -> int:
        return 0 if self.first == _LATEST else self.first


class McapWriter:
    """Writer of one MCAP file with the profile ros2. It is not thread-safe.

    Parameters
    ----------
    path : Path
        File to create; it must not exist.
    chunk_size : int
        Length after which a chunk is closed [byte].

    Raises
    ------
    OSError
        From every method that writes, for example if the disk is full. The file then has the state of the last flush.
    """

    def __init__(self, path: Path, chunk_size: int = CHUNK_SIZE) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._chunk_size = chunk_size
        self._schemas: list[bytes] = []
        self._channels: list[bytes] = []
        self._chunk_indexes: list[bytes] = []
        self._metadata_indexes: list[bytes] = []
        self._counts: dict[int, int] = {}
        self._first, self._last = _LATEST, 0
        self._size = 0
        start = MAGIC + header_record(PROFILE, LIBRARY)
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
    def pending(self) -> int:
        """Length of the records that are not yet in the file [byte]."""
        return self._chunk.size - self._chunk.written

    def add_schema(self, name: str, encoding: str, definition: str) -> int:
        """Add a message type and return its number."""
        self._schemas.append(schema_record(len(self._schemas) + 1, name, encoding, definition))
        self._chunk.add(self._schemas[-1])
        return len(self._schemas)

    def add_channel(self, schema_id: int, topic: str, encoding: str, about: Mapping[str, str]) -> int:
        """Add a topic and return its number."""
        id_ = len(self._channels) + 1
        self._channels.append(channel_record(id_, schema_id, topic, encoding, about))
        self._chunk.add(self._channels[-1])
        self._counts[id_] = 0
        return id_

    def write(self, channel_id: int, log_time: int, publish_time: int, data: bytes) -> None:
        """Add a message with its times [ns]. It is in the file after the next flush."""
        chunk = self._chunk
        count = self._counts[channel_id]
        chunk.entries.setdefault(channel_id, bytearray()).extend(_ENTRY.pack(log_time, chunk.size))
        chunk.add(message_record(channel_id, count & 0xFFFFFFFF, log_time, publish_time, data))
        chunk.first, chunk.last = min(chunk.first, log_time), max(chunk.last, log_time)
        self._counts[channel_id] = count + 1

    def flush(self) -> None:
        """Write all messages to the file, which is complete afterwards."""
        chunk = self._chunk
        if not chunk.pending:
            return
        data = b"".join(chunk.pending)
        indexes_start = chunk.start + CHUNK_HEADER_SIZE + chunk.size
        indexes, index = chunk.indexes(indexes_start)
        self._first, self._last = min(self._first, chunk.first), max(self._last, chunk.last)
        if chunk.written:
            self._commit(indexes_start - len(data), data + indexes, [*self._chunk_indexes, index])
        else:
            self._commit(chunk.start, chunk.header(0, 0) + data + indexes, [*self._chunk_indexes, index])
        chunk.crc = zlib.crc32(data, chunk.crc)
        is_full = chunk.size > self._chunk_size
        # an open chunk has no checksum: between the two writes the old one would be wrong
        os.pwrite(self._handle, chunk.header(chunk.size, chunk.crc if is_full else 0), chunk.start)
        chunk.written, chunk.pending = chunk.size, []
        if is_full:
            self._chunk_indexes.append(index)
            self._chunk = _OpenChunk(indexes_start + len(indexes))

    def close(self, metadata: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Flush, add metadata (named maps of texts), and close the file."""
        try:
            self._chunk_size = 0
            self.flush()
            if self._chunk.written:  # flush wrote nothing, so the last chunk is still open
                self._seal()
            if metadata:
                self._add(metadata)
            os.fsync(self._handle)
        finally:
            os.close(self._handle)

    def abandon(self) -> None:
        """Close the file in the state of the last flush."""
        os.close(self._handle)

    def _seal(self) -> None:
        chunk = self._chunk
        os.pwrite(self._handle, chunk.header(chunk.size, chunk.crc), chunk.start)
        start = chunk.start + CHUNK_HEADER_SIZE + chunk.size
        indexes, index = chunk.indexes(start)
        self._chunk_indexes.append(index)
        self._chunk = _OpenChunk(start + len(indexes))

    def _add(self, metadata: Mapping[str, Mapping[str, str]]) -> None:
        start, data = self._chunk.start, b""
        for name, values in metadata.items():
            record = metadata_record(name, values)
            self._metadata_indexes.append(metadata_index(start + len(data), len(record), name))
            data += record
        self._commit(start, data, self._chunk_indexes)

    def _commit(self, start: int, data: bytes, chunk_indexes: list[bytes]) -> None:
        """Write data at a position, then summary and footer. On failure, restore the previous content."""
        content = data + self._rear(start + len(data), chunk_indexes)
        before = os.pread(self._handle, self._size - start, start) if start < self._size else b""
        try:
            done = os.pwrite(self._handle, content, start)
            while done < len(content):  # a second call raises the error of a short write
                done += os.pwrite(self._handle, content[done:], start + done)
        except OSError:
            os.pwrite(self._handle, before, start)
            os.ftruncate(self._handle, self._size)
            raise
        self._size = start + len(content)

    def _rear(self, start: int, chunk_indexes: list[bytes]) -> bytes:
        """Return the content after the data: end of data, summary, offsets and footer."""
        end = data_end()
        first = 0 if self._first == _LATEST else self._first
        counts = statistics_record(
            len(self._schemas), len(self._metadata_indexes), len(chunk_indexes), first, self._last, self._counts
        )
        groups = {
            Opcode.SCHEMA: b"".join(self._schemas),
            Opcode.CHANNEL: b"".join(self._channels),
            Opcode.STATISTICS: counts,
            Opcode.CHUNK_INDEX: b"".join(chunk_indexes),
            Opcode.METADATA_INDEX: b"".join(self._metadata_indexes),
        }
        summary_start = position = start + len(end)
        offsets = b""
        for opcode, group in groups.items():
            if group:
                offsets += summary_offset_record(opcode, position, len(group))
                position += len(group)
        summary = b"".join(groups.values()) + offsets
        footer = footer_record(summary_start, position, 0)
        crc = zlib.crc32(footer[:-4], zlib.crc32(summary))  # covers all bytes before the checksum
        return end + summary + footer[:-4] + struct.pack("<I", crc) + MAGIC


_MESSAGE_HEADER = struct.Struct("<HIQQ")
_CHUNK = struct.Struct("<QQQI")
_FLUSH_EVERY = 1 << 22  # [byte]
_KNOWN = frozenset(int(opcode) for opcode in Opcode) | {0x09, 0x0A}  # attachments are skipped


@dataclass
class Recovery:
    """Result of the recovery of a file.

    Attributes
    ----------
    n_messages : int
        Number of recovered messages.
    problems : list of str
        Lost parts of the file, with reasons.
    """

    n_messages: int = 0
    problems: list[str] = field(default_factory=list)


def is_whole(path: Path) -> bool:
    """Return whether an MCAP file is complete: it has a footer and an undamaged summary.

    Raises
    ------
    DataError
        If the file cannot be read or is not an MCAP file.
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

    Parameters
    ----------
    source : Path
    destination : Path
        File to create; it must not exist.

    Raises
    ------
    DataError
        If the source is empty, cannot be read, or is not an MCAP file.
    """
    if not _size(source):
        raise DataError(f"{source} is empty", str(source))
    with source.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed when the last reference is gone
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
    """Copier of records to a new file, in which types and topics get new numbers."""

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
        id_, _, log_time, publish_time = _MESSAGE_HEADER.unpack_from(record)
        if id_ not in self._channels:
            raise ValueError(f"a message belongs to no topic (channel {id_})")
        self._writer.write(self._channels[id_], log_time, publish_time, bytes(record[_MESSAGE_HEADER.size :]))
        self.n_messages += 1
        if self._writer.pending > _FLUSH_EVERY:
            self._writer.flush()


def _data_records(view: memoryview, result: Recovery) -> Iterator[tuple[int, memoryview]]:
    """Yield schemas, channels and messages, inside and outside chunks, up to the first incomplete record."""
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
    """Yield the records of a chunk. A truncated chunk is read only if it is not compressed."""
    try:
        _, _, size, crc = _CHUNK.unpack_from(content)
        compression, start = read_text(content, _CHUNK.size)
        data: bytes | memoryview = content[start + 8 :]
        if is_whole:
            data = decompress(bytes(data), compression, size, crc)
        elif compression:
            raise ValueError(f"its {compression} data is cut off")
    except Exception as error:  # also errors of the compression library
        result.problems.append(f"a chunk of {len(content)} bytes cannot be read: {error}")
        return
    yield from read_records(data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", str(path)) from error
