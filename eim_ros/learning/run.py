"""Training loop of all learners, with stopping rules, history and checkpoints, and the fitted model that it returns.

A learner runs in steps. Each step maps an immutable state to the next state and a record of named numbers. A state can
be exported as named tensors. These tensors contain, for example, the parameters and the states of the optimiser and of
the random generator. A later run can continue from these tensors with bitwise equal results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from eim_ros.core.checks import checked_flag, checked_path, checked_whole, expect, with_hints
from eim_ros.core.errors import ConfigurationError, DataError, DistributionError, ModelFileError
from eim_ros.core.files import read_tensor_file, write_tensor_file
from eim_ros.core.parallel import torch_threads
from eim_ros.learning.data import checked_data
from eim_ros.learning.models.gaussian import all_finite
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.serialization import load_model, save_model
from eim_ros.learning.models.standardisation import linear_parts

CHUNK_ELEMENTS = 4_194_304  # number of probabilities per block; limits the memory
EQUAL = 1e-9  # relative difference of parameters that count as equal
CHECKPOINT_KIND = "checkpoint"
CHECKPOINT_SCHEMA = 1
Callback: TypeAlias = Callable[[Any, dict[str, float]], Any]
"""Called with the new state and its record after each iteration. The run stops if it returns True."""
# If the standard errors in a window sum to less than this fraction of their sum in the previous window, the run still
# makes progress. The noise of the objective may hide this progress.
STEADY = 0.97
NEGLIGIBLE = 1e-4  # smaller rises and standard errors of the objective are negligible [nat]
UNCHANGED_MESSAGE = (
    "EIM changed nothing: the model is the one that it started from, by default a fit by EM. The estimated density "
    "ratio shows no difference between the model and the data that exceeds its noise"
)
OUTLIER = 100.0  # a drop of the objective by more than this many standard errors is an outlier
ResultT = TypeVar("ResultT")


class Status(str, Enum):
    """Reason why a run ended. The status is part of the result, and never raised as an exception.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.learning import EM, Status
    >>> samples = np.random.default_rng(0).normal(size=(100, 2))
    >>> EM(n_components=1).fit(samples).status is Status.CONVERGED
    True
    """

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    STOPPED = "stopped"
    NON_FINITE = "non_finite"
    INTERRUPTED = "interrupted"
    UNCHANGED = "unchanged"


@with_hints
@dataclass(frozen=True)
class FittedModel:
    """Fitted Gaussian mixture or mixture of experts, with methods for prediction, scoring and sampling.

    Attributes
    ----------
    mixture_of_experts : MixtureOfExperts
        The fitted model. A Gaussian mixture is stored as a mixture of experts with `n_context` 0.
    conditional : bool
        Whether the model was fitted to data with contexts.

    Examples
    --------
    Learners return a fitted model. `FittedModel.of` wraps any other mixture:

    >>> import torch
    >>> from eim_ros.learning import FittedModel
    >>> from eim_ros.learning.models import GaussianMixture
    >>> fitted = FittedModel.of(GaussianMixture(torch.zeros(2), torch.tensor([[-2.0], [2.0]]), torch.ones(2, 1, 1)))
    >>> fitted.predict([[-1.5], [3.0]]).tolist(), fitted.predict_proba([[0.0]]).tolist()
    ([0, 1], [[0.5, 0.5]])
    >>> fitted.score([[-2.0], [2.0]]) > fitted.score([[0.0]])
    True
    """

    mixture_of_experts: MixtureOfExperts
    conditional: bool = field(default=True, kw_only=True)

    @property
    def model(self) -> MixtureOfExperts | GaussianMixture:
        """Mixture of experts if the data have contexts, otherwise a Gaussian mixture."""
        return self.mixture_of_experts if self.conditional else self.mixture_of_experts.as_mixture()

    @property
    def n_components(self) -> int:
        return self.mixture_of_experts.n_components

    @property
    def n_dims(self) -> int:
        return self.mixture_of_experts.n_dims

    @property
    def weights(self) -> Tensor:
        """Weights of the components, (n_components,); they sum to one."""
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
        """Return the most probable component of each sample, (n_samples,) of int64.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims). A conditional model needs a pair of contexts (n_samples, n_context) and
            samples.

        Returns
        -------
        ndarray or Tensor
            A tensor if the data contain a tensor, otherwise an array.

        Raises
        ------
        DataError
            If the data and the model have different dimensions, or if the data are not finite.
        """
        model = self.mixture_of_experts
        return self._of_rows(data, lambda context, sample: model.log_joint(context, sample).argmax(-1))

    @torch_threads()
    def predict_proba(self, data: Any) -> Any:
        """Return the probability of each component given the sample and its context, (n_samples, n_components).

        The argument and the errors are those of `predict`.
        """
        model = self.mixture_of_experts
        return self._of_rows(data, lambda context, sample: model.log_responsibilities(context, sample).exp())

    @torch_threads()
    def score_samples(self, data: Any) -> Any:
        """Return the log density of each sample [nat], (n_samples,), given its context if the model is conditional.

        The argument and the errors are those of `predict`.
        """
        return self._of_rows(data, self.mixture_of_experts.log_prob)

    def score(self, data: Any) -> float:
        """Return the mean log density of the samples [nat]; higher is better."""
        return float(self.score_samples(data).mean())

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of a linear model.

        Covariances count as diagonal, spherical or tied if their values are. `DistributionError` is raised for neural
        models.
        """
        _, experts = linear_parts(self.mixture_of_experts)
        n_components, n_dims, n_inputs = experts.n_components, experts.n_dims, experts.n_context + 1
        factors = experts.scale_trils
        diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
        each = n_dims * (n_dims + 1) // 2
        if torch.equal(factors, torch.diag_embed(diagonal)):
            each = 1 if torch.allclose(diagonal, diagonal[:, :1], rtol=EQUAL, atol=0.0) else n_dims
        n_factors = 1 if torch.allclose(factors, factors[:1], rtol=EQUAL, atol=0.0) else n_components
        return (n_components - 1 + n_components * n_dims) * n_inputs + n_factors * each

    def bic(self, data: Any) -> float:
        """Return the Bayesian information criterion of the data [nat]; lower is better."""
        scores = self.score_samples(data)
        return self.n_parameters * math.log(len(scores)) - 2.0 * float(scores.sum())

    def aic(self, data: Any) -> float:
        """Return the Akaike information criterion of the data [nat]; lower is better."""
        return 2.0 * self.n_parameters - 2.0 * float(self.score_samples(data).sum())

    def sample(self, n: int | Sequence[int] = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draw samples (n, n_dims) from a model without contexts.

        `DistributionError` is raised for a conditional model. Use `model(context).sample(n)` for such a model.
        """
        return self._mixture("sample").sample(n, generator)

    def save(self, path: str | Path) -> None:
        """Write the model to a file with `save_model`."""
        save_model(path, self.model)

    @staticmethod
    def load(path: str | Path) -> FittedModel:
        """Read a file that `save` or `save_model` wrote. `ModelFileError` is raised if the file is invalid."""
        return FittedModel.of(load_model(path)[0])

    @staticmethod
    def of(model: GaussianMixture | MixtureOfExperts) -> FittedModel:
        """Wrap a model that was not fitted by a learner."""
        if isinstance(model, GaussianMixture):
            return FittedModel(MixtureOfExperts.from_mixture(model), conditional=False)
        return FittedModel(model)

    def _mixture(self, asked: str) -> GaussianMixture:
        """Return the model as a Gaussian mixture; raise `DistributionError` if it has contexts."""
        if self.conditional:
            raise DistributionError(
                f"this model has contexts, so its {asked} depend on them; use model(context), which returns a batch "
                "of Gaussian mixtures",
                asked,
            )
        return self.mixture_of_experts.as_mixture()

    def _of_rows(self, data: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Any:
        """Evaluate a function of contexts and samples in blocks. Return a tensor or an array, like the data."""
        model, checked = self.mixture_of_experts, checked_data(data)
        sizes, expected = (checked.sample.shape[1], checked.context.shape[1]), (model.n_dims, model.n_context)
        if sizes != expected or checked.conditional != self.conditional:
            wanted = (
                f"pairs (context (n, {expected[1]}), sample (n, {expected[0]}))"
                if self.conditional
                else (f"samples (n, {expected[0]})")
            )
            raise DataError(f"the model needs {wanted}, got data with (n_dims, n_context) = {sizes}", sizes)
        rows = max(1, CHUNK_ELEMENTS // model.n_components)
        parts = (
            part.to(dtype=model.dtype, device=model.device).split(rows) for part in (checked.context, checked.sample)
        )
        return _as_given(data, torch.cat([function(context, sample) for context, sample in zip(*parts, strict=True)]))


def _as_given(data: Any, answer: Tensor) -> Any:
    """Return the answer as a tensor if any part of the data is a tensor, otherwise as an array."""
    parts = data if isinstance(data, (tuple, list)) else (data,)
    return answer if any(isinstance(part, Tensor) for part in parts) else answer.cpu().numpy()


class Model(Protocol):
    """Any kind of learnt model. The training loop needs only its parameters."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""


class State(Protocol):
    """Result of one iteration and input of the next."""

    @property
    def model(self) -> Model:
        """Model that the next iteration starts from."""

    @property
    def kept(self) -> Model:
        """Model that the run would return now: either the best model so far or the last one."""

    @property
    def iteration(self) -> int: ...

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that `Algorithm.restore` needs to continue with bitwise equal results."""


class ExpertsState(State, Protocol):
    """State whose model is a mixture of experts."""

    @property
    def model(self) -> MixtureOfExperts: ...

    @property
    def kept(self) -> MixtureOfExperts: ...


StateT = TypeVar("StateT", bound=State)
ExpertsStateT = TypeVar("ExpertsStateT", bound=ExpertsState)


class Algorithm(Protocol[StateT]):
    """Learner in the form that the training loop needs: a step function and a stopping rule."""

    def step(self, state: StateT) -> tuple[StateT, dict[str, float]]:
        """Do one iteration; return the next state and a record of named numbers."""

    def restore(self, state: StateT, tensors: dict[str, Tensor], iteration: int) -> StateT:
        """Rebuild the state that `State.tensors` exported. `state` is an initial state of the same run."""

    def finished(self, history: History) -> bool:
        """Return whether the run has converged."""


@dataclass(frozen=True)
class History:
    """Records of all iterations, oldest first.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import EM
    >>> history = EM(n_components=2, seed=0).fit(torch.randn(50, 1, generator=torch.Generator().manual_seed(0))).history
    >>> likelihood = history.column("log_likelihood")
    >>> len(likelihood) == len(history.records), likelihood[-1] > likelihood[0]
    (True, True)
    """

    records: tuple[dict[str, float], ...] = ()

    def with_record(self, record: dict[str, float]) -> History:
        return History((*self.records, record))

    def column(self, name: str) -> list[float]:
        """Return all recorded values of one number, in the order of the iterations."""
        return [record[name] for record in self.records if name in record]

    def settled(self, name: str, tolerance: float, n_iterations: int = 1) -> bool:
        """Return whether a number has risen by less than the tolerance over the last `n_iterations` iterations."""
        values = self.column(name)
        return len(values) > n_iterations and values[-1] - values[-1 - n_iterations] < tolerance

    @property
    def n_skipped(self) -> int:
        """Number of iterations of `EIM` without an update, because the density ratio was not usable.

        If all iterations were skipped, the model equals the start.
        """
        return len(self.column("skipped"))


@dataclass(frozen=True)
class LoopResult(Generic[StateT]):
    """Result of a run of any learner.

    Attributes
    ----------
    status : Status
        CONVERGED, MAX_ITERATIONS, STOPPED (by a callback), INTERRUPTED (by Ctrl-C), NON_FINITE or UNCHANGED. UNCHANGED
        means that EIM returns its start. NON_FINITE means that the parameters or the objective became infinite or NaN.
        If the parameters are not finite, the model before the last step is returned. The objective is minus infinity if
        the target density is zero at samples of the model.
    history : History
    state : State
        Final state. A later run can continue from this state. `state.kept` is the model.
    """

    status: Status
    history: History
    state: StateT

    @property
    def message(self) -> str:
        """Meaning of the status UNCHANGED for the user; empty for other statuses."""
        return UNCHANGED_MESSAGE if self.status is Status.UNCHANGED else ""


@dataclass(frozen=True)
class FitResult(LoopResult[ExpertsStateT], FittedModel):
    """Result of a run that learns a mixture of experts: the fitted model and its origin.

    Attributes
    ----------
    origin : mapping
        Name (`algorithm`), settings (`config`) and `seed` of the learner, in a form that JSON can store.
    cpu_seconds : float
        CPU time of the fit [s], including its preparation.
    n_samples : int
        Number of training samples, or of training contexts if the learner needs no samples.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import EM
    >>> result = EM(n_components=2, seed=3).fit(torch.randn(50, 1, generator=torch.Generator().manual_seed(0)))
    >>> record = result.record()
    >>> record["algorithm"], record["status"], record["n_samples"], record["seed"]
    ('em', 'converged', 50, 3)
    """

    origin: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    cpu_seconds: float = field(default=0.0, kw_only=True)
    n_samples: int = field(default=0, kw_only=True)

    def record(self) -> dict[str, Any]:
        """Return the description of the fit that a model file stores, in a form that JSON can store.

        If iterations were skipped, `skipped` is their number; see `History.n_skipped`.
        """
        return {
            **self.origin,
            "status": self.status.value,
            "iterations": self.state.iteration,
            **({"skipped": self.history.n_skipped} if self.history.n_skipped else {}),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "n_samples": self.n_samples,
            "torch": torch.__version__,
        }


@with_hints
@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change its iterations: callbacks, printed progress and checkpoints.

    Attributes
    ----------
    callbacks : sequence of callable
        Functions that are called with the new state and its record after each iteration. The run stops if one of them
        returns True.
    verbose : int
        Print the record of every n-th iteration. 0 or False prints nothing, and 1 or True prints every record.
    checkpoint : Path, optional
        File for the state of the run.
    checkpoint_every : int
        Number of iterations between two saves. The run also saves its last iteration, even after Ctrl-C.
    resume : bool
        Whether to continue from the checkpoint. On the same computer, the result is bitwise equal to the result of an
        uninterrupted run.

    Raises
    ------
    ConfigurationError
        If a callback is not callable, `verbose` is negative, or `checkpoint_every` is below 1.
    ModelFileError
        If `checkpoint` is not a path.

    Examples
    --------
    Print the progress of a run, and save a checkpoint. `resume=True` would continue from this checkpoint:

    >>> import torch
    >>> from pathlib import Path
    >>> from eim_ros.learning import EM, RunOptions
    >>> data = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> run = RunOptions([lambda state, record: print("iteration", state.iteration)], Path("run.safetensors"))
    >>> result = EM(n_components=2, n_iterations=2, tolerance=0.0).fit(data, run=run)
    iteration 1
    iteration 2
    """

    callbacks: Sequence[Callback] = ()
    checkpoint: Path | None = None
    checkpoint_every: int = 10
    resume: bool = False
    verbose: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.callbacks, Sequence) and all(callable(callback) for callback in self.callbacks)):
            raise ConfigurationError(
                f"callbacks must be a list of functions of a state and its record, got {self.callbacks!r}",
                self.callbacks,
            )
        if self.checkpoint is not None:
            checked_path(self.checkpoint, ModelFileError)
        checked_whole(self.checkpoint_every, 1, "iterations between checkpoints")
        checked_flag(self.resume, "resume")
        checked_whole(int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0, "verbose")


@dataclass(frozen=True)
class Checkpoint:
    """File with the state of a run. A later run can continue from this file."""

    path: Path
    # Digest of the settings and the data. A run cannot be resumed from a checkpoint with another digest.
    identity: str = ""

    def save(self, tensors: dict[str, Tensor], history: History, iteration: int) -> None:
        """Write the tensors of a state, the number of iterations so far, and the records of these iterations.

        The order of the axes in memory is written too. This order changes the rounding of matrix products, and a
        resumed run must give bitwise equal results.
        """
        axes = {name: _axes_in_memory(value) for name, value in tensors.items() if not value.is_contiguous()}
        document = {"iteration": iteration, "identity": self.identity, "history": list(history.records), "axes": axes}
        write_tensor_file(self.path, tensors, document, kind=CHECKPOINT_KIND, schema=CHECKPOINT_SCHEMA)

    def load(self) -> tuple[dict[str, Tensor], History, int]:
        """Read the tensors, the history and the number of iterations of the saved run.

        `ModelFileError` is raised if the file cannot be read, or belongs to a run with other data or settings.
        """
        tensors, document = read_tensor_file(self.path, kind=CHECKPOINT_KIND, schema=CHECKPOINT_SCHEMA)
        if document.get("identity") != self.identity:
            raise ModelFileError(
                f"checkpoint {self.path} belongs to a run with other data or settings; give the same data and "
                "settings, or start again without resuming",
                document.get("identity"),
            )
        for name, axes in document.get("axes", {}).items():  # files of older versions do not contain the axes
            tensors[name] = _with_axes_in_memory(tensors[name], axes)
        return tensors, History(tuple(document["history"])), int(document["iteration"])


def _axes_in_memory(value: Tensor) -> list[int]:
    """Return the axes of a tensor in the order of their strides in memory, the largest stride first."""
    steps = value.stride()
    return sorted(range(value.dim()), key=lambda axis: -steps[axis])


def _with_axes_in_memory(value: Tensor, axes: list[int]) -> Tensor:
    """Return an equal tensor whose axes have the given order in memory."""
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return value.permute(axes).contiguous().permute(back)


@with_hints
@torch_threads()
def run_loop(
    algorithm: Algorithm[StateT],
    state: StateT,
    n_iterations: int,
    run: RunOptions = RunOptions(),
    *,
    identity: str = "",
    exhausted: Callable[[StateT], bool] | None = None,
    unchanged: Callable[[History], bool] | None = None,
) -> LoopResult[StateT]:
    """Run an algorithm until it converges or reaches its maximum number of iterations.

    Torch uses one thread, unless more threads are requested; see `torch_threads`.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Initial state.
    n_iterations : int
        Maximum number of iterations, including earlier iterations of a resumed run.
    run : RunOptions
    identity : str
        Digest of the settings and the data; see `Checkpoint`.
    exhausted : callable, optional
        Function that returns True if no further iteration is possible from a state, for example because the maximum
        number of evaluations of the target is reached.
    unchanged : callable, optional
        Function that maps the history of a complete run to True if the run returns its initial model.

    Returns
    -------
    LoopResult
        The status is NON_FINITE if the objective `elbo` of the last iteration is not finite. After Ctrl-C, the status
        is INTERRUPTED, and the result and the checkpoint contain the last complete iteration.

    Raises
    ------
    ModelFileError
        If a run should be resumed, but the checkpoint cannot be read or belongs to another run.

    Examples
    --------
    Run a custom learner that halves its only parameter in each iteration:

    >>> from dataclasses import dataclass
    >>> import torch
    >>> from eim_ros.learning import run_loop
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     value: torch.Tensor
    ...     iteration: int = 0
    ...     model = kept = property(lambda self: self)
    ...     def tensors(self):
    ...         return {"value": self.value}
    >>> class Halving:
    ...     def step(self, state):
    ...         return Point(0.5 * state.value, state.iteration + 1), {"value": float(state.value)}
    ...     def finished(self, history):
    ...         return history.column("value")[-1] < 0.1
    >>> result = run_loop(Halving(), Point(torch.tensor(1.0)), n_iterations=100)
    >>> result.status.value, result.state.iteration
    ('converged', 5)
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
            if run.verbose and state.iteration % run.verbose == 0:
                print("  ".join(f"{name} {value:.6g}" for name, value in record.items()), flush=True)  # noqa: T201
            answers = [callback(state, record) for callback in run.callbacks]
            if algorithm.finished(history):
                status = Status.CONVERGED
                break
            if any(isinstance(answer, (bool, np.bool_)) and answer for answer in answers):
                status = Status.STOPPED
                break
            if checkpoint is not None and state.iteration % run.checkpoint_every == 0:
                checkpoint.save(complete, history, state.iteration)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if status in (Status.CONVERGED, Status.MAX_ITERATIONS) and unchanged is not None and unchanged(history):
        status = Status.UNCHANGED
    if status is not Status.INTERRUPTED and not math.isfinite(record.get("elbo", 0.0)):
        status = Status.NON_FINITE
    if checkpoint is not None:
        checkpoint.save(complete, history, state.iteration)
    return LoopResult(status, history, state)


def _copied(state: State, checkpoint: Checkpoint | None) -> dict[str, Tensor]:
    """Copy the tensors of a state for the checkpoint, because an interrupted step may have modified them in place."""
    return {} if checkpoint is None else {name: value.clone() for name, value in state.tensors().items()}


def _finite(model: Model) -> bool:
    return all(all_finite(value) for value in model.tensors().values())


def on_plateau(history: History, window: int, *, restricted: bool = False) -> bool:
    """Return whether the objective of a history has stopped rising according to `rests`.

    The history contains the objective as `elbo` and its noise as `elbo_standard_error` [nat]. If the target is zero at
    some samples, `elbo` is minus infinity and not recorded. With `restricted`, the objective inside the support
    (`elbo_inside`) is used instead.
    """
    recorded = [record for record in history.records[-2 * window :] if "elbo_standard_error" in record]
    objective = [
        record.get("elbo_inside" if restricted else "elbo", record.get("elbo", -math.inf)) for record in recorded
    ]
    return rests(objective, [record["elbo_standard_error"] for record in recorded], window)


def rests(objective: Sequence[float], standard_errors: Sequence[float], window: int) -> bool:
    """Return whether an objective has stopped rising, given its estimate and standard error in each iteration [nat].

    An objective has stopped rising if its mean over the last window exceeds its mean over the previous window by no
    more than the noise. In addition, the standard errors must have stopped falling, or be negligible. Falling standard
    errors indicate progress: if the model can represent the target exactly, the noise vanishes as the model approaches
    the target. A new component may lower the objective for some iterations. Such low values are ignored, and the result
    is False if the last value is low. `window` is the number of iterations in a window. If it is 0, the result is
    False.
    """
    pairs = list(zip(objective[-2 * window :], standard_errors[-2 * window :], strict=False))
    if window == 0 or len(pairs) < 2 * window:
        return False
    first, second = _without_falls(pairs[:window]), _without_falls(pairs[window:])
    if not (first and second):  # all values are NaN
        return False
    (old, old_noise, before), (new, new_noise, last) = _mean(first), _mean(second)
    steady = last >= STEADY * before or last <= NEGLIGIBLE
    return new - old <= math.hypot(old_noise, new_noise) + NEGLIGIBLE and steady and second[-1] is pairs[-1]


def _without_falls(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the values with their standard errors, except values far below an earlier value."""
    usual, least = [], -math.inf
    fall = OUTLIER * median(error for _, error in pairs) + NEGLIGIBLE
    for pair in pairs:
        if pair[0] >= least:
            usual.append(pair)
            least = max(least, pair[0] - fall)
    return usual


def _mean(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the mean of values, its standard error, and the mean of their standard errors."""
    values, errors = zip(*pairs, strict=True)
    return sum(values) / len(values), math.hypot(*errors) / len(errors), sum(errors) / len(errors)


def timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """Call a function; return its result and the CPU time that this process spent on it [s]."""
    started = time.process_time()
    return work(), time.process_time() - started


def completed(result: FitResult[Any]) -> MixtureOfExperts | GaussianMixture:
    """Return the model of a fit. Raise `KeyboardInterrupt` if Ctrl-C ended the fit."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.model
