"""Natural gradients of all components, and the same along the eigenvectors of their curvatures.

See `components.py` for the coordinates in which they are written.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["NaturalGradient", "Spectrum"]


@dataclass(frozen=True)
class NaturalGradient:
    """Natural gradient of E[R] for every component, in its own coordinates.

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims, n_dims), of diagonal covariances (n_components, n_dims)
        Gamma, symmetric, of any sign.
    slope : Tensor (n_components, n_dims), of linear experts (n_components, n_dims, n_features)
        gamma.
    """

    curvature: Tensor
    slope: Tensor


@dataclass(frozen=True)
class Spectrum:
    """A natural gradient along the eigenvectors of its curvature.

    Attributes
    ----------
    curvature : Tensor (n_components, n_dims)
        lambda, the eigenvalues of Gamma.
    slope : Tensor (n_components, n_dims, n_features)
        U' gamma.
    basis : Tensor (n_components, n_dims, n_dims) or None
        U; None for the identity.
    """

    curvature: Tensor
    slope: Tensor
    basis: Tensor | None = None
