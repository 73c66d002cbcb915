"""Bodies of a chain: where each is in a configuration, and the shapes that are fixed to it.

Body i moves with joint i - 1, body 0 is the base; frames are those of `chain.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION
from eim_ros.kinematics.link_shapes import MeshReference, link_placements
from eim_ros.kinematics.serial_arm import SerialArm
from eim_ros.kinematics.shapes import Shape
from eim_ros.kinematics.urdf import parse_urdf

__all__ = ["BodyShape", "body_poses", "body_shapes", "tip_poses"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BodyShape:
    """A shape of a link, in the frame of the body that the link is part of.

    Attributes
    ----------
    body : int
    pose : (4, 4)
        Of the shape in the body's frame [m].
    shape : Box, Sphere, Cylinder, Capsule or MeshReference
        Its own pose is in the frame of the link, and contained in `pose`.
    link : str
    """

    body: int
    pose: FloatArray
    shape: Shape | MeshReference
    link: str


def body_poses(arm: SerialArm, q: npt.ArrayLike) -> FloatArray:
    """Poses (n, n_bodies, 4, 4) of the bodies in the base frame, of configurations (n, dof)."""
    rows = arm._rows(q)[0]
    moving = arm.links[:-1]
    return _poses(arm, moving[:, MULTIPLIER] * rows[:, moving[:, SOURCE].astype(np.int64)] + moving[:, OFFSET])


def tip_poses(arm: SerialArm, q: npt.ArrayLike) -> FloatArray:
    """Poses (n, 4, 4) of the tip, as `SerialArm.forward` but without the compiled chain."""
    carried = np.eye(4)
    carried[:3, :3], carried[:3, 3] = arm.links[-1, :9].reshape(3, 3), arm.links[-1, TRANSLATION]
    return np.asarray(body_poses(arm, q)[:, -1] @ carried)


def body_shapes(arm: SerialArm, links: Mapping[str, Sequence[Shape | MeshReference]]) -> list[BodyShape]:
    """The shapes of each link, as `link_shapes` reads them, in the frames of the bodies."""
    at_zero = _poses(arm, np.zeros((1, len(arm.links) - 1)))[0]
    placements = link_placements(parse_urdf(arm.urdf), arm.base_link, arm.tip_link)
    return [
        BodyShape(body, np.linalg.inv(at_zero[body]) @ pose @ np.asarray(shape.pose), shape, link)
        for link, (body, pose) in placements.items()
        for shape in links.get(link, ())
    ]


def _poses(arm: SerialArm, values: FloatArray) -> FloatArray:
    """The same of values (n, m) of the moving joints: T_i = T_{i-1} P_{i-1} Z(v_{i-1})."""
    poses = np.zeros((len(values), len(arm.links), 4, 4))
    poses[:, 0] = np.eye(4)
    for body, link in enumerate(arm.links[:-1], start=1):
        placement, moved = np.eye(4), np.zeros((len(values), 4, 4))
        placement[:3, :3], placement[:3, 3] = link[:9].reshape(3, 3), link[TRANSLATION]
        moved[:] = np.eye(4)
        value = values[:, body - 1]
        if link[PRISMATIC]:
            moved[:, 2, 3] = value
        else:
            cosine, sine = np.cos(value), np.sin(value)
            moved[:, 0, 0], moved[:, 1, 1], moved[:, 0, 1], moved[:, 1, 0] = cosine, cosine, -sine, sine
        poses[:, body] = poses[:, body - 1] @ placement @ moved
    return poses
