"""`eim completion`: shells complete verbs, flags and values by a script made of the parsers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli.command import Command

from eim_ros.cli.main import VERBS
from eim_ros.kinematics import SHIPPED_ROBOTS

CASES = [
    ("eim sam", "sample"),
    ("eim sample --rob", "--robot"),
    ("eim sample --robot pan", "panda"),
    ("eim motion sa", "sample"),
    ("eim motion sample --v", "--via"),
    ("eim train --algorithm k", "known-density"),
]
ASK = {
    "bash": 'COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=(); _eim; echo "${COMPREPLY[*]}"',
    "fish": "complete -C '%s' | string split -f 1 \\t",
}


@pytest.fixture(scope="module", params=["bash", "fish"])
def shell_and_script(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    path = tmp_path_factory.mktemp("completion") / f"eim.{shell}"
    with path.open("w", encoding="utf-8") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        from eim_ros.cli.main import main

        assert main(["completion", shell]) == 0
    return shell, path


def test_shell_completes_what_is_typed(shell_and_script: tuple[str, Path]) -> None:
    shell, path = shell_and_script
    asked = "\n".join(ASK[shell] % words for words, _ in CASES)
    result = subprocess.run(
        [shell, "-c", f"source {path}\n{asked}"], capture_output=True, text=True, timeout=60.0, check=True
    )
    assert result.stdout.split() == [expected for _, expected in CASES]
    assert result.stderr == ""


def test_every_verb_and_robot_is_completed(eim: Command) -> None:
    script = eim("completion", "zsh").out
    assert "compdef _eim eim" in script
    assert all(verb in script for verb in VERBS)
    assert " ".join(SHIPPED_ROBOTS) in script
    assert "--least-weight" in script  # an expert setting of eim train
