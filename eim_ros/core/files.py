"""Files that are either whole or absent: write to a temporary file, fsync, rename.

Files to be written are checked before the work whose result they are to hold: that they can be written, and that
none of them is read by the same work, by whatever path, link or hard link.

What a file is, told by its first bytes, for those who expected another: no content is decoded for it.

A file of another format is refused with what it is, not with what its reader stumbled over.

JSON as its standard has it (RFC 8259), which knows neither NaN nor infinity: what is not finite becomes null.

Python's own writer prints NaN and Infinity, which other readers refuse. All JSON of the package is written here.

A folder in which one process at a time writes results.

Tensors and a JSON document in one file: safetensors whose metadata holds the JSON, and the file's checksum in it.

A file is read as tensors of torch or as arrays of NumPy, which need no torch. Never pickle.

Files that hold the SHA-256 of themselves: no changed bit goes unnoticed, wherever it is.

The digest is of the whole file with zeros in the digest's own place, which is behind a mark: what precedes it in the
file. A file of another layout needs another mark, and a place for sixty-four letters that its readers pass over.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import safetensors

from eim_ros.core.checks import checked_path
from eim_ros.core.errors import ConfigurationError, ModelFileError

if TYPE_CHECKING:
    from torch import Tensor


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write bytes so that a reader, or a crash, sees the old file or the new one, never a part.

    Parameters
    ----------
    path : str or Path
        Destination; its folder is created if it is missing. Where a file exists its permissions are kept, and a
        link stays a link. What is no regular file, such as a pipe or /dev/null, is written to, not replaced.
    content : bytes
        The whole file.
    """
    destination = Path(os.path.realpath(path))
    destination.parent.mkdir(parents=True, exist_ok=True)
    if destination.exists() and not destination.is_file():
        destination.write_bytes(content)
        return
    temporary = temporary_beside(destination)
    kept = stat.S_IMODE(destination.stat().st_mode) if destination.exists() else None
    mode = 0o666 if kept is None else kept & 0o666  # the umask is taken off, as from any new file
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if kept is not None:
                os.chmod(temporary, kept)
            os.fsync(file.fileno())
        os.replace(temporary, destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(destination.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def temporary_beside(destination: Path) -> Path:
    """A new name, in the folder of a file and like its own, for what becomes that file."""
    return destination.with_name(f".{destination.name}.{secrets.token_hex(8)}")


def check_outputs(
    outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None] | None = None
) -> None:
    """Refuse outputs that cannot be written, and those that are inputs; missing folders of outputs are created.

    Parameters
    ----------
    outputs : mapping of str to path
        Files by what the user calls them, such as the flag; one without a path does not count.
    inputs : mapping of str to path, optional
        Files, or folders with files, that are read; one that is no path of anything, such as a name, does not count.

    Raises
    ------
    ConfigurationError
    """
    written = {name: Path(path) for name, path in outputs.items() if path}
    read = {name: Path(path) for name, path in (inputs or {}).items() if path}
    for name, path in written.items():
        for other, source in read.items():
            if _is_in(path, source):
                raise ConfigurationError(
                    f"{name} {path} would overwrite what {other} {source} reads: give another file", str(path)
                )
        _check_writable(name, path)
    _check_different(written)


def _is_in(path: Path, source: Path) -> bool:
    """Whether a path leads to an existing file, or to one of a folder's, such as those of a bag."""
    try:
        files = source.iterdir() if source.is_dir() else (source,)
        return path.is_file() and any(path.samefile(file) for file in files if file.is_file())
    except OSError:  # nothing can be read there: told by who reads it
        return False


def _check_different(outputs: Mapping[str, Path]) -> None:
    places: dict[str, str] = {}
    for name, path in outputs.items():
        other = places.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ConfigurationError(f"{other} and {name} are the same file {path}: give different ones", str(path))


def _check_writable(name: str, path: Path) -> None:
    destination = Path(os.path.realpath(path))
    if destination.is_dir():
        raise ConfigurationError(f"{name} {path} is a folder, expected the name of a file", str(path))
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {name} {path}: cannot create folder {destination.parent}: {error.strerror}", str(path)
        ) from error
    if destination.exists() and not destination.is_file():  # a pipe or a device
        return
    try:  # to ask for permissions is not enough: root has all of them, also where no file can be made
        trial = temporary_beside(destination)
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        trial.unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {name} {path}: no file can be made in {destination.parent}: {error.strerror}", str(path)
        ) from error


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


NULL = np.array(None, dtype=object)


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """One line of JSON of mappings, lists, tuples, text, numbers and None, and of numbers and arrays of NumPy."""
    try:
        return json.dumps(value, sort_keys=sort_keys, allow_nan=False)
    except (ValueError, TypeError):
        return json.dumps(finite(value), sort_keys=sort_keys, allow_nan=False)


def finite(value: Any) -> Any:
    """As JSON knows it: lists for tuples and arrays, None for what is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        is_float = np.issubdtype(value.dtype, np.floating)
        return (np.where(np.isfinite(value), value, NULL) if is_float else value).tolist()
    if isinstance(value, Mapping):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing there, too; the lock ends with the process, however that ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"another run is writing results to {folder}; wait for it, or give another --output", str(folder)
            ) from error
        yield


BLANK = "0" * 64  # what a writer leaves where the digest belongs


def sealed(content: bytes, mark: bytes) -> bytes:
    """A whole file, with its digest in place of the first `BLANK` behind a mark."""
    place = content.index(mark + BLANK.encode()) + len(mark)
    return b"".join((content[:place], _digest(content, place), content[place + len(BLANK) :]))


def checksum_problem(content: bytes, mark: bytes) -> str:
    """Why a whole file cannot be trusted, as the end of a sentence that begins with its name; empty where it can."""
    pattern = re.compile(re.escape(mark) + rb"([0-9a-f]{64})")
    found = [(match.group(1), match.start(1)) for match in pattern.finditer(content)]  # a text may quote another's
    if any(digest == _digest(content, place) for digest, place in found):
        return ""
    if found:
        return "is damaged: its content does not match its checksum; use another copy, or make it again"
    return "has no checksum: it is damaged, or was written before files had one; make it again with this version"


def _digest(content: bytes, place: int) -> bytes:
    """Of content with zeros at a place."""
    view, digest = memoryview(content), hashlib.sha256()
    for part in (view[:place], BLANK.encode(), view[place + len(BLANK) :]):
        digest.update(part)
    return digest.hexdigest().encode()


CHECKSUM_KEY = "file_sha256"  # of the document, while it is in the file
CHECKSUM_MARK = json.dumps(f'"{CHECKSUM_KEY}": "')[1:-1].encode()  # in the header, where the document is a string


def write_tensor_file(
    path: str | Path, tensors: dict[str, Tensor], document: dict[str, Any], *, kind: str, schema: int
) -> None:
    """Write atomically.

    Parameters
    ----------
    path : str or Path
    tensors : dict of Tensor
        Any shapes, dtypes and devices.
    document : dict
        JSON-compatible.
    kind, schema : str, int
        What the file holds and in which version of its layout; a reader refuses any other.
    """
    import safetensors.torch  # here: what reads arrays needs no torch
    import torch

    checked_path(path, ModelFileError)
    content = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    header = to_json({**document, "kind": kind, "schema_version": schema, CHECKSUM_KEY: BLANK}, sort_keys=True)
    whole = safetensors.torch.save(content, metadata={METADATA_KEY: header})
    write_atomically(path, sealed(whole, CHECKSUM_MARK))


def read_tensor_file(
    path: str | Path, *, kind: str | tuple[str, ...], schema: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensor_file` wrote.

    Parameters
    ----------
    path : str or Path
    kind : str or tuple of str
        What the file may hold; the document's entry "kind" says what it does.
    schema : int

    Returns
    -------
    tensors : dict of Tensor, on the CPU
    document : dict

    Raises
    ------
    ModelFileError
        Missing, of another format, truncated or damaged, of another kind or schema version.
    """
    import safetensors.torch  # here, as above

    return _read(path, safetensors.torch.load, kind, schema)


def read_array_file(
    path: str | Path, *, kind: str | tuple[str, ...], schema: int
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """As `read_tensor_file`, without torch; numbers of a type that NumPy lacks, such as bfloat16, are refused."""
    import safetensors.numpy

    return _read(path, safetensors.numpy.load, kind, schema)


def _read(
    path: str | Path, decoded: Callable[[bytes], dict[str, Any]], kind: str | tuple[str, ...], schema: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        content = checked_path(path, ModelFileError).read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}", str(path)) from error
    try:
        tensors = decoded(content)
    except safetensors.SafetensorError as error:
        raise ModelFileError(_other_format(path, content, error), str(path)) from error
    except (AttributeError, KeyError, TypeError) as error:  # as safetensors says that NumPy has no such type
        raise ModelFileError(f"{path} holds numbers of a type that cannot be read: {error}", str(path)) from error
    document = _document(path, content)
    if problem := checksum_problem(content, CHECKSUM_MARK):
        raise ModelFileError(f"{path} {problem}", str(path))
    document.pop(CHECKSUM_KEY, None)
    kinds = (kind,) if isinstance(kind, str) else kind
    if document.get("kind") not in kinds:
        expected = " or ".join(repr(name) for name in kinds)
        raise ModelFileError(f"{path} holds a {document.get('kind')!r}, expected a {expected}", document.get("kind"))
    if document.get("schema_version") != schema:
        raise ModelFileError(
            f"{path} has schema version {document.get('schema_version')!r}, this program reads {schema}; "
            "write it again with this version",
            document.get("schema_version"),
        )
    return tensors, document


def _other_format(path: str | Path, content: bytes, error: Exception) -> str:
    found = described_format(content)
    if "pickle" in found:
        return f"{path} is {found}; only safetensors files are loaded, for safety"
    if not found or "safetensors" in found:
        return f"{path} is truncated or no safetensors file: {error}"
    return f"{path} is no safetensors file, it is {found}; expected a model of eim train"


def _document(path: str | Path, content: bytes) -> dict[str, Any]:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])  # which safetensors has read before
    text = header.get("__metadata__", {}).get(METADATA_KEY)
    if text is None:
        raise ModelFileError(f"{path} was not written by eim_ros: its safetensors header lacks {METADATA_KEY!r}")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{path} has a damaged header: {error}", str(path)) from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} has a damaged header: expected an object", str(path))
    return document
