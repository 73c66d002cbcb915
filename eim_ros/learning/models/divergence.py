"""Monte Carlo estimates of KL divergence and entropy, with their standard errors.

KL(q || p) = E_q[log q - log p]. For conditional models, the KL is averaged over contexts y ~ p(y).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DistributionError
from eim_ros.learning.models.gaussian import Gaussian
from eim_ros.learning.models.gaussian_mixture import GaussianMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

Model: TypeAlias = Gaussian | GaussianMixture | MixtureOfExperts

N_SAMPLES = 10_000  # default number of samples; the standard error of a KL of 1 nat is then about 0.01 nat


@dataclass(frozen=True)
class Estimate:
    """Mean of independent draws.

    Attributes
    ----------
    value : float
    standard_error : float
        Standard deviation of `value`, or NaN for a single draw.
    """

    value: float
    standard_error: float


@with_hints
def kl_divergence(
    model: Model,
    other: Model,
    n_samples: int = N_SAMPLES,
    generator: torch.Generator | None = None,
    context: Tensor | None = None,
) -> Estimate:
    """Estimate KL(model || other) [nat].

    Parameters
    ----------
    model, other : Gaussian, GaussianMixture or MixtureOfExperts
        Single distributions (not batches) with the same dimensions.
    n_samples : int
        Number of draws from the model.
    generator : torch.Generator, optional
        By default, torch's global generator.
    context : Tensor (n_contexts, n_context), optional
        Contexts from p(y). Mixtures of experts need this argument. Each draw uses a random context.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import Gaussian, kl_divergence
    >>> model, other = Gaussian(torch.zeros(1), torch.eye(1)), Gaussian(torch.ones(1), torch.eye(1))
    >>> estimate = kl_divergence(model, other, 10_000, torch.Generator().manual_seed(0))
    >>> abs(float(estimate.value) - 0.5) < 0.05
    True
    """
    chosen, sample = _draw(model, n_samples, generator, context)
    return _estimate(_log_prob(model, chosen, sample) - _log_prob(other, chosen, sample))


@with_hints
def entropy(
    model: Model, n_samples: int = N_SAMPLES, generator: torch.Generator | None = None, context: Tensor | None = None
) -> Estimate:
    """Estimate the differential entropy H(x), or the mean of H(x|y) over contexts [nat].

    The arguments are as in `kl_divergence`.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import Gaussian, entropy
    >>> estimate = entropy(Gaussian(torch.zeros(1), torch.eye(1)), 10_000, torch.Generator().manual_seed(0))
    >>> abs(float(estimate.value) - 1.4189) < 0.05  # log(2 pi e) / 2
    True
    """
    chosen, sample = _draw(model, n_samples, generator, context)
    return _estimate(-_log_prob(model, chosen, sample))


def _draw(
    model: Model, n_samples: int, generator: torch.Generator | None, context: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return contexts (n_samples, n_context) and samples (n_samples, n_dims)."""
    if isinstance(model, MixtureOfExperts):
        if context is None:
            if model.n_context > 0:
                raise DistributionError(
                    "the model is conditional, so the argument context is needed; give contexts of shape (n_contexts, "
                    f"{model.n_context})",
                    model.n_context,
                )
            context = torch.zeros(1, 0, dtype=model.dtype, device=model.device)
        chosen = context[torch.randint(len(context), (n_samples,), generator=generator, device=context.device)]
        return chosen, model.sample(chosen, generator)
    sample = model.sample(n_samples, generator)
    if sample.dim() != 2:
        raise DistributionError(
            f"expected a single distribution, got a batch of shape {tuple(sample.shape[1:-1])}", sample.shape
        )
    return sample.new_zeros(n_samples, 0), sample


def _log_prob(model: Model, context: Tensor, sample: Tensor) -> Tensor:
    return model.log_prob(context, sample) if isinstance(model, MixtureOfExperts) else model.log_prob(sample)


def _estimate(values: Tensor) -> Estimate:
    spread = float(values.std()) if len(values) > 1 else float("nan")
    return Estimate(float(values.mean()), spread / len(values) ** 0.5)
