"""Expectation maximisation for mixtures and for mixtures of linear experts (thesis 2.1.3, 5.2).

E-step: responsibilities q(z|x,y), or in hard EM the most probable component alone. M-step: weighted least squares for
the experts, the mean responsibilities for the weights or softmax regression for a gating (a few L-BFGS steps, which
makes it generalised EM). No step lowers the likelihood; hard EM raises the free energy, its lower bound (Luecke 2016,
Prop. 8).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.iteration import EMIteration, EMState, converged, objective
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.run import Checkpoint, FitResult, History, run
from eim_ros.inference.training_data import checked_data
from eim_ros.numerics.status import Status
from eim_ros.numerics.threads import torch_threads

__all__ = ["EM"]


class EM:
    """Maximum likelihood mixture, or mixture of linear experts.

    Parameters
    ----------
    config : EMConfig, optional
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `EMConfig`, which replace those of `config`: `EM(n_components=10, seed=3)`.
    """

    def __init__(self, config: EMConfig | None = None, *, seed: int = 0, **settings: Any) -> None:
        self.config = configuration(EMConfig, config, settings)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        data: Any,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[EMState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[EMState]:
        """Fit to samples.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts or GaussianMixture, optional
            Start of any family, with any number of components; k-means on the standardised joint otherwise, and for all
            starts but the first.
        generator : torch.Generator, optional
            Randomness of the starts; the learner's seed if missing.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            Its history holds the mean `log_likelihood` of the data before each step, for hard EM also the `free_energy`
            [nat]; with several starts it is that of the best one.

        Raises
        ------
        DataError
            Fewer points than experts, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data, or so far off that the data have no density.
        """
        checked = checked_data(data)
        fitting = EMIteration.from_data(self.config, checked, initial, generator_from(generator, self.seed))
        result = run(
            fitting,
            EMState(fitting.start(0), 0),
            self.config.n_starts * self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )
        return result if self.config.n_starts == 1 else self._of_the_best_start(result)

    def _of_the_best_start(self, result: FitResult[EMState]) -> FitResult[EMState]:
        """The result as if the run had begun with its best start."""
        of_start: dict[float, list[dict[str, float]]] = {}
        for record in result.history.records:
            of_start.setdefault(record["start"], []).append(record)
        if not of_start:
            return result
        name = objective(self.config)
        best = max(of_start, key=lambda start: of_start[start][-1][name])
        history = History(tuple(of_start[best]))
        status = result.status
        if status is not Status.INTERRUPTED:
            rests = converged(self.config, history.column(name))
            status = Status.CONVERGED if rests else Status.MAX_ITERATIONS
        return dataclasses.replace(result, history=history, status=status)
