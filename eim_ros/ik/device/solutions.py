"""Answers for many poses, as arrays that stay on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import IntArray
from eim_ros.core.errors import PoseError
from eim_ros.ik.candidates import ErrorCode, Outcome
from eim_ros.ik.completeness import grant_points
from eim_ros.ik.solutions import Solutions
from eim_ros.kinematics import Robot


class PoseStatus(IntEnum):
    """Status of the answer for a pose. The values are those of `kernels.hpp`."""

    OPEN = 0  # fewer rows than requested; there may be other solutions
    FULL = 1  # as many rows as requested
    COMPLETE = 2  # there are no other solutions
    NOT_RIGID = 3  # the pose is not a rigid transform


@dataclass(frozen=True, eq=False)
class DeviceSolutions:
    """Solutions of many poses, as arrays of the same library and on the same device as the poses.

    Every row was verified by forward kinematics in double precision, and is within the limits.

    Attributes
    ----------
    q : (m, n, dof)
        Configurations [rad] or [m]. The first `counts` rows of a pose are solutions, the remaining ones are NaN.
    counts : (m,)
        Number of rows of each pose.
    errors : (m, n, 2)
        Position error [m] and orientation error [rad] of each row. Only the amount beyond the tolerances counts.
    status : (m,)
        Values of `PoseStatus`.
    robot : Robot
        The arm.
    lists_all : bool
        Whether all solutions were requested.
    manipulability : (m, n), optional
        Yoshikawa's measure of each row. It is only computed for capability maps and base placement.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 5.0)]  # the second one is out of reach
    >>> found = Sampler("ur5e").on("cpu").solve_all_batch(poses)
    >>> found.q.shape, found.counts.tolist(), found.cpu().n_per_pose.tolist()
    ((2, 16, 6), [8, 0], [8, 0])
    """

    q: Any
    counts: Any
    errors: Any
    status: Any
    robot: Robot
    lists_all: bool
    manipulability: Any = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def undecided(self) -> IntArray:
        """Indices (k,) of poses that the processor may answer better, such as poses with free angles.

        The rows of these poses are solutions, but other solutions may exist. Reading this property waits for the
        device.
        """
        decided = [PoseStatus.COMPLETE] if self.lists_all else [PoseStatus.COMPLETE, PoseStatus.FULL]
        return np.flatnonzero(~np.isin(_on_host(self.status), decided))

    def converted(self, convert: Callable[[Any], Any]) -> DeviceSolutions:
        """Return the answer with each array made contiguous and converted."""
        columns = self.q, self.counts, self.errors, self.status, self.manipulability
        q, counts, errors, status, measures = (
            None if each is None else convert(each.contiguous() if hasattr(each, "contiguous") else each.copy())
            for each in columns
        )
        return DeviceSolutions(q, counts, errors, status, self.robot, self.lists_all, measures)

    def cpu(self) -> Solutions:
        """Return the answer in the memory of the processor; raise `PoseError` if a pose is not a rigid transform."""
        status, counts = _on_host(self.status), _on_host(self.counts).astype(np.int64)
        if len(wrong := np.flatnonzero(status == PoseStatus.NOT_RIGID)):
            raise PoseError(
                f"pose {wrong[0]} of {len(status)} is not a rigid transform in double precision: compute "
                "its rotation in float64",
                wrong[0],
            )
        q, errors = _on_host(self.q), _on_host(self.errors)
        taken = np.arange(q.shape[1]) < counts[:, None]
        outcomes = tuple(
            self._outcome(count, each) for count, each in zip(counts.tolist(), status.tolist(), strict=True)
        )
        names, times = self.robot.joint_names, np.zeros(len(counts))
        return Solutions(names, q[taken], errors[taken].T, outcomes, times, counts=counts, robot=self.robot)

    @functools.cached_property
    def _outcomes(self) -> dict[tuple[int, int], Outcome]:
        return {}

    def _outcome(self, count: int, status: int) -> Outcome:
        """Return the outcome of poses with this number of rows and this status, which share one outcome."""
        if (count, status) not in self._outcomes:
            code = ErrorCode.SUCCESS if count else ErrorCode.NO_IK_SOLUTION
            number = "1 solution" if count == 1 else f"{count} solutions"
            if status == PoseStatus.COMPLETE:
                words = f"{number}, all that exist" if count else "there is no solution, as a closed form shows"
                told = words, grant_points(count, None, True) if self.lists_all or not count else None
                outcome = Outcome(int(code), told, float(count) if told[1] else np.nan)
            else:
                words = number if count else "no solution found"
                outcome = Outcome(int(code), (f"{words}; there may be others", None))
            self._outcomes[count, status] = outcome
        return self._outcomes[count, status]


def _on_host(array: Any) -> npt.NDArray[Any]:
    """Convert an array of NumPy, torch or CuPy to NumPy."""
    if hasattr(array, "get"):  # CuPy
        array = array.get()
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)
