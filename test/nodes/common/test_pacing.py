"""When answers are held and spaced, with a clock of our own."""

from __future__ import annotations

import pytest

from eim_ros.nodes.common.pacing import Pacing
from eim_ros.nodes.common.unread_answers import FIRST_TIME, LEAST_TIME, MOST_AFTER

FEW, QUIET, LONGEST_HOLD, MANY = 8, 0.03, 0.3, 1000


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
    """The first request of n clients."""
    for _ in range(n):
        pacing.arrived(1)


@pytest.mark.parametrize("n_clients", [1, FEW])
def test_few_open_requests_are_never_delayed(pacing: Pacing, clock: Clock, n_clients: int) -> None:
    arrive(pacing, n_clients - 1)
    for number in range(1, 101):
        pacing.arrived(number)
        assert pacing.delay() == 0.0
        pacing.sent(number)
        clock.now += 1e-4


def test_burst_is_held_until_it_is_quiet(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, FEW + 1)
    assert pacing.delay() == pytest.approx(QUIET)
    clock.now += 0.5 * QUIET
    pacing.arrived(1)
    assert pacing.delay() == pytest.approx(QUIET)
    clock.now += 1.01 * QUIET
    assert pacing.delay() == 0.0


def test_burst_is_recognised_when_it_is_answered_as_fast_as_it_is_read(pacing: Pacing, clock: Clock) -> None:
    received = clock.now
    number = 0
    while pacing.delay() == 0.0 and number < 100:
        clock.now += 4e-4
        number += 1
        pacing.arrived(number, received)
        if pacing.delay() == 0.0:
            pacing.sent(number)
    assert number == FEW + 1


def test_hold_ends_with_the_deadline_and_in_any_case(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, FEW + 1)
    assert pacing.delay(deadline=clock.now + 0.1 * QUIET) == pytest.approx(0.1 * QUIET)
    for _ in range(40):
        clock.now += LONGEST_HOLD / 39
        pacing.arrived(1)
    assert pacing.delay() == 0.0


def test_answers_of_a_burst_come_ten_at_a_time_to_the_last_one(pacing: Pacing, clock: Clock) -> None:
    """No answer is followed by more than nine others before its client has had the time to read it."""
    for number in range(1, 101):
        pacing.arrived(number)
    clock.now += 1.01 * QUIET
    sent: list[float] = []
    for number in range(1, 101):
        clock.now += pacing.delay()
        sent.append(clock.now)
        pacing.sent(number)
    assert all(
        later - earlier >= LEAST_TIME - 1e-9 for earlier, later in zip(sent, sent[MOST_AFTER + 1 :], strict=False)
    )
    assert sent[-1] - sent[0] == pytest.approx(FIRST_TIME + 8 * LEAST_TIME)


def test_clients_that_ask_again_are_neither_held_nor_spaced(pacing: Pacing, clock: Clock) -> None:
    arrive(pacing, 2 * FEW)
    clock.now += 2 * QUIET
    pacing.sent(1)
    for round_number in range(2, 20):
        for client in range(2 * FEW):  # asks again; the next one is answered
            clock.now += 4e-4
            pacing.arrived(round_number)
            assert pacing.delay() == 0.0
            pacing.sent(round_number - (client < 2 * FEW - 1))


def test_a_flood_is_not_delayed(pacing: Pacing) -> None:
    arrive(pacing, MANY + 1)
    assert pacing.delay() == 0.0
