"""One iteration of GMMVI (Arenz et al. 2023, section 3, algorithm 1), its modules and its state.

    R(x) = log p~(x)/T - log q(x),    E_q[log p~] + T H(q) = T E_q[R]

For mixtures of experts, the log densities are conditional on the context, and the expectations include the contexts
(`ExpertComponents`). All rules of an iteration use the same samples, and densities of the same mixture.

A target that is not finite everywhere, for example because of hard bounds, has no gradient outside its support.
Components that extend outside the support use values of R instead of gradients, because the values penalise samples
outside.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning.adaptation import DELTAS
from eim_ros.learning.data import random_rows
from eim_ros.learning.gmmvi.adaptation import (
    N_EXPLORING,
    AdaptiveComponents,
    Candidates,
    ComponentAdaptation,
    ComponentRecords,
    Mixture,
)
from eim_ros.learning.gmmvi.climbing import maxima, most_evaluations
from eim_ros.learning.gmmvi.components import Components, Misfit, NaturalGradient, Snapshot
from eim_ros.learning.gmmvi.experts import ExpertComponents, PastExperts
from eim_ros.learning.gmmvi.gate import ContextGate
from eim_ros.learning.gmmvi.gaussians import DiagonalComponents, FullComponents
from eim_ros.learning.gmmvi.gradients import GradientEstimator, LogRatio, More, Regression, Stein, log_ratio
from eim_ros.learning.gmmvi.samples import (
    ComponentSamples,
    Evaluated,
    MixtureSamples,
    Reservoir,
    SampleDatabase,
    SampleSelection,
)
from eim_ros.learning.gmmvi.settings import ComponentStepConfig, GMMVIConfig
from eim_ros.learning.gmmvi.updates import (
    AdaptiveStepSize,
    ComponentUpdate,
    DecayingStepSize,
    DirectUpdate,
    DirectWeights,
    EntropyBoundedUpdate,
    EntropyBoundedWeights,
    FixedStepSize,
    ImprovedBayesianUpdate,
    StepSize,
    TrustRegionUpdate,
    TrustRegionWeights,
    WeightUpdate,
)
from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.linear import LinearExperts
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.standardisation import linear_parts
from eim_ros.learning.run import History, on_plateau
from eim_ros.learning.target import TargetDensity, restricted_elbo

SHARE_OF_CLIMB = 0.01  # maximum share of max_evaluations that one group of ascending samples may use
# A maximum is not a candidate if the log of its share of the mass is below minus this value [nat]. The limit is half a
# nat lower for each dimension. The reason is that the Laplace approximation underestimates the log mass of a t
# distribution with two degrees of freedom by about 0.45 nat per dimension.
NEGLIGIBLE_MASS = 10.0
NOTICED = 1e-6  # components with a greater share of samples outside the support use values of R
REGIONS = ("trust-region", "entropy-bounded")  # kinds of updates whose step size is a bound on the KL


def natural_gradient(
    estimator: GradientEstimator, components: Components, ratio: LogRatio, ridge: Tensor
) -> NaturalGradient:
    """Estimate natural gradients. Components that extend outside the support of the target use values of R."""
    gradient = estimator(components, ratio, ridge)
    if not estimator.needs_gradient or bool(ratio.finite.all()):
        return gradient
    share = ratio.weights.mean((~ratio.finite).to(ratio.value).unsqueeze(-1)).squeeze(-1)
    outside = (share > NOTICED) & (ratio.weights.effective_samples() > ratio.sample.shape[1])
    return More()(components, ratio, ridge).where(outside, gradient)


@dataclass(frozen=True)
class Modules:
    """One choice for each of the seven modules. Custom objects that satisfy the Protocols can replace them.

    Examples
    --------
    Replace two of the modules that the settings choose:

    >>> import torch
    >>> from dataclasses import replace
    >>> from eim_ros.learning.gmmvi import GMMVI, DecayingStepSize, GMMVIConfig, MixtureSamples, Modules
    >>> from eim_ros.learning.models import GaussianMixture
    >>> modules = Modules.of(GMMVIConfig())
    >>> modules = replace(modules, samples=MixtureSamples(200), component_step_size=DecayingStepSize(1.0, 0.5))
    >>> target = GaussianMixture(torch.zeros(1), torch.tensor([[2.0]]), torch.ones(1, 1, 1))
    >>> round(float(GMMVI(target, modules=modules, n_components=1, n_iterations=19, seed=0).fit().means))
    2
    """

    samples: SampleSelection
    component_step_size: StepSize
    natural_gradient: GradientEstimator
    component_update: ComponentUpdate
    weight_step_size: StepSize
    weight_update: WeightUpdate
    adaptation: ComponentAdaptation

    @classmethod
    def of(cls, config: GMMVIConfig) -> Modules:
        """Return the modules that the settings choose."""
        samples = MixtureSamples if config.samples == "mixture" else ComponentSamples
        component, weight = config.component_step, config.weight_step
        component_size = _step_size(component, 0.1 if component.update in REGIONS else 0.01)
        estimators: dict[str, GradientEstimator] = {"more": More(), "regression": Regression(), "stein": Stein()}
        updates: dict[str, ComponentUpdate] = {
            "entropy-bounded": EntropyBoundedUpdate(component.entropy_loss_bound),
            "direct": DirectUpdate(),
            "iblr": ImprovedBayesianUpdate(),
            "trust-region": TrustRegionUpdate(),
        }
        weight_updates: dict[str, WeightUpdate] = {
            "entropy-bounded": EntropyBoundedWeights(weight.entropy_loss_bound),
            "direct": DirectWeights(),
            "trust-region": TrustRegionWeights(),
        }
        return cls(
            samples(config.n_samples, config.reuse_ratio),
            component_size,
            estimators[config.natural_gradient],
            updates[component.update],
            _step_size(weight, 0.1 if weight.update in REGIONS else 1.0),
            weight_updates[weight.update],
            AdaptiveComponents(config.adaptation, config.temperature, component_size.first, config.first_ridge),
        )


def _step_size(config: ComponentStepConfig, default: float) -> StepSize:
    first = default if config.first is None else config.first
    if config.size == "fixed":
        return FixedStepSize(first)
    if config.size == "decaying":
        return DecayingStepSize(first, config.decay_exponent)
    return AdaptiveStepSize(first, config.smallest, config.largest)


def components_of(model: MixtureOfExperts, context: Tensor, covariance: str) -> tuple[Tensor, Components]:
    """Return the log weights and components of a linear model at contexts (n_contexts, n_context).

    For a mixture, the contexts have no columns. The covariance is "full" or "diagonal". Diagonal covariances keep only
    the variances, and are available only for components without contexts.
    """
    gating, experts = linear_parts(model)
    if model.n_context > 0:
        if covariance == "diagonal":
            raise ConfigurationError("mixtures with contexts need full covariances; set covariance to full", covariance)
        components = ExpertComponents(experts, ContextGate(gating.weights, gating.biases, context))
        return components.gate.log_mass, components
    log_weights = gating(context[:1])[0]
    if covariance == "diagonal":
        return log_weights, DiagonalComponents(experts.biases, experts.scale_trils.square().sum(-1).sqrt())
    return log_weights, FullComponents(experts.biases, experts.scale_trils)


def restored(components: dict[str, Tensor], earlier: dict[str, Tensor], context: Tensor) -> tuple[Components, Snapshot]:
    """Build components and their snapshot from named tensors."""
    if "gate_biases" in components:
        gate = ContextGate(components.pop("gate_weights"), components.pop("gate_biases"), context)
        return ExpertComponents(LinearExperts(**components), gate), PastExperts.from_tensors(earlier)
    kind = DiagonalComponents if "scales" in components else FullComponents
    return kind(**components), kind(**earlier)


@dataclass(frozen=True)
class GMMVIState:
    """State of `GMMVI`. Each step modifies the generator and the reservoir of the database in place.

    Attributes
    ----------
    mixture : Mixture
    database : SampleDatabase
    weight_step : Tensor (1,)
        Step size of the last update of the weights.
    elbo : Tensor (2,)
        E_q[R] [nat] of the last two iterations, the newest last. A value is NaN before that number of iterations.
    first_entropy : float
        Mean entropy of the initial components [nat].
    evaluations, last_evaluations : int
        Number of evaluations of the target, in total and in the last iteration.
    iteration : int
    generator : torch.Generator
    """

    mixture: Mixture
    database: SampleDatabase
    weight_step: Tensor
    elbo: Tensor
    first_entropy: float
    evaluations: int
    last_evaluations: int
    iteration: int
    generator: torch.Generator

    @property
    def model(self) -> MixtureOfExperts:
        return self.mixture.model

    @property
    def kept(self) -> MixtureOfExperts:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        mixture, database = self.mixture, self.database
        recent, reservoir = database.recent, database.reservoir
        tensors = {
            "log_weights": mixture.log_weights,
            **{f"components.{name}": value for name, value in mixture.components.tensors().items()},
            **{f"records.{name}": value for name, value in mixture.records.tensors().items()},
            "database.sample": recent.sample,
            "database.log_target": recent.log_target,
            "database.origin": database.origin,
            **{f"earlier.{name}": value for name, value in database.earlier.tensors().items()},
            "reservoir.sample": reservoir.sample,
            "reservoir.log_target": reservoir.log_target,
            "weight_step": self.weight_step,
            "elbo": self.elbo,
            "first_entropy": torch.tensor(self.first_entropy, dtype=torch.float64),
            "counts": torch.tensor([mixture.n_additions, reservoir.n_seen, self.evaluations, self.last_evaluations]),
            "generator": self.generator.get_state(),
        }
        return tensors if recent.gradient is None else {**tensors, "database.gradient": recent.gradient}


@dataclass(frozen=True)
class Iteration:
    """GMMVI for one target, in the form of an `Algorithm`.

    The contexts (n, n_context) have no columns for a mixture. `widths` are scales of ascending samples. All widths are
    1, unless the initial model is only a guess.
    """

    config: GMMVIConfig
    modules: Modules
    target: TargetDensity
    context: Tensor
    start: MixtureOfExperts
    widths: tuple[float, ...] = (1.0,)

    def step(self, state: GMMVIState) -> tuple[GMMVIState, dict[str, float]]:
        config, modules, generator, mixture = self.config, self.modules, state.generator, state.mixture
        context = random_rows(self.context, config.n_contexts, generator)
        log_weights, components = mixture.components.at(mixture.log_weights, context)
        database = state.database.trimmed(modules.samples.n_reused(components.n_components))
        target = self.target.at(state.iteration).drawn(generator)
        selection = modules.samples(
            components, log_weights, database, lambda sample: self._evaluated(target, sample), generator
        )
        ratio = log_ratio(
            components,
            log_weights,
            selection,
            config.temperature,
            config.outside_penalty,
            self_normalised=config.self_normalised,
            own_samples=config.own_samples,
        )
        figures = restricted_elbo(ratio.unfloored, ratio.weights.share(log_weights), config.temperature)
        mixture = dataclasses.replace(mixture, log_weights=log_weights, components=components)
        updated, misfit, moved, reward = self._updated(mixture, ratio, state)
        n_recent = modules.samples.n_reused(components.n_components)
        database = database.remembered(selection, components, n_recent, generator)
        following = dataclasses.replace(
            updated, database=database, last_evaluations=len(selection.component), iteration=state.iteration + 1
        )
        new, n_evaluations = self._adapted(following, target, misfit)
        n_added = new.n_additions - mixture.n_additions
        figures |= {
            "evaluations": float(n_evaluations),
            "updated": float(moved.to(reward).mean()),
            "n_components": float(components.n_components),
            "added": float(n_added),
            "deleted": float(components.n_components + n_added - new.components.n_components),
        }
        return dataclasses.replace(following, mixture=new, evaluations=state.evaluations + n_evaluations), figures

    def _updated(
        self, mixture: Mixture, ratio: LogRatio, state: GMMVIState
    ) -> tuple[GMMVIState, Misfit | None, Tensor, Tensor]:
        """Update the components and the weights of the mixture.

        The first result is the state with the new mixture. The second is the misfit of the old components, or None if
        no component may be split. The last results are a mask (n_components,) of the components that moved, and the
        rewards (n_components,) of the old components.
        """
        config, modules, components, log_weights = self.config, self.modules, mixture.components, mixture.log_weights
        rewards = ratio.reward(components)
        reward = rewards[:, 0]
        history = mixture.records.history.followed(log_weights + reward, log_weights)
        records = dataclasses.replace(mixture.records, history=history)
        step = modules.component_step_size(records.step, records.n_updates, records.gain)
        gradient = natural_gradient(modules.natural_gradient, components, ratio, records.ridge)
        spectrum = components.spectrum(gradient).bounded()
        refines = modules.adaptation.n_refined(components.n_components, state.iteration + 1) > 0
        misfit = ratio.misfit(components) if refines and ratio.gradient is not None else None
        update = modules.component_update(spectrum, step)
        updated, moved = components.moved(spectrum, update.precision, update.shift, update.accepted)
        records = records.updated(step, moved, config.first_ridge, config.largest_ridge)

        elbo = torch.stack([state.elbo[1], (log_weights.exp() * reward).sum()])
        n_updates = torch.full_like(state.weight_step, float(state.iteration))
        weight_step = modules.weight_step_size(state.weight_step, n_updates, elbo.diff())
        if components.n_components > 1 and bool(torch.isfinite(reward).all()):
            here = components.log_weights_at_contexts(log_weights), components.reward_at_contexts(rewards)
            change = modules.weight_update(*here, weight_step[0])
            log_weights, updated = updated.reweighted(log_weights, rewards, change)
        mixture = dataclasses.replace(mixture, log_weights=log_weights, components=updated, records=records)
        return dataclasses.replace(state, mixture=mixture, weight_step=weight_step, elbo=elbo), misfit, moved, reward

    def _adapted(self, state: GMMVIState, target: TargetDensity, misfit: Misfit | None) -> tuple[Mixture, int]:
        """Add and delete components after an iteration. Return the mixture and the number of evaluations."""
        n_before, generator = state.evaluations + state.last_evaluations, state.generator
        prior, n_from_start = self._from_start(
            target, state.mixture.components.n_components, state.iteration, n_before, float(state.elbo[1]), generator
        )
        candidates = Candidates(state.database.reservoir, prior)
        new = self.modules.adaptation(
            state.mixture, candidates, state.iteration, state.first_entropy, generator, misfit
        )
        return new, state.last_evaluations + n_from_start

    def restore(self, state: GMMVIState, tensors: dict[str, Tensor], iteration: int) -> GMMVIState:
        device = state.generator.device
        state.generator.set_state(tensors["generator"])
        placed = {name: value.to(device) for name, value in tensors.items() if name not in ("generator", "counts")}
        n_additions, n_seen, evaluations, last_evaluations = tensors["counts"].tolist()
        components, earlier = restored(tensors_of("components.", placed), tensors_of("earlier.", placed), self.context)
        database = SampleDatabase(
            Evaluated(placed["database.sample"], placed["database.log_target"], placed.get("database.gradient")),
            placed["database.origin"],
            earlier,
            Reservoir(placed["reservoir.sample"], placed["reservoir.log_target"], n_seen),
        )
        mixture = Mixture(
            placed["log_weights"],
            components,
            ComponentRecords.from_tensors(tensors_of("records.", placed)),
            n_additions,
        )
        return GMMVIState(
            mixture,
            database,
            placed["weight_step"],
            placed["elbo"],
            float(placed["first_entropy"]),
            evaluations,
            last_evaluations,
            iteration,
            state.generator,
        )

    def finished(self, history: History) -> bool:
        window, sizes = self.config.plateau_window, history.column("n_components")
        adaptation = self.config.adaptation
        if window > 0 and sizes and adaptation.grows and sizes[-1] < adaptation.max_components:
            # Two windows must be long enough to try each Delta.
            window = max(window, math.ceil(len(DELTAS) * adaptation.add_every / 2))
            if adaptation.n_climbing > 0 and len(sizes) < window + N_EXPLORING * adaptation.add_every:
                return False  # ascending candidates may find modes even after a plateau
        return on_plateau(history, window, restricted=True)

    def exhausted(self, state: GMMVIState) -> bool:
        """Return whether another iteration could exceed the maximum number of evaluations of the target."""
        bound, rule = self.config.max_evaluations, self.modules.samples
        needed = rule.n_new(state.mixture.components.n_components)
        # Reused samples save evaluations. The number in the last iteration is then a better estimate.
        if len(state.database.recent):
            needed = min(needed, state.last_evaluations)
        needed += self.modules.adaptation.n_prior(state.mixture.components.n_components, state.iteration + 1)
        return 0 < bound < state.evaluations + needed

    def _from_start(
        self,
        target: TargetDensity,
        n_components: int,
        iteration: int,
        n_before: int,
        elbo: float,
        generator: torch.Generator,
    ) -> tuple[Evaluated | None, int]:
        """Draw and evaluate the requested samples from the initial model, as candidates for an addition.

        The last samples ascend the target. If the number of evaluations is limited, fewer samples ascend, because their
        ascent may use at most `SHARE_OF_CLIMB` of the limit. `n_before` is the number of evaluations so far, and `elbo`
        is the current lower bound of the log evidence [nat]. The results are the candidates and the number of
        evaluations.
        """
        n_prior = self.modules.adaptation.n_prior(n_components, iteration)
        n_climbing = self.modules.adaptation.n_climbing(n_components, iteration)
        bound, largest = self.config.max_evaluations, most_evaluations(self.start.n_dims)
        if bound > 0:
            n_climbing = min(n_climbing, int(SHARE_OF_CLIMB * bound) // largest)
        fits = bound == 0 or n_before + n_prior + largest * n_climbing <= bound
        if not fits or not self.modules.natural_gradient.needs_gradient:
            n_climbing = 0
        if n_prior + n_climbing == 0:
            return None, 0
        place = torch.randint(
            len(self.context), (n_prior + n_climbing,), generator=generator, device=self.context.device
        )
        context = self.context[place]
        sample = self.start.sample(context, generator)
        parts, n_evaluations = [], n_prior
        if n_prior > 0:  # distributions of torch cannot evaluate an empty batch
            drawn = torch.cat([sample[:n_prior], context[:n_prior]], -1)
            parts.append(Evaluated(drawn, target.log_prob(context[:n_prior], sample[:n_prior]), None))
        if n_climbing > 0:
            widths = sample.new_tensor(self.widths)[torch.arange(n_climbing) % len(self.widths)]
            sample[n_prior:] *= widths.unsqueeze(-1)
            # `elbo` is a bound on the mean over all contexts. It is a bound for each context only if there is a single
            # one.
            least_mass = elbo - NEGLIGIBLE_MASS - 0.5 * sample.shape[1] if len(self.context) == 1 else -math.inf
            tops, n_of_climb = maxima(target, context[n_prior:], sample[n_prior:], least_mass)
            parts.append(tops)
            n_evaluations += n_of_climb
        return functools.reduce(Evaluated.joined, parts), n_evaluations

    def _evaluated(self, target: TargetDensity, row: Tensor) -> Evaluated:
        n_dims = row.shape[1] - self.context.shape[1]
        sample, context = row[:, :n_dims], row[:, n_dims:]
        if not self.modules.natural_gradient.needs_gradient:
            return Evaluated(row, target.log_prob(context, sample), None)
        return Evaluated(row, *target.log_prob_and_gradient(context, sample))
