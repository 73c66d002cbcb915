"""One arm in full on the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import viser

from eim_ros.kinematics import Robot
from eim_ros.kinematics.body_shapes import body_poses
from eim_ros.kinematics.pose import quaternion_from_matrix
from eim_ros.viewer.colours import byte_colour
from eim_ros.viewer.surfaces import Surface

__all__ = ["ArmMeshes"]


class ArmMeshes:
    """Draws an arm with its surfaces; meshes are sent once, then poses and colours alone.

    Parameters
    ----------
    scene : viser.SceneApi
    robot : Robot
    surfaces : sequence of Surface
    name : str
        In the tree of the scene, such as "/chosen".
    """

    def __init__(self, scene: viser.SceneApi, robot: Robot, surfaces: Sequence[Surface], name: str) -> None:
        self._robot = robot
        self._bodies = [surface.body for surface in surfaces]
        self._root = scene.add_frame(name, show_axes=False)
        self._meshes = [
            scene.add_mesh_simple(f"{name}/body_{surface.body}", surface.vertices, surface.faces, color=(0, 0, 0))
            for surface in surfaces
        ]

    @property
    def visible(self) -> bool:
        return bool(self._root.visible)

    @visible.setter
    def visible(self, is_wanted: bool) -> None:
        self._root.visible = is_wanted

    def show(self, q: npt.NDArray[np.float64] | None, colour: str, opacity: float | None = None) -> None:
        """In a configuration (dof,) and a colour; None: where it is."""
        poses = None if q is None else body_poses(self._robot, q)[0]
        for body, mesh in zip(self._bodies, self._meshes, strict=True):
            mesh.color = byte_colour(colour)
            mesh.opacity = opacity
            if poses is not None:
                mesh.position = poses[body, :3, 3]
                mesh.wxyz = np.roll(quaternion_from_matrix(poses[body]), 1)
