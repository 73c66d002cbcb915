"""Truncated EM for models with several hidden binary causes (Luecke 2016, 6.1).

An exact E-step would sum over 2^H states. Truncated EM keeps a set K(n) of C' states for each point n, and sets the
posterior of all other states to zero (algorithm 1). The free energy F(K, Theta) = sum_n log sum_{s in K(n)} p(s, y_n)
is a lower bound of the log-likelihood and never decreases (Prop. 5, 6). The E-step replaces states by states with
greater joint probabilities. The model defines the M-step.

The E-step suggests new states in three ways. Random variations change one or two causes of a state in K(n). Approximate
marginal sampling draws each cause independently. The probability of a cause is the mean of its probabilities under K(n)
and under the prior. If requested, a selection function chooses the most relevant causes of a point, and suggests
combinations of a few of these causes. The C' states with the greatest joint probabilities are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DataError, DistributionError
from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.learning.data import checked_data
from eim_ros.learning.discrete.causes import MultipleCauseModel, sparsest_states
from eim_ros.learning.learner import checked_seed, configuration, generator_from
from eim_ros.learning.run import History, LoopResult, RunOptions, run_loop

CHUNK_ELEMENTS = 2_000_000  # number of states times number of causes or dimensions, per block
SWAPS = 0.5  # share of the variations that change two causes
ModelT = TypeVar("ModelT", bound=MultipleCauseModel)


@dataclass(frozen=True)
class SearchedStates:
    """Result of a truncated E-step."""

    # (n_samples, n_states, n_causes) of bool, the new K(n) without duplicates, starting with the most probable state
    states: Tensor
    log_joint: Tensor  # (n_samples, n_states), log p(s, y) of each state [nat]
    n_evaluations: int  # number of evaluated joint probabilities

    @property
    def shares(self) -> Tensor:
        """Truncated posterior q_n(s), (n_samples, n_states) (eq. 3)."""
        return torch.softmax(self.log_joint, -1)

    @property
    def free_energy(self) -> float:
        """Mean of log sum_{s in K(n)} p(s, y_n) [nat] (eq. 6)."""
        return float(self.log_joint.logsumexp(-1).mean())


def search_states(
    model: MultipleCauseModel,
    sample: Tensor,  # (n_samples, n_dims)
    states: Tensor,  # (n_samples, n_states, n_causes) of bool, K(n), without duplicates
    generator: torch.Generator,
    *,
    # number of suggestions of each kind, per point and round
    n_variations: int,
    n_draws: int,
    # number of rounds; each round starts from the states that the previous round kept
    n_rounds: int = 1,
    # function that maps samples to further suggestions for the first round, for example `selected_states`
    construct: Callable[[Tensor], Tensor] | None = None,
) -> SearchedStates:
    """Improve K(n) by a truncated E-step."""
    n_suggested = n_variations + n_draws
    width = max(model.n_dims, states.shape[2])
    step = max(1, CHUNK_ELEMENTS // ((states.shape[1] + n_suggested) * width))
    found, joints, n_evaluations = [], [], 0
    for rows, kept in zip(sample.split(step), states.split(step), strict=True):
        log_joint = model.log_joint(rows, kept)
        n_evaluations += log_joint.numel()
        if construct is not None:
            new = construct(rows)
            suggested = model.log_joint(rows, new)
            n_evaluations += suggested.numel()
            kept, log_joint = _best(torch.cat([kept, new], 1), torch.cat([log_joint, suggested], 1), kept.shape[1])
        for _ in range(n_rounds if n_suggested else 0):
            shares = torch.softmax(log_joint, -1)
            new = torch.cat(
                [_variations(kept, shares, n_variations, generator), _draws(model, kept, shares, n_draws, generator)], 1
            )
            suggested = model.log_joint(rows, new)
            n_evaluations += suggested.numel()
            kept, log_joint = _best(torch.cat([kept, new], 1), torch.cat([log_joint, suggested], 1), kept.shape[1])
        found.append(kept)
        joints.append(log_joint)
    return SearchedStates(torch.cat(found), torch.cat(joints), n_evaluations)


def selected_states(model: MultipleCauseModel, sample: Tensor, n_selected: int, sparsity: int) -> Tensor:
    """Return all states with at most `sparsity` active causes, all from the most relevant causes I(n) (eq. 41).

    The selection function of a cause h is the joint probability of the state in which only h is active. This
    probability approximates the marginal posterior of h if few causes are active. The result (n, n_states, n_causes) of
    bool has sum_{i <= gamma} binomial(H', i) states for each of the samples (n, n_dims).
    """
    n_causes = len(model.prior)
    single = torch.eye(n_causes, dtype=torch.bool).expand(len(sample), -1, -1)
    chosen = model.log_joint(sample, single).topk(n_selected, -1).indices
    n_states = sum(math.comb(n_selected, size) for size in range(min(sparsity, n_selected) + 1))
    pattern = sparsest_states(n_selected, n_states).expand(len(sample), -1, -1)
    states = torch.zeros(len(sample), n_states, n_causes, dtype=torch.bool)
    return states.scatter_(2, chosen.unsqueeze(1).expand(-1, n_states, -1), pattern)


def _variations(states: Tensor, shares: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return states of K(n) with one or two causes changed.

    Half of the states are drawn from the posterior, and half uniformly.
    """
    n_rows, n_states, n_causes = states.shape
    even = torch.full_like(shares, 1.0 / n_states)
    parent = torch.multinomial(0.5 * (shares + even), max(n, 1), replacement=True, generator=generator)[:, :n]
    varied = states.gather(1, parent.unsqueeze(-1).expand(-1, -1, n_causes)).clone()
    first, second = torch.randint(n_causes, (2, n_rows, n, 1), generator=generator)
    once = torch.rand(n_rows, n, 1, generator=generator) >= SWAPS
    flips = torch.zeros_like(varied).scatter_(2, first, True)
    flips |= torch.zeros_like(varied).scatter_(2, torch.where(once, first, second), True)
    return varied ^ flips


def _draws(model: MultipleCauseModel, states: Tensor, shares: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draw each cause independently. Its probability is the mean of those under K(n) and under the prior."""
    marginal = 0.5 * ((states.to(shares) * shares.unsqueeze(-1)).sum(1) + model.prior)
    uniform = torch.rand(len(states), n, states.shape[2], generator=generator, dtype=shares.dtype)
    return uniform < marginal.unsqueeze(1)


def _best(states: Tensor, log_joint: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n most probable distinct states of each point, and their log joint probabilities."""
    keys = _keys(states)
    order = keys.argsort(stable=True, dim=-1)
    ordered = keys.gather(1, order)
    repeated = torch.zeros_like(ordered, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = torch.zeros_like(repeated).scatter_(1, order, repeated)
    best, chosen = log_joint.masked_fill(repeated, -torch.inf).topk(n, -1)
    return states.gather(1, chosen.unsqueeze(-1).expand(-1, -1, states.shape[2])), best


def _keys(states: Tensor) -> Tensor:
    """Return an integer code for each state. With at most 62 causes, the code consists of the bits of the state.

    With more causes, the code is a sum of random 64-bit numbers. If two states have the same code, the later one is
    dropped. Only a suggestion is lost, because the later state never belongs to the old K(n).
    """
    n_causes = states.shape[2]
    if n_causes <= 62:
        code = 2 ** torch.arange(n_causes)
    else:
        code = torch.randint(-(2**62), 2**62, (n_causes,), generator=torch.Generator().manual_seed(0))
    return (states.to(torch.int64) * code).sum(-1)


@with_hints
@dataclass(frozen=True)
class MultipleCauseEMConfig(Settings):
    """Settings of `MultipleCauseEM`.

    Examples
    --------
    >>> from eim_ros.learning import MultipleCauseEM, MultipleCauseEMConfig
    >>> thorough = MultipleCauseEMConfig(n_states=100, n_variations=50)
    >>> MultipleCauseEM(thorough, n_iterations=500).config.n_states
    100
    """

    n_iterations: int = option(200, "maximum number of iterations", minimum=0)
    tolerance: float = option(
        1e-4,
        "rise of the mean free energy over the last patience iterations below which the fit ends",
        unit="nat",
        minimum=0.0,
    )
    patience: int = option(10, "number of iterations over which the rise of the free energy is measured", minimum=1)
    n_states: int = option(30, "maximum number C' of states with positive probability per point", minimum=1)
    n_variations: int = option(
        20, "number of new states per point in which one or two causes of a state in K(n) are changed", minimum=0
    )
    n_draws: int = option(
        10, "number of new states per point that are drawn with the mean probabilities of the causes in K(n)", minimum=0
    )
    n_selected: int = option(
        0,
        "number of causes per point that a selection function chooses to suggest combinations of them; 0: none",
        minimum=0,
    )
    sparsity: int = option(
        2, "maximum number of active causes in the combinations of the selection function", minimum=1
    )
    initial_rounds: int = option(10, "number of rounds of suggestions in the first E-step", minimum=1)
    trial_iterations: int = option(
        50, "number of iterations after which the best of several starts is chosen", minimum=1
    )


@dataclass(frozen=True)
class MultipleCauseState(Generic[ModelT]):
    """State of `MultipleCauseEM`."""

    model: ModelT
    iteration: int
    states: Tensor  # (n_samples, n_states, n_causes) of bool, K(n) from the last E-step
    generator: torch.Generator  # source of randomness, which each step advances in place

    @property
    def kept(self) -> ModelT:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        return {**self.model.tensors(), "states": self.states, "generator": self.generator.get_state()}


@with_hints
class MultipleCauseEM:
    """Truncated variational EM for models with binary causes.

    Parameters
    ----------
    config : MultipleCauseEMConfig
    seed : int
        Seed of fits without a generator.
    settings
        Settings by keyword, which override settings of `config`.

    Examples
    --------
    Find two causes of four outputs from observations alone:

    >>> import torch
    >>> from eim_ros.learning import MultipleCauseEM
    >>> from eim_ros.learning.discrete import BinarySparseCoding
    >>> generator = torch.Generator().manual_seed(0)
    >>> causes = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> sample = torch.randint(2, (200, 2), generator=generator).float() @ causes
    >>> sample += 0.1 * torch.randn(200, 4, generator=generator)
    >>> start = BinarySparseCoding.start(sample, 2, generator, active=1.0)
    >>> model = MultipleCauseEM(seed=0).fit(sample, start).state.model
    >>> sorted(abs(model.weights).T.round().tolist())
    [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]
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
        run: RunOptions = RunOptions(),
    ) -> LoopResult[MultipleCauseState[ModelT]]:
        """Fit a model to samples on the CPU.

        Parameters
        ----------
        sample : Tensor (n_samples, n_dims)
        initial : MultipleCauseModel, or several
            Initial model, for example from `BinarySparseCoding.start` or `NoisyOr.start`. If several are given, the fit
            continues with the one that has the highest free energy after `trial_iterations`.
        generator : torch.Generator, optional
            Source of randomness for the suggestions. By default, a generator with the learner's seed is used.
        run : RunOptions
            Callbacks and checkpoints.

        Returns
        -------
        LoopResult
            `state.model` is the model. For each E-step, the history contains the mean `free_energy` [nat] and the
            number of `joint_evaluations` per point.

        Raises
        ------
        DataError
            If the samples are empty or not finite, have a wrong shape, or cannot be generated by the model.
        DistributionError
            If an initial model is not a model of causes, or if its number of outputs differs from the samples'.
        """
        data = checked_data(sample)
        if data.conditional:
            raise DataError(
                "a model of causes needs samples alone, a matrix (n, d), got a pair of contexts and samples"
            )
        starts = [_checked_start(start) for start in (initial if isinstance(initial, Sequence) else [initial])]
        for start in starts:
            if start.n_dims != data.sample.shape[1]:
                sizes = (start.n_dims, data.sample.shape[1])
                raise DistributionError(
                    f"the start has {sizes[0]} dimensions, but the data have {sizes[1]}; give a start with the "
                    "dimensions of the data",
                    sizes,
                )
            start.check(data.sample)
        generator = generator_from(generator, self.seed, only_on_cpu="MultipleCauseEM")
        seed = int(torch.randint(2**62, (1,), generator=generator))
        fitting = _Fitting[ModelT](self.config, data.sample)
        return run_loop(fitting, fitting.best(starts, seed), self.config.n_iterations, run)


def _checked_start(model: ModelT) -> ModelT:
    """Return the model in double precision, or raise `DistributionError` if it is not a model of causes."""
    if isinstance(model, type) or not isinstance(model, MultipleCauseModel):
        raise DistributionError(
            "the start must be a model of causes, for example from BinarySparseCoding.start or NoisyOr.start, or a "
            f"list of such models, got {model!r}",
            model,
        )
    tensors = model.tensors().items()
    return model.from_tensors({name: value.double() if value.is_floating_point() else value for name, value in tensors})


@dataclass(frozen=True)
class _Fitting(Generic[ModelT]):
    """Truncated EM for one data set, in the form of an `Algorithm`."""

    config: MultipleCauseEMConfig
    sample: Tensor

    def best(self, starts: list[ModelT], seed: int) -> MultipleCauseState[ModelT]:
        """Return the initial state whose trial run reaches the highest free energy.

        Each start has its own seed. Therefore, its result does not depend on the other starts.
        """
        states = [self._state(start, seed + index) for index, start in enumerate(starts)]
        if not states:
            raise DistributionError(
                "the list of starts is empty; give at least one start, for example from BinarySparseCoding.start",
                len(starts),
            )
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
            construct=None if complete or self.config.n_selected == 0 else partial(self._constructed, state.model),
        )
        record = {"free_energy": found.free_energy, "joint_evaluations": found.n_evaluations / len(self.sample)}
        model = state.model.improved(self.sample, found.states, found.shares)
        return MultipleCauseState(model, state.iteration + 1, found.states, state.generator), record

    def _constructed(self, model: ModelT, sample: Tensor) -> Tensor:
        n_selected = min(self.config.n_selected, len(model.prior))
        return selected_states(model, sample, n_selected, self.config.sparsity)

    def restore(
        self, state: MultipleCauseState[ModelT], tensors: dict[str, Tensor], iteration: int
    ) -> MultipleCauseState[ModelT]:
        state.generator.set_state(tensors["generator"])
        return MultipleCauseState(state.model.from_tensors(tensors), iteration, tensors["states"], state.generator)

    def finished(self, history: History) -> bool:
        return history.settled("free_energy", self.config.tolerance, self.config.patience)
