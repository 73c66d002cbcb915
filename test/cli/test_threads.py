"""Threads of the linear algebra: one unless more are asked for."""

from __future__ import annotations

import argparse
import contextvars

import pytest
import torch

from eim_ros.cli.options import add_threads_flag, use_threads
from eim_ros.core.errors import ConfigurationError


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What torch is told."""
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    return told


@pytest.mark.parametrize(("words", "n"), [([], 1), (["--threads", "3"], 3)])
def test_threads_are_set(threads: list[int], monkeypatch: pytest.MonkeyPatch, words: list[str], n: int) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    use(*words)
    assert threads == [n]


@pytest.mark.parametrize(("words", "n"), [([], 5), (["--threads", "3"], 3)])
def test_flag_wins_over_the_environment(
    threads: list[int], monkeypatch: pytest.MonkeyPatch, words: list[str], n: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    use(*words)
    assert threads == [n]


def use(*words: str) -> None:
    """Apply the flag, for nothing but this call."""
    parser = argparse.ArgumentParser()
    add_threads_flag(parser)
    contextvars.copy_context().run(use_threads, parser.parse_args(list(words)))


@pytest.mark.parametrize("n", [0, -1])
def test_no_threads_are_refused(threads: list[int], n: int) -> None:
    with pytest.raises(ConfigurationError, match=f"--threads must be at least 1, got {n}"):
        use_threads(argparse.Namespace(threads=n))
    assert threads == []
