"""Expected Information Maximisation (EIM) for mixtures and mixtures of experts (thesis chapters 3 and 4, algorithm 2).

EIM needs only samples of p to minimise E_p(y) KL(q(x|y) || p(x|y)). Each iteration has these steps:

1. E-step: draw x ~ q_old(x|y) and retrain the estimate phi(x, y) of log p/q_old. The auxiliary distribution is
   q_old(z|x, y) (eq. 3.2).
2. Update the gating: maximise E[phi(y, z)] - KL(q(z|y) || q_old(z|y)) in a trust region, within the family of the
   gating (4.2.1).
3. Update the experts: fit a quadratic surrogate of phi around each expert, then compute a trust-region I-projection in
   closed form (4.2.2).
4. Keep the new model if, according to the same phi, it is closer to p than the best model so far.
5. If requested, adapt the number of components: delete useless components, and add new ones where the density of
   held-out data exceeds the density of the model (7.1.4).

If the density of p is known up to a constant, the log ratio is exact, and the other steps stay the same (thesis 5.5;
VIPS):

    phi(x, y) = log p(x|y) / T - log q_old(x|y)

With the temperature T, EIM maximises E_q[log p] + T H(q). The M-step still maximises E_q[phi] - KL(q || q_old), which
equals this objective divided by T. The steps are the same as with phi = log p - T log q_old and a KL term of weight T.

Use EIM for a known density to start from samples, to train networks, or to train hundreds of experts with a truncated
log q. For linear models, `eim_ros.learning.gmmvi.GMMVI` implements the complete family of GMMVI algorithms (Arenz et
al. 2023), with or without contexts. The variant LEMBFBX with `own_samples` is the closest to EIM. In terms of the seven
modules of the GMMVI family, EIM works as follows:

- Samples: fresh samples of each component, drawn separately in `update_gating` and `update_experts`. GMMVI uses the
  same samples for both.
- Natural gradient: regression on gradients or values (`fit_to_gradients`, `fit_to_values`), chosen by `surrogate`.
- Component update: trust region with an additional bound on the loss of entropy (`project_experts`).
- Step size of the component update: fixed.
- Weight update: the same kind of trust region (`project_categorical`, `project_gating`).
- Step size of the weight update: fixed.
- Adding and deleting components: `Adaptation` does this before each step. LEMBFBX has a fixed number of components.

Linear experts start from a fit by EM, which is also a candidate for the reference density, an estimate of the density
of the data. EM averages over modes that its components cannot represent separately. The reference density may have more
components than the model, each on one mode. A subset of these components may then be a better start. The start with the
smallest KL(model || reference) is chosen. The chosen start may already be as good as the result of EIM. Use
`start.kind` to select another start.

Several neural experts start from a fit of neural experts by EM. A single neural expert needs another start, because EM
would average over the branches of multi-modal data. A wide expert that covers all branches is almost a stationary point
of the reverse KL, so EIM would not leave it. Therefore, mixtures of one, two and more neural experts are fitted, until
the held-out likelihood no longer increases by more than a standard error. The start is the expert that is closest to
the last mixture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, DistributionError
from eim_ros.core.parallel import tell
from eim_ros.core.settings import Settings, flattened, is_within
from eim_ros.learning.adaptation import Adaptation, AdaptationState
from eim_ros.learning.configs import EIMConfig, EMConfig, FamilyConfig
from eim_ros.learning.data import Pairs, checked_data, checked_start, data_or_contexts, has_samples
from eim_ros.learning.eim.iteration import EIMIteration, EIMState
from eim_ros.learning.eim.m_step import with_covariances
from eim_ros.learning.em.em import EM
from eim_ros.learning.learner import Learner, Prepared
from eim_ros.learning.models.custom import CustomExperts
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.choice import best_fit, data_density, density_ratio, refined
from eim_ros.learning.ratio.custom import CustomRatio, RatioEstimator, checked_estimator
from eim_ros.learning.ratio.density_ratio import DensityRatio
from eim_ros.learning.ratio.inputs import RatioInputs, default_inputs
from eim_ros.learning.ratio.plug_in import ExactRatio, draw_pairs
from eim_ros.learning.run import Status
from eim_ros.learning.starts import (
    branching_start,
    closest_component,
    initial_mixture_of_experts,
    random_start,
    with_networks,
)
from eim_ros.learning.target import Target, TargetDensity, target_density

MOST_BRANCHES = 4  # maximum number of experts in the mixtures that are tried for the start of a single neural expert
MOST_POINTS = 2000  # number of training samples to which these mixtures are fitted
MORE_ITERATIONS = 3  # number of further EM iterations with all training data
# Networks start far from the data, so each EM iteration needs at least this number of L-BFGS iterations.
MIN_NETWORK_ITERATIONS = 60
TOLERANCE = 3e-3  # tolerance of EM [nat]; coarse, because a start need not be accurate
N_SUBSETS = 30  # number of random subsets that are compared
N_SAMPLES = 500  # number of samples per estimate of the KL
LEAST_SHARE = 1e-12  # added to all weights; every component can then be drawn


def neural_start(
    config: FamilyConfig,
    n_components: int,
    n_iterations: int,
    training: Pairs,
    held_out: Pairs,
    generator: torch.Generator,
    kind: str = "closest",
) -> tuple[MixtureOfExperts, MixtureOfExperts]:
    """Return a neural mixture that estimates the density of the data, and the start of EIM.

    Both results are the same model, unless a single expert is requested and the data have several branches. The start
    has `n_components` components. A single expert represents one branch, or the average over all branches if `kind` is
    "em". The data must be shuffled. The held-out data determine the number of branches.
    """
    networks = config.networks.replace("iterations", max(config.networks.iterations, MIN_NETWORK_ITERATIONS))
    family: dict[str, Any] = {
        "expert_kind": config.expert_kind,
        "gating_kind": config.gating_kind,
        "networks": networks,
    }

    def fitted(size: int, iterations: int, data: Pairs, initial: MixtureOfExperts | None) -> MixtureOfExperts:
        algorithm = EM(n_components=size, n_iterations=iterations, tolerance=TOLERANCE, n_candidates=1, **family)
        result = algorithm.fit((data.context, data.sample), initial, generator=generator)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result.mixture_of_experts

    few = training[:MOST_POINTS]
    start = best = fitted(n_components, n_iterations, few, None)
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
    if kind == "em":
        return best, fitted(n_components, min(MORE_ITERATIONS, n_iterations), training, start)
    return best, closest_component(best, few.context, generator)


def _log_prob(model: MixtureOfExperts, data: Pairs) -> Tensor:
    return model.log_prob(data.context, data.sample)


def start_of(
    config: EIMConfig, given: MixtureOfExperts | None, data: Pairs, generator: torch.Generator
) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
    """Return a candidate for the reference density, and the start.

    The candidate is fitted to the training part of the shuffled data. The candidate may be None. A reference density
    with linear experts would limit a neural model, which is soon better than the reference. Therefore, a candidate with
    neural experts is fitted even if a start is given, unless the ratio needs no reference. If no start is given, the
    settings choose one: random points, k-means, or the best of several fits by EM.
    """
    if given is None and config.start.kind in ("random", "k-means"):
        given = cheap_start(config, data, generator)
    if given is None:
        return _fitted(config, data, generator)
    wants_neural = not config.is_linear and config.ratio.estimator != "network"
    return (_fitted(config, data, generator)[0] if wants_neural else None), given


def cheap_start(config: EIMConfig, data: Pairs, generator: torch.Generator) -> MixtureOfExperts:
    """Return a random start, or a start from k-means clusters, with the kinds of experts and gating in the settings."""
    context, sample, size = data.context, data.sample, config.n_components
    if config.start.kind == "random":
        return with_networks(random_start(context, sample, size, generator), config, context, generator)
    if config.expert_kind == "neural":
        return branching_start(config, context, sample, size, generator)
    return with_networks(initial_mixture_of_experts(context, sample, size, generator), config, context, generator)


def _fitted(
    config: EIMConfig, data: Pairs, generator: torch.Generator
) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
    """Fit a candidate for the reference density and a start of EIM to the data.

    With several starts, a linear candidate is fitted to the training part of the data, and EM continues it on all data
    to get the start. With a single start, there is no linear candidate.
    """
    settings: dict[str, Any] = {"n_components": config.n_components, "n_iterations": config.start.em_iterations}
    training, held_out = data[: config.ratio.n_training(len(data))], data[config.ratio.held_out(len(data))]
    if not config.is_linear:
        iterations = config.start.em_iterations
        return neural_start(config, config.n_components, iterations, training, held_out, generator, config.start.kind)

    def report(share: float) -> None:
        tell("start", share, 1.0)

    if config.start.n_starts == 1 or len(training) < config.n_components:
        return None, best_fit(data, data, n_starts=1, generator=generator, report=report, **settings)
    first = best_fit(
        training,
        held_out,
        n_starts=config.start.n_starts,
        generator=generator,
        report=report,
        **settings,
    )
    return first, refined(first, data, config.start.em_iterations)


def closest_start(
    fitted: MixtureOfExperts, reference: MixtureOfExperts, context: Tensor, generator: torch.Generator
) -> MixtureOfExperts:
    """Return the start with the smallest KL to the reference density, which estimates the density of the data.

    The candidates are the fit by EM, and subsets of the components of the reference density. Each subset has the same
    number of components as the fit. The fit is returned if the reference is not linear, or has no more components than
    the fit. `context` (n_samples, n_context) contains the contexts of the data.
    """
    if not reference.is_linear or reference.n_components <= fitted.n_components:
        return fitted
    rows = torch.randint(len(context), (N_SAMPLES,), generator=generator, device=context.device)
    chosen = context[rows]
    share = reference.gating(chosen).exp().mean(0) + LEAST_SHARE
    size = fitted.n_components
    subsets = [share.topk(size).indices]
    subsets += [torch.multinomial(share, size, generator=generator) for _ in range(N_SUBSETS)]
    candidates = [fitted, *(reference.take(subset) for subset in subsets)]

    def divergence(model: MixtureOfExperts) -> float:
        sample = model.sample(chosen, generator)
        return float((model.log_prob(chosen, sample) - reference.log_prob(chosen, sample)).mean())

    return min(candidates, key=divergence)


class EIM(Learner[EIMConfig, EIMState]):
    """Expected information maximisation for mixtures of experts, from samples or for a known density.

    Parameters
    ----------
    config : EIMConfig, optional
        By default, `EIMConfig()`, or `EIMConfig.known_density()` if there is a target.
    inputs : RatioInputs, optional
        Inputs of the density ratio estimator. By default, samples and contexts are standardised, or whitened if they
        are strongly correlated.
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable; optional
        Log density up to a constant, as a function of samples (n, dx), or of contexts (n, dy) and samples. A target
        without a method `score` is differentiated automatically, unless `m_step.surrogate` is "value". An annealed
        target has a method `at(iteration)`; see `target_density`. If no target is given, the ratio is estimated from
        the data.
    estimator : RatioEstimator, optional
        Custom estimator of the density ratio: any object with the methods `fit` and `log_ratio`. By default, the
        setting `ratio.estimator` selects an estimator.
    seed : int
        Seed of a fit without a generator.
    **settings
        Settings by keyword, which override settings of `config`, for example `EIM(n_components=10)`. The short form
        `EIM(start="em")` sets the kind of start; see `StartConfig`.

    Raises
    ------
    ConfigurationError
        The constructor raises this error if a setting has no effect on this kind of fit, or if the estimator lacks a
        method or an argument of a method. `fit` raises it if the settings adapt the number of components or restrict
        the covariances, although the model has networks or `update` is "unstructured".
    DataError
        `fit` raises this error if there are neither samples nor a start.
    DistributionError
        `fit` raises this error if the target or the estimator does not return the shape (n,), or cannot be
        differentiated although gradients are needed. The error is also raised if the target is not finite at any sample
        of the start, or if the estimator is not finite at a sample.

    Notes
    -----
    When EIM learns from samples, `fit` accepts a start with any kind of experts and gating. By default, `start.kind`
    chooses the start; see `StartConfig`. With `n_iterations=0`, `fit` returns the start. The status is UNCHANGED if no
    update was kept, or if the updates sum to at most 1e-4 nat. The history records

    - `loss`, `accuracy` and `ratio_kl`, which are estimated from held-out data. `ratio_kl` is the estimate of KL(q ||
      p) before the update [nat];
    - `network_used`, 1 if a network contributes to the ratio, otherwise 0;
    - `skipped`, 1 if the model stayed the same because the ratio was constant or not finite. Other iterations do not
      record `skipped`. `history.n_skipped` is the number of skipped iterations. If only a network estimates the ratio,
      the ratio is constant as long as the network is not used;
    - `gating_kl` and `expert_kl`, the mean KL of the two updates [nat];
    - `kept`, 1 if the new model is the best one so far, otherwise 0;
    - if the number of components adapts, `n_components` after each iteration, and the numbers `added` and `deleted`.

    To fit a known density, pass samples (n, dx), or a pair of contexts (n, dy) and samples (n, dx), to `fit`. By
    default, EM is fitted to the samples several times, and the fit with the highest likelihood is the start. The
    samples are also candidates for the centres of new components. If you pass a start, the samples may be None. A model
    without contexts then needs no data at all. The fit ends with CONVERGED when the model or the objective no longer
    changes. The fit ends with NON_FINITE if the target is not finite at samples of the model. The history records

    - `elbo`, the objective E[log p] + T H(q) [nat], and its `elbo_standard_error`;
    - if the `elbo` is minus infinity, also `outside`, the probability that the target is not finite, and `elbo_inside`,
      the objective of the model restricted to the remaining samples [nat];
    - `entropy`, H(q) [nat], and `change`, the KL of the new model to the old one [nat];
    - `gating_kl` and `expert_kl`, the mean KL of the two updates [nat];
    - `evaluations`, the number of evaluations of the target, and `non_finite`, the share of them that is not finite;
    - if the number of components adapts, `n_components` and the numbers `added` and `deleted` before the iteration.

    Examples
    --------
    Learn from samples of two Gaussians:

    >>> import torch
    >>> from eim_ros.learning import EIM
    >>> noise = 0.1 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> data = torch.tensor([-1.0, 1.0]).repeat(100)[:, None] + noise
    >>> result = EIM(n_components=2, n_iterations=2, seed=0).fit(data)
    >>> sorted(round(mean) for mean in result.means.flatten().tolist())
    [-1, 1]

    Approximate a density that is known up to a constant:

    >>> result = EIM(target=lambda x: -((x - 1.0) ** 2).sum(-1), n_components=1, n_iterations=50, seed=0).fit(data)
    >>> round(float(result.means))
    1
    """

    Config = EIMConfig

    refused: ClassVar[Mapping[str, str]] = {
        "sample_weight": Learner.refused["sample_weight"],
        "validation_data": "it holds out data automatically; set ratio.validation_share to the held-out share, and "
        "plateau_window to stop early",
    }

    def __init__(
        self,
        config: EIMConfig | None = None,
        inputs: RatioInputs | None = None,
        *,
        target: Target | None = None,
        estimator: RatioEstimator | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        if isinstance(settings.get("start"), str):
            settings["start.kind"] = settings.pop("start")
        default = None if target is None else EIMConfig.known_density()
        super().__init__(default if config is None else config, seed=seed, **settings)
        self.inputs = inputs
        self.target = target
        self.estimator = None if estimator is None else checked_estimator(estimator)
        unused, found = EIMConfig.unused, "the density ratio is estimated from samples"
        if target is not None:
            unused, found = EIMConfig.unused_with_target | {"estimator"}, "the density ratio to a known density is "
            "exact"
        elif estimator is not None:
            unused, found = EIMConfig.unused_with_estimator | {"inputs"}, "the given estimator computes the density "
            "ratio"
        given = {name for name, part in (("estimator", estimator), ("inputs", inputs)) if part is not None}
        for name in [*flattened(EIMConfig, settings), *sorted(given)]:
            if is_within(name, unused):
                raise ConfigurationError(f"{name} has no effect, because {found}; leave out this setting", name)

    @property
    def algorithm(self) -> str:
        return "eim" if self.target is None else "known-density"

    def _described(self) -> dict[str, Any]:
        """Return the name of the estimator's class, and the settings of the inputs, the target and the estimator."""
        parts = {"inputs": self.inputs, "target": self.target, "estimator_config": self.estimator}
        settings = {name: getattr(part, "config", None) for name, part in parts.items()}
        kind = {} if self.estimator is None else {"estimator": type(self.estimator).__qualname__}
        return kind | {name: config.to_mapping() for name, config in settings.items() if isinstance(config, Settings)}

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
        if self.estimator is not None and given is not None:
            first, found = None, given
        else:
            first, found = start_of(self.config, given, shuffled, generator)
        self._check_experts(found)
        inputs = self.inputs or default_inputs(shuffled.context, shuffled.sample, self.config.ratio.quadratic)
        if self.estimator is not None:
            ratio: DensityRatio = CustomRatio(self.estimator, self.config.ratio)
        else:
            adaptation = self.config.adaptation
            most = max(found.n_components, adaptation.max_components if adaptation.add_every > 0 else 0)
            reference = data_density(self.config.ratio, found.n_components, inputs, shuffled, generator, first, most)
            if (
                given is None
                and reference is not None
                and self.config.is_linear
                and self.config.start.kind == "closest"
            ):
                found = closest_start(found, reference, shuffled.context, generator)
            ratio = density_ratio(self.config.ratio, inputs, reference, shuffled, generator)
        found = self._restricted(found, shuffled.context)
        iteration = EIMIteration.from_samples(self.config, inputs, shuffled)
        return Prepared(
            iteration,
            EIMState(
                found, found, ratio, generator, 0, AdaptationState.first(found, self.config.adaptation.delete_after)
            ),
            self.config.n_iterations,
            checked,
            unchanged=iteration.unchanged,
        )

    def _for_target(
        self, given: Target, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[EIMState]:
        checked = data_or_contexts(data, start).to(generator.device)
        if start is None:
            start = self._likeliest(checked, generator)
        first = checked_start(start, checked)
        self._check_experts(first)
        first = self._restricted(first, checked.context)
        target = target_density(given, conditional=checked.conditional, device=generator.device)
        by_gradients = self.config.m_step.surrogate == "gradient" and isinstance(first.experts, LinearExperts)
        _check(target, first, checked.context, differentiable=by_gradients)
        adaptation = Adaptation(self.config.adaptation, checked if has_samples(data) else None)
        ratio = ExactRatio(target, self.config.exact, self.config.ratio.auxiliary)
        return Prepared(
            EIMIteration(self.config, None, checked, adaptation),
            EIMState(
                first, first, ratio, generator, 0, AdaptationState.first(first, self.config.adaptation.delete_after)
            ),
            self.config.n_iterations,
            checked,
        )

    def _likeliest(self, data: Pairs, generator: torch.Generator) -> MixtureOfExperts:
        """Return the fit with the highest likelihood among several fits by EM.

        Several starts are needed because an I-projection does not find modes that are far from all components. Networks
        are initialised to equal the fitted linear experts and gating.
        """
        if self.config.start.kind in ("random", "k-means"):
            return cheap_start(self.config, data, generator)
        settings = EMConfig(
            n_components=self.config.n_components,
            n_iterations=self.config.start.em_iterations,
            n_starts=self.config.start.n_starts if self.config.start.em_iterations > 0 else 1,
            n_candidates=1,  # several starts are compared anyway
        )
        result = EM(settings).fit((data.context, data.sample), generator=generator)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return with_networks(result.mixture_of_experts, self.config, data.context, generator)

    def _restricted(self, start: MixtureOfExperts, context: Tensor) -> MixtureOfExperts:
        """Return the start with the covariances that the M-step keeps."""
        covariance = self.config.m_step.covariance
        if covariance != "full" and self.config.update == "unstructured":
            raise ConfigurationError(
                f"the unstructured update does not support {covariance} covariances; set m_step.covariance to full, or "
                "update to structured",
                covariance,
            )
        return with_covariances(start, covariance, context)

    def _check_experts(self, start: MixtureOfExperts) -> None:
        """Raise `ConfigurationError` if EIM cannot update the experts, or cannot adapt their number as requested."""
        Adaptation(self.config.adaptation).check(start)
        if isinstance(start.experts, CustomExperts) and self.config.update == "structured":
            raise ConfigurationError(
                'EIM can update experts of a custom family only by gradient steps; set update to "unstructured"',
                type(start.experts.family).__name__,
            )
        if self.config.adaptation.adapts and self.config.update == "unstructured":
            raise ConfigurationError(
                "the unstructured update cannot adapt the number of components; set adaptation.add_every and "
                'adaptation.delete_after to 0, or update to "structured"',
                self.config.update,
            )


def _check(target: TargetDensity, start: MixtureOfExperts, context: Tensor, *, differentiable: bool) -> None:
    """Raise `DistributionError` if the target is not finite at any sample of the start or lacks a needed gradient."""
    # A separate generator keeps the check from changing the fit.
    fixed = torch.Generator(device=start.device).manual_seed(0)
    context, sample = draw_pairs(start, context, 200, fixed)
    if not bool(torch.isfinite(target.log_prob(context, sample)).any()):
        raise DistributionError(
            "the log density of the target is not finite at any of 200 samples of the initial model; give a start "
            "within the support of the target"
        )
    if differentiable:
        target.gradient(context[:1], sample[:1])
