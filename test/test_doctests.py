"""The examples in docstrings run and print the output that the docstrings show."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "eim_ros").rglob("*.py")
    if "\n>>> " in path.read_text(encoding="utf-8").replace("    ", "")
)


OPTIONAL = {  # package that the examples of a module need, and that may not be installed
    "eim_ros.kinematics.mjcf": "mujoco",
    "eim_ros.learning.sklearn": "sklearn",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may write files
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


TAUGHT = (
    "eim_ros",
    "eim_ros.ik",
    "eim_ros.kinematics",
    "eim_ros.learning",
    "eim_ros.learning.discrete",
    "eim_ros.learning.em",
    "eim_ros.learning.eim",
    "eim_ros.learning.gmmvi",
    "eim_ros.learning.models",
    "eim_ros.learning.projections",
    "eim_ros.learning.ratio",
    "eim_ros.motion",
    "eim_ros.planar",
)
RESULTS = {  # shown by the examples of functions that return these classes
    "Capability",
    "CategoricalUpdate",
    "Estimate",
    "GMMVIState",
    "GatingUpdate",
    "GaussianUpdate",
    "LoopResult",
    "MotionConfig",
    "MotionSamples",
    "MotionScores",
    "MotionTrainingRun",
    "Outcome",
    "ShortenedStep",
    "TrainingRun",
    "Trajectory",
    "TrajectoryError",
    "WeighedConfigurations",
    "WeightedSamples",
}
UNIONS = {"Obstacle", "Shape"}  # unions of classes that have examples


def examples_of(text):
    return "".join(example.source for example in doctest.DocTestParser().get_examples(text or ""))


def is_shown(name, value):
    """Return whether a class or function has an example, or is used in an example of its module."""
    module = inspect.getmodule(value)
    texts = [module.__doc__, *(item.__doc__ for item in vars(module).values() if inspect.getmodule(item) is module)]
    return bool(examples_of(value.__doc__) or re.search(rf"\b{name}\b", "".join(map(examples_of, texts))))


@pytest.mark.parametrize("package", TAUGHT)
def test_public_names_have_an_example(package):
    module = importlib.import_module(package)
    taught = {name: getattr(module, name) for name in module.__all__ if callable(getattr(module, name))}
    protocols = {name for name, value in taught.items() if getattr(value, "_is_protocol", False)}
    without = {name for name, value in taught.items() if name not in UNIONS and not is_shown(name, value)}
    assert without - RESULTS - protocols == set()
