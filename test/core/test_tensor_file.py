"""Tensor files are read as written. Other files are refused with a reason, and pickles are never loaded."""

import pickle
import re

import numpy as np
import pytest
import safetensors.torch
import torch

from eim_ros.core.data_set import DataSet, save_data_set
from eim_ros.core.errors import ModelFileError
from eim_ros.core.files import read_array_file, read_tensor_file, write_tensor_file

TENSORS = {"a": torch.arange(6.0, dtype=torch.float64).reshape(2, 3), "b": torch.tensor([1, 2], dtype=torch.int64)}


def write(path, tensors=TENSORS, document=None, kind="example", schema=1):
    write_tensor_file(path, tensors, document or {}, kind=kind, schema=schema)
    return path


def read(path):
    """Read a file as tensors; if it is refused, check that reading it as arrays raises the same message."""
    try:
        found = read_tensor_file(path, kind="example", schema=1)
    except ModelFileError as error:
        with pytest.raises(ModelFileError, match=f"^{re.escape(str(error))}$"):
            read_array_file(path, kind="example", schema=1)
        raise
    return found


def test_tensors_and_document_come_back(tmp_path):
    document = {"names": ["x", "y"], "nested": {"value": 0.1}, "text": '\u00e9\n"{}'}
    tensors, found = read(write(tmp_path / "file", document=document))
    assert found == {**document, "kind": "example", "schema_version": 1}
    assert tensors.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert tensors[name].dtype == value.dtype
        assert torch.equal(tensors[name], value)


def test_arrays_are_the_tensors(tmp_path):
    arrays, document = read_array_file(write(tmp_path / "file", document={"x": 1}), kind="example", schema=1)
    assert document == read(tmp_path / "file")[1]
    assert arrays.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        np.testing.assert_array_equal(arrays[name], value.numpy(), strict=True)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0, 3),
        torch.tensor(1.5),
        torch.arange(6.0).reshape(2, 3).T,
        torch.ones(1).expand(4, 4),
        torch.ones(2, requires_grad=True),
        torch.zeros(5, dtype=torch.uint8),
        torch.ones(3, dtype=torch.float32)[::2],
    ],
    ids=["empty", "scalar", "transposed", "expanded", "with gradient", "bytes", "strided"],
)
def test_any_tensor_comes_back(tmp_path, tensor):
    found, _ = read(write(tmp_path / "file", {"x": tensor}))
    assert torch.equal(found["x"], tensor.detach())
    assert found["x"].dtype == tensor.dtype


def test_header_of_any_length_is_read(tmp_path):
    """A file begins with the length of its header, which must not be mistaken for the first bytes of a pickle."""
    for length in range(0, 600, 8):
        _, document = read(write(tmp_path / "file", document={"text": "x" * length}))
        assert len(document["text"]) == length


def test_file_truncated_anywhere_is_refused(tmp_path):
    path = write(tmp_path / "file")
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="truncated"):
            read(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_is_refused_unread(tmp_path, protocol):
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps({"experts": [1.0] * 100}, protocol))
    with pytest.raises(ModelFileError, match="not a safetensors file, the only format that is loaded"):
        read(path)


def of_safetensors(metadata):
    return lambda path: safetensors.torch.save_file({"a": torch.zeros(2)}, path, metadata)


@pytest.mark.parametrize(
    ("write_file", "reason"),
    [
        (lambda path: None, "cannot read .*file: No such file"),
        (lambda path: path.mkdir(), "cannot read"),
        (lambda path: path.write_bytes(b"\x93NUMPY" + 100 * b" "), "not a safetensors"),
        (lambda path: torch.save(TENSORS, path), "the only format that is loaded"),
        (of_safetensors(None), "not written by eim_ros"),
        (of_safetensors({"format": "pt"}), "not written by eim_ros"),
        *((of_safetensors({"eim_ros": header}), "damaged header") for header in ("{", "[1]", "null")),
        (of_safetensors({"eim_ros": '{"kind": "example", "schema_version": 1}'}), "has no checksum, .*create it again"),
        (lambda path: write(path, kind="other"), "has kind 'other', expected 'example'"),
        (lambda path: write(path, schema=2), "schema version 2, but this program reads 1"),
        (
            lambda path: save_data_set(path, DataSet(np.zeros((2, 1)), np.zeros((2, 1)))),
            "not a safetensors",
        ),
    ],
)
def test_what_is_no_tensor_file_of_the_kind_is_refused_by_its_fault(tmp_path, write_file, reason):
    write_file(tmp_path / "file")
    with pytest.raises(ModelFileError, match=reason):
        read(tmp_path / "file")


def test_numbers_that_are_not_finite_are_null_in_the_document(tmp_path):
    document = {"elbo": float("-inf"), "figures": np.array([1.0, np.nan])}
    assert (
        read(write(tmp_path / "file", document=document))[1].items() >= {"elbo": None, "figures": [1.0, None]}.items()
    )


def test_document_cannot_disguise_kind_or_schema(tmp_path):
    path = write(tmp_path / "file", document={"kind": "other", "schema_version": 7})
    assert read(path)[1]["kind"] == "example"
