"""Truncated EM for models of several hidden causes: binary sparse coding, noisy-OR, one's own (Luecke 2016, 6.1).

2^H states are too many for an exact E-step: each point keeps a set K(n) of C' of them, and its posterior is zero
elsewhere (algorithm 1). The free energy F(K, Theta) = sum_n log sum_{s in K(n)} p(s, y_n), a lower bound of the
log-likelihood, falls in neither half step: the E-step replaces states by others with greater joints, the M-step is the
model's own (Prop. 5, 6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from eim_ros.distributions.multiple_causes import MultipleCauseModel, sparsest_states
from eim_ros.errors import DataError, DistributionError
from eim_ros.inference.em.state_search import search_states
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.run import Checkpoint, History, LoopResult, run_loop
from eim_ros.inference.training_data import checked_data
from eim_ros.numerics.threads import torch_threads
from eim_ros.settings import Settings, option

__all__ = ["MultipleCauseEM", "MultipleCauseEMConfig", "MultipleCauseState"]

ModelT = TypeVar("ModelT", bound=MultipleCauseModel)


@dataclass(frozen=True)
class MultipleCauseEMConfig(Settings):
    """Settings of `MultipleCauseEM`."""

    n_iterations: int = option(200, "upper bound on iterations", minimum=0)
    tolerance: float = option(1e-4, "stop when the mean free energy rises by less than this", unit="nat", minimum=0.0)
    patience: int = option(10, "in all of so many iterations: the search for states is random", minimum=1)
    n_states: int = option(30, "states C' that share a point; all where there are no more", minimum=1)
    n_variations: int = option(20, "suggested per point: states of K(n) with one or two causes changed", minimum=0)
    n_draws: int = option(10, "suggested per point: draws by the probabilities of the causes in K(n)", minimum=0)
    initial_rounds: int = option(10, "rounds of suggestions in the first E-step", minimum=1)
    trial_iterations: int = option(50, "iterations after which the best of several starts is chosen", minimum=1)


@dataclass(frozen=True)
class MultipleCauseState(Generic[ModelT]):
    """State of `MultipleCauseEM`.

    Attributes
    ----------
    model : MultipleCauseModel
    iteration : int
    states : Tensor (n_samples, n_states, n_causes) of bool
        K(n) of the last E-step.
    generator : torch.Generator
        Advanced in place by each step.
    """

    model: ModelT
    iteration: int
    states: Tensor
    generator: torch.Generator

    @property
    def kept(self) -> ModelT:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        return {**self.model.tensors(), "states": self.states, "generator": self.generator.get_state()}


class MultipleCauseEM:
    """Fit of a model of binary causes by truncated variational EM.

    Parameters
    ----------
    config : MultipleCauseEMConfig
    seed : int
        Of all randomness, unless `fit` is given a generator.
    settings
        Settings by keyword, in place of those of `config`.
    """

    def __init__(self, config: MultipleCauseEMConfig | None = None, *, seed: int = 0, **settings: Any) -> None:
        self.config = configuration(MultipleCauseEMConfig, config, settings)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        sample: Any,
        initial: ModelT | Sequence[ModelT],
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[MultipleCauseState[ModelT], dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> LoopResult[MultipleCauseState[ModelT]]:
        """Fit to samples, on the CPU.

        Parameters
        ----------
        sample : Tensor (n_samples, n_dims)
        initial : MultipleCauseModel, or several
            Start; `BinarySparseCoding.start` and `NoisyOr.start` make one of the samples. Of several, the one whose
            free energy is the highest after `trial_iterations` is gone on with.
        generator : torch.Generator, optional
            Randomness of the suggestions; the learner's seed if missing.
        callbacks, checkpoint, resume
            See `run_loop`.

        Returns
        -------
        LoopResult
            `state.model` is the model. The history holds, of each E-step, the mean `free_energy` [nat] and the
            `joint_evaluations` per point.

        Raises
        ------
        DataError
            Empty, misshapen or non-finite samples, or such as the model can never make.
        DistributionError
            A start that is no model of causes, or of other dimensions than the samples.
        """
        data = checked_data(sample)
        if data.conditional:
            raise DataError("a model of causes takes samples alone, a matrix (n, d), got a pair with contexts")
        starts = [_checked_start(start) for start in (initial if isinstance(initial, Sequence) else [initial])]
        for start in starts:
            if start.n_dims != data.sample.shape[1]:
                sizes = (start.n_dims, data.sample.shape[1])
                raise DistributionError(f"the start has {sizes[0]} dimensions, but the data have {sizes[1]}", sizes)
            start.check(data.sample)
        seed = int(torch.randint(2**62, (1,), generator=generator_from(generator, self.seed)))
        fitting = _Fitting[ModelT](self.config, data.sample)
        return run_loop(
            fitting,
            fitting.best(starts, seed),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
        )


def _checked_start(model: ModelT) -> ModelT:
    """The model in the precision of the data; `DistributionError` if it is none."""
    if isinstance(model, type) or not isinstance(model, MultipleCauseModel):
        raise DistributionError(
            "the start must be a model of causes, as BinarySparseCoding.start and NoisyOr.start make, or a list of "
            f"such, got {model!r}",
            model,
        )
    tensors = model.tensors().items()
    return model.from_tensors({name: value.double() if value.is_floating_point() else value for name, value in tensors})


@dataclass(frozen=True)
class _Fitting(Generic[ModelT]):
    """Truncated EM on one data set, as an `Algorithm`."""

    config: MultipleCauseEMConfig
    sample: Tensor

    def best(self, starts: list[ModelT], seed: int) -> MultipleCauseState[ModelT]:
        """The start that leads farthest; each has its own seed, so that it does not depend on the others."""
        states = [self._state(start, seed + index) for index, start in enumerate(starts)]
        if not states:
            raise DistributionError("give a start at least, such as BinarySparseCoding.start makes", len(starts))
        if len(states) == 1:
            return states[0]
        n_iterations = self.config.trial_iterations
        trials = [run_loop(self, state, n_iterations).history.column("free_energy")[-1] for state in states]
        index = max(range(len(trials)), key=trials.__getitem__)
        return self._state(starts[index], seed + index)

    def _state(self, start: ModelT, seed: int) -> MultipleCauseState[ModelT]:
        n_causes = len(start.prior)
        n_states = min(self.config.n_states, 2 ** min(n_causes, 30))
        states = sparsest_states(n_causes, n_states).expand(len(self.sample), -1, -1)
        return MultipleCauseState(start, 0, states, torch.Generator().manual_seed(seed))

    def step(self, state: MultipleCauseState[ModelT]) -> tuple[MultipleCauseState[ModelT], dict[str, float]]:
        complete = state.states.shape[1] == 2 ** state.states.shape[2]
        found = search_states(
            state.model,
            self.sample,
            state.states,
            state.generator,
            n_variations=0 if complete else self.config.n_variations,
            n_draws=0 if complete else self.config.n_draws,
            n_rounds=self.config.initial_rounds if state.iteration == 0 else 1,
        )
        record = {"free_energy": found.free_energy, "joint_evaluations": found.n_evaluations / len(self.sample)}
        model = state.model.improved(self.sample, found.states, found.shares)
        return MultipleCauseState(model, state.iteration + 1, found.states, state.generator), record

    def restore(
        self, state: MultipleCauseState[ModelT], tensors: dict[str, Tensor], iteration: int
    ) -> MultipleCauseState[ModelT]:
        state.generator.set_state(tensors["generator"])
        return MultipleCauseState(state.model.from_tensors(tensors), iteration, tensors["states"], state.generator)

    def finished(self, history: History) -> bool:
        values = history.column("free_energy")
        return len(values) > self.config.patience and (
            values[-1] - values[-1 - self.config.patience] < self.config.tolerance
        )
