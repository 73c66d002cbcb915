"""A mistake on the command line leads to one line with cause and remedy, and to the exit code for its kind."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from bags.example_bags import ITEMS_OF_A_ROBOT, write_own
from cli.command import Command
from motion.demonstrated import two_ways

from eim_ros.cli.main import VERBS, main
from eim_ros.core.data_set import save_data_set
from eim_ros.ik.prior import model_path
from eim_ros.kinematics import robot_path

LINES = (Path(__file__).with_name("mistakes.txt")).read_text(encoding="utf-8").splitlines()
MISTAKES = [tuple(line.split(" | ")) for line in LINES if not line.startswith("#")]
FILES = {
    "empty.urdf": "",
    "text.urdf": "hello",
    "binary.urdf": "".join(map(chr, range(1, 128))),
    "nojoint.urdf": '<robot name="n"><link name="a"/></robot>',
    "list.yaml": "- 3\n",
    "model": "text",
    "model.checkpoint": "text",
    "typo.yaml": "n_component: 3\n",
    "table.csv": "a,b\n1,2\n",
    "motions.csv": "time,j1,j2,label\n" + "".join(f"{0.02 * i},{0.01 * i},{0.02 * i},{i // 30}\n" for i in range(600)),
    "arm.csv": f"time,{','.join(f'panda_joint{i}' for i in range(1, 8))}\n0{',9' * 7}\n0.1{',9' * 7}\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the files that the wrong commands name."""
    made = tmp_path_factory.mktemp("mistakes")
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf-8")
    shutil.copy(robot_path("panda"), made / "arm.urdf")
    write_own(made / "bag", ITEMS_OF_A_ROBOT)
    save_data_set(made / "motions.npz", two_ways(60, 0))
    (made / "folder.png").mkdir()
    (made / "shipped.safetensors").symlink_to(model_path("panda_pose"))
    (made / "shipped.urdf").symlink_to(robot_path("planar3"))
    for line in (
        f"collect --robot panda --samples 100 --context position --output {made}/data.npz",
        f"collect --robot panda --samples 100 --context pose --output {made}/other.npz",
        f"train --task motion --data {made}/motions.npz --algorithm em --experts 2 --set n_starts=1 --quiet"
        f" --output {made}/prior.safetensors",
    ):
        assert main(line.split()) == 0
    return made


def files() -> dict[Path, bytes]:
    """Return all files but those of the demo, because it collects samples before it rejects a wrong learner."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.parts[0] != "demo"}


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_every_mistake_is_answered_with_cause_and_cure_and_changes_no_file(
    eim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(folder)
    wrong, before = [], files()
    for words, code, reason in MISTAKES:
        if (words.split()[0] if words.split()[0] in VERBS else "") != verb:
            continue
        outcome = eim(*shlex.split(words))
        is_one_line = outcome.err.count("\n") == 1 and "Traceback" not in outcome.err
        if not is_one_line or outcome.code != int(code) or reason not in outcome.err:
            wrong.append(f"eim {words}: [{outcome.code}] {outcome.err}")
    assert not wrong, "\n".join(wrong)
    assert files() == before


def test_there_are_two_hundred_of_them() -> None:
    assert len({words for words, _, _ in MISTAKES}) >= 200
