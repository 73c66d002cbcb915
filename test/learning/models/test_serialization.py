"""Loaded models equal the saved ones bit by bit. A file without a valid model is refused with the reason."""

import pytest
import torch
from learning.models.random_models import random_mixture, random_mixture_of_experts, random_neural_mixture_of_experts

from eim_ros.core.errors import ModelFileError
from eim_ros.core.files import write_tensor_file
from eim_ros.learning.models import (
    GaussianMixture,
    load_mixture_of_experts,
    load_model,
    save_mixture_of_experts,
    save_model,
)
from eim_ros.learning.models.serialization import MODEL_KIND, MODEL_SCHEMA


@pytest.mark.parametrize(
    "model",
    [
        random_mixture(5, 3, 2),
        random_mixture_of_experts(6, 3, 2, 1),
        random_neural_mixture_of_experts(7, 3, 2, 1),
        random_neural_mixture_of_experts(8, 3, 2, 1, linear_gating=True),
        random_neural_mixture_of_experts(9, 1, 1, 0),
    ],
    ids=["GaussianMixture", "linear", "neural", "neural experts", "neural without contexts"],
)
def test_one_loader_reads_every_kind(tmp_path, model):
    save_model(tmp_path / "model", model, {"note": "x"})
    loaded, document = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert document["note"] == "x"
    if not isinstance(model, GaussianMixture):
        assert type(loaded.gating) is type(model.gating)
        assert type(loaded.experts) is type(model.experts)
    for name, value in model.tensors().items():  # loading normalises weights again
        torch.testing.assert_close(loaded.tensors()[name], value, rtol=1e-15, atol=1e-15)


def test_saving_a_loaded_model_gives_the_same_bytes(tmp_path):
    save_mixture_of_experts(tmp_path / "a", random_mixture_of_experts(1, 3, 2, 1), {"z": 1, "a": 2})
    save_mixture_of_experts(tmp_path / "b", *load_mixture_of_experts(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(("kind", "schema"), [("checkpoint", MODEL_SCHEMA), (MODEL_KIND, MODEL_SCHEMA + 1)])
def test_checkpoint_and_other_schema_are_no_model(tmp_path, kind, schema):
    tensors = random_mixture_of_experts(4, 2, 2, 1).tensors()
    write_tensor_file(tmp_path / "model", tensors, {}, kind=kind, schema=schema)
    with pytest.raises(ModelFileError, match="has kind 'checkpoint'|schema version"):
        load_mixture_of_experts(tmp_path / "model")
