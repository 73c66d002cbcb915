"""What components of all kinds draw their samples by, and when their numbers are too close for it."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["padded_noise", "representable"]

ROUNDING = 1e-10  # deviations of a coordinate, relative to its mean: samples of smaller ones have less than six digits


def padded_noise(counts: Tensor, means: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """Standard normal noise (n_components, largest count, n_dims), and which of it counts; None for all."""
    largest = int(counts.max())
    shape = (len(counts), largest, means.shape[-1])
    noise = torch.randn(shape, generator=generator, dtype=means.dtype, device=means.device)
    if bool((counts == largest).all()):
        return noise, None
    return noise, torch.arange(largest, device=means.device) < counts.unsqueeze(-1)


def representable(means: Tensor, scales: Tensor) -> Tensor:
    """Which components (n_components,) are not so narrow and so far from zero that rounding moves their samples.

    Those of the others would have nearly no density under the component that drew them: the ELBO would have no bound.

    Parameters
    ----------
    means, scales : Tensor (n_components, n_dims)
        Scales are the diagonals of the Cholesky factors.
    """
    return (scales > ROUNDING * means.abs()).all(-1)
