"""EM for mixtures of any exponential family: exact, hard or truncated (Luecke 2016, algorithm 2).

The E-step computes the responsibilities gamma_k(x_n). In truncated EM, only the C' most probable components of a point
have positive responsibilities (Prop. 7). The M-step is

    A'(eta_k) = sum_n gamma_k(x_n) T(x_n) / sum_n gamma_k(x_n),    pi_k = mean of gamma_k.

A conjugate prior keeps components inside the domain of the family. The prior has the effect of `prior_count` additional
points per component, with the mean statistics of the data. The objective, the free energy plus the log prior, never
decreases.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.core.checks import expect, with_hints
from eim_ros.core.errors import DataError, DistributionError
from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.learning.data import checked_data
from eim_ros.learning.discrete.families import ExponentialFamily, ExponentialMixture
from eim_ros.learning.learner import checked_seed, configuration, generator_from
from eim_ros.learning.models.standardisation import Standardisation
from eim_ros.learning.run import History, LoopResult, RunOptions, run_loop
from eim_ros.learning.starts import k_means


@with_hints
@dataclass(frozen=True)
class ExponentialEMConfig(Settings):
    """Settings of `ExponentialEM`.

    Examples
    --------
    >>> from eim_ros.learning import ExponentialEM, ExponentialEMConfig
    >>> from eim_ros.learning.discrete import PoissonFamily
    >>> hard = ExponentialEMConfig(n_components=3, n_states=1)
    >>> ExponentialEM(PoissonFamily(), hard, n_components=5).config.n_states
    1
    """

    n_components: int = option(10, "number of components", minimum=1)
    n_iterations: int = option(200, "maximum number of iterations", minimum=0)
    tolerance: float = option(
        1e-6, "rise of the mean objective in an iteration below which the fit ends", unit="nat", minimum=0.0
    )
    prior_count: float = option(
        0.1,
        "weight of the prior, as the equivalent number of average points per component; 0: maximum likelihood",
        minimum=0.0,
    )
    n_states: int | None = option(
        None,
        "number C' of components with a positive responsibility per point; 1 is hard EM, and none (all components) is "
        "exact EM",
        minimum=1,
    )


@dataclass(frozen=True)
class ExponentialEMState:
    """State of `ExponentialEM`: the model and the iteration."""

    model: ExponentialMixture
    iteration: int

    @property
    def kept(self) -> ExponentialMixture:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()


@with_hints
class ExponentialEM:
    """EM for a mixture of an exponential family.

    Parameters
    ----------
    family : ExponentialFamily
        `PoissonFamily`, `CategoricalFamily` or a custom family. `DistributionError` is raised for other objects.
    config : ExponentialEMConfig
    seed : int
        Seed of fits without a generator.
    settings
        Settings by keyword, which override settings of `config`.

    Examples
    --------
    Fit counts from two Poisson distributions:

    >>> import torch
    >>> from eim_ros.learning import ExponentialEM
    >>> from eim_ros.learning.discrete import PoissonFamily
    >>> counts = torch.poisson(torch.tensor([2.0, 20.0]).repeat(100)[:, None], torch.Generator().manual_seed(0))
    >>> model = ExponentialEM(PoissonFamily(), n_components=2, seed=0).fit(counts).state.model
    >>> sorted(round(rate) for rate in model.natural.exp().flatten().tolist())
    [2, 20]
    """

    def __init__(
        self, family: ExponentialFamily, config: ExponentialEMConfig | None = None, *, seed: int = 0, **settings: Any
    ) -> None:
        if isinstance(family, type) or not isinstance(family, ExponentialFamily):
            raise DistributionError(
                "the family must be an instance of PoissonFamily, CategoricalFamily or another class with the methods "
                f"of ExponentialFamily, got {family!r}",
                family,
            )
        self.family = family
        self.config = configuration(ExponentialEMConfig, config, settings)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        sample: Any,
        initial: ExponentialMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        run: RunOptions = RunOptions(),
    ) -> LoopResult[ExponentialEMState]:
        """Fit a mixture to samples.

        Parameters
        ----------
        sample : Tensor (n_samples, n_dims)
        initial : ExponentialMixture, optional
            Initial mixture with any number of components. By default, it is built from k-means clusters of the
            standardised statistics.
        generator : torch.Generator, optional
            Source of randomness for the initialisation. By default, a generator with the learner's seed is used.
        run : RunOptions
            Callbacks and checkpoints.

        Returns
        -------
        LoopResult
            `state.model` is the mixture. Without a prior, a component may leave the domain of the family. In this case,
            `fit` returns the previous mixture with the status NON_FINITE. For each E-step, the history contains the
            mean `free_energy` [nat] and the `objective`, which includes the log prior. Without truncation, the free
            energy is the log-likelihood.

        Raises
        ------
        DataError
            If there are fewer samples than components, or if the samples are empty, not finite or outside the support
            of the family. This error is also raised if the samples vary so little that a parameter of a component would
            not be finite.
        DistributionError
            If the initial mixture has the wrong type or another family, contains NaN, or has another number of
            statistics than the samples.
        """
        data = checked_data(sample)
        if data.conditional:
            raise DataError(
                "a mixture of an exponential family needs samples alone, a matrix (n, d), got a pair of contexts and "
                "samples"
            )
        generator = generator_from(generator, self.seed, only_on_cpu="ExponentialEM")
        statistics, log_base = self.family.statistics(data.sample), self.family.log_base(data.sample)
        if initial is None:
            initial = self._start(statistics, generator)
        initial = self._checked(initial, statistics.shape[1])
        return run_loop(
            _Fitting(self.family, self.config, statistics, log_base),
            ExponentialEMState(initial, 0),
            self.config.n_iterations,
            run,
        )

    def _checked(self, initial: Any, n_statistics: int) -> ExponentialMixture:
        """Validate an initial mixture and convert it to double precision."""
        expect(initial, ExponentialMixture, "the start", DistributionError)
        mine, its = self.family, initial.family
        if type(its) is not type(mine) or (dataclasses.is_dataclass(type(mine)) and its != mine):
            raise DistributionError(
                f"the family of the start is {its}, but the learner has the family {mine}; give a start of the same "
                "family",
                its,
            )
        if initial.natural.shape[1] != n_statistics:
            sizes = (initial.natural.shape[1], n_statistics)
            raise DistributionError(f"the start must have {sizes[1]} statistics, like the data, got {sizes[0]}", sizes)
        if bool(torch.isnan(initial.natural).any() or torch.isnan(initial.log_weights).any()):
            raise DistributionError(
                "the start has parameters that are NaN; give a start with valid parameters", initial
            )
        return ExponentialMixture(self.family, initial.log_weights.double(), initial.natural.double())

    def _start(self, statistics: Tensor, generator: torch.Generator) -> ExponentialMixture:
        """Initialise the components from k-means clusters.

        Average points are added to each cluster. Thus, a component gives positive probability to values that are
        missing in its cluster.
        """
        n = self.config.n_components
        if n > len(statistics):
            raise DataError(f"{n} components need at least {n} samples, got {len(statistics)}", len(statistics))
        overall = statistics.mean(0)
        natural = self.family.natural(overall)
        if not bool(torch.isfinite(natural).all()):
            bad = int((~torch.isfinite(natural)).nonzero()[0])
            raise DataError(
                f"statistic {bad} of the data is at the edge of the family, for example because a count is always 0 "
                "or a value is constant; leave out this statistic",
                bad,
            )
        blank = statistics[:, :0]
        labels = k_means(Standardisation.from_data(blank, statistics).joint(blank, statistics), n, generator)
        shares = torch.nn.functional.one_hot(labels, n).to(statistics)
        return _maximised(self.family, statistics, shares, 0.1 * len(statistics) / n)


@dataclass(frozen=True)
class _Fitting:
    """EM for the statistics T (n, n_statistics) and B (n,) of one data set, in the form of an `Algorithm`."""

    family: ExponentialFamily
    config: ExponentialEMConfig
    statistics: Tensor
    log_base: Tensor

    def step(self, state: ExponentialEMState) -> tuple[ExponentialEMState, dict[str, float]]:
        log_joint = state.model.log_joint_of(self.statistics, self.log_base)
        if self.config.n_states is not None and self.config.n_states < state.model.n_components:
            kept = log_joint.topk(self.config.n_states, -1)
            log_joint = torch.full_like(log_joint, -torch.inf).scatter_(-1, kept.indices, kept.values)
        free_energy = float(log_joint.logsumexp(-1).mean())
        if not math.isfinite(free_energy):
            raise DistributionError(
                "some of the data have zero density under the start, because it is too far from them; give another "
                "start, or none",
                state.model,
            )
        record = {"free_energy": free_energy, "objective": free_energy + self._log_prior(state.model)}
        model = _maximised(self.family, self.statistics, torch.softmax(log_joint, -1), self.config.prior_count)
        return ExponentialEMState(model, state.iteration + 1), record

    def _log_prior(self, model: ExponentialMixture) -> float:
        """Return sum_k c (eta_k' mean T - A(eta_k) + log pi_k) per point, up to a constant [nat]."""
        if self.config.prior_count == 0.0:
            return 0.0
        average = model.log_joint_of(self.statistics.mean(0, keepdim=True), self.log_base.new_zeros(1))
        return self.config.prior_count * float(average.sum()) / len(self.statistics)

    def restore(self, state: ExponentialEMState, tensors: dict[str, Tensor], iteration: int) -> ExponentialEMState:
        model = ExponentialMixture(self.family, tensors["log_weights"], tensors["natural"])
        return ExponentialEMState(model, iteration)

    def finished(self, history: History) -> bool:
        return history.settled("objective", self.config.tolerance)


def _maximised(family: ExponentialFamily, statistics: Tensor, shares: Tensor, count: float) -> ExponentialMixture:
    """Return the components for shares (n, n_components) of the points, with `count` average points added to each."""
    total = shares.sum(0) + count
    means = (shares.T @ statistics + count * statistics.mean(0)) / total.unsqueeze(-1)
    return ExponentialMixture.from_means(family, total.log(), means)
