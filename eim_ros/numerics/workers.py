"""Where parts of a long computation are done: here, in processes of this machine (joblib), or where Dask sends them.

Each yields results as they come, in any order. The work is the same function everywhere, so the results are, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from eim_ros.errors import ConfigurationError, ServiceError
from eim_ros.numerics.child_process import end_with_parent

__all__ = ["DaskWorkers", "JoblibWorkers", "ThisProcess", "Workers"]

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
        from joblib import Parallel, delayed  # of the extra `experiments`

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
        from distributed import Client, as_completed  # of the extra `experiments`

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
