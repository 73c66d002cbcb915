"""`python -m experiments ./mine.py` runs an experiment from a file outside of the package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.table import ResultTable

ROOT = Path(__file__).resolve().parents[2]
MINE = """
from __future__ import annotations

from dataclasses import dataclass

from beside import squared
from eim_ros.core.settings import Settings, option
from experiments.harness import Experiment, Outcome


@dataclass(frozen=True)
class MySettings(Settings):
    sizes: tuple[int, ...] = option((1, 2), "numbers to square", minimum=1)


def cells(settings):
    return [{"estimator": "none", "size": size} for size in settings.sizes]


def measure(settings, cell, seed):
    return Outcome(0.0, {"value": squared(cell["size"]) + seed})


EXPERIMENT = Experiment("mine", "squares", MySettings, cells, measure)
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "beside.py").write_text("def squared(x):\n    return x * x\n")
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def values(folder, column="value"):
    return [row[column] for row in ResultTable.read(folder / "mine" / "table.csv").rows]


def run(path, *words):
    """Run the program in a separate process, because each process reads a file only once."""
    command = [sys.executable, "-m", "experiments", str(path), "--quiet", "--output", str(path.parent / "new"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    return subprocess.run(command, env=environment, cwd=path.parent, capture_output=True, text=True, check=False)


def test_file_runs_with_the_defaults_of_its_settings_and_a_table(mine, tmp_path, capsys):
    assert main([str(mine), "--seeds", "1", "--quiet", "--json", "--output", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert json.loads(printed[-1])["rows"] == 2
    assert any(line.split()[:4] == ["none", "2", "1", "4"] for line in printed)
    assert values(tmp_path / "new") == [1, 4]


def test_two_processes_compute_rows_with_the_settings_of_the_command_line(mine, tmp_path):
    pytest.importorskip("joblib")
    command = [str(mine), "--seeds", "2", "--jobs", "2", "--quiet", "--set", "sizes=3,5"]
    assert main([*command, "--output", str(tmp_path / "new")]) == 0
    assert values(tmp_path / "new") == [9, 10, 25, 26]


def test_preset_next_to_the_file_and_drawing_are_used(mine, tmp_path, capsys):
    mine.with_suffix(".yaml").write_text("seeds: 3\nfull:\n  sizes: [2]\nquick:\n  sizes: [7]\n")
    mine.write_text(f"{MINE}\n\ndef draw(table, folder):\n    return [folder / str(len(table.rows))]\n")
    assert main([str(mine), "--quiet", "--output", str(tmp_path / "full")]) == 0
    assert f"figure: {tmp_path / 'full' / 'mine' / '3'}" in capsys.readouterr().out
    assert values(tmp_path / "full") == [4, 5, 6]
    assert main([str(mine), "--quick", "--quiet", "--output", str(tmp_path / "quick")]) == 0
    assert values(tmp_path / "quick") == [49]


def test_rows_of_other_code_are_not_mixed_with_new_ones(mine):
    for n_seeds in ("1", "2"):
        assert main([str(mine), "--quiet", "--output", str(mine.parent / "new"), "--seeds", n_seeds]) == 0
    mine.write_text(MINE.replace("+ seed", "- seed"))
    changed = run(mine, "--seeds", "2")
    assert changed.returncode == 2
    assert "contains results of another run (code 'sha256:" in changed.stderr
    assert values(mine.parent / "new") == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.py", None, "there is no file"),
        ("mine.py", "EXPERIMENT = 3", "must define EXPERIMENT = Experiment(...) from experiments.harness, got 3"),
        ("mine.py", "x = 3", "must define EXPERIMENT = Experiment(...) from experiments.harness, got None"),
        ("mine", None, "expected NAME or the path of a file *.py"),
    ],
)
def test_file_without_experiment_is_refused_in_one_line(name, text, message, tmp_path, capsys):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_quick_run_without_quick_settings_is_refused(mine, capsys):
    assert main([str(mine), "--quick"]) == 2
    assert "has no key `quick`, so there is no quick run" in capsys.readouterr().err
