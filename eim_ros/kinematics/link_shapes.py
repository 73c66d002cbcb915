"""Shapes of the links of a robot, its collision shapes and its visuals: read from the URDF, attached to bodies.

Body i of a chain moves with its joint i - 1, body 0 is the base; links joined to one by fixed joints are part of it.
Joints that are not of the chain (fingers, another arm) stand at zero, or at the limit nearest to it.
A capsule is a cylinder and two spheres in a URDF, which knows none; those three are read as one shape. Of a mesh the
name of its file is read, see `mesh_files.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from eim_ros.errors import EimError, RobotError
from eim_ros.kinematics.link_tree import UrdfJoint, UrdfTree
from eim_ros.kinematics.shapes import Box, Capsule, Cylinder, Shape, Sphere
from eim_ros.kinematics.urdf import SHAPES
from eim_ros.numerics.arguments import numbers_of

__all__ = ["MeshReference", "link_placements", "link_shapes", "origin_transform"]

FloatArray = npt.NDArray[np.float64]

CAPSULE_TOLERANCE = 1e-6  # [m] of the ends of a cylinder and the centres of its spheres


@dataclass(frozen=True, eq=False)
class MeshReference:
    """A mesh at a pose (4, 4), by the name that the URDF has for its file, scaled along each axis."""

    pose: npt.ArrayLike
    filename: str
    scale: npt.ArrayLike


def link_placements(tree: UrdfTree, base: str, tip: str) -> dict[str, tuple[int, FloatArray]]:
    """Body of each link, and its pose (4, 4) in the base frame while all joints of the chain are at zero."""
    chain = [joint.name for joint in tree.chain(base, tip)[2] if joint.moves]
    children: dict[str, list[UrdfJoint]] = {}
    for joint in tree.joints:
        children.setdefault(joint.parent, []).append(joint)
    root = tree.root()
    found = {root: (0, np.eye(4))}
    open_links = [root]
    while open_links:
        link = open_links.pop()
        body, pose = found[link]
        for joint in children.get(link, []):
            value = 0.0 if joint.name in chain else min(max(0.0, joint.lower), joint.upper)
            child = chain.index(joint.name) + 1 if joint.name in chain else body
            found[joint.child] = (
                child,
                pose @ origin_transform(joint.origin_xyz, joint.origin_rpy) @ _motion(joint, value),
            )
            open_links.append(joint.child)
    to_base = np.linalg.inv(found[base][1])
    return {link: (body, to_base @ pose) for link, (body, pose) in found.items()}


def link_shapes(urdf: str | bytes, of: str = "collision") -> dict[str, list[Shape | MeshReference]]:
    """Shapes of each link, posed in the link's frame.

    Parameters
    ----------
    urdf : str or bytes
        Text of a URDF; that of `Robot.urdf` has no visuals.
    of : {"collision", "visual"}
    """
    shapes: dict[str, list[Shape | MeshReference]] = {}
    for link in ElementTree.fromstring(urdf).findall("link"):
        name = link.get("name", "")
        try:
            shapes[name] = _with_capsules([_shape(element) for element in link.findall(of) if _has_shape(element)])
        except EimError as error:
            raise RobotError(f"a {of} shape of link {name!r}: {error}", name) from error
    return shapes


def _has_shape(element: Element) -> bool:
    return any(element.find(f"geometry/{shape}") is not None for shape in SHAPES)


def _shape(element: Element) -> Shape | MeshReference:
    origin = element.find("origin")
    xyz, rpy = (_words("0 0 0" if origin is None else origin.get(key, "0 0 0"), 3) for key in ("xyz", "rpy"))
    pose = origin_transform(xyz, rpy)
    solid = next(child for child in element.findall("geometry/*") if child.tag in SHAPES)
    if solid.tag == "mesh":
        return MeshReference(pose, solid.get("filename", ""), _words(solid.get("scale", "1 1 1"), 3))
    if solid.tag == "box":
        return Box(pose, _words(solid.get("size", ""), 3))
    radius = float(_words(solid.get("radius", ""), 1)[0])
    if solid.tag == "sphere":
        return Sphere(xyz, radius)
    length = float(_words(solid.get("length", ""), 1)[0])
    return Cylinder(pose, radius, length) if solid.tag == "cylinder" else Capsule(pose, radius, length)


def _with_capsules(shapes: list[Shape | MeshReference]) -> list[Shape | MeshReference]:
    """The same, each cylinder that has a sphere of its radius at either end with these as one capsule."""
    result: list[Shape | MeshReference] = []
    merged: set[int] = set()
    for shape in shapes:
        ends = _end_spheres(shape, shapes) if isinstance(shape, Cylinder) else []
        if isinstance(shape, Cylinder) and len(ends) == 2:
            merged |= {id(end) for end in ends}
            shape = Capsule(shape.pose, shape.radius, shape.length)
        result.append(shape)
    return [shape for shape in result if id(shape) not in merged]


def _end_spheres(cylinder: Cylinder, shapes: list[Shape | MeshReference]) -> list[Sphere]:
    pose, found = np.asarray(cylinder.pose), []
    alike = [
        shape
        for shape in shapes
        if isinstance(shape, Sphere) and abs(shape.radius - cylinder.radius) < CAPSULE_TOLERANCE
    ]
    for side in (-0.5, 0.5):
        end = pose[:3, 3] + side * cylinder.length * pose[:3, 2]
        found += [shape for shape in alike if np.abs(np.asarray(shape.centre) - end).max() < CAPSULE_TOLERANCE][:1]
    return found


def origin_transform(xyz: npt.ArrayLike, rpy: npt.ArrayLike) -> FloatArray:
    """Of an <origin>: rotations about the fixed axes x, y, z in this order."""
    import pinocchio  # deferred: a slow import

    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = pinocchio.rpy.rpyToMatrix(np.asarray(rpy, dtype=np.float64)), xyz
    return pose


def _motion(joint: UrdfJoint, value: float) -> FloatArray:
    """Of a joint that stands at a value [rad] or [m]."""
    import pinocchio

    pose = np.eye(4)
    if value != 0.0:
        along = value * np.asarray(joint.axis) / np.linalg.norm(joint.axis)
        if joint.kind == "prismatic":
            pose[:3, 3] = along
        else:
            pose[:3, :3] = pinocchio.exp3(along)
    return pose


def _words(text: str, n: int) -> FloatArray:
    """So many numbers of an attribute."""
    try:
        values = [float(word) for word in text.split()]
    except ValueError as error:
        raise RobotError(f"expected {n} finite number(s), got {text!r}", text) from error
    return numbers_of(values, (n,), f"{text!r}", RobotError)
