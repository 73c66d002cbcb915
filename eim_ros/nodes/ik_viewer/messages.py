"""Conversion of solutions to markers: ghosts, self-motions coloured by component, and the chosen solution.

A ghost is a translucent stick figure of the arm in one solution. All functions are pure.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import numpy as np
from geometry_msgs.msg import Point
from sensor_msgs.msg import JointState
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from eim_ros.kinematics import Box, Capsule, Cylinder, Robot, Sphere
from eim_ros.kinematics.links import BodyShape, MeshReference, body_poses, body_shapes, link_shapes
from eim_ros.kinematics.meshes import find_mesh
from eim_ros.nodes.common.messages import pose_message
from eim_ros.view.live import Solutions, component_colour
from eim_ros.view.style import rgb

GHOST, CURVE, BARE = 0.004, 0.006, 0.02  # thickness of lines, relative to the reach of the arm
FADED = 0.6  # opacity of ghosts


def solutions_message(
    robot: Robot, shapes: list[BodyShape], solutions: Solutions, stamp: Any, prefix: str = ""
) -> MarkerArray:
    """Return markers that show the solutions of a target. These markers replace all earlier ones.

    Without shapes of the robot, the chosen solution is drawn as a line. `prefix` precedes the base link's name in tf.
    """
    markers = [Marker(action=Marker.DELETEALL)]
    skeletons = robot.skeleton(solutions.positions)
    for index, (number, component) in enumerate(zip(solutions.numbers, solutions.components, strict=True)):
        own = skeletons[solutions.labels == index]
        if len(own):
            ghosts = _marker("ghosts", number, Marker.LINE_LIST, component_colour(number), FADED)
            ghosts.scale.x = GHOST * robot.reach
            ghosts.points = _points(np.stack([own[:, :-1], own[:, 1:]], axis=2).reshape(-1, 3))
            markers.append(ghosts)
        if component.is_curve and len(component) > 1:
            way = robot.skeleton(component.positions)
            most = int(np.argmax(np.linalg.norm(np.diff(way, axis=0), axis=2).sum(axis=0)))
            points = np.concatenate([way[:, most], way[:1, most]]) if component.is_closed else way[:, most]
            curve = _marker("self_motions", number, Marker.LINE_STRIP, component_colour(number))
            curve.scale.x = CURVE * robot.reach
            curve.points = _points(points)
            markers.append(curve)
    if solutions.chosen is not None:
        markers += _arm(robot, shapes, solutions.chosen, component_colour(solutions.numbers[solutions.component]))
    for marker in markers[1:]:
        marker.header.stamp, marker.header.frame_id = stamp, prefix + robot.base_link
    return MarkerArray(markers=markers)


def shapes_to_show(robot: Robot, packages_only: bool = False) -> list[BodyShape]:
    """Return the collision shapes of the robot, with file URIs as paths of meshes.

    With `packages_only`, mesh files must be in packages; see `find_mesh`. `RobotError` is raised if a shape is
    malformed, and `MeshError` if a mesh file does not exist.
    """
    shown = []
    for placed in body_shapes(robot, link_shapes(robot.urdf)):
        shape = placed.shape
        if isinstance(shape, MeshReference) and "://" not in shape.filename:
            path = find_mesh(shape.filename, robot.folder, robot.collision.package_paths, packages_only=packages_only)
            shape = replace(shape, filename=path.absolute().as_uri())
        shown.append(replace(placed, shape=shape))
    return shown


def chosen_message(robot: Robot, solutions: Solutions, stamp: Any) -> JointState:
    """Return the chosen solution [rad] or [m]. If there is no solution, the message contains no joints."""
    message = JointState()
    message.header.stamp, message.header.frame_id = stamp, robot.base_link
    if solutions.chosen is not None:
        message.name, message.position = list(robot.joint_names), array("d", solutions.chosen.tolist())
    return message


def _arm(robot: Robot, shapes: list[BodyShape], q: np.ndarray, colour: str) -> list[Marker]:
    poses = body_poses(robot, q)[0]
    markers: list[Marker] = []
    for placed in shapes:
        pose, shape = poses[placed.body] @ placed.pose, placed.shape
        for kind, along, scale in _parts(shape):
            marker = _marker("chosen", len(markers), kind, colour)
            own = pose.copy()
            own[:3, 3] += along * pose[:3, 2]
            marker.pose = pose_message(own)
            marker.scale.x, marker.scale.y, marker.scale.z = scale
            if isinstance(shape, MeshReference):
                marker.mesh_resource = shape.filename
            markers.append(marker)
    if not markers:
        line = _marker("chosen", 0, Marker.LINE_STRIP, colour)
        line.scale.x = BARE * robot.reach
        line.points = _points(robot.skeleton(q))
        markers.append(line)
    return markers


def _parts(shape: Any) -> list[tuple[int, float, tuple[float, float, float]]]:
    """Return the markers of a shape: marker type, offset along the z axis of the shape [m], and scale.

    The scale is a size [m], or a factor without unit for a mesh.
    """
    if isinstance(shape, MeshReference):
        x, y, z = (float(value) for value in np.asarray(shape.scale))
        return [(Marker.MESH_RESOURCE, 0.0, (x, y, z))]
    if isinstance(shape, Box):
        x, y, z = (float(value) for value in np.asarray(shape.size))
        return [(Marker.CUBE, 0.0, (x, y, z))]
    width = 2.0 * shape.radius
    if isinstance(shape, Sphere):
        return [(Marker.SPHERE, 0.0, (width, width, width))]
    parts = [(Marker.CYLINDER, 0.0, (width, width, float(shape.length)))]
    assert isinstance(shape, (Capsule, Cylinder))
    if isinstance(shape, Capsule):
        parts += [(Marker.SPHERE, end * shape.length, (width, width, width)) for end in (-0.5, 0.5)]
    return parts


def _marker(namespace: str, number: int, kind: int, colour: str, opacity: float = 1.0) -> Marker:
    red, green, blue = rgb(colour)
    marker = Marker(ns=namespace, id=number, type=kind, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=red, g=green, b=blue, a=opacity)
    return marker


def _points(rows: np.ndarray) -> list[Point]:
    return [Point(x=x, y=y, z=z) for x, y, z in rows.tolist()]
