"""The examples in docstrings run, and print what the docstrings show."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "eim_ros").rglob("*.py")
    if "\n>>> " in path.read_text(encoding="utf-8").replace("    ", "")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


TAUGHT = ("eim_ros.kinematics", "eim_ros.motion", "eim_ros.planar")
RESULTS = {  # returned by calls whose examples show them
    "MotionConfig",
    "MotionSamples",
    "MotionScores",
    "MotionTrainingRun",
    "Outcome",
    "Trajectory",
    "TrajectoryError",
    "WeighedConfigurations",
}


@pytest.mark.parametrize("package", TAUGHT)
def test_public_names_have_an_example(package):
    module = importlib.import_module(package)
    taught = {name: getattr(module, name) for name in module.__all__ if callable(getattr(module, name))}
    without = {name for name, value in taught.items() if ">>> " not in (value.__doc__ or "")}
    assert without - RESULTS <= {"Obstacle", "Shape"}  # unions of classes that have examples
