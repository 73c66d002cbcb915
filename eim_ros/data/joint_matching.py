"""Joint values in the order of a robot's joints, matched by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["JointMatcher"]

OTHER_JOINTS = "other joints"


class JointMatcher:
    """Picks wanted joints out of joint states.

    Parameters
    ----------
    joint_names : sequence of str
        Wanted joints, in the wanted order.
    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        self.joint_names = tuple(joint_names)
        self._names: list[str] | None = None  # of the joint state before, whose columns are known
        self._columns: npt.NDArray[np.intp] | None = None
        self._problem = ""

    def match(self, names: Sequence[str], positions: npt.ArrayLike) -> tuple[npt.NDArray[np.float64] | None, str]:
        """Values (n_joints,) of the wanted joints; None, and why, where a joint state does not give them.

        Parameters
        ----------
        names, positions
            Of one joint state, [rad] or [m].
        """
        if names != self._names:
            self._names = list(names)
            self._columns, self._problem = self._find(self._names)
        if self._columns is None:
            return None, self._problem
        values = np.asarray(positions, dtype=np.float64)
        if len(values) != len(self._names):
            return None, f"{len(self._names)} names but {len(values)} positions"
        values = values[self._columns]
        if not np.isfinite(values).all():
            return None, "not finite"
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
