"""Collisions of meshes, point clouds and enclosed shapes agree with formulas and with brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kinematics.descriptions import joint
from kinematics.solids_by_formula import box_distance, box_mesh, random_poses, sphere_mesh, write_stl
from kinematics.test_collision import SLIDE, TURN, robot_of, shape
from scipy.spatial import cKDTree

from eim_ros.core.errors import ConstraintError, MeshError, RobotError
from eim_ros.kinematics import Box, Capsule, CollisionOptions, Cylinder, Mesh, PointCloud, Robot, Sphere, pose_from
from eim_ros.kinematics.collision import CollisionModel, collision_model, collisions
from eim_ros.kinematics.solids import parts, winding_numbers

SIZE = (0.3, 0.4, 0.5)
STILL = '<axis xyz="1 0 0"/><limit lower="-5" upper="5" effort="1" velocity="1"/>'
ORIGIN = np.zeros(1)
ROUNDING = 1e-6  # [m]; files contain single precision, and clouds are exact to 1e-8


def body(geometry: str, **options: object) -> Robot:
    """Return a robot whose only shape has this geometry. The shape is at the origin if the joint is at 0."""
    robot = robot_of({"a": "", "b": shape(geometry)}, joint("slide", "prismatic", "a", "b", STILL))
    return Robot(robot.urdf, collision=CollisionOptions(**options))


def meshed(tmp_path: Path, vertices: np.ndarray, faces: np.ndarray, scale: str = "1 1 1", **options: object) -> Robot:
    path = write_stl(tmp_path / "link.stl", vertices, faces)
    return body(f'<mesh filename="{path}" scale="{scale}"/>', **options)


def collide(robot: Robot, obstacle: object, clearance: float = 0.0) -> bool:
    return bool(collision_model(robot).scene(False, [obstacle], clearance).colliding(np.zeros((1, 1)))[0])


@pytest.mark.parametrize("meshes", ["exact", "hulls"])
@pytest.mark.parametrize("clearance", [0.0, 0.03])
def test_box_as_mesh_meets_balls_where_the_formula_says(tmp_path: Path, meshes: str, clearance: float) -> None:
    robot = meshed(tmp_path, *box_mesh(SIZE, 2), meshes=meshes)
    centres = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3))
    distances = box_distance(centres, SIZE) - 0.08
    clear = np.abs(distances - clearance) > ROUNDING
    found = [collide(robot, Sphere(centre, 0.08), clearance) for centre in centres[clear]]
    assert found == (distances[clear] <= clearance).tolist()
    assert 30 < sum(found) < 270


@pytest.mark.parametrize("convex", [False, True])
def test_boxes_as_meshes_are_those_of_boxes(tmp_path: Path, convex: bool) -> None:
    """Link and obstacle are meshes of boxes. The reference uses boxes, which another algorithm checks."""
    robot, plain = meshed(tmp_path, *box_mesh(SIZE, 1)), body('<box size="0.3 0.4 0.5"/>')
    vertices, faces = box_mesh((0.2, 0.2, 0.6), 1)
    same = 0
    for pose in random_poses(200, 0.6, np.random.default_rng(1)):
        same += collide(robot, Mesh(pose, vertices, faces, convex)) == collide(plain, Box(pose, (0.2, 0.2, 0.6)))
    assert same == 200  # with this seed, rounding to single precision changes no result


@pytest.mark.parametrize("meshes", ["exact", "hulls"])
def test_ball_as_mesh_lies_within_the_ball(tmp_path: Path, meshes: str) -> None:
    radius, sagitta = 0.3, 0.3 * (1.0 - np.cos(np.pi / 2.0 / 16 / np.sqrt(2.0) * 1.5))
    robot = meshed(tmp_path, *sphere_mesh(radius), meshes=meshes)
    for centre in np.random.default_rng(2).uniform(-0.6, 0.6, (200, 3)):
        gap = np.linalg.norm(centre) - radius - 0.1
        if not 0.0 <= gap + ROUNDING <= sagitta + 2.0 * ROUNDING:
            assert collide(robot, Sphere(centre, 0.1)) == (gap < 0.0)


def prism(n: int, apex: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the mesh of a cylinder or cone with n edges, radius 0.1 and length 0.4 along z."""
    angles, i = 2.0 * np.pi * np.arange(n) / n, np.arange(n)
    rim = 0.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    low = np.column_stack([rim, np.full(n, -0.2)])
    cap, j = np.stack([np.zeros(n - 2, dtype=int), i[1:-1], i[2:]], axis=1), (i + 1) % n
    if apex:
        return np.vstack([low, [0.0, 0.0, 0.2]]), np.concatenate([cap, np.stack([i, j, np.full(n, n)], axis=1)])
    side = np.concatenate([np.stack([i, j, n + i], axis=1), np.stack([j, n + j, n + i], axis=1)])
    return np.concatenate([low, low + [0.0, 0.0, 0.4]]), np.concatenate([side, cap, cap + n])


@pytest.mark.parametrize("convex", [False, True])
def test_mesh_of_a_cylinder_with_many_edges_is_the_cylinder(convex: bool) -> None:
    """A vertex of the caps can have more than 255 neighbours, which coal cannot store."""
    ball, mesh = body('<sphere radius="0.05"/>'), Mesh(np.eye(4), *prism(1000), convex)
    for distance, height, expected in (
        (0.149, 0.1, True),
        (0.151, 0.1, False),
        (0.0, 0.249, True),
        (0.0, 0.251, False),
    ):
        moved = replace(mesh, pose=pose_from((distance, 0.0, height)))
        assert collide(ball, moved) == expected


def test_mesh_whose_hull_cannot_be_stored_is_refused_by_name() -> None:
    with pytest.raises(MeshError, match="mesh 'cone' has no convex hull .*neighbors.*: simplify the mesh"):
        collide(body('<sphere radius="0.05"/>'), Mesh(np.eye(4), *prism(300, apex=True), name="cone"))


def test_what_is_inside_of_a_mesh_collides_though_nothing_touches(tmp_path: Path) -> None:
    robot = meshed(tmp_path, *box_mesh((1.0, 1.0, 1.0), 1))
    vertices, faces = box_mesh((0.1, 0.1, 0.1))
    pose = pose_from((0.2, 0.1, -0.1))
    inside = [Sphere((0.2, 0.0, 0.0), 0.05), Box(pose, (0.1,) * 3), Cylinder(pose, 0.05, 0.1), Capsule(pose, 0.05, 0.1),
              Mesh(pose, vertices, faces), PointCloud([[5.0, 0.0, 0.0], [0.3, 0.0, 0.0]], 0.01)]  # fmt: skip
    assert all(collide(robot, obstacle) for obstacle in inside)
    around = Mesh(np.eye(4), *box_mesh((3.0, 3.0, 3.0)))
    assert collide(robot, around)
    assert collide(body('<sphere radius="0.1"/>'), around)


@pytest.mark.parametrize("plane", [0, 1, 2])
def test_flat_obstacles_are_met(plane: int) -> None:
    """The obstacles are a sheet and a wall of points. Both lie in a coordinate plane and have no volume."""
    vertices, faces = box_mesh((1.0, 1.0, 1.0), 1)
    in_plane = (vertices[faces][:, :, plane] == 0.5).all(axis=1)
    offset = 0.5 * np.eye(3)[plane]
    sheet = Mesh(pose_from(-offset), vertices, faces[in_plane])
    wall = PointCloud(vertices[np.unique(faces[in_plane])] - offset, 0.01)
    ball = body('<sphere radius="0.1"/>')
    assert collide(ball, sheet)
    assert collide(ball, wall)
    assert collide(ball, PointCloud([[0.0, 0.0, 0.05]], 0.01))
    moved = [replace(each, pose=pose_from(-offset * scale)) for each, scale in ((sheet, 1.4), (wall, 0.4))]
    assert [collide(ball, each) for each in moved] == [False, False]
    assert [collide(ball, each, 0.11) for each in moved] == [True, True]


@pytest.mark.parametrize("thickness", [0.0, 1e-9, 1e-4])
def test_sheet_across_the_axes_is_met(thickness: float) -> None:
    """The library cannot compute the hull of flat points. An attempt would end the process."""
    corners = [[-1.0, -1.0, -1.0], [1.0, -1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 1.0, 0.5 + thickness]]
    sheet = Mesh(np.eye(4), corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    ball = body('<sphere radius="0.1"/>')
    assert collide(ball, replace(sheet, pose=pose_from([0.0, 0.0, 0.1])))
    assert not collide(ball, replace(sheet, pose=pose_from([0.0, 0.0, 2.0])))


def test_boxes_of_a_grid_collide_where_they_overlap() -> None:
    """Coal misses collisions of parallel boxes that overlap deeply, unless contacts are requested."""
    robot = body('<box size="1 1 1"/>')
    model = collision_model(robot)
    for x, y, z in itertools.product(np.linspace(-0.6, 0.6, 7), repeat=3):
        gap = max(abs(x), abs(y), abs(z)) - 0.55
        if abs(gap) > ROUNDING:
            scene = model.scene(False, [Box(pose_from((x, y, z)), (0.1, 0.1, 0.1))])
            assert scene.colliding(np.zeros((1, 1)))[0] == (gap < 0.0)


def test_arm_reaches_into_a_box_that_is_open_in_front(tmp_path: Path) -> None:
    """Five walls form an open box. The box is hollow, but its hull is solid."""
    walls = [box_mesh((0.02, 1.0, 1.0)), *(box_mesh((1.0, 0.02, 1.0)) for _ in range(2))]
    walls += [box_mesh((1.0, 1.0, 0.02)) for _ in range(2)]
    offsets = [(1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.5, -0.5, 0.0), (0.5, 0.0, 0.5), (0.5, 0.0, -0.5)]
    vertices = np.concatenate([part[0] + offset for part, offset in zip(walls, offsets, strict=True)])
    faces = np.concatenate([part[1] + 8 * i for i, part in enumerate(walls)])
    robot = body('<sphere radius="0.1"/>')
    shelf, full = (Mesh(np.eye(4), vertices, faces, convex) for convex in (False, True))
    q = np.array([[0.5], [0.85], [0.895], [0.995], [1.2]])  # the back wall begins at 0.99, so 0.995 is inside the wall
    model = collision_model(robot)
    assert model.scene(False, [shelf]).colliding(q).tolist() == [False, False, True, True, False]
    assert model.scene(False, [full]).colliding(q).tolist() == [True, True, True, True, False]
    assert model.scene(False, [shelf], 0.05).colliding(q).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("geometry", "distance"),
    [
        ('<sphere radius="0.2"/>', lambda x: np.linalg.norm(x, axis=1) - 0.2),
        ('<box size="0.3 0.4 0.5"/>', lambda x: box_distance(x, SIZE)),
        ('<capsule radius="0.1" length="0.4"/>',
         lambda x: np.linalg.norm(np.c_[x[:, :2], np.maximum(np.abs(x[:, 2]) - 0.2, 0.0)], axis=1) - 0.1),
        ('<cylinder radius="0.1" length="0.4"/>', lambda x: np.hypot(
            np.maximum(np.linalg.norm(x[:, :2], axis=1) - 0.1, 0.0), np.maximum(np.abs(x[:, 2]) - 0.2, 0.0))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("radius", [0.002, 0.01])
def test_point_cloud_is_the_union_of_its_balls(geometry: str, distance, radius: float) -> None:
    robot, rng = body(geometry), np.random.default_rng(3)
    points = rng.uniform(-0.4, 0.4, (60, 3))
    found = []
    for pose in random_poses(100, 0.6, rng):
        least = distance(points @ pose[:3, :3].T + pose[:3, 3]).min()
        if abs(least - radius) > ROUNDING:
            found.append(collide(robot, PointCloud(points, radius, pose)))
            assert found[-1] == (least <= radius)
    assert 5 < sum(found) < 95


@pytest.mark.parametrize("meshes", ["exact", "hulls"])
def test_point_cloud_and_mesh_collide_as_by_brute_force(tmp_path: Path, meshes: str) -> None:
    robot, rng = meshed(tmp_path, *box_mesh(SIZE, 2), meshes=meshes), np.random.default_rng(4)
    points = rng.uniform(-0.3, 0.3, (40, 3))
    for pose in random_poses(150, 0.7, rng):
        least = box_distance(points @ pose[:3, :3].T + pose[:3, 3], SIZE).min()
        if abs(least - 0.02) > ROUNDING:
            assert collide(robot, PointCloud(points, 0.02, pose)) == (least <= 0.02)


def test_coarser_cloud_contains_the_finer_one() -> None:
    points = np.random.default_rng(5).uniform(-1.0, 1.0, (5000, 3))
    fine, coarse = PointCloud(points, 0.01), PointCloud(points, 0.01, resolution=0.1)
    centres, radius = coarse.balls
    assert len(centres) < 0.8 * len(points)
    assert fine.balls[0] is fine.points
    gaps = cKDTree(centres).query(points)[0]
    assert (gaps + 0.01 <= radius + 1e-12).all()


def test_links_of_meshes_collide_with_each_other_as_those_of_boxes(tmp_path: Path) -> None:
    path = write_stl(tmp_path / "bar.stl", *box_mesh((1.0, 0.1, 0.1), 1))
    mesh = shape(f'<mesh filename="{path}"/>', "0.5 0 0")
    plain = shape('<box size="1 0.1 0.1"/>', "0.5 0 0")
    joints = [joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", '<origin xyz="1 0 0"/>' + TURN) for i in range(3)]
    arms = [robot_of({"l0": "", **{f"l{i}": each for i in (1, 2, 3)}}, *joints) for each in (mesh, plain)]
    q = arms[0].random(300, np.random.default_rng(6))
    found = [CollisionModel(arm).scene(True).colliding(q) for arm in arms]
    assert found[0].tolist() == found[1].tolist()
    assert 20 < found[0].sum() < 280


def test_pairs_that_collide_are_told_by_name() -> None:
    robot = Robot("panda")
    q = np.array([0.0, 0.0, 0.0, -1.5, 0.0, 1.5, 0.0])
    hand = robot.fk(q)[:3, 3]
    obstacles = [Sphere((5.0, 0.0, 0.0), 0.1), Sphere(hand, 0.02), Box(pose_from(hand), (0.1,) * 3, name="crate")]
    found = collisions(robot, q, obstacles)
    assert {"obstacle 1", "crate"} == {second for _, second in found}
    assert all(first.startswith("panda_") for first, _ in found)
    assert collisions(robot, q) == []


def test_clearance_is_kept_from_obstacles_and_from_itself() -> None:
    ball, bar = shape('<sphere radius="0.1"/>'), joint("slide", "prismatic", "b", "c", SLIDE)
    robot = robot_of({"a": ball, "b": ball, "c": ball}, joint("turn", "revolute", "a", "b", TURN), bar)
    model = CollisionModel(robot)
    q = np.array([[0.0, 0.19], [0.0, 0.21], [0.0, 0.29], [0.0, 0.31]])
    assert model.scene(True).colliding(q).tolist() == [True, False, False, False]
    assert model.scene(True, clearance=0.1).colliding(q).tolist() == [True, True, True, False]
    sphere = [Sphere((0.6, 0.0, 0.0), 0.1)]
    assert model.scene(False, sphere, 0.1).colliding(q).tolist() == [False, False, False, True]


def test_bodies_that_are_close_by_design_are_checked_for_touching() -> None:
    """The first and the last ball are always 0.1 m apart, so a larger clearance is not checked for this pair."""
    links = {f"l{i}": shape('<sphere radius="0.1"/>') for i in range(3)}
    steps = [joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", '<origin xyz="0.15 0 0"/><axis xyz="1 0 0"/>'
                   '<limit lower="-1" upper="1" effort="1" velocity="1"/>') for i in range(2)]  # fmt: skip
    scene = CollisionModel(robot_of(links, *steps)).scene(True, clearance=0.2)
    assert not scene.colliding(np.zeros((1, 2))).any()


def test_srdf_tells_which_links_are_not_checked() -> None:
    ball = shape('<sphere radius="0.1"/>')
    robot = robot_of({"a": ball, "b": ball, "c": ball}, joint("turn", "revolute", "a", "b", TURN),
                     joint("slide", "prismatic", "b", "c", SLIDE))  # fmt: skip
    disabled = '<disable_collisions link1="b" link2="a" reason="Adjacent"/>'
    q = np.array([0.0, 0.05])

    def found(srdf: str) -> set[tuple[str, str]]:
        return set(collisions(Robot(robot.urdf, collision=CollisionOptions(srdf=srdf)), q))

    assert found("") == {("a", "c")}
    assert found(f'<robot name="r">{disabled}</robot>') == {("a", "c"), ("b", "c")}
    silent = '<disable_default_collisions link="a"/><enable_collisions link1="a" link2="c"/>'
    assert found(f'<robot name="r">{silent}</robot>') == {("a", "c"), ("b", "c")}
    with pytest.raises(RobotError, match="SRDF is not well-formed"):
        found("<robot")


def test_winding_number_counts_how_often_a_surface_encloses_a_point() -> None:
    vertices, faces = box_mesh((1.0, 1.0, 1.0), 2)
    points = np.random.default_rng(7).uniform(-1.0, 1.0, (200, 3))
    inside = (np.abs(points) < 0.5).all(axis=1)
    for triangles in (vertices[faces], vertices[faces[:, ::-1]]):
        # with this seed, points are more than 1e-4 from the surface, so rounding errors are far below 1e-6
        assert np.abs(winding_numbers(points, triangles)) == pytest.approx(inside.astype(float), abs=1e-6)


def test_parts_of_a_surface_are_told_apart() -> None:
    """Three balls are recognised as parts, although their triangles are shuffled and share no vertices."""
    vertices, faces = sphere_mesh(0.1, 3)
    shuffled = np.random.default_rng(8).permutation(3 * len(faces)).reshape(-1)
    corners = np.concatenate(
        [vertices[faces] + offset for offset in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 2.0, 0.0))]
    )
    found = parts(corners[shuffled].reshape(-1, 3), np.arange(3 * len(shuffled)).reshape(-1, 3))
    assert sorted(len(part) for part in found) == [len(vertices)] * 3
    assert all(np.ptp(part, axis=0).max() < 0.21 for part in found)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"vertices": np.zeros((3, 2)), "faces": [[0, 1, 2]]}, "vertices of a mesh"),
        ({"vertices": np.full((3, 3), np.nan), "faces": [[0, 1, 2]]}, "vertices of a mesh"),
        ({"vertices": np.eye(3), "faces": [[0, 1, 3]]}, "have vertex indices 0 to 3, expected 0 to 2"),
        ({"vertices": np.eye(3), "faces": [[0.0, 1.0, 2.0]]}, "integers"),
        ({"vertices": np.eye(3), "faces": np.zeros((0, 3), int)}, "at least one triangle"),
        ({"vertices": np.eye(3), "faces": [[0, 1, 1]]}, "at least one triangle"),
        ({"vertices": np.eye(3), "faces": [[0, 1, 2]], "convex": "no"}, "convex must be True or False"),
    ],
)
def test_malformed_mesh_is_refused(arguments: dict, reason: str) -> None:
    with pytest.raises(ConstraintError, match=reason):
        Mesh(np.eye(4), **arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([], 0.1), "points of a cloud"),
        (([[0.0, np.inf, 0.0]], 0.1), "points of a cloud"),
        (([[0.0, 0.0, 0.0]], -1.0), "radius"),
        (([[0.0, 0.0, 0.0]], 0.1, np.eye(4), np.nan), "resolution"),
    ],
)
def test_malformed_cloud_is_refused(arguments: tuple, reason: str) -> None:
    with pytest.raises(ConstraintError, match=reason):
        PointCloud(*arguments)
