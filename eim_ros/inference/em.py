"""Expectation maximisation for mixtures and for mixtures of linear experts (thesis 2.1.3, 5.2).

E-step: responsibilities q(z|x,y), or in hard EM the most probable component alone. M-step: weighted least squares for
the experts, the mean responsibilities for the weights or softmax regression for a gating (a few L-BFGS steps, which
makes it generalised EM). No step lowers the likelihood; hard EM raises the free energy, its lower bound (Luecke 2016,
Prop. 8).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.distributions.standardisation import Standardisation
from eim_ros.errors import DistributionError
from eim_ros.inference.branches import branching_start
from eim_ros.inference.expectation import expect
from eim_ros.inference.initial_model import initial_mixture_of_experts
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.maximisation import maximise
from eim_ros.inference.model_family import FamilyConfig, is_linear, with_networks
from eim_ros.inference.neural_em import iterate
from eim_ros.inference.run import Checkpoint, FitResult, History, run
from eim_ros.inference.training_data import Pairs, checked_data, checked_start
from eim_ros.numerics.status import Status
from eim_ros.numerics.threads import torch_threads
from eim_ros.settings import option

__all__ = ["EM", "EMConfig", "EMState", "initial_mixture_of_experts"]

BEST = "best."  # prefix of the best earlier start's tensors in a checkpoint


@dataclass(frozen=True)
class EMConfig(FamilyConfig):
    """Settings of `EM`."""

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(100, "upper bound on iterations", minimum=0)
    tolerance: float = option(
        1e-4, "stop when the mean log-likelihood rises by less than this", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(
        1e-6, "least variance of an expert in any direction, relative to the data's variances", minimum=0.0
    )
    gating_iterations: int = option(5, "L-BFGS iterations of the gating per M-step", minimum=1)
    n_starts: int = option(1, "runs from different starts, of which the best is kept", minimum=1)
    hard: bool = option(False, "give each point to its most probable expert alone")


@dataclass(frozen=True)
class EMState:
    """State of `EM`.

    Attributes
    ----------
    model : MixtureOfExperts
        Of the present start.
    iteration : int
        Of all starts together.
    start : int
        Which start this is.
    begun : int
        Iteration at which it began.
    value : float
        Its objective one step ago [nat].
    best : MixtureOfExperts, optional
        The best result of the earlier starts.
    best_value : float
        Its objective one step before its last [nat].
    """

    model: MixtureOfExperts
    iteration: int
    start: int = 0
    begun: int = 0
    value: float = -math.inf
    best: MixtureOfExperts | None = None
    best_value: float = -math.inf

    @property
    def kept(self) -> MixtureOfExperts:
        return self.model if self.best is None or self.value > self.best_value else self.best

    def tensors(self) -> dict[str, Tensor]:
        best = {} if self.best is None else {f"{BEST}{name}": value for name, value in self.best.tensors().items()}
        progress = torch.tensor([self.start, self.begun, self.value, self.best_value], dtype=torch.float64)
        return {**self.model.tensors(), **best, "progress": progress}


class EM:
    """Maximum likelihood mixture, or mixture of linear experts.

    Parameters
    ----------
    config : EMConfig, optional
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `EMConfig`, which replace those of `config`: `EM(n_components=10, seed=3)`.
    """

    def __init__(self, config: EMConfig | None = None, *, seed: int = 0, **settings: Any) -> None:
        self.config = configuration(EMConfig, config, settings)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        data: Any,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[EMState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[EMState]:
        """Fit to samples.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts or GaussianMixture, optional
            Start of any family, with any number of components; k-means on the standardised joint otherwise, and for all
            starts but the first.
        generator : torch.Generator, optional
            Randomness of the starts; the learner's seed if missing.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            Its history holds the mean `log_likelihood` of the data before each step, for hard EM also the `free_energy`
            [nat]; with several starts it is that of the best one.

        Raises
        ------
        DataError
            Fewer points than experts, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data, or so far off that the data have no density.
        """
        checked = checked_data(data)
        fitting = _Fitting.from_data(self.config, checked, initial, generator_from(generator, self.seed))
        result = run(
            fitting,
            EMState(fitting.start(0), 0),
            self.config.n_starts * self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )
        return result if self.config.n_starts == 1 else self._of_the_best_start(result)

    def _of_the_best_start(self, result: FitResult[EMState]) -> FitResult[EMState]:
        """The result as if the run had begun with its best start."""
        of_start: dict[float, list[dict[str, float]]] = {}
        for record in result.history.records:
            of_start.setdefault(record["start"], []).append(record)
        if not of_start:
            return result
        name = _objective(self.config)
        best = max(of_start, key=lambda start: of_start[start][-1][name])
        history = History(tuple(of_start[best]))
        status = result.status
        if status is not Status.INTERRUPTED:
            converged = _converged(self.config, history.column(name))
            status = Status.CONVERGED if converged else Status.MAX_ITERATIONS
        return dataclasses.replace(result, history=history, status=status)


@dataclass(frozen=True)
class _Fitting:
    """EM on one data set, as an `Algorithm`; it works in standardised coordinates."""

    config: EMConfig
    data: Pairs
    units: Standardisation
    joint: Tensor
    initial: MixtureOfExperts | None
    seed: int

    @classmethod
    def from_data(
        cls,
        config: EMConfig,
        data: Pairs,
        initial: MixtureOfExperts | GaussianMixture | None,
        generator: torch.Generator,
    ) -> _Fitting:
        start = None if initial is None else checked_start(initial, data)
        if start is not None:
            data = data.to(start.device)
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device))
        units = Standardisation.from_data(data.context, data.sample)
        return cls(config, data, units, units.joint(data.context, data.sample), start, seed)

    def start(self, index: int) -> MixtureOfExperts:
        """The start of a run; each has its own seed, so that it does not depend on the runs before."""
        if index == 0 and self.initial is not None:
            return self.initial
        generator = torch.Generator().manual_seed(self.seed + index)
        config = self.config
        context, sample, floor = self.data.context, self.data.sample, config.covariance_floor
        if config.components == "neural":
            return branching_start(config, context, sample, config.n_components, generator, floor)
        start = initial_mixture_of_experts(context, sample, config.n_components, generator, floor)
        return start if config.is_linear else with_networks(start, config, context, generator)

    def step(self, state: EMState) -> tuple[EMState, dict[str, float]]:
        following, record = self._linear(state.model) if is_linear(state.model) else self._neural(state.model)
        value, iteration = record[_objective(self.config)], state.iteration + 1
        if self.config.n_starts == 1:
            return dataclasses.replace(state, model=following, iteration=iteration, value=value), record
        record["start"] = float(state.start)
        ended = value - state.value < self.config.tolerance or iteration - state.begun >= self.config.n_iterations
        following_state = dataclasses.replace(state, model=following, iteration=iteration, value=value)
        if ended and state.start + 1 < self.config.n_starts:
            best, index = following_state.kept, state.start + 1
            following_state = EMState(
                self.start(index), iteration, index, iteration, best=best, best_value=max(value, state.best_value)
            )
        return following_state, record

    def _linear(self, old: MixtureOfExperts) -> tuple[MixtureOfExperts, dict[str, float]]:
        """A better model, and how good the old one was."""
        model = self.units.standard(old)
        expectation = expect(model, self.joint, 1 if self.config.hard else None)
        if not math.isfinite(expectation.log_likelihood):
            raise DistributionError("the start is so far from some of the data that they have no density", model)
        maximum = maximise(
            model,
            expectation.moments,
            self.joint[:, self.units.n_dims :],
            covariance_floor=self.config.covariance_floor,
            gating_iterations=self.config.gating_iterations,
        )
        offset = maximum.log_normaliser + self.units.log_volume()
        record = {"log_likelihood": expectation.log_likelihood - offset}
        if self.config.hard:
            record["free_energy"] = expectation.free_energy - offset
        return self.units.original(maximum.model), record

    def _neural(self, old: MixtureOfExperts) -> tuple[MixtureOfExperts, dict[str, float]]:
        iteration = iterate(
            old,
            self.data,
            self.config.fit_settings,
            covariance_floor=self.config.covariance_floor,
            gating_iterations=self.config.gating_iterations,
            hard=self.config.hard,
        )
        if not math.isfinite(iteration.log_likelihood):
            raise DistributionError("the start is so far from some of the data that they have no density", old)
        record = {"log_likelihood": iteration.log_likelihood}
        return iteration.model, record | ({"free_energy": iteration.free_energy} if self.config.hard else {})

    def restore(self, state: EMState, tensors: dict[str, Tensor], iteration: int) -> EMState:
        model = MixtureOfExperts.from_tensors(tensors).to(device=state.model.device)
        best = {name.removeprefix(BEST): value for name, value in tensors.items() if name.startswith(BEST)}
        start, begun, value, best_value = tensors["progress"].tolist()
        kept = MixtureOfExperts.from_tensors(best).to(device=state.model.device) if best else None
        return EMState(model, iteration, int(start), int(begun), value, kept, best_value)

    def finished(self, history: History) -> bool:
        last = float(self.config.n_starts - 1)
        name = _objective(self.config)
        values = [record[name] for record in history.records if record.get("start", last) == last]
        full = self.config.n_starts > 1 and len(values) == self.config.n_iterations
        return full or _converged(self.config, values)


def _objective(config: EMConfig) -> str:
    return "free_energy" if config.hard else "log_likelihood"


def _converged(config: EMConfig, values: list[float]) -> bool:
    return len(values) > 1 and values[-1] - values[-2] < config.tolerance
