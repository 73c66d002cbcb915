"""Meshes and clouds of requests are converted in both directions or refused. Planning scenes become obstacles."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import Pose, Vector3
from kinematics.solids_by_formula import box_mesh, write_stl
from nodes.ik_server.serving import refused, served
from shape_msgs.msg import Mesh as MeshMessage
from shape_msgs.msg import Plane, SolidPrimitive
from std_msgs.msg import Header

from eim_ros.core.errors import ConstraintError, EimError, MeshError
from eim_ros.ik import Constraints, ErrorCode, Sampler
from eim_ros.kinematics import Box, Cylinder, Mesh, PointCloud, Robot, Sphere, pose_from
from eim_ros.msg import IKConstraints, SceneObstacles
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.messages import point_cloud_message, pose_message
from eim_ros.nodes.ik_server import constraints
from eim_ros.nodes.ik_server.constraints import constraints_of, fill_constraints, fill_scene, scene_obstacles
from eim_ros.nodes.ik_server.messages import RequestContext, RequestError, constraints_for, poses_of
from eim_ros.nodes.ik_server.planning_scene import PlanningSceneObjects
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.srv import SampleIK

ROBOT = Robot("iiwa14")
TURNED = pose_from((0.1, -0.2, 0.3), (0.0, 0.6, 0.0, 0.8))
POINTS = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3))


def test_meshes_and_clouds_go_through_a_message_unchanged() -> None:
    vertices, faces = box_mesh((1.0, 2.0, 3.0), 1)
    wanted = Constraints(
        obstacles=(
            Sphere((1.0, 0.0, 0.0), 0.1),
            Mesh(TURNED, vertices, faces, True),
            PointCloud(POINTS, 0.01, TURNED, 0.05),
        ),
        clearance=0.02,
    )
    message = IKConstraints()
    fill_constraints(message, wanted)
    read = constraints_of(message, ROBOT, IkServerSettings())
    sphere, mesh, cloud = read.obstacles
    assert read.clearance == 0.02
    assert isinstance(sphere, Sphere)
    assert isinstance(mesh, Mesh)
    assert isinstance(cloud, PointCloud)
    np.testing.assert_array_equal(mesh.vertices, vertices)
    np.testing.assert_array_equal(mesh.faces, faces)
    np.testing.assert_allclose(mesh.pose, TURNED, atol=1e-15)
    np.testing.assert_allclose(cloud.points, POINTS @ TURNED[:3, :3].T + TURNED[:3, 3], atol=1e-15)
    assert (mesh.convex, cloud.radius, cloud.resolution) == (True, 0.01, 0.05)
    with pytest.raises(EimError, match="same radius"):
        fill_scene(message.scene, [PointCloud(POINTS, 0.01), PointCloud(POINTS, 0.02)])


def test_files_are_read_by_the_server(tmp_path: Path) -> None:
    path = write_stl(tmp_path / "cube.stl", *box_mesh((1.0, 1.0, 1.0)))
    scene = SceneObstacles()
    scene.mesh_files, scene.mesh_file_poses = [f"file://{path}"], [pose_message(TURNED)]
    scene.mesh_file_scales = [Vector3(x=1.0, y=2.0, z=4.0)]
    (mesh,) = scene_obstacles(scene, ROBOT, DataDirectory(tmp_path))
    assert np.ptp(mesh.vertices, axis=0).tolist() == [1.0, 2.0, 4.0]
    assert mesh.name == f"file://{path}"


def test_cloud_without_points_is_no_obstacle_and_one_in_another_frame_is_refused() -> None:
    scene = SceneObstacles()
    scene.point_clouds = [point_cloud_message(np.full((2, 3), np.nan))]
    assert scene_obstacles(scene, ROBOT, DataDirectory()) == ()
    scene.point_clouds[0].header.frame_id = "camera"
    with pytest.raises(EimError, match="frame 'camera', expected the base link 'base_link'"):
        scene_obstacles(scene, ROBOT, DataDirectory())
    scene.mesh_poses = [Pose()]
    with pytest.raises(EimError, match="0 meshes and 1 mesh_poses"):
        scene_obstacles(scene, ROBOT, DataDirectory())


# moveit_msgs is not on PyPI, so these objects imitate its messages. The messages inside of them are real.

BALL = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.1])
ADD, REMOVE, APPEND, MOVE = (bytes([value]) for value in range(4))


def at(x: float) -> Pose:
    return pose_message(pose_from((x, 0.0, 0.0)))


def collision_object(name: str, operation: bytes = ADD, frame: str = "", x: float = 0.0, **parts: list) -> object:
    empty: dict[str, list] = {"primitives": [], "primitive_poses": [], "meshes": [], "mesh_poses": [], "planes": []}
    return SimpleNamespace(
        id=name, operation=operation, header=Header(frame_id=frame), pose=at(x), **{**empty, **parts}
    )


def ball(name: str, operation: bytes = ADD, frame: str = "", x: float = 0.0) -> object:
    return collision_object(name, operation, frame, x, primitives=[BALL], primitive_poses=[at(1.0)])


def matrix_of(names: str = "", rows: list[list[bool]] | None = None, **defaults: bool) -> object:
    return SimpleNamespace(
        entry_names=names.split(), entry_values=[SimpleNamespace(enabled=row) for row in rows or []],
        default_entry_names=list(defaults), default_entry_values=list(defaults.values()),
    )  # fmt: skip


def scene_of(
    *objects: object, is_diff: bool = True, octomap: bytes = b"", matrix: object | None = None
) -> SimpleNamespace:
    octree = SimpleNamespace(octomap=SimpleNamespace(data=octomap))
    world = SimpleNamespace(collision_objects=list(objects), octomap=octree)
    return SimpleNamespace(is_diff=is_diff, world=world, allowed_collision_matrix=matrix or matrix_of())


@pytest.fixture
def scene() -> PlanningSceneObjects:
    frames = {"base_link": np.eye(4), "table": pose_from((0.0, 2.0, 0.0))}
    return PlanningSceneObjects(frames, ("base_link", "hand", "arm"))


def places(scene: PlanningSceneObjects) -> dict[str, list]:
    found: dict[str, list] = {}
    for each in scene.conditions.obstacles:
        found.setdefault(each.name, []).append(np.round(np.asarray(each.pose)[:3, 3], 12).tolist())
    return found


def test_objects_are_added_moved_and_removed(scene: PlanningSceneObjects) -> None:
    scene.update(scene_of(ball("a"), ball("b", frame="table", x=0.5), is_diff=False))
    assert places(scene) == {"a": [[1.0, 0.0, 0.0]], "b": [[1.5, 2.0, 0.0]]}
    scene.update(scene_of(collision_object("a", MOVE, "table", x=3.0), ball("b", APPEND)))
    assert places(scene) == {"a": [[4.0, 2.0, 0.0]], "b": [[1.5, 2.0, 0.0]] * 2}
    scene.update(scene_of(collision_object("a", REMOVE)))
    assert list(places(scene)) == ["b"]
    scene.update(scene_of(ball("c")))
    scene.update(scene_of(ball("d"), is_diff=False))
    assert list(places(scene)) == ["d"]
    scene.update(scene_of(collision_object("", REMOVE)))
    assert places(scene) == {}


def test_each_kind_of_shape_is_taken(scene: PlanningSceneObjects) -> None:
    vertices, faces = box_mesh((1.0, 1.0, 1.0))
    message = SceneObstacles()
    fill_scene(message, [Mesh(np.eye(4), vertices, faces)])
    box = SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[1.0, 2.0, 3.0])
    cylinder = SolidPrimitive(type=SolidPrimitive.CYLINDER, dimensions=[2.0, 0.25])
    scene.update(scene_of(collision_object("a", primitives=[box, cylinder], primitive_poses=[at(0.0)] * 2,
                                           meshes=list(message.meshes), mesh_poses=[at(0.0)])))  # fmt: skip
    assert [type(each) for each in scene.conditions.obstacles] == [Box, Cylinder, Mesh]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            scene_of(ball("a", frame="camera")),
            "'a': it is in frame 'camera', expected a frame that is fixed to the base",
        ),
        (scene_of(collision_object("a", planes=[Plane()])), "a plane cannot be checked"),
        (scene_of(collision_object("a", primitives=[BALL])), "'a': "),
        (scene_of(collision_object("a", meshes=[MeshMessage()], mesh_poses=[at(0.0)])), "vertices of a mesh"),
        (scene_of(collision_object("a", MOVE)), "moved before it was added"),
        (scene_of(octomap=b"1"), "octomap"),
        (scene_of(matrix=matrix_of("cup hand", [[True]])), "matrix has rows whose length differs"),
    ],
)
def test_what_cannot_be_checked_is_told_until_it_is_gone(
    scene: PlanningSceneObjects, broken: object, reason: str
) -> None:
    with pytest.raises(RequestError, match="no planning scene has arrived"):
        _ = scene.conditions
    scene.update(broken)
    with pytest.raises(RequestError, match=reason):
        _ = scene.conditions
    is_object = bool(broken.world.collision_objects)
    scene.update(scene_of(collision_object("a", REMOVE), is_diff=is_object))
    assert scene.conditions.obstacles == ()


def test_allowed_collisions_are_entries_and_defaults_of_the_matrix(scene: PlanningSceneObjects) -> None:
    T, F = True, False
    matrix = matrix_of("hand cup arm post", [[F, T, F, F], [T, F, F, F], [F, F, F, F], [F, F, F, F]])
    scene.update(scene_of(ball("cup"), ball("post"), is_diff=False, matrix=matrix))
    assert scene.conditions.allowed_collisions == (("cup", "hand"),)
    scene.update(scene_of(ball("tray")))  # a diff without a matrix does not change the matrix
    assert scene.conditions.allowed_collisions == (("cup", "hand"),)
    defaults = matrix_of("tray arm", [[F, F], [F, F]], tray=T, hand=T, base_link=F)
    scene.update(scene_of(matrix=defaults))
    pairs = {("hand", "tray"), ("cup", "hand"), ("hand", "post"), ("arm", "hand")}  # the entry (arm, tray) is false
    assert set(scene.conditions.allowed_collisions) == pairs
    scene.update(scene_of(ball("cup"), is_diff=False))
    assert scene.conditions.allowed_collisions == ()


def test_object_of_the_scene_may_touch_the_links_of_the_matrix(scene: PlanningSceneObjects) -> None:
    q = np.array([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
    x, y, z = ROBOT.fk(q)[:3, 3]
    cup = collision_object("cup", primitives=[BALL], primitive_poses=[pose_message(pose_from((x, y, z)))])
    codes = []
    for links in ("", "link_6 link_7 tool0"):
        names = f"cup {links}"
        n = len(names.split())
        rows = [[(i == 0) != (j == 0) for j in range(n)] for i in range(n)]
        objects = PlanningSceneObjects({"base_link": np.eye(4)}, ["base_link", "link_6", "link_7", "tool0"])
        objects.update(scene_of(cup, is_diff=False, matrix=matrix_of(names, rows)))
        request = SampleIK.Request(n_samples=5, poses=[pose_message(ROBOT.fk(q))])
        answer = served("sample_ik", request, Sampler(ROBOT), scene=objects.conditions).solutions
        codes.append(answer.error_code.val)
    assert codes == [ErrorCode.GOAL_IN_COLLISION, ErrorCode.SUCCESS]


LIMITED = Robot(
    ROBOT.urdf, ROBOT.tip_link, base=ROBOT.base_link, collision=IkServerSettings(
        max_obstacles=10, max_points=10, max_triangles=10, max_mesh_bytes=1000
    ).collision,
)  # fmt: skip


def with_boxes(n: int) -> IKConstraints:
    message = IKConstraints()
    message.scene.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1] * 3) for _ in range(n)]
    message.scene.primitive_poses = [pose_message(pose_from((2.0, 0.0, 0.0))) for _ in range(n)]
    return message


def with_points(n: int, resolution: float = 0.0) -> IKConstraints:
    message = IKConstraints()
    message.scene.point_clouds = [point_cloud_message(np.zeros((n, 3)))]
    message.scene.point_radius, message.scene.point_resolution = 0.1, resolution
    return message


def with_triangles(n: int) -> IKConstraints:
    message = IKConstraints()
    vertices, faces = box_mesh((1.0, 2.0, 3.0), 1)
    fill_scene(message.scene, [Mesh(np.eye(4), vertices, np.tile(faces, (n, 1))[:n])])
    return message


TOO_MUCH: dict[str, tuple[Callable[[], IKConstraints], str]] = {
    "boxes": (lambda: with_boxes(11), "11 obstacles, but at most 10 .*parameter max_obstacles"),
    "points": (lambda: with_points(11), "11 points in clouds, but at most 10 .*parameter max_points"),
    "points to be thinned": (lambda: with_points(101, 0.1), "101 points .*at most 100 .*parameter max_points"),
    "triangles": (lambda: with_triangles(11), "11 triangles in meshes, but at most 10 .*parameter max_triangles"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_scene_beyond_a_limit_is_refused_before_it_is_read(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, message = TOO_MUCH[what]
    message_of_scene = make()
    monkeypatch.setattr(constraints, "transform_of", lambda *_: pytest.fail("something was read"))
    with pytest.raises(ConstraintError, match=message):
        constraints_of(message_of_scene, LIMITED, IkServerSettings())


def test_mesh_file_beyond_a_limit_is_refused(tmp_path: Path) -> None:
    vertices, faces = box_mesh((1.0, 2.0, 3.0), 2)
    write_stl(tmp_path / "box.stl", vertices, faces)
    message = IKConstraints()
    message.scene.mesh_files, message.scene.mesh_file_poses = [str(tmp_path / "box.stl")], [pose_message(np.eye(4))]
    with pytest.raises(MeshError, match="at most 0.0 MB are allowed.*parameter max_mesh_bytes"):
        constraints_of(message, LIMITED, IkServerSettings(data_directory=str(tmp_path)))


@pytest.mark.parametrize("request_of", [lambda: with_boxes(1000), lambda: with_points(5000), lambda: with_triangles(5)])
def test_scene_that_cannot_be_read_in_time_is_timed_out(
    request_of: Callable[[], IKConstraints], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eim_ros.nodes.ik_server.messages.with_grace", lambda deadline: deadline)
    with pytest.raises(RequestError, match="timed out: no time was left to") as error:
        constraints_for(request_of(), ROBOT, IkServerSettings(), time.perf_counter() - 1.0)
    assert error.value.code == ErrorCode.TIMED_OUT


def test_poses_that_cannot_be_read_in_time_are_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eim_ros.nodes.ik_server.messages.with_grace", lambda deadline: deadline)
    poses = [pose_message(TURNED)] * 100
    assert np.allclose(poses_of(poses, IkServerSettings()), TURNED, atol=1e-15)
    with pytest.raises(RequestError, match="100 of 100 poses were not read in time") as error:
        poses_of(poses, IkServerSettings(), time.perf_counter() - 1.0)
    assert error.value.code == ErrorCode.TIMED_OUT


def test_timeout_of_a_request_counts_from_its_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scene of a request is not prepared if the request has waited longer than its timeout."""
    monkeypatch.setattr("eim_ros.nodes.ik_server.messages.with_grace", lambda deadline: deadline)
    request = SampleIK.Request(n_samples=5, timeout=5.0, constraints=with_boxes(10))
    request.poses = [pose_message(ROBOT.fk(np.full(7, 0.5)))]
    late = RequestContext(ROBOT, arrival=time.monotonic() - 6.0)
    error = refused("sample_ik", request, Sampler(ROBOT), context=late)
    assert (error.code, "timed out" in str(error)) == (ErrorCode.TIMED_OUT, True)
    solutions = served("sample_ik", request, Sampler(ROBOT)).solutions
    assert (solutions.error_code.val, solutions.n) == (ErrorCode.SUCCESS, 5)
