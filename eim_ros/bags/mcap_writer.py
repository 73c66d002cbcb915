"""MCAP files that are whole after every flush: a process that is killed loses what came after the last one.

Each flush appends to the open chunk and writes indexes, summary and footer behind it; the next one overwrites these.
The length in the chunk's header is corrected last, so what it covers was written whole (see `mcap_recovery`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from eim_ros.bags import mcap_records as records
from eim_ros.bags.mcap_records import CHUNK_HEADER_SIZE, MAGIC, Opcode

__all__ = ["McapWriter"]

PROFILE = "ros2"
LIBRARY = "eim_ros"
CHUNK_SIZE = 1 << 20  # [byte]; a chunk is closed when it is larger
_ENTRY = struct.Struct("<QQ")
_LATEST = 2**64 - 1


class _OpenChunk:
    """The chunk that is being written: where it is, and what of it is not yet in the file."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.written = 0  # bytes of records that are in the file
        self.pending: list[bytes] = []
        self.size = 0  # with the pending ones
        self.crc = 0
        self.first, self.last = _LATEST, 0
        self.entries: dict[int, bytearray] = {}

    def add(self, record: bytes) -> None:
        self.pending.append(record)
        self.size += len(record)

    def header(self, size: int, crc: int) -> bytes:
        return records.chunk_header(self._earliest, self.last, size, crc)

    def indexes(self, start: int) -> tuple[bytes, bytes]:
        """Message indexes, which begin at `start`, and the index of the chunk."""
        indexes, offsets = b"", {}
        for channel_id, entries in self.entries.items():
            offsets[channel_id] = start + len(indexes)
            indexes += records.message_index(channel_id, bytes(entries))
        length = CHUNK_HEADER_SIZE + self.size
        index = records.chunk_index(self._earliest, self.last, self.start, length, offsets, len(indexes), self.size)
        return indexes, index

    @property
    def _earliest(self) -> int:
        return 0 if self.first == _LATEST else self.first


class McapWriter:
    """Writes one file of the profile ros2; not safe to be used by several threads.

    Parameters
    ----------
    path : Path
        A file that must not exist.
    chunk_size : int
        Length at which a chunk is closed [byte].

    Raises
    ------
    OSError
        From every method that writes, when the disk is full for example. The file is then as after the last flush.
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
        start = MAGIC + records.header(PROFILE, LIBRARY)
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
        """Bytes of records that are not yet in the file."""
        return self._chunk.size - self._chunk.written

    def add_schema(self, name: str, encoding: str, definition: str) -> int:
        """Number of a new message type."""
        self._schemas.append(records.schema(len(self._schemas) + 1, name, encoding, definition))
        self._chunk.add(self._schemas[-1])
        return len(self._schemas)

    def add_channel(self, schema_id: int, topic: str, encoding: str, about: Mapping[str, str]) -> int:
        """Number of a new topic."""
        id_ = len(self._channels) + 1
        self._channels.append(records.channel(id_, schema_id, topic, encoding, about))
        self._chunk.add(self._channels[-1])
        self._counts[id_] = 0
        return id_

    def write(self, channel_id: int, log_time: int, publish_time: int, data: bytes) -> None:
        """Add a message, with its times [ns]; it is in the file after the next flush."""
        chunk = self._chunk
        count = self._counts[channel_id]
        chunk.entries.setdefault(channel_id, bytearray()).extend(_ENTRY.pack(log_time, chunk.size))
        chunk.add(records.message(channel_id, count & 0xFFFFFFFF, log_time, publish_time, data))
        chunk.first, chunk.last = min(chunk.first, log_time), max(chunk.last, log_time)
        self._counts[channel_id] = count + 1

    def flush(self) -> None:
        """Bring all messages into the file, which is whole afterwards."""
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
        # an open chunk has no checksum: between these two writes, the old one would not fit
        os.pwrite(self._handle, chunk.header(chunk.size, chunk.crc if is_full else 0), chunk.start)
        chunk.written, chunk.pending = chunk.size, []
        if is_full:
            self._chunk_indexes.append(index)
            self._chunk = _OpenChunk(indexes_start + len(indexes))

    def close(self, metadata: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Flush, add named maps of texts, close the file."""
        try:
            self._chunk_size = 0
            self.flush()
            if self._chunk.written:  # nothing was pending, so the last chunk is still open
                self._seal()
            if metadata:
                self._add(metadata)
            os.fsync(self._handle)
        finally:
            os.close(self._handle)

    def abandon(self) -> None:
        """Close the file as it was after the last flush."""
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
            record = records.metadata(name, values)
            self._metadata_indexes.append(records.metadata_index(start + len(data), len(record), name))
            data += record
        self._commit(start, data, self._chunk_indexes)

    def _commit(self, start: int, data: bytes, chunk_indexes: list[bytes]) -> None:
        """Write data at a position, and summary and footer behind it; if that fails, put back what was there."""
        content = data + self._rear(start + len(data), chunk_indexes)
        before = os.pread(self._handle, self._size - start, start) if start < self._size else b""
        try:
            done = os.pwrite(self._handle, content, start)
            while done < len(content):  # the next one says why
                done += os.pwrite(self._handle, content[done:], start + done)
        except OSError:
            os.pwrite(self._handle, before, start)
            os.ftruncate(self._handle, self._size)
            raise
        self._size = start + len(content)

    def _rear(self, start: int, chunk_indexes: list[bytes]) -> bytes:
        """What follows the data: end of data, summary, offsets, footer."""
        end = records.data_end()
        first = 0 if self._first == _LATEST else self._first
        counts = records.statistics(
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
                offsets += records.summary_offset(opcode, position, len(group))
                position += len(group)
        summary = b"".join(groups.values()) + offsets
        footer = records.footer(summary_start, position, 0)
        crc = zlib.crc32(footer[:-4], zlib.crc32(summary))  # up to the checksum itself
        return end + summary + footer[:-4] + struct.pack("<I", crc) + MAGIC
