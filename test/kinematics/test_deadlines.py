"""The preparation of collision checks has a limited size, ends at its deadline, and keeps finished work."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from eim_ros.core import deadlines
from eim_ros.core.deadlines import NEVER, OutOfTime
from eim_ros.core.errors import ConstraintError, MeshError
from eim_ros.kinematics import (
    Box,
    Capsule,
    CollisionOptions,
    Cylinder,
    Mesh,
    Obstacle,
    PointCloud,
    Robot,
    Sphere,
    collision,
    pose_from,
    solids,
)
from eim_ros.kinematics import obstacles as obstacles_module
from eim_ros.kinematics.collision import AT_ONCE_LATE, CollisionModel, collision_model
from eim_ros.kinematics.meshes import MeshLimits, read_mesh
from eim_ros.kinematics.obstacles import HALF_DIAGONAL
from eim_ros.kinematics.solids import forms_of

TETRAHEDRON = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Install a clock that advances by 1 s at each reading, and return a function that sets the clock to zero."""
    state = {"steps": count()}
    monkeypatch.setattr(deadlines, "clock", lambda: float(next(state["steps"])))
    return lambda: state.update(steps=count())


def panda_with(**limits: int) -> Robot:
    robot = Robot("panda")
    return Robot(robot.urdf, robot.tip_link, base=robot.base_link, collision=CollisionOptions(**limits))


def some_obstacles(rng: np.random.Generator, n: int) -> list[Obstacle]:
    """Return obstacles of all kinds except meshes that are not convex."""
    obstacles: list[Obstacle] = []
    for i, place in enumerate(rng.uniform(-0.9, 0.9, (n, 3))):
        turn = rng.normal(size=4)
        pose = pose_from(place, turn / np.linalg.norm(turn))
        kinds: list[Obstacle] = [
            Box(pose, (0.05, 0.1, 0.02), name=f"box {i}"),
            Sphere(place, 0.04, name=f"ball {i}"),
            Cylinder(pose, 0.03, 0.1, name=f"can {i}"),
            Capsule(pose, 0.03, 0.1, name=f"pill {i}"),
            Mesh(pose, 0.1 * TETRAHEDRON, FACES, convex=True, name=f"hull {i}"),
            PointCloud(rng.uniform(-0.05, 0.05, (20, 3)), 0.01, pose, name=f"points {i}"),
        ]
        obstacles.append(kinds[i % len(kinds)])
    return obstacles


TOO_MUCH: dict[str, tuple[str, Callable[[], list[Obstacle]], str]] = {
    "obstacles": ("most_obstacles", lambda: [Sphere((2.0, 0.0, 0.0), 0.1)] * 11, "max_obstacles"),
    "points": ("most_points", lambda: [PointCloud(np.zeros((11, 3)), 0.1)], "max_points"),
    "points to be thinned": (
        "most_points", lambda: [PointCloud(np.zeros((101, 3)), 0.1, resolution=0.1)], "max_points",
    ),
    "triangles": (
        "most_triangles", lambda: [Mesh(pose_from((2.0, 0.0, 0.0)), TETRAHEDRON, FACES)] * 3, "max_triangles",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TOO_MUCH)
def test_scene_beyond_a_limit_is_refused_before_anything_is_prepared(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    option, make, parameter = TOO_MUCH[what]
    monkeypatch.setattr(collision, "forms_of", lambda *_: pytest.fail("a form was prepared"))
    monkeypatch.setattr(collision, "Crowd", lambda *_: pytest.fail("a crowd was prepared"))
    model = CollisionModel.__new__(CollisionModel)
    with monkeypatch.context() as plain:
        plain.setattr(collision, "forms_of", forms_of)
        model.__init__(panda_with(**{option: 10}))  # type: ignore[misc]  # the links are prepared, obstacles are not
    with pytest.raises(ConstraintError, match=rf"at most 10+ are allowed.*CollisionOptions\.{option}.*{parameter}"):
        model.scene(False, make())


def test_balls_left_by_a_resolution_are_limited() -> None:
    model = CollisionModel(panda_with(most_points=10))
    cloud = PointCloud(np.linspace(0.0, 1.0, 60).reshape(20, 3), 0.01, resolution=0.01)
    with pytest.raises(ConstraintError, match=r"20 balls of thinned clouds, but at most 10.*most_points"):
        model.scene(False, [cloud])
    model.scene(False, [PointCloud(cloud.points, 0.01, resolution=2.0)])


def test_many_surfaces_are_refused() -> None:
    mesh = Mesh(pose_from((2.0, 0.0, 0.0)), TETRAHEDRON, FACES)
    with pytest.raises(ConstraintError, match="501 meshes that are not convex, but at most 500 are allowed"):
        collision_model(Robot("panda")).scene(False, [mesh] * 501)


@pytest.mark.parametrize("self_collision", [False, True])
@pytest.mark.parametrize("clearance", [0.0, 0.03])
def test_crowd_finds_what_pinocchio_finds(
    self_collision: bool, clearance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    obstacles = some_obstacles(rng, 60)
    model = CollisionModel(Robot("panda"))
    q = model.robot.random(200, rng)
    scenes = []
    for few in (0, 1000):
        monkeypatch.setattr(collision, "FEW", few)
        scenes.append(model.scene(self_collision, list(obstacles), clearance))
        model._kept.among = None
    found = [scene.colliding(q) for scene in scenes]
    assert np.array_equal(*found) and 0 < found[0].sum() < len(q)
    assert scenes[0].n_colliding == scenes[1].n_colliding
    for row in q[:20]:
        assert sorted(scenes[0].names_of_pairs(row)) == sorted(scenes[1].names_of_pairs(row))


def test_crowd_inside_of_a_hollow_link_collides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ball inside of a closed link collides, although it does not touch the surface. A ball in the gap does not."""
    monkeypatch.setattr(collision, "FEW", 0)
    faces = np.concatenate([FACES, FACES + 4])
    vertices = np.concatenate([TETRAHEDRON, TETRAHEDRON + (3.0, 0.0, 0.0)])  # two closed parts with a gap between them
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a} {b} {c}" for a, b, c in faces + 1]
    (tmp_path / "hollow.obj").write_text("\n".join(lines), encoding="utf-8")
    urdf = (
        '<robot name="r"><link name="base"/><link name="moving"><collision><geometry>'
        f'<mesh filename="{tmp_path / "hollow.obj"}"/></geometry></collision></link>'
        '<joint name="j" type="prismatic"><parent link="base"/><child link="moving"/><axis xyz="1 0 0"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>'
    )
    model = CollisionModel(Robot(urdf))
    inside, between = Sphere((0.15, 0.15, 0.15), 0.02, name="inside"), Sphere((2.0, 0.1, 0.1), 0.02, name="between")
    at_zero = np.zeros((1, 1))
    assert model.scene(False, [inside]).colliding(at_zero)[0]
    assert model.scene(False, [inside]).names_of_pairs(at_zero[0]) == [("moving", "inside")]
    assert not model.scene(False, [between]).colliding(at_zero)[0]


def test_pieces_of_a_cloud_collide_as_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    model = CollisionModel(Robot("panda"))
    q, points = model.robot.random(100, rng), rng.uniform((0.3, -0.8, -0.8), 0.8, (2000, 3))
    found = []
    for at_once in (100, 4000):
        monkeypatch.setattr(solids, "POINTS_AT_ONCE", at_once)
        found.append(model.scene(False, [PointCloud(points, 0.01)]).colliding(q))
    assert np.array_equal(*found) and 0 < found[0].sum() < len(q)


@pytest.mark.parametrize("resolution", [0.4, 1e-7])  # with 1e-7, one integer cannot number all cubes
def test_thinned_points_are_the_cubes_that_hold_some(resolution: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles_module, "THINNED_AT_ONCE", 70)
    points = np.random.default_rng(2).normal(0.0, 3.0, (500, 3))
    centres, radius = PointCloud(points, 0.1, resolution=resolution).balls
    expected = np.unique(np.floor(points / resolution), axis=0)
    assert np.array_equal(np.round(centres / resolution - 0.5), expected)
    assert radius == pytest.approx(0.1 + HALF_DIAGONAL * resolution, rel=1e-12)


def test_thinning_goes_on_where_it_was(stepped: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles_module, "THINNED_AT_ONCE", 100)
    cloud = PointCloud(np.random.default_rng(3).uniform(size=(1600, 3)), 0.01, resolution=0.2)
    n_calls = 0
    while True:
        stepped()
        try:
            assert forms_of(cloud, 5.0).n_balls(1000, 5.0) == 125
            break
        except OutOfTime as error:
            n_calls += 1
            assert "thin a point cloud" in str(error)
    assert n_calls == 3  # each call does 5 of the 16 steps before its deadline


def test_obstacles_are_not_prepared_when_time_is_up(stepped: Callable[[], None]) -> None:
    model = CollisionModel(Robot("panda"))
    obstacles = [Sphere((2.0, 0.0, 0.01 * i), 0.001) for i in range(300)]
    stepped()
    with pytest.raises(OutOfTime, match="no time was left to prepare the obstacles: give one call a longer timeout"):
        model.scene(False, obstacles, deadline=20.0)
    assert sum(obstacle in solids._made for obstacle in obstacles) < 25


def test_mesh_is_not_begun_if_its_estimate_is_longer_than_the_time_left() -> None:
    mesh = Mesh(np.eye(4), TETRAHEDRON, np.tile(FACES, (100_000, 1)))
    with pytest.raises(OutOfTime, match=r"prepare a mesh of 400000 triangles, which takes about"):
        forms_of(mesh, deadlines.clock() + 1e-3)
    assert mesh not in solids._made


def test_trials_of_self_collision_go_on_where_they_were(stepped: Callable[[], None]) -> None:
    robot = Robot("panda")
    expected = CollisionModel(robot).pairs
    model, n_calls = CollisionModel(robot), 0
    while True:
        stepped()
        try:
            model.prepare(100.0)
            break
        except OutOfTime:
            n_calls += 1
    assert n_calls > 2  # 400 trials, of which a call makes about 100
    assert model.pairs == expected


def test_what_there_is_no_time_to_check_counts_as_colliding() -> None:
    robot = Robot("panda")
    scene = collision_model(robot).scene(True, [Sphere((5.0, 0.0, 0.0), 0.1)])
    q = np.tile(0.5 * (robot.lower + robot.upper), (1000, 1))
    assert not scene.colliding(q).any() and scene.n_unchecked == 0
    found = scene.colliding(q, 0.0)
    assert not found[:AT_ONCE_LATE].any() and found[AT_ONCE_LATE:].all()
    assert scene.n_unchecked == 1000 - AT_ONCE_LATE and scene.n_colliding == 0


def test_scene_of_the_same_obstacles_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = CollisionModel(Robot("panda"))
    obstacles = [Sphere((2.0, 0.0, 0.01 * i), 0.001) for i in range(300)]
    first = model.scene(False, obstacles)
    monkeypatch.setattr(collision, "Crowd", lambda *_: pytest.fail("prepared again"))
    again = model.scene(False, list(obstacles))
    assert again is not first and again._crowds is first._crowds
    monkeypatch.undo()
    assert model.scene(False, obstacles, 0.1)._crowds is not first._crowds


def test_scene_goes_with_its_obstacles_and_is_not_taken_for_that_of_others() -> None:
    model = CollisionModel(Robot("panda"))
    rows = np.zeros((1, 7))
    for place, expected in (((0.0, 0.0, 0.5), True), ((5.0, 0.0, 0.0), False)) * 3:
        obstacles = [Sphere(place, 0.3)]  # usually at the address of the deleted list
        assert model.scene(False, obstacles).colliding(rows)[0] == expected
        del obstacles
        assert not model._kept.among._scene and len(solids._made) < 1000
    many = [Sphere((5.0, 0.0, 0.0), 0.3), Sphere((6.0, 0.0, 0.0), 0.3)]
    assert not model.scene(False, many).colliding(rows)[0]
    many[1] = Sphere((0.0, 0.0, 0.5), 0.3)
    assert model.scene(False, many).colliding(rows)[0]


def test_cloud_that_was_not_thinned_in_time_is_not_kept_for_ever(stepped: Callable[[], None]) -> None:
    cloud = PointCloud(np.zeros((10, 3)), 0.1, resolution=0.1)
    gone = weakref.ref(cloud)
    with pytest.raises(OutOfTime):
        forms_of(cloud, NEVER).n_balls(10, 0.0)
    del cloud
    assert gone() is None


def test_meshes_of_the_robot_that_were_read_in_time_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"v {x} {y} {z}" for x, y, z in TETRAHEDRON] + [f"f {a} {b} {c}" for a, b, c in FACES + 1]
    names = [tmp_path / f"{i}.obj" for i in range(3)]
    for name in names:
        name.write_text("\n".join(lines), encoding="utf-8")
    shapes = [f'<collision><geometry><mesh filename="{name}"/></geometry></collision>' for name in names]
    links = "".join(f'<link name="l{i}">{shape}</link>' for i, shape in enumerate(shapes))
    joints = "".join(
        f'<joint name="j{i}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/><axis xyz="0 0 1"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        for i in range(2)
    )
    robot = Robot(f'<robot name="r">{links}{joints}</robot>')
    read: list[str] = []
    monkeypatch.setattr(collision, "seconds_to_read", lambda path: 0.0 if path.name == "0.obj" else 1e9)
    monkeypatch.setattr(collision, "read_mesh", lambda path, *rest: (read.append(path.name), read_mesh(path, *rest))[1])
    with pytest.raises(OutOfTime, match="read the mesh of link 'l1', which takes about"):
        collision_model(robot, deadlines.clock() + 60.0)
    assert read == ["0.obj"]
    assert collision_model(robot).n_shapes == 3
    assert read == ["0.obj", "1.obj", "2.obj"]


def test_large_mesh_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.stl"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(
        MeshError, match=r"has 100\.0 MB, but at most 50\.0 MB are allowed.*most_mesh_bytes.*max_mesh_bytes"
    ):
        Mesh.load(path)


def test_stl_that_says_it_has_too_many_triangles_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "many.stl"
    path.write_bytes(b"\0" * 80 + np.uint32(1000).tobytes() + b"\0" * 50_000)
    with pytest.raises(
        MeshError, match=r"has 1000 triangles, but only 999 more are allowed.*most_triangles.*max_triangles"
    ):
        read_mesh(path, 1.0, MeshLimits(most_triangles=999))


def test_meshes_of_a_robot_share_the_limit_of_triangles(tmp_path: Path) -> None:
    lines = [f"v {x} {y} {z}" for x, y, z in TETRAHEDRON] + [f"f {a} {b} {c}" for a, b, c in FACES + 1]
    (tmp_path / "t.obj").write_text("\n".join(lines), encoding="utf-8")
    urdf = (
        '<robot name="r"><link name="a"><collision><geometry><mesh filename="t.obj"/></geometry></collision></link>'
        '<link name="b"><collision><geometry><mesh filename="t.obj" scale="2 2 2"/></geometry></collision></link>'
        '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>'
    )
    options = CollisionOptions(package_paths=(tmp_path,), most_triangles=7)
    with pytest.raises(MeshError, match=r"link 'b'.*has 4 triangles, but only 3 more are allowed"):
        CollisionModel(Robot(urdf, collision=options))
