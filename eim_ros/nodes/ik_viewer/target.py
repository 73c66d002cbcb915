"""The target of `ik_viewer`: a pose in some frame, that is where it is told, or moves along with its frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eim_ros.errors import PoseError
from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.base_frames import BaseFrames

__all__ = ["FollowedTarget", "Target"]

MOVED = 1e-9  # [m, 1] in an entry of its pose in the base frame, above which a target has moved


@dataclass(frozen=True, eq=False)
class Target:
    """A pose as it is told.

    Attributes
    ----------
    pose : (4, 4)
    frame : str
        Empty for that of the base link.
    stamp : int
        When the pose is that in its frame [ns]; 0: always, it moves along with the frame.
    """

    pose: np.ndarray
    frame: str = ""
    stamp: int = 0


class FollowedTarget:
    """Where the newest target is in the base frame.

    Parameters
    ----------
    frames : BaseFrames
    first : (4, 4)
        In the base frame.
    timeout : float
        Longest time that one waits for its frame [s].
    """

    def __init__(self, frames: BaseFrames, first: np.ndarray, timeout: float) -> None:
        self._frames, self._timeout = frames, timeout
        self._target: Target | None = None  # which moves along with its frame
        self._waiting: tuple[Target, float] | None = None  # one that is not known yet, and until when it may come
        self.pose = first

    def take(self, target: Target, now: float) -> bool:
        """A new one, at a time [s]; returns whether the pose has changed.

        Raises
        ------
        PoseError
            If its frame is not known, and cannot become so.
        """
        self._waiting = target, now + self._timeout
        return self.look(now)

    def look(self, now: float) -> bool:
        """Look again at a time [s]; returns whether the pose has changed. Raises as `take`, once for each target."""
        if self._waiting is not None:
            target, until = self._waiting
            try:
                found = self._in_base(target)
            except FrameError as error:
                if error.may_come and now < until:
                    return False
                self._waiting = None
                raise PoseError(f"a target is in frame {target.frame!r}, {error}", target.frame) from error
            self._waiting, self._target = None, None if self._stands_still(target) else target
        elif self._target is not None:
            try:
                found = self._in_base(self._target)
            except FrameError:  # of a frame that is known no longer: where it was
                return False
        else:
            return False
        has_moved = bool(np.abs(found - self.pose).max() > MOVED)
        self.pose = found
        return has_moved

    def _stands_still(self, target: Target) -> bool:
        return target.stamp != 0 or self._frames.is_fixed(target.frame)

    def _in_base(self, target: Target) -> np.ndarray:
        return np.asarray(self._frames.in_base(target.frame, target.stamp) @ target.pose)
