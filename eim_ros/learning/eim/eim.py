"""Expected Information Maximisation for mixtures and mixtures of experts (thesis chapters 3 and 4, algorithm 2).

From samples of p alone EIM minimises E_p(y) KL(q(x|y) || p(x|y)). Each iteration

1. draws x ~ q_old(x|y) and retrains phi(x, y) = log p/q_old (E-step; the auxiliary distribution is q_old(z|x, y), eq.
   3.2);
2. updates the gating: maximise E[phi(y, z)] - KL(q(z|y) || q_old(z|y)) in a trust region, within its family (4.2.1);
3. updates the experts: fit a quadratic surrogate of phi around each, then a trust-region I-projection in closed form
   (4.2.2);
4. keeps the new model if, under the same phi, it is closer to p than the best one so far;
5. adapts the number of components, if asked for: delete those of no use, and add where held-out data exceed the model
   (7.1.4).

If the density of p is known up to a constant (thesis 5.5; VIPS), only the log ratio differs, which then is exact:

    phi(x, y) = log p(x|y) / T - log q_old(x|y)                     maximises E_q[log p] + T H(q)

With temperature T the M-step maximises E_q[phi] - KL(q || q_old) as before. That is the objective divided by T: the
same steps as with phi = log p - T log q_old and the KL weighted by T.

This variant is for starts from samples, networks, and hundreds of experts, whose log q is truncated. For linear models
`eim_ros.learning.gmmvi.GMMVI` has the complete family of algorithms, with contexts or without. The closest one is
LEMBFBX with `own_samples`, which takes the gating's rewards from other samples. In the names of the seven modules:

- Samples: of each component, new ones for each of `update_gating` and `update_experts`; in GMMVI the same for both.
- Natural gradient: by regression on gradients or values (`fit_to_gradients`, `fit_to_values`), chosen by `surrogate`.
- Component update: trust region, with a bound on the loss of entropy too (`project_experts`); step size: fixed.
- Weight update: the same for the weights (`project_categorical`, `project_gating`); step size: fixed.
- Adding and deleting components: `Adaptation`, before each step; LEMBFBX has none.

Starts. Linear experts start from EM, whose fit is a candidate for the density of the data at the same time. EM averages
over what its components cannot represent. If the reference density has more components than the model, a few of them
may be the better start, because each lies on a mode already; KL(model || reference) decides.

Several neural experts start from EM of the same family. A single one needs more: EM averages over the branches of
multi-modal data, and a wide expert over all of them is nearly a stationary point of the reverse KL too, which EIM would
not leave. Mixtures of one, two, ... neural experts are fitted while held-out data gain more than a standard error, and
the expert that can best stand for the complete mixture alone is the start.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, DistributionError
from eim_ros.core.parallel import tell
from eim_ros.learning.adaptation import Adaptation, AdaptationState
from eim_ros.learning.configs import EIMConfig, EMConfig
from eim_ros.learning.data import Pairs, checked_data, checked_start, data_or_contexts, has_samples
from eim_ros.learning.eim.iteration import EIMIteration, EIMState
from eim_ros.learning.em.em import EM
from eim_ros.learning.families import FamilyConfig, with_networks
from eim_ros.learning.learner import Learner, Prepared
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.choice import best_fit, data_density, density_ratio, refined
from eim_ros.learning.ratio.inputs import RatioInputs, default_inputs
from eim_ros.learning.ratio.plug_in import ExactRatio, draw_pairs
from eim_ros.learning.run import Status
from eim_ros.learning.starts import closest_component
from eim_ros.learning.target import Target, TargetDensity, target_density

MOST_BRANCHES = 4
MOST_POINTS = 2000  # of which the mixtures are fitted
MORE_ITERATIONS = 3  # EM iterations with all training data
LEAST_PARAMETER_ITERATIONS = 60  # of L-BFGS per EM iteration: networks start far from the data
TOLERANCE = 3e-3  # [nat] of EM, of which only a start is wanted


def neural_start(
    config: FamilyConfig,
    n_components: int,
    n_iterations: int,
    training: Pairs,
    held_out: Pairs,
    generator: torch.Generator,
) -> tuple[MixtureOfExperts, MixtureOfExperts]:
    """Mixture that describes the data, and the start, which is the same for several experts.

    Parameters
    ----------
    config : FamilyConfig
    n_components : int
        Of the start.
    n_iterations : int
        Most iterations of EM.
    training, held_out : Pairs
        Shuffled.
    generator : torch.Generator
    """
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(FamilyConfig)}
    settings["parameter_iterations"] = max(config.parameter_iterations, LEAST_PARAMETER_ITERATIONS)

    def fitted(size: int, iterations: int, data: Pairs, initial: MixtureOfExperts | None) -> MixtureOfExperts:
        algorithm = EM(EMConfig(n_components=size, n_iterations=iterations, tolerance=TOLERANCE, **settings))
        result = algorithm.fit((data.context, data.sample), initial, generator=generator)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result.mixture_of_experts

    few = training[:MOST_POINTS]
    best = fitted(n_components, n_iterations, few, None)
    if n_components == 1:
        for size in range(2, min(MOST_BRANCHES, len(few)) + 1):
            candidate = fitted(size, n_iterations, few, None)
            gain = _log_prob(candidate, held_out) - _log_prob(best, held_out)
            if not float(gain.mean()) > float(gain.std(correction=0)) / len(gain) ** 0.5:
                break
            best = candidate
    best = fitted(best.n_components, min(MORE_ITERATIONS, n_iterations), training, best)
    if n_components == best.n_components:
        return best, best
    return best, closest_component(best, few.context, generator)


def _log_prob(model: MixtureOfExperts, data: Pairs) -> Tensor:
    return model.log_prob(data.context, data.sample)


def start_of(
    config: EIMConfig, given: MixtureOfExperts | None, data: Pairs, generator: torch.Generator
) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
    """Candidate for the reference density, if any, and start.

    A neural expert is soon better than any reference of linear ones, which then would hold it back: one of its own
    family is a candidate even where the start is given.

    Parameters
    ----------
    config : EIMConfig
    given : MixtureOfExperts, optional
        The start, where there is one; the best of several k-means starts and a few iterations of EM otherwise.
    data : Pairs
        Shuffled.
    generator : torch.Generator
    """
    if given is None:
        return _fitted(config, data, generator)
    wants_neural = not config.is_linear and config.ratio != "network"
    return (_fitted(config, data, generator)[0] if wants_neural else None), given


def _fitted(
    config: EIMConfig, data: Pairs, generator: torch.Generator
) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
    """Fit to the training part, if there was a choice of starts, and the start, which takes in all data."""
    settings: dict[str, Any] = {"n_components": config.n_components, "n_iterations": config.initial_em_iterations}
    training, held_out = data[: config.n_training(len(data))], data[config.held_out(len(data))]
    if not config.is_linear:
        return neural_start(config, config.n_components, config.initial_em_iterations, training, held_out, generator)
    if config.initial_starts == 1 or len(training) < config.n_components:
        return None, best_fit(data, data, n_starts=1, generator=generator, **settings)
    first = best_fit(
        training,
        held_out,
        n_starts=config.initial_starts,
        generator=generator,
        watch=lambda share: tell("start", share, 1.0),
        **settings,
    )
    return first, refined(first, data, config.initial_em_iterations)


N_SUBSETS = 30
N_SAMPLES = 500
LEAST_SHARE = 1e-12  # by which every component may be drawn


def closest_start(
    fitted: MixtureOfExperts, reference: MixtureOfExperts, context: Tensor, generator: torch.Generator
) -> MixtureOfExperts:
    """EM's fit, or the closest to the reference among random subsets of its components if one of them is closer.

    Parameters
    ----------
    fitted : MixtureOfExperts
        Fit by EM; it decides the number of components.
    reference : MixtureOfExperts
        Density of the data; only one with more components of the linear kind leaves a choice.
    context : Tensor (n_samples, n_context)
        Contexts of the data.
    generator : torch.Generator
    """
    linear = isinstance(reference.gating, SoftmaxGating) and isinstance(reference.experts, LinearExperts)
    if not linear or reference.n_components <= fitted.n_components:
        return fitted
    rows = torch.randint(len(context), (N_SAMPLES,), generator=generator, device=context.device)
    chosen = context[rows]
    share = reference.gating(chosen).exp().mean(0) + LEAST_SHARE
    size = fitted.n_components
    subsets = [share.topk(size).indices]
    subsets += [torch.multinomial(share, size, generator=generator) for _ in range(N_SUBSETS)]
    candidates = [fitted, *(_subset(reference, subset) for subset in subsets)]

    def divergence(model: MixtureOfExperts) -> float:
        sample = model.sample(chosen, generator)
        return float((model.log_prob(chosen, sample) - reference.log_prob(chosen, sample)).mean())

    return min(candidates, key=divergence)


def _subset(model: MixtureOfExperts, index: Tensor) -> MixtureOfExperts:
    gating = model.gating
    assert isinstance(gating, SoftmaxGating)
    return MixtureOfExperts(SoftmaxGating(gating.weights[index], gating.biases[index]), model.experts.take(index))


class EIM(Learner[EIMConfig, EIMState]):
    """Mixture of experts by expected information maximisation, from samples or for a known density.

    Parameters
    ----------
    config : EIMConfig, optional
        The defaults if missing; with a target those of `EIMConfig.known_density`.
    inputs : RatioInputs, optional
        Inputs of the density ratio estimator; standardised samples and contexts if missing, whitened ones if these
        nearly repeat each other.
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable; optional
        Log density, which need not be normalised: of samples (n, dx), or of contexts (n, dy) and samples. Without a
        method `score` it is differentiated automatically, unless `surrogate` is "value". An annealed target has a
        method `at(iteration)`, see `target_density`. If missing, the ratio is estimated from the data.
    seed : int
        Seed of fits that are given no generator.
    **settings
        Fields of `EIMConfig`, which replace those of `config`: `EIM(n_components=10, seed=3)`.

    From samples, a given start may be of any family; otherwise it is the best of several k-means starts and a few
    iterations of EM, and `neural_start` for models with neural parts. If the number of components adapts, the history
    holds `n_components` after each iteration, and how many were `added` and `deleted` in it.

    With a target, data of `fit` are contexts, what a start is made of, and where additions of components look first:
    samples (n, dx), or context (n, dy) and sample (n, dx), of which the sample may be None if a start is given. Without
    contexts a start alone is enough; otherwise it is the likeliest of several fits of EM to the data.
    The fit ends with CONVERGED once the model or the objective no longer changes, and with NON_FINITE if the target is
    not finite at samples of the model. The history holds

    - `elbo`, the objective E[log p] + T H(q) [nat] with its `elbo_standard_error`; if it is minus infinity, also
      `elbo_inside`, that of the model restricted to where the target is finite, and the probability `outside` of the
      rest;
    - `entropy` H(q) [nat], and `change`, the KL of the new model to the old [nat];
    - `gating_kl` and `expert_kl` of the two updates [nat], `evaluations` of the target by them, and `non_finite`, the
      share of these at which it was not finite;
    - if the number of components adapts, `n_components`, and how many were `added` and `deleted` before the iteration.

    `fit` raises `ConfigurationError` for a model with networks, or an M-step by gradients, whose number of components
    is to adapt; `DataError` if there are neither samples nor a start; `DistributionError` for a target that has another
    shape than (n,), cannot be differentiated though gradients are asked for, or is finite at no sample of the start.

    Examples
    --------
    Samples from two Gaussians:

    >>> import torch
    >>> from eim_ros.learning import EIM
    >>> noise = 0.1 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> data = torch.tensor([-1.0, 1.0]).repeat(100)[:, None] + noise
    >>> result = EIM(n_components=2, n_iterations=2, seed=0).fit(data)
    >>> sorted(round(mean) for mean in result.means.flatten().tolist())
    [-1, 1]

    A known density, up to a constant:

    >>> result = EIM(target=lambda x: -((x - 1.0) ** 2).sum(-1), n_components=1, n_iterations=50, seed=0).fit(data)
    >>> round(float(result.means))
    1
    """

    Config = EIMConfig

    def __init__(
        self,
        config: EIMConfig | None = None,
        inputs: RatioInputs | None = None,
        *,
        target: Target | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        default = None if target is None else EIMConfig.known_density()
        super().__init__(default if config is None else config, seed=seed, **settings)
        self.inputs = inputs
        self.target = target
        unused = EIMConfig.unused if target is None else EIMConfig.unused_with_target
        for name in settings:
            if name in unused:
                found = "is estimated from samples" if target is None else "to a known density is exact"
                raise ConfigurationError(f"{name} has no effect, because the density ratio {found}", name)

    @property
    def algorithm(self) -> str:
        return "eim" if self.target is None else "known-density"

    def prepare(
        self, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[EIMState]:
        if self.target is None:
            return self._from_samples(data, start, generator)
        return self._for_target(self.target, data, start, generator)

    def _from_samples(
        self, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[EIMState]:
        checked = checked_data(data).to(generator.device)
        given = None if start is None else checked_start(start, checked)
        shuffled = checked[torch.randperm(len(checked), generator=generator, device=generator.device)]
        first, found = start_of(self.config, given, shuffled, generator)
        self._check_adaptation(found)
        inputs = self.inputs or default_inputs(shuffled.context, shuffled.sample)
        most = max(found.n_components, self.config.max_components if self.config.add_every > 0 else 0)
        reference = data_density(self.config, found.n_components, inputs, shuffled, generator, first, most)
        if given is None and reference is not None and self.config.is_linear:
            found = closest_start(found, reference, shuffled.context, generator)
        ratio = density_ratio(self.config, inputs, reference, shuffled, generator)
        return Prepared(
            EIMIteration.from_samples(self.config, inputs, shuffled),
            EIMState(found, found, ratio, generator, 0, AdaptationState.first(found, self.config.delete_after)),
            self.config.n_iterations,
            checked,
        )

    def _for_target(
        self, given: Target, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[EIMState]:
        checked = data_or_contexts(data, start).to(generator.device)
        if start is None:
            start = self._likeliest(checked, generator)
        first = checked_start(start, checked).to(device=generator.device)
        self._check_adaptation(first)
        target = target_density(given, conditional=checked.conditional, device=generator.device)
        by_gradients = self.config.surrogate == "gradient" and isinstance(first.experts, LinearExperts)
        _check(target, first, checked.context, differentiable=by_gradients)
        adaptation = Adaptation(self.config, checked if has_samples(data) else None)
        ratio = ExactRatio(target, self.config)
        return Prepared(
            EIMIteration(self.config, None, checked, adaptation),
            EIMState(first, first, ratio, generator, 0, AdaptationState.first(first, self.config.delete_after)),
            self.config.n_iterations,
            checked,
        )

    def _likeliest(self, data: Pairs, generator: torch.Generator) -> MixtureOfExperts:
        """Return the likeliest of several fits of EM: the I-projection never leaves a mode for one it does not see.

        Networks start as the linear experts and the gating that EM has found.
        """
        settings = EMConfig(
            n_components=self.config.n_components,
            n_iterations=self.config.initial_em_iterations,
            n_starts=self.config.initial_starts if self.config.initial_em_iterations > 0 else 1,
        )
        result = EM(settings).fit((data.context, data.sample), generator=generator)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return with_networks(result.mixture_of_experts, self.config, data.context, generator)

    def _check_adaptation(self, start: MixtureOfExperts) -> None:
        """Refuse, with `ConfigurationError`, what cannot have a number of components that adapts."""
        Adaptation(self.config).check(start)
        if self.config.adapts and self.config.update == "unstructured":
            raise ConfigurationError(
                "an M-step by gradients has no rewards to delete components by, and too few steps for new ones; set "
                'add_every and delete_after to 0, or update to "structured"',
                self.config.update,
            )


def _check(target: TargetDensity, start: MixtureOfExperts, context: Tensor, *, differentiable: bool) -> None:
    """Refuse a target that says nothing about the start, or has no gradient where one is needed."""
    fixed = torch.Generator(device=start.device).manual_seed(0)  # whatever is drawn here leaves the fit's own alone
    context, sample = draw_pairs(start, context, 200, fixed)
    if not bool(torch.isfinite(target.log_prob(context, sample)).any()):
        raise DistributionError("the target's log density is finite at none of 200 samples of the initial model")
    if differentiable:
        target.gradient(context[:1], sample[:1])
