"""The examples run with small settings and print the output that their docstrings describe."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
IN_ROS = {"moveit_client.py"}  # run by test/nodes/ik_server/test_documented_clients.py
RUNS = {
    "all_solutions.py": ([], r"100 of 100 distinct solutions.* largest error \S+e-\d+ m"),
    "attached_object.py": (
        [],
        r"hand: 7 of 7 .* hits in [23]\d%(.|\n)*rod: 5 of 7 .* hits in 0%(.|\n)*shelf: all 21 poses are reached,",
    ),
    "base_placement.py": ([], r"\d\d of 208 bases reach all 6 poses(.|\n)*[2-8] or more(.|\n)*error \de-1\d"),
    "branches.py": (
        [],
        r"UR5e: 8 solutions\n(  (left|right) +(up|down) +(no-)?flip +first joint .*\n){8}"
        r"elbow up and no flip: 2 solutions, complete: True\niiwa 14: .*100 % of \d+ solutions of the branch\n"
        r"any path: elbow u+d+\npath of the branch: elbow u{21}\nthe branch 'elbow' is not defined",
    ),
    "continuous_joints.py": (
        [],
        r"nearest: largest motion 0\.1\d* rad, largest angle 3\.2\d* rad(.|\n)*turns by 6\.\d rad, .*0\.0",
    ),
    "goal_set.py": (["--scenes", "3", "--seconds", "10"], r"ten nearest : 100% solved, mean length [23]\.\d\d rad"),
    "mobile_base.py": ([], r"10 joints; 100 of(.|\n)*planned: the base drives 1\.\d m, cost 1\.\d(.|\n)* cost [23]\."),
    "mixture.py": (
        [],
        r"EM one component at \[\[-?0\.\d? +-?0\.\d?\]\](.|\n)*EIM one component at \[\[(-?)2\. +\2?2\.\]\]",
    ),
    "own_experts.py": ([], r"linear experts: -2\.\d nat\nsubspaces: -0\.\d nat"),
    "pick_among_obstacles.py": ([], r"20 of 32 grasps can be reached(.|\n)*farthest from its limits"),
    "path_without_jumps.py": (
        [],
        r"pose by pose: from ([2-9]|1\d) of 20 starts the arm jumps, by up to [1-6]\.(.|\n)*"
        r"follow: all 60 poses are reached, and no joint steps farther than 0\.[0-2](.|\n)*"
        r"no path without jumps exists",
    ),
    "replace_ikfast.py": (
        [],
        r"UR5e: 7\.\d\d solutions.* none for 0 of(.|\n)*calibrated UR5e: [67]\.(.|\n)*complete: 100%",
    ),
    "short_arms.py": (
        [],
        r"above:\n  complete pose: 1 sol(.|\n)*front:\n  complete pose: 0 solutions, complete: True\n"
        r"  free turn: 1 (.|\n)*0\.0000 m and 0\.17 rad",
    ),
    "tool_calibration.py": (
        [],
        r"error: 0\.[12]\d* rad without a tool, 0\.000\d+ rad with it\n"
        r"offset found \[mm\]: \[ ?1[12]\.\d+ +-[67]\.\d+ +14[45]\.",
    ),
    "two_arms.py": ([], r"2[34]\d\d of 2500 pairs keep clear(.|\n)*any tray: 100 of 100 (.|\n)*largest error [1-9]e-"),
}


@pytest.mark.parametrize("name", RUNS)
def test_example_shows_what_it_is_for(name, tmp_path, monkeypatch, capsys):
    arguments, expected = RUNS[name]
    if name == "goal_set.py":
        pytest.importorskip("ompl", reason="`make setup` brings it, colcon does not")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert re.search(expected, capsys.readouterr().out)


def test_cells_of_the_notebook_run_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((EXAMPLES / "all_solutions.ipynb").read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "all_solutions.ipynb", "exec"), namespace)
    assert "(100, 7)" in capsys.readouterr().out
    assert (tmp_path / "solutions.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_every_example_is_run():
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(RUNS) | IN_ROS
