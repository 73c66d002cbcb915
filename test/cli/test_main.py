"""The entry point: help without slow imports, usage errors in one line, and exit codes of failures."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from cli.command import Command, Outcome, eim_process, process_without, validity

import eim_ros
from eim_ros.cli.main import EXPLAINED, GROUPS, VERBS, ExitCode
from eim_ros.core.errors import (
    ConstraintError,
    DataError,
    EimError,
    ModelFileError,
    PoseError,
    RobotError,
    ServiceError,
)
from eim_ros.kinematics import Robot

every_verb = pytest.mark.parametrize("verb", VERBS)


@pytest.mark.parametrize(
    ("lines", "heavy"),
    [
        (["--help", "--version", "help"], {"torch", "rclpy", "matplotlib", "pinocchio", "numpy", "scipy"}),
        (
            ["train --datta d.npz", "train --data d.npz --output m --threads 0", "motion sample", "demo --experts x"],
            {"torch", "rclpy"},
        ),
    ],
)
def test_help_and_flags_are_read_before_heavy_imports(lines: list[str], heavy: set[str]) -> None:
    code = (
        f"import sys\nfrom eim_ros.cli.main import main\nfor line in {lines!r}:\n"
        "    try:\n        main(line.split())\n    except SystemExit:\n        pass\n"
        f"print(sorted({heavy!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    assert process_without((), code).out.splitlines()[-1] == "[]"


def eim_without(packages: tuple[str, ...], line: str) -> Outcome:
    code = f"import sys\nfrom eim_ros.cli.main import main\nsys.exit(main({line.split()!r}))"
    return process_without(packages, code)


@pytest.mark.parametrize("source", ["--model panda_position", "--robot panda"])
def test_samples_where_no_more_is_installed_than_serving_needs(source: str) -> None:
    missing = ("torch", "matplotlib", "rosbags", "rclpy", "rich")
    answered = eim_without(missing, f"sample {source} --pose 0.4 0 0.5 -n 5 --json")
    assert (answered.code, answered.err) == (0, "")
    assert validity(answered.json) == [True] * 5


@pytest.mark.parametrize(
    ("package", "extra", "line"),
    [
        ("torch", "learning", "train --data d.npz --output m"),
        ("rosbags", "bags", "import --repair bag"),
        ("mcap", "bags", "import --repair bag"),
        ("matplotlib", "viz", "picture --robot panda --pose 0.4 0 0.5 --output o.png"),
        ("viser", "view", "view --robot planar3 --no-browser"),
    ],
)
def test_package_that_is_not_installed_is_named_in_one_line(package: str, extra: str, line: str) -> None:
    refused = eim_without((package,), line)
    assert refused.code == ExitCode.NOT_INSTALLED
    remedy = f"run pip install '.[{extra}]' in the clone of eim_ros"
    assert refused.err == f"eim {line.split()[0]}: {package} is not installed: {remedy}\n"


WITHOUT_CHANCE = ("completion", "doctor", "export", "import", "list", "motion")


@every_verb
def test_every_verb_explains_itself(eim: Command, verb: str) -> None:
    outcome = eim(verb, "--help-all")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"usage: eim {verb} ")
    assert ("--json" in outcome.out) == (verb not in ("completion", "motion"))
    assert ("--seed" in outcome.out) == (verb not in WITHOUT_CHANCE)


def test_without_a_verb_the_verbs_are_listed(eim: Command) -> None:
    alone = eim()
    assert (alone.code, alone.err) == (0, "")
    assert alone.out == eim("--help").out
    listed = [line.split()[0] for line in alone.out.splitlines() if line.startswith("  ")]
    everything = [line.split()[0] for line in eim("--help-all").out.splitlines() if line.startswith("  ")]
    assert listed == [verb for group in GROUPS.values() for verb in group]
    assert everything[: len(VERBS)] == list(VERBS)
    assert all(f"\n{title}:\n" in alone.out for title in GROUPS)


def test_process_ends_with_the_exit_code() -> None:
    eim_process("collect", "--robot", "nobody", "--output", "d.npz").refused("no included robot 'nobody'")


def module_that_raises(error: BaseException) -> SimpleNamespace:
    """Return a module of the verb `sample` that fails."""

    @dataclass
    class Sample:
        def run(self) -> int:
            raise error

    return SimpleNamespace(Sample=Sample)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (EimError("two\n  lines"), 2, "eim sample: two lines\n"),
        (PoseError("no pose"), 2, "eim sample: no pose\n"),
        (ConstraintError("no joint"), 2, "eim sample: no joint\n"),
        (RobotError("no robot"), 3, "eim sample: no robot\n"),
        (ModelFileError("no model"), 3, "eim sample: no model\n"),
        (DataError("no data"), 3, "eim sample: no data\n"),
        (PermissionError(13, "Permission denied", "m"), 3, "Permission denied: 'm'\n"),
        (ServiceError("no answer"), 4, "eim sample: no answer\n"),
        (OSError(28, "No space left on device", "m.safetensors"), 6, "No space left on device: 'm.safetensors'\n"),
        (MemoryError("17 PiB"), 6, "eim sample: there is not enough memory: 17 PiB\n"),
        (KeyboardInterrupt(), 130, "eim sample: interrupted\n"),
    ],
)
def test_what_goes_wrong_is_told_in_one_line(eim: Command, monkeypatch, error, code: int, line: str) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: module_that_raises(error))
    outcome = eim("sample")
    assert outcome.code == code
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith(line)


def test_ctrl_c_while_modules_are_imported_is_no_traceback(eim: Command, monkeypatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupted)
    outcome = eim("train")
    assert (outcome.code, outcome.err) == (130, "eim train: interrupted\n")


def test_error_of_our_own_is_not_hidden(eim: Command, monkeypatch) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: module_that_raises(ZeroDivisionError()))
    outcome = eim("sample")
    assert outcome.code == ExitCode.OWN_ERROR
    assert outcome.err.endswith(
        "ZeroDivisionError\neim: this is a bug in eim_ros; please report it with the traceback above\n"
    )


def test_python_runs_the_package_as_the_command() -> None:
    result = subprocess.run([sys.executable, "-m", "eim_ros", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"eim_ros {eim_ros.__version__}\n"


def test_reader_that_leaves_ends_the_command_quietly() -> None:
    words = "sample --robot planar3 --pose 1 1 0 -n 100000 --timeout 0.3 --json"  # output larger than a pipe's buffer
    process = subprocess.Popen(
        [sys.executable, "-m", "eim_ros", *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(10)
    process.stdout.close()
    assert "Error" not in process.stderr.read()
    process.stderr.close()
    assert process.wait(60.0) == ExitCode.CLOSED_PIPE


def test_help_tells_every_exit_code(eim: Command) -> None:
    text = " ".join(eim("--help-all").out.split())
    assert all(f"{code:d} {EXPLAINED[code]}" in text for code in ExitCode)


@pytest.mark.parametrize("of_tomorrow", ["robot.chain.of_tomorrow", "type(robot.chain).of_tomorrow"])
def test_a_part_that_a_compiled_module_lacks_is_told_with_the_cure(
    of_tomorrow: str, eim: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is missing if the Python code is newer than the compiled module."""
    robot = Robot("planar3")
    monkeypatch.setattr("eim_ros.cli.map.List.run", lambda args: eval(of_tomorrow, {"robot": robot}))
    outcome = eim("list")
    assert (outcome.code, outcome.err.count("\n")) == (ExitCode.NOT_INSTALLED, 1)
    assert "is older than the Python code that uses it" in outcome.err
    assert "of_tomorrow" in outcome.err and "`make setup`" in outcome.err


def test_an_attribute_that_python_lacks_is_an_error_of_its_own(eim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eim_ros.cli.map.List.run", lambda args: getattr(args, "of_tomorrow"))  # noqa: B009
    outcome = eim("list")
    assert outcome.code == ExitCode.OWN_ERROR
    assert "Traceback" in outcome.err
