"""Expected Information Maximisation where the target's density is known, up to a constant (thesis 5.5; VIPS).

The bound, its E-step and its M-step are those of EIM; only the log ratio differs, which here is exact:

    phi(x, y) = log p(x|y) / T - log q_old(x|y)                     maximises E_q[log p] + T H(q)

With temperature T the M-step maximises E_q[phi] - KL(q || q_old) as ever, which is the objective divided by T: the
same steps as with phi = log p - T log q_old and the KL weighted by T.

It is for starts from samples, networks, and hundreds of experts, of which log q is truncated. For linear models
`eim_ros.inference.variational.GMMVI` has the whole family of algorithms of which this is one, with contexts or without:
the combination LEMBFBX with `own_samples`, which differs in where the gating's rewards come from. In the names of the
seven modules:

- Samples: of each component, new ones for each of `update_gating` and `update_experts`; there the same for both.
- Natural gradient: by regression on gradients or values (`fit_to_gradients`, `fit_to_values`), chosen by `surrogate`.
- Component update: trust region, with a bound on the loss of entropy too (`project_experts`); step size: fixed.
- Weight update: the same for the weights (`project_categorical`, `project_gating`); step size: fixed.
- Adding and deleting components: `Adaptation`, before each step; there none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, LinearExperts, MixtureOfExperts
from eim_ros.errors import DistributionError
from eim_ros.inference.eim.component_adaptation import Adaptation
from eim_ros.inference.eim.component_history import ComponentHistory
from eim_ros.inference.eim.known_density_configuration import KnownDensityEIMConfig
from eim_ros.inference.eim.known_density_iteration import KnownDensityIteration, KnownDensityState, draw_pairs
from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.em import EM
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.model_family import with_networks
from eim_ros.inference.run import Checkpoint, FitResult, run
from eim_ros.inference.target_density import Target, TargetDensity, target_density
from eim_ros.inference.training_data import Pairs, checked_start, data_or_contexts, has_samples
from eim_ros.numerics import Status
from eim_ros.numerics.threads import torch_threads

__all__ = ["KnownDensityEIM"]


class KnownDensityEIM:
    """I-projection of a mixture, or a mixture of experts, onto a known density.

    Parameters
    ----------
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable
        Log density, which need not be normalised: of samples (n, dx), or of contexts (n, dy) and samples. Where it has
        no method `score`, it is differentiated automatically, unless `surrogate` is "value". An annealed target has a
        method `at(iteration)`, see `target_density`.
    config : KnownDensityEIMConfig, optional
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `KnownDensityEIMConfig`, which replace those of `config`:
        `KnownDensityEIM(target, n_components=10, seed=3)`.
    """

    def __init__(
        self, target: Target, config: KnownDensityEIMConfig | None = None, *, seed: int = 0, **settings: Any
    ) -> None:
        self.target = target
        self.config = configuration(KnownDensityEIMConfig, config, settings)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        data: Any = None,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[KnownDensityState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[KnownDensityState]:
        """Fit to the target.

        Parameters
        ----------
        data : Tensor, pair, or None
            What the start is made of, the contexts, and where additions of components look first: samples (n, dx); or
            context (n, dy) and sample (n, dx), of which the sample may be None if a start is given. None, with a start,
            for a target without contexts.
        initial : MixtureOfExperts or GaussianMixture, optional
            Start; otherwise the likeliest of several fits of EM to the data, from k-means.
        generator : torch.Generator, optional
            All randomness; the learner's seed if missing. Its device is where the fit runs.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            CONVERGED once the model rests or the objective does; NON_FINITE if the target is not finite at samples of
            the model. The history holds `elbo`, the objective E[log p] + T H(q) [nat] with its `elbo_standard_error`,
            or instead, where it is minus infinity, `elbo_inside`, that of the model restricted to where the target is
            finite, and the probability `outside` of the rest; `entropy` H(q) [nat], `change`, the KL of the new
            model to the old [nat], `gating_kl` and `expert_kl` of the two updates [nat], `evaluations` of the target
            by them, and `non_finite`, the share of these at which it was not finite; where the number of components
            adapts, also `n_components`, and how many were `added` and `deleted` before the iteration.

        Raises
        ------
        ConfigurationError
            A model with networks whose number of components is to adapt.
        DataError
            Neither samples nor a start, fewer points than components, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data; a target of another shape than (n,), that cannot be
            differentiated though gradients are asked for, or that is finite nowhere where the start has its samples.
        """
        generator = generator_from(generator, self.seed)
        checked = data_or_contexts(data, initial).to(generator.device)
        if initial is None:
            initial = self._initial(checked, generator)
        start = checked_start(initial, checked).to(device=generator.device)
        adaptation = Adaptation(self.config, checked if has_samples(data) else None)
        adaptation.check(start)
        target = target_density(self.target, conditional=checked.conditional, device=generator.device)
        by_gradients = self.config.surrogate == "gradient" and isinstance(start.experts, LinearExperts)
        _check(target, start, checked.context, differentiable=by_gradients)
        return run(
            KnownDensityIteration(self.config, target, checked.context, adaptation),
            KnownDensityState(start, generator, 0, ComponentHistory.empty(start)),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )

    def _initial(self, data: Pairs, generator: torch.Generator) -> MixtureOfExperts:
        """The likeliest of several fits of EM: the I-projection never leaves a mode for another it does not see.

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


def _check(target: TargetDensity, start: MixtureOfExperts, context: Tensor, *, differentiable: bool) -> None:
    """Refuse a target that says nothing about the start, or has no gradient where one is needed."""
    fixed = torch.Generator(device=start.device).manual_seed(0)  # whatever is drawn here leaves the fit's own alone
    context, sample = draw_pairs(start, context, 200, fixed)
    if not bool(torch.isfinite(target.log_prob(context, sample)).any()):
        raise DistributionError("the target's log density is finite at none of 200 samples of the initial model")
    if differentiable:
        target.gradient(context[:1], sample[:1])
