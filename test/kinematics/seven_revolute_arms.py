"""Arms of seven revolute joints without special geometry, or with an approximate special geometry."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from kinematics.descriptions import chain_urdf, joint

from eim_ros.kinematics import Robot


def random_seven(seed: int, limit: float = 2.9) -> str:
    """Return the URDF of an arm with random axes and origins, and with equal limits [rad] for all joints."""
    rng = np.random.default_rng(seed)
    limits = f'<limit lower="{-limit}" upper="{limit}" effort="1" velocity="1"/>'
    joints = []
    for i in range(7):
        axis, xyz, rpy = (" ".join(map(str, x)) for x in (rng.normal(size=3), *rng.uniform(-0.3, 0.3, (2, 3))))
        joints.append(
            joint(
                f"j{i}",
                "revolute",
                f"l{i}",
                f"l{i + 1}",
                f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>{limits}',
            )
        )
    return chain_urdf(*joints)


def calibrated(robot: Robot, off: float, seed: int = 5) -> Robot:
    """Return a copy of the arm with errors of up to `off` in each coordinate [m] and angle [rad] of joint frames."""
    description, rng = ElementTree.fromstring(robot.urdf), np.random.default_rng(seed)
    for element in description.iter("joint"):
        origin = element.find("origin")
        if element.get("name") in robot.joint_names and origin is not None:
            for key in ("xyz", "rpy"):
                values = np.array(origin.get(key, "0 0 0").split(), float) + rng.uniform(-off, off, 3)
                origin.set(key, " ".join(map(repr, values.tolist())))
    return Robot(ElementTree.tostring(description, encoding="unicode"), base=robot.base_link, tip=robot.tip_link)
