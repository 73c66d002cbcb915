"""Saving and loading of models.

A model file contains the parameters in safetensors format, and the description and kind of the model as JSON. Importing
this module does not import torch, and `load_parameters` can read a linear model without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eim_ros.core.errors import DistributionError, ModelFileError
from eim_ros.core.files import read_array_file, read_tensor_file, write_tensor_file
from eim_ros.learning.models.arrays import LinearParameters

if TYPE_CHECKING:
    from eim_ros.learning.models.gaussian_mixture import GaussianMixture
    from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

MODEL_KIND = "mixture_of_experts"  # linear or neural; the names of the tensors distinguish them
MIXTURE_KIND = "gaussian_mixture"
MODEL_SCHEMA = 1


def save_model(
    path: str | Path, model: GaussianMixture | MixtureOfExperts, document: dict[str, Any] | None = None
) -> None:
    """Write a model of any kind and its JSON-compatible description to a file, atomically.

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
    from eim_ros.learning.models.gaussian_mixture import GaussianMixture  # imported here because it needs torch

    kind = MIXTURE_KIND if isinstance(model, GaussianMixture) else MODEL_KIND
    write_tensor_file(path, model.tensors(), document or {}, kind=kind, schema=MODEL_SCHEMA)


def load_model(path: str | Path) -> tuple[GaussianMixture | MixtureOfExperts, dict[str, Any]]:
    """Read a model of any kind and its description; `ModelFileError` explains why a file was rejected.

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
        raise ModelFileError(f"{path} does not hold a valid {name}: {error}", str(path)) from error


def save_mixture_of_experts(path: str | Path, model: MixtureOfExperts, document: dict[str, Any] | None = None) -> None:
    """Write a mixture of experts with `save_model`."""
    save_model(path, model, document)


def load_mixture_of_experts(path: str | Path) -> tuple[MixtureOfExperts, dict[str, Any]]:
    """Read a mixture of experts like `load_model`; raise `ModelFileError` for another kind of model.

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
        raise ModelFileError(f"{path} holds a {document['kind']!r}, expected a {MODEL_KIND!r}", document["kind"])
    return model, document


def load_parameters(path: str | Path) -> tuple[LinearParameters | MixtureOfExperts, dict[str, Any]]:
    """Read a mixture of experts; a linear model is returned as NumPy arrays, without importing torch.

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
        raise ModelFileError(f"{path} does not hold a valid mixture of experts: {error}", str(path)) from error
