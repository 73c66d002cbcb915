"""Pairs of contexts and samples as one NumPy archive (.npz, no pickled objects), with a JSON description inside.

The comment of the archive holds the checksum of the file.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import DataError
from eim_ros.numerics.arguments import as_numbers, checked_path, expect, expect_mapping
from eim_ros.numerics.atomic_file import write_atomically
from eim_ros.numerics.checksum import BLANK, checksum_problem, sealed
from eim_ros.numerics.file_format import ARCHIVE_ERRORS, described_format
from eim_ros.numerics.strict_json import to_json

__all__ = ["DataSet", "load_data_set", "save_data_set"]

SCHEMA = 1
CHECKSUM_MARK = b"eim_ros sha256 "


@dataclass(frozen=True, eq=False)
class DataSet:
    """Samples with their contexts.

    Attributes
    ----------
    context : (n_samples, n_context) array_like
        As float64, as are the samples.
    sample : (n_samples, n_dims) array_like
    description : dict
        JSON-compatible: what the columns are and where they come from.
    """

    context: npt.NDArray[np.float64]
    sample: npt.NDArray[np.float64]
    description: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        context, sample = (_numbers(getattr(self, name), name) for name in ("context", "sample"))
        object.__setattr__(self, "context", context)
        object.__setattr__(self, "sample", sample)
        expect_mapping(self.description, "the description", DataError)
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
    path = checked_path(path, DataError)
    expect(data_set, DataSet, "what is saved", DataError)
    header = to_json({"schema_version": SCHEMA, **data_set.description}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, context=data_set.context, sample=data_set.sample, description=np.array(header))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = CHECKSUM_MARK + BLANK.encode()
    write_atomically(path, sealed(buffer.getvalue(), CHECKSUM_MARK))


def load_data_set(path: str | Path) -> DataSet:
    """Read what `save_data_set` wrote; `DataError` says why a file is refused."""
    path = checked_path(path, DataError)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", str(path)) from error
    found = described_format(content)
    if found and not found.endswith((".npz)", "archive")):
        cure = "expected one of eim collect or eim import"
        raise DataError(f"{path} is no .npz data set, it is {found}; {cure}", str(path))
    try:
        context, sample, header = _columns(content)
        description = json.loads(str(header))
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{path} is truncated or no .npz data set: {error}", str(path)) from error
    if not isinstance(description, dict) or description.get("schema_version") != SCHEMA:
        raise DataError(f"{path} has another schema version; collect it again with this version", str(path))
    if problem := checksum_problem(content, CHECKSUM_MARK):
        raise DataError(f"{path} {problem}", str(path))
    try:
        return DataSet(context, sample, description)
    except DataError as error:
        raise DataError(f"{path}: {error}", error.value) from error


def _numbers(values: Any, name: str) -> npt.NDArray[np.float64]:
    try:
        return as_numbers(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} must be a matrix of real numbers, got a {type(values).__name__}", values) from error


def _columns(content: bytes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.str_]]:
    if not content.startswith(b"PK"):  # which NumPy would take for a pickle
        raise ValueError("it is no archive")
    archive = np.load(io.BytesIO(content), allow_pickle=False)
    missing = [name for name in ("context", "description", "sample") if name not in archive.files]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    context, sample, header = (_column(archive, name) for name in ("context", "sample", "description"))
    return np.asarray(context, dtype=np.float64), np.asarray(sample, dtype=np.float64), header


def _column(archive: Any, name: str) -> Any:
    try:
        return archive[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(f"{name} holds Python objects, which are never unpickled") from error
