"""The density ratio estimator that the settings ask for.

Where a component is missing if the target is known by samples alone: log p from a density ratio, at the data.

phi = log p/q_old gives log p = phi + log q_old anywhere, and the data, where p is, are the candidates. Three things
limit what a ratio can be trusted with:

- It may have learnt the data that it was trained with: the candidates are those held out.
- n samples of each class tell ratios up to about n: beyond, a classifier says how far away a place is, or no more than
  that the model is not there. phi is bounded by log n, and all places beyond are equal. The first of them in random
  order is taken, that is, one drawn from the part of p that the model does not cover; the greatest phi would be the
  farthest outlier's.
- Where a factor of p is known up to a constant, so is phi. E_p[q_old/p] = 1 tells the constant.

Where the model has (nearly) no density log q_old cannot be made up for by a bounded phi: it counts as no smaller than
`DELTA` below its greatest value.

Reference density of the data, a mixture fitted by EM, of as many components as held-out data can bear.

The model's density is known, so EIM's ratio log p - log q_old needs an estimate of p alone (thesis 7.1.1), fitted
once; EIM then gets as good as this estimate and no better. Two things matter most. EM ends in local optima, so of
several starts the one with the highest held-out likelihood is continued. And a mixture that fits data on a curved
manifold needs many more components than a model that shall pick a part of them: their number grows until the held-out
likelihood falls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.parallel import tell
from eim_ros.learning.configs import EMConfig, RatioConfig, ReferenceConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.em.em import EM
from eim_ros.learning.em.truncated import TruncatedEM, TruncatedEMConfig
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import DensityRatio, LogRatio
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.ratio.network import NetworkRatio
from eim_ros.learning.ratio.plug_in import InputsFactor, KnownFactor, PlugInRatio, ReferenceFactor
from eim_ros.learning.run import Status

PATIENCE = 2  # sizes in a row without a gain after which no larger ones are tried: one may be a local optimum of EM
TRIAL_ITERATIONS = 20  # of EM, after which starts are compared
FULL_STARTS = 100  # components up to which all starts are made; beyond, each costs more, and they differ less
MANY_COMPONENTS = 200  # from which on truncated EM is the faster one


def fit_reference(
    config: ReferenceConfig,
    n_components: int,
    training: Pairs,
    held_out: Pairs,
    generator: torch.Generator,
    first: MixtureOfExperts | None = None,
    most_components: int = 0,
) -> MixtureOfExperts:
    """Mixture with the highest likelihood of the held-out data.

    Parameters
    ----------
    config : ReferenceConfig
    n_components : int
        Of the model whose ratio shall be estimated.
    training, held_out : Pairs
        EM is fitted to the one and judged by the other.
    generator : torch.Generator
    first : MixtureOfExperts, optional
        A fit to the training data that takes part in the comparison, for its number of components.
    most_components : int
        To which the model may grow, if it does: up to so many are tried as well, each time twice as many.

    Returns
    -------
    MixtureOfExperts
    """
    best = first
    best_likelihood = -torch.inf if first is None else likelihood(first, held_out)
    misses = 0
    sizes = _sizes(config, n_components, len(training), most_components)
    wanted = [size for size in sizes if first is None or size != first.n_components]
    for number, size in enumerate(wanted):
        fitted = best_fit(
            training,
            held_out,
            n_components=size,
            n_starts=config.starts,
            n_iterations=config.iterations,
            generator=generator,
            watch=functools.partial(_tell, sum(wanted[:number]), size, sum(wanted)),
        )
        reached = likelihood(fitted, held_out)
        if best is None or reached > best_likelihood:
            best, best_likelihood, misses = fitted, reached, 0
        elif size > n_components:
            misses += 1
            if misses == PATIENCE:
                break
    assert best is not None, "there is at least one size"
    return best


def best_fit(
    training: Pairs,
    held_out: Pairs,
    *,
    n_components: int,
    n_starts: int,
    n_iterations: int,
    generator: torch.Generator,
    watch: Callable[[float], None] = lambda share: None,
) -> MixtureOfExperts:
    """Fit by EM from the best of several k-means starts, judged after a few iterations.

    The best has the highest likelihood of the training data among those whose likelihood of the held-out data is the
    highest, up to a standard error: few held-out data tell a local optimum from overfitting, and not much more.

    Parameters
    ----------
    training, held_out : Pairs
    n_components : int
    n_starts : int
        Up to a hundred components; fewer for more, in proportion.
    n_iterations : int
        Of EM, those before the comparison included.
    generator : torch.Generator
    watch : callable
        Takes the share of the work that is done.
    """
    n_starts = max(1, n_starts * FULL_STARTS // max(FULL_STARTS, n_components))
    trial = min(n_iterations, TRIAL_ITERATIONS) if n_starts > 1 else n_iterations
    total = max(n_starts * trial + n_iterations - trial, 1)
    fits = []
    for number in range(n_starts):
        watch(number * trial / total)
        fits.append(_complete(_learner(n_components, trial), training, None, generator))
    watch(n_starts * trial / total)
    best = _best(fits, training, held_out) if n_starts > 1 else fits[0]
    return refined(best, training, n_iterations - trial)


def _tell(before: float, size: float, total: float, share: float) -> None:
    """The cost of EM grows with the number of its components."""
    tell("density of the data", before + size * share, total)


def refined(model: MixtureOfExperts, data: Pairs, n_iterations: int) -> MixtureOfExperts:
    """Some more iterations of EM."""
    if n_iterations == 0:
        return model
    return _complete(_learner(model.n_components, n_iterations), data, model, None)


def likelihood(model: MixtureOfExperts, data: Pairs) -> float:
    """Mean log-likelihood [nat] of data; minus infinity if it is not a number."""
    value = float(model.log_prob(data.context, data.sample).mean())
    return value if value == value else -torch.inf


def _best(fits: list[MixtureOfExperts], training: Pairs, held_out: Pairs) -> MixtureOfExperts:
    log_prob = torch.stack([model.log_prob(held_out.context, held_out.sample) for model in fits])
    loss = log_prob[log_prob.mean(-1).argmax()] - log_prob
    close = loss.mean(-1) <= loss.std(-1, correction=0) / len(held_out) ** 0.5
    candidates = [model for model, is_close in zip(fits, close.tolist(), strict=True) if is_close]
    return max(candidates, key=lambda model: likelihood(model, training))


def _sizes(config: ReferenceConfig, n_components: int, n_samples: int, most_components: int = 0) -> list[int]:
    """Numbers of components to try, ascending: two samples for each component at least.

    A model of more components than the limit may have more than data can tell: smaller references are tried as well.
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
    """EM, truncated for many components."""
    if n_components < MANY_COMPONENTS:
        return EM(EMConfig(n_components=n_components, n_iterations=n_iterations))
    return TruncatedEM(TruncatedEMConfig(n_components=n_components, n_iterations=n_iterations, search="partial"))


def _complete(
    learner: EM | TruncatedEM, data: Pairs, initial: MixtureOfExperts | None, generator: torch.Generator | None
) -> MixtureOfExperts:
    """The model of a fit; Ctrl-C, which ended the fit, goes on to the caller."""
    result = learner.fit((data.context, data.sample), initial, generator=generator)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts


REFINEMENT = 50  # most iterations of EM by which a plug-in density takes in the data that chose it


def data_density(
    config: RatioConfig,
    n_components: int,
    inputs: RatioInputs,
    data: Pairs,
    generator: torch.Generator,
    first: MixtureOfExperts | None = None,
    most_components: int = 0,
) -> MixtureOfExperts | None:
    """Density fitted to the data for the estimator that the settings ask for; None if it needs none.

    Parameters
    ----------
    config : RatioConfig
    n_components : int
        Of the model whose ratio shall be estimated.
    inputs : RatioInputs
        Where they know a density, none is fitted; where they blur the contexts, it is fitted to those of iteration 0.
    data : Pairs
        In the order in which they will be given to the estimator: it holds out the last ones.
    generator : torch.Generator
    first : MixtureOfExperts, optional
        A candidate, fitted to the part of the data that is trained on.
    most_components : int
        To which the model may grow, if it does.
    """
    if config.estimator == "network" or inputs.known_log_density(data.context[:1], data.sample[:1], 0) is not None:
        return None
    blurred = smoothed(inputs, data, 0, generator)
    training, held_out = blurred[: config.n_training(len(data))], blurred[config.held_out(len(data))]
    candidate = first if blurred is data else None
    reference = fit_reference(config.reference, n_components, training, held_out, generator, candidate, most_components)
    if config.estimator == "plug-in":  # no network has to be judged by data that the density has not seen
        reference = refined(reference, blurred, REFINEMENT)
    return reference


def density_ratio(
    config: RatioConfig,
    inputs: RatioInputs,
    reference: MixtureOfExperts | None,
    data: Pairs,
    generator: torch.Generator,
) -> DensityRatio:
    """Estimator of the ratio between the data and a model.

    Parameters
    ----------
    config : RatioConfig
    inputs : RatioInputs
    reference : MixtureOfExperts or None
        Density of the data; not needed where the inputs know one, or where a network learns all.
    data : Pairs
        Where the density will be evaluated, about.
    generator : torch.Generator
        Its device is where the estimator lives.
    """
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
    """Data with the noise on their contexts that the inputs ask for."""
    deviation = inputs.smoothing(iteration)
    if deviation is None:
        return data
    context = data.context
    noise = torch.randn(context.shape, generator=generator, dtype=context.dtype, device=context.device)
    return Pairs(context + deviation.to(context) * noise, data.sample, data.conditional)


DELTA = 50.0  # [nat]


@dataclass(frozen=True)
class RatioDemand:
    """log p(x|y) at the data, as far as a density ratio tells.

    Attributes
    ----------
    ratio : LogRatio
        Of the data to `model`.
    model : MixtureOfExperts
        q_old.
    n_samples : int
        Samples of each class that the ratio was learnt from.
    """

    ratio: LogRatio
    model: MixtureOfExperts
    n_samples: int

    def __call__(self, places: Pairs) -> Tensor:
        """log p(x|y) [nat] at places that are samples of p, (n,)."""
        phi = self.ratio.log_ratio(places.context, places.sample)
        phi = phi + torch.logsumexp(-phi, 0) - math.log(len(phi))
        log_model = self.model.log_prob(places.context, places.sample)
        return phi.clamp_max(math.log(self.n_samples)) + torch.maximum(log_model, log_model.max() - DELTA)
