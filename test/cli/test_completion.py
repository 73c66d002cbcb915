"""`eim completion`: shells complete verbs, flags and choices."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli.command import Command, eim_process

from eim_ros.cli.main import VERBS

CASES = [
    ("eim solve-a", "solve-all"),
    ("eim sample --rob", "--robot"),
    ("eim motion sa", "sample"),
    ("eim motion sample --v", "--via"),
    ("eim train --algorithm k", "known-density"),
    ("eim list mo", "models"),
]
ASK = {
    "bash": 'COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=(); _eim; echo "${COMPREPLY[*]}"',
    "fish": "complete -C '%s' | string split -f 1 \\t",
}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_shell_completes_what_is_typed(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    path = tmp_path / f"eim.{shell}"
    path.write_text(eim_process("completion", shell).out, encoding="utf-8")
    asked = "\n".join(ASK[shell] % words for words, _ in CASES)
    result = subprocess.run(
        [shell, "-c", f"source {path}\n{asked}"], capture_output=True, text=True, timeout=60.0, check=True
    )
    assert result.stdout.split() == [expected for _, expected in CASES]
    assert result.stderr == ""


def test_every_verb_is_completed(eim: Command) -> None:
    script = eim("completion", "zsh").out
    assert all(verb in script for verb in VERBS if verb != "completion")
