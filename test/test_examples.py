"""The examples run and find what their heads say, in small."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MOST_LINES = 100
IN_ROS = {"moveit_client.py"}  # test/nodes/ik_server/test_moveit_client.py
RUNS = {
    "all_solutions.py": ([], r"100 of 100 distinct solutions.* largest error \S+e-\d+ m"),
    "branches.py": (
        [],
        r"UR5e: 8 solutions\n(  (left|right) +(up|down) +(no-)?flip +first joint .*\n){8}"
        r"elbow up and no flip: 2 solutions, complete: True\niiwa 14: .*100 % of \d+ solutions of the branch\n"
        r"any path: elbow u+d+\npath of the branch: elbow u{21}\nthe branch 'elbow' is not defined",
    ),
    "elbow_up.py": (
        ["--motions", "100", "--output", "elbow.png"],
        r"demonstrated: elbow up in [78]\d % of 1000\n"
        r"drawn exactly from the model: elbow up in [678]\d % of 3000\n(.|\n)*"
        r"uniform: elbow up in [34]\d % of 3000",
    ),
    "goal_set.py": (["--scenes", "3", "--seconds", "10"], r"ten nearest : 100% solved, mean length [23]\.\d\d rad"),
    "mixture.py": (
        [],
        r"EM one component at \[\[-?0\.\d? +-?0\.\d?\]\](.|\n)*EIM one component at \[\[(-?)2\. +\2?2\.\]\]",
    ),
    "pick_among_obstacles.py": ([], r"20 of 32 grasps can be reached(.|\n)*farthest from its limits"),
    "path_without_jumps.py": (
        [],
        r"pose by pose: from [2-9] of 10 starts the arm jumps, by up to [1-6]\.(.|\n)*"
        r"follow: 60 poses, no joint steps farther than 0\.[0-2](.|\n)*"
        r"none can be without",
    ),
    "record_learn_reproduce.py": (
        ["--demonstrations", "30", "--iterations", "5"],
        r"imported 30 motions\nEM: [2-7]\d of 100 new motions pass in front, the others behind; the nearest by 0\.1"
        r".*; they end 0\.0.*\nEIM: \d+ of 100 .* nearest by 0\.1",
    ),
    "two_arms.py": ([], r"9\d\d\d of 10000 pairs keep clear of each other\npanda .*\niiwa14 "),
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


def test_every_example_is_short_is_run_and_is_in_the_list():
    files = sorted(EXAMPLES.glob("*.py"))
    assert {file.name for file in files} == set(RUNS) | IN_ROS
    assert max(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= MOST_LINES
    listed = re.findall(r"\]\((\w+\.(?:py|ipynb))\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(file.name for file in EXAMPLES.iterdir() if file.suffix in (".py", ".ipynb"))
