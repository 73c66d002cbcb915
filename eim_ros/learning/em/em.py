"""Expectation maximisation (EM) for mixtures and mixtures of experts (thesis 2.1.3, 5.2).

The E-step computes the responsibilities q(z|x, y). Hard EM assigns each point to its most probable component instead.
The M-step fits the experts by weighted least squares. The M-step sets the weights of a mixture to the mean
responsibilities. A gating is fitted by softmax regression with a few L-BFGS steps, which makes the algorithm a
generalised EM algorithm.

No step of EM lowers the log-likelihood. No step of hard EM lowers the free energy, which is a lower bound of the
log-likelihood (Luecke 2016, Prop. 8). An expert or a gating stays unchanged if the M-step would not improve it.

For linear models, the E-step also computes the sums that the M-step needs. The E-step processes the data in chunks. One
matrix product computes the log joint densities of a chunk. A second matrix product adds the chunk to the expected
moments sum_n q_n(z) e_n e_n' with e = [x, y, 1]. The responsibilities are then discarded, so the memory does not grow
with the number of points times the number of components. Truncated and hard EM select components between the two
products.

For networks, the M-step takes a few steps of weighted maximum likelihood. The log-likelihood minus the penalty on the
weights of the networks never falls.

If several starts are requested, EM runs from each of them in turn and returns the best result.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, DistributionError
from eim_ros.learning.configs import EMConfig, TruncatedEMConfig
from eim_ros.learning.data import Pairs, checked_data, checked_start
from eim_ros.learning.learner import Learner, Prepared
from eim_ros.learning.models import native
from eim_ros.learning.models.custom import CustomExperts
from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import Experts, Gating, MixtureOfExperts
from eim_ros.learning.models.neural import NeuralExperts, NeuralGating
from eim_ros.learning.models.quadratic_form import QuadraticForms, products_of_coordinates, symmetric_from_products
from eim_ros.learning.models.standardisation import Standardisation, linear_parts
from eim_ros.learning.projections.gaussian import restrict_covariances
from eim_ros.learning.projections.likelihood import (
    CurvaturePair,
    constrained_factors,
    fit_experts,
    fit_gating,
    fit_gating_to_moments,
    improve_experts,
)
from eim_ros.learning.projections.neural import FitSettings, fit_neural_experts, fit_neural_gating
from eim_ros.learning.run import FitResult, History, Status
from eim_ros.learning.starts import branching_start, likeliest_start, with_networks

NO_DENSITY = (
    "some of the data have zero density under the start, because it is too far from them; give another start, or none"
)
CHUNK_ELEMENTS = 262_144  # number of responsibilities per chunk; a chunk fits into the cache
# Smaller responsibilities are negligible. At this limit, exp does not underflow yet; underflow would be several times
# slower.
LEAST_LOG_RESPONSIBILITY = -300.0
NO_FLOOR = -1.0
# Maximum number of responsibilities (points times components) of a compact step. For more responsibilities, matrix
# products are faster.
MOST_RESPONSIBILITIES = 262_144
# Maximum number of stored products of coordinates (128 MB). If there are more products, each iteration computes them.
MOST_PRODUCTS = 16_000_000
BEST = "best."  # prefix of the tensors of the best earlier result in a checkpoint


def _fit_gating(
    old: Gating, context: Tensor, targets: Tensor, settings: FitSettings, n_iterations: int, weight: Tensor | None
) -> Gating:
    if old.n_components == 1:
        return old
    if isinstance(old, NeuralGating):
        scaled = targets if weight is None else targets * weight.unsqueeze(-1)  # the loss is linear in the targets
        return fit_neural_gating(old, context, scaled, settings)
    if isinstance(old, SoftmaxGating):
        return fit_gating(old, context, targets, max_iterations=n_iterations, weight=weight)
    raise DistributionError(
        f"EM cannot fit a gating of the class {type(old).__name__}; use SoftmaxGating or NeuralGating",
        type(old).__name__,
    )


def _fit_experts(
    old: Experts, data: Pairs, responsibilities: Tensor, settings: FitSettings, covariance_floor: float
) -> Experts:
    if isinstance(old, LinearExperts):
        return fit_experts(data.context, data.sample, responsibilities, covariance_floor=covariance_floor)
    if isinstance(old, CustomExperts):
        k = old.n_components
        return old.refitted(data.context.expand(k, -1, -1), data.sample.expand(k, -1, -1), responsibilities.T)
    if not isinstance(old, NeuralExperts):
        raise DistributionError(
            f"EM cannot fit experts of the class {type(old).__name__}; use LinearExperts, NeuralExperts or "
            "CustomExperts",
            type(old).__name__,
        )
    k = old.n_components
    context, sample = data.context.expand(k, -1, -1), data.sample.unsqueeze(1).expand(k, -1, -1, -1)
    weights = responsibilities.T.unsqueeze(-1)
    floor = covariance_floor * Standardisation.resistant(data.context, data.sample).sample_scale.square()
    return fit_neural_experts(old, context, sample, weights, settings, variance_floor=floor)


@dataclass(frozen=True)
class Expectation:
    """Result of an E-step."""

    products: Tensor  # (n_components, n_products), expected sums of the products of the coordinates [x, y, 1]
    # Mean over the points of log sum_z q(x, z|y) + A(y) [nat], where A(y) is the log normaliser of the gating. NaN if
    # it was not computed.
    log_likelihood: float
    # The same mean, but with the sum over the states K(n) only [nat] (Luecke 2016, eq. 18). Without truncation, it
    # equals the log-likelihood.
    free_energy: float
    # (n_samples, n_states) of int64, the set K(n) of each point, starting with its most probable component. Without
    # truncation, there are no columns.
    states: Tensor

    @property
    def moments(self) -> Tensor:
        """Expected sums of e e' for e = [x, y, 1], (n_components, width, width) with width = n_dims + n_context + 1."""
        width = int((2 * self.products.shape[-1]) ** 0.5)
        return symmetric_from_products(self.products, width)


def expect(
    model: MixtureOfExperts,  # linear model in standardised coordinates
    joint: Tensor,  # (n_samples, n_dims + n_context), points [x, y] in the same coordinates
    # Size C' of K(n). The responsibilities of all other components are set to zero. A size of 1 gives hard EM, and a
    # larger size gives truncated EM with full search. By default, or if the model has at most this number of
    # components, all components are used.
    n_states: int | None = None,
    *,
    # Whether a truncated E-step also computes the log-likelihood, which needs a second pass over the joint densities.
    log_likelihood: bool = True,
    weight: Tensor | None = None,  # (n_samples,), weights of the points, with a mean of one; by default, they are equal
    products: Tensor | None = None,  # `products_of_coordinates` of the points; by default, they are computed here
) -> Expectation:
    """Run the E-step of a linear model over all components, or only over the most probable components of each point."""
    forms = QuadraticForms.from_model(model)
    n_kept = 0 if n_states is None or n_states >= model.n_components else n_states
    sums = torch.zeros_like(forms.coefficients)
    # matrix products are faster with this memory layout
    transposed = torch.zeros_like(forms.coefficients.T, memory_format=torch.contiguous_format)
    states = torch.empty(len(joint), n_kept, dtype=torch.int64, device=joint.device)
    step = max(1, CHUNK_ELEMENTS // model.n_components)
    buffer = joint.new_empty(min(step, len(joint)), model.n_components)
    total, free = joint.new_zeros(()), joint.new_zeros(())
    for start in range(0, len(joint), step):
        rows = joint[start : start + step]
        own = products_of_coordinates(rows) if products is None else products[start : start + step]
        values = forms(rows, own, buffer[: len(rows)])
        share = None if weight is None else weight[start : start + step].unsqueeze(-1)
        if share is not None:
            own = own * share
        if n_kept:
            kept, chosen = values.topk(n_kept, -1)
            states[start : start + step] = chosen
            reached = torch.logsumexp(kept, -1, keepdim=True)
            free += (reached if share is None else reached * share).sum()
            _add_selected(sums, own, chosen, torch.softmax(kept, -1))
            if not log_likelihood:
                continue
        largest = values.amax(-1, keepdim=True)
        weights = values.sub_(largest).clamp_min_(LEAST_LOG_RESPONSIBILITY).exp_()
        normaliser = weights.sum(-1, keepdim=True)
        reached = largest + normaliser.log()
        total += (reached if share is None else reached * share).sum()
        if not n_kept:
            transposed.addmm_((own / normaliser).T, weights)
    mean = float(total) / len(joint) if log_likelihood or not n_kept else math.nan
    return Expectation(sums.add_(transposed.T), mean, float(free) / len(joint) if n_kept else mean, states)


def _add_selected(sums: Tensor, products: Tensor, states: Tensor, shares: Tensor) -> None:
    """Add `products` (n, n_products) times `shares` (n, n_states) to the rows `states` of `sums`."""
    for column in range(states.shape[1]):
        sums.index_add_(0, states[:, column], products * shares[:, column].unsqueeze(-1))


def maximised(
    config: EMConfig | TruncatedEMConfig,
    units: Standardisation,
    joint: Tensor,
    model: MixtureOfExperts,
    expectation: Expectation,
    weight: Tensor | None = None,
    curvature: list[CurvaturePair] | None = None,
) -> tuple[MixtureOfExperts, float]:
    """Run the M-step of a linear model in standardised coordinates, for the points [x, y] in `joint`.

    `weight` (n_samples,) contains the weights of the points. By default, they are equal. If `curvature` contains the
    pairs of earlier M-steps, the gating takes a single step, and the pair of this step is appended to the list.
    `DistributionError` is raised if the density of a point under the old model is zero.

    The first result is the updated model in the original coordinates. The second result is an offset [nat], which
    includes the mean of A(y). Subtract this offset from values of the E-step to get values in the original coordinates.
    """
    if not math.isfinite(expectation.free_energy):
        raise DistributionError(NO_DENSITY, model)
    (gating, experts), moments = linear_parts(model), expectation.moments
    kind = config.covariance if isinstance(config, EMConfig) else "full"
    improved = improve_experts(experts, moments, config.covariance_floor, covariance=kind, scale=units.sample_scale)
    of_contexts = moments[:, model.n_dims :, model.n_dims :]
    new_gating, log_normaliser = fit_gating_to_moments(
        gating,
        joint[:, model.n_dims :],
        of_contexts,
        max_iterations=config.gating_iterations,
        weight=weight,
        curvature=curvature,
    )
    return units.original(MixtureOfExperts(new_gating, improved)), log_normaliser + units.log_volume()


@dataclass(frozen=True)
class CompactStep:
    """One iteration of EM on the CPU, for a Gaussian mixture with few components and fixed data.

    A compact step computes the same as `expect` and `maximised`, but with less overhead. A compiled routine whitens
    each point with each component. Therefore, it is accurate in the original coordinates. The routine fits full
    covariances. Other kinds of covariances, and covariances with a floor, are computed from the full ones.
    """

    points: Tensor  # (n_dims, n_samples)
    weight: Tensor | None  # (n_samples,), weights of the samples, with a mean of one
    scale: Tensor  # (n_dims,), standard deviations of the data
    covariance_floor: float  # minimum variance in any direction, relative to the variances of the data
    covariance: str = "full"  # kind of the covariances, as in `EMConfig`

    @classmethod
    def from_data(
        cls, units: Standardisation, data: Pairs, covariance_floor: float, covariance: str = "full"
    ) -> CompactStep | None:
        """Return the iteration for samples without contexts, or None if they are not in float64 on the CPU."""
        if data.sample.device.type != "cpu" or data.sample.dtype != torch.float64:
            return None
        return cls(data.sample.T.contiguous(), data.weight, units.sample_scale, covariance_floor, covariance)

    def __call__(self, model: MixtureOfExperts) -> tuple[MixtureOfExperts, float] | None:
        """Return the updated model and the mean log-likelihood of the old model [nat], or None.

        The result is None if there are too many components, or if a component is singular or has no weight. Use
        `expect` and `maximised` in these cases.
        """
        gating, experts = linear_parts(model)
        if experts.n_components * self.points.shape[1] > MOST_RESPONSIBILITIES:
            return None
        updated = self._updated(gating, experts, self.covariance_floor) if self.covariance == "full" else None
        constrained = updated is None
        if updated is None:
            updated = self._updated(gating, experts, NO_FLOOR)
        if updated is None:
            return None
        log_weights, means, factors = (torch.from_numpy(part) for part in updated[1:])
        if constrained:
            factors = constrained_factors(
                factors, log_weights.exp(), self.covariance, self.covariance_floor, self.scale
            )
        following = MixtureOfExperts(
            SoftmaxGating(gating.weights, log_weights), LinearExperts(experts.weights, means, factors)
        )
        return following, updated[0]

    def _updated(self, gating: SoftmaxGating, experts: LinearExperts, floor: float) -> Any:
        """Return the mean log-likelihood and the updated parameters, or None if a covariance is below the floor."""
        return native.em_step(
            self.points.numpy(),
            None if self.weight is None else self.weight.numpy(),
            gating.biases.detach().numpy(),
            experts.biases.detach().numpy(),
            experts.scale_trils.detach().numpy(),
            self.scale.numpy(),
            floor,
        )


@dataclass(frozen=True)
class EMState:
    """State of `EM`."""

    model: MixtureOfExperts  # current model of the current start
    iteration: int  # number of iterations so far, summed over all starts
    start: int = 0  # index of the current start
    begun: int = 0  # value of `iteration` at which the current start began
    value: float = -math.inf  # objective of the model before the last step [nat]
    best: MixtureOfExperts | None = None  # best result of the earlier starts
    best_value: float = -math.inf  # objective of the best result before its last step [nat]
    # curvature of the gating's loss along the last steps of the current start, if each M-step takes a single step
    curvature: tuple[CurvaturePair, ...] = ()

    @property
    def kept(self) -> MixtureOfExperts:
        return self.model if self.best is None or self.value > self.best_value else self.best

    def tensors(self) -> dict[str, Tensor]:
        best = {} if self.best is None else {f"{BEST}{name}": value for name, value in self.best.tensors().items()}
        progress = torch.tensor([self.start, self.begun, self.value, self.best_value], dtype=torch.float64)
        pairs = {"curvature": torch.stack([torch.stack(pair) for pair in self.curvature])} if self.curvature else {}
        return {**self.model.tensors(), **best, **pairs, "progress": progress}


@dataclass(frozen=True)
class EMIteration:
    """EM for one data set, in the form of an `Algorithm`. Linear models are fitted in standardised coordinates."""

    config: EMConfig
    data: Pairs
    units: Standardisation
    joint: Tensor
    initial: MixtureOfExperts | None
    seed: int
    compact: CompactStep | None = None
    products: Tensor | None = None  # products of the coordinates `joint`, unless they need too much memory

    @classmethod
    def from_data(
        cls,
        config: EMConfig,
        data: Pairs,
        initial: MixtureOfExperts | GaussianMixture | None,
        generator: torch.Generator,
    ) -> EMIteration:
        start = None if initial is None else checked_start(initial, data)
        if start is not None and isinstance(start.experts, CustomExperts) and config.n_starts > 1:
            raise ConfigurationError(
                f"n_starts is {config.n_starts}, but EM can create only starts with linear experts, not with custom "
                "experts; set n_starts to 1",
                config.n_starts,
            )
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device))
        units = Standardisation.resistant(data.context, data.sample)
        joint, compact = units.joint(data.context, data.sample), None
        plain = not config.hard and config.is_linear
        # without a floor, new experts must be compared with the old experts
        if data.context.shape[1] == 0 and plain and config.covariance_floor > 0.0:
            compact = CompactStep.from_data(units, data, config.covariance_floor, config.covariance)
        n_products = (joint.shape[1] + 1) * (joint.shape[1] + 2) // 2
        keeps = config.is_linear and n_products * len(joint) <= MOST_PRODUCTS
        return cls(config, data, units, joint, start, seed, compact, products_of_coordinates(joint) if keeps else None)

    def start(self, index: int) -> MixtureOfExperts:
        """Return the initial model of the start with this index.

        Each start has its own seed, and thus does not depend on earlier starts.
        """
        if index == 0 and self.initial is not None:
            return self._restricted(self.initial)
        generator = torch.Generator().manual_seed(self.seed + index)
        config = self.config
        context, sample, floor = self.data.context, self.data.sample, config.covariance_floor
        if config.expert_kind == "neural":
            return self._restricted(branching_start(config, context, sample, config.n_components, generator, floor))
        start = likeliest_start(self.data, config.n_components, config.n_candidates, generator, floor)
        return self._restricted(start if config.is_linear else with_networks(start, config, context, generator))

    def _restricted(self, model: MixtureOfExperts) -> MixtureOfExperts:
        """Return the model with the kind of covariances in the settings."""
        kind = self.config.covariance
        if kind == "full":
            return model
        if not model.is_linear:
            raise ConfigurationError(
                f"{kind} covariances are available only for linear experts with a linear gating; set covariance to "
                "full",
                kind,
            )
        gating, experts = linear_parts(model)
        weights = gating(self.data.context).exp().mean(0)
        return MixtureOfExperts(gating, restrict_covariances(experts, kind, weights))

    def step(self, state: EMState) -> tuple[EMState, dict[str, float]]:
        pairs = list(state.curvature)
        if state.model.is_linear:
            following, record = self._linear(state.model, pairs if self.config.gating_iterations == 1 else None)
        else:
            following, record = self._neural(state.model)
        value, iteration = record[objective(self.config)], state.iteration + 1
        following_state = dataclasses.replace(
            state, model=following, iteration=iteration, value=value, curvature=tuple(pairs)
        )
        if self.config.n_starts == 1:
            return following_state, record
        record["start"] = float(state.start)
        ended = value - state.value < self.config.tolerance or iteration - state.begun >= self.config.n_iterations
        if ended and state.start + 1 < self.config.n_starts:
            best, index = following_state.kept, state.start + 1
            following_state = EMState(
                self.start(index), iteration, index, iteration, best=best, best_value=max(value, state.best_value)
            )
        return following_state, record

    def _linear(
        self, old: MixtureOfExperts, curvature: list[CurvaturePair] | None
    ) -> tuple[MixtureOfExperts, dict[str, float]]:
        """Return the updated linear model and the record of the old model."""
        quick = None if self.compact is None else self.compact(old)
        if quick is not None:
            return quick[0], {"log_likelihood": quick[1]}
        model = self.units.standard(old)
        weight = self.data.weight
        n_states = 1 if self.config.hard else None
        expectation = expect(model, self.joint, n_states, weight=weight, products=self.products)
        following, offset = maximised(self.config, self.units, self.joint, model, expectation, weight, curvature)
        record = {"log_likelihood": expectation.log_likelihood - offset}
        return following, record | ({"free_energy": expectation.free_energy - offset} if self.config.hard else {})

    def _neural(self, old: MixtureOfExperts) -> tuple[MixtureOfExperts, dict[str, float]]:
        config, data, settings = self.config, self.data, self.config.networks.fit_settings
        log_joint = old.log_joint(data.context, data.sample)
        log_prob = torch.logsumexp(log_joint, -1)
        weight = log_prob.new_ones(len(log_prob)) if data.weight is None else data.weight
        record = {"log_likelihood": float((log_prob * weight).mean())}
        if not math.isfinite(record["log_likelihood"]):
            raise DistributionError(NO_DENSITY, old)
        if config.hard:
            record["free_energy"] = float((log_joint.amax(-1) * weight).mean())
            shares = torch.nn.functional.one_hot(log_joint.argmax(-1), old.n_components).to(log_joint)
        else:
            shares = (log_joint - log_prob.unsqueeze(-1)).exp()
        gating = _fit_gating(old.gating, data.context, shares, settings, config.gating_iterations, data.weight)
        weighted = shares if data.weight is None else shares * weight.unsqueeze(-1)
        experts = _fit_experts(old.experts, data, weighted, settings, config.covariance_floor)
        return MixtureOfExperts(gating, experts), record

    def restore(self, state: EMState, tensors: dict[str, Tensor], iteration: int) -> EMState:
        model = state.model.with_tensors(tensors).to(device=state.model.device)
        best = tensors_of(BEST, tensors)
        start, begun, value, best_value = tensors["progress"].tolist()
        kept = state.model.with_tensors(best).to(device=state.model.device) if best else None
        pairs = [(step, change) for step, change in tensors.get("curvature", torch.empty(0, 2)).to(model.device)]
        return EMState(model, iteration, int(start), int(begun), value, kept, best_value, tuple(pairs))

    def finished(self, history: History) -> bool:
        last = float(self.config.n_starts - 1)
        of_last = History(tuple(record for record in history.records if record.get("start", last) == last))
        full = self.config.n_starts > 1 and len(of_last.records) == self.config.n_iterations
        return full or of_last.settled(objective(self.config), self.config.tolerance)


def objective(config: EMConfig) -> str:
    """Return the name of the objective, which never decreases."""
    return "free_energy" if config.hard else "log_likelihood"


class EM(Learner[EMConfig, EMState]):
    """Maximum likelihood fit of a mixture or a mixture of experts by expectation maximisation.

    The initial model may have any kind of experts and gating, and any number of components. If there are several
    starts, only the first one uses the initial model. The other starts are built from k-means clusters of the data; see
    `likeliest_start`.

    The covariances of a given initial model are restricted to the kind in the settings. The samples may have weights.
    Settings that are relative to the variances of the data refer to variances without weights and without outliers; see
    `Standardisation.resistant`.

    The history of a fit records the mean `log_likelihood` of the data before each step [nat]. For hard EM, it also
    records the `free_energy` [nat]. If there are several starts, the history belongs to the best start.

    Parameters
    ----------
    config : EMConfig, optional
    seed : int
        Seed of a fit without a generator.
    **settings
        Settings by keyword, which override settings of `config`, for example `EM(n_components=10)`.

    Raises
    ------
    DistributionError
        `fit` raises this error if the density of a sample under the initial model is not positive and finite.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import EM
    >>> noise = 0.1 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> result = EM(n_components=2, seed=0).fit(torch.tensor([-1.0, 1.0]).repeat(100)[:, None] + noise)
    >>> sorted(round(mean, 1) for mean in result.means.flatten().tolist())
    [-1.0, 1.0]
    """

    Config = EMConfig
    algorithm = "em"
    refused: ClassVar[Mapping[str, str]] = {}

    def prepare(
        self, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[EMState]:
        checked = checked_data(data).to(generator.device)
        fitting = EMIteration.from_data(self.config, checked, start, generator)
        n_iterations = self.config.n_starts * self.config.n_iterations
        return Prepared(fitting, EMState(fitting.start(0), 0), n_iterations, checked)

    def _finished(self, result: FitResult[EMState]) -> FitResult[EMState]:
        """Return the result with the history and the status of the best start only."""
        if self.config.n_starts == 1 or not result.history.records:
            return result
        of_start: dict[float, list[dict[str, float]]] = {}
        for record in result.history.records:
            of_start.setdefault(record["start"], []).append(record)
        name = objective(self.config)
        best = max(of_start, key=lambda start: of_start[start][-1][name])
        history = History(tuple(of_start[best]))
        status = result.status
        if status not in (Status.INTERRUPTED, Status.STOPPED):
            settled = history.settled(name, self.config.tolerance)
            status = Status.CONVERGED if settled else Status.MAX_ITERATIONS
        return dataclasses.replace(result, history=history, status=status)
