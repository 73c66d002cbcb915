"""How frames lie to the base link of a robot: those that are fixed to it, and those of tf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eim_ros.kinematics import Robot
from eim_ros.kinematics.attachments import fixed_links
from eim_ros.kinematics.frames import FrameError
from eim_ros.nodes.common.transforms import Transforms

__all__ = ["BaseFrames"]


@dataclass(frozen=True, eq=False)
class BaseFrames:
    """Of one robot.

    Attributes
    ----------
    robot : Robot
    transforms : Transforms, optional
        What tf tells; without it frames are those that are fixed to the base link.
    prefix : str
        What stands before the names of the robot's links in tf.
    """

    robot: Robot
    transforms: Transforms | None = None
    prefix: str = ""

    @cached_property
    def _fixed(self) -> Mapping[str, np.ndarray]:
        return fixed_links(self.robot, self.robot.base_link)

    def is_fixed(self, frame: str) -> bool:
        """Whether a frame, empty: that of the base link, is fixed to it, so that nobody has to be asked."""
        return not frame or frame in self._fixed or frame.removeprefix(self.prefix) in self._fixed

    def in_base(self, frame: str, stamp: int = 0) -> np.ndarray:
        """Pose (4, 4) of a frame in that of the base link at a time [ns], 0 for the latest.

        Raises
        ------
        FrameError
            Saying what is known, and whether the frame may be known a little later.
        """
        if self.is_fixed(frame):
            link = frame.removeprefix(self.prefix)
            return self._fixed[(frame if frame in self._fixed else link) or self.robot.base_link]
        base = self.robot.base_link
        if self.transforms is None:
            raise FrameError(
                f"expected the base link {base!r}, a link that is fixed to it "
                f"({', '.join(list(self._fixed)[1:]) or 'there is none'}), or nothing: tf is not listened to (use_tf)",
                frame,
            )
        try:
            return self.transforms.lookup(self.prefix + base, frame, stamp)
        except FrameError as error:
            raise FrameError(
                f"which is neither fixed to the base link {base!r} nor known by tf: {error}", frame, error.may_come
            ) from error
