"""What a model file holds: the parameters of a linear model without torch, any other mixture of experts with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from eim_ros.distributions.linear_parameters import LinearParameters
from eim_ros.errors import DistributionError, ModelFileError
from eim_ros.numerics.tensor_file import read_array_file

if TYPE_CHECKING:
    from eim_ros.distributions.mixture_of_experts import MixtureOfExperts

__all__ = ["MIXTURE_KIND", "MODEL_KIND", "MODEL_SCHEMA", "load_parameters"]

MODEL_KIND = "mixture_of_experts"  # linear and neural parts alike: the names of their tensors tell them apart
MIXTURE_KIND = "gaussian_mixture"
MODEL_SCHEMA = 1


def load_parameters(path: str | Path) -> tuple[LinearParameters | MixtureOfExperts, dict[str, Any]]:
    """As `load_mixture_of_experts`, but of a model with linear parts the arrays alone."""
    arrays, document = read_array_file(path, kind=(MODEL_KIND, MIXTURE_KIND), schema=MODEL_SCHEMA)
    if document["kind"] != MODEL_KIND or not LinearParameters.fits(arrays):
        from eim_ros.distributions.serialization import load_mixture_of_experts  # here: networks need torch

        return load_mixture_of_experts(path)
    try:
        return LinearParameters.from_arrays(arrays), document
    except DistributionError as error:
        raise ModelFileError(f"{path} does not hold a valid mixture of experts: {error}", str(path)) from error
