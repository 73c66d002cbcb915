"""Tests of torch's threads, of the cores of a container, of progress reports, and of seeds for compiled code."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from eim_ros.cli.options import use_threads
from eim_ros.core import parallel
from eim_ros.core.parallel import (
    SharedProgress,
    concurrent_threads,
    default_threads,
    generator,
    in_threads,
    listening,
    seed_fraction,
    tell,
    torch_threads,
    usable_cores,
)
from eim_ros.learning import EIMConfig, EMConfig, RunOptions
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM, TruncatedEM, TruncatedEMConfig

BEFORE = 3


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let torch use three threads without a number of threads in the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    number = torch.get_num_threads()
    torch.set_num_threads(BEFORE)
    token = parallel._chosen.set(None)  # an earlier command in this process may have chosen a number
    yield
    parallel._chosen.reset(token)
    torch.set_num_threads(number)


def test_block_has_one_and_gives_back_the_others() -> None:
    with torch_threads():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == BEFORE


def test_enclosing_block_decides_unless_the_inner_one_says_otherwise() -> None:
    with torch_threads(2):
        with torch_threads():
            assert torch.get_num_threads() == 2
        with torch_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    with torch_threads():
        assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("text", "n"), [("2", 2), (" 2 ", 2), ("2,1", 2), ("0", 1), ("", 1), ("many", 1), ("-2", 1), ("2.5", 1)]
)
def test_environment_is_respected(monkeypatch: pytest.MonkeyPatch, text: str, n: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert default_threads() == n
    with torch_threads():
        assert torch.get_num_threads() == n


@pytest.mark.parametrize(("environment", "given", "n"), [(None, None, 1), (None, 3, 3), ("5", None, 5), ("5", 3, 3)])
def test_flag_of_a_command_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: str | None, given: int | None, n: int
) -> None:
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)

    def chosen() -> list[int]:
        use_threads(given)
        at_once = torch.get_num_threads()
        with torch_threads():
            return [at_once, torch.get_num_threads()]

    assert contextvars.copy_context().run(chosen) == [n, n]


DATA = torch.randn(40, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def normal(x: torch.Tensor) -> torch.Tensor:
    return -0.5 * x.square().sum(-1)


SETTINGS = {"n_components": 2, "n_iterations": 2}
FITS: dict[str, Callable[..., object]] = {
    "em": lambda **options: EM(EMConfig.from_mapping(SETTINGS)).fit(DATA, **options),
    "truncated-em": lambda **options: TruncatedEM(TruncatedEMConfig(**SETTINGS)).fit(DATA, **options),
    "eim": lambda **options: EIM(
        EIMConfig.from_mapping({"ratio.initial_epochs": 1, "ratio.n_epochs": 1, **SETTINGS})
    ).fit(DATA, **options),
    "known-density": lambda **options: EIM(EIMConfig.known_density(**SETTINGS), target=normal).fit(DATA, **options),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


@every_fit
@pytest.mark.parametrize("n", [None, 2])
def test_fit_has_one_thread_or_as_many_as_asked_for(fit: Callable[..., object], n: int | None) -> None:
    seen: list[int] = []
    with torch_threads(n) if n else contextlib.nullcontext():
        torch.set_num_threads(BEFORE)
        fit(run=RunOptions(callbacks=[lambda state, record: seen.append(torch.get_num_threads())]))
        assert torch.get_num_threads() == BEFORE
    assert set(seen) == {n or 1}


@every_fit
def test_fit_that_fails_gives_the_threads_back(fit: Callable[..., object]) -> None:
    def fails(state: object, record: dict[str, float]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(run=RunOptions(callbacks=[fails]))
    assert torch.get_num_threads() == BEFORE


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000", None),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("100000", None),
        ("many cores", None),
        ("", None),
    ],
)
def test_quota_of_a_container_limits_the_cores(tmp_path: Path, content: str, expected: int | None) -> None:
    quota = tmp_path / "cpu.max"
    without = usable_cores(quota)  # the file does not exist yet
    quota.write_text(content)
    assert usable_cores(quota) == (without if expected is None else min(expected, without))


def test_caller_or_environment_limits_concurrent_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert concurrent_threads() == usable_cores()
    with torch_threads():  # like a fit without a given number of threads
        assert concurrent_threads() == usable_cores()
    with torch_threads(2):
        assert concurrent_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert concurrent_threads() == 5


@pytest.mark.parametrize("n", [1, 3])
def test_results_of_threads_come_in_order(n: int) -> None:
    later = threading.Event()

    def work(task: int) -> tuple[int, int]:
        if n > 1 and task == 0:
            assert later.wait(60.0)  # the first task ends after a later task
        if task == 2:
            later.set()
        return task, torch.get_num_threads()

    with torch_threads(n), in_threads(work, range(6)) as results:
        assert list(results) == [(task, 1) for task in range(6)]


@pytest.mark.parametrize("n", [1, 2])
def test_tasks_that_nobody_waits_for_are_dropped(n: int) -> None:
    begun, progress = set(), SharedProgress("work", [1.0] * 9)

    def work(task: int) -> int:
        begun.add(task)
        report = progress.part(task)
        while task > 0:  # ends only when `report` raises an exception
            report(0.5)
        return task

    with torch_threads(n), in_threads(work, range(9)) as results:
        assert next(results) == 0
    assert begun <= set(range(n + 1))


def test_error_in_a_thread_reaches_the_caller() -> None:
    def work(task: int) -> int:
        return 1 // task

    with torch_threads(2), pytest.raises(ZeroDivisionError), in_threads(work, [1, 0, 1]) as results:
        list(results)


def test_progress_of_concurrent_parts_is_told_as_a_sum() -> None:
    told: list[tuple[str, float, float]] = []
    progress = SharedProgress("work", [1.0, 3.0])
    with listening(lambda *progress: told.append(progress)):
        progress.part(1)(0.5)
        progress.part(0)(1.0)
        progress.part(1)(1.0)
    assert told == [("work", 1.5, 4.0), ("work", 2.5, 4.0), ("work", 4.0, 4.0)]


def test_only_who_listens_hears() -> None:
    heard: list[tuple[str, float, float]] = []
    tell("before", 1.0, 2.0)
    with listening(lambda *told: heard.append(told)):
        tell("start", 1.0, 2.0)
    tell("after", 1.0, 2.0)
    assert heard == [("start", 1.0, 2.0)]


@pytest.mark.parametrize("seed", [0, 1, 255, 256, 2**64, 10**60])
def test_a_seed_gives_the_same_number_and_another_one_another(seed: int) -> None:
    assert seed_fraction(seed) == seed_fraction(seed)
    assert seed_fraction(seed) != seed_fraction(seed + 1)


def test_without_a_seed_numbers_are_fresh() -> None:
    assert seed_fraction(None) != seed_fraction(None)


def test_numbers_of_successive_seeds_are_uniform_and_unrelated() -> None:
    numbers = np.array([seed_fraction(seed) for seed in range(4000)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.06


def test_generator_of_a_seed_repeats_and_a_fresh_one_does_not() -> None:
    assert generator(3).random() == np.random.default_rng(3).random()
    assert generator(None) is generator(None)
    assert generator(None).random() != generator(None).random()
