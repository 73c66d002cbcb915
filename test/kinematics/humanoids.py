"""Small humanoid: legs with three joints, a waist, arms with a revolute and a sliding joint, and a head."""

import numpy as np

JOINTS = (  # name, kind, parent, child, xyz, rpy, axis, lower, upper
    ("waist", "revolute", "pelvis", "torso", (0, 0, 0.2), (0, 0, 0.1), (0, 0, 1), -1.0, 1.0),
    ("left_hip", "revolute", "pelvis", "left_thigh", (0, 0.1, 0), (0.1, 0, 0), (1, 0, 0), -0.8, 0.8),
    ("left_knee", "revolute", "left_thigh", "left_shin", (0, 0, -0.4), (0, 0, 0), (0, 1, 0), 0.0, 2.0),
    ("left_ankle", "continuous", "left_shin", "left_foot", (0, 0, -0.4), (0, 0.2, 0), (0, 1, 0), 0, 0),
    ("right_hip", "revolute", "pelvis", "right_thigh", (0, -0.1, 0), (-0.1, 0, 0), (1, 0, 0), -0.8, 0.8),
    ("right_knee", "revolute", "right_thigh", "right_shin", (0, 0, -0.4), (0, 0, 0), (0, 1, 0), 0.0, 2.0),
    ("right_ankle", "revolute", "right_shin", "right_foot", (0, 0, -0.4), (0, 0.2, 0), (0, 2, 0), -1.0, 1.0),
    ("left_shoulder", "revolute", "torso", "left_arm", (0, 0.2, 0.3), (0, 0, 0.3), (1, 1, 0), -2.0, 2.0),
    ("left_reach", "prismatic", "left_arm", "left_slide", (0.3, 0, 0), (0, 0, 0), (1, 0, 0), 0.0, 0.4),
    ("left_wrist", "fixed", "left_slide", "left_hand", (0.1, 0, 0), (0.5, 0, 0), (1, 0, 0), 0, 0),
    ("right_shoulder", "revolute", "torso", "right_arm", (0, -0.2, 0.3), (0, 0, -0.3), (1, -1, 0), -2.0, 2.0),
    ("right_elbow", "revolute", "right_arm", "right_hand", (0.3, 0, 0), (0, 0, 0), (0, 0, 1), -2.0, 2.0),
    ("neck", "revolute", "torso", "head", (0, 0, 0.5), (0, 0, 0), (0, 1, 0), 0.3, 0.9),
)
TIPS = ("left_foot", "right_foot", "left_hand", "right_hand")


def humanoid_urdf() -> str:
    """Return the URDF of the humanoid. All links except the wrist have masses."""
    rng = np.random.default_rng(0)
    links = ["pelvis", *(joint[3] for joint in JOINTS)]
    text = ['<robot name="small_humanoid">']
    for link in links:
        mass, place = rng.uniform(0.5, 3.0), rng.uniform(-0.1, 0.1, 3)
        inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        inertial = f'<inertial><origin xyz="{numbers(place)}"/><mass value="{mass!r}"/>{inertia}</inertial>'
        text.append(f'<link name="{link}">{inertial if link != "left_hand" else ""}</link>')
    for name, kind, parent, child, xyz, rpy, axis, lower, upper in JOINTS:
        text.append(
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{numbers(xyz)}" rpy="{numbers(rpy)}"/><axis xyz="{numbers(axis)}"/>'
            f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/></joint>'
        )
    return "\n".join([*text, "</robot>"])


def numbers(values) -> str:
    return " ".join(repr(float(value)) for value in values)
