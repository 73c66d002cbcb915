"""How many threads may work at once.

Number of threads of torch while our loops run: one, for the same numbers on every machine and less work.

The matrices are small: several threads wait for each other most of the time, which costs up to five times as much CPU,
and more where the machine does something else too.

Where parts of a long computation are done: here, in processes of this machine (joblib), or where Dask sends them.

Each yields results as they come, in any order. The work is the same function everywhere, so the results are, too.

How far a long computation is, told to whoever listens: a progress bar, or nobody.

What is computed deep below need not know of it: it tells how much of its work is done, in units of about equal cost.

Seeds of compiled random numbers: a request of a fraction of a millisecond cannot wait for a generator to be made.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from eim_ros.core.checks import checked_whole
from eim_ros.core.child_process import end_with_parent
from eim_ros.core.errors import ConfigurationError, ServiceError

MOST_THREADS = 1024


def usable_cores() -> int:
    """Cores that this process may run on, which a container or `taskset` makes fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def checked_threads(n_threads: int | None) -> int:
    """A number of threads, 1 to 1024; all cores if None. `ConfigurationError` otherwise."""
    if n_threads is None:
        return usable_cores()
    if isinstance(n_threads, bool) or not isinstance(n_threads, int) or not 1 <= n_threads <= MOST_THREADS:
        raise ConfigurationError(
            f"n_threads must be a whole number from 1 to {MOST_THREADS}, got {n_threads!r}", n_threads
        )
    return n_threads


_chosen: ContextVar[int | None] = ContextVar("threads of torch", default=None)


@contextlib.contextmanager
def torch_threads(n: int | None = None) -> Iterator[None]:
    """Run a block, or as `@torch_threads()` a function, with n threads of torch; afterwards it has as many as before.

    Every fit is such a function, without a number of its own: `with torch_threads(4): EIM(config).fit(data)` decides.

    Parameters
    ----------
    n : int, optional
        >= 1. If missing: the number of the enclosing block or of `use_torch_threads`, else `default_threads`.
    """
    import torch  # slow, and not needed to serve a model

    number = _chosen.get() or default_threads() if n is None else checked_whole(n, 1, "the number of threads")
    before, token = torch.get_num_threads(), _chosen.set(number)
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _chosen.reset(token)


def use_torch_threads(n: int) -> None:
    """Let everything that follows use n >= 1 threads of torch, fits included."""
    import torch

    _chosen.set(checked_whole(n, 1, "the number of threads"))
    torch.set_num_threads(n)


def default_threads() -> int:
    """What the environment variable OMP_NUM_THREADS says, else one."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return max(1, int(first)) if first.isdecimal() else 1


TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

CONNECTION_SECONDS = 10.0


class Workers(Protocol):
    """Applies a function to tasks."""

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        """Results in the order in which they come."""
        ...


class ThisProcess:
    """One after the other."""

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        return map(work, tasks)


@dataclass(frozen=True)
class JoblibWorkers:
    """So many processes of this machine; none of them outlives this one."""

    n_jobs: int

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        from joblib import (
            Parallel,
            delayed,  # of the extra `experiments`
        )

        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=self.n_jobs)
        parent = os.getpid()
        return iter(parallel(delayed(_done)(parent, work, task) for task in tasks))


def _done(parent: int, work: Callable[[TaskT], ResultT], task: TaskT) -> ResultT:
    """Do the work in a process that joblib has started, unless that is this process."""
    if os.getpid() != parent:
        end_with_parent(parent)
    return work(task)


@dataclass(frozen=True)
class DaskWorkers:
    """Workers of a running Dask scheduler, such as "tcp://127.0.0.1:8786", each with one thread.

    One thread: the number of torch's threads and the CPU time are those of a process.
    """

    address: str

    def __call__(self, work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT]:
        from distributed import (
            Client,
            as_completed,  # of the extra `experiments`
        )

        try:
            client = Client(self.address, timeout=CONNECTION_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise ServiceError(
                f"no Dask scheduler answers at {self.address}: start one (dask scheduler) and workers for it "
                f"(dask worker {self.address} --nthreads 1)",
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
                f"the Dask scheduler at {self.address} has no workers: start some, "
                f"dask worker {self.address} --nthreads 1",
                self.address,
            )
        several = [name for name, info in workers.items() if info["nthreads"] != 1]
        if several:
            raise ConfigurationError(
                f"workers with several threads ({', '.join(several)}): start them with --nthreads 1", several
            )


Listener: TypeAlias = Callable[[str, float, float], None]
"""Takes a name of the work, how much of it is done, and how much there is at most."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let it hear what is told meanwhile, in this thread."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def tell(work: str, done: float, total: float) -> None:
    """Say that so much of a work is done, of at most `total`."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(work, done, total)


def seed_fraction(seed: int | None) -> float:
    """The first 53 bits of the hash of a seed >= 0, or fresh ones, as a number in [0, 1)."""
    if seed is None:
        octets = os.urandom(8)
    else:
        octets = hashlib.blake2b(seed.to_bytes(seed.bit_length() // 8 + 1, "little"), digest_size=8).digest()
    return (int.from_bytes(octets, "little") >> 11) * 2.0**-53
