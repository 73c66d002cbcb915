"""Choice of the density ratio estimator and of its reference density, and the demand for new components.

Estimator. `density_ratio` builds the estimator that the settings name.

Reference density. `fit_reference` fits a mixture to the data by EM. The density of the model is known, so the ratio log
p - log q_old needs only an estimate of p (thesis 7.1.1). This estimate is fitted once, and it limits the quality of the
result of EIM. EM converges to local optima, so only the best of several starts is continued. A mixture that covers data
on a curved manifold needs many more components than a model that selects a few modes. Therefore, increasing numbers of
components are tried until the held-out likelihood decreases.

New components. `RatioDemand` estimates log p = phi + log q_old at the data, to find where the model lacks a component.
These estimates have limits:

- Only held-out data are candidates, because a network may have memorised its training data.
- With n samples of each class, a classifier can estimate ratios up to about n. Greater values of phi show only that the
  model is far away. Therefore, phi is limited to log n, and candidates at the limit count as equal. The first of these
  candidates in random order is chosen. This candidate is a sample from regions of p that the model does not cover. The
  candidate with the largest phi would be the farthest outlier.
- If p is known only up to a constant, phi is known only up to a constant too. The constant follows from E_p[q_old/p] =
  1.
- If the model has almost no density at a candidate, log q_old would outweigh the limited phi. Therefore, log q_old is
  raised to at least its largest value minus `DELTA`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.core.parallel import Report, SharedProgress, in_threads, part_of
from eim_ros.learning.configs import RatioConfig, ReferenceConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.em.em import EM
from eim_ros.learning.em.truncated import TruncatedEM
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import DensityRatio, LogRatio
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.ratio.network import NetworkRatio
from eim_ros.learning.ratio.plug_in import InputsFactor, KnownFactor, PlugInRatio, ReferenceFactor
from eim_ros.learning.run import RunOptions, Status

# The search ends after this number of successive sizes without a gain. A single size may lack a gain because of a local
# optimum of EM.
PATIENCE = 2
TRIAL_ITERATIONS = 20  # number of EM iterations before starts are compared
# With more components than this, EM runs from fewer starts, because each start takes longer and the results differ
# less.
FULL_STARTS = 100
# Minimum number of points on which starts are compared. More moments need more points.
TRIAL_POINTS = 5000
MANY_COMPONENTS = 200  # truncated EM is faster from this number of components on
# Maximum number of further EM iterations for the best size. The same number applies to the fit of a plug-in density to
# all data, including the held-out data.
REFINEMENT = 50
DELTA = 50.0  # the log density of the model is raised to at least its maximum minus this value [nat]


def fit_reference(
    config: ReferenceConfig,
    n_components: int,  # number of components of the model whose density ratio is estimated
    # EM is fitted to the training data, and the results are compared on the held-out data. Both must be shuffled.
    training: Pairs,
    held_out: Pairs,
    generator: torch.Generator,
    # Existing fit to the training data. This fit is compared with the new fits, and replaces a fit of the same size.
    first: MixtureOfExperts | None = None,
    # Maximum number of components of a model that adapts this number, otherwise 0. Sizes are doubled up to this
    # maximum.
    most_components: int = 0,
) -> MixtureOfExperts:
    """Fit mixtures of several sizes, and return the mixture with the highest likelihood of the held-out data.

    The best mixture is improved by further iterations of EM if they raise this likelihood. Several sizes are fitted at
    the same time, each in its own thread. Each size has its own seed, so the result does not depend on the number of
    threads.
    """
    best = first
    best_likelihood = -torch.inf if first is None else likelihood(first, held_out)
    misses = 0
    sizes = _sizes(config, n_components, len(training), most_components)
    wanted = [size for size in sizes if first is None or size != first.n_components]
    seeds = torch.randint(2**31 - 1, (len(wanted),), generator=generator, device=generator.device).tolist()
    progress = SharedProgress("density of the data", wanted)  # the time of EM grows with the number of components

    def fitted(number: int) -> MixtureOfExperts:
        return best_fit(
            training,
            held_out,
            n_components=wanted[number],
            n_starts=config.starts,
            n_iterations=config.iterations,
            generator=torch.Generator(generator.device).manual_seed(seeds[number]),
            report=progress.part(number),
        )

    with in_threads(fitted, range(len(wanted))) as fits:
        for size, fit in zip(wanted, fits, strict=True):
            reached = likelihood(fit, held_out)
            if best is None or reached > best_likelihood:
                best, best_likelihood, misses = fit, reached, 0
            elif size > n_components:
                misses += 1
                if misses == PATIENCE:
                    break
    assert best is not None, "there is at least one size"
    if best is first:
        return best
    converged = refined(best, training, REFINEMENT)
    return converged if likelihood(converged, held_out) > best_likelihood else best


def best_fit(
    training: Pairs,
    held_out: Pairs,
    *,
    n_components: int,
    # Number of starts for up to `FULL_STARTS` components. For more components, the number of starts decreases in
    # proportion.
    n_starts: int,
    n_iterations: int,  # number of EM iterations, including those before the comparison
    generator: torch.Generator,
    report: Report = lambda share: None,
) -> MixtureOfExperts:
    """Fit a mixture by EM from several k-means starts. After a few iterations, continue only the best start.

    If there are many data, the starts are fitted to a subset. The starts are compared in two stages, because a small
    held-out set can detect only overfitting and poor local optima. The first stage selects all starts with a held-out
    likelihood within one standard error of the highest. The second stage chooses the selected start with the highest
    likelihood of the training data.
    """
    n_starts = max(1, n_starts * FULL_STARTS // max(FULL_STARTS, n_components))
    trial = min(n_iterations, TRIAL_ITERATIONS) if n_starts > 1 else n_iterations
    few = training if n_starts == 1 else training[: max(TRIAL_POINTS, _n_moments(training) * n_components)]
    total = max(n_starts * trial + n_iterations - trial, 1)

    def start(number: int) -> MixtureOfExperts:
        share = part_of(report, number * trial / total, trial / total)
        return _complete(_learner(n_components, trial), few, None, generator, share)

    fits = [start(number) for number in range(n_starts)]
    best = _best(fits, few, held_out) if n_starts > 1 else fits[0]
    done = n_starts * trial / total
    return refined(best, training, n_iterations - trial, part_of(report, done, 1.0 - done))


def _n_moments(data: Pairs) -> int:
    """Return the number of distinct products of [x, y, 1]. Their means determine an expert and its gating."""
    width = data.sample.shape[1] + data.context.shape[1] + 1
    return width * (width + 1) // 2


def refined(
    model: MixtureOfExperts, data: Pairs, n_iterations: int, report: Report = lambda share: None
) -> MixtureOfExperts:
    """Return the model after `n_iterations` more iterations of EM."""
    if n_iterations == 0:
        return model
    return _complete(_learner(model.n_components, n_iterations), data, model, None, report)


def likelihood(model: MixtureOfExperts, data: Pairs) -> float:
    """Return the mean log-likelihood of the data [nat], or minus infinity instead of NaN."""
    value = float(model.log_prob(data.context, data.sample).mean())
    return value if value == value else -torch.inf


def _best(fits: list[MixtureOfExperts], training: Pairs, held_out: Pairs) -> MixtureOfExperts:
    log_prob = torch.stack([model.log_prob(held_out.context, held_out.sample) for model in fits])
    loss = log_prob[log_prob.mean(-1).argmax()] - log_prob
    close = loss.mean(-1) <= loss.std(-1, correction=0) / len(held_out) ** 0.5
    candidates = [model for model, is_close in zip(fits, close.tolist(), strict=True) if is_close]
    return max(candidates, key=lambda model: likelihood(model, training))


def _sizes(config: ReferenceConfig, n_components: int, n_samples: int, most_components: int = 0) -> list[int]:
    """Return the numbers of components to try in ascending order, with at least two samples per component.

    If the model has more components than the data may support, smaller numbers are tried as well.
    """
    most = max(1, min(n_samples // 2, max(config.limit, n_components)))
    sizes = {min(most, max(1, round(factor * n_components))) for factor in config.factors}
    smaller = n_components
    while n_components > config.limit and smaller > max(1, config.limit // 4):
        smaller //= 2
        sizes.add(min(most, smaller))
    while max(sizes) < min(most, most_components):
        sizes.add(min(most, 2 * max(sizes)))
    return sorted(sizes)


def _learner(n_components: int, n_iterations: int) -> EM | TruncatedEM:
    """Return EM for few components, or truncated EM for many."""
    settings: dict[str, Any] = {"n_components": n_components, "n_iterations": n_iterations}
    if n_components < MANY_COMPONENTS:
        return EM(n_candidates=1, gating_iterations=1, **settings)
    return TruncatedEM(search="partial", **settings)


def _complete(
    learner: EM | TruncatedEM,
    data: Pairs,
    initial: MixtureOfExperts | None,
    generator: torch.Generator | None,
    report: Report = lambda share: None,
) -> MixtureOfExperts:
    """Return the fitted model on the device of the data, or raise `KeyboardInterrupt` if Ctrl-C ended the fit."""
    report(0.0)
    n_iterations = learner.config.n_iterations
    run = RunOptions(callbacks=[lambda state, record: report(state.iteration / n_iterations)])
    result = learner.fit((data.context, data.sample), initial, generator=generator, run=run)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    report(1.0)
    return result.mixture_of_experts.to(device=data.sample.device)  # truncated EM runs on the CPU


def data_density(
    config: RatioConfig,
    n_components: int,  # number of components of the model whose density ratio is estimated
    # No density is fitted if the inputs provide a known density. If they smooth the contexts, the density is fitted to
    # contexts with the noise of iteration 0.
    inputs: RatioInputs,
    data: Pairs,  # data in the order of the estimator, which holds out the last rows
    generator: torch.Generator,
    first: MixtureOfExperts | None = None,  # candidate that was fitted to the training part of the data
    most_components: int = 0,  # maximum number of components if the model adapts it, otherwise 0
) -> MixtureOfExperts | None:
    """Return the fitted density of the data if the chosen estimator needs it, otherwise None."""
    if config.estimator == "network" or inputs.known_log_density(data.context[:1], data.sample[:1], 0) is not None:
        return None
    blurred = smoothed(inputs, data, 0, generator)
    training, held_out = blurred[: config.n_training(len(data))], blurred[config.held_out(len(data))]
    candidate = first if blurred is data else None
    reference = fit_reference(config.reference, n_components, training, held_out, generator, candidate, most_components)
    if config.estimator == "plug-in":  # without a network, the density may depend on the held-out data
        reference = refined(reference, blurred, REFINEMENT)
    return reference


def density_ratio(
    config: RatioConfig,
    inputs: RatioInputs,
    # Density of the data. This density is not needed if the inputs provide a known density, or if the estimator is only
    # a network.
    reference: MixtureOfExperts | None,
    data: Pairs,  # typical points of future evaluations of the density
    generator: torch.Generator,  # Source of the initial weights of a network. The estimator is placed on its device.
) -> DensityRatio:
    """Return the estimator of the density ratio between the data and a model."""
    if config.estimator == "network":
        return NetworkRatio(config, inputs, generator, generator.device)
    known: KnownFactor = InputsFactor(inputs)
    if reference is not None:
        known = ReferenceFactor(reference, PreparedMixture(reference, data.context, data.sample))
    base = PlugInRatio(known, config)
    if config.estimator == "plug-in":
        return base
    return NetworkRatio(config, inputs, generator, generator.device, base)


def smoothed(inputs: RatioInputs, data: Pairs, iteration: int, generator: torch.Generator) -> Pairs:
    """Return the data with the noise on the contexts that the inputs require."""
    deviation = inputs.smoothing(iteration)
    if deviation is None:
        return data
    context = data.context
    noise = torch.randn(context.shape, generator=generator, dtype=context.dtype, device=context.device)
    return Pairs(context + deviation.to(context) * noise, data.sample, data.conditional)


@dataclass(frozen=True)
class RatioDemand:
    """Estimate of log p(x|y) at the data from a density ratio, as described at the top of this file."""

    ratio: LogRatio  # ratio of the density of the data to the density of `model`
    model: MixtureOfExperts  # the model q_old
    n_samples: int  # number of samples of each class in the estimate of the ratio

    def __call__(self, places: Pairs) -> Tensor:
        """Return the estimate of log p(x|y) [nat], (n,), at n samples of p."""
        phi = self.ratio.log_ratio(places.context, places.sample)
        phi = phi + torch.logsumexp(-phi, 0) - math.log(len(phi))
        log_model = self.model.log_prob(places.context, places.sample)
        return phi.clamp_max(math.log(self.n_samples)) + torch.maximum(log_model, log_model.max() - DELTA)
