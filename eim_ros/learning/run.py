"""The one loop of all learners, with stopping, history and checkpoints, and the model that it returns.

An algorithm is `init -> step -> step ...`. A step maps an immutable state to the next one and a record of figures. A
state gives all that a later run needs to continue bitwise (parameters, optimiser, random generator) as named tensors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor

from eim_ros.core.checks import checked_flag, checked_path, checked_whole, expect
from eim_ros.core.errors import ConfigurationError, DataError, DistributionError, ModelFileError
from eim_ros.core.files import read_tensor_file, write_tensor_file
from eim_ros.core.parallel import torch_threads
from eim_ros.learning.data import checked_data
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.serialization import load_model, save_model


class Status(str, Enum):
    """How an iteration ended. A status is returned, never raised."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STALLED = "stalled"
    NON_FINITE = "non_finite"
    INTERRUPTED = "interrupted"


CHUNK_ELEMENTS = 4_194_304  # probabilities at a time


@dataclass(frozen=True)
class FittedModel:
    """A Gaussian mixture, or a mixture of experts, with the questions that are asked of a fitted model.

    Attributes
    ----------
    mixture_of_experts : MixtureOfExperts
        The model; without contexts it has n_context 0.
    conditional : bool
        Whether it has contexts.
    """

    mixture_of_experts: MixtureOfExperts
    conditional: bool = field(default=True, kw_only=True)

    @property
    def model(self) -> MixtureOfExperts | GaussianMixture:
        """What was asked for: a mixture of experts for data with contexts, a Gaussian mixture for samples alone."""
        return self.mixture_of_experts if self.conditional else self.mixture_of_experts.as_mixture()

    @property
    def n_components(self) -> int:
        return self.mixture_of_experts.n_components

    @property
    def n_dims(self) -> int:
        return self.mixture_of_experts.n_dims

    @property
    def weights(self) -> Tensor:
        """Weights of the components, (n_components,), which sum to one."""
        return self._mixture("weights").weights

    @property
    def means(self) -> Tensor:
        """Means of the components, (n_components, n_dims)."""
        return self._mixture("means").means

    @property
    def covariances(self) -> Tensor:
        """Covariances of the components, (n_components, n_dims, n_dims)."""
        return self._mixture("covariances").covariances

    @torch_threads()
    def predict(self, data: Any) -> Any:
        """The most probable component of each sample, (n_samples,) of int64."""
        model = self.mixture_of_experts
        return self._of_rows(data, lambda context, sample: model.log_joint(context, sample).argmax(-1))

    @torch_threads()
    def predict_proba(self, data: Any) -> Any:
        """Probability of each component given the sample, and its context, (n_samples, n_components)."""
        model = self.mixture_of_experts
        return self._of_rows(data, lambda context, sample: model.log_responsibilities(context, sample).exp())

    @torch_threads()
    def score_samples(self, data: Any) -> Any:
        """Log density of each sample, given its context if there are any, (n_samples,) [nat]."""
        return self._of_rows(data, self.mixture_of_experts.log_prob)

    def score(self, data: Any) -> float:
        """Mean log density of the samples [nat]; the greater, the better."""
        return float(self.score_samples(data).mean())

    def sample(self, n: int | Sequence[int] = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draw samples (n, n_dims) of a model without contexts; `model(context).sample(n)` draws of one with them."""
        return self._mixture("sample").sample(n, generator)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, as `save_model` does."""
        save_model(path, self.model)

    @staticmethod
    def load(path: str | Path) -> FittedModel:
        """Read what `save` or `save_model` wrote; `ModelFileError` says why a file is refused."""
        return FittedModel.of(load_model(path)[0])

    @staticmethod
    def of(model: GaussianMixture | MixtureOfExperts) -> FittedModel:
        """A model from elsewhere, as if it had been fitted."""
        if isinstance(model, GaussianMixture):
            return FittedModel(MixtureOfExperts.from_mixture(model), conditional=False)
        return FittedModel(model)

    def _mixture(self, asked: str) -> GaussianMixture:
        """The Gaussian mixture that the model is."""
        if self.conditional:
            raise DistributionError(
                f"{asked} of a model with contexts depend on them: ask model(context), a batch of Gaussian mixtures",
                asked,
            )
        return self.mixture_of_experts.as_mixture()

    def _of_rows(self, data: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Any:
        """A function of contexts and samples, a bounded number at a time, in the form of the data."""
        model, checked = self.mixture_of_experts, checked_data(data)
        sizes, expected = (checked.sample.shape[1], checked.context.shape[1]), (model.n_dims, model.n_context)
        if sizes != expected or checked.conditional != self.conditional:
            wanted = (
                f"pairs (context (n, {expected[1]}), sample (n, {expected[0]}))"
                if self.conditional
                else (f"samples (n, {expected[0]})")
            )
            raise DataError(f"the model takes {wanted}, got (n_dims, n_context) {sizes}", sizes)
        rows = max(1, CHUNK_ELEMENTS // model.n_components)
        parts = (
            part.to(dtype=model.dtype, device=model.device).split(rows) for part in (checked.context, checked.sample)
        )
        return _as_given(data, torch.cat([function(context, sample) for context, sample in zip(*parts, strict=True)]))


def _as_given(data: Any, answer: Tensor) -> Any:
    """The answer as a tensor if any part of the data is one, else as an array."""
    parts = data if isinstance(data, (tuple, list)) else (data,)
    return answer if any(isinstance(part, Tensor) for part in parts) else answer.cpu().numpy()


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
    """Outcome of a run that learns a mixture of experts: the fitted model, and how it was found.

    Attributes
    ----------
    origin : mapping
        Name (`algorithm`), settings (`config`) and `seed` of the learner, JSON-compatible.
    cpu_seconds : float
        CPU time of the fit, its preparation included [s].
    n_samples : int
        Number of samples, or of contexts, that were fitted to.
    """

    origin: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    cpu_seconds: float = field(default=0.0, kw_only=True)
    n_samples: int = field(default=0, kw_only=True)

    def record(self) -> dict[str, Any]:
        """Return what a model file says about the fit, JSON-compatible."""
        return {
            **self.origin,
            "status": self.status.value,
            "iterations": self.state.iteration,
            "cpu_seconds": round(self.cpu_seconds, 1),
            "n_samples": self.n_samples,
            "torch": torch.__version__,
        }


Callback: TypeAlias = Callable[[Any, dict[str, float]], None]
"""Called with the new state and its record after each iteration."""


@dataclass(frozen=True)
class RunOptions:
    """What accompanies a run and does not change its result.

    Attributes
    ----------
    callbacks : sequence of callable
        Called with the new state and its record after each iteration.
    checkpoint : Path, optional
        File in which the run saves itself.
    checkpoint_every : int
        Iterations between two saves; the last iteration and an interruption by Ctrl-C are saved too.
    resume : bool
        Continue from the checkpoint; the result is bitwise that of an uninterrupted run.

    Raises
    ------
    ConfigurationError
        Callbacks that are no functions, an interval below 1.
    ModelFileError
        A checkpoint that is no path.
    """

    callbacks: Sequence[Callback] = ()
    checkpoint: Path | None = None
    checkpoint_every: int = 10
    resume: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.callbacks, Sequence) and all(callable(callback) for callback in self.callbacks)):
            raise ConfigurationError(f"callbacks must be a list of functions, got {self.callbacks!r}", self.callbacks)
        if self.checkpoint is not None:
            checked_path(self.checkpoint, ModelFileError)
        checked_whole(self.checkpoint_every, 1, "iterations between checkpoints")
        checked_flag(self.resume, "resume")


@dataclass(frozen=True)
class Checkpoint:
    """File of a run that can be continued.

    Attributes
    ----------
    path : Path
    identity : str
        Describes settings and data; a checkpoint of another identity is refused on resume.
    """

    path: Path
    identity: str = ""

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


@torch_threads()
def run_loop(
    algorithm: Algorithm[StateT],
    state: StateT,
    n_iterations: int,
    run: RunOptions = RunOptions(),
    *,
    identity: str = "",
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
    run : RunOptions
    identity : str
        Describes settings and data, see `Checkpoint`.
    exhausted : callable, optional
        Whether a state allows no further iteration, for example because the evaluations of a target are used up.

    Returns
    -------
    LoopResult
        With status NON_FINITE if the objective `elbo` of the last iteration is not finite. With status INTERRUPTED
        after Ctrl-C: the model and the checkpoint of the last complete iteration are kept.
    """
    expect(run, RunOptions, "run")
    checkpoint = None if run.checkpoint is None else Checkpoint(run.checkpoint, identity)
    history = History()
    if run.resume and checkpoint is not None:
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
            for callback in run.callbacks:
                callback(state, record)
            if algorithm.finished(history):
                status = Status.CONVERGED
                break
            if checkpoint is not None and state.iteration % run.checkpoint_every == 0:
                checkpoint.save(complete, history, state.iteration)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if status is not Status.INTERRUPTED and not math.isfinite(record.get("elbo", 0.0)):
        status = Status.NON_FINITE
    if checkpoint is not None:
        checkpoint.save(complete, history, state.iteration)
    return LoopResult(status, history, state)


def _copied(state: State, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
    """A state's tensors for the checkpoint, safe from a later step that adapts them in place and is interrupted."""
    return {} if checkpoint is None else {name: value.clone() for name, value in state.tensors().items()}


def _finite(model: Model) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in model.tensors().values())


# A spread of the log ratio that falls by more in a window shows progress that the noise of the objective hides.
STEADY = 0.97


def on_plateau(history: History, window: int) -> bool:
    """`rests` for the objective of a history, the figures `elbo` and `elbo_standard_error` [nat]."""
    return rests(history.column("elbo"), history.column("elbo_standard_error"), window)


def rests(objective: Sequence[float], standard_errors: Sequence[float], window: int) -> bool:
    """Whether the mean of an objective over a window exceeds that of the window before by no more than its noise.

    Where the target can be represented, the noise vanishes with the distance to it: the run then goes on.

    Parameters
    ----------
    objective : sequence of float
        One estimate per iteration [nat], which is to rise.
    standard_errors : sequence of float
        Of the estimates [nat].
    window : int
        Iterations; 0 for never.
    """
    values, errors = objective[-2 * window :], standard_errors[-2 * window :]
    if window == 0 or len(values) < 2 * window or len(errors) < 2 * window:
        return False
    rise = sum(values[window:]) - sum(values[:window])
    noise = sum(error**2 for error in errors) ** 0.5
    return rise <= noise and sum(errors[window:]) >= STEADY * sum(errors[:window])


ResultT = TypeVar("ResultT")


def timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """A result and the CPU time [s] of this process that it took."""
    started = time.process_time()
    return work(), time.process_time() - started


def completed(result: FitResult[Any]) -> MixtureOfExperts | GaussianMixture:
    """The model of a fit; Ctrl-C, which ended the fit early, goes on to the caller: half a fit is no result."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.model
