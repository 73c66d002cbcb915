"""One rule finds the packages of xacro files, meshes and SRDFs."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinematics.workspace import NAME, VARIABLES, WAYS, Workspace, made_workspace

from eim_ros import Sampler
from eim_ros.core.errors import MeshError, RobotError
from eim_ros.kinematics import CollisionOptions, Robot, drawable_shapes
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.meshes import find_mesh
from eim_ros.kinematics.packages import find_package
from eim_ros.kinematics.srdf import srdf_groups

pytest.importorskip("xacro")


@pytest.fixture(autouse=True)
def no_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(params=WAYS)
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    made = made_workspace(tmp_path, request.param)
    for variable, value in made.environment.items():
        monkeypatch.setenv(variable, value)
    return made


def package(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    return folder


def test_robot_with_meshes_and_srdf_is_found_by_each_way(workspace: Workspace) -> None:
    options = CollisionOptions(srdf=workspace.srdf)
    robot = Robot(workspace.robot, collision=options, package_paths=workspace.package_paths)
    assert robot.fingerprint == Robot("ur5e").fingerprint
    collision_model(robot).prepare()  # would raise an error if the mesh were missing
    assert srdf_groups(robot, str(robot.collision.srdf)) == {"arm": "tool0"}
    visuals = drawable_shapes(robot, workspace.robot, workspace.package_paths)
    assert sum(isinstance(shape, tuple) for *_, shape in visuals) == 1


def test_sampler_and_model_find_the_same_packages(workspace: Workspace) -> None:
    for model in (None, "ur5e_pose") if _is_included("ur5e_pose") else (None,):
        sampler = Sampler(workspace.robot, model=model, package_paths=workspace.package_paths)
        checked = sampler.with_collision_options(CollisionOptions(srdf=workspace.srdf))
        checked = checked.with_constraints(self_collision=True)
        assert checked.solve([0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0], seed=0, timeout=60.0)


def _is_included(model: str) -> bool:
    from eim_ros.ik.prior import SHIPPED_MODELS

    return model in SHIPPED_MODELS


def test_given_folders_come_first_then_neighbours_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = package(tmp_path / "ws/src/arm", "arm")
    given, near, installed, listed = (
        package(tmp_path / path, "parts") for path in ("given/parts", "ws/src/parts", "prefix/share/parts", "ros/parts")
    )
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "prefix"))
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "ros"))
    assert find_package("parts", own, [given.parent]) == given
    assert find_package("parts", own) == near
    assert find_package("parts", None) == installed
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    assert find_package("parts", None) == listed
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    assert find_package("parts", None) is None


def test_package_is_known_by_its_manifest_and_not_by_its_folder(tmp_path: Path) -> None:
    renamed = package(tmp_path / "src/group/clone-main", "parts")
    package(tmp_path / "src/parts", "others")
    own = package(tmp_path / "src/arm", "arm")
    assert find_package("parts", own) == renamed
    assert find_package("parts", None, [tmp_path / "src"]) == renamed
    assert find_package("parts", None, [renamed]) == renamed


def test_what_colcon_ignores_and_builds_is_not_searched(tmp_path: Path) -> None:
    package(tmp_path / "src/ignored/one", "parts")
    (tmp_path / "src/ignored/COLCON_IGNORE").touch()
    package(tmp_path / "src/build/two", "parts")
    assert find_package("parts", None, [tmp_path / "src"]) is None
    found = package(tmp_path / "src/repository/group/three", "parts")
    assert find_package("parts", None, [tmp_path / "src"]) == found


def test_installed_package_finds_those_with_their_own_prefix(tmp_path: Path) -> None:
    own = package(tmp_path / "install/arm/share/arm", "arm")
    other = package(tmp_path / "install/parts/share/parts", "parts")
    assert find_package("parts", own / "urdf") == other


def test_text_of_a_description_has_no_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package(tmp_path / "ws/src/arm", "arm"))
    package(tmp_path / "ws/src/parts", "parts")
    with pytest.raises(MeshError, match="package 'parts'"):
        find_mesh("package://parts/cube.stl", None)


def test_file_of_a_package_keeps_its_real_path_after_xacro(tmp_path: Path) -> None:
    workspace = made_workspace(tmp_path, "neighbours")
    macros = next(tmp_path.glob("**/arm.xacro"))
    macros.write_text(macros.read_text().replace("package://arm_meshes", "file://$(find arm_meshes)"))
    collision_model(Robot(workspace.robot)).prepare()


def test_name_of_a_package_may_have_arguments_of_xacro(tmp_path: Path) -> None:
    workspace = made_workspace(tmp_path, "package_paths")
    main = next(tmp_path.glob("**/arm.urdf.xacro"))
    main.write_text(main.read_text().replace("<xacro:include", '<xacro:arg name="of" default="x"/><xacro:include'))
    main.write_text(main.read_text().replace("arm.xacro", "$(arg of).xacro"))
    robot = Robot(f"{NAME} of:=arm", package_paths=workspace.package_paths)
    assert robot.fingerprint == Robot("ur5e").fingerprint


@pytest.mark.parametrize("part", ["macros", "meshes", "srdf"])
def test_missing_package_is_named_with_the_keyword(tmp_path: Path, part: str) -> None:
    workspace = made_workspace(tmp_path, "neighbours")
    srdf = "package://elsewhere/arm.srdf" if part == "srdf" else ""
    for folder in tmp_path.glob(f"**/arm_{part}"):
        folder.rename(tmp_path / "away")
    name = "elsewhere" if part == "srdf" else f"arm_{part}"
    with pytest.raises(RobotError, match=rf"with package '{name}'.*folder that contains the package as package_paths"):
        collision_model(Robot(workspace.robot, collision=CollisionOptions(srdf=srdf))).prepare()


def test_srdf_is_a_text_a_path_or_a_name(tmp_path: Path) -> None:
    workspace = made_workspace(tmp_path, "neighbours")
    path = next(tmp_path.glob("**/arm.srdf"))
    for srdf in (path.read_text(), str(path), path, workspace.srdf):
        robot = Robot(workspace.robot, collision=CollisionOptions(srdf=srdf))
        assert robot.collision.srdf == path.read_text()
        assert robot.with_tip("wrist_1_link").collision.srdf == path.read_text()
    with pytest.raises(RobotError, match="no.srdf"):
        Robot(workspace.robot, collision=CollisionOptions(srdf=str(tmp_path / "no.srdf")))


def test_folders_remain_when_other_options_are_given(tmp_path: Path) -> None:
    workspace = made_workspace(tmp_path, "package_paths")
    robot = Robot(workspace.robot, package_paths=workspace.package_paths)
    collision_model(robot.with_collision_options(CollisionOptions(meshes="hulls"))).prepare()


@pytest.mark.parametrize("folders", ["/here", [3], None])
def test_folders_must_be_a_list(folders: object) -> None:
    with pytest.raises(RobotError, match="package_paths must be a list of folders"):
        Robot("panda", package_paths=folders)  # type: ignore[arg-type]
