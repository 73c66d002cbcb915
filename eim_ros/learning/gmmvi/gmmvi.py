"""Variational inference with Gaussian mixtures by natural gradients: VIPS, iBayes-GMM and combinations of their parts.

Natural-gradient steps maximise the ELBO E_q[log p~ - log q] of a Gaussian mixture q. Each component is updated
independently of the other components and of the weights. Seven modules define the steps (Arenz et al. 2023, "A unified
perspective on natural gradient variational inference with Gaussian mixture models"); see `GMMVIConfig` and `Modules`.

With contexts y, the model is a mixture of linear experts with a softmax gating, q(x|y), and its ELBO is averaged over
the contexts. The same modules then update components whose means are linear in the context (`ExpertComponents`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eim_ros.core.checks import checked_whole, expect, with_hints
from eim_ros.core.errors import ConfigurationError, DataError, DistributionError
from eim_ros.learning.data import Pairs, checked_contexts
from eim_ros.learning.gmmvi.adaptation import ComponentRecords, Mixture
from eim_ros.learning.gmmvi.iteration import GMMVIState, Iteration, Modules, components_of
from eim_ros.learning.gmmvi.samples import SampleDatabase
from eim_ros.learning.gmmvi.settings import GMMVIConfig
from eim_ros.learning.learner import Learner, Prepared
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.standardisation import linear_parts
from eim_ros.learning.target import Target, TargetDensity, n_dims_of, target_density

N_CHECKED = 200  # number of samples at which the target is evaluated for a check before a fit
# scales of ascending samples, relative to the start, if the scale of the target is unknown
WIDTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
N_COMPONENTS = 10  # default number, if neither the settings nor the target specify one


class GMMVI(Learner[GMMVIConfig, GMMVIState]):
    """Variational inference with a Gaussian mixture, or with a mixture of linear experts.

    Parameters
    ----------
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable
        Log density of samples (n, n_dims). The density need not be normalised. If you pass contexts (n, n_context) to
        `fit`, the target is a function of contexts and samples. A target without a method `score` is differentiated
        automatically if gradients are needed. If the target has a method `minibatch(generator)`, each iteration uses
        the target that this method returns. A target with a method `at(iteration)` is annealed; see `target_density`.
    config : GMMVIConfig, optional
        If omitted, all settings have their default values.
    modules : Modules, optional
        Custom modules. By default, the settings choose the modules.
    n_dims : int, optional
        Dimension of the samples. The argument is needed if the target is a function and `fit` has no start.
    seed : int
        Seed of fits without a generator.
    **settings
        Settings by keyword, which override settings of `config`: `GMMVI(target, n_components=10, seed=3)`.

    Notes
    -----
    To fit a mixture, pass no data to `fit`. To fit a mixture of experts, pass contexts (n, n_context). All contexts are
    equally likely.

    The initial model of a conditional fit may be a Gaussian mixture. Its components do not depend on the contexts at
    first. Diagonal covariances start from the variances of the initial model. Without an initial model, `fit` calls
    `target.start.mixture(generator, n_components)` if the target has an attribute `start`. Otherwise, it calls
    `random_start`. The number of dimensions is `n_dims`, or an attribute `n_dims` or `event_shape` of the target. The
    scale of the target is unknown in this case. Therefore, some samples ascend from points that are up to a hundred
    times farther away than the start.

    The status of the result is

    - CONVERGED on a plateau of the ELBO,
    - MAX_ITERATIONS at the maximum number of iterations or evaluations,
    - NON_FINITE if the target is not finite at samples of the final model. The ELBO of this model is minus infinity.

    The history contains these values for each iteration, computed before its update:

    - `elbo` and `elbo_standard_error`: the objective E[log p] + T H(q) [nat].
    - `elbo_inside`: the objective of the model restricted to the support of the target [nat]. This value replaces
      `elbo` if the target is not finite at some samples.
    - `outside`: the probability that the target is not finite at a sample. This value accompanies `elbo_inside`.
    - `evaluations`: number of evaluations of the target.
    - `n_components`, `added` and `deleted`: numbers of components.
    - `updated`: fraction of the components whose update was accepted.

    `fit` raises these errors:

    - `ConfigurationError` if the maximum number of evaluations is too small for one iteration, or if diagonal
      covariances are requested for experts. The constructor raises this error if `n_dims` differs from the dimension of
      the target.
    - `DataError` if the contexts are not a matrix of finite numbers, or have another number of columns than the initial
      model.
    - `DistributionError` if the initial model is not a mixture, is not linear, or differs from the target in its
      dimensions.
    - `DistributionError` if the target returns a shape other than (n,), is NaN or plus infinity at samples of the
      initial model, or is not finite at any of them. This error is also raised if the target cannot be differentiated
      although gradients are needed.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.gmmvi import GMMVI
    >>> from eim_ros.learning.models import GaussianMixture
    >>> target = GaussianMixture(torch.zeros(2), torch.tensor([[-2.0], [2.0]]), torch.ones(2, 1, 1))
    >>> fixed = {"adaptation.add_every": 0}
    >>> result = GMMVI(target, n_components=2, n_iterations=100, seed=0, **fixed).fit()
    >>> sorted(round(mean) for mean in result.means.flatten().tolist())
    [-2, 2]

    If the target is a function, give the number of dimensions:

    >>> result = GMMVI(lambda x: -0.5 * ((x - 1.0) ** 2).sum(-1), n_dims=2, n_components=1, **fixed).fit()
    >>> [round(mean, 3) for mean in result.means[0].tolist()]
    [1.0, 1.0]
    """

    Config = GMMVIConfig
    algorithm = "gmmvi"
    bounds = ("n_iterations", "max_evaluations")

    def __init__(
        self,
        target: Target,
        config: GMMVIConfig | None = None,
        modules: Modules | None = None,
        *,
        n_dims: int | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(config, seed=seed, **settings)
        self.target = target
        known = n_dims_of(target)
        self.n_dims = known if n_dims is None else checked_whole(n_dims, 1, "n_dims")
        if known is not None and self.n_dims != known:
            raise ConfigurationError(
                f"n_dims is {n_dims}, but the target has {known} dimensions; leave n_dims out", n_dims
            )
        self.modules = modules or Modules.of(self.config)

    def prepare(
        self, data: Any, start: MixtureOfExperts | GaussianMixture | None, generator: torch.Generator
    ) -> Prepared[GMMVIState]:
        places = checked_contexts(data).to(generator.device)
        target = target_density(self.target, conditional=data is not None, device=generator.device)
        first = self._start(start, generator, places.shape[1])
        is_guess = start is None and getattr(self.target, "start", None) is None
        algorithm = Iteration(self.config, self.modules, target, places, first, WIDTHS if is_guess else (1.0,))
        state = self._first_state(first, places, generator)
        if algorithm.exhausted(state):
            needed = self.modules.samples.n_new(first.n_components)
            raise ConfigurationError(
                f"max_evaluations is {self.config.max_evaluations}, but one iteration needs {needed} evaluations; "
                "raise max_evaluations, or lower n_samples or n_components",
                self.config.max_evaluations,
            )
        _check(target, first, places, differentiable=self.modules.natural_gradient.needs_gradient)
        contexts = Pairs(places, places.new_zeros(len(places), 0), conditional=data is not None)
        return Prepared(algorithm, state, self.config.n_iterations, contexts, first, algorithm.exhausted)

    def _start(
        self, initial: GaussianMixture | MixtureOfExperts | None, generator: torch.Generator, n_context: int
    ) -> MixtureOfExperts:
        n_dims = self.n_dims
        if initial is None:
            config, suggested = self.config, getattr(self.target, "start", None)
            if suggested is not None:
                initial = suggested.mixture(generator, config.n_components or None)
            elif n_dims is not None:
                n_components = config.n_components or N_COMPONENTS
                initial = random_start(n_dims, n_components, config.start.spread, config.start.scale, generator)
            else:
                raise DistributionError(
                    "the dimension of the target is not known; give the dimension, as in GMMVI(target, n_dims=2), or "
                    "give a "
                    "start, as in fit(start=random_start(n_dims=2, "
                    f"n_components={config.n_components or N_COMPONENTS}))",
                    self.target,
                )
        if not isinstance(initial, MixtureOfExperts):
            expect(initial, GaussianMixture, "the start", DistributionError)
        if n_dims is not None and initial.n_dims != n_dims:
            raise DistributionError(
                f"the start has {initial.n_dims} dimensions, but the target has {n_dims}; give a start with the "
                "dimensions of the target",
                n_dims,
            )
        model = initial if isinstance(initial, MixtureOfExperts) else MixtureOfExperts.from_mixture(initial)
        model = model.to(dtype=torch.float64, device=generator.device)
        if model.n_context == n_context:
            return model
        if isinstance(initial, MixtureOfExperts):
            raise DataError(
                f"the start needs contexts with {model.n_context} columns, got {n_context} columns", n_context
            )
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


@with_hints
def random_start(
    n_dims: int,
    n_components: int = N_COMPONENTS,
    spread: float | Tensor = 1.0,
    scale: float | Tensor = 1.0,
    generator: torch.Generator | None = None,
) -> GaussianMixture:
    """Return a mixture of components with equal weights and covariances, and means drawn from N(0, spread^2).

    Parameters
    ----------
    n_dims, n_components : int
    spread : float or Tensor (n_dims,)
        Standard deviations of the means.
    scale : float or Tensor (n_dims,)
        Standard deviations of the components.
    generator : torch.Generator, optional
        By default, a generator with seed 0.

    Examples
    --------
    >>> from eim_ros.learning.gmmvi import GMMVI, random_start
    >>> start = random_start(n_dims=2, n_components=3, spread=2.0, scale=1.0)
    >>> result = GMMVI(lambda x: -0.5 * (x**2).sum(-1), n_iterations=5, seed=0).fit(start=start)
    >>> result.n_components, result.n_dims
    (3, 2)
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
    """Raise `DistributionError` if the target is not finite at the start, or lacks a required gradient."""
    # A separate generator keeps the check from changing the fit.
    fixed = torch.Generator(device=start.device).manual_seed(0)
    context = context[torch.randint(len(context), (N_CHECKED,), generator=fixed, device=fixed.device)]
    sample = start.sample(context, fixed)
    log_prob = target.log_prob(context, sample)
    wrong = log_prob.isnan() | (log_prob == torch.inf)
    if bool(wrong.any()):
        raise DistributionError(
            f"the log density of the target is NaN or plus infinity at {int(wrong.sum())} of {N_CHECKED} samples of "
            "the start; return a number, or minus infinity where the density is zero",
            sample[wrong][0],
        )
    if not bool(torch.isfinite(log_prob).any()):
        raise DistributionError(
            f"the log density of the target is not finite at any of {N_CHECKED} samples of the start; give a start "
            "within the support of the target"
        )
    if differentiable:
        target.gradient(context[:1], sample[:1])
