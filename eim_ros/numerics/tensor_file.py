"""Tensors and a JSON document in one file: safetensors whose metadata holds the JSON, and the file's checksum in it.

A file is read as tensors of torch or as arrays of NumPy, which need no torch. Never pickle.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import safetensors

from eim_ros.errors import ModelFileError
from eim_ros.numerics.arguments import checked_path
from eim_ros.numerics.atomic_file import write_atomically
from eim_ros.numerics.checksum import BLANK, checksum_problem, sealed
from eim_ros.numerics.file_format import METADATA_KEY, described_format
from eim_ros.numerics.strict_json import to_json

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["read_array_file", "read_tensor_file", "write_tensor_file"]

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
