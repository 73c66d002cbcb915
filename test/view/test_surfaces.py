"""Surfaces of bodies come from visuals, otherwise from collision shapes, and otherwise from sticks."""

from itertools import pairwise

import numpy as np
import pytest
import trimesh
from kinematics.descriptions import chain_urdf, joint
from scipy.spatial import cKDTree

from eim_ros.kinematics import Robot, share_path
from eim_ros.kinematics.links import body_poses
from eim_ros.view.surfaces import MESHES, arm_surfaces, stick_surfaces

TURN = '<origin xyz="0 0 0.5"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
BARE = chain_urdf(joint("a", "revolute", "l0", "l1", TURN), joint("b", "revolute", "l1", "l2", TURN))


def with_visual(mesh: str) -> str:
    visual = f'<visual><origin xyz="0 0 0.2"/><geometry><mesh filename="{mesh}"/></geometry></visual>'
    ball = '<collision><geometry><sphere radius="0.25"/></geometry></collision>'
    return BARE.replace('<link name="l1"/>', f'<link name="l1">{visual}{ball}</link>')


@pytest.mark.parametrize("name", ["fetch", "planar3"])
def test_shipped_arms_have_closed_surfaces_about_their_joints(name):
    robot = Robot(name)
    surfaces, told = arm_surfaces(robot)
    assert told == ""
    assert surfaces
    for mesh in surfaces.values():
        assert mesh.is_watertight
        assert mesh.volume > 0.0  # faces point outwards
        assert np.abs(mesh.vertices).max() < robot.reach


@pytest.mark.parametrize("name", ["panda", "ur5e", "iiwa14", "gen3", "sawyer", "xarm7", "ur3e", "ur5", "ur10e"])
def test_included_meshes_of_neighbouring_links_touch(name):
    """Neighbouring bodies touch in any configuration. A mesh in a wrong frame would not touch its neighbour."""
    robot = Robot(name)
    surfaces, told = arm_surfaces(robot)
    assert told == ""
    assert list(surfaces) == list(range(robot.dof + 1))
    assert sum(len(mesh.faces) for mesh in surfaces.values()) > 8000  # collision shapes have far fewer faces
    assert share_path(f"{MESHES}/{name}.npz").stat().st_size < 200_000
    for poses in body_poses(robot, robot.random(3, np.random.default_rng(0))):
        placed = [
            mesh.vertices @ pose[:3, :3].T + pose[:3, 3] for mesh, pose in zip(surfaces.values(), poses, strict=True)
        ]
        for one, other in pairwise(placed):
            assert cKDTree(one).query(other)[0].min() < 0.02  # [m], between corners of triangles


@pytest.mark.parametrize("value", [-0.2, 0.5])
def test_a_slide_leaves_no_gap(value):
    """The rail belongs to the body before the joint, and reaches to the slide at any position."""
    slide = '<axis xyz="0 0 1"/><limit lower="-0.2" upper="0.5" effort="1" velocity="1"/>'
    robot = Robot(chain_urdf(joint("a", "prismatic", "l0", "l1", '<origin xyz="0 0 0.5"/>' + slide)))
    rail, _ = stick_surfaces(robot).values()
    assert rail.vertices[:, 2].max() > 0.5 + value > rail.vertices[:, 2].min()


def test_a_visual_mesh_is_taken_at_its_place(tmp_path):
    trimesh.creation.box(extents=[0.1, 0.2, 0.3]).export(tmp_path / "link.stl")
    (tmp_path / "arm.urdf").write_text(with_visual("link.stl"))
    surfaces, told = arm_surfaces(Robot(tmp_path / "arm.urdf"), tmp_path / "arm.urdf")
    assert told == ""
    assert list(surfaces) == [1]
    placed = body_poses(Robot(tmp_path / "arm.urdf"), [0.0, 0.0])[0, 1]
    seen = surfaces[1].vertices @ placed[:3, :3].T + placed[:3, 3]  # l1 is parallel to the base
    np.testing.assert_allclose(seen.min(axis=0), [-0.05, -0.1, 0.55], atol=1e-6)  # STL stores single precision
    np.testing.assert_allclose(seen.max(axis=0), [0.05, 0.1, 0.85], atol=1e-6)


def test_a_visual_mesh_that_is_missing_is_told_and_collision_shapes_are_shown(tmp_path):
    (tmp_path / "arm.urdf").write_text(with_visual("package://nowhere/link.dae"))
    surfaces, told = arm_surfaces(Robot(tmp_path / "arm.urdf"), tmp_path / "arm.urdf")
    assert "nowhere" in told
    np.testing.assert_allclose(surfaces[1].extents, 0.5, rtol=0.05)  # a ball with few vertices


def test_an_arm_without_shapes_is_shown_from_joint_to_joint():
    robot = Robot(BARE)
    surfaces, told = arm_surfaces(robot, BARE)
    assert told == ""
    assert len(surfaces) == len(robot.links)
    for thin, thick in zip(stick_surfaces(robot).values(), surfaces.values(), strict=True):
        assert thin.extents[:2].max() < thick.extents[:2].max()
    poses = body_poses(robot, np.zeros(2))[0]
    for surface, pose, end in zip((surfaces[0], surfaces[1]), poses[:2], poses[1:], strict=True):
        to_end = pose[:3, :3].T @ (end[:3, 3] - pose[:3, 3])
        np.testing.assert_allclose(surface.vertices.max(axis=0) + surface.vertices.min(axis=0), to_end, atol=1e-9)


def test_meshes_stay_on_their_links_with_another_tip():
    robot = Robot("panda")
    moved = robot.with_tip("panda_link5")
    whole, part = (list(arm_surfaces(each)[0].values()) for each in (robot, moved))
    for surface, other in zip(whole[:5], part[:5], strict=True):
        np.testing.assert_allclose(surface.vertices, other.vertices, atol=1e-9)
    assert len(part) == 6
    assert len(part[5].vertices) == sum(len(surface.vertices) for surface in whole[5:])  # with the wrist at zero
