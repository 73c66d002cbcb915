"""One iteration of EM on one data set, and the passage from start to start: the best one's result is kept."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.distributions.standardisation import Standardisation
from eim_ros.errors import DistributionError
from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.expectation import expect
from eim_ros.inference.em.maximisation import maximise
from eim_ros.inference.em.neural_em import iterate
from eim_ros.inference.model_family import is_linear, with_networks
from eim_ros.inference.run import History
from eim_ros.inference.starts.branches import branching_start
from eim_ros.inference.starts.initial_model import initial_mixture_of_experts
from eim_ros.inference.training_data import Pairs, checked_start

__all__ = ["EMIteration", "EMState", "converged", "objective"]

BEST = "best."  # prefix of the best earlier start's tensors in a checkpoint


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


@dataclass(frozen=True)
class EMIteration:
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
    ) -> EMIteration:
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
        value, iteration = record[objective(self.config)], state.iteration + 1
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
        name = objective(self.config)
        values = [record[name] for record in history.records if record.get("start", last) == last]
        full = self.config.n_starts > 1 and len(values) == self.config.n_iterations
        return full or converged(self.config, values)


def objective(config: EMConfig) -> str:
    """Name of the figure that never falls."""
    return "free_energy" if config.hard else "log_likelihood"


def converged(config: EMConfig, values: list[float]) -> bool:
    """Whether the objective of one start, over its iterations, has come to rest."""
    return len(values) > 1 and values[-1] - values[-2] < config.tolerance
