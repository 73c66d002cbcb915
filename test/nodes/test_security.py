"""Remote callers have limits. docs/reference/paths.md lists every path, and config/security/ lists every name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from geometry_msgs.msg import Pose
from kinematics.solids_by_formula import box_mesh, write_stl
from nodes.client_node import ClientNode, request
from nodes.models import save_small_model
from nodes.server_process import PATIENCE, ServerProcess, wait_until
from rclpy.action import ActionClient
from rclpy.action import get_action_client_names_and_types_by_node as called_actions_of
from rclpy.action import get_action_server_names_and_types_by_node as actions_of

from eim_ros.action import Train
from eim_ros.core.data_set import load_data_set
from eim_ros.ik import ErrorCode
from eim_ros.kinematics import share_path
from eim_ros.msg import CollectorStatus
from eim_ros.srv import LoadModel, SaveData, StartRecording

Nodes = dict[str, ServerProcess]
Ask = Callable[[ClientNode, Nodes, str], tuple[bool, str]]

LIMIT = 1_000_000  # max_file_size [byte]
FROM_TOPIC = {"use_robot_description_topic": True, "robot_description_timeout": 80.0}  # the simulator's planar10
PARAMETERS: dict[str, dict[str, Any]] = {
    "planar_simulator": {"publish_clock": True},
    "demonstrator": {"show_at_start": False, "recorder": "demo_recorder"},
    "ik_server": {"model": "none", "joint_states_topic": "joint_states", **FROM_TOPIC},
    "ik_viewer": FROM_TOPIC,
    "fk_collector": {"n_wanted": 1_000_000, **FROM_TOPIC},
    "demo_recorder": {"min_free_space": 0},
    "motion_prior_server": {},
    "trainer": {},
    "training_coordinator": {"autostart": False},  # an active coordinator would use the other nodes
}
WITH_FILES = ("ik_server", "fk_collector", "demo_recorder", "motion_prior_server", "trainer", "training_coordinator")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a data directory with files that must not be opened or replaced, next to files of other users."""
    home = tmp_path_factory.mktemp("home")
    data, outside = home / "data", home / "outside"
    data.mkdir()
    outside.mkdir()
    (data / "folder").mkdir()
    os.mkfifo(data / "pipe")
    with (data / "large").open("wb") as file:
        file.write(b"\xff\xff\xff\xff\0\0\0\0{")  # a safetensors file with a header of 4 GB
        file.truncate(20_000_000_000)  # sparse, and too large for a node's memory
    for place in (data, outside):
        (place / "foreign").write_text("notes of somebody else")
        save_small_model(place / "model.safetensors", "planar10", "position")
        write_stl(place / "cube.stl", *box_mesh((1.0, 1.0, 1.0)))
    for name, target in (("link", "../outside/foreign"), ("out", "../outside"), ("endless", "/dev/zero")):
        (data / name).symlink_to(target)
    return home


@pytest.fixture(scope="module")
def nodes(start_server: Callable[..., ServerProcess], home: Path, client_of_file: ClientNode) -> Nodes:
    """Start all nodes, and let the collector collect pairs from motions of the simulator."""
    files = {"data_directory": home / "data", "max_file_size": LIMIT}
    started = {
        name: start_server(node=name, **parameters, **(files if name in WITH_FILES else {}))
        for name, parameters in PARAMETERS.items()
    }
    for server in started.values():
        server.wait_until_ready()
    collector, wanted = started["fk_collector"], lambda message: message.n_samples > 0
    assert client_of_file.trigger(collector, "/fk_collector/start").success
    client_of_file.next_message(collector, CollectorStatus, "/fk_collector/status", wanted, "a pair")
    return started


def save(client: ClientNode, nodes: Nodes, path: str, overwrite: bool = True) -> tuple[bool, str]:
    answer = client.call(
        nodes["fk_collector"], SaveData, "/fk_collector/save", SaveData.Request(path=path, overwrite=overwrite)
    )
    return answer.success, answer.message


def record(client: ClientNode, nodes: Nodes, path: str) -> tuple[bool, str]:
    answer = client.call(
        nodes["demo_recorder"], StartRecording, "/demo_recorder/start", StartRecording.Request(path=path)
    )
    return answer.success, answer.message


def train(client: ClientNode, nodes: Nodes, **goal: Any) -> tuple[bool, str]:
    nodes["trainer"].wait_until_ready()
    action = ActionClient(client.node, Train, "/trainer/train")
    wait_until(action.server_is_ready, "the action", nodes["trainer"])

    def result_of(future: Any) -> Any:
        client.executor.spin_until_future_complete(future, PATIENCE)
        assert future.done(), nodes["trainer"].log
        return future.result()

    given = {
        "data": "pairs.npz",
        "output": "new.safetensors",
        "algorithm": "em",
        "settings": ["n_components=1"],
        **goal,
    }
    handle = result_of(action.send_goal_async(Train.Goal(seed=0, **given)))
    result = result_of(handle.get_result_async()).result
    action.destroy()
    return result.success, result.message


def load(node: str) -> Ask:
    def ask(client: ClientNode, nodes: Nodes, path: str) -> tuple[bool, str]:
        answer = client.call(nodes[node], LoadModel, f"/{node}/load_model", LoadModel.Request(path=path))
        return answer.success, answer.message

    return ask


def obstacle(client: ClientNode, nodes: Nodes, path: str) -> tuple[bool, str]:
    wanted = request((5.0, 0.0, 0.0), timeout=5.0)
    scene = wanted.constraints.scene
    scene.mesh_files, scene.mesh_file_poses = [path], [Pose()]
    answer = client.sample(nodes["ik_server"], wanted)
    return answer.error_code.val != ErrorCode.INVALID_GOAL_CONSTRAINTS, answer.error_code.message


PATHS: dict[str, tuple[str, Ask]] = {
    "fk_collector ~/save path": ("fk_collector", save),
    "demo_recorder ~/start path": ("demo_recorder", record),
    "ik_server ~/load_model path": ("ik_server", load("ik_server")),
    "ik_server scene.mesh_files": ("ik_server", obstacle),
    "ik_server scene.mesh_files by file://": ("ik_server", lambda c, n, path: obstacle(c, n, f"file://{path}")),
    "motion_prior_server ~/load_model path": ("motion_prior_server", load("motion_prior_server")),
    "trainer ~/train data": ("trainer", lambda c, n, path: train(c, n, data=path)),
    "trainer ~/train robot": ("trainer", lambda c, n, path: train(c, n, robot=path)),
    "trainer ~/train output": ("trainer", lambda c, n, path: train(c, n, output=path, overwrite=True)),
}


def tree(folder: Path) -> dict[Path, tuple[float, ...]]:
    """Return the mode of everything in a folder, and size, time of change and inode of its files."""
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {
        path: (about.st_mode, *(() if path.is_dir() else (about.st_size, about.st_mtime_ns, about.st_ino)))
        for path, about in found.items()
    }


def memory(server: ServerProcess) -> int:
    """Return the peak memory of a process [kB]."""
    lines = Path(f"/proc/{server._process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.fixture(scope="module")
def pairs(nodes: Nodes, client_of_file: ClientNode) -> None:
    """Save a data set under a relative path."""
    assert save(client_of_file, nodes, "pairs.npz", overwrite=False) == (True, "")


@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize("path", PATHS)
def test_path_that_is_no_file_of_the_data_directory_is_refused(
    client: ClientNode, nodes: Nodes, home: Path, path: str
) -> None:
    node, ask = PATHS[path]
    ask(client, nodes, "none/../folder")  # import modules first, so their memory does not count
    before, most = tree(home), memory(nodes[node])
    outside, told = home / "outside", set()
    for name in (
        "../outside/{}",
        "folder/../../outside/{}",
        f"{outside}/{{}}",
        f"{home}/data/../outside/{{}}",
        "out/{}",
        "~/{}",
        "~root/{}",
        "/dev/{}",
    ):
        for last in ("foreign", "model.safetensors", "missing"):
            success, message = ask(client, nodes, name.format(last))
            assert not success
            told.add(message.replace("file:", "").replace("//", "").replace(name.format(last).lstrip("/"), "*"))
    assert len(told) <= 2, told  # messages for absolute and relative paths differ by a slash
    assert all("is refused" in message for message in told)
    for name in ("link", "endless", "pipe", "folder", "large", "foreign", f"{home}/data/pipe", f"{home}/data/large"):
        success, message = ask(client, nodes, name)
        assert not success, name
        assert message
    assert tree(home) == before
    # a node may import libraries for bad files, but reading a complete file would need 20 GB
    assert memory(nodes[node]) < most + 100_000
    assert nodes[node].is_running


def test_files_of_ours_are_replaced_on_request_alone(client: ClientNode, nodes: Nodes, home: Path, pairs: None) -> None:
    data = home / "data"
    first = (data / "pairs.npz").read_bytes()
    success, message = save(client, nodes, "pairs.npz", overwrite=False)
    assert not success
    assert "set overwrite" in message
    assert (data / "pairs.npz").read_bytes() == first
    assert save(client, nodes, str(data / "pairs.npz")) == (True, "")
    assert len(load_data_set(data / "pairs.npz")) > 0
    for output, overwrite, reason in (
        ("pairs.npz", True, "it is a data set"),
        ("model.safetensors", False, "set overwrite"),
        ("model.safetensors", True, ""),
    ):
        before = (data / output).read_bytes()
        success, message = train(client, nodes, output=output, overwrite=overwrite, robot="planar10")
        assert (success, reason in message) == (not reason, True), message
        assert ((data / output).read_bytes() == before) == bool(reason)
    for path in ("model.safetensors", str(data / "model.safetensors")):
        assert load("ik_server")(client, nodes, path) == (True, "")
    success, message = obstacle(client, nodes, "cube.stl")
    assert success
    assert "collide" in message  # with the cube around the base


@pytest.mark.parametrize("node", WITH_FILES)
def test_parameters_that_hold_paths_are_fixed_while_a_node_runs(client: ClientNode, nodes: Nodes, node: str) -> None:
    names = {
        "ik_server": ["model", "robot", "package_paths", "robot_description"],
        "fk_collector": ["output", "robot"],
        "demo_recorder": ["folder"],
        "trainer": ["folder"],
        "motion_prior_server": ["model"],
        "training_coordinator": ["folder", "bag", "robot"],
    }
    wanted: dict[str, Any] = {**dict.fromkeys([*names[node], "data_directory"], "/etc/passwd"), "max_file_size": 2**62}
    refused = client.set_parameters(nodes[node], f"/{node}", **wanted)
    assert set(refused) == set(wanted)
    assert all("read-only" in reason for reason in refused.values()), refused


def allowed(node: str) -> dict[str, dict[str, str]]:
    """Return the types of the names in a policy, by permission and name. A type is in the comment after its name."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.parse(share_path(f"config/security/{node}.policy.xml"), parser).getroot()
    (profile,) = root.findall("enclaves/enclave/profiles/profile")
    assert (profile.get("ns"), profile.get("node")) == ("/", node)
    found: dict[str, dict[str, str]] = {}
    for group in profile:
        ((kind, rule),) = group.attrib.items()
        assert rule == "ALLOW"
        found[kind] = {
            (str(name.text).replace("~", f"/{node}") if name.text[0] in "~/" else f"/{name.text}"): comment.text.strip()
            for name, comment in zip(group[::2], group[1::2], strict=True)
        }
    return found


def used(client: ClientNode, node: str) -> dict[str, dict[str, str]]:
    """Return the types of names that a node uses, by permission and name, from the ROS graph."""
    here = client.node
    lists = {
        "publish": here.get_publisher_names_and_types_by_node(node, "/"),
        "subscribe": here.get_subscriber_names_and_types_by_node(node, "/"),
        "reply": here.get_service_names_and_types_by_node(node, "/"),
        "request": here.get_client_names_and_types_by_node(node, "/"),
        "execute": actions_of(here, node, "/"),
        "call": called_actions_of(here, node, "/"),
    }
    named = {
        kind: {name: types[0] for name, types in found if "/_action/" not in name} for kind, found in lists.items()
    }
    return {kind: found for kind, found in named.items() if found}


@pytest.mark.parametrize("node", PARAMETERS)
def test_policy_allows_the_names_that_a_node_uses_and_no_other(client: ClientNode, nodes: Nodes, node: str) -> None:
    if node == "demo_recorder":
        assert record(client, nodes, "bag")[0]
    wanted = allowed(node)

    def agrees() -> bool:
        client.executor.spin_once(0.1)
        return used(client, node) == wanted

    try:
        wait_until(agrees, "agreement of names", nodes[node], 30.0)
    except AssertionError:
        assert used(client, node) == wanted
    finally:
        if node == "demo_recorder":
            client.trigger(nodes[node], f"/{node}/stop")
