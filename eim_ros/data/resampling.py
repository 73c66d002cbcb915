"""Values between those recorded: positions over time, linearly or by monotone cubics, and poses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.spatial.transform import Rotation, Slerp

__all__ = ["METHODS", "interpolated", "interpolated_poses"]

METHODS = ("linear", "cubic")

FloatArray = npt.NDArray[np.float64]


def interpolated(times: FloatArray, values: FloatArray, moments: FloatArray, method: str) -> FloatArray:
    """Values (m, d) at moments (m,) within the times.

    Parameters
    ----------
    times : (n,)
        Strictly ascending [s], n >= 2.
    values : (n, d)
    moments : (m,)
        [s].
    method : str
        "linear", or "cubic": piecewise cubic and once differentiable (PCHIP), never beyond the values on both sides.
    """
    if method == "cubic":
        return np.asarray(PchipInterpolator(times, values, axis=0)(moments), dtype=np.float64)
    return np.column_stack([np.interp(moments, times, column) for column in values.T])


def interpolated_poses(
    times: FloatArray, poses: FloatArray, moments: FloatArray, max_gap: float
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Transforms (m, 4, 4) at moments (m,), and whether there are poses on both sides, no further apart than `max_gap`.

    Parameters
    ----------
    times : (n,)
        Strictly ascending [s].
    poses : (n, 7)
        Position [m] and quaternion xyzw.
    moments : (m,)
        [s].
    max_gap : float
        [s].
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
