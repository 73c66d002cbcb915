"""Arrays of parameters are those of the mixture, are restored bit by bit, and are refused if they are invalid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learning.models.random_models import random_mixture, random_mixture_of_experts, random_neural_mixture_of_experts

from eim_ros.core.errors import DistributionError, ModelFileError
from eim_ros.core.files import write_tensor_file
from eim_ros.learning.models import (
    LinearParameters,
    MixtureOfExperts,
    load_mixture_of_experts,
    load_parameters,
    save_mixture_of_experts,
    save_model,
)
from eim_ros.learning.models.serialization import MODEL_KIND, MODEL_SCHEMA


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 7, 3), (3, 2, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixture_comes_back_bit_by_bit(tmp_path, size: tuple[int, int, int], dtype: torch.dtype) -> None:
    model = random_mixture_of_experts(0, *size).to(dtype=dtype)
    save_mixture_of_experts(tmp_path / "model", model, {"robot": "iiwa14"})
    read, document = load_parameters(tmp_path / "model")
    assert isinstance(read, LinearParameters)
    assert document["robot"] == "iiwa14"
    for parameters in (read, LinearParameters.of(model)):
        assert (parameters.n_components, parameters.n_dims, parameters.n_context) == size
        for name, value in parameters.mixture().tensors().items():
            assert value.dtype == dtype
            assert torch.equal(value, model.tensors()[name]), name


def test_mixture_is_independent_of_the_arrays() -> None:
    parameters = LinearParameters.of(random_mixture_of_experts(0, 3, 2, 1))
    before = parameters.biases.copy()
    parameters.mixture().experts.tensors()["biases"].zero_()
    np.testing.assert_array_equal(parameters.biases, before)


@pytest.mark.parametrize("linear_gating", [True, False])
def test_networks_are_loaded_as_a_mixture(tmp_path, linear_gating: bool) -> None:
    model = random_neural_mixture_of_experts(8, 3, 2, 1, linear_gating=linear_gating)
    save_model(tmp_path / "model", model)
    assert not LinearParameters.fits(model.tensors())
    assert isinstance(load_parameters(tmp_path / "model")[0], MixtureOfExperts)


def test_file_of_another_kind_is_refused(tmp_path) -> None:
    save_model(tmp_path / "model", random_mixture(10, 3, 2))
    with pytest.raises(ModelFileError, match="has kind 'gaussian_mixture', expected 'mixture_of_experts'"):
        load_parameters(tmp_path / "model")


@pytest.mark.parametrize("name", list(random_mixture_of_experts(2, 3, 2, 1).tensors()))
def test_missing_parameter_is_refused_by_name(tmp_path, name: str) -> None:
    tensors = random_mixture_of_experts(2, 3, 2, 1).tensors()
    del tensors[name]
    write_tensor_file(tmp_path / "model", tensors, {}, kind=MODEL_KIND, schema=MODEL_SCHEMA)
    for load in (load_parameters, load_mixture_of_experts):
        with pytest.raises(ModelFileError, match=f"does not contain a valid mixture of experts: .*lacks {name}$"):
            load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("experts.scale_trils", torch.zeros(3, 2, 2), "positive diagonal"),
        ("experts.scale_trils", torch.full((3, 2, 2), torch.nan), "finite"),
        ("experts.scale_trils", torch.ones(3, 2), "scale_tril"),
        ("experts.scale_trils", torch.ones(2, 2, 2), "scale_trils"),
        ("experts.scale_trils", torch.ones(3, 3, 2), "scale_tril"),
        ("experts.biases", torch.full((3, 2), torch.nan), "finite"),
        ("experts.biases", torch.zeros(3, 1), "must have equal"),
        ("experts.weights", torch.full((3, 2, 1), torch.inf), "finite"),
        ("experts.weights", torch.zeros(3, 2), "must have equal"),
        ("experts.weights", torch.zeros(3, 2, 2), "must have equal"),
        ("gating.biases", torch.zeros(4), "must have equal"),
        ("gating.biases", torch.full((3,), -torch.inf), "finite"),
        ("gating.weights", torch.zeros(3, 2), "must have equal"),
        ("gating.weights", torch.zeros(3), "must have equal"),
        ("gating.weights", torch.full((3, 1), torch.nan), "finite"),
    ],
)
def test_both_readers_refuse_what_is_no_model(tmp_path, name: str, value: torch.Tensor, reason: str) -> None:
    tensors = {**random_mixture_of_experts(3, 3, 2, 1).tensors(), name: value.double()}
    write_tensor_file(tmp_path / "model", tensors, {}, kind=MODEL_KIND, schema=MODEL_SCHEMA)
    for load in (load_parameters, load_mixture_of_experts):
        with pytest.raises(ModelFileError, match=f"does not contain a valid mixture of experts: .*{reason}"):
            load(tmp_path / "model")


def test_numbers_of_a_type_that_numpy_lacks_are_refused(tmp_path) -> None:
    tensors = {name: value.bfloat16() for name, value in random_mixture_of_experts(3, 3, 2, 1).tensors().items()}
    write_tensor_file(tmp_path / "model", tensors, {}, kind=MODEL_KIND, schema=MODEL_SCHEMA)
    with pytest.raises(ModelFileError, match="numbers of a type that cannot be read: .*BF16"):
        load_parameters(tmp_path / "model")


def test_networks_have_no_linear_parameters() -> None:
    with pytest.raises(DistributionError, match="lacks gating.weights"):
        LinearParameters.of(random_neural_mixture_of_experts(8, 3, 2, 1))
