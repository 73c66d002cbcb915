"""When answers are held and spaced, with a clock of our own."""

from __future__ import annotations

import pytest

from eim_ros.nodes.common.pacing import Pacing

FEW, QUIET, LONGEST_HOLD, GAP, MANY = 8, 0.03, 0.3, 0.004, 1000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0  # [s]

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pacing(clock: Clock) -> Pacing:
    return Pacing(clock)


def arrive(pacing: Pacing, n: int) -> None:
    for _ in range(n):
        pacing.arrived()


@pytest.mark.parametrize("n_clients", [1, FEW])
def test_few_open_requests_are_never_delayed(pacing: Pacing, n_clients: int) -> None:
    arrive(pacing, n_clients - 1)
    for _ in range(100):
        pacing.arrived()
        assert pacing.delay() == 0.0
        pacing.sent()


def test_burst_is_held_until_it_is_quiet(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, FEW + 1)
    assert pacing.delay() == pytest.approx(QUIET)
    clock.now += 0.5 * QUIET
    pacing.arrived()
    assert pacing.delay() == pytest.approx(QUIET)
    clock.now += 1.01 * QUIET
    assert pacing.delay() == 0.0


def test_burst_is_recognised_when_it_is_answered_as_fast_as_it_is_read(pacing: Pacing, clock: Clock) -> None:
    received = clock.now
    n_answered = 0
    while pacing.delay() == 0.0 and n_answered < 100:
        clock.now += 0.1 * GAP
        pacing.arrived(received)
        if pacing.delay() == 0.0:
            pacing.sent()
            n_answered += 1
    assert n_answered == FEW


def test_hold_ends_with_the_deadline_and_in_any_case(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, FEW + 1)
    assert pacing.delay(deadline=clock.now + 0.1 * QUIET) == pytest.approx(0.1 * QUIET)
    for _ in range(40):
        clock.now += LONGEST_HOLD / 39
        pacing.arrived()
    assert pacing.delay() == 0.0


def test_answers_of_a_burst_are_spaced_to_the_last_one_and_then_no_more(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, 2 * FEW)
    clock.now += 2 * QUIET
    for _ in range(2 * FEW):
        assert pacing.delay() == 0.0
        pacing.sent()
        clock.now += 1e-9
        if pacing._n_open:
            assert pacing.delay() == pytest.approx(GAP)
        clock.now += GAP
    arrive(pacing, FEW)
    assert pacing.delay() == 0.0


def test_clients_that_ask_again_are_neither_held_nor_spaced(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, 2 * FEW)
    clock.now += 2 * QUIET
    pacing.sent()
    for _ in range(100):
        clock.now += 0.1 * GAP
        pacing.arrived()
        assert pacing.delay() == 0.0
        pacing.sent()


def test_a_flood_is_not_delayed(pacing: Pacing) -> None:
    arrive(pacing, MANY + 1)
    assert pacing.delay() == 0.0
