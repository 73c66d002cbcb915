"""The one loop of all learners: stopping, history, progress, checkpoints.

An algorithm is `init -> step -> step ...`. A step maps an immutable state to the next one and a record of figures.
What a state needs to go on bitwise (parameters, optimiser, random generator) it gives as named tensors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.errors import ConfigurationError, ModelFileError
from eim_ros.inference.fitted_model import FittedModel
from eim_ros.numerics.arguments import checked_flag, checked_path, checked_whole, expect
from eim_ros.numerics.status import Status
from eim_ros.numerics.tensor_file import read_tensor_file, write_tensor_file
from eim_ros.numerics.threads import torch_threads

__all__ = [
    "Algorithm",
    "Checkpoint",
    "FitResult",
    "History",
    "LoopResult",
    "Model",
    "State",
    "run",
    "run_loop",
]

CHECKPOINT_KIND = "checkpoint"
CHECKPOINT_SCHEMA = 1


class Model(Protocol):
    """What is learnt, of whatever kind: the loop only looks at its parameters."""

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...


class State(Protocol):
    """What one iteration hands to the next."""

    @property
    def model(self) -> Model:
        """The model that the next iteration starts from."""
        ...

    @property
    def kept(self) -> Model:
        """The model that the run returns should it end here: the best so far, or the last."""
        ...

    @property
    def iteration(self) -> int: ...

    def tensors(self) -> dict[str, Tensor]:
        """Everything a later `Algorithm.restore` needs to continue bitwise."""
        ...


class ExpertsState(State, Protocol):
    """A state whose model is a mixture of experts."""

    @property
    def model(self) -> MixtureOfExperts: ...

    @property
    def kept(self) -> MixtureOfExperts: ...


StateT = TypeVar("StateT", bound=State)
ExpertsStateT = TypeVar("ExpertsStateT", bound=ExpertsState)


class Algorithm(Protocol[StateT]):
    """A learner as a pure step function with an end."""

    def step(self, state: StateT) -> tuple[StateT, dict[str, float]]:
        """One iteration; the record holds its figures by name."""
        ...

    def restore(self, state: StateT, tensors: dict[str, Tensor], iteration: int) -> StateT:
        """The state that `State.tensors` was taken from; `state` gives the structure."""
        ...

    def finished(self, history: History) -> bool:
        """Whether the run has converged."""
        ...


@dataclass(frozen=True)
class History:
    """Records of all iterations, oldest first."""

    records: tuple[dict[str, float], ...] = ()

    def with_record(self, record: dict[str, float]) -> History:
        return History((*self.records, record))

    def column(self, name: str) -> list[float]:
        """One figure over the iterations that recorded it."""
        return [record[name] for record in self.records if name in record]


@dataclass(frozen=True)
class LoopResult(Generic[StateT]):
    """Outcome of a run of any learner.

    Attributes
    ----------
    status : Status
        CONVERGED, MAX_ITERATIONS, NON_FINITE (the model, of which the last finite one is kept, or its objective, which
        is minus infinity if the target is zero at samples of the model) or INTERRUPTED.
    history : History
    state : State
        Final state, from which a run can go on; `state.kept` is the model.
    """

    status: Status
    history: History
    state: StateT


@dataclass(frozen=True)
class FitResult(LoopResult[ExpertsStateT], FittedModel):
    """Outcome of a run that learns a mixture of experts: the fitted model, and how it came about."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run saves itself.

    Attributes
    ----------
    path : Path
    every : int
        Iterations between two saves; the last iteration and an interruption by Ctrl-C are saved too.
    identity : str
        Describes settings and data; a checkpoint of another identity is refused on resume.
    """

    path: Path
    every: int = 10
    identity: str = ""

    def __post_init__(self) -> None:
        checked_path(self.path, ModelFileError)
        checked_whole(self.every, 1, "iterations between checkpoints")

    def save(self, tensors: dict[str, Tensor], history: History, iteration: int) -> None:
        """Write what `load` reads: the tensors of a state after so many iterations, and their records."""
        document = {"iteration": iteration, "identity": self.identity, "history": list(history.records)}
        write_tensor_file(self.path, tensors, document, kind=CHECKPOINT_KIND, schema=CHECKPOINT_SCHEMA)

    def load(self) -> tuple[dict[str, Tensor], History, int]:
        """Tensors, history and iteration of the saved run; `ModelFileError` if it is of another run."""
        tensors, document = read_tensor_file(self.path, kind=CHECKPOINT_KIND, schema=CHECKPOINT_SCHEMA)
        if document.get("identity") != self.identity:
            raise ModelFileError(
                f"checkpoint {self.path} belongs to a run with other data or settings; give the same, or start anew "
                "without resuming",
                document.get("identity"),
            )
        return tensors, History(tuple(document["history"])), int(document["iteration"])


def run(
    algorithm: Algorithm[ExpertsStateT],
    state: ExpertsStateT,
    n_iterations: int,
    *,
    callbacks: Sequence[Callable[[ExpertsStateT, dict[str, float]], None]] = (),
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    conditional: bool = True,
    exhausted: Callable[[ExpertsStateT], bool] | None = None,
) -> FitResult[ExpertsStateT]:
    """`run_loop` for a mixture of experts; `conditional`, whether the data have contexts, decides `FitResult.model`."""
    result = run_loop(
        algorithm,
        state,
        n_iterations,
        callbacks=callbacks,
        checkpoint=checkpoint,
        resume=resume,
        exhausted=exhausted,
    )
    return FitResult(result.state.kept, result.status, result.history, result.state, conditional=conditional)


@torch_threads()
def run_loop(
    algorithm: Algorithm[StateT],
    state: StateT,
    n_iterations: int,
    *,
    callbacks: Sequence[Callable[[StateT, dict[str, float]], None]] = (),
    checkpoint: Checkpoint | None = None,
    resume: bool = False,
    exhausted: Callable[[StateT], bool] | None = None,
) -> LoopResult[StateT]:
    """Iterate to the end, with one thread of torch unless more are asked for, see `torch_threads`.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Initial state.
    n_iterations : int
        Iterations in all, those of a resumed run included.
    callbacks : sequence of callable
        Called with the new state and its record after each iteration.
    checkpoint : Checkpoint, optional
    resume : bool
        Continue from the checkpoint's file.
    exhausted : callable, optional
        Whether a state allows for no further iteration, such as for want of evaluations; a bound beside the iterations.

    Returns
    -------
    LoopResult
        With status NON_FINITE where the objective `elbo` of the last iteration is not finite. With status INTERRUPTED
        after Ctrl-C: the model and the checkpoint of the last complete iteration are kept.
    """
    _check(callbacks, checkpoint)
    history = History()
    if checked_flag(resume, "resume") and checkpoint is not None:
        tensors, history, iteration = checkpoint.load()
        state = algorithm.restore(state, tensors, iteration)
    status, record = Status.MAX_ITERATIONS, dict[str, float]()
    complete = _copied(state, checkpoint)
    try:
        while state.iteration < n_iterations and not (exhausted is not None and exhausted(state)):
            started = time.process_time()
            following, record = algorithm.step(state)
            if not _finite(following.model):
                status = Status.NON_FINITE
                break
            state, complete = following, _copied(following, checkpoint)
            record = {"iteration": float(state.iteration), **record, "cpu_seconds": time.process_time() - started}
            history = history.with_record({name: v for name, v in record.items() if math.isfinite(v)})
            for callback in callbacks:
                callback(state, record)
            if algorithm.finished(history):
                status = Status.CONVERGED
                break
            if checkpoint is not None and state.iteration % checkpoint.every == 0:
                checkpoint.save(complete, history, state.iteration)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if status is not Status.INTERRUPTED and not math.isfinite(record.get("elbo", 0.0)):
        status = Status.NON_FINITE
    if checkpoint is not None:
        checkpoint.save(complete, history, state.iteration)
    return LoopResult(status, history, state)


def _check(callbacks: Any, checkpoint: Any) -> None:
    if not (isinstance(callbacks, Sequence) and all(callable(callback) for callback in callbacks)):
        raise ConfigurationError(f"callbacks must be a list of functions, got {callbacks!r}", callbacks)
    if checkpoint is not None:
        expect(checkpoint, Checkpoint, "checkpoint")


def _copied(state: State, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
    """A state's tensors for the checkpoint, safe from a later step that adapts them in place and is interrupted."""
    return {} if checkpoint is None else {name: value.clone() for name, value in state.tensors().items()}


def _finite(model: Model) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in model.tensors().values())
