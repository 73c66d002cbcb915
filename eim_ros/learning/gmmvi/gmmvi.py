"""Gaussian mixture variational inference by natural gradients: VIPS, iBayes-GMM and all combinations of their parts.

The ELBO E_q[log p~ - log q] of a Gaussian mixture q is maximised by natural-gradient steps. The components and the
weights are all updated independently. Seven modules define the steps (Arenz et al. 2023, "A unified perspective on
natural gradient variational inference with Gaussian mixture models"); see `GMMVIConfig` and `Modules`.

With contexts y, the model is a mixture of linear experts with a softmax gating, q(x|y), and its ELBO is averaged over
the contexts. The same modules then update components whose means are linear in the context (`ExpertComponents`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eim_ros.core.checks import expect
from eim_ros.core.errors import ConfigurationError, DataError, DistributionError
from eim_ros.core.parallel import torch_threads
from eim_ros.learning.adaptation import ComponentRecords, Mixture
from eim_ros.learning.gmmvi.iteration import GMMVIState, Iteration, Modules, components_of
from eim_ros.learning.gmmvi.samples import SampleDatabase
from eim_ros.learning.gmmvi.settings import GMMVIConfig
from eim_ros.learning.learner import checked_contexts, checked_seed, configuration, generator_from
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.standardisation import linear_parts
from eim_ros.learning.run import Checkpoint, FitResult, run
from eim_ros.learning.target import Target, TargetDensity, target_density

N_CHECKED = 200  # samples at which the target is checked before a fit
N_COMPONENTS = 10  # default if neither the settings nor the target specify a number


class GMMVI:
    """Variational inference with a Gaussian mixture, or with a mixture of linear experts.

    Parameters
    ----------
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable
        Log density, not necessarily normalised, of samples (n, n_dims). If `fit` is given contexts (n, n_context), it
        is a function of contexts and samples. A target without a method `score` is differentiated automatically if
        gradients are needed. A target with a method `minibatch(generator)` is replaced in each iteration by the result
        of that method. A target with a method `at(iteration)` is annealed; see `target_density`.
    config : GMMVIConfig, optional
    modules : Modules, optional
        Custom modules; by default those chosen in the settings.
    seed : int
        Seed of fits that are not given a generator.
    **settings
        Fields of `GMMVIConfig`, which override those of `config`: `GMMVI(target, n_components=10, seed=3)`.
    """

    def __init__(
        self,
        target: Target,
        config: GMMVIConfig | None = None,
        modules: Modules | None = None,
        *,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self.target = target
        self.config = configuration(GMMVIConfig, config, settings)
        self.modules = modules or Modules.of(self.config)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        initial: GaussianMixture | MixtureOfExperts | None = None,
        generator: torch.Generator | None = None,
        *,
        context: Any = None,
        callbacks: Sequence[Callable[[GMMVIState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[GMMVIState]:
        """Fit a model to the target.

        Parameters
        ----------
        initial : GaussianMixture or MixtureOfExperts, optional
            Initial model. By default it is suggested by the target, `target.start.mixture(generator, n_components)`. A
            target without a suggestion but with `n_dims` gets a `random_start` from the settings. If diagonal
            covariances are requested, only the variances of full covariances are used. With contexts, a mixture is
            converted to experts and a gating that do not depend on them.
        generator : torch.Generator, optional
            Source of all randomness. By default it comes from the learner's seed. The fit runs on the device of the
            generator.
        context : array (n, n_context), optional
            Equally probable contexts, for example from the data. If given, a mixture of experts is fitted.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            The status is MAX_ITERATIONS at the bound on iterations or evaluations, and CONVERGED on a plateau of the
            ELBO. It is NON_FINITE if the target is not finite at samples of the model, because the ELBO is then minus
            infinity.

            For each iteration, before its update, the history holds `elbo`, the objective E[log p] + T H(q) [nat], and
            `elbo_standard_error`. If the target is not finite at some samples, `elbo` is minus infinity. `elbo_inside`
            is then the objective of the model restricted to the region where the target is finite. `outside` is the
            probability of the rest. Other entries are the number of `evaluations` of the target and `n_components`, the
            numbers of components `added` and `deleted`, and the share of components `updated`.

        Raises
        ------
        ConfigurationError
            If the bound on evaluations does not permit a single iteration.
        ConfigurationError
            If diagonal covariances are requested for experts.
        DataError
            If the contexts are not a finite matrix, or have other columns than the initial model.
        DistributionError
            If the initial model is not a mixture, has other dimensions than the target, or has nonlinear experts.
        DistributionError
            If the target does not return the shape (n,), or cannot be differentiated although gradients are needed.
            Also if it is NaN or plus infinity at any sample of the initial model, or finite at none of them.
        """
        generator = generator_from(generator, self.seed)
        places = checked_contexts(context).to(generator.device)
        start = self._start(initial, generator, places.shape[1])
        target = target_density(self.target, conditional=context is not None, device=generator.device)
        algorithm = Iteration(self.config, self.modules, target, places, start)
        state = self._first_state(start, places, generator)
        if algorithm.exhausted(state):
            needed = self.modules.samples.n_new(start.n_components)
            raise ConfigurationError(
                f"max_evaluations {self.config.max_evaluations} is less than one iteration's {needed}; raise it, or "
                "lower n_samples or n_components",
                self.config.max_evaluations,
            )
        _check(target, start, places, differentiable=self.modules.natural_gradient.needs_gradient)
        return run(
            algorithm,
            state,
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=context is not None,
            exhausted=algorithm.exhausted,
        )

    def _start(
        self, initial: GaussianMixture | MixtureOfExperts | None, generator: torch.Generator, n_context: int
    ) -> MixtureOfExperts:
        n_dims = getattr(self.target, "n_dims", None)
        if initial is None:
            config, suggested = self.config, getattr(self.target, "start", None)
            if suggested is not None:
                initial = suggested.mixture(generator, config.n_components or None)
            elif n_dims is not None:
                n_components = config.n_components or N_COMPONENTS
                initial = random_start(n_dims, n_components, config.start_spread, config.start_scale, generator)
            else:
                raise DistributionError("a start is needed: the target does not tell its n_dims", self.target)
        if not isinstance(initial, MixtureOfExperts):
            expect(initial, GaussianMixture, "the start", DistributionError)
        if n_dims is not None and initial.n_dims != n_dims:
            raise DistributionError(f"the start has {initial.n_dims} dimensions, but the target {n_dims}", n_dims)
        model = initial if isinstance(initial, MixtureOfExperts) else MixtureOfExperts.from_mixture(initial)
        model = model.to(dtype=torch.float64, device=generator.device)
        if model.n_context == n_context:
            return model
        if isinstance(initial, MixtureOfExperts):
            raise DataError(f"the start has {model.n_context} context columns, but {n_context} are given", n_context)
        return _independent_of(model, n_context)

    def _first_state(self, start: MixtureOfExperts, context: Tensor, generator: torch.Generator) -> GMMVIState:
        modules = self.modules
        log_weights, components = components_of(start, context, self.config.covariance)
        records = ComponentRecords.first(
            log_weights, modules.adaptation.window, modules.component_step_size.first, self.config.first_ridge
        )
        database = SampleDatabase.empty(
            components, modules.adaptation.n_candidates, with_gradient=modules.natural_gradient.needs_gradient
        )
        return GMMVIState(
            Mixture(log_weights, components, records),
            database,
            log_weights.new_full((1,), modules.weight_step_size.first),
            log_weights.new_full((2,), torch.nan),
            float(components.entropy().mean()),
            evaluations=0,
            last_evaluations=0,
            iteration=0,
            generator=generator,
        )


def random_start(
    n_dims: int,
    n_components: int,
    spread: float | Tensor,
    scale: float | Tensor,
    generator: torch.Generator | None = None,
) -> GaussianMixture:
    """Return components of equal weight and equal diagonal covariance, with means drawn from N(0, spread^2).

    Parameters
    ----------
    n_dims, n_components : int
    spread : float or Tensor (n_dims,)
        Standard deviations of the means.
    scale : float or Tensor (n_dims,)
        Standard deviations of the components.
    generator : torch.Generator, optional
        By default, a generator with seed 0.
    """
    generator = generator or torch.Generator().manual_seed(0)
    noise = torch.randn(n_components, n_dims, generator=generator, dtype=torch.float64, device=generator.device)
    scales = torch.as_tensor(scale, dtype=torch.float64, device=generator.device).expand(n_components, n_dims)
    spreads = torch.as_tensor(spread, dtype=torch.float64, device=generator.device)
    return GaussianMixture(noise.new_zeros(n_components), spreads * noise, torch.diag_embed(scales))


def _independent_of(model: MixtureOfExperts, n_context: int) -> MixtureOfExperts:
    """Convert a mixture to experts and a gating that do not depend on their contexts."""
    gating, experts = linear_parts(model)
    weights = experts.biases.new_zeros(*experts.biases.shape, n_context)
    return MixtureOfExperts(
        SoftmaxGating(weights[:, 0], gating.biases), LinearExperts(weights, experts.biases, experts.scale_trils)
    )


def _check(target: TargetDensity, start: MixtureOfExperts, context: Tensor, *, differentiable: bool) -> None:
    """Reject a target that is not finite at the start, or that has no gradient although one is needed."""
    fixed = torch.Generator(device=start.device).manual_seed(0)  # does not advance the generator of the fit
    context = context[torch.randint(len(context), (N_CHECKED,), generator=fixed, device=fixed.device)]
    sample = start.sample(context, fixed)
    log_prob = target.log_prob(context, sample)
    wrong = log_prob.isnan() | (log_prob == torch.inf)
    if bool(wrong.any()):
        raise DistributionError(
            f"the target's log density is NaN or plus infinity at {int(wrong.sum())} of {N_CHECKED} samples of the "
            "start; it must be a number, or minus infinity where the density is zero",
            sample[wrong][0],
        )
    if not bool(torch.isfinite(log_prob).any()):
        raise DistributionError(
            f"the target's log density is finite at none of {N_CHECKED} samples of the start; give one that overlaps "
            "with the target's support"
        )
    if differentiable:
        target.gradient(context[:1], sample[:1])
