"""Saving and loading of models, and the parameters of a linear mixture of experts as NumPy arrays.

A model file contains the parameters in safetensors format, and the description and the kind of the model as JSON. This
module does not import torch. To answer a request with a linear model

    q(x|y) = sum_i softmax(V y + v)_i N(x; W_i y + w_i, C_i C_i')    (thesis 4.2.1, 4.2.2)

arrays are sufficient. `load_parameters` reads these arrays without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import DistributionError, ModelFileError
from eim_ros.core.files import read_array_file, read_tensor_file, write_tensor_file

if TYPE_CHECKING:
    from eim_ros.learning.models.gaussian_mixture import GaussianMixture
    from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

MODEL_KIND = "mixture_of_experts"  # linear and neural models; the names of the tensors distinguish them
MIXTURE_KIND = "gaussian_mixture"
MODEL_SCHEMA = 1
Array = npt.NDArray[Any]
# Names from `MixtureOfExperts.tensors`, in the order of the attributes of `LinearParameters`.
NAMES = ("gating.weights", "gating.biases", "experts.weights", "experts.biases", "experts.scale_trils")
NETWORKS = ("gating.layers.0.weight", "experts.layers.0.weight")


@dataclass(frozen=True, eq=False)
class LinearParameters:
    """Validated parameters of a linear mixture of experts, with any float dtype.

    Attributes
    ----------
    gating_weights, gating_biases : (n_components, n_context), (n_components,)
        V, v.
    weights, biases : (n_components, n_dims, n_context), (n_components, n_dims)
        W, w.
    scale_trils : (n_components, n_dims, n_dims)
        C, the lower Cholesky factors of the covariances.

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
                f"gating weights (k, dy) and biases (k,) must have equal k, got shapes {gate.shape} and "
                f"{self.gating_biases.shape}",
                gate.shape,
            )
        if weights.ndim != 3 or self.biases.shape != weights.shape[:2]:
            raise DistributionError(
                f"expert weights (k, dx, dy) and biases (k, dx) must have equal k and dx, got shapes {weights.shape} "
                f"and {self.biases.shape}",
                weights.shape,
            )
        n_components, n_dims, n_context = weights.shape
        if factors.shape != (n_components, n_dims, n_dims):
            raise DistributionError(
                f"scale_trils must have the shape {(n_components, n_dims, n_dims)}, got {factors.shape}", factors.shape
            )
        if gate.shape != (n_components, n_context):
            raise DistributionError(
                f"the gating and the experts must have equal (n_components, n_context), got {gate.shape} and "
                f"{(n_components, n_context)}",
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
        """Return whether these named parameters belong to a model without networks."""
        return not any(name in arrays for name in NETWORKS)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LinearParameters:
        """Build the parameters from named arrays. `DistributionError` lists the missing names."""
        missing = [name for name in NAMES if name not in arrays]
        if missing:
            raise DistributionError(f"a mixture of experts lacks {', '.join(missing)}", sorted(arrays))
        return cls(*(arrays[name] for name in NAMES))

    @classmethod
    def of(cls, mixture: MixtureOfExperts) -> LinearParameters:
        """Copy the parameters of a linear mixture of experts on any device."""
        return cls.from_arrays({name: value.detach().cpu().numpy() for name, value in mixture.tensors().items()})

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by name, in the form that `from_arrays` reads."""
        values = (self.gating_weights, self.gating_biases, self.weights, self.biases, self.scale_trils)
        return dict(zip(NAMES, values, strict=True))

    def mixture(self) -> MixtureOfExperts:
        """Return the mixture of experts with the same dtype, on the CPU."""
        import torch  # imported here, because answers to requests need only the arrays

        from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

        return MixtureOfExperts.from_tensors({name: torch.tensor(value) for name, value in self.arrays().items()})


def save_model(
    path: str | Path, model: GaussianMixture | MixtureOfExperts, document: dict[str, Any] | None = None
) -> None:
    """Write a model of any kind and its description to a file. An existing file is replaced atomically.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import GaussianMixture, load_model, save_model
    >>> mixture = GaussianMixture(torch.zeros(2), torch.tensor([[-2.0], [2.0]]), torch.ones(2, 1, 1))
    >>> save_model("mixture.safetensors", mixture, {"source": "an example"})
    >>> model, description = load_model("mixture.safetensors")
    >>> model.means.tolist(), description["source"]
    ([[-2.0], [2.0]], 'an example')
    """
    from eim_ros.learning.models.custom import CustomExperts  # imported here because they need torch
    from eim_ros.learning.models.gaussian_mixture import GaussianMixture

    if not isinstance(model, GaussianMixture) and isinstance(model.experts, CustomExperts):
        raise DistributionError(
            "a file cannot contain experts of a custom family, because it does not contain code; store "
            "model.tensors() instead",
            type(model.experts.family).__name__,
        )
    kind = MIXTURE_KIND if isinstance(model, GaussianMixture) else MODEL_KIND
    write_tensor_file(path, model.tensors(), document or {}, kind=kind, schema=MODEL_SCHEMA)


def load_model(path: str | Path) -> tuple[GaussianMixture | MixtureOfExperts, dict[str, Any]]:
    """Read a model of any kind and its description. `ModelFileError` is raised if the file is invalid.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import EM
    >>> from eim_ros.learning.models import load_model
    >>> data = torch.randn(50, 1, generator=torch.Generator().manual_seed(0))
    >>> EM(n_components=2, seed=0).fit(data).save("fit.safetensors")
    >>> model, description = load_model("fit.safetensors")
    >>> model.n_components, description["kind"]
    (2, 'gaussian_mixture')
    """
    from eim_ros.learning.models.gaussian_mixture import GaussianMixture  # imported here because they need torch
    from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

    tensors, document = read_tensor_file(path, kind=(MODEL_KIND, MIXTURE_KIND), schema=MODEL_SCHEMA)
    name = document["kind"].replace("_", " ")
    try:
        if document["kind"] == MIXTURE_KIND:
            return GaussianMixture.from_tensors(tensors), document
        return MixtureOfExperts.from_tensors(tensors), document
    except DistributionError as error:
        raise ModelFileError(f"{path} does not contain a valid {name}: {error}", str(path)) from error


def save_mixture_of_experts(path: str | Path, model: MixtureOfExperts, document: dict[str, Any] | None = None) -> None:
    """Write a mixture of experts with `save_model`."""
    save_model(path, model, document)


def load_mixture_of_experts(path: str | Path) -> tuple[MixtureOfExperts, dict[str, Any]]:
    """Read a mixture of experts like `load_model`. `ModelFileError` is raised for other kinds of models.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning import EM
    >>> from eim_ros.learning.models import load_mixture_of_experts, save_mixture_of_experts
    >>> context = torch.linspace(-1.0, 1.0, 50)[:, None]
    >>> save_mixture_of_experts("line.safetensors", EM(n_components=1).fit((context, 2.0 * context)).model)
    >>> model, _ = load_mixture_of_experts("line.safetensors")
    >>> round(float(model.experts.weights), 3)
    2.0
    """
    from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts  # imported here because it needs torch

    model, document = load_model(path)
    if not isinstance(model, MixtureOfExperts):
        raise ModelFileError(f"{path} has kind {document['kind']!r}, expected {MODEL_KIND!r}", document["kind"])
    return model, document


def load_parameters(path: str | Path) -> tuple[LinearParameters | MixtureOfExperts, dict[str, Any]]:
    """Read a mixture of experts. Return a linear model as NumPy arrays, without importing torch.

    Raises
    ------
    ModelFileError
        If the file cannot be read, or contains another kind of model.

    Examples
    --------
    >>> from eim_ros.ik.prior import model_path
    >>> from eim_ros.learning.models import load_parameters
    >>> parameters, document = load_parameters(model_path("panda_position"))
    >>> type(parameters).__name__, parameters.n_dims, document["context_kind"]
    ('LinearParameters', 7, 'position')
    """
    arrays, document = read_array_file(path, kind=(MODEL_KIND, MIXTURE_KIND), schema=MODEL_SCHEMA)
    if document["kind"] != MODEL_KIND or not LinearParameters.fits(arrays):
        return load_mixture_of_experts(path)
    try:
        return LinearParameters.from_arrays(arrays), document
    except DistributionError as error:
        raise ModelFileError(f"{path} does not contain a valid mixture of experts: {error}", str(path)) from error
