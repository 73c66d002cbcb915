"""Threads, workers, progress and seeds of long computations.

By default, torch runs with one thread. The matrices in this package are small, so several threads mostly wait for each
other and use up to five times as much CPU time. With one thread, the numbers are also the same on every machine.

Parts of a long computation run in this process, in other processes of this machine (joblib), or on workers of Dask. All
of them run the same function, so the results do not depend on the choice. The results arrive in any order.

Progress is reported to a listener, such as a progress bar, in units of about equal cost. The reporting code is
independent of the listener.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from eim_ros.core.checks import checked_whole
from eim_ros.core.child_process import end_with_parent
from eim_ros.core.errors import ConfigurationError, ServiceError

MOST_THREADS = 1024
_chosen: ContextVar[int | None] = ContextVar("threads of torch", default=None)
TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
CONNECTION_SECONDS = 10.0
Listener: TypeAlias = Callable[[str, float, float], None]
"""Function of the name of the work, the amount done so far, and the maximum amount."""
Report: TypeAlias = Callable[[float], None]
"""Function of the completed share of some work, from 0 to 1."""
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)
_STOPPED: ContextVar[threading.Event | None] = ContextVar("stopped", default=None)


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of cores that this process may use.

    Both `taskset` and a container can limit this number. The file `quota` contains the CPU time that the control group
    of a container may use in a period. For example, "150000 100000" means one and a half cores, which count as two.
    """
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        allowed, period = quota.read_text(encoding="ascii").split()
        n = n if allowed == "max" else min(n, math.ceil(int(allowed) / int(period)))
    return max(1, n)


def checked_threads(n_threads: int | None) -> int:
    """Return a checked number of threads. None means all usable cores.

    Raise `ConfigurationError` if the number is not a whole number from 1 to 1024.
    """
    if n_threads is None:
        return usable_cores()
    if isinstance(n_threads, bool) or not isinstance(n_threads, int) or not 1 <= n_threads <= MOST_THREADS:
        raise ConfigurationError(
            f"n_threads must be a whole number from 1 to {MOST_THREADS}, got {n_threads!r}", n_threads
        )
    return n_threads


@contextlib.contextmanager
def torch_threads(n: int | None = None) -> Iterator[None]:
    """Run a block with n threads of torch, then restore the previous number.

    The decorator `@torch_threads()` applies to a function. All fits are decorated without a number, so that the caller
    can choose it: `with torch_threads(4): EIM(config).fit(data)`. The default is the number of the enclosing block or
    of `use_torch_threads`, otherwise `default_threads`.
    """
    import torch  # imported here, because it is slow to import and not needed to serve a model

    chosen = _chosen.get() if n is None else checked_whole(n, 1, "the number of threads")
    before, token = torch.get_num_threads(), _chosen.set(chosen)
    torch.set_num_threads(chosen or default_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _chosen.reset(token)


def use_torch_threads(n: int | None) -> None:
    """Use n >= 1 threads of torch from now on, also in fits. None selects `default_threads`, see `in_threads`."""
    import torch

    _chosen.set(None if n is None else checked_whole(n, 1, "the number of threads"))
    torch.set_num_threads(n or default_threads())


def default_threads(otherwise: int = 1) -> int:
    """Return the number in the environment variable OMP_NUM_THREADS, or `otherwise` if it is not set."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, int(first)) if first.isdecimal() else otherwise


def concurrent_threads() -> int:
    """Return how many independent parts of a fit may run at the same time, see `in_threads`."""
    return _chosen.get() or default_threads(usable_cores())


class Workers(Protocol):
    """Callable that applies a function to tasks."""

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        """Yield the results in the order in which the tasks finish."""
        ...


class ThisProcess:
    """Execution in this process, one task after the other."""

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        return map(work, tasks)


@dataclass(frozen=True)
class JoblibWorkers:
    """Execution in `n_jobs` processes of this machine, which end with this process."""

    n_jobs: int

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        from joblib import Parallel, delayed  # needs the extra `experiments`

        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=self.n_jobs)
        parent = os.getpid()
        return iter(parallel(delayed(_done)(parent, work, task) for task in tasks))


def _done(parent: int, work: Callable[[TaskT], ResultT], task: TaskT) -> ResultT:
    """Run the work. If joblib started a process for the work, make this process end with its parent."""
    if os.getpid() != parent:
        end_with_parent(parent)
    return work(task)


@dataclass(frozen=True)
class DaskWorkers:
    """Execution on the workers of a running Dask scheduler, such as "tcp://127.0.0.1:8786".

    Each worker must have one thread, because the number of torch threads and the CPU time belong to a process.
    """

    address: str

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        from distributed import Client, as_completed  # needs the extra `experiments`

        try:
            client = Client(self.address, timeout=CONNECTION_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise ServiceError(
                f"no Dask scheduler answers at {self.address}: start it with `dask scheduler`, and its workers with "
                f"`dask worker {self.address} --nthreads 1`",
                self.address,
            ) from error
        with client:
            self._check(client.scheduler_info(n_workers=-1)["workers"])
            futures = [client.submit(work, task, pure=False) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
                    future.release()
            finally:
                client.cancel([future for future in futures if not future.done()])

    def _check(self, workers: dict[str, dict[str, int]]) -> None:
        if not workers:
            raise ServiceError(
                f"the Dask scheduler at {self.address} has no workers: start workers with "
                f"`dask worker {self.address} --nthreads 1`",
                self.address,
            )
        several = [name for name, info in workers.items() if info["nthreads"] != 1]
        if several:
            raise ConfigurationError(
                f"each Dask worker must have one thread: start {', '.join(several)} with --nthreads 1",
                several,
            )


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report progress to `listener` while the block runs, in this thread only."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(work: str, done: float, total: float) -> None:
    """Report to the listener that the amount `done` of some work is finished, out of `total`."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(work, done, total)


def part_of(report: Report, before: float, amount: float) -> Report:
    """Return a function that reports the progress of a part of some work. The part begins after the share `before`."""
    return lambda share: report(before + amount * share)


class SharedProgress:
    """Progress of work whose parts run at the same time, reported as a single number.

    `amounts` are the costs of the parts.
    """

    def __init__(self, work: str, amounts: Sequence[float]) -> None:
        self._work, self._amounts, self._shares = work, amounts, [0.0] * len(amounts)

    def part(self, number: int) -> Report:
        def report(share: float) -> None:
            self._shares[number] = share
            done = sum(amount * share for amount, share in zip(self._amounts, self._shares, strict=True))
            tell(self._work, done, sum(self._amounts))
            if (stopped := _STOPPED.get()) is not None and stopped.is_set():
                raise Stopped

        return report


class Stopped(Exception):
    """Exception that ends a thread of `in_threads` when its result is no longer needed."""


@contextlib.contextmanager
def in_threads(work: Callable[[TaskT], ResultT], tasks: Iterable[TaskT]) -> Iterator[Iterator[ResultT]]:
    """Apply a function to tasks in threads, and yield the results in the order of the tasks.

    `torch_threads` sets the number of threads. If neither this number nor OMP_NUM_THREADS is set, it is the number of
    usable cores. Each thread uses one thread of torch. If there is only one thread, a task begins when its result is
    requested. At the end of the block, tasks that have not begun are skipped. Running tasks end at their next report of
    progress.
    """
    n = concurrent_threads()
    if n == 1:
        yield map(work, tasks)
        return
    stopped = threading.Event()

    def run(task: TaskT) -> ResultT:
        _STOPPED.set(stopped)
        with torch_threads(1):
            return work(task)

    with ThreadPoolExecutor(n) as pool:
        futures = [pool.submit(contextvars.copy_context().run, run, task) for task in tasks]
        try:
            yield (future.result() for future in futures)
        finally:
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)


def generator(seed: int | None) -> np.random.Generator:
    """Return a generator for a seed >= 0. Without a seed, return the generator of the process, with a random seed.

    The generator of the process is shared, because its construction takes as long as solving some poses. Threads may
    use it at the same time.
    """
    return _fresh_generator(os.getpid()) if seed is None else np.random.default_rng(seed)


@functools.lru_cache(maxsize=1)
def _fresh_generator(process: int) -> np.random.Generator:
    return np.random.default_rng()


def random_bits() -> int:
    """Return a random number of 64 bits."""
    return int.from_bytes(os.urandom(8), "little")


def seed_fraction(seed: int | None) -> float:
    """Return the first 53 bits of the hash of a seed >= 0 as a number in [0, 1), or random bits if the seed is None.

    Compiled code uses this number as the seed of its random numbers. A NumPy generator would take too long to create,
    because a request may take only a fraction of a millisecond.
    """
    if seed is None:
        return (random_bits() >> 11) * 2.0**-53
    octets = hashlib.blake2b(seed.to_bytes(seed.bit_length() // 8 + 1, "little"), digest_size=8).digest()
    return (int.from_bytes(octets, "little") >> 11) * 2.0**-53
