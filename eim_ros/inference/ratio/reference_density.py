"""Reference density of the data, a mixture fitted by EM, of as many components as held-out data can bear.

The model's density is known, so EIM's ratio log p - log q_old needs an estimate of p alone (thesis 7.1.1), fitted
once; EIM then gets as good as this estimate and no better. Two things matter most. EM ends in local optima, so of
several starts the one with the highest held-out likelihood is continued. And a mixture that fits data on a curved
manifold needs many more components than a model that shall pick a part of them: their number grows until the held-out
likelihood falls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.em import EM
from eim_ros.inference.em.truncated_em import TruncatedEM, TruncatedEMConfig
from eim_ros.inference.training_data import Pairs
from eim_ros.numerics import Status
from eim_ros.numerics.work import tell
from eim_ros.settings import Settings, option

__all__ = ["ReferenceConfig", "best_fit", "fit_reference", "likelihood", "refined"]

PATIENCE = 2  # sizes in a row without a gain after which no larger ones are tried: one may be a local optimum of EM
TRIAL_ITERATIONS = 20  # of EM, after which starts are compared
FULL_STARTS = 100  # components up to which all starts are made; beyond, each costs more, and they differ less
MANY_COMPONENTS = 200  # from which on truncated EM is the faster one


@dataclass(frozen=True)
class ReferenceConfig(Settings):
    """Settings of a reference density."""

    reference_factors: tuple[float, ...] = option(
        (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0),
        "components of the reference density, as multiples of the model's: tried in turn while held-out data gain",
        minimum=0.0,
    )
    reference_limit: int = option(200, "most components of the reference density beyond the model's own", minimum=1)
    reference_starts: int = option(
        4, "starts of EM for each number of components; the best one is continued", minimum=1
    )
    reference_iterations: int = option(100, "iterations of EM for the reference density", minimum=1)


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
            n_starts=config.reference_starts,
            n_iterations=config.reference_iterations,
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
    most = max(1, min(n_samples // 2, max(config.reference_limit, n_components)))
    sizes = {min(most, max(1, round(factor * n_components))) for factor in config.reference_factors}
    smaller = n_components
    while n_components > config.reference_limit and smaller > max(1, config.reference_limit // 4):
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
    result = learner.fit((data.context, data.sample), initial, generator)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts
