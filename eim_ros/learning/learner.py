"""The template of all learners: settings, data and a start in; a run of the loop; the fitted model out.

A learner writes `prepare`, which turns data into an algorithm and its first state. Settings come by keyword or as one
object, randomness from a seed or a generator.
"""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch

from eim_ros.core.checks import expect
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, field_types
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.run import Algorithm, ExpertsState, FitResult, RunOptions, run_loop

ConfigT = TypeVar("ConfigT", bound=Settings)
StateT = TypeVar("StateT", bound=ExpertsState)

SCIKIT_LEARN_NAMES = {
    "max_iter": "n_iterations",
    "n_init": "n_starts",
    "random_state": "seed",
    "reg_covar": "covariance_floor",
    "tol": "tolerance",
}


def configuration(kind: type[ConfigT], config: ConfigT | None, settings: Mapping[str, Any]) -> ConfigT:
    """Settings of a learner.

    Parameters
    ----------
    kind : type
        Of the settings.
    config : Settings, optional
        The defaults if missing.
    settings : mapping
        Values by name, which replace those of `config`.

    Raises
    ------
    ConfigurationError
        Names that are no settings, with the likely ones; a `config` of another kind; values out of bounds.
    """
    if config is not None and not isinstance(config, kind):
        raise ConfigurationError(
            f"the settings must be a {kind.__name__} or keywords, as in n_components=10, got {config!r}", config
        )
    known = set(field_types(kind))
    for name in settings:
        if name not in known and SCIKIT_LEARN_NAMES.get(name) in known | {"seed"}:
            raise ConfigurationError(f"unknown setting {name}; here it is {SCIKIT_LEARN_NAMES[name]}", name)
    if config is None:
        config = kind()
    return config.replace(**settings) if settings else config


def checked_seed(seed: Any) -> int:
    """The seed, if it is a whole number from 0 on; `ConfigurationError` otherwise."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigurationError(f"seed must be a whole number from 0 on, got {seed!r}", seed)
    return seed


def generator_from(generator: torch.Generator | None, seed: int) -> torch.Generator:
    """The generator, or one of the seed; `ConfigurationError` if it is neither a generator nor None."""
    if generator is None:
        return torch.Generator().manual_seed(seed)
    if not isinstance(generator, torch.Generator):
        raise ConfigurationError(
            f"generator must be a torch.Generator, got {generator!r}; a seed is given to the learner, as in EM(seed=3)",
            generator,
        )
    return generator


def checked_device(name: str) -> str:
    """The name of a device that this PyTorch has, "cpu" or "cuda" with or without a number."""
    try:
        device = torch.device(name) if isinstance(name, str) else None
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigurationError(f"unknown device {name!r}; use cpu or cuda", name)
    if device.type == "cuda":
        n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not n_devices:
            raise ConfigurationError("this PyTorch sees no CUDA device; use --device cpu", name)
        if (device.index or 0) >= n_devices:
            raise ConfigurationError(f"there is no {name}; this PyTorch sees {n_devices} CUDA devices", name)
    return name


@dataclass(frozen=True)
class Prepared(Generic[StateT]):
    """A run that can begin.

    Attributes
    ----------
    algorithm : Algorithm
    state : ExpertsState
        The first one.
    n_iterations : int
        Most iterations.
    data : Pairs
        What is fitted to, as it was given.
    start : MixtureOfExperts, optional
        The start, if it tells runs apart because there are no data.
    exhausted : callable, optional
        Whether a state allows no further iteration, see `run_loop`.
    """

    algorithm: Algorithm[StateT]
    state: StateT
    n_iterations: int
    data: Pairs
    start: MixtureOfExperts | None = None
    exhausted: Callable[[StateT], bool] | None = None


class Learner(ABC, Generic[ConfigT, StateT]):
    """Base of the learners of mixtures.

    Parameters
    ----------
    config : Settings, optional
        The defaults if missing.
    seed : int
        Seed of fits that are given no generator.
    **settings
        Fields of the settings, which replace those of `config`: `EM(n_components=10, seed=3)`.

    Attributes
    ----------
    Config : type
        The settings' class.
    bounds : tuple of str
        Settings that a resumed run may change, because they only bound its length.
    """

    Config: ClassVar[type[Settings]]
    bounds: ClassVar[tuple[str, ...]] = ("n_iterations",)

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
        """Check data and start, and return the run that `fit` makes.

        Parameters
        ----------
        data, start
            As in `fit`.
        generator : torch.Generator
            All randomness of the fit.
        """

    @torch_threads()
    def fit(
        self,
        data: Any = None,
        start: MixtureOfExperts | GaussianMixture | None = None,
        *,
        generator: torch.Generator | None = None,
        run: RunOptions = RunOptions(),
    ) -> FitResult[StateT]:
        """Fit a model.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims). A learner
            says if it takes less.
        start : MixtureOfExperts or GaussianMixture, optional
            Model that the first iteration improves; the learner makes one if it is missing.
        generator : torch.Generator, optional
            All randomness; the learner's seed if missing. Its device is where the fit runs.
        run : RunOptions
            Callbacks and checkpoints.

        Returns
        -------
        FitResult
            The fitted model, how the run ended, and its history. The class says what the history holds.

        Raises
        ------
        ConfigurationError
            Settings that do not fit the model.
        DataError
            Fewer points than experts; empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data, or one that gives the data no density.
        """
        expect(run, RunOptions, "run")
        started = time.process_time()
        seed = generator_from(generator, self.seed).initial_seed() if generator is not None else self.seed
        prepared = self.prepare(data, start, self._randomness(generator))
        origin = {"algorithm": self.algorithm, "config": self.config.to_mapping(), "seed": seed, **self._described()}
        result = run_loop(
            prepared.algorithm,
            prepared.state,
            prepared.n_iterations,
            run,
            identity="" if run.checkpoint is None else self._identity(prepared, origin),
            exhausted=prepared.exhausted,
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
        """Return what else identifies a run, and is recorded with its settings."""
        return {}

    def _randomness(self, generator: torch.Generator | None) -> torch.Generator:
        """Return the generator of a fit."""
        return generator_from(generator, self.seed)

    def _identity(self, prepared: Prepared[StateT], origin: Mapping[str, Any]) -> str:
        """Return a digest of everything but the length of the run, so that a resumed run may be a longer one."""
        settings = {name: value for name, value in origin["config"].items() if name not in self.bounds}
        about = {**origin, "config": settings, "settings": type(self.config).__name__}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        tensors = [prepared.data.context, prepared.data.sample]
        if prepared.start is not None:
            tensors += prepared.start.tensors().values()
        for tensor in tensors:
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return digest.hexdigest()

    def _finished(self, result: FitResult[StateT]) -> FitResult[StateT]:
        """Return the result as the caller sees it."""
        return result
