"""Many lines of a scene, each of one colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import viser

__all__ = ["Lines"]


class Lines:
    """Lines that are drawn anew at once.

    Parameters
    ----------
    scene : viser.SceneApi
    name : str
        In the tree of the scene.
    thickness : float
        [m].
    """

    def __init__(self, scene: viser.SceneApi, name: str, thickness: float) -> None:
        nothing = np.zeros((1, 2, 3))
        self._segments = scene.add_line_segments(
            name, nothing, nothing.astype(np.uint8), thickness=thickness, visible=False
        )

    @property
    def visible(self) -> bool:
        return bool(self._segments.visible)

    @visible.setter
    def visible(self, is_wanted: bool) -> None:
        self._segments.visible = is_wanted

    def draw(self, ways: Sequence[npt.NDArray[np.float64]], colours: npt.NDArray[np.uint8]) -> None:
        """Show these alone.

        Parameters
        ----------
        ways : sequence of (n_i, 3)
            Points of each line [m]; at least one line.
        colours : (n, 3) uint8
            Of each, see `eim_ros.viewer.colours.light`.
        """
        segments = [np.stack([way[:-1], way[1:]], axis=1) for way in ways]
        self._segments.points = np.concatenate(segments).astype(np.float32)
        each = np.repeat(colours, [len(part) for part in segments], axis=0)
        self._segments.colors = np.repeat(each[:, None], 2, axis=1)
        self._segments.visible = True
