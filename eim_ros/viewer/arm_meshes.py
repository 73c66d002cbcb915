"""One arm in full on the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import viser
from scipy.spatial.transform import Rotation

from eim_ros.kinematics import Robot
from eim_ros.kinematics.body_shapes import body_poses
from eim_ros.viewer.colours import byte_colour
from eim_ros.viewer.surfaces import Surface

__all__ = ["ArmMeshes", "wxyzs_of"]


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
        wxyzs = None if poses is None else wxyzs_of(poses[:, :3, :3])
        for body, mesh in zip(self._bodies, self._meshes, strict=True):
            mesh.color = byte_colour(colour)
            mesh.opacity = opacity
            if poses is not None and wxyzs is not None:
                mesh.position, mesh.wxyz = poses[body, :3, 3], wxyzs[body]


def wxyzs_of(rotations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Quaternions (n, 4), w first, of rotations (n, 3, 3)."""
    return np.roll(Rotation.from_matrix(rotations).as_quat(), 1, axis=1)
