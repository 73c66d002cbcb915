"""`eim collect`, `import`, `export` and `evaluate`: their files, their output, and the input that they reject."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bags.example_bags import Item, data_file, joint_state, label, write_own, write_standard
from cli.command import Command, eim_process
from kinematics.descriptions import ALL_TYPES, random_urdf
from motion.demonstrated import two_ways
from rosbags.rosbag2 import Reader

from eim_ros.cli.main import read_verb
from eim_ros.core.data_set import load_data_set, save_data_set
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.kinematics import Robot

ROBOT = Robot("planar3")
FIGURES = {
    "rmse_position", "median_position", "share_in_limits", "entropy_marginal", "entropy_conditional", "mean_log_prob",
    *(f"quantile_{q}_position" for q in ("05", "25", "75", "95")),
}  # fmt: skip


def is_reached(path: Path, robot: Robot) -> bool:
    """Return whether the contexts of a data set are the positions that its samples reach."""
    data_set = load_data_set(path)
    return np.allclose(data_set.context[:, :3], robot.fk(data_set.sample)[:, :3, 3], rtol=0, atol=1e-12)


def test_collect_writes_pairs_and_tells_them_as_json(eim: Command, tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    outcome = eim("collect", "--robot", "iiwa14", "--samples", 50, "--context", "pose", "--output", path, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    joint_names = list(Robot("iiwa14").joint_names)
    assert outcome.json == {"output": str(path), "n_samples": 50, "context": "pose", "joint_names": joint_names}
    data_set = load_data_set(path)
    assert (data_set.context.shape, data_set.sample.shape) == ((50, 9), (50, 7))


def test_collect_tells_one_line_without_json(eim: Command, tmp_path: Path) -> None:
    outcome = eim("collect", "--robot", "planar3", "--samples", 5, "--output", tmp_path / "d.npz")
    assert outcome.out == f"wrote 5 pairs of planar3 (base_link to tip_link, 3 joints) to {tmp_path / 'd.npz'}\n"
    assert is_reached(tmp_path / "d.npz", ROBOT)


def test_collect_takes_any_urdf_with_base_and_tip(eim: Command, tmp_path: Path) -> None:
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(random_urdf(2, 5))
    words = ("collect", "--robot", urdf, "--samples", 10, "--output", tmp_path / "d.npz")
    assert "--tip selects another link" in eim(*words).err
    outcome = eim(*words, "--base", "l1", "--tip", "l4", "--json")
    robot = Robot(urdf, "l4", base="l1")
    assert outcome.json["joint_names"] == list(robot.joint_names)
    assert is_reached(tmp_path / "d.npz", robot)


def test_collect_in_a_real_process_with_a_file_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ALL_TYPES)
    outcome = eim_process("collect", "--robot", "arm.urdf", "--samples", 3, "--output", "d.npz", folder=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert len(load_data_set(tmp_path / "d.npz")) == 3


def test_evaluate_tells_figures_as_json_and_as_a_table(eim: Command, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "t.npz"
    assert eim("collect", "--robot", "planar3", "--samples", 40, "--seed", 9, "--output", data).code == 0
    outcome = eim("evaluate", "--model", model, "--data", data, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    figures = outcome.json
    assert set(figures) == FIGURES
    assert 0.0 < figures["median_position"] < figures["rmse_position"] < 6.0
    assert all(0.0 <= figures[name] <= 1.0 for name in ("share_in_limits", "entropy_marginal", "entropy_conditional"))
    table = eim("evaluate", "--model", model, "--data", data)
    rows = dict(line.split(maxsplit=1) for line in table.out.splitlines())
    assert set(rows) == FIGURES
    assert rows["rmse_position"].endswith(" m")
    assert rows["mean_log_prob"].endswith(" nat")
    assert rows["share_in_limits"].replace(".", "").isdigit()


HAS_LEROBOT = importlib.util.find_spec("lerobot") is not None


def two_arms_and_gripper(begin: float) -> list[Item]:
    """Return two segments of a cell with two arms and a gripper. The gripper publishes only when it opens or closes."""
    items = [label(begin, "pick")]
    for i in range(120):
        time = begin + 0.01 * i
        items.append(joint_state(time, ["j1", "j2"], [0.01 * i, 1.0 - 0.005 * i], "/arm"))
        items.append(joint_state(time, ["k1"], [-0.02 * i], "/arm_2"))
        if i in (0, 55):
            items.append(joint_state(time, ["gripper"], [0.0 if i else 1.0], "/gripper"))
        if i == 60:
            items.append(label(time, "place"))
    return items


@pytest.mark.skipif(not HAS_LEROBOT, reason="LeRobot is not installed")
@pytest.mark.filterwarnings("ignore")
def test_recording_of_two_arms_and_a_gripper_is_a_data_set_that_lerobot_loads(eim: Command, tmp_path: Path) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    bag, folder = write_own(tmp_path / "bag", two_arms_and_gripper(0.0)), tmp_path / "set"
    joints = ["j1", "j2", "gripper", "k1"]
    words = "import", bag, "--task", "lerobot", "--rate", 20, "--hold", "gripper", "--joints", ",".join(joints)
    answer = eim(*words, "--output", folder, "--json").json
    found = LeRobotDataset("local/motions", root=folder)
    assert (found.num_episodes, found.num_frames, found.fps) == (answer["n_episodes"], answer["n_frames"], 20)
    assert found.features["observation.state"]["names"] == answer["joint_names"] == joints
    assert [found[0]["task"], found[found.num_frames - 1]["task"]] == ["pick", "place"]
    rows = np.array([found[i]["observation.state"].numpy() for i in range(12)])
    steps = 5.0 * np.arange(12)
    expected = np.column_stack([0.01 * steps, 1.0 - 0.005 * steps, steps < 55, -0.02 * steps])
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    np.testing.assert_allclose(found[3]["action"].numpy(), rows[4], atol=1e-6)
    eim(*words, "--output", folder).refused("exists, and data sets are never overwritten: give another folder")


def test_data_set_of_lerobot_with_options_that_it_lacks_is_refused(
    eim: Command, bags: list[Path], tmp_path: Path
) -> None:
    words = "import", *bags, "--task", "lerobot", "--output", tmp_path / "set"
    eim(*words, "--rate", 12.5).refused("--rate: LeRobot needs a whole number of frames per second, got 12.5")
    eim(*words, "--context", "start").refused("--context and --pose-topic do not work with --task lerobot")
    eim("import", *bags, "--output", tmp_path / "d.npz", "--rate", 5).refused("--rate only with --task ik or lerobot")
    if not HAS_LEROBOT:
        eim(*words).refused("LeRobot is not installed", "pip install lerobot")
    assert not (tmp_path / "set").exists()


@pytest.mark.skipif(HAS_LEROBOT, reason="LeRobot is installed")
def test_export_without_lerobot_tells_the_cure(eim: Command, tmp_path: Path) -> None:
    motions = tmp_path / "motions.npz"
    save_data_set(motions, two_ways(3, 0))
    eim("export", motions, "--lerobot", tmp_path / "set").refused("LeRobot is not installed", "pip install lerobot")
    assert not (tmp_path / "set").exists()


def demonstrations(begin: float = 0.0) -> list[Item]:
    """Return two segments of the planar arm, and a segment that is too short."""
    items = []
    for i, n in enumerate((100, 80, 3)):
        start = begin + 2.0 * i
        items.append(label(start, f"way {i}"))
        items += [joint_state(start + 0.01 * k, ROBOT.joint_names, [0.01 * k, 0.1, -0.005 * k]) for k in range(n)]
    return items


@pytest.fixture
def bags(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "demos"
    folder.mkdir()
    return [write_own(folder / "a", demonstrations()), write_standard(folder / "b", demonstrations(10.0))]


def test_motions_of_all_bags_are_written_and_what_was_dropped_is_told(
    eim: Command, bags: list[Path], tmp_path: Path
) -> None:
    outcome = eim("import", *bags, "--output", tmp_path / "d.npz", "--points", 20, "--context", "start")
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        f"wrote 4 motions to {tmp_path / 'd.npz'}\nthe recording has no robot_description with all joints"
        in outcome.out
    )
    assert outcome.out.count("dropped segment 'way 2' of 0.02 s: it has only 3 joint states within 0.020 s") == 2
    data_set = load_data_set(tmp_path / "d.npz")
    assert data_set.sample.shape == (4, 60)
    assert data_set.context.shape == (4, 3)
    assert data_set.description["labels"] == ["way 0", "way 1"] * 2


def test_json_tells_of_each_bag_and_segment(eim: Command, bags: list[Path], tmp_path: Path) -> None:
    outcome = eim("import", *bags, "--robot", "planar3", "--output", tmp_path / "d.npz", "--json")
    answer = outcome.json
    assert answer["n_samples"] == 4
    assert answer["joint_names"] == list(ROBOT.joint_names)
    assert [bag["n_used"] for bag in answer["bags"]] == [2, 2]
    assert [segment["n_used"] for segment in answer["bags"][0]["segments"]] == [1, 1, 0]
    assert "less than 0.1 s" in answer["bags"][0]["segments"][2]["reason"]
    description = load_data_set(tmp_path / "d.npz").description
    assert description["lower"] == pytest.approx(list(ROBOT.lower))
    assert description["robot"]["name"] == "planar3"
    assert description["limits_source"] == answer["limits_source"] == "robot"


def test_pairs_are_a_data_set_that_training_takes(eim: Command, bags: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    outcome = eim(
        "import", *bags, "--task", "ik", "--robot", "planar3", "--context", "pose", "--output", path, "--json"
    )
    assert outcome.json["n_samples"] == 2 * 183
    data_set = load_data_set(path)
    assert robot_of(data_set).fingerprint == ROBOT.fingerprint
    assert context_kind_of(data_set) == "pose"
    assert is_reached(path, ROBOT)


def test_bags_found_by_a_pattern_of_file_names(bags: list[Path], tmp_path: Path) -> None:
    files = sorted((tmp_path / "demos").glob("*/*.mcap"))
    outcome = eim_process("import", *files, "--output", tmp_path / "d.npz")
    assert (outcome.code, outcome.err) == (0, "")
    assert len(load_data_set(tmp_path / "d.npz")) == 4


@pytest.mark.parametrize(("words", "expected"), [((), False), (("--time", "arrival"), True)])
def test_times_are_those_of_headers_unless_arrival_is_asked_for(words: tuple[str, ...], expected: bool) -> None:
    verb: Any = read_verb(["import", "bag", "--output", "d.npz", *words])
    assert verb._selection().cuts.use_arrival is expected


def test_arm_and_gripper_are_merged_from_the_topics_that_are_named(eim: Command, tmp_path: Path) -> None:
    items = []
    for i in range(100):
        for topic, names, values in (
            ("/arm", ["j1", "j2"], [0.01 * i, 1.0]),
            ("/gripper", ["finger"], [0.02 * i]),
            ("/ghost", ["finger"], [9.0]),
        ):
            items.append(joint_state(0.01 * i, names, values, topic))
    bag, path = write_own(tmp_path / "bag", items), tmp_path / "d.npz"
    words = ("import", bag, "--output", path, "--points", 100, "--joints", "finger,j1,j2")
    eim(*words).refused("several topics, /ghost, /gripper: select one of them with --joint-topic")
    outcome = eim(*words, "--joint-topic", "/arm", "--joint-topic", "/gripper")
    assert "finger: interpolated at the times of j1, j2 of /arm" in outcome.out
    motion = load_data_set(path).sample.reshape(100, 3)
    assert np.allclose(motion, [[0.02 * i, 0.01 * i, 1.0] for i in range(100)], rtol=0, atol=1e-9)


def test_repair_makes_a_bag_whole_in_its_place(eim: Command, bags: list[Path]) -> None:
    file = data_file(bags[1])
    file.write_bytes(file.read_bytes()[:-500])
    (bags[1] / "metadata.yaml").unlink()
    outcome = eim("import", "--repair", *bags)
    assert outcome.code == 0
    first, second = outcome.out.splitlines()
    assert first == f"{bags[0]}: is complete"
    assert second.startswith(f"{bags[1]}: recovered 186 messages")
    again = eim("import", *bags, "--repair", "--json").json["bags"]
    assert again == [{"path": str(bag), "done": []} for bag in bags]
    with Reader(bags[1]) as reader:
        assert len(list(reader.messages())) == reader.message_count == 186
