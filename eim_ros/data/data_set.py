"""Pairs of contexts and samples as one NumPy archive (.npz, no pickled objects), with a JSON description inside."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import DataError
from eim_ros.numerics.atomic_file import write_atomically

__all__ = ["DataSet", "load_data_set", "save_data_set"]

SCHEMA = 1
UNREADABLE = (  # what zipfile, zlib and NumPy raise on files of another format and on damaged ones
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    RuntimeError,
    MemoryError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Samples with their contexts.

    Attributes
    ----------
    context : (n_samples, n_context) float64
    sample : (n_samples, n_dims) float64
    description : dict
        JSON-compatible: what the columns are and where they come from.
    """

    context: npt.NDArray[np.float64]
    sample: npt.NDArray[np.float64]
    description: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        context, sample = self.context, self.sample
        if context.ndim != 2 or sample.ndim != 2 or len(context) != len(sample):
            raise DataError(
                f"context (n, dy) and sample (n, dx) must be matrices of equal length, got {context.shape} and "
                f"{sample.shape}",
                sample.shape,
            )
        for name, part in (("context", context), ("sample", sample)):
            bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
            if len(bad):
                raise DataError(f"{name} has NaN or infinite entries in {len(bad)} rows, first row {bad[0]}", bad[0])

    def __len__(self) -> int:
        return len(self.sample)


def save_data_set(path: str | Path, data_set: DataSet) -> None:
    """Write atomically, compressed."""
    header = json.dumps({"schema_version": SCHEMA, **data_set.description}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, context=data_set.context, sample=data_set.sample, description=np.array(header))
    write_atomically(path, buffer.getvalue())


def load_data_set(path: str | Path) -> DataSet:
    """Read what `save_data_set` wrote; `DataError` says why a file is refused."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", str(path)) from error
    try:
        context, sample, header = _columns(content)
        description = json.loads(str(header))
    except UNREADABLE as error:
        raise DataError(f"{path} is truncated or no .npz data set: {error}", str(path)) from error
    if not isinstance(description, dict) or description.get("schema_version") != SCHEMA:
        raise DataError(f"{path} has another schema version; collect it again with this version", str(path))
    try:
        return DataSet(context, sample, description)
    except DataError as error:
        raise DataError(f"{path}: {error}", error.value) from error


def _columns(content: bytes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.str_]]:
    archive = np.load(io.BytesIO(content), allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError("it holds a single array")
    missing = [name for name in ("context", "description", "sample") if name not in archive.files]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    context, sample = (np.asarray(archive[name], dtype=np.float64) for name in ("context", "sample"))
    return context, sample, archive["description"]
