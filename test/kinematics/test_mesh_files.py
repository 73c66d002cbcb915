"""Meshes of a URDF are found by each kind of name and read in each format. Errors name the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kinematics.solids_by_formula import box_mesh, write_stl
from kinematics.test_collision import SLIDE, shape

from eim_ros.core.errors import ConstraintError, EimError, MeshError, RobotError
from eim_ros.kinematics import CollisionOptions, Mesh, Robot, Sphere
from eim_ros.kinematics.collision import CollisionModel, collision_model
from eim_ros.kinematics.meshes import find_mesh, read_mesh

CUBE = box_mesh((2.0, 2.0, 2.0))
OBJ = "".join(f"v {x} {y} {z}\n" for x, y, z in CUBE[0]) + "".join(f"f {a} {b} {c}\n" for a, b, c in CUBE[1] + 1)


def dae(unit: str) -> str:
    """Return a cube with edges of length 2 in COLLADA."""
    numbers = " ".join(map(str, CUBE[0].ravel().tolist()))
    index = " ".join(map(str, CUBE[1].ravel().tolist()))
    return (
        '<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">'
        f'<asset><unit name="unit" meter="{unit}"/><up_axis>Z_UP</up_axis></asset><library_geometries>'
        f'<geometry id="g"><mesh><source id="p"><float_array id="pa" count="24">{numbers}</float_array>'
        '<technique_common><accessor source="#pa" count="8" stride="3"><param name="X" type="float"/>'
        '<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>'
        '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices><triangles count="12">'
        f'<input semantic="VERTEX" source="#v" offset="0"/><p>{index}</p></triangles></mesh></geometry>'
        '</library_geometries><library_visual_scenes><visual_scene id="s"><node id="n"><instance_geometry url="#g"/>'
        '</node></visual_scene></library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>'
    )


def urdf(filename: str, scale: str = "1 1 1") -> str:
    slide = f'<joint name="j" type="prismatic"><parent link="a"/><child link="b"/>{SLIDE}</joint>'
    mesh = shape(f'<mesh filename="{filename}" scale="{scale}"/>')
    return f'<robot name="made"><link name="a"/><link name="b">{mesh}</link>{slide}</robot>'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a package `share/arm` with a mesh. No environment variable lists the package."""
    for variable in ("AMENT_PREFIX_PATH", "ROS_PACKAGE_PATH"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "share/arm"
    (folder / "meshes").mkdir(parents=True)
    (folder / "urdf").mkdir()
    write_stl(folder / "meshes/link.stl", *CUBE)
    return folder


@pytest.mark.parametrize(
    ("name", "text"),
    [("cube.obj", OBJ), ("cube.dae", dae("1")), ("cube.DAE", dae("1.0"))],
)
def test_formats_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    vertices, faces = read_mesh(tmp_path / name)
    assert len(faces) == 12
    assert sorted(map(tuple, np.unique(vertices, axis=0).tolist())) == sorted(map(tuple, CUBE[0].tolist()))


def test_unit_of_a_collada_file_counts(tmp_path: Path) -> None:
    (tmp_path / "cube.dae").write_text(dae("0.001"))
    assert np.abs(read_mesh(tmp_path / "cube.dae", (1.0, 2.0, 3.0))[0]).max(axis=0) == pytest.approx([1e-3, 2e-3, 3e-3])
    (tmp_path / "cube.dae").write_text(dae("-1"))
    with pytest.raises(RobotError, match="must be a positive number"):
        read_mesh(tmp_path / "cube.dae")


def test_package_is_found_by_each_variable_by_argument_and_above_the_urdf(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, mesh = "package://arm/meshes/link.stl", package / "meshes/link.stl"
    assert find_mesh(name, None, [package.parent]) == mesh
    assert find_mesh(name, None, [str(package)]) == mesh
    assert find_mesh(name, package / "urdf") == mesh
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{package.parent.parent}")
    assert find_mesh(name, None) == mesh
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    for entry in (package.parent, package):
        monkeypatch.setenv("ROS_PACKAGE_PATH", str(entry))
        assert find_mesh(name, None).samefile(mesh)


def test_package_may_be_in_a_folder_of_another_name(tmp_path: Path) -> None:
    mesh = tmp_path / "Clone-main" / "meshes" / "link.stl"
    mesh.parent.mkdir(parents=True)
    mesh.touch()
    manifest, urdf = tmp_path / "Clone-main" / "package.xml", tmp_path / "Clone-main" / "urdf"
    for text in ("", "<package>", "<package/>", "<package><name>leg</name></package>"):
        manifest.write_text(text)
        with pytest.raises(RobotError, match="package 'arm'"):
            find_mesh("package://arm/meshes/link.stl", urdf)
    manifest.write_text("<package><name> arm </name></package>")
    assert find_mesh("package://arm/meshes/link.stl", urdf) == mesh


def test_paths_and_file_names_are_found(package: Path) -> None:
    mesh = package / "meshes/link.stl"
    spaced = write_stl(package / "meshes/my link.stl", *CUBE)
    for name in (str(mesh), f"file://{mesh}", "../meshes/link.stl"):
        assert find_mesh(name, package / "urdf").samefile(mesh)
    assert find_mesh(f"file://{package}/meshes/my%20link.stl", None) == spaced
    assert find_mesh("meshes/link.stl", None, [package]) == mesh


def test_no_name_leaves_its_package(package: Path) -> None:
    write_stl(package.parent / "outside.stl", *CUBE)
    for rest in (
        "arm/../outside.stl",
        "arm/meshes/../../outside.stl",
        "arm/%2e%2E/outside.stl",
        "../share/outside.stl",
    ):
        with pytest.raises(MeshError, match="does not exist .*a name with '..' must not lead out of its package"):
            find_mesh(f"package://{rest}", package / "urdf", [package.parent])
    assert find_mesh("package://arm/urdf/../meshes/link.stl", None, [package.parent]) == package / "meshes/link.stl"


def test_stranger_names_meshes_of_packages_alone(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(package.parent.parent))
    mesh, outside = package / "meshes/link.stl", write_stl(package.parent.parent / "outside.stl", *CUBE)
    linked = package / "meshes/linked.stl"
    linked.symlink_to(outside)  # as in a workspace built with symbolic links
    for name in ("package://arm/meshes/link.stl", str(mesh), f"file://{mesh}"):
        assert find_mesh(name, None, packages_only=True) == mesh
    assert find_mesh(str(linked), None, packages_only=True) == linked
    told = set()
    for name in (str(outside), f"{package.parent}/../outside.stl", "/dev/zero", "/missing", "../outside.stl"):
        with pytest.raises(MeshError, match="must be in packages") as refusal:
            find_mesh(name, package / "urdf", packages_only=True)
        told.add(str(refusal.value).replace(name, ""))
    assert len(told) == 1
    options = CollisionOptions(packages_only=True)
    with pytest.raises(MeshError, match="must be in packages"):
        CollisionModel(Robot(urdf(str(outside)), collision=options))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "package://leg/link.stl",
            "'package://leg/link.stl' does not exist .*source the workspace with package 'leg",
        ),
        ("meshes/none.stl", "searched: no folder.*so give its path instead of its text"),
        ("/nowhere/none.stl", "searched: /nowhere/none.stl.*correct the name"),
        ("https://example.org/link.stl", "neither a package:// nor a file://"),
        ("", "does not exist"),
    ],
)
def test_missing_mesh_is_named_with_the_cure_when_it_is_needed(package: Path, name: str, reason: str) -> None:
    robot = Robot(urdf(name))
    with pytest.raises(RobotError, match=f"(?s)collision shape of link 'b' is invalid: .*{reason}"):
        CollisionModel(robot)
    assert CollisionModel(Robot(urdf(name), collision=CollisionOptions(meshes="none"))).n_shapes == 0


@pytest.mark.parametrize("content", ["", "hello", "solid a\nendsolid a\n"])
def test_file_that_is_no_mesh_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.stl").write_text(content)
    with pytest.raises(RobotError, match="bad.stl' cannot be read"):
        read_mesh(tmp_path / "bad.stl")
    with pytest.raises(RobotError, match="does not exist"):
        Mesh.load(tmp_path / "none.stl")
    with pytest.raises(ConstraintError, match="scale"):
        read_mesh(tmp_path / "bad.stl", 0.0)


def test_relative_mesh_with_a_scale_is_that_of_the_urdf(package: Path) -> None:
    (package / "urdf/arm.urdf").write_text(urdf("../meshes/link.stl", "0.1 0.1 0.1"))
    for robot in (Robot(package / "urdf/arm.urdf"), Robot(str(package / "urdf/arm.urdf"))):
        scene = collision_model(robot).scene(False, [Sphere((1.0, 0.0, 0.0), 0.2)])
        assert scene.colliding(np.array([[0.69], [0.71]])).tolist() == [False, True]


def test_mesh_obstacle_is_loaded_and_placed(package: Path) -> None:
    pose = np.eye(4)
    pose[0, 3] = 3.0
    mesh = Mesh.load(package / "meshes/link.stl", pose, 0.5, name="block")
    robot = Robot(urdf(str(package / "meshes/link.stl")))
    scene = collision_model(robot).scene(False, [mesh])
    assert scene.colliding(np.array([[1.49], [1.51]])).tolist() == [False, True]
    assert scene.names_of_pairs(np.array([1.51])) == [("b", "block")]


@pytest.mark.parametrize("options", [{"meshes": "best"}, {"package_paths": "/here"}, {"srdf": None}])
def test_malformed_options_are_refused(options: dict) -> None:
    with pytest.raises(EimError):
        CollisionOptions(**options)
