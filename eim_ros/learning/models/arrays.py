"""Parameters of a linear mixture of experts as NumPy arrays.

q(x|y) = sum_i softmax(V y + v)_i N(x; W_i y + w_i, C_i C_i')    (thesis 4.2.1, 4.2.2)

Answering a request with a linear model needs only these arrays, so this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import DistributionError

if TYPE_CHECKING:
    from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts


Array = npt.NDArray[Any]

# Names from `MixtureOfExperts.tensors`, in the order of the attributes of `LinearParameters`.
NAMES = ("gating.weights", "gating.biases", "experts.weights", "experts.biases", "experts.scale_trils")
NETWORKS = ("gating.layers.0.weight", "experts.layers.0.weight")


@dataclass(frozen=True, eq=False)
class LinearParameters:
    """Validated parameters of a linear mixture of experts, of any float dtype.

    Attributes
    ----------
    gating_weights, gating_biases : (n_components, n_context), (n_components,)
        V, v.
    weights, biases : (n_components, n_dims, n_context), (n_components, n_dims)
        W, w.
    scale_trils : (n_components, n_dims, n_dims)
        C, lower Cholesky factors of the covariances.

    Examples
    --------
    Read an included model without torch, and convert it to a mixture when it is needed:

    >>> from eim_ros.ik.prior import model_path
    >>> from eim_ros.learning.models import load_parameters
    >>> parameters, _ = load_parameters(model_path("panda_position"))  # LinearParameters
    >>> parameters.n_dims, parameters.n_context, type(parameters.mixture()).__name__
    (7, 3, 'MixtureOfExperts')
    """

    gating_weights: Array
    gating_biases: Array
    weights: Array
    biases: Array
    scale_trils: Array

    def __post_init__(self) -> None:
        gate, weights, factors = self.gating_weights, self.weights, self.scale_trils
        if gate.ndim != 2 or self.gating_biases.shape != gate.shape[:1]:
            raise DistributionError(
                f"gating weights (k, dy) and biases (k,) disagree: {gate.shape} and {self.gating_biases.shape}",
                gate.shape,
            )
        if weights.ndim != 3 or self.biases.shape != weights.shape[:2]:
            raise DistributionError(
                f"expert weights (k, dx, dy) and biases (k, dx) disagree: {weights.shape} and {self.biases.shape}",
                weights.shape,
            )
        n_components, n_dims, n_context = weights.shape
        if factors.shape != (n_components, n_dims, n_dims):
            raise DistributionError(
                f"scale_trils must be of shape {(n_components, n_dims, n_dims)}, got {factors.shape}", factors.shape
            )
        if gate.shape != (n_components, n_context):
            raise DistributionError(
                f"gating (n_components, n_context) {gate.shape} does not fit experts {(n_components, n_context)}",
                gate.shape,
            )
        for name, array in self.arrays().items():
            if not np.isfinite(array).all():
                raise DistributionError(f"{name} must be finite", array)
        if not (np.diagonal(factors, axis1=-2, axis2=-1) > 0.0).all():
            raise DistributionError("experts.scale_trils must have a positive diagonal", factors)

    @property
    def n_components(self) -> int:
        return int(self.weights.shape[0])

    @property
    def n_dims(self) -> int:
        return int(self.weights.shape[1])

    @property
    def n_context(self) -> int:
        return int(self.weights.shape[2])

    @staticmethod
    def fits(arrays: Mapping[str, object]) -> bool:
        """Return whether the named parameters describe a model without networks."""
        return not any(name in arrays for name in NETWORKS)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LinearParameters:
        """Build the parameters from named arrays; `DistributionError` lists the missing names."""
        missing = [name for name in NAMES if name not in arrays]
        if missing:
            raise DistributionError(f"a mixture of experts lacks {', '.join(missing)}", sorted(arrays))
        return cls(*(arrays[name] for name in NAMES))

    @classmethod
    def of(cls, mixture: MixtureOfExperts) -> LinearParameters:
        """Copy the parameters of a linear mixture of experts, which may be on any device."""
        return cls.from_arrays({name: value.detach().cpu().numpy() for name, value in mixture.tensors().items()})

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by name; the inverse of `from_arrays`."""
        values = (self.gating_weights, self.gating_biases, self.weights, self.biases, self.scale_trils)
        return dict(zip(NAMES, values, strict=True))

    def mixture(self) -> MixtureOfExperts:
        """Return the mixture of experts with the same dtype, on the CPU."""
        import torch  # imported here because serving a model needs only the arrays

        from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

        return MixtureOfExperts.from_tensors({name: torch.tensor(value) for name, value in self.arrays().items()})
