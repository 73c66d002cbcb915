"""Clients that keep 10 answers, simulated with a clock of our own: none loses one while it reads in time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
import pytest

from eim_ros.nodes.common.unread_answers import FIRST_TIME, LEAST_TIME, MOST_AFTER, MOST_TIME, UnreadAnswers

KEPT = 10


@dataclass
class Client:
    """Keeps the last answers, its own and others', until it looks; asks again when it has read its own."""

    number: int = 0
    kept: list[tuple[int, int]] = field(default_factory=list)  # (client, number)
    n_lost: int = 0

    def receive(self, answer: tuple[int, int], own: int) -> None:
        self.kept.append(answer)
        if len(self.kept) > KEPT:
            self.n_lost += self.kept.pop(0)[0] == own


@dataclass
class World:
    """Clients of one server that answers at once, as far as `UnreadAnswers` lets it.

    `reading(rng)` is how long [s] a client takes to look after an answer, `thinking(rng)` until it asks again.
    """

    clients: list[Client]
    reading: object
    thinking: object
    n_requests: int
    paced: bool = True
    n_answered: int = 0
    now: float = 0.0

    def run(self, seed: int) -> None:
        rng, unread = np.random.default_rng(seed), UnreadAnswers()
        order = iter(range(10**9))
        events = [(float(rng.uniform(0.0, 0.01)), next(order), "ask", i) for i in range(len(self.clients))]
        heapq.heapify(events)
        waiting: list[tuple[int, int]] = []
        wakes = -1.0
        while events:
            self.now, _, kind, i = heapq.heappop(events)
            client = self.clients[i] if i >= 0 else Client()
            if kind == "ask" and client.number < self.n_requests:
                client.number += 1
                unread.asked(client.number, self.now, self.now)
                waiting.append((i, client.number))
            elif kind == "look" and (i, client.number) in client.kept:
                client.kept.clear()
                heapq.heappush(events, (self.now + self.thinking(rng), next(order), "ask", i))
            elif kind == "look":
                client.kept.clear()
            while waiting and (not self.paced or unread.free_at(self.now) <= self.now):
                answer = waiting.pop(0)
                unread.sent(answer[1], self.now)
                self.n_answered += 1
                for index, other in enumerate(self.clients):
                    other.receive(answer, index)
                heapq.heappush(events, (self.now + self.reading(rng), next(order), "look", answer[0]))
                for index in set(range(len(self.clients))) - {answer[0]}:  # those look when it suits them
                    heapq.heappush(events, (self.now + self.reading(rng), next(order), "look", index))
            if waiting and unread.free_at(self.now) != wakes:
                wakes = unread.free_at(self.now)
                heapq.heappush(events, (wakes, next(order), "wake", -1))


def world(n_clients: int, latency: float, n_requests: int = 30, thinking: float = 0.0, paced: bool = True) -> World:
    def reading(rng: np.random.Generator) -> float:
        return float(rng.uniform(0.0, latency)) if rng.random() < 0.1 else 0.001

    def think(rng: np.random.Generator) -> float:
        return thinking * float(rng.random()) + 1e-4

    return World([Client() for _ in range(n_clients)], reading, think, n_requests, paced)


@pytest.mark.parametrize("n_clients", [2, 12, 20, 40])
@pytest.mark.parametrize("thinking", [0.0, 0.2])
def test_no_client_that_reads_in_time_loses_an_answer(n_clients: int, thinking: float) -> None:
    clients = world(n_clients, 0.99 * LEAST_TIME, thinking=thinking)
    clients.run(seed=n_clients)
    assert sum(client.n_lost for client in clients.clients) == 0
    assert clients.n_answered == 30 * n_clients


def test_without_pacing_the_same_clients_lose_answers() -> None:
    """So the simulation can fail."""
    clients = world(20, 0.99 * LEAST_TIME, paced=False)
    clients.run(seed=20)
    assert sum(client.n_lost for client in clients.clients) > 0


def test_first_request_has_longer_for_it_may_come_from_a_process_that_starts() -> None:
    clients = world(60, 0.99 * FIRST_TIME, n_requests=1)
    clients.run(seed=1)
    assert sum(client.n_lost for client in clients.clients) == 0
    assert clients.now < (60 / KEPT + 1) * FIRST_TIME


def answer(unread: UnreadAnswers, number: int, now: float) -> None:
    unread.asked(number, now, now)
    unread.sent(number, now)


def test_client_that_is_alone_and_asks_again_never_waits() -> None:
    unread = UnreadAnswers()
    for number in range(1, 200):
        now = 1e-4 * number
        assert unread.free_at(now) == now
        answer(unread, number, now)


@pytest.mark.parametrize("n_under_way", [2, 8])
def test_client_with_several_requests_under_way_never_waits(n_under_way: int) -> None:
    unread, now = UnreadAnswers(), 0.0
    for number in range(1, n_under_way + 1):
        unread.asked(number, now, now)
    for number in range(1, 200):
        now += 1e-3
        assert unread.free_at(now) == now
        unread.sent(number, now)
        unread.asked(number + n_under_way, now + 5e-4, now + 5e-4)


def test_answer_that_nobody_confirms_is_followed_by_nine_others_until_its_time_is_over() -> None:
    unread = UnreadAnswers()
    for _ in range(MOST_AFTER + 1):
        assert unread.free_at(1.0) == 1.0
        answer(unread, 1, 1.0)
    assert unread.free_at(1.0) == pytest.approx(1.0 + FIRST_TIME)
    assert unread.free_at(1.1 + FIRST_TIME) == 1.1 + FIRST_TIME


def test_request_that_was_received_before_the_answer_was_sent_confirms_nothing() -> None:
    unread = UnreadAnswers()
    for number in range(1, 12):
        unread.asked(number, 0.5, 0.5)
    for number in range(1, MOST_AFTER + 2):
        unread.sent(number, 1.0)
        unread.asked(number + 11, 0.9, 0.9)
    assert unread.free_at(1.0) > 1.0


@pytest.mark.parametrize(
    ("latency", "expected"), [(1e-3, LEAST_TIME), (0.05, 0.2), (0.9, MOST_TIME)], ids=["fast", "slow", "slowest"]
)
def test_clients_have_four_times_as_long_as_the_server_needs_to_read(latency: float, expected: float) -> None:
    unread = UnreadAnswers()
    unread.asked(1, 1.0 - latency, 1.0)
    for number in range(100, 100 + MOST_AFTER + 1):
        answer(unread, 2 * number, 1.0)
    assert unread.free_at(1.0) == pytest.approx(1.0 + expected)
