"""Robot from three ROS packages: one with xacro macros, one with meshes, one with the main xacro file and the SRDF."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from kinematics.solids_by_formula import box_mesh, write_stl

from eim_ros.kinematics import share_path

__all__ = ["NAME", "SRDF", "WAYS", "Workspace", "made_workspace"]

NAME = "package://arm_config/config/arm.urdf.xacro"
SRDF = "package://arm_config/config/arm.srdf"
VARIABLES = ("AMENT_PREFIX_PATH", "ROS_PACKAGE_PATH")
WAYS = ("neighbours", "AMENT_PREFIX_PATH", "ROS_PACKAGE_PATH", "package_paths")
_XACRO = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'


@dataclass(frozen=True)
class Workspace:
    """Names of the robot and its SRDF, and the means by which its packages are found."""

    robot: str
    srdf: str
    package_paths: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def made_workspace(root: Path, way: str) -> Workspace:
    """Write the packages so that they can be found in only one way.

    With "neighbours", the packages are in one workspace; otherwise, they are far from each other.
    """
    repositories = {"arm_config": "arm", "arm_macros": "arm", "arm_meshes": "other"}
    forms = {"neighbours": "ws/src/{repository}/{name}", "AMENT_PREFIX_PATH": "{name}/share/{name}"}
    form = forms.get(way, "a/{name}/b/c/{name}")
    folders = {name: root / form.format(name=name, repository=repository) for name, repository in repositories.items()}
    config, macros, meshes = folders.values()
    for name, folder in folders.items():
        folder.mkdir(parents=True)
        (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    mesh = '<geometry><mesh filename="package://arm_meshes/meshes/cube.stl"/></geometry>'
    arm = share_path("urdf/ur5e.urdf").read_text()
    body = arm[arm.index("<link") : arm.rindex("</robot>")]
    first, link, rest = body.partition('<link name="upper_arm_link">')
    marked = f"{first}{link}<collision>{mesh}</collision><visual>{mesh}</visual>{rest}"
    (macros / "urdf").mkdir()
    (macros / "urdf" / "arm.xacro").write_text(f"<robot {_XACRO}>{marked}</robot>")
    (meshes / "meshes").mkdir()
    vertices, faces = box_mesh((0.01, 0.01, 0.01))
    write_stl(meshes / "meshes" / "cube.stl", np.asarray(vertices), np.asarray(faces))
    (config / "config").mkdir()
    (config / "config" / "arm.urdf.xacro").write_text(
        f'<robot name="arm" {_XACRO}><xacro:include filename="$(find arm_macros)/urdf/arm.xacro"/></robot>'
    )
    links = re.findall('<link name="(.*?)"', arm)
    disabled = (
        f'<disable_collisions link1="{links[i]}" link2="{link}" reason="Never"/>'
        for i in range(len(links))
        for link in links[i + 1 :]
    )
    (config / "config" / "arm.srdf").write_text(
        f'<robot name="arm">{"".join(disabled)}'
        '<group name="arm"><chain base_link="base_link" tip_link="tool0"/></group></robot>'
    )
    if way == "neighbours":
        return Workspace(str(config / "config" / "arm.urdf.xacro"), SRDF)
    paths = [str(folder.parent) for folder in folders.values()]
    if way == "package_paths":
        return Workspace(NAME, SRDF, tuple(paths))
    if way == "AMENT_PREFIX_PATH":
        paths = [str(folder.parents[1]) for folder in folders.values()]
    return Workspace(NAME, SRDF, (), {way: ":".join(paths)})
