"""Markers of the chosen arm show its shapes at the poses of forward kinematics."""

from __future__ import annotations

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from kinematics.descriptions import chain_urdf, joint
from visualization_msgs.msg import Marker

from eim_ros.core.errors import MeshError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.messages import transform_of
from eim_ros.nodes.ik_viewer.messages import chosen_message, shapes_to_show, solutions_message
from eim_ros.view.live import LiveSolutions

TURN = '<origin xyz="0 0 0.5"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
SHAPES = {
    '<box size="0.1 0.2 0.3"/>': (Marker.CUBE, (0.1, 0.2, 0.3)),
    '<sphere radius="0.1"/>': (Marker.SPHERE, (0.2, 0.2, 0.2)),
    '<cylinder radius="0.1" length="0.3"/>': (Marker.CYLINDER, (0.2, 0.2, 0.3)),
    '<mesh filename="package://arm/link.stl" scale="1 2 3"/>': (Marker.MESH_RESOURCE, (1.0, 2.0, 3.0)),
}


def arm_with(shape: str) -> Robot:
    collision = f'<collision><origin xyz="0 0 0.2"/><geometry>{shape}</geometry></collision>' if shape else ""
    urdf = chain_urdf(joint("turn", "revolute", "l0", "l1", TURN))
    return Robot(urdf.replace('<link name="l1"/>', f'<link name="l1">{collision}</link>'))


def markers_of(robot: Robot, q: float) -> list[Marker]:
    solutions = LiveSolutions(Sampler(robot), 5).solve(robot.fk([q]))
    message = solutions_message(robot, shapes_to_show(robot), solutions, Time())
    assert chosen_message(robot, solutions, Time()).position[0] == pytest.approx(q, abs=1e-6)
    return [marker for marker in message.markers if marker.ns == "chosen"]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_becomes_a_marker_where_its_link_is(shape: str) -> None:
    (marker,) = markers_of(arm_with(shape), 0.3)
    kind, size = SHAPES[shape]
    assert marker.type == kind
    assert (marker.scale.x, marker.scale.y, marker.scale.z) == pytest.approx(size)
    place = [0.2 * np.sin(0.3), 0.0, 0.5 + 0.2 * np.cos(0.3)]
    np.testing.assert_allclose(transform_of(marker.pose)[:3, 3], place, atol=1e-5)  # tolerances of 1e-6 rad and m


def test_a_capsule_is_a_cylinder_and_two_balls_at_its_ends() -> None:
    parts = markers_of(arm_with('<capsule radius="0.05" length="0.2"/>'), 0.0)
    assert [marker.type for marker in parts] == [Marker.CYLINDER, Marker.SPHERE, Marker.SPHERE]
    np.testing.assert_allclose([marker.pose.position.z for marker in parts], [0.7, 0.6, 0.8], atol=1e-5)


def test_an_arm_without_shapes_is_a_line_through_its_joints() -> None:
    (line,) = markers_of(arm_with(""), 0.0)
    assert line.type == Marker.LINE_STRIP
    np.testing.assert_allclose([point.z for point in line.points], [0.0, 0.5, 0.5], atol=1e-9)


def test_a_mesh_beside_its_description_becomes_the_name_of_a_file(tmp_path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(arm_with('<mesh filename="link.stl"/>').urdf)
    with pytest.raises(MeshError, match="link.stl"):
        shapes_to_show(Robot(path))
    (tmp_path / "link.stl").touch()
    (placed,) = shapes_to_show(Robot(path))
    assert placed.shape.filename == (tmp_path / "link.stl").as_uri()
