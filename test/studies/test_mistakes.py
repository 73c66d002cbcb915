"""For a mistake on the command line, the experiments print one line with cause and remedy."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli.command import Command

LINES = (Path(__file__).with_name("mistakes.txt")).read_text(encoding="utf-8").splitlines()
MISTAKES = [tuple(line.split(" | ")) for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize(("words", "code", "reason"), [("", "2", "expected NAME"), *MISTAKES])
def test_mistake_is_answered_with_cause_and_remedy(
    experiments: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = experiments(*shlex.split(words))
    assert (outcome.code, outcome.err.count("\n")) == (int(code), 1)
    assert "Traceback" not in outcome.err
    assert reason in outcome.err
