"""What a file is, told by its first bytes, for those who expected another: no content is decoded for it.

A file of another format is refused with what it is, not with what its reader stumbled over.
"""

from __future__ import annotations

import io
import json
import re
import tokenize
import zipfile
import zlib
from typing import BinaryIO

__all__ = ["ARCHIVE_ERRORS", "METADATA_KEY", "described_file", "described_format"]

METADATA_KEY = "eim_ros"
"""Under which the header of our safetensors files holds the JSON document."""

ARCHIVE_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile, zlib and NumPy raise on files of another format and on damaged ones."""

LARGEST_HEADER = 2**24  # [byte]; ours have a robot description in it
SAFETENSORS_START = re.compile(rb"....\0{4}\{", re.DOTALL)  # length of the header, which may begin with \x80, and it
STARTS = {
    b"\x93NUMPY": "a single array (.npy)",
    b"\x89MCAP": "a bag (MCAP)",
    b"SQLite format 3": "a bag or database (sqlite3)",
    b"<": "XML, such as a robot description",
    b"\x89PNG": "a picture",
}
PICKLE_PROTOCOLS = range(2, 256)  # of older ones the first byte is a letter
COLUMNS = {"context.npy", "sample.npy", "description.npy"}


def described_format(content: bytes) -> str:
    """Such as "a data set (.npz)", "a pickle"; empty if unknown. Truncated files are what they began to be."""
    return described_file(io.BytesIO(content))


def described_file(file: BinaryIO) -> str:
    """As `described_format`, of an open file: only its header, or the list of an archive's members, is read."""
    start = file.read(32)
    file.seek(0)
    if SAFETENSORS_START.match(start):
        return _tensors(file)
    if start.startswith(b"PK\x03\x04"):
        return _archive(file)
    if len(start) > 1 and start[0] == 0x80 and start[1] in PICKLE_PROTOCOLS:
        return "a pickle"
    return next((name for sign, name in STARTS.items() if start.startswith(sign)), "")


def _tensors(file: BinaryIO) -> str:
    length = int.from_bytes(file.read(8), "little")
    if length > LARGEST_HEADER:
        return "a safetensors file"
    try:
        kind = json.loads(json.loads(file.read(length))["__metadata__"][METADATA_KEY])["kind"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "a safetensors file"
    return f"the file of a {str(kind).replace('_', ' ')} (.safetensors)"


def _archive(file: BinaryIO) -> str:
    try:
        names = set(zipfile.ZipFile(file).namelist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return "a truncated archive"
    if names >= COLUMNS:
        return "a data set (.npz)"
    if any(name.endswith(".pkl") for name in names):
        return "a pickle of PyTorch"
    return "an archive of arrays (.npz)" if any(name.endswith(".npy") for name in names) else "a zip archive"
