"""Gaussian mixture variational inference by natural gradients: VIPS, iBayes-GMM and all that lies between them.

The ELBO E_q[log p~ - log q] of a Gaussian mixture q is maximised by natural-gradient steps of its components and of its
weights, all of them independent of each other. Seven modules decide how (Arenz et al. 2023, "A unified perspective on
natural gradient variational inference with Gaussian mixture models"); see `GMMVIConfig` and `Modules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.errors import ConfigurationError, DistributionError
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.run import Checkpoint, FitResult, run
from eim_ros.inference.target_density import Target, TargetDensity, target_density
from eim_ros.inference.variational.component_adaptation import Mixture
from eim_ros.inference.variational.component_records import ComponentRecords
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.configuration import GMMVIConfig
from eim_ros.inference.variational.diagonal_components import DiagonalComponents
from eim_ros.inference.variational.full_components import FullComponents
from eim_ros.inference.variational.iteration import GMMVIState, Iteration
from eim_ros.inference.variational.modules import Modules
from eim_ros.inference.variational.sample_database import SampleDatabase
from eim_ros.numerics.arguments import expect
from eim_ros.numerics.threads import torch_threads

__all__ = ["GMMVI", "random_start"]

N_CHECKED = 200
N_COMPONENTS = 10  # where neither settings nor target tell


class GMMVI:
    """Variational inference with a Gaussian mixture.

    Parameters
    ----------
    target : GaussianMixture, object with `log_prob`, or callable
        Log density, which need not be normalised, of samples (n, n_dims). Where it has no method `score`, it is
        differentiated automatically if gradients are needed. One with a method `minibatch(generator)` is replaced by
        what that returns, in each iteration anew; one with a method `at(iteration)` is annealed, see `target_density`.
    config : GMMVIConfig, optional
    modules : Modules, optional
        Modules of one's own; otherwise those that the settings name.
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `GMMVIConfig`, which replace those of `config`: `GMMVI(target, n_components=10, seed=3)`.
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
        initial: GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[GMMVIState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[GMMVIState]:
        """Fit to the target.

        Parameters
        ----------
        initial : GaussianMixture, optional
            Start; otherwise what the target suggests, `target.start.mixture(generator, n_components)`, or
            `random_start` by the settings for a target that tells its `n_dims`. Of full covariances the variances are
            taken where diagonal ones are asked for.
        generator : torch.Generator, optional
            All randomness; the learner's seed if missing. Its device is where the fit runs.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            MAX_ITERATIONS at the bound on iterations or evaluations, CONVERGED on a plateau of the ELBO. NON_FINITE if
            the target is not finite at samples of the model: its ELBO is minus infinity then. The history holds, of
            each iteration before its update, `elbo`, the objective E[log p] + T H(q) [nat] with its
            `elbo_standard_error`, or instead `elbo_inside`, that of the model restricted to where the target is finite,
            and the probability `outside`; `evaluations` of the target, `n_components`, how many were `added` and
            `deleted`, and the share of them that was `updated`.

        Raises
        ------
        ConfigurationError
            A bound on evaluations that allows for no iteration.
        DistributionError
            A start that is no mixture or of other dimensions than the target; a target of another shape than (n,), that
            is NaN or plus infinity at samples of the start or finite at none of them, or that cannot be differentiated
            though gradients are needed.
        """
        generator = generator_from(generator, self.seed)
        start = self._start(initial, generator)
        target = target_density(self.target, conditional=False, device=generator.device)
        algorithm = Iteration(self.config, self.modules, target)
        state = self._first_state(start, generator)
        if algorithm.exhausted(state):
            needed = self.modules.samples.n_new(start.n_components)
            raise ConfigurationError(
                f"max_evaluations {self.config.max_evaluations} is less than one iteration's {needed}; raise it, or "
                "lower n_samples or n_components",
                self.config.max_evaluations,
            )
        _check(target, start, differentiable=self.modules.natural_gradient.needs_gradient)
        return run(
            algorithm,
            state,
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=False,
            exhausted=algorithm.exhausted,
        )

    def _start(self, initial: GaussianMixture | None, generator: torch.Generator) -> GaussianMixture:
        n_dims = getattr(self.target, "n_dims", None)
        if initial is None:
            config, suggested = self.config, getattr(self.target, "start", None)
            if suggested is not None:
                initial = suggested.mixture(generator, config.n_components or None)
            elif n_dims is not None:
                n_components = config.n_components or N_COMPONENTS
                return random_start(n_dims, n_components, config.start_spread, config.start_scale, generator)
            else:
                raise DistributionError("a start is needed: the target does not tell its n_dims", self.target)
        expect(initial, GaussianMixture, "the start", DistributionError)
        if n_dims is not None and initial.n_dims != n_dims:
            raise DistributionError(f"the start has {initial.n_dims} dimensions, but the target {n_dims}", n_dims)
        return MixtureOfExperts.from_mixture(initial).to(dtype=torch.float64, device=generator.device).as_mixture()

    def _first_state(self, start: GaussianMixture, generator: torch.Generator) -> GMMVIState:
        modules, means = self.modules, start.means
        components: Components = FullComponents(means, start.scale_trils)
        if self.config.covariance == "diagonal":
            components = DiagonalComponents(means, start.scale_trils.square().sum(-1).sqrt())
        records = ComponentRecords.first(
            means, modules.adaptation.window, modules.component_step_size.first, self.config.first_ridge
        )
        database = SampleDatabase.empty(
            components, modules.adaptation.n_candidates, with_gradient=modules.natural_gradient.needs_gradient
        )
        return GMMVIState(
            Mixture(start.log_weights, components, records),
            database,
            means.new_full((1,), modules.weight_step_size.first),
            means.new_full((2,), torch.nan),
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
    """Components of equal weight and the same diagonal covariance, with means drawn from N(0, spread^2).

    Parameters
    ----------
    n_dims, n_components : int
    spread : float or Tensor (n_dims,)
        Standard deviations of the means.
    scale : float or Tensor (n_dims,)
        Standard deviations of the components.
    generator : torch.Generator, optional
        Seed 0 if missing.
    """
    generator = generator or torch.Generator().manual_seed(0)
    noise = torch.randn(n_components, n_dims, generator=generator, dtype=torch.float64, device=generator.device)
    scales = torch.as_tensor(scale, dtype=torch.float64, device=generator.device).expand(n_components, n_dims)
    spreads = torch.as_tensor(spread, dtype=torch.float64, device=generator.device)
    return GaussianMixture(noise.new_zeros(n_components), spreads * noise, torch.diag_embed(scales))


def _check(target: TargetDensity, start: GaussianMixture, *, differentiable: bool) -> None:
    """Refuse a target that says nothing about the start, or has no gradient where one is needed."""
    fixed = torch.Generator(device=start.means.device).manual_seed(0)  # the fit's own generator is left alone
    drawn = torch.multinomial(start.log_weights.exp(), N_CHECKED, replacement=True, generator=fixed)
    noise = torch.randn(N_CHECKED, start.n_dims, 1, generator=fixed, dtype=torch.float64, device=fixed.device)
    sample = start.means[drawn] + (start.scale_trils[drawn] @ noise).squeeze(-1)
    log_prob = target.log_prob(sample[:, :0], sample)
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
        target.gradient(sample[:1, :0], sample[:1])
