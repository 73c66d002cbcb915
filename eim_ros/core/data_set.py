"""Data sets of contexts and samples, and helpers that prepare them from recordings.

A data set is one NumPy archive (.npz) without pickled objects. It contains a JSON description, and the comment of the
archive contains the checksum of the file. The helpers interpolate positions and poses over time, and sort joint values
by the joint names of a robot.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.spatial.transform import Rotation, Slerp

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import as_numbers, checked_path, expect, expect_mapping
from eim_ros.core.errors import DataError
from eim_ros.core.files import (
    ARCHIVE_ERRORS,
    BLANK,
    checksum_problem,
    described_format,
    sealed,
    to_json,
    write_atomically,
)

SCHEMA = 1
CHECKSUM_MARK = b"eim_ros sha256 "
METHODS = ("linear", "cubic")
OTHER_JOINTS = "other joints"
LARGEST_POSITION = 1e9  # larger values count as infinite, because sums of damaged values may overflow [rad] or [m]
OWN_ARRAYS = "to use your own arrays, name columns with eim train --contexts and --samples"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Set of samples with their contexts.

    Raise `DataError` if the arrays are not finite real matrices of equal length.

    Attributes
    ----------
    context : (n_samples, n_context) array_like
        Contexts, which are converted to float64.
    sample : (n_samples, n_dims) array_like
        Samples, which are converted to float64.
    description : dict
        JSON-compatible description of the meaning and origin of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
    >>> data_set = DataSet(np.zeros((5, 3)), np.ones((5, 7)), {"robot": "panda"})
    >>> save_data_set("pairs.npz", data_set)
    >>> load_data_set("pairs.npz").sample.shape
    (5, 7)
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
                "context (n, dy) and sample (n, dx) must be matrices with the same number of rows, got shapes "
                f"{context.shape} and {sample.shape}",
                sample.shape,
            )
        for name, part in (("context", context), ("sample", sample)):
            bad = np.flatnonzero(~np.isfinite(part).all(axis=1))
            if len(bad):
                raise DataError(
                    f"{name} has NaN or infinite entries in {len(bad)} rows, the first of which is row "
                    f"{bad[0]}; remove these rows",
                    bad[0],
                )

    def __len__(self) -> int:
        return len(self.sample)


def save_data_set(path: str | Path, data_set: DataSet) -> None:
    """Write a data set to a compressed file, atomically."""
    path = checked_path(path, DataError)
    expect(data_set, DataSet, "what is saved", DataError)
    header = to_json({"schema_version": SCHEMA, **data_set.description}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, context=data_set.context, sample=data_set.sample, description=np.array(header))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = CHECKSUM_MARK + BLANK.encode()
    write_atomically(path, sealed(buffer.getvalue(), CHECKSUM_MARK))


def load_data_set(path: str | Path) -> DataSet:
    """Read a file that `save_data_set` wrote.

    Raise `DataError` if the file is missing, damaged, of another format or schema version, or invalid.
    """
    path = checked_path(path, DataError)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", str(path)) from error
    found = described_format(content)
    if found and not found.endswith(".npz)"):
        cure = "expected a data set written by eim collect or eim import"
        raise DataError(f"{path} is not a data set (.npz) but {found}; {cure}", str(path))
    try:
        context, sample, header = _columns(content)
        description = json.loads(str(header))
    except ARCHIVE_ERRORS as error:
        raise DataError(f"{path} is truncated, or not a data set (.npz): {error}; {OWN_ARRAYS}", str(path)) from error
    if not isinstance(description, dict) or description.get("schema_version") != SCHEMA:
        raise DataError(
            f"{path} has another schema version than this program reads: collect the data again with this version",
            str(path),
        )
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
        raise DataError(
            f"{name} must be a matrix of real numbers, got an object of type {type(values).__name__}", values
        ) from error


def _columns(content: bytes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.str_]]:
    if not content.startswith(b"PK"):  # NumPy would read the content as a pickle
        raise ValueError("it is not an .npz archive")
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
        raise ValueError(
            f"{name} contains Python objects, which are never unpickled: store arrays of numbers"
        ) from error


def interpolated(times: FloatArray, values: FloatArray, moments: FloatArray, method: str) -> FloatArray:
    """Interpolate values at moments within the times.

    Parameters
    ----------
    times : (n,)
        Strictly ascending times [s], n >= 2.
    values : (n, d)
    moments : (m,)
        Times at which values are computed [s].
    method : str
        "linear", or "cubic" for piecewise cubic polynomials that are once differentiable and do not overshoot (PCHIP).

    Returns
    -------
    (m, d)
        Interpolated values.
    """
    if method == "cubic":
        return np.asarray(PchipInterpolator(times, values, axis=0)(moments), dtype=np.float64)
    return np.column_stack([np.interp(moments, times, column) for column in values.T])


def interpolated_poses(
    times: FloatArray, poses: FloatArray, moments: FloatArray, max_gap: float
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Interpolate poses at moments, with linear positions and orientations by slerp.

    Parameters
    ----------
    times : (n,)
        Strictly ascending times [s].
    poses : (n, 7)
        Position [m] and quaternion xyzw.
    moments : (m,)
        Times at which poses are computed [s].
    max_gap : float
        Longest time between the poses before and after a moment [s].

    Returns
    -------
    transforms : (m, 4, 4)
    known : (m,)
        Whether there are poses before and after the moment that are at most `max_gap` apart.
    """
    result = np.tile(np.eye(4), (len(moments), 1, 1))
    if len(times) < 2:
        return result, np.zeros(len(moments), dtype=np.bool_)
    right = np.clip(np.searchsorted(times, moments), 1, len(times) - 1)
    known = (moments >= times[0]) & (moments <= times[-1]) & (times[right] - times[right - 1] <= max_gap)
    inside = np.clip(moments, times[0], times[-1])
    result[:, :3, 3] = interpolated(times, poses[:, :3], inside, "linear")
    result[:, :3, :3] = Slerp(times, Rotation.from_quat(poses[:, 3:]))(inside).as_matrix()
    return result, known


class JointMatcher:
    """Selection of given joints from joint states."""

    def __init__(self, joint_names: Sequence[str]) -> None:
        self.joint_names = tuple(joint_names)
        self._names: list[str] | None = None  # names in the previous joint state
        self._columns: npt.NDArray[np.intp] | None = None
        self._problem = ""

    def match(self, names: Sequence[str], positions: npt.ArrayLike) -> tuple[npt.NDArray[np.float64] | None, str]:
        """Return the positions of the selected joints in a joint state.

        Parameters
        ----------
        names : sequence of str
            Joints of the joint state.
        positions : array_like
            Positions of these joints [rad] or [m].

        Returns
        -------
        positions : (n_joints,) or None
            Positions of the selected joints; None if a usable position is missing.
        problem : str
            Reason why there are no positions; otherwise empty.
        """
        if names != self._names:
            self._names = list(names)
            self._columns, self._problem = self._find(self._names)
        if self._columns is None:
            return None, self._problem
        values = np.asarray(positions, dtype=np.float64)
        if len(values) != len(self._names):
            return None, f"with {len(self._names)} names but {len(values)} positions"
        values = values[self._columns]
        finite = np.abs(values) < LARGEST_POSITION
        if not finite.all():
            wrong = [name for name, is_finite in zip(self.joint_names, finite, strict=True) if not is_finite]
            return None, f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} not finite"
        return values, ""

    def _find(self, names: list[str]) -> tuple[npt.NDArray[np.intp] | None, str]:
        missing = [name for name in self.joint_names if name not in names]
        if len(missing) == len(self.joint_names):
            return None, OTHER_JOINTS
        if missing:
            return None, f"without {', '.join(missing)}"
        if twice := sorted({name for name in self.joint_names if names.count(name) > 1}):
            return None, f"{', '.join(twice)} given twice"
        return np.array([names.index(name) for name in self.joint_names], dtype=np.intp), ""
