"""Saved files of every format can be read. Damaged copies are read or refused, and raise no other error."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from parser_targets import TARGETS, parsed

from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.ik import IKModel
from eim_ros.kinematics import Robot
from eim_ros.learning.models import MixtureOfExperts, load_model

number = st.floats(-1e6, 1e6)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
documents = st.dictionaries(texts, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | st.lists(number))
edits = st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 40), st.binary(max_size=12)), min_size=1, max_size=3)


@functools.cache
def seeds(name: str) -> list[bytes]:
    """Return the contents of files of this format from our own writers."""
    with tempfile.TemporaryDirectory() as folder:
        return TARGETS[name].seeds(Path(folder))


def edited(content: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for place, n_removed, inserted in changes:
        start = int(place * len(content))
        content = content[:start] + inserted + content[start + n_removed :]
    return content


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=200)
@given(st.integers(0, 9), edits)
def test_damaged_file_is_read_or_refused(name: str, number: int, changes: list[tuple[float, int, bytes]]) -> None:
    contents = seeds(name)
    with tempfile.TemporaryDirectory() as folder:
        for error in parsed(TARGETS[name], edited(contents[number % len(contents)], changes), Path(folder)):
            assert str(error)


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(0, 4), st.integers(1, 4), documents, st.data())
def test_data_set_is_read_as_it_was_saved(
    n: int, n_context: int, n_dims: int, document: dict, data: st.DataObject
) -> None:
    context, sample = (data.draw(arrays.arrays(float, (n, m), elements=number)) for m in (n_context, n_dims))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.npz")
        save_data_set(path, DataSet(context, sample, document))
        again = load_data_set(path)
    np.testing.assert_array_equal(again.context, context)
    np.testing.assert_array_equal(again.sample, sample)
    assert len(again) == n
    assert again.description == {**document, "schema_version": again.description["schema_version"]}


@settings(max_examples=20)
@given(st.integers(1, 4), documents, st.integers(0, 2**32 - 1))
def test_model_is_read_as_it_was_saved(n_experts: int, training: dict, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    tensors = {
        "gating.weights": drawn(n_experts, 3),
        "gating.biases": drawn(n_experts),
        "experts.weights": drawn(n_experts, 3, 3),
        "experts.biases": drawn(n_experts, 3),
        "experts.scale_trils": torch.eye(3, dtype=torch.float64) * drawn(n_experts, 1, 1).exp(),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        model = IKModel(MixtureOfExperts.from_tensors(tensors), Robot("planar3"), "position", training)
        model.save(path)
        again, read = IKModel.load(path), load_model(path)[0].tensors()
    assert again.training == training
    assert again.robot.fingerprint == model.robot.fingerprint
    for name, tensor in model.mixture.tensors().items():
        torch.testing.assert_close(read[name], tensor, rtol=0.0, atol=0.0)
