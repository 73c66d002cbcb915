"""Commands that users are likely to guess either run or name the right command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli.command import Command

from eim_ros.cli.main import main

POSE = "--pose 0.4 0.1 0.5 1 0 0 0"
RUN = [
    "",
    "help sample",
    "list models",
    "solve panda 0.4 0.1 0.5 1 0 0 0",
    f"solve ur5 {POSE} --position-only",
    f"solve-all panda {POSE} --guarantee certified",
    f"solve-all panda {POSE} --max-spacing 0.5",
    f"solve-all panda {POSE} --max_spacing 0.5",
    f"sample panda {POSE} --n 3",
    f"sample panda {POSE} -n 3 --diversity 0",
    f"sample panda {POSE} -n 3 --order manipulability",
    f"sample panda {POSE} -n 3 --position_tolerance 0.01",
    f"sample panda {POSE} -n 3 --tool 0 0 0.1",
    f"sample panda {POSE} -n 3 --limits panda_joint1=-1:1",
    f"sample iiwa14 {POSE} -n 3 --branch elbow=up",
    f"draw panda {POSE} -n 3 --density uniform",
    "solve panda --pose '0.4 0.1 0.5 1 0 0 0'",
    "solve panda --pose=-0.4,0.1,0.5,1,0,0,0",
    "solve panda --pose -0.4,0.1,0.5 --rpy '(3.1, 0, 0)'",
    "solve panda [0.4, 0.1, 0.5, 1, 0, 0, 0] --near [0,0,0,-1.5,0,1.5,0]",
    "follow panda path.csv",
    f"picture panda {POSE} -n 3 -o arm.png",
    "collect panda -n 10 -o few.npz",
    "collect panda --n-samples 10 --output few.npz",
    "train d.npz -o m.safetensors --algorithm em --n-components 2 --n-iterations 2 --quiet",
    "evaluate panda_position d.npz",
]
ANSWERED = {
    "panda": "`eim solve panda --pose",
    "ik panda": "`eim solve` finds one solution",
    "fk panda": "Robot(...).fk(q) in Python",
    "robots": "`eim list robots`",
    "solve_all panda": "did you mean solve-all?",
    "path panda": "`eim follow`",
    "plot panda": "`eim picture`",
    "serve panda": "ros2 launch eim_ros ik_server.launch.py",
    "generate": "`eim collect`",
    "fit": "`eim train`",
    "convert bag": "`eim import`",
    "recover bag": "`eim import --repair`",
    "demo-planar": "`eim demo --planar`",
    "certify panda": "`eim solve-all --guarantee certified`",
    "check panda": "`eim doctor`",
    "reachability panda": "`eim map`",
    "frobnicate": "the verbs are solve, sample,",
    "solve panda --xyz 0.4 0.1 0.5": "did you mean --pose?",
    "solve --urdf panda": "did you mean --robot?",
    f"solve panda {POSE} --quat 1 0 0 0": "a quaternion follows the position in --pose",
    f"solve panda {POSE} --all": "`eim solve-all`",
    f"solve panda {POSE} --initial 0": "did you mean --near?",
    f"solve panda {POSE} --tol 1e-3": "as in --position-tolerance",
    f"solve panda {POSE} --tip-link a": "did you mean --tip?",
    f"solve panda {POSE} --avoid-collisions": "did you mean --self-collision?",
    f"solve panda {POSE} --format json": "--json prints",
    f"solve-all panda {POSE} --certified": "--guarantee certified",
    f"sample panda {POSE} --count 3": "did you mean --n?",
    f"sample panda {POSE} --num-samples 3": "did you mean --n?",
    f"sample panda {POSE} --random-seed 3": "did you mean --seed?",
    f"sample panda {POSE} --group panda_arm": "did you mean --tip?",
    f"sample panda {POSE} --ilimit 100": "did you mean --timeout?",
    f"sample panda {POSE} --collision-check": "did you mean --self-collision?",
    f"sample panda {POSE} --output q.csv": "`> FILE` writes it to a file",
    f"sample panda {POSE} --elbow up": "--branch elbow=up",
    f"sample panda {POSE} --frobnicate": "the flags are --robot,",
    f"sample panda_table {POSE}": "give it as --model",
    "follow panda --waypoints path.csv": "did you mean --poses?",
    "map panda --resolution 0.2": "did you mean --spacing?",
    "train d.npz -o m --components 5": "did you mean --experts?",
    "train d.npz -o m --max-iter 5": "did you mean --iterations?",
    "train d.npz -o m --algorithm gmmvi": "docs/how_to/own_data.md",
    "train --dataset.repo_id=lerobot/pusht": "`eim collect` or `eim import`",
    "train d.npz -o m --kl-bound 1": "did you mean --m-step.kl-bound",
    "import bag -o d.npz --fps 30": "did you mean --rate?",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("guesses")
    made.joinpath("path.csv").write_text("0.4 0.1 0.5 1 0 0 0\n0.4 0.12 0.5 1 0 0 0\n", encoding="utf-8")
    assert main(f"collect --robot panda --samples 100 --output {made}/d.npz".split()) == 0
    return made


@pytest.mark.parametrize("words", RUN)
def test_guess_runs(eim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(folder)
    outcome = eim(*shlex.split(words))
    assert (outcome.code, outcome.out != "") == (0, True), outcome.err


@pytest.mark.parametrize("words", ANSWERED)
def test_guess_is_answered_by_the_name_that_works(
    eim: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(folder)
    eim(*shlex.split(words)).refused(ANSWERED[words])


def test_json_has_null_for_no_expert(eim: Command) -> None:
    answer = eim("sample", "panda", *POSE.split(), "-n", 3, "--json").json
    assert answer["expert"] == [None] * 3
    drawn = eim("sample", "--model", "panda_table", *POSE.split(), "-n", 3, "--json").json
    assert all(isinstance(expert, int) and expert < 1000 for expert in drawn["expert"])
