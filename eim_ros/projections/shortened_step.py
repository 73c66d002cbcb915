"""Steps of neural experts held inside their trust region: the bounds are checked on the parameters themselves.

A refit to weighted samples is not exact, so its KL may exceed what the weights were chosen for. The step is then
shortened along the segment from the old parameters to the new ones, each expert by its own fraction.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.batched_network import BatchedNetwork
from eim_ros.distributions.neural_experts import NeuralExperts, triangular

__all__ = ["ShortenedStep", "shorten_step"]

SAFETY = 0.95
LEAST_CUT = 0.1


@dataclass(frozen=True)
class ShortenedStep:
    """Experts on the segment from the old to the new ones.

    Attributes
    ----------
    experts : NeuralExperts
    fraction : Tensor (n_components,)
        Of the step that was taken; 0 leaves an expert as it was.
    kl : Tensor (n_components,)
        Mean KL to the old experts over the contexts [nat].
    entropy_change : Tensor (n_components,)
        Mean H - H_old [nat].
    """

    experts: NeuralExperts
    fraction: Tensor
    kl: Tensor
    entropy_change: Tensor


def shorten_step(
    old: NeuralExperts,
    new: NeuralExperts,
    context: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    max_cuts: int = 20,
) -> ShortenedStep:
    """Longest tried part of the step from old to new that obeys both bounds, for each expert.

    Parameters
    ----------
    old, new : NeuralExperts
        Of the same linear base, standardisation and layers.
    context : Tensor (n_components, n_contexts, n_context)
    kl_bound : float
        Largest mean KL(result || old) [nat]; infinite for none.
    entropy_loss_bound : float
        Largest mean loss of entropy [nat]; infinite for none.
    max_cuts : int
        Tries; an expert that still exceeds a bound is left as it was.
    """
    old_outputs = old.network(context)
    fraction = old_outputs.new_ones(old.n_components)
    accepted = torch.zeros_like(fraction, dtype=torch.bool)
    for _ in range(max_cuts):
        kl, change = _divergence(old_outputs, _between(old.network, new.network, fraction)(context), old.n_dims)
        accepted = accepted | ((kl <= kl_bound) & (change >= -entropy_loss_bound))
        if bool(accepted.all()):
            break
        # the KL is about quadratic in the fraction, the entropy about linear; NaN cuts most
        cut = torch.minimum((kl_bound / kl).sqrt(), torch.where(change < 0.0, -entropy_loss_bound / change, torch.inf))
        cut = torch.where(cut >= LEAST_CUT, (SAFETY * cut).clamp_max(SAFETY), torch.full_like(cut, LEAST_CUT))
        fraction = torch.where(accepted, fraction, fraction * cut)
    fraction = torch.where(accepted, fraction, torch.zeros_like(fraction))
    network = _between(old.network, new.network, fraction)
    kl, change = _divergence(old_outputs, network(context), old.n_dims)
    return ShortenedStep(NeuralExperts(old.base, network), fraction, kl, change)


def _between(old: BatchedNetwork, new: BatchedNetwork, fraction: Tensor) -> BatchedNetwork:
    def mixed(first: Tensor, second: Tensor) -> Tensor:
        part = fraction.reshape(-1, *[1] * (first.dim() - 1))
        inside = first + part * (second - first)
        return torch.where(part == 0.0, first, torch.where(part == 1.0, second, inside))

    return dataclasses.replace(
        old,
        weights=tuple(mixed(a, b) for a, b in zip(old.weights, new.weights, strict=True)),
        biases=tuple(mixed(a, b) for a, b in zip(old.biases, new.biases, strict=True)),
    )


def _divergence(old_outputs: Tensor, outputs: Tensor, n_dims: int) -> tuple[Tensor, Tensor]:
    """Mean KL to the old experts and mean change of entropy, (n_components,); both do not depend on the base."""
    old_shift, old_factor = triangular(old_outputs, n_dims)
    shift, factor = triangular(outputs, n_dims)
    columns = torch.cat([factor, (shift - old_shift).unsqueeze(-1)], -1)
    whitened = torch.linalg.solve_triangular(old_factor, columns, upper=False)
    change = (outputs - old_outputs)[..., n_dims : 2 * n_dims].sum(-1)
    return (0.5 * (whitened.square().sum((-2, -1)) - n_dims) - change).mean(-1), change.mean(-1)
