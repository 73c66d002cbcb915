"""The beginning of a file of this package reveals what it holds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import safetensors.torch
import torch

from eim_ros.core.data_set import DataSet, save_data_set
from eim_ros.core.files import described_format, write_tensor_file


def data_set(path):
    save_data_set(path, DataSet(np.zeros((2, 1)), np.zeros((2, 1))))


def model(path):
    write_tensor_file(path, {"x": torch.zeros(2)}, {}, kind="mixture_of_experts", schema=1)


def stranger(path):
    safetensors.torch.save_file({"x": torch.zeros(2)}, path)


def arrays(path):
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(2))


@pytest.mark.parametrize(
    ("write", "described"),
    [
        (data_set, "a data set (.npz)"),
        (model, "the file of a mixture of experts (.safetensors)"),
        (stranger, ""),
        (arrays, ""),
        (lambda path: torch.save({}, path), ""),
        (lambda path: path.write_bytes(pickle.dumps([1])), ""),
        (lambda path: path.write_text("a,b\n1,2\n"), ""),
        (lambda path: path.write_bytes(b""), ""),
    ],
)
def test_files_of_this_package_are_described(tmp_path, write, described):
    write(tmp_path / "file")
    assert described_format((tmp_path / "file").read_bytes()) == described


@pytest.mark.parametrize("write", [data_set, model])
def test_any_beginning_of_a_file_is_described_or_unknown(tmp_path, write):
    """None of them raises anything."""
    write(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    found = {described_format(content[:length]) for length in range(len(content))}
    assert found <= {"", described_format(content)}
