"""Reference for `Robot.branches`: labels computed from pinocchio's joint frames and from known shapes of arms.

The labels depend on positions in the vertical plane of the arm, and on the direction of the hand relative to the
link before the wrist.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from kinematics.six_joint_arms import URDFS

from eim_ros.kinematics import share_path

__all__ = ["ARMS", "Drawing", "labels_of"]


@dataclass(frozen=True)
class Drawing:
    """Shape of an arm.

    Attributes
    ----------
    urdf : str
    shoulder : str
        "offset" if the plane of the arm is offset from axis 1, "before" if axis 2 is in front of axis 1, "on" if the
        axes meet.
    joints : (int, int, int, int)
        Numbers, from 1, of the joints at shoulder, elbow and wrist, and at the end of the line from the shoulder.
    hand : (3,)
        Direction of the hand in the frame of the last joint.
    bent : (3,)
        Direction of the hand in the frame of the third last joint, if the wrist does not flip.
    """

    urdf: str
    shoulder: str
    joints: tuple[int, int, int, int]
    hand: tuple[float, float, float]
    bent: tuple[float, float, float]


UPRIGHT = (0.0, 0.0, 1.0)
ARMS = {
    "UR5e": Drawing(share_path("urdf/ur5e.urdf").read_text(), "offset", (2, 3, 6, 4), UPRIGHT, (-1.0, 0.0, 0.0)),
    "KUKA KR 6": Drawing(URDFS["KUKA KR 6 R700"], "before", (2, 3, 5, 5), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    "ABB IRB 120": Drawing(URDFS["ABB IRB 120"], "on", (2, 3, 5, 5), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    "Puma 560": Drawing(URDFS["Puma 560"], "offset", (2, 3, 5, 5), UPRIGHT, (-1.0, 0.0, 0.0)),
    "iiwa 14": Drawing(share_path("urdf/iiwa14.urdf").read_text(), "on", (2, 4, 6, 6), UPRIGHT, (1.0, 0.0, 0.0)),
}


def labels_of(arm: Drawing, q: np.ndarray) -> list[tuple[str, str, str]]:
    """Return labels of shoulder, elbow and wrist for each configuration (n, dof)."""
    model = pin.buildModelFromXML(arm.urdf)
    data, found = model.createData(), []
    for row in q:
        pin.forwardKinematics(model, data, row)
        frames = [data.oMi[i].copy() for i in range(model.njoints)]
        places = [frame.translation for frame in frames]
        shoulder, elbow, wrist, end = (places[joint] for joint in arm.joints)
        goal = elbow if model.nq == 7 else wrist
        found.append(
            (
                _side(arm, frames, shoulder, goal),
                _height(shoulder, elbow, end) if model.nq == 7 else _height_in_plane(frames, shoulder, elbow, end),
                "no-flip" if frames[-3].rotation.T @ frames[-1].rotation @ arm.hand @ arm.bent > 0.0 else "flip",
            )
        )
    return found


def _side(arm: Drawing, frames: list[pin.SE3], shoulder: np.ndarray, goal: np.ndarray) -> str:
    """Return the side of the shoulder, seen from above."""
    x, y = (goal - frames[1].translation)[:2]
    if arm.shoulder == "offset":  # angle from the direction of the wrist to the normal of the plane
        normal = _normal(frames)[:2]
        normal = normal * np.sign(normal @ (x, y))
        turn = np.angle(complex(*normal) / complex(x, y))
        return "right" if turn < 0.0 else "left"
    ahead = (shoulder - frames[1].translation)[:2] if arm.shoulder == "before" else frames[1].rotation[:2, 0]
    return "right" if ahead @ (x, y) > 0.0 else "left"


def _normal(frames: list[pin.SE3]) -> np.ndarray:
    """Return the normal of the arm's plane: the horizontal axis of joint 2, which is y or z of its frame."""
    axes = frames[2].rotation.T @ frames[1].rotation[:, 2]
    return frames[2].rotation[:, 2 if abs(axes[2]) < 1e-9 else 1]


def _height_in_plane(frames: list[pin.SE3], *points: np.ndarray) -> str:
    """Return "up" if the elbow is above the line from shoulder to wrist in the vertical plane of the arm."""
    normal = _normal(frames)
    along = np.array([normal[1], -normal[0]])
    (r0, z0), (r1, z1), (r2, z2) = ((along @ point[:2], point[2]) for point in points)
    height_of_line = z0 + (z2 - z0) * (r1 - r0) / (r2 - r0)
    return "up" if z1 > height_of_line else "down"


def _height(shoulder: np.ndarray, elbow: np.ndarray, wrist: np.ndarray) -> str:
    """Return "up" if the elbow is less than a quarter turn from its highest position about the line to the wrist."""
    line = (wrist - shoulder) / np.linalg.norm(wrist - shoulder)
    highest = np.array([0.0, 0.0, 1.0]) - line[2] * line
    side, out = np.cross(line, highest), elbow - shoulder
    return "up" if abs(np.arctan2(out @ side, out @ highest)) < 0.5 * np.pi else "down"
