"""Truncated variational EM for mixtures and mixtures of linear experts.

The method follows Luecke, "Truncated Variational Expectation Maximization" (2016). The posterior of each point n is
restricted to a set K(n) of C' components. The free energy

    F(K, Theta) = sum_n log sum_{z in K(n)} q(x_n, z|y_n)

is a lower bound of the log-likelihood. Neither the E-step nor the M-step lowers it. The E-step moves components with
larger joint densities into K(n) (Prop. 6, 7), and the M-step is the same as in EM (Prop. 5).

Full search evaluates all joint densities and keeps the C' largest values of each point. Partial search evaluates only
the neighbours of K(n), which are a few per cent of all joint densities. The first E-step uses full search, because the
final free energy of runs that begin with random sets K(n) is several nats lower. The normaliser of a softmax gating
affects neither the choice of K(n) nor the posterior. However, the normaliser is part of F and of the M-step of the
gating. Therefore, it is always computed over all components.

In partial search, each component c has a list g_c of near components that begins with c. The candidates of a point are
the components in K(n), the components in their lists, and a few random components. The C' candidates with the largest
joint densities become the new K(n). The free energy never falls, because the old components are among the candidates.
Points with the same most probable component are processed together, to keep their common candidates in the cache. The
list of c is updated from the joint densities that were evaluated at the points of c. A component is near c if its mean
log joint density over these points is only slightly below the mean of c.

A selection function suggests candidates that do not depend on K(n) (eq. 41 with a single cause, gamma = 1). Here, the
selection function is the joint density with one diagonal covariance for all components, which depends only on the
distances to the means. As the paper proposes, the suggestions compete with the old components instead of replacing
them, so the free energy never falls. The setting "auto" uses partial search, because it reached a higher free energy in
less time in a comparison with 300 full covariances in 10 dimensions.

Eq. 39 of the paper prints the condition of the E-step as a rise of sum_n sum_{z in K(n)} log q(x_n, z|y_n). This
formula is a misprint, because the free energy above has the log outside the inner sum. Both forms are equivalent if a
single state is exchanged (Prop. 6), but not if several states are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from eim_ros.learning.configs import TruncatedEMConfig
from eim_ros.learning.data import Pairs, checked_data, checked_start
from eim_ros.learning.em.em import CHUNK_ELEMENTS, Expectation, expect, maximised
from eim_ros.learning.learner import Learner, Prepared, generator_from
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.quadratic_form import QuadraticForms, nearest_components
from eim_ros.learning.models.standardisation import Standardisation, linear_parts
from eim_ros.learning.run import History
from eim_ros.learning.starts import initial_mixture_of_experts


def search_neighbourhoods(
    forms: QuadraticForms,  # log joint densities of the current model
    joint: Tensor,  # (n_samples, n_dims + n_context), points [x, y] in standardised coordinates
    states: Tensor,  # (n_samples, n_states) of int64, the current K(n), without duplicates
    neighbours: Tensor,  # (n_components, n_neighbours) of int64, the lists g_c, which begin with c
    random: Tensor,  # (n_samples, n_random) of int64, further candidates of each point, random or selected
) -> tuple[Expectation, Tensor, int]:
    """Run a partial E-step on the CPU, which searches for better K(n) among the neighbours.

    The results are the expected sums with the new K(n), the new lists g_c, and the number of evaluated joint densities.
    """
    arrays = (joint.detach().numpy(), states.numpy(), neighbours.numpy(), random.numpy())
    following, refreshed, products, free, n_evaluations = forms.selected().improve_states(*arrays)
    expectation = Expectation(torch.from_numpy(products), math.nan, free / len(joint), torch.from_numpy(following))
    return expectation, torch.from_numpy(refreshed), n_evaluations


def select_components(model: MixtureOfExperts, joint: Tensor, n_selected: int) -> Tensor:
    """Return the components I(n) with the largest selection function, (n_samples, n_selected) of int64.

    `joint` (n_samples, n_dims + n_context) contains points [x, y]. The selection function is the joint density, with
    the median of the experts' variances in each dimension as the common variance. Let e = [y, 1], M = [W w], and x be
    scaled. Up to terms that do not depend on z, the logarithm of this function is x' M_z e - 1/2 e' M_z' M_z e + [V
    v]_z e. Therefore, one matrix product evaluates the selection function of all components.
    """
    gating, experts = linear_parts(model)
    deviation = experts.scale_trils.square().sum(-1).median(0).values.sqrt()
    maps = torch.cat([experts.weights, experts.biases.unsqueeze(-1)], -1) / deviation.unsqueeze(-1)
    of_contexts = -0.5 * maps.mT @ maps
    of_contexts[:, -1] += torch.cat([gating.weights, gating.biases.unsqueeze(-1)], -1)
    coefficients = torch.cat([maps, of_contexts], 1).flatten(1).T.contiguous()
    chosen = []
    for rows in joint.split(max(1, CHUNK_ELEMENTS // model.n_components)):
        extended = torch.cat([rows[:, model.n_dims :], torch.ones_like(rows[:, :1])], -1)
        left = torch.cat([rows[:, : model.n_dims] / deviation, extended], -1)
        score = (left.unsqueeze(-1) * extended.unsqueeze(-2)).flatten(1) @ coefficients
        chosen.append(score.topk(n_selected, -1, sorted=False).indices)
    return torch.cat(chosen)


@dataclass(frozen=True)
class TruncatedEMState:
    """State of `TruncatedEM`."""

    model: MixtureOfExperts
    iteration: int
    states: Tensor  # (n_samples, n_states) of int64, K(n) of the last E-step; no rows before the first step
    # (n_components, n_neighbours) of int64, the lists g_c, which have length 1 if a selection function replaces them;
    # (0, 0) before the first step, and if every E-step evaluates all components
    neighbours: Tensor
    generator: torch.Generator  # source of randomness, which each step advances in place

    @property
    def kept(self) -> MixtureOfExperts:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        return {
            **self.model.tensors(),
            "states": self.states,
            "neighbours": self.neighbours,
            "generator": self.generator.get_state(),
        }


class TruncatedEM(Learner[TruncatedEMConfig, TruncatedEMState]):
    """Truncated variational EM for mixtures and mixtures of linear experts with many components.

    The fit runs on the CPU, and its result is on the CPU. The initial model must be linear and may have any number of
    components. By default, it is built from k-means clusters of the standardised data.

    The history of a fit records for each E-step

    - the mean `free_energy` [nat];
    - the mean `log_likelihood` [nat], but only in the first E-step of a partial search, and in all E-steps without
      truncation;
    - `joint_evaluations`, the number of evaluated joint densities divided by the number of all pairs of a point and a
      component.

    Parameters
    ----------
    config : TruncatedEMConfig, optional
    seed : int
        Seed of a fit without a generator.
    **settings
        Settings by keyword, which override settings of `config`, for example `TruncatedEM(n_components=10)`.

    Raises
    ------
    DistributionError
        `fit` raises this error if the initial model is not linear, or if the density of a sample under this model is
        not positive and finite.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import TruncatedEM
    >>> noise = 0.1 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> result = TruncatedEM(n_components=2, seed=0).fit(torch.tensor([-1.0, 1.0]).repeat(100)[:, None] + noise)
    >>> sorted(round(mean, 1) for mean in result.means.flatten().tolist())
    [-1.0, 1.0]
    """

    Config = TruncatedEMConfig
    algorithm = "truncated-em"
    refused: ClassVar[Mapping[str, str]] = {"sample_weight": Learner.refused["sample_weight"] + ", or use EM"}

    def prepare(
        self, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[TruncatedEMState]:
        checked = checked_data(data).to(torch.device("cpu"))
        if start is None:
            config = self.config
            start = initial_mixture_of_experts(
                checked.context, checked.sample, config.n_components, generator, config.covariance_floor
            )
        first = checked_start(start, checked)
        linear_parts(first)
        nothing = torch.empty(0, 0, dtype=torch.int64)
        return Prepared(
            _Fitting.from_data(self.config, checked, first.n_components),
            TruncatedEMState(first, 0, nothing, nothing, generator),
            self.config.n_iterations,
            checked,
        )

    def _randomness(self, generator: torch.Generator | None, data: Any) -> torch.Generator:
        """Return a generator on the CPU. Its seed is drawn from `generator` if given. Otherwise, it is the learner's
        seed.
        """
        own = generator_from(None, self.seed)
        if generator is not None:
            given = generator_from(generator, self.seed)
            own.manual_seed(int(torch.randint(2**62, (1,), generator=given, device=given.device)))
        return own


@dataclass(frozen=True)
class _Fitting:
    """Truncated EM for one data set, in the form of an `Algorithm`, in standardised coordinates.

    `n_states` is None if nothing is truncated.
    """

    config: TruncatedEMConfig
    units: Standardisation
    joint: Tensor
    n_states: int | None
    partial: bool

    @classmethod
    def from_data(cls, config: TruncatedEMConfig, data: Pairs, n_components: int) -> _Fitting:
        units = Standardisation.resistant(data.context, data.sample)
        dense = config.n_states >= n_components or (config.search == "auto" and n_components < config.dense_below)
        n_states = None if dense else config.n_states
        joint = units.joint(data.context, data.sample)
        return cls(config, units, joint, n_states, not dense and config.search != "full")

    def step(self, state: TruncatedEMState) -> tuple[TruncatedEMState, dict[str, float]]:
        model = self.units.standard(state.model)
        share, neighbours = 1.0, state.neighbours
        if self.partial and len(state.states):
            random = torch.randint(
                model.n_components, (len(self.joint), self.config.n_random), generator=state.generator
            )
            if self.config.search == "selection":
                n_selected = min(self.config.n_selected, model.n_components)
                random = torch.cat([select_components(model, self.joint, n_selected), random], 1)
            forms = QuadraticForms.from_model(model)
            expectation, neighbours, n_evaluations = search_neighbourhoods(
                forms, self.joint, state.states, state.neighbours, random
            )
            share = n_evaluations / (len(self.joint) * model.n_components)
        else:
            expectation = expect(model, self.joint, self.n_states, log_likelihood=self.partial)
            if self.partial:
                n_neighbours = min(self.config.n_neighbours, model.n_components)
                if self.config.search == "selection":
                    n_neighbours = 1  # each list contains only its own component
                neighbours = nearest_components(QuadraticForms.from_model(model), expectation.products, n_neighbours)
        following, offset = maximised(self.config, self.units, self.joint, model, expectation)
        record = {"free_energy": expectation.free_energy - offset, "joint_evaluations": share}
        if math.isfinite(expectation.log_likelihood):
            record["log_likelihood"] = expectation.log_likelihood - offset
        return TruncatedEMState(following, state.iteration + 1, expectation.states, neighbours, state.generator), record

    def restore(self, state: TruncatedEMState, tensors: dict[str, Tensor], iteration: int) -> TruncatedEMState:
        state.generator.set_state(tensors["generator"])
        model = MixtureOfExperts.from_tensors(tensors)
        return TruncatedEMState(model, iteration, tensors["states"], tensors["neighbours"], state.generator)

    def finished(self, history: History) -> bool:
        return history.settled("free_energy", self.config.tolerance)
