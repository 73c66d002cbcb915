"""Tensors and a JSON document in one file: safetensors whose metadata holds the JSON. Never pickle.

A file is read as tensors of torch or as arrays of NumPy, which need no torch.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import safetensors

from eim_ros.errors import ModelFileError
from eim_ros.numerics.atomic_file import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["read_array_file", "read_tensor_file", "write_tensor_file"]

METADATA_KEY = "eim_ros"
PICKLE_MAGIC = (b"\x80", b"PK\x03\x04")  # a bare pickle, and the zip archive torch.save writes
SAFETENSORS_START = re.compile(rb"....\0{4}\{", re.DOTALL)  # length of the header, which may begin with \x80, and it


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

    content = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    header = json.dumps({**document, "kind": kind, "schema_version": schema}, sort_keys=True)
    write_atomically(path, safetensors.torch.save(content, metadata={METADATA_KEY: header}))


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
        Missing, a pickle, truncated or damaged, of another kind or schema version.
    """
    return _read(path, "pt", kind, schema)


def read_array_file(
    path: str | Path, *, kind: str | tuple[str, ...], schema: int
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """As `read_tensor_file`, without torch; numbers of a type that NumPy lacks, such as bfloat16, are refused."""
    return _read(path, "np", kind, schema)


def _read(
    path: str | Path, framework: str, kind: str | tuple[str, ...], schema: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}", str(path)) from error
    if start.startswith(PICKLE_MAGIC) and not SAFETENSORS_START.match(start):
        raise ModelFileError(f"{path} is a pickle; only safetensors files are loaded, for safety", str(path))
    try:
        with safetensors.safe_open(str(path), framework=framework) as file:
            header = (file.metadata() or {}).get(METADATA_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"{path} is truncated or no safetensors file: {error}", str(path)) from error
    except (AttributeError, TypeError) as error:  # as safetensors says that NumPy has no such type
        raise ModelFileError(f"{path} holds numbers of a type that cannot be read: {error}", str(path)) from error
    document = _document(path, header)
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


def _document(path: str | Path, header: str | None) -> dict[str, Any]:
    if header is None:
        raise ModelFileError(f"{path} was not written by eim_ros: its safetensors header lacks {METADATA_KEY!r}")
    try:
        document = json.loads(header)
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{path} has a damaged header: {error}", str(path)) from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} has a damaged header: expected an object", str(path))
    return document
