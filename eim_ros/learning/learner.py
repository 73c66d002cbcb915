"""Base class of the learners. A learner fits a model to data, given settings and an initial model.

A subclass implements `prepare`, which turns the data into an algorithm and its initial state. `run_loop` then runs this
algorithm. Pass settings by keyword or as one object, and randomness as a seed or a generator. `Validated` wraps an
algorithm, and stops it when the likelihood of validation data no longer rises.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor

from eim_ros.core.checks import expect, with_hints
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, field_types
from eim_ros.core.synonyms import synonyms
from eim_ros.learning.data import Pairs, checked_data, weighted
from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.run import Algorithm, ExpertsState, FitResult, FittedModel, History, RunOptions, run_loop

ConfigT = TypeVar("ConfigT", bound=Settings)
StateT = TypeVar("StateT", bound=ExpertsState)

CPU = torch.device("cpu")
VALIDATION = "validation_log_likelihood"  # name in the history
VALIDATED = "validated."  # prefix of the tensors of the best model in a checkpoint
START = "fit(data, start=...)"
STARTS = ("means_init", "weights_init", "precisions_init", "warm_start", "init_params", "init", "x0", "initial_mean")
RUN_OPTIONS = {
    **dict.fromkeys(("callback", "callbacks"), "run=RunOptions(callbacks=[...])"),
    **{word: f"run=RunOptions({word}=...)" for word in ("checkpoint", "checkpoint_every", "resume")},
    "verbose": "run=RunOptions(verbose=True)",
}
GIVEN_TO_FIT = {
    **dict.fromkeys(STARTS, START),
    **{word: f"fit(data, {option})" for word, option in RUN_OPTIONS.items()},
    "device": "fit(data, generator=torch.Generator(device))",
    "sample_weight": "fit(data, sample_weight=...)",
    "validation_data": "fit(data, validation_data=...)",
    **dict.fromkeys(
        ("n_dims", "dim", "num_dimensions"),
        "fit(start=random_start(n_dims=..., n_components=...)), or to GMMVI, as in GMMVI(target, n_dims=2)",
    ),
}
"""Settings of other libraries that are arguments of `fit` here."""


def configuration(kind: type[ConfigT], config: ConfigT | None, settings: Mapping[str, Any]) -> ConfigT:
    """Return `config`, or the defaults of the class `kind` if it is None, with `settings` replaced by name.

    `ConfigurationError` is raised for an unknown name, for a value out of bounds, or for a `config` of another class.
    For an unknown name, the error suggests similar names.
    """
    if config is not None and not isinstance(config, kind):
        named = f", such as {kind.__name__}.named(...)" if hasattr(kind, "named") else ""
        raise ConfigurationError(
            f"the settings must be keywords, as in n_components=10, or an object of {kind.__name__}{named}, got "
            f"{config!r}",
            config,
        )
    known = set(field_types(kind))
    for name in (name for name in settings if name not in known):
        if name in GIVEN_TO_FIT:
            raise ConfigurationError(
                f"unknown setting {name}; give it to fit instead, as in {GIVEN_TO_FIT[name]}", name
            )
        if same := synonyms(name, known | {"seed"}):
            raise ConfigurationError(f"unknown setting {name}; in this package it is called {' or '.join(same)}", name)
    if config is None:
        config = kind()
    return config.replace(**settings) if settings else config


def checked_seed(seed: Any) -> int:
    """Return the seed if it is a non-negative integer; otherwise raise `ConfigurationError`."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ConfigurationError(f"seed must be a non-negative integer, got {seed!r}", seed)
    return int(seed)


def generator_from(
    generator: torch.Generator | None, seed: int, device: torch.device = CPU, only_on_cpu: str = ""
) -> torch.Generator:
    """Return the generator, or a new one with the given seed on the given device if it is None.

    `only_on_cpu` is the name of a learner that refuses generators on other devices. `ConfigurationError` is raised for
    such a generator, and for objects that are not generators.
    """
    if generator is None:
        return torch.Generator(device).manual_seed(seed)
    if not isinstance(generator, torch.Generator):
        raise ConfigurationError(
            f"generator must be a torch.Generator, got {generator!r}; to set a seed, give it to the learner, as in "
            "EM(seed=3)",
            generator,
        )
    if only_on_cpu and generator.device.type != "cpu":
        raise ConfigurationError(
            f"{only_on_cpu} runs on the CPU only, but the generator is on {generator.device}; give a generator on "
            "the CPU",
            str(generator.device),
        )
    return generator


def device_of(data: Any) -> torch.device:
    """Return the device of the first tensor in the data, or the CPU for other arrays."""
    parts = (data.sample,) if isinstance(data, Pairs) else data if isinstance(data, (tuple, list)) else (data,)
    return next((part.device for part in parts if isinstance(part, Tensor)), CPU)


def checked_device(name: str) -> str:
    """Return the name of a device if it is available to PyTorch; otherwise raise `ConfigurationError`.

    Valid names are "cpu", "cuda", and "cuda" with a number, such as "cuda:1".
    """
    try:
        device = torch.device(name) if isinstance(name, str) else None
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigurationError(f"unknown device {name!r}; use cpu or cuda", name)
    if device.type == "cuda":
        n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not n_devices:
            raise ConfigurationError(f"{name} cannot be used because PyTorch finds no CUDA device; use cpu", name)
        if (device.index or 0) >= n_devices:
            raise ConfigurationError(
                f"there is no device {name}, because PyTorch finds only {n_devices} CUDA device(s), numbered from 0; "
                "use one of these devices",
                name,
            )
    return name


@dataclass(frozen=True)
class Prepared(Generic[StateT]):
    """Arguments of `run_loop`, and the data that identify the run."""

    algorithm: Algorithm[StateT]
    state: StateT  # initial state
    n_iterations: int  # maximum number of iterations
    data: Pairs  # training data, in their original units
    # Initial model. The initial model helps to identify a run without samples.
    start: MixtureOfExperts | None = None
    # function that returns True if no further iteration is possible from a state; see `run_loop`
    exhausted: Callable[[StateT], bool] | None = None
    # function that returns True if the run returns its initial model; see `run_loop`
    unchanged: Callable[[History], bool] | None = None
    validation: Pairs | None = None  # data whose likelihood decides when the run ends

    def validated(self, validation_data: Any, patience: int) -> Prepared[Any]:
        """Return the arguments of a run that ends when the likelihood of validation data no longer rises."""
        data = checked_data(validation_data)
        sizes = [(part.context.shape[1], part.sample.shape[1]) for part in (data, self.data)]
        if sizes[0] != sizes[1] or data.conditional != self.data.conditional:
            raise DataError(
                f"validation_data must have the same (n_context, n_dims) as the data, {sizes[1]}, got {sizes[0]}",
                sizes[0],
            )
        model = self.state.model
        data = data.to(model.device)
        state = ValidatedState(self.state, model, mean_log_prob(model, data))
        algorithm: Any = Validated(self.algorithm, data, patience)
        return Prepared(algorithm, state, self.n_iterations, self.data, self.start, self.exhausted, validation=data)


@with_hints
class Learner(ABC, Generic[ConfigT, StateT]):
    """Base class of the learners of mixtures.

    Parameters
    ----------
    config : Settings, optional
        If omitted, all settings have their default values.
    seed : int
        Seed of fits without a generator.
    **settings
        Settings by keyword, which override settings of `config`: `EM(n_components=10, seed=3)`.
    """

    Config: ClassVar[type[Settings]]  # class of the settings
    # settings that only limit the length of a run, and may change when the run is resumed
    bounds: ClassVar[tuple[str, ...]] = ("n_iterations",)
    # unsupported arguments of `fit`, with the alternative that the error message suggests
    refused: ClassVar[Mapping[str, str]] = {
        "sample_weight": "draw rows of the data in proportion to their weights",
        "validation_data": "compare the scores of several fits",
    }

    _KEYWORDS: ClassVar = {**RUN_OPTIONS, "seed": "a seed of the learner, as in EM(seed=3)"}

    def __init__(self, config: ConfigT | None = None, *, seed: int = 0, **settings: Any) -> None:
        self.config: ConfigT = configuration(cast(type[ConfigT], self.Config), config, settings)
        self.seed = checked_seed(seed)

    @property
    @abstractmethod
    def algorithm(self) -> str:
        """Name of the learner in records and on the command line."""

    @abstractmethod
    def prepare(
        self, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[StateT]:
        """Validate the data and the initial model, and return everything that `fit` needs to start the run.

        Parameters
        ----------
        data, start
            As in `fit`.
        generator : torch.Generator
            Source of all randomness of the fit.
        """

    @torch_threads()
    def fit(
        self,
        data: Any = None,
        start: MixtureOfExperts | GaussianMixture | FittedModel | None = None,
        *,
        sample_weight: Any = None,
        validation_data: Any = None,
        generator: torch.Generator | None = None,
        run: RunOptions = RunOptions(),
    ) -> FitResult[StateT]:
        """Fit a model.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims), or a pair of contexts (n_samples, n_context) and samples (n_samples, n_dims).
            Some learners also accept contexts alone, or None; see their documentation.
        start : MixtureOfExperts, GaussianMixture or FittedModel, optional
            Initial model, for example the result of an earlier fit. By default, the learner creates an initial model.
        sample_weight : array or Tensor (n_samples,), optional
            Weights of the samples. A weight of 2 has the same effect as including the sample twice. Only `EM` supports
            weights.
        validation_data : as `data`, optional
            The fit ends when the mean log-likelihood of these data has not risen for `patience` iterations. The result
            is the model with the highest likelihood of these data. The history also contains the
            `validation_log_likelihood` of the model after each iteration [nat]. Only `EM` and `TruncatedEM` support
            validation data.
        generator : torch.Generator, optional
            Source of all randomness. The fit runs on the generator's device. By default, a new generator on the device
            of the data is used, with the learner's seed.
        run : RunOptions
            Callbacks, printed progress and checkpoints.

        Returns
        -------
        FitResult
            The fitted model, the status of the run, and its history. The class of the learner documents the history.

        Raises
        ------
        ConfigurationError
            If the settings do not fit the model.
        DataError
            If there are fewer samples than components, or if the data are empty, not finite, or of unequal length.
        DistributionError
            If the initial model and the data differ in their dimensions, or the data have zero density under the
            initial model.
        """
        expect(run, RunOptions, "run")
        started = time.process_time()
        given = {"sample_weight": sample_weight, "validation_data": validation_data}
        for name, remedy in self.refused.items():
            if given[name] is not None:
                raise ConfigurationError(f"{type(self).__name__} does not support {name}; {remedy}", name)
        if isinstance(start, FittedModel):
            start = start.model
        if sample_weight is not None:
            data = weighted(data, sample_weight)
        seed = generator_from(generator, self.seed).initial_seed() if generator is not None else self.seed
        prepared = self.prepare(data, start, self._randomness(generator, data))
        if validation_data is not None:
            prepared = prepared.validated(validation_data, getattr(self.config, "patience", 0))
        origin = {"algorithm": self.algorithm, "config": self.config.to_mapping(), "seed": seed, **self._described()}
        result = run_loop(
            prepared.algorithm,
            prepared.state,
            prepared.n_iterations,
            run,
            identity="" if run.checkpoint is None else self._identity(prepared, origin),
            exhausted=prepared.exhausted,
            unchanged=prepared.unchanged,
        )
        return self._finished(
            FitResult(
                result.state.kept,
                result.status,
                result.history,
                result.state,
                conditional=prepared.data.conditional,
                origin=origin,
                cpu_seconds=time.process_time() - started,
                n_samples=len(prepared.data),
            )
        )

    def _described(self) -> dict[str, Any]:
        """Return additional entries of `FitResult.origin` that identify a run."""
        return {}

    def _randomness(self, generator: torch.Generator | None, data: Any) -> torch.Generator:
        """Return the generator of a fit."""
        return generator_from(generator, self.seed, device_of(data))

    def _identity(self, prepared: Prepared[StateT], origin: Mapping[str, Any]) -> str:
        """Return a digest of everything except the length of the run, because a resumed run may be longer."""
        settings = {name: value for name, value in origin["config"].items() if name not in self.bounds}
        about = {**origin, "config": settings, "settings": type(self.config).__name__}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        tensors = [prepared.data.context, prepared.data.sample]
        if prepared.data.weight is not None:
            tensors.append(prepared.data.weight)
        if prepared.validation is not None:
            tensors += [prepared.validation.context, prepared.validation.sample]
        if prepared.start is not None:
            tensors += prepared.start.tensors().values()
        for tensor in tensors:
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()

    def _finished(self, result: FitResult[StateT]) -> FitResult[StateT]:
        """Return the result that `fit` returns to the caller. Subclasses may replace it."""
        return result


def mean_log_prob(model: MixtureOfExperts, data: Pairs) -> float:
    """Return the mean log density of the data [nat]."""
    return float(model.log_prob(data.context, data.sample).mean())


@dataclass(frozen=True)
class ValidatedState:
    """State of a learner, and the model with the highest likelihood of the validation data so far."""

    learner: Any
    best: MixtureOfExperts
    best_value: float

    @property
    def model(self) -> MixtureOfExperts:
        model: MixtureOfExperts = self.learner.model
        return model

    @property
    def kept(self) -> MixtureOfExperts:
        return self.best

    @property
    def iteration(self) -> int:
        return int(self.learner.iteration)

    def tensors(self) -> dict[str, Tensor]:
        best = {f"{VALIDATED}{name}": value for name, value in self.best.tensors().items()}
        value = torch.tensor([self.best_value], dtype=torch.float64)
        return {**self.learner.tensors(), **best, "validated_value": value}


@dataclass(frozen=True)
class Validated:
    """Algorithm that stops when the likelihood of validation data has not risen for `patience` iterations."""

    algorithm: Algorithm[Any]
    data: Pairs
    patience: int

    def step(self, state: ValidatedState) -> tuple[ValidatedState, dict[str, float]]:
        following, record = self.algorithm.step(state.learner)
        reached = mean_log_prob(following.model, self.data)
        record = {**record, VALIDATION: reached}
        if reached > state.best_value:
            return ValidatedState(following, following.model, reached), record
        return ValidatedState(following, state.best, state.best_value), record

    def restore(self, state: ValidatedState, tensors: dict[str, Tensor], iteration: int) -> ValidatedState:
        best = MixtureOfExperts.from_tensors(tensors_of(VALIDATED, tensors)).to(device=state.best.device)
        own = {name: value for name, value in tensors.items() if not name.startswith(VALIDATED)}
        return ValidatedState(
            self.algorithm.restore(state.learner, own, iteration), best, float(tensors["validated_value"])
        )

    def finished(self, history: History) -> bool:
        """Return whether the learner has converged, or the likelihood has not risen for `patience` iterations.

        If EM has several starts, only its last start ends early.
        """
        starts = history.column("start")
        records = [record for record in history.records if not starts or record["start"] == starts[-1]]
        values = [record.get(VALIDATION, -math.inf) for record in records]
        last_start = not starts or starts[-1] == self.n_starts - 1
        waited = len(values) - 1 - values.index(max(values))
        return (last_start and waited >= self.patience) or self.algorithm.finished(history)

    @property
    def n_starts(self) -> int:
        return int(getattr(getattr(self.algorithm, "config", None), "n_starts", 1))
