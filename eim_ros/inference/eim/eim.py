"""Expected Information Maximisation for mixtures and mixtures of experts (thesis chapters 3 and 4, algorithm 2).

Minimises E_p(y) KL(q(x|y) || p(x|y)) from samples of p alone. Each iteration

1. E-step: draw x ~ q_old(x|y) and retrain phi(x, y) = log p/q_old (the auxiliary distribution is q_old(z|x, y), eq.
3.2); 2. gating: maximise E[phi(y, z)] - KL(q(z|y) || q_old(z|y)) in a trust region, within its family (4.2.1);
3. experts: fit a quadratic surrogate of phi around each, then a trust-region I-projection in closed form (4.2.2);
4. keep the new model if, under the same phi, it is closer to p than the best one so far;
5. if the number of components adapts: delete those of no use, and add where held-out data exceed the model (7.1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.errors import ConfigurationError
from eim_ros.inference.eim.component_adaptation import Adaptation
from eim_ros.inference.eim.component_history import ComponentHistory
from eim_ros.inference.eim.configuration import EIMConfig
from eim_ros.inference.eim.iteration import EIMIteration, EIMState
from eim_ros.inference.eim.start import start_of
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.ratio.choice import data_density, density_ratio
from eim_ros.inference.ratio.inputs import RatioInputs
from eim_ros.inference.ratio.whitened_inputs import default_inputs
from eim_ros.inference.run import Checkpoint, FitResult, run
from eim_ros.inference.starts.reference_start import closest_start
from eim_ros.inference.training_data import checked_data, checked_start
from eim_ros.numerics.threads import torch_threads

__all__ = ["EIM"]


class EIM:
    """Mixture of experts by expected information maximisation, from samples.

    Parameters
    ----------
    config : EIMConfig, optional
    inputs : RatioInputs, optional
        Inputs of the density ratio estimator; standardised samples and contexts if missing, whitened ones where they
        nearly repeat each other.
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `EIMConfig`, which replace those of `config`: `EIM(n_components=10, seed=3)`.
    """

    def __init__(
        self, config: EIMConfig | None = None, inputs: RatioInputs | None = None, *, seed: int = 0, **settings: Any
    ) -> None:
        self.config = configuration(EIMConfig, config, settings)
        self.seed = checked_seed(seed)
        self.inputs = inputs

    @torch_threads()
    def fit(
        self,
        data: Any,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[EIMState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[EIMState]:
        """Fit to samples.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts or GaussianMixture, optional
            Start, of any family; the best of several k-means starts and a few iterations of EM otherwise, and
            `neural_start` for models with neural parts.
        generator : torch.Generator, optional
            All randomness; the learner's seed if missing. Its device is where the fit runs.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            Where the number of components adapts, its history holds `n_components` after each iteration, and how many
            were `added` and `deleted` in it.

        Raises
        ------
        ConfigurationError
            A model with networks, or a M-step by gradients, whose number of components is to adapt.
        DataError
            Fewer points than experts, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data.
        """
        generator = generator_from(generator, self.seed)
        checked = checked_data(data).to(generator.device)
        given = None if initial is None else checked_start(initial, checked)
        shuffled = checked[torch.randperm(len(checked), generator=generator, device=generator.device)]
        first, start = start_of(self.config, given, shuffled, generator)
        _check_adaptation(self.config, start)
        inputs = self.inputs or default_inputs(shuffled.context, shuffled.sample)
        most = max(start.n_components, self.config.max_components if self.config.add_every > 0 else 0)
        reference = data_density(self.config, start.n_components, inputs, shuffled, generator, first, most)
        if given is None and reference is not None and self.config.is_linear:
            start = closest_start(start, reference, shuffled.context, generator)
        ratio = density_ratio(self.config, inputs, reference, shuffled, generator)
        return run(
            EIMIteration(self.config, inputs, shuffled),
            EIMState(start, start, ratio, generator, 0, ComponentHistory.empty(start)),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )


def _check_adaptation(config: EIMConfig, start: MixtureOfExperts) -> None:
    """Refuse, with `ConfigurationError`, what cannot have a number of components that adapts."""
    Adaptation(config).check(start)
    if config.adapts and config.update == "unstructured":
        raise ConfigurationError(
            "an M-step by gradients has no rewards to delete components by, and too few steps for new ones; set "
            'add_every and delete_after to 0, or update to "structured"',
            config.update,
        )
