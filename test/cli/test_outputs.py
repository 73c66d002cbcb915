"""No command overwrites what it reads, and none works for a result that it cannot write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bags.example_bags import ITEMS_OF_A_ROBOT, data_file, write_own
from cli.command import Command

from eim_ros.ik.prior import model_path
from eim_ros.kinematics import robot_path

NO_FILES = Path("/proc/here")


@pytest.fixture
def files(tmp_path: Path, data: Path, model: Path) -> dict[str, Path]:
    """Copies that a command may spoil."""
    places = {
        "data": tmp_path / "data.npz",
        "model": tmp_path / "model.safetensors",
        "robot": tmp_path / "arm.urdf",
        "config": tmp_path / "settings.yaml",
        "bag": data_file(write_own(tmp_path / "bag", ITEMS_OF_A_ROBOT)),
    }
    for name, source in (("data", data), ("model", model), ("robot", robot_path("planar3"))):
        shutil.copy(source, places[name])
    places["config"].write_text("n_components: 2\n")
    return places


WORDS = {
    "train": (
        "train",
        "--robot",
        "{robot}",
        "--data",
        "{data}",
        "--set",
        "run.initial={model}",
        "--config",
        "{config}",
    ),
    "collect": ("collect", "--robot", "{robot}"),
    "import": ("import", "{bag}", "--robot", "{robot}"),
    "import folder": ("import", "{folder}"),
    "motion": ("motion", "sample", "--model", "{model}"),
}
READ = [
    *(("train", name) for name in ("robot", "data", "model", "config")),
    ("collect", "robot"),
    *(("import", name) for name in ("bag", "robot")),
    ("import folder", "bag"),
    ("motion", "model"),
]


@pytest.mark.parametrize(("command", "name"), READ)
def test_output_that_is_an_input_is_refused_and_left_as_it_was(
    eim: Command, files: dict[str, Path], command: str, name: str
) -> None:
    before = files[name].read_bytes()
    given = {**files, "folder": files["bag"].parent}
    words = [word.format(**given) for word in WORDS[command]]
    eim(*words, "--output", files[name]).refused("--output", "would overwrite what", "reads: give another file")
    assert files[name].read_bytes() == before


def test_checkpoint_that_is_an_input_is_refused(eim: Command, tmp_path: Path, data: Path) -> None:
    source = tmp_path / "model.checkpoint"
    shutil.copy(data, source)
    words = ("train", "--data", source, "--output", tmp_path / "model")
    eim(*words).refused("the checkpoint", "would overwrite what --data")


def test_shipped_files_are_inputs_by_their_names(eim: Command, data: Path) -> None:
    shipped = model_path("panda_pose"), robot_path("planar3")
    before = [path.read_bytes() for path in shipped]
    words = ("train", "--data", data, "--set", "run.initial=panda_pose", "--output", shipped[0])
    eim(*words).refused("would overwrite what run.initial")
    eim("collect", "--robot", "planar3", "--output", shipped[1]).refused("would overwrite what --robot")
    assert [path.read_bytes() for path in shipped] == before


@pytest.mark.skipif(not NO_FILES.parent.exists(), reason="a folder in which not even root may make files")
@pytest.mark.parametrize("command", ["train", "collect", "import"])
def test_place_that_cannot_be_written_is_told_before_anything_is_read(
    eim: Command, files: dict[str, Path], command: str
) -> None:
    for path in files.values():
        path.write_text("what cannot be read")
    words = [word.format(**files) for word in WORDS[command]]
    eim(*words, "--output", NO_FILES).refused("cannot write --output /proc/here: no file can be made in /proc")
