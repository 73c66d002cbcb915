"""Records of the MCAP container: how they are packed, and how they are read again one by one.

A record is an opcode (1 byte), the length of its content (8 bytes), and the content; all numbers are little-endian.
Source: the MCAP format specification, https://mcap.dev/spec.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping

__all__ = [
    "CHUNK_HEADER_SIZE",
    "FOOTER_SIZE",
    "MAGIC",
    "Opcode",
    "channel",
    "chunk_header",
    "chunk_index",
    "data_end",
    "footer",
    "header",
    "message",
    "message_index",
    "metadata",
    "metadata_index",
    "read_records",
    "read_text",
    "read_text_map",
    "schema",
    "statistics",
    "summary_offset",
]

MAGIC = b"\x89MCAP0\r\n"
FOOTER_SIZE = 1 + 8 + 20
CHUNK_HEADER_SIZE = 1 + 8 + 40  # of an uncompressed chunk: up to its first record
_PREFIX = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQHIQQ")
_UINT32 = struct.Struct("<I")


class Opcode(enum.IntEnum):
    """First byte of each record."""

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


def header(profile: str, library: str) -> bytes:
    """First record of a file."""
    return _record(Opcode.HEADER, _text(profile) + _text(library))


def schema(id_: int, name: str, encoding: str, definition: str) -> bytes:
    """Type of messages."""
    return _record(Opcode.SCHEMA, struct.pack("<H", id_) + _text(name) + _text(encoding) + _text(definition))


def channel(id_: int, schema_id: int, topic: str, encoding: str, about: Mapping[str, str]) -> bytes:
    """Topic."""
    return _record(Opcode.CHANNEL, struct.pack("<HH", id_, schema_id) + _text(topic) + _text(encoding) + _map(about))


def message(channel_id: int, sequence: int, log_time: int, publish_time: int, data: bytes) -> bytes:
    """Message, with its times [ns]."""
    return _MESSAGE.pack(Opcode.MESSAGE, 22 + len(data), channel_id, sequence, log_time, publish_time) + data


def chunk_header(first: int, last: int, size: int, crc: int) -> bytes:
    """Begin of an uncompressed chunk whose records have `size` bytes and times from `first` to `last` [ns]."""
    return _PREFIX.pack(Opcode.CHUNK, 40 + size) + struct.pack("<QQQIIQ", first, last, size, crc, 0, size)


def message_index(channel_id: int, entries: bytes) -> bytes:
    """Where a channel's messages lie in a chunk: pairs of time [ns] and offset, packed as <QQ."""
    return _record(Opcode.MESSAGE_INDEX, struct.pack("<HI", channel_id, len(entries)) + entries)


def chunk_index(
    first: int, last: int, start: int, length: int, index_offsets: Mapping[int, int], index_length: int, size: int
) -> bytes:
    """Where an uncompressed chunk lies in the file, and its message indexes."""
    offsets = b"".join(struct.pack("<HQ", *pair) for pair in index_offsets.items())
    return _record(
        Opcode.CHUNK_INDEX,
        struct.pack("<QQQQI", first, last, start, length, len(offsets))
        + offsets
        + struct.pack("<QIQQ", index_length, 0, size, size),
    )


def statistics(
    n_schemas: int, n_metadata: int, n_chunks: int, first: int, last: int, counts: Mapping[int, int]
) -> bytes:
    """Numbers of messages by channel, and the rest of the summary."""
    by_channel = b"".join(struct.pack("<HQ", *pair) for pair in counts.items())
    numbers = (sum(counts.values()), n_schemas, len(counts), 0, n_metadata, n_chunks, first, last, len(by_channel))
    return _record(Opcode.STATISTICS, struct.pack("<QHIIIIQQI", *numbers) + by_channel)


def metadata(name: str, values: Mapping[str, str]) -> bytes:
    """Named map of texts."""
    return _record(Opcode.METADATA, _text(name) + _map(values))


def metadata_index(start: int, length: int, name: str) -> bytes:
    """Where a metadata record lies."""
    return _record(Opcode.METADATA_INDEX, struct.pack("<QQ", start, length) + _text(name))


def summary_offset(opcode: Opcode, start: int, length: int) -> bytes:
    """Where the records of one kind lie in the summary."""
    return _record(Opcode.SUMMARY_OFFSET, struct.pack("<BQQ", opcode, start, length))


def data_end() -> bytes:
    """Between data and summary."""
    return _record(Opcode.DATA_END, _UINT32.pack(0))


def footer(summary_start: int, offset_start: int, crc: int) -> bytes:
    """Last record of a file."""
    return _record(Opcode.FOOTER, struct.pack("<QQI", summary_start, offset_start, crc))


def read_records(data: bytes | memoryview, start: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Opcode and content of each whole record from `start` on; ends before one that is not whole."""
    view = memoryview(data)
    while start + _PREFIX.size <= len(view):
        opcode, length = _PREFIX.unpack_from(view, start)
        start += _PREFIX.size
        if start + length > len(view):
            return
        yield opcode, view[start : start + length]
        start += length


def read_text(content: memoryview, start: int) -> tuple[str, int]:
    """A text and the position behind it; ValueError when it is cut off."""
    end = start + 4
    if end > len(content):
        raise ValueError("a text is cut off")
    end += _UINT32.unpack_from(content, start)[0]
    if end > len(content):
        raise ValueError("a text is cut off")
    return bytes(content[start + 4 : end]).decode("utf-8"), end


def read_text_map(content: memoryview, start: int) -> dict[str, str]:
    """A map of texts; ValueError when it is cut off."""
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
