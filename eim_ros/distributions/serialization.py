"""A mixture of experts as one file: safetensors for the parameters, JSON for what describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.errors import DistributionError, ModelFileError
from eim_ros.numerics.tensor_file import read_tensor_file, write_tensor_file

__all__ = ["MODEL_KIND", "MODEL_SCHEMA", "load_mixture_of_experts", "save_mixture_of_experts"]

MODEL_KIND = "mixture_of_experts"
MODEL_SCHEMA = 1


def save_mixture_of_experts(path: str | Path, model: MixtureOfExperts, document: dict[str, Any] | None = None) -> None:
    """Write a model and a JSON-compatible description of it, atomically."""
    write_tensor_file(path, model.tensors(), document or {}, kind=MODEL_KIND, schema=MODEL_SCHEMA)


def load_mixture_of_experts(path: str | Path) -> tuple[MixtureOfExperts, dict[str, Any]]:
    """Read a model and its description; `ModelFileError` says why a file is refused."""
    tensors, document = read_tensor_file(path, kind=MODEL_KIND, schema=MODEL_SCHEMA)
    try:
        return MixtureOfExperts.from_tensors(tensors), document
    except DistributionError as error:
        raise ModelFileError(f"{path} does not hold a valid mixture of experts: {error}", str(path)) from error
