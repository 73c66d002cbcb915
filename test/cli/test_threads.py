"""Threads of the linear algebra: one unless more are asked for."""

from __future__ import annotations

import contextvars

import pytest
import torch

from eim_ros.cli.options import use_threads


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What torch is told."""
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    return told


@pytest.mark.parametrize(("given", "n"), [(None, 1), (3, 3)])
def test_threads_are_set(threads: list[int], monkeypatch: pytest.MonkeyPatch, given: int | None, n: int) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    contextvars.copy_context().run(use_threads, given)
    assert threads == [n]


@pytest.mark.parametrize(("given", "n"), [(None, 5), (3, 3)])
def test_flag_wins_over_the_environment(
    threads: list[int], monkeypatch: pytest.MonkeyPatch, given: int | None, n: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    contextvars.copy_context().run(use_threads, given)
    assert threads == [n]
