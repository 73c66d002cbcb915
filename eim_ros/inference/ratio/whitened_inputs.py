"""Inputs of a density ratio's network in the axes of the data's covariance: what moves little is seen as well.

Columns that nearly repeat each other, such as positions of one trajectory, differ by little, and it is in this little
that the classes differ: a vehicle that turns, brakes or leaves its lane moves a coordinate of standard deviation 1 by a
hundredth. A network of standardised columns does not see that for a long time. Whitened inputs are those of the same
data in any linear coordinates, up to a rotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.inference.ratio.inputs import CentredInputs, RatioInputs, StandardisedInputs

__all__ = ["WhitenedInputs", "default_inputs"]

# Eigenvalues of the correlation matrix are raised to this: along what the data all but obey exactly, no classifier
# shall be the judge of a model's least deviation.
LEAST_EIGENVALUE = 1e-4
CORRELATED = 1e3  # condition number of the correlation matrix from which on standardised columns hide too much


@dataclass(frozen=True)
class WhitenedInputs(CentredInputs):
    """Samples and contexts, shifted, scaled and rotated so that they are uncorrelated and of variance 1.

    Attributes
    ----------
    whitening : Tensor (n_dims + n_context, n_dims + n_context)
        Times a centred row: its inputs.
    """

    whitening: Tensor

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor) -> WhitenedInputs:
        """Inputs whitened by samples (n_samples, n_dims) and their contexts (n_samples, n_context)."""
        standardised = StandardisedInputs.from_data(context, sample)
        return cls.along(standardised, *_spectrum(standardised, context, sample))

    @classmethod
    def along(cls, standardised: StandardisedInputs, eigenvalues: Tensor, axes: Tensor) -> WhitenedInputs:
        """Inputs along the axes (columns) of the standardised ones' covariance, whose eigenvalues are these (n,)."""
        scaled = axes / eigenvalues.clamp_min(LEAST_EIGENVALUE).sqrt()
        return cls(standardised.center, scaled / standardised.scale.unsqueeze(-1))

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (torch.cat([sample, context], -1) - self.center) @ self.whitening


def default_inputs(context: Tensor, sample: Tensor) -> RatioInputs:
    """Standardised columns; whitened ones where they are correlated so strongly that they nearly repeat each other.

    Parameters
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    """
    standardised = StandardisedInputs.from_data(context, sample)
    eigenvalues, axes = _spectrum(standardised, context, sample)
    correlated = float(eigenvalues[-1]) > CORRELATED * float(eigenvalues[0])
    return WhitenedInputs.along(standardised, eigenvalues, axes) if correlated else standardised


def _spectrum(inputs: StandardisedInputs, context: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors (columns) of the correlation matrix; a constant column has variance 1.

    There a model's samples count as much as they would if they were standardised.
    """
    columns = inputs(context, sample, 0)
    correlation = columns.mT @ columns / len(columns)
    constant = torch.diagonal(correlation) == 0.0
    eigenvalues, axes = torch.linalg.eigh(correlation + torch.diag(constant.to(correlation)))
    return eigenvalues, axes
