"""Bodies and links of a robot: their shapes and poses, and which links move together.

Body 0 is the base, and body i moves with joint i - 1. Links that fixed joints attach to a body are part of this body.
Body frames are the joint frames in `urdf.py`. Joints outside the chain, such as those of fingers or of another arm,
stay at zero or at the limit nearest to zero.

Collision shapes and visuals are read from the URDF. Standard URDF has no capsules, so a cylinder with a sphere at each
end is read as a capsule. For a mesh, `link_shapes` reads only the file name, and `drawable_shapes` also reads the file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.checks import numbers_of
from eim_ros.core.errors import EimError, RobotError, did_you_mean
from eim_ros.kinematics.catalogue import read_urdf_source, robot_path, urdf_folder
from eim_ros.kinematics.meshes import find_mesh, read_mesh
from eim_ros.kinematics.obstacles import Box, Capsule, Cylinder, Shape, Sphere
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.urdf import (
    MULTIPLIER,
    OFFSET,
    PRISMATIC,
    SHAPES,
    SOURCE,
    TRANSLATION,
    Mimic,
    UrdfJoint,
    UrdfTree,
    has_shape,
    parse_urdf,
    xml_root,
)

CAPSULE_TOLERANCE = 1e-6  # for radii, and for distances between cylinder ends and centres of spheres [m]


@dataclass(frozen=True, eq=False)
class MeshReference:
    """Mesh given by its file name in the URDF, a pose (4, 4), and a scale (3,) along its axes."""

    pose: npt.ArrayLike
    filename: str
    scale: npt.ArrayLike


def link_placements(tree: UrdfTree, base: str, tip: str) -> dict[str, tuple[int, FloatArray]]:
    """Return the body of each link, and the pose (4, 4) of the link in the base frame if all joints are at zero."""
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
            placement = pose @ origin_transform(joint.origin_xyz, joint.origin_rpy)
            found[joint.child] = (child, placement @ _motion(joint, value))
            open_links.append(joint.child)
    to_base = np.linalg.inv(found[base][1])
    return {link: (body, to_base @ pose) for link, (body, pose) in found.items()}


def link_shapes(urdf: str | bytes, of: str = "collision") -> dict[str, list[Shape | MeshReference]]:
    """Return the shapes of each link of a URDF, with poses in the link's frame.

    `of` selects "collision" or "visual" shapes. The text in `Robot.urdf` contains no visuals.
    """
    shapes: dict[str, list[Shape | MeshReference]] = {}
    for link in xml_root(urdf).findall("link"):
        name = link.get("name", "")
        try:
            shapes[name] = _with_capsules([_shape(element) for element in link.findall(of) if has_shape(element)])
        except EimError as error:
            raise RobotError(f"a {of} shape of link {name!r} is invalid: {error}", name) from error
    return shapes


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
    """Merge each cylinder and the two spheres of the same radius at its ends into one capsule."""
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
    balls = [shape for shape in shapes if isinstance(shape, Sphere)]
    alike = [ball for ball in balls if abs(ball.radius - cylinder.radius) < CAPSULE_TOLERANCE]
    for side in (-0.5, 0.5):
        end = pose[:3, 3] + side * cylinder.length * pose[:3, 2]
        found += [ball for ball in alike if np.abs(np.asarray(ball.centre) - end).max() < CAPSULE_TOLERANCE][:1]
    return found


def origin_transform(xyz: npt.ArrayLike, rpy: npt.ArrayLike) -> FloatArray:
    """Return the transform (4, 4) of an <origin> element, with rotations about the fixed axes x, y, z in this order."""
    import pinocchio  # deferred because the import is slow

    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = pinocchio.rpy.rpyToMatrix(np.asarray(rpy, dtype=np.float64)), xyz
    return pose


def _motion(joint: UrdfJoint, value: float) -> FloatArray:
    """Return the transform (4, 4) of a joint's motion for a value [rad] or [m]."""
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
    """Parse exactly `n` finite numbers from an attribute."""
    try:
        values = [float(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise RobotError(f"expected {n} finite number{'s' if n > 1 else ''}, got {text!r}", text) from error
    return numbers_of(values, (n,), f"{text!r}", RobotError)


@dataclass(frozen=True, eq=False)
class BodyShape:
    """Shape of a link in the frame of its body; `pose` includes the shape's own pose in the link's frame."""

    body: int  # index of the body that the link belongs to
    pose: FloatArray  # (4, 4), pose of the shape in the body's frame [m]
    shape: Shape | MeshReference
    link: str  # name of the link


def body_poses(arm: Robot, q: npt.ArrayLike) -> FloatArray:
    """Return the poses (n, n_bodies, 4, 4) of the bodies in the base frame for configurations (n, dof).

    Body 0 is the base, and body i moves with joint i - 1, which may be a mimic joint.

    Examples
    --------
    >>> from eim_ros.kinematics import Robot, body_poses
    >>> robot = Robot("panda")
    >>> body_poses(robot, robot.random(10, seed=0)).shape
    (10, 8, 4, 4)
    """
    rows = arm._rows(q)[0]
    moving = arm.links[:-1]
    return _poses(arm, moving[:, MULTIPLIER] * rows[:, moving[:, SOURCE].astype(np.int64)] + moving[:, OFFSET])


def tip_poses(arm: Robot, q: npt.ArrayLike) -> FloatArray:
    """Return the tip poses (n, 4, 4), computed without the compiled chain that `Robot.fk` uses."""
    return np.asarray(body_poses(arm, q)[:, -1] @ _placements(arm)[-1])


def poses_at_zero(arm: Robot) -> FloatArray:
    """Return the poses (m + 2, 4, 4) of the base, the moving joints and the tip if all joints are at zero."""
    bodies = _poses(arm, np.zeros((1, len(arm.links) - 1)))[0]
    return np.concatenate([bodies, [bodies[-1] @ _placements(arm)[-1]]])


def _placements(arm: Robot) -> FloatArray:
    """Return the constant transforms P_i (m + 1, 4, 4) of the chain, see `urdf.py`."""
    placements = np.tile(np.eye(4), (len(arm.links), 1, 1))
    placements[:, :3, :3], placements[:, :3, 3] = arm.links[:, :9].reshape(-1, 3, 3), arm.links[:, TRANSLATION]
    return placements


def body_links(arm: Robot) -> dict[str, tuple[int, FloatArray]]:
    """Return the body of each link of the description, and the link's pose (4, 4) in the frame of the body [m].

    Examples
    --------
    The flange of a Panda moves with the last of its seven joints:

    >>> from eim_ros.kinematics import Robot, body_links
    >>> body, pose = body_links(Robot("panda"))["panda_link8"]
    >>> body, pose.shape
    (7, (4, 4))
    """
    at_zero = poses_at_zero(arm)
    placements = link_placements(parse_urdf(arm.urdf), arm.base_link, arm.tip_link)
    return {link: (body, np.linalg.inv(at_zero[body]) @ pose) for link, (body, pose) in placements.items()}


def body_shapes(arm: Robot, links: Mapping[str, Sequence[Shape | MeshReference]]) -> list[BodyShape]:
    """Return the shapes of all links, as read by `link_shapes`, with poses in the frames of the bodies."""
    return [
        BodyShape(body, pose @ np.asarray(shape.pose), shape, link)
        for link, (body, pose) in body_links(arm).items()
        for shape in links.get(link, ())
    ]


def drawable_shapes(
    robot: Robot, source: str | Path | None = None, package_paths: Sequence[str | Path] = ()
) -> list[tuple[int, FloatArray, Shape | tuple[FloatArray, IntArray]]]:
    """Return the shapes of a robot that a viewer draws, with their bodies and their poses.

    Each entry is (body, pose, shape) with the pose (4, 4) in the frame of the body [m]. A mesh is given by its vertices
    (n, 3) [m] and faces (m, 3). The visuals are read from `source`, the path or text of a description. Without a
    source, the collision shapes are used. Packages are first searched in `package_paths`, then in the robot's folders
    of packages.

    Raises
    ------
    RobotError, MeshError
        If the description or a mesh file cannot be read.

    Examples
    --------
    >>> from eim_ros.kinematics import Robot, drawable_shapes
    >>> body, pose, shape = drawable_shapes(Robot("planar3"))[0]
    >>> body, type(shape).__name__
    (1, 'Capsule')
    """
    package_paths = (*package_paths, *robot.collision.package_paths)
    if source is None:
        links, folder = link_shapes(robot.urdf), robot.folder
    else:
        source = robot_path(source, package_paths) if urdf_folder(source) is not None else source
        links = link_shapes(read_urdf_source(source, package_paths), "visual")
        folder = urdf_folder(source) or robot.folder
    found: list[tuple[int, FloatArray, Shape | tuple[FloatArray, IntArray]]] = []
    for placed in body_shapes(robot, links):
        shape = placed.shape
        if isinstance(shape, MeshReference):
            mesh = read_mesh(find_mesh(shape.filename, folder, package_paths), shape.scale)
            found.append((placed.body, placed.pose, mesh))
        else:
            found.append((placed.body, placed.pose, shape))
    return found


def tip_links(robot: Robot) -> tuple[str, ...]:
    """Return possible tip links: all links that at least two joints move, and the current tip link.

    Examples
    --------
    >>> from eim_ros.kinematics import Robot, tip_links
    >>> tip_links(Robot("planar3"))
    ('link_2', 'link_3', 'tip_link')
    """
    tree = parse_urdf(robot.urdf)
    moved = {tree.root(): 0}
    order = [tree.root()]
    for link in order:  # the list grows while the children are added
        for joint in (joint for joint in tree.joints if joint.parent == link):
            moved[joint.child] = moved[link] + bool(joint.moves)
            order.append(joint.child)
    below = moved.get(robot.base_link, 0)
    return tuple(link for link in order if moved[link] >= below + 2 or link == robot.tip_link)


def _poses(arm: Robot, values: FloatArray) -> FloatArray:
    """Return the body poses for values (n, m) of the moving joints: T_i = T_{i-1} P_{i-1} Z(v_{i-1})."""
    poses = np.zeros((len(values), len(arm.links), 4, 4))
    poses[:, 0] = np.eye(4)
    for body, (link, placement) in enumerate(zip(arm.links[:-1], _placements(arm), strict=False), start=1):
        moved, value = np.tile(np.eye(4), (len(values), 1, 1)), values[:, body - 1]
        if link[PRISMATIC]:
            moved[:, 2, 3] = value
        else:
            cosine, sine = np.cos(value), np.sin(value)
            moved[:, 0, 0], moved[:, 1, 1], moved[:, 0, 1], moved[:, 1, 0] = cosine, cosine, -sine, sine
        poses[:, body] = poses[:, body - 1] @ placement @ moved
    return poses


@functools.lru_cache(maxsize=64)
def fixed_links(robot: Robot, link: str) -> MappingProxyType[str, FloatArray]:
    """Return the poses (4, 4) of all links fixed to a given link, in its frame. The given link comes first.

    Raises
    ------
    RobotError
        If the description has no such link.
    """
    tree = parse_urdf(robot.urdf)
    if link not in tree.links:
        raise RobotError(
            f"robot {robot.name!r} has no link {link!r}; its links are {', '.join(tree.links)}"
            f"{did_you_mean(link, tree.links)}",
            link,
        )
    across: dict[str, list[tuple[str, FloatArray]]] = {}
    for joint in (joint for joint in tree.joints if joint.kind == "fixed"):
        step = origin_transform(joint.origin_xyz, joint.origin_rpy)
        across.setdefault(joint.parent, []).append((joint.child, step))
        across.setdefault(joint.child, []).append((joint.parent, np.asarray(np.linalg.inv(step), dtype=np.float64)))
    found: dict[str, FloatArray] = {link: np.eye(4)}
    open_links = [link]
    while open_links:
        here = open_links.pop()
        for other, step in across.get(here, []):
            if other not in found:
                found[other] = found[here] @ step
                open_links.append(other)
    return MappingProxyType(found)


@functools.lru_cache(maxsize=64)
def link_poses(robot: Robot, link: str) -> Callable[[FloatArray], FloatArray]:
    """Return the forward kinematics of one link: a function that maps configurations (n, dof) to poses (n, 4, 4).

    Raises
    ------
    RobotError
        If the link does not exist, or if joints outside the robot's chain move it.
    """
    fixed = fixed_links(robot, robot.base_link)
    if link in fixed:
        return lambda q: np.tile(fixed[link], (len(q), 1, 1))
    if link in (attached := fixed_links(robot, robot.tip_link)):
        return lambda q: robot.fk(q) @ attached[link]
    fixed_links(robot, link)  # raises if the link does not exist
    part = Robot.quietly(robot.urdf, link, base=robot.base_link)
    if foreign := [name for name in part.joint_names if name not in robot.joint_names]:
        raise RobotError(
            f"link {link!r} is moved by joint {foreign[0]!r}, which is not in the robot's chain; choose a link that "
            f"only these joints move: {', '.join(robot.joint_names)}",
            link,
        )
    columns = [robot.joint_names.index(name) for name in part.joint_names]
    return lambda q: part.fk(q[:, columns])


@functools.lru_cache(maxsize=64)
def following_joints(robot: Robot) -> MappingProxyType[str, Mimic]:
    """Return all mimic joints that follow a joint of the robot, including joints outside its chain."""
    joints = parse_urdf(robot.urdf).joints
    return MappingProxyType({j.name: j.mimic for j in joints if j.mimic and j.mimic.joint in robot.joint_names})


@functools.lru_cache(maxsize=64)
def described_joints(robot: Robot) -> frozenset[str]:
    """Return the names of all joints of the description, including joints outside the robot's chain."""
    return frozenset(joint.name for joint in parse_urdf(robot.urdf).joints)
