"""Files that are either complete or absent, and checks that detect damage.

- A file is written under a temporary name, synchronised to disk and renamed, so readers never read an incomplete file.
- Output paths are checked before long work begins. They must be writable, and must not be inputs of the same work.
- If a file of this package has the wrong kind, the error message describes its content.
- JSON follows RFC 8259, which does not allow NaN and infinity, so non-finite numbers become null.
- Tensor files are safetensors files whose metadata contains a JSON document. They can be read as tensors of torch, or
  as NumPy arrays without torch. Pickles are never loaded.
- Each file contains its own SHA-256 digest, computed with zeros in the place of the digest. The digest follows a mark.
  The mark depends on the file format, because readers of the format must ignore the mark and the digest.
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

METADATA_KEY = "eim_ros"
"""Key of the JSON document in the header of our safetensors files."""
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
"""Errors that zipfile, zlib and NumPy raise on damaged files and on files of another format."""
LARGEST_HEADER = 2**24  # large, because headers contain a robot description [byte]
COLUMNS = {"context.npy", "sample.npy", "description.npy"}
NULL = np.array(None, dtype=object)
BLANK = "0" * 64  # placeholder of the digest while it is computed
CHECKSUM_KEY = "file_sha256"  # key of the digest, only in the stored document
CHECKSUM_MARK = json.dumps(f'"{CHECKSUM_KEY}": "')[1:-1].encode()  # escaped: it is inside a string of the header


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write bytes atomically. A reader finds the complete old or new file, even after a crash.

    The folder of the destination is created if it is missing. An existing file keeps its permissions. A link is not
    replaced; the file that it points to is written. A pipe or a device, such as /dev/null, is also not replaced.
    """
    destination = Path(os.path.realpath(path))
    destination.parent.mkdir(parents=True, exist_ok=True)
    if destination.exists() and not destination.is_file():
        destination.write_bytes(content)
        return
    temporary = temporary_beside(destination)
    kept = stat.S_IMODE(destination.stat().st_mode) if destination.exists() else None
    mode = 0o666 if kept is None else kept & 0o666  # the umask applies, as for any new file
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
    """Return a new name for a temporary file, in the same folder as its destination."""
    return destination.with_name(f".{destination.name}.{secrets.token_hex(8)}")


def check_outputs(
    outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None] | None = None
) -> None:
    """Check that outputs can be written and are not inputs. Missing folders of outputs are created.

    Both mappings contain the path of each file by the name that the user knows, such as the flag. Entries without a
    path, and inputs that do not exist, are skipped. An input may be a folder of files. Raise `ConfigurationError` if an
    output is an input, is the same file as another output, or cannot be written.
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
    """Return whether a path is the existing file `source`, or a file in the folder `source`, such as a bag."""
    try:
        files = source.iterdir() if source.is_dir() else (source,)
        return path.is_file() and any(path.samefile(file) for file in files if file.is_file())
    except OSError:  # the reader of the source reports this error
        return False


def _check_different(outputs: Mapping[str, Path]) -> None:
    places: dict[str, str] = {}
    for name, path in outputs.items():
        other = places.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ConfigurationError(f"{other} and {name} are the same file {path}: give different files", str(path))


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
    try:  # root has all permissions even on a read-only file system, so a trial file is written
        trial = temporary_beside(destination)
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        trial.unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {name} {path}: no file can be created in {destination.parent}: {error.strerror}", str(path)
        ) from error


def described_format(content: bytes) -> str:
    """Describe the content of a file of this package, such as "a data set (.npz)"; empty for other files."""
    return described_file(io.BytesIO(content))


def described_file(file: BinaryIO) -> str:
    """Describe the content of an open file, see `described_format`. Only its header or list of members is read."""
    start = file.read(9)
    file.seek(0)
    try:
        if start.startswith(b"PK"):
            return "a data set (.npz)" if set(zipfile.ZipFile(file).namelist()) >= COLUMNS else ""
        length = int.from_bytes(file.read(8), "little")
        if start[8:] != b"{" or length > LARGEST_HEADER:
            return ""
        kind = json.loads(json.loads(file.read(length))["__metadata__"][METADATA_KEY])["kind"]
        return f"the file of a {str(kind).replace('_', ' ')} (.safetensors)"
    except (zipfile.BadZipFile, ValueError, TypeError, KeyError, RecursionError, OSError, NotImplementedError):
        return ""


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """Return one line of JSON.

    Mappings, lists, tuples, text, numbers and None are supported, as well as numbers and arrays of NumPy. Non-finite
    numbers become null.
    """
    try:
        return json.dumps(value, sort_keys=sort_keys, allow_nan=False)
    except (ValueError, TypeError):
        return json.dumps(finite(value), sort_keys=sort_keys, allow_nan=False)


def finite(value: Any) -> Any:
    """Convert a value to JSON types: tuples and arrays become lists, non-finite numbers become None."""
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
    """Lock a folder, so that only one process writes results to it.

    The operating system releases the lock when the process ends, even after a crash. Raise `ConfigurationError` if
    another process has locked the folder.
    """
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"another run is writing results to {folder}: wait until it ends, or give another --output", str(folder)
            ) from error
        yield


def sealed(content: bytes, mark: bytes) -> bytes:
    """Return the content of a file, where its digest replaces the first `BLANK` that follows a mark."""
    place = content.index(mark + BLANK.encode()) + len(mark)
    return b"".join((content[:place], _digest(content, place), content[place + len(BLANK) :]))


def checksum_problem(content: bytes, mark: bytes) -> str:
    """Return the reason why the content of a file is not valid; empty if the digest is correct.

    The reason is the end of a sentence that begins with the name of the file.
    """
    pattern = re.compile(re.escape(mark) + rb"([0-9a-f]{64})")
    found = [(match.group(1), match.start(1)) for match in pattern.finditer(content)]  # texts may quote another digest
    if any(digest == _digest(content, place) for digest, place in found):
        return ""
    if found:
        return "is damaged, because its content does not match its checksum: use another copy, or create the file again"
    return "has no checksum, because it is damaged or was written by an old version: create it again with this version"


def _digest(content: bytes, place: int) -> bytes:
    """Return the SHA-256 digest of the content, where zeros replace the digest at `place`."""
    view, digest = memoryview(content), hashlib.sha256()
    for part in (view[:place], BLANK.encode(), view[place + len(BLANK) :]):
        digest.update(part)
    return digest.hexdigest().encode()


def write_tensor_file(
    path: str | Path, tensors: dict[str, Tensor], document: dict[str, Any], *, kind: str, schema: int
) -> None:
    """Write tensors and a JSON document to one file, atomically.

    Tensors may have any shape, dtype and device. The document must be JSON-compatible. Readers reject files with
    another `kind` of content or another version `schema` of the layout.
    """
    import safetensors.torch  # imported here because readers of arrays need no torch
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
    """Read a file that `write_tensor_file` wrote, and return its tensors on the CPU and its document.

    `kind` contains one or several accepted kinds, and `schema` is the accepted version of the layout. The entry "kind"
    of the document is the kind of the file. Raise `ModelFileError` if the file is missing, truncated or damaged, or has
    another format, kind or schema version.
    """
    import safetensors.torch  # imported here because readers of arrays need no torch

    return _read(path, safetensors.torch.load, kind, schema)


def read_array_file(
    path: str | Path, *, kind: str | tuple[str, ...], schema: int
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Read a file that `write_tensor_file` wrote as NumPy arrays, without torch.

    Parameters and errors are described in `read_tensor_file`. Types that NumPy does not have, such as bfloat16, are
    rejected.
    """
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
    except (AttributeError, KeyError, TypeError) as error:  # safetensors raises these for types unknown to NumPy
        raise ModelFileError(f"{path} contains numbers of a type that cannot be read: {error}", str(path)) from error
    document = _document(path, content)
    if problem := checksum_problem(content, CHECKSUM_MARK):
        raise ModelFileError(f"{path} {problem}", str(path))
    document.pop(CHECKSUM_KEY, None)
    kinds = (kind,) if isinstance(kind, str) else kind
    if document.get("kind") not in kinds:
        expected = " or ".join(repr(name) for name in kinds)
        found = document.get("kind")
        raise ModelFileError(f"{path} has kind {found!r}, expected {expected}", found)
    if document.get("schema_version") != schema:
        raise ModelFileError(
            f"{path} has schema version {document.get('schema_version')!r}, but this program reads {schema}: "
            "create it again with this version",
            document.get("schema_version"),
        )
    return tensors, document


def _other_format(path: str | Path, content: bytes, error: Exception) -> str:
    if (found := described_format(content)).endswith(".npz)"):
        return f"{path} is not a safetensors file but {found}; expected a model written by eim train"
    return f"{path} is truncated or not a safetensors file, the only format that is loaded: {error}"


def _document(path: str | Path, content: bytes) -> dict[str, Any]:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])  # checked by safetensors
    text = header.get("__metadata__", {}).get(METADATA_KEY)
    if text is None:
        raise ModelFileError(f"{path} was not written by eim_ros: its safetensors header lacks {METADATA_KEY!r}")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{path} has a damaged header: {error}", str(path)) from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} has a damaged header: expected a JSON object", str(path))
    return document
