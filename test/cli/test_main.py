"""The entry point: help without heavy imports, usage errors in one line, exit codes of what can go wrong."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest
from cli.command import Command, eim_process

import eim_ros
from eim_ros.cli.main import VERBS
from eim_ros.errors import EimError

every_verb = pytest.mark.parametrize("verb", VERBS)


def modules_after(*words: str) -> set[str]:
    """Top-level packages that a process has imported once the command has ended."""
    code = (
        "import sys, json\nfrom eim_ros.cli.main import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    return set(json.loads(result.stderr.splitlines()[-1]))


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("request", "--help")])
def test_help_needs_neither_torch_nor_ros(words: tuple[str, ...]) -> None:
    heavy = {"torch", "rclpy", "matplotlib", "pinocchio", "numpy", "scipy"}
    assert not modules_after(*words) & heavy


def test_model_is_sampled_without_torch() -> None:
    words = ["sample", "--model", "panda_position", "--pose", "0.4", "0", "0.5", "-n", "5"]
    assert not modules_after(*words) & {"torch", "rclpy", "matplotlib"}


def process_without(packages: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """`eim` in a process where these packages cannot be imported, as if they were not installed."""
    code = f"import sys\nsys.modules.update(dict.fromkeys({packages!r}))\nfrom eim_ros.cli.main import main\n"
    code += f"sys.exit(main({list(words)!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


def test_model_is_sampled_where_no_more_is_installed_than_serving_needs() -> None:
    missing = ("torch", "matplotlib", "rosbags", "rclpy", "tqdm")
    words = ["sample", "--model", "panda_position", "--pose", "0.4", "0", "0.5", "-n", "5", "--json"]
    answered = process_without(missing, *words)
    assert (answered.returncode, answered.stderr) == (0, "")
    assert json.loads(answered.stdout)["n"] == 5


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [
        ("torch", "learning", "train --data d.npz --output m"),
        ("rosbags", "bags", "recover bag"),
        ("matplotlib", "viz", "experiment obstacle --output o.png"),
    ],
)
def test_package_that_is_not_installed_is_named_in_one_line(package: str, extra: str, words: str) -> None:
    refused = process_without((package,), *words.split())
    assert refused.returncode == 2
    expected = f"eim {words.split()[0]}: needs {package}, which is not installed; eim_ros[{extra}] brings it\n"
    assert refused.stderr == expected


def test_help_lists_every_verb(eim: Command) -> None:
    outcome = eim("--help")
    assert outcome.code == 0
    assert all(verb in outcome.out for verb in VERBS)


WITHOUT_CHANCE = ("export", "import", "recover", "report")


@every_verb
def test_every_verb_explains_itself(eim: Command, verb: str) -> None:
    outcome = eim(verb, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"usage: eim {verb} ")
    assert "--json" in outcome.out
    assert ("--random-seed" in outcome.out) == (verb not in WITHOUT_CHANCE)


def test_version_is_the_package_s(eim: Command) -> None:
    assert eim("--version").out == f"eim_ros {eim_ros.__version__}\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "VERB"),
        (("dance",), "invalid choice: 'dance'"),
        (("--json",), "VERB"),
        (("collect", "--robot", "planar3"), "--output"),
        (("collect", "--robot", "planar3", "--output", "d.npz", "--fast"), "--fast"),
        (("train",), "--data"),
        (("evaluate", "--model", "m"), "--data"),
        (("sample",), "--pose"),
        (("sample", "--model", "m", "--pose"), "--pose"),
        (("sample", "--model", "m", "--pose", "a", "b", "c"), "--pose"),
        (("request",), "--pose"),
        (("demo", "--seed", "x"), "expected a whole number, got 'x'"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(eim: Command, words: tuple[str, ...], reason: str) -> None:
    eim(*words).refused(reason, "--help")


def test_process_ends_with_the_exit_code() -> None:
    eim_process("collect", "--robot", "nobody", "--output", "d.npz").refused("no shipped robot 'nobody'")


class Verb:
    """Stands in for the module of `eim sample`."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def add_parser(self, subparsers) -> None:
        subparsers.add_parser("sample").set_defaults(run=self.run)

    def run(self, args: object) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (EimError("two\n  lines"), 2, "eim sample: two lines\n"),
        (OSError(28, "No space left on device", "m.safetensors"), 2, "No space left on device: 'm.safetensors'\n"),
        (MemoryError("17 PiB"), 2, "eim sample: not enough memory: 17 PiB\n"),
        (KeyboardInterrupt(), 130, "eim sample: interrupted\n"),
    ],
)
def test_what_goes_wrong_is_told_in_one_line(eim: Command, monkeypatch, error, code: int, line: str) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: Verb(error))
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
    monkeypatch.setattr(importlib, "import_module", lambda name: Verb(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        eim("sample")
