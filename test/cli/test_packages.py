"""Nodes and every verb that reads a robot find its packages in each way that `kinematics.workspace` offers."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command import Command
from kinematics.workspace import NAME, VARIABLES, WAYS, Workspace, made_workspace

from eim_ros.cli.main import VERBS, ExitCode, verb_type
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.srdf import srdf_groups

pytest.importorskip("xacro")

POSE = ("--pose", 0.4, 0.1, 0.3, 1, 0, 0, 0)
CHECKED = (*POSE, "--self-collision", "--set", "timeout=60")
LINE = tuple(word for x in (0.3, 0.31) for word in ("--pose", 0.4, 0.1, x, 1, 0, 0, 0))
OF_POSES = {
    "solve": CHECKED,
    "sample": (*CHECKED, "-n", 2),
    "solve-all": CHECKED,
    "solve-nearest-pose": CHECKED,
    "follow": (*LINE, "--self-collision"),
    "picture": (*CHECKED, "-n", 2, "--output", "arm.png"),
    "place": (*POSE, "--self-collision", "--spacing", 0.5, "--refine", 0, "--quiet"),
}
OTHERS = {
    "collect": ("--samples", 20, "--output", "pairs.npz", "--quiet"),
    "map": ("--spacing", 1.0, "--approaches", 1, "--rolls", 1, "--seeds", 1, "--jobs", 1, "--quiet"),
    "train": ("--data", "pairs.npz", "--output", "m.safetensors", "--algorithm", "em", "--experts", 2, "--quiet"),
    "import": ("bag.csv", "--output", "motions.npz"),
}


@pytest.fixture(params=WAYS)
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    made = made_workspace(tmp_path, request.param)
    for variable, value in made.environment.items():
        monkeypatch.setenv(variable, value)
    return made


def robot_of(workspace: Workspace) -> tuple[str, ...]:
    folders = [word for folder in workspace.package_paths for word in ("--package-path", folder)]
    return ("--robot", workspace.robot, *folders)


@pytest.mark.parametrize("verb", OF_POSES)
def test_verb_reads_macros_meshes_and_srdf(eim: Command, workspace: Workspace, verb: str) -> None:
    outcome = eim(verb, *robot_of(workspace), "--srdf", workspace.srdf, *OF_POSES[verb])
    assert outcome.code == ExitCode.DONE, (outcome.out, outcome.err)


def test_verbs_of_data_read_the_robot(eim: Command, workspace: Workspace) -> None:
    names = Robot("ur5e").joint_names
    rows = [",".join(["time", *names]), *(f"{0.1 * i},{','.join([str(0.01 * i)] * 6)}" for i in range(30))]
    Path("bag.csv").write_text("\n".join(rows))
    for verb, words in OTHERS.items():
        outcome = eim(verb, *words, *robot_of(workspace))
        assert outcome.code == ExitCode.DONE, (verb, outcome.out, outcome.err)


def test_view_reads_visuals_of_packages(workspace: Workspace) -> None:
    pytest.importorskip("trimesh")
    from eim_ros.cli.flags import parse
    from eim_ros.view.surfaces import arm_surfaces

    source = parse(verb_type("view"), "eim view", list(robot_of(workspace))).source
    surfaces, told = arm_surfaces(source.sampler().robot, source.file, source.package_path)
    assert surfaces
    assert told == ""


def test_every_verb_with_a_robot_has_the_flag() -> None:
    from eim_ros.cli.completion import flags_of

    kinds = {verb: verb_type(verb) for verb in VERBS}
    flags = {verb: set() if isinstance(kind, dict) else set(flags_of(kind)) for verb, kind in kinds.items()}
    assert [verb for verb, known in flags.items() if "--base" in known and "--package-path" not in known] == []


@pytest.mark.parametrize("words", [("solve", *POSE), ("collect", "--output", "x.npz")])
def test_message_names_the_flag(
    eim: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    eim(*words, "--robot", NAME).refused(
        "with package 'arm_config'", "folder that contains the package as --package-path"
    )
    made_workspace(tmp_path, "neighbours")
    for folder in tmp_path.glob("**/arm_meshes"):
        folder.rename(tmp_path / "away")
    file = next(tmp_path.glob("**/arm.urdf.xacro"))
    eim("solve", *POSE, "--robot", file, "--self-collision").refused("'arm_meshes'", "as --package-path")
    with pytest.raises(Exception, match="as package_paths"):  # in Python, the error names the keyword
        collision_model(Robot(file)).prepare()


def test_nodes_find_the_packages(workspace: Workspace) -> None:
    pytest.importorskip("rclpy")
    from eim_ros.nodes.common.robot_source import load_robot
    from eim_ros.nodes.ik_server.moveit import check_groups
    from eim_ros.nodes.ik_server.node import load_sampler
    from eim_ros.nodes.ik_viewer.messages import shapes_to_show
    from eim_ros.nodes.settings import FkCollectorSettings, IkServerSettings, IkViewerSettings

    paths = ":".join(workspace.package_paths)
    server = IkServerSettings(
        robot=workspace.robot, package_paths=paths, robot_description_semantic=workspace.srdf, model="none"
    )
    robot = load_sampler(server).robot
    collision_model(robot).prepare()
    assert check_groups(robot, server) == tuple(srdf_groups(robot, str(robot.collision.srdf))) == ("arm",)
    for kind in (FkCollectorSettings, IkViewerSettings):
        loaded = load_robot(kind(robot=workspace.robot, package_paths=paths), "")
        assert loaded.fingerprint == robot.fingerprint
        shapes_to_show(loaded)
