"""Conversions between poses: homogeneous transforms, quaternions (xyzw), and contexts of a conditional model.

Functions accept the common forms of a pose: a transform, a pair of position and orientation, seven numbers, or an
object of another library. Such objects are recognised by their attributes, and their libraries are not imported.
`check_pose` converts every form to a transform, so all calls that take a pose accept the same forms.

The context of a position is p (3). The context of a pose is p, followed by the first two columns of the rotation (9).
Unlike a quaternion, this representation is continuous over all orientations (Zhou et al. 2019, "On the continuity of
rotation representations").
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, length, product
from eim_ros.core.checks import as_numbers, with_hints
from eim_ros.core.errors import PoseError
from eim_ros.solver import atan2, cos, first_not_rigid, rigid_copy, sin

FORMS = (
    "a (4, 4) transform, (position, quaternion xyzw), (position, rotation), seven numbers x y z qx qy qz qw, "
    "a mapping with position and orientation or rpy, or an object of pinocchio, spatialmath, scipy or geometry_msgs"
)
TRANSFORM_ATTRIBUTES = ("homogeneous", "A")  # attributes of pinocchio.SE3 and spatialmath.SE3
PARTS = (("position", "orientation"), ("translation", "rotation"))  # attributes of geometry_msgs Pose and Transform
MATRIX_METHODS = ("as_matrix", "GetAsMatrix4", "matrix")  # methods of scipy and jaxlie, of Drake, of sophus and gtsam
MAPPING = {"position", "orientation", "quaternion_wxyz", "rpy", "degrees"}  # keys of a mapping
POSITION_ALONE = "a pose needs an orientation here: expected " + FORMS
CONTEXT_KINDS = {"position": 3, "pose": 9}
"""Kinds of contexts of a model, and the number of values in each."""
# indices into a flattened transform
_ENTRIES = {kind: np.array([3, 7, 11, 0, 4, 8, 1, 5, 9][:n]) for kind, n in CONTEXT_KINDS.items()}
NORM_TOLERANCE = 1e-3
EXACT, RIGID_TOLERANCE = 1e-9, 1e-4  # maximum errors of the scalar products of a rotation's columns
LONGEST = 1e100  # squares of larger values could overflow [m]
LARGEST_ENTRY = 1.0 + 1e-3  # maximum entry of a rotation matrix, with a margin for rounding


def is_position(pose: Any) -> bool:
    """Return whether a pose is a position without orientation: three numbers, or an object with x, y and z."""
    if isinstance(pose, np.ndarray):
        return bool(pose.shape == (3,))
    if isinstance(pose, (list, tuple)):
        return len(pose) == 3 and _shape(pose) == (3,)
    if isinstance(pose, Mapping):
        return "position" in pose and pose.keys() <= {"position", "degrees"}
    return _has(pose, "xyz")


def unstamped(pose: Any, frame: str) -> Any:
    """Return the pose in a `geometry_msgs/PoseStamped`, or a value without a header unchanged.

    The stamped pose must be in `frame`. An empty frame in the message means the base of the arm, as in MoveIt. Raise
    `PoseError` for other frames.
    """
    if not hasattr(pose, "header"):
        return pose
    stamped = str(getattr(pose.header, "frame_id", "")).lstrip("/")
    if stamped not in ("", frame):
        raise PoseError(
            f"the stamped pose is in the frame {stamped!r}: transform it to the arm's base frame, then pass its .pose",
            pose,
        )
    return pose.pose


def _transform(pose: Any) -> Any:
    """Return the transform (4, 4) of a pose in any form. A value of an unknown form is returned unchanged.

    Raise `PoseError` for a position without orientation, and for a stamped pose with a frame.
    """
    if isinstance(pose, Mapping):
        return _of_mapping(pose)
    pose = unstamped(pose, "")
    for name in TRANSFORM_ATTRIBUTES:
        if isinstance(getattr(pose, name, None), np.ndarray):
            return getattr(pose, name)
    for position, orientation in PARTS:
        place, turn = getattr(pose, position, None), getattr(pose, orientation, None)
        if _has(place, "xyz") and _has(turn, "xyzw"):
            return _joined(place, turn)
    if (matrix := _matrix(pose)) is not None:
        return matrix
    is_sequence = isinstance(pose, (list, tuple))
    if is_sequence and len(pose) == 2:
        position, orientation = pose if _shape(pose[0]) == (3,) else reversed(pose)
        turn = orientation if (matrix := _matrix(orientation)) is None else matrix  # scipy's Rotation
        if _shape(position) == (3,) and (orientation is pose[1] or np.shape(turn) == (3, 3)):
            return _joined(position, turn)
    if is_position(pose):
        raise PoseError(POSITION_ALONE, pose)
    if (is_sequence and len(pose) == 7) or (isinstance(pose, np.ndarray) and pose.shape == (7,)):
        return _joined(pose[:3], pose[3:])
    return pose


def _of_mapping(pose: Mapping[str, Any]) -> FloatArray:
    """Return the transform (4, 4) of a mapping such as `{"position": ..., "rpy": ..., "degrees": True}`."""
    turns = [name for name in ("orientation", "quaternion_wxyz", "rpy") if pose.get(name) is not None]
    if "position" not in pose or not pose.keys() <= MAPPING or len(turns) > 1:
        raise PoseError(
            f"a mapping must have position, and one of orientation, quaternion_wxyz and rpy, got {pose}", pose
        )
    if not turns:
        raise PoseError(POSITION_ALONE, pose)
    position, turn = pose["position"], pose[turns[0]]
    if turns == ["rpy"]:
        angles = _finite(numbers_by_axis(turn, ("roll", "pitch", "yaw")), 3, "rpy")
        return pose_from(position, rpy=np.radians(angles) if pose.get("degrees") else angles)
    if turns == ["quaternion_wxyz"]:
        return _joined(position, np.roll(_finite(turn, 4, "quaternion wxyz"), -1))
    return _joined(position, turn if (matrix := _matrix(turn)) is None else matrix)


def _joined(position: Any, orientation: Any) -> FloatArray:
    """Return the transform (4, 4) of a position and a quaternion xyzw or a rotation matrix (3, 3)."""
    turn = _array(numbers_by_axis(orientation, "xyzw"), "the orientation of a pose must consist of numbers")
    if turn.shape != (3, 3):
        return pose_from(position, turn)
    joined = pose_from(position)
    joined[:3, :3] = turn
    return joined


def numbers_by_axis(values: Any, axes: Sequence[str]) -> Any:
    """Return the attributes or entries x, y, ... as a list, or the value itself if it does not have them."""
    if isinstance(values, Mapping) and values.keys() == set(axes):
        return [values[axis] for axis in axes]
    return [getattr(values, axis) for axis in axes] if _has(values, axes) else values


def _has(value: Any, axes: Sequence[str]) -> bool:
    return all(hasattr(value, axis) for axis in axes)


def _shape(values: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or of a flat sequence of numbers; None for other values, such as ragged lists."""
    if isinstance(values, np.ndarray):
        return tuple(values.shape)
    is_flat = isinstance(values, (list, tuple)) and all(
        isinstance(value, (float, int, Real, Decimal)) or getattr(value, "shape", None) == () for value in values
    )
    return (len(values),) if is_flat else None


def _matrix(pose: Any) -> Any:
    """Return the matrix of an object of another library, or None if the object has none of MATRIX_METHODS."""
    method = next((name for name in MATRIX_METHODS if callable(getattr(pose, name, None))), None)
    if method is None:
        return None
    try:
        return getattr(pose, method)()
    except Exception as error:  # a foreign object may raise anything
        raise PoseError(f"a pose must be {FORMS}; the method {method} of the object failed: {error}", pose) from error


@with_hints
def pose_from(
    position: npt.ArrayLike, quaternion_xyzw: npt.ArrayLike | None = None, *, rpy: npt.ArrayLike | None = None
) -> FloatArray:
    """Return the transform (4, 4) of a position [m] and an orientation given by a quaternion or by angles.

    Parameters
    ----------
    position : (3,) array_like
        Finite position [m], or an object with x, y and z.
    quaternion_xyzw : (4,) array_like, optional
        Quaternion whose length is 1 within 1e-3; it is normalised. Default: no rotation.
    rpy : (3,) array_like, optional
        Roll, pitch and yaw [rad] instead of a quaternion: rotations about the fixed x, then y, then z axis, as in a
        URDF.

    Raises
    ------
    PoseError
        If numbers are missing or not finite, the quaternion is not of unit length, or both orientations are given.

    Examples
    --------
    >>> from math import pi
    >>> from eim_ros.kinematics import pose_from
    >>> (pose_from((0.4, 0.0, 0.5), rpy=(pi, 0.0, 0.0)).round(3) + 0.0).tolist()
    [[1.0, 0.0, 0.0, 0.4], [0.0, -1.0, 0.0, 0.0], [0.0, 0.0, -1.0, 0.5], [0.0, 0.0, 0.0, 1.0]]

    Give the same orientation by a quaternion x, y, z, w:

    >>> bool((abs(pose_from((0.4, 0.0, 0.5), (1, 0, 0, 0)) - pose_from((0.4, 0.0, 0.5), rpy=(pi, 0, 0))) < 1e-12).all())
    True
    """
    transform = np.eye(4)
    given: Any = position
    place = given["position"] if isinstance(given, Mapping) and is_position(given) else given
    transform[:3, 3] = _finite(numbers_by_axis(place, "xyz"), 3, "position")
    if rpy is not None:
        if quaternion_xyzw is not None:
            raise PoseError("the orientation is given twice: give either a quaternion or rpy", rpy)
        about_x, about_y, about_z = rotations_from(np.diag(_finite(rpy, 3, "rpy")))
        transform[:3, :3] = product(about_z, about_y, about_x)
        return transform
    if quaternion_xyzw is None:
        return transform
    quaternion = _finite(quaternion_xyzw, 4, "quaternion xyzw", sys.float_info.max)
    norm = math.hypot(*quaternion)
    if norm == 0.0:
        raise PoseError("the quaternion is zero; the identity rotation is 0 0 0 1 (x y z w)", quaternion)
    if abs(norm - 1.0) > NORM_TOLERANCE:
        raise PoseError(f"the quaternion has length {norm:.6g}, expected 1 within {NORM_TOLERANCE}", quaternion)
    x, y, z, w = (quaternion / length(quaternion)).tolist()
    px, py, pz = transform[:3, 3].tolist()
    return _with_quaternion(px, py, pz, x, y, z, w)


def _with_quaternion(px: float, py: float, pz: float, x: float, y: float, z: float, w: float) -> FloatArray:
    """Return the transform (4, 4) of a position and a unit quaternion."""
    rows = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w), px),
        (2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w), py),
        (2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y), pz),
        (0.0, 0.0, 0.0, 1.0),
    )
    return np.array(rows)


def _of_seven(pose: Any) -> FloatArray | None:
    """Return the transform (4, 4) of seven plain numbers in a tenth of the time of `pose_from`.

    The result is bitwise the same as that of `pose_from`. It is None for other forms, and for numbers that `pose_from`
    rejects.
    """
    if isinstance(pose, np.ndarray) and pose.shape == (7,) and pose.dtype == np.float64:
        pose = pose.tolist()
    if not isinstance(pose, (list, tuple)) or len(pose) != 7 or not set(map(type, pose)) <= {float, int}:
        return None
    px, py, pz, x, y, z, w = map(float, pose) if max(map(abs, pose)) <= LONGEST else (math.nan,) * 7
    size = math.sqrt(x * x + y * y + z * z + w * w)
    if not (abs(size - 1.0) < 0.5 * NORM_TOLERANCE and abs(px) + abs(py) + abs(pz) < LONGEST):  # also true for NaN
        return None
    return _with_quaternion(px, py, pz, x / size, y / size, z / size, w / size)


def quaternion_from_matrix(rotation: npt.ArrayLike) -> FloatArray:
    """Return the unit quaternion xyzw (4,), w >= 0, of a rotation (3, 3) or of the rotation in a transform (4, 4).

    Examples
    --------
    >>> from math import pi
    >>> from eim_ros.kinematics import pose_from, quaternion_from_matrix
    >>> quaternion_from_matrix(pose_from((0.0, 0.0, 0.0), rpy=(0.0, 0.0, pi / 2))).round(4).tolist()
    [0.0, 0.0, 0.7071, 0.7071]
    """
    r = _array(rotation, "a rotation must consist of numbers")
    if r.shape not in ((3, 3), (4, 4)):
        raise PoseError(f"expected a rotation (3, 3) or a transform (4, 4), got shape {r.shape}", rotation)
    if not np.abs(r[:3, :3]).max() <= LARGEST_ENTRY:  # also true for NaN
        raise PoseError(f"a rotation must have entries from -1 to 1, got {r[:3, :3].tolist()}", rotation)
    products = np.array(
        [
            [1 + r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[0, 2] + r[2, 0], r[2, 1] - r[1, 2]],
            [r[1, 0] + r[0, 1], 1 - r[0, 0] + r[1, 1] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
            [r[0, 2] + r[2, 0], r[2, 1] + r[1, 2], 1 - r[0, 0] - r[1, 1] + r[2, 2], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], 1 + r[0, 0] + r[1, 1] + r[2, 2]],
        ]
    )
    # products of x, y, z, w times 4; the row with the largest square is the most accurate (Shepperd 1978)
    row = products[int(np.argmax(np.diagonal(products)))]
    quaternion = row / length(row)
    return np.asarray(-quaternion if quaternion[3] < 0 else quaternion, dtype=np.float64)


def rotations_from(vectors: FloatArray) -> FloatArray:
    """Return the rotations (n, 3, 3) of rotation vectors (n, 3) [rad], by Rodrigues' formula."""
    angles = length(vectors)
    x, y, z = (vectors / np.where(angles > 0.0, angles, 1.0)[:, None]).T
    zero = np.zeros_like(x)
    across = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(-1, 3, 3)
    sine, versine = sin(angles)[:, None, None], (1.0 - cos(angles))[:, None, None]
    return np.asarray(np.eye(3) + sine * across + versine * product(across, across))


def rotation_vectors(rotations: FloatArray) -> FloatArray:
    """Return the rotation vectors (n, 3) [rad] of rotations (n, 3, 3); their lengths are at most pi."""
    quaternions = np.array([quaternion_from_matrix(rotation) for rotation in rotations]).reshape(-1, 4)
    sines = length(quaternions[:, :3])  # sines of half the angles, whose cosines are not negative
    angles = 2.0 * atan2(sines, quaternions[:, 3])
    return np.asarray(quaternions[:, :3] * (angles / np.where(sines > 0.0, sines, 1.0))[:, None])


def straight_lines(poses: FloatArray, max_distance: float, max_angle: float, most: int) -> FloatArray:
    """Return poses (m, 4, 4) on the straight lines between successive poses (n, 4, 4), without the first pose.

    The poses on a line are equally spaced by at most `max_distance` [m] and `max_angle` [rad]. The orientation turns
    about a fixed axis. The line between equal poses has one pose. Raise `PoseError` if there are more than `most`
    poses.
    """
    moves = np.diff(poses[:, :3, 3], axis=0)
    turns = rotation_vectors(product(poses[:-1, :3, :3].transpose(0, 2, 1), poses[1:, :3, :3]))
    lengths = np.linalg.norm(moves, axis=1), np.linalg.norm(turns, axis=1)
    counts = np.ceil(np.maximum(lengths[0] / max_distance, lengths[1] / max_angle)).clip(1.0)
    if not counts.sum() <= most:
        raise PoseError(
            f"the interpolated path has {counts.sum():.3g} poses, but at most {most} are allowed: increase the "
            "distance between poses",
            counts.sum(),
        )
    found = []
    for start, end, move, turn, n in zip(poses[:-1], poses[1:], moves, turns, counts.astype(int), strict=True):
        shares = np.arange(1, n + 1)[:, None] / n
        line = np.tile(start, (n, 1, 1))
        line[:, :3, :3] = product(start[:3, :3], rotations_from(shares * turn))
        line[:, :3, 3] += shares * move
        line[-1] = end
        found.append(line)
    return np.concatenate(found)


def check_pose(transform: npt.ArrayLike) -> FloatArray:
    """Return a pose as a new contiguous float64 transform (4, 4).

    Any form listed in `FORMS` is accepted. Rounding errors up to 1e-4 are removed, because errors of solutions must be
    relative to a rigid pose. The matrix is replaced by the nearest rotation. Transforms that are not finite or have
    larger errors raise `PoseError`.

    Examples
    --------
    >>> from eim_ros.kinematics import check_pose
    >>> check_pose([0.4, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])[:3, 3].tolist()
    [0.4, 0.0, 0.5]
    """
    if isinstance(transform, np.ndarray) and transform.shape == (4, 4):
        if transform.dtype == np.float64 and (copy := rigid_copy(transform, EXACT)) is not None:
            return copy
        given: Any = transform
    elif (plain := _of_seven(transform)) is not None:
        return plain
    else:
        given = _transform(transform)
    try:
        pose = np.array(as_numbers(given))
    except (TypeError, ValueError) as error:
        hint = "; for tensors with a gradient, call solve_batch" * bool(getattr(transform, "requires_grad", False))
        raise PoseError(f"a pose must be a (4, 4) transform of numbers, got {transform!r}{hint}", transform) from error
    if pose.shape != (4, 4):
        several = "; for several poses, call sample_batch, solve_batch or follow" * (pose.ndim >= 2 and len(pose) > 1)
        angles = "; for angles, call pose_from(position, rpy=...)" * (pose.shape == (6,))
        raise PoseError(f"a pose must be {FORMS}; got shape {pose.shape}{several}{angles}", transform)
    if first_not_rigid(pose[None], EXACT):
        return pose
    if not np.isfinite(pose).all():
        raise PoseError(f"a pose must be finite, got {pose.tolist()}", transform)
    if first_not_rigid(pose[None], RIGID_TOLERANCE):
        pose[:3, :3], pose[3] = _nearest_rotation(pose[:3, :3]), (0.0, 0.0, 0.0, 1.0)
        return pose
    if np.abs(pose[:3, 3]).sum() >= LONGEST:
        raise PoseError(f"the position of a pose must be below {LONGEST:g} m, got {pose[:3, 3].tolist()}", transform)
    with np.errstate(all="ignore"):  # infinite if the products overflow
        off = max(np.abs(pose[:3, :3].T @ pose[:3, :3] - np.eye(3)).max(), np.abs(pose[3] - np.eye(4)[3]).max())
    rounding = f"more than the {RIGID_TOLERANCE:g} allowed for rounding"
    told = f"off by {off:.2g}, {rounding}" if off > RIGID_TOLERANCE else "left-handed"
    raise PoseError(
        "the rotation of a pose must be orthonormal and right-handed, and the last row must be 0 0 0 1; the pose "
        f"is {told}",
        transform,
    )


def _nearest_rotation(matrix: FloatArray) -> FloatArray:
    """Return the orthogonal matrix nearest to a matrix (3, 3) that is orthonormal within `RIGID_TOLERANCE`.

    The method is Newton's iteration for the polar decomposition without an inverse (Higham 2008, 8.3). Each step
    squares the error, so only rounding errors are left after three steps.
    """
    for _ in range(3):
        matrix = product(matrix, 1.5 * np.eye(3) - 0.5 * product(matrix.T, matrix))
    return matrix


def check_poses(transforms: npt.ArrayLike, frame: str = "") -> FloatArray:
    """Return transforms (n, 4, 4), n >= 1, each checked by `check_pose`. A sequence may contain poses in any form.

    Stamped poses must be in `frame`, see `unstamped`.
    """
    try:
        poses = np.array(as_numbers(transforms))
    except (TypeError, ValueError) as error:
        poses = _each_form(transforms, error, frame)
    if poses.ndim == 2 and poses.shape[1] == 7:
        poses = _each_form(poses, None, frame)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or not len(poses):
        raise PoseError(f"expected poses of shape (n, 4, 4) or (n, 7), n >= 1, got {poses.shape}", transforms)
    i = first_not_rigid(poses, EXACT)
    while i < len(poses):
        try:
            poses[i] = check_pose(poses[i])
        except PoseError as error:
            raise PoseError(f"pose {i} of {len(poses)}: {error}", error.value) from error
        i += 1 + first_not_rigid(poses[i + 1 :], EXACT)
    return poses


def _each_form(poses: Any, cause: Exception | None, frame: str) -> FloatArray:
    is_array = isinstance(poses, np.ndarray) and poses.ndim > 0
    if not (is_array or isinstance(poses, (list, tuple))) or not len(poses):
        got = "no poses" if isinstance(poses, (np.ndarray, list, tuple)) else f"a {type(poses).__name__}"
        raise PoseError(f"expected poses of shape (n, 4, 4), n >= 1, got {got}", poses) from cause
    return np.array([check_pose(unstamped(pose, frame)) for pose in poses])


def context_from_pose(transform: npt.ArrayLike, kind: str) -> FloatArray:
    """Return the contexts (..., 3) or (..., 9) of transforms (..., 4, 4); `kind` is "position" or "pose".

    Examples
    --------
    >>> from eim_ros.kinematics import context_from_pose, pose_from
    >>> context_from_pose(pose_from((0.4, 0.0, 0.5)), "pose").tolist()
    [0.4, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    """
    if not isinstance(kind, str) or kind not in CONTEXT_KINDS:
        raise PoseError(f"context kind must be one of {', '.join(CONTEXT_KINDS)}, got {kind!r}", kind)
    poses = _array(transform, "a transform must consist of numbers")
    if poses.shape[-2:] != (4, 4):
        raise PoseError(f"expected transforms (..., 4, 4), got shape {poses.shape}", transform)
    return poses.reshape(*poses.shape[:-2], 16).take(_ENTRIES[kind], axis=-1)


def pose_from_context(context: npt.ArrayLike) -> FloatArray:
    """Return the transforms (..., 4, 4) of contexts.

    Transforms of contexts (..., 3) have no rotation. The rotation columns in contexts (..., 9) are made orthonormal.

    Examples
    --------
    >>> from eim_ros.kinematics import context_from_pose, pose_from, pose_from_context
    >>> pose = pose_from((0.4, 0.0, 0.5), rpy=(0.1, 0.2, 0.3))
    >>> bool((abs(pose_from_context(context_from_pose(pose, "pose")) - pose) < 1e-12).all())
    True
    """
    values = _array(context, "a context must consist of numbers")
    if values.ndim == 0 or values.shape[-1] not in CONTEXT_KINDS.values():
        raise PoseError(f"a context has 3 (position) or 9 (pose) numbers, got shape {values.shape}", context)
    poses = np.zeros((*values.shape[:-1], 4, 4))
    poses[..., :, :] = np.eye(4)
    poses[..., :3, 3] = values[..., :3]
    if values.shape[-1] == 9:
        if not (np.abs(values[..., 3:]) <= LONGEST).all():  # also true for NaN
            raise PoseError("the two rotation columns of a pose context must be finite", context)
        first = _normalised(values[..., 3:6])
        second = values[..., 6:9]
        second = _normalised(second - first * np.sum(first * second, axis=-1, keepdims=True))
        poses[..., :3, :3] = np.stack([first, second, np.cross(first, second)], axis=-1)
    return poses


def _array(values: npt.ArrayLike, claim: str) -> FloatArray:
    """Return values as an array of numbers, or raise `PoseError` with the text `claim`."""
    try:
        return as_numbers(values)
    except (TypeError, ValueError) as error:
        raise PoseError(f"{claim}, got {values!r}", values) from error


def _normalised(vectors: FloatArray) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not np.all(norms > 1e-9):  # also true for NaN
        raise PoseError("the two rotation columns of a pose context must be linearly independent", vectors)
    return np.asarray(vectors / norms, dtype=np.float64)


def _finite(values: npt.ArrayLike, n: int, what: str, most: float = LONGEST) -> FloatArray:
    array = _array(values, f"{what} must be {n} numbers")
    if array.shape != (n,):
        raise PoseError(f"{what} must be {n} numbers, got shape {array.shape}", values)
    if not np.all(np.abs(array) <= most):  # also true for NaN
        raise PoseError(f"{what} must be finite, got ({', '.join(f'{value:g}' for value in array)})", values)
    return array
