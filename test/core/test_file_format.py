"""The first bytes of a file reveal its format."""

from __future__ import annotations

import pickle
import zipfile

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


def array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(2))


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("text", "x")


@pytest.mark.parametrize(
    ("write", "described"),
    [
        (data_set, "a data set (.npz)"),
        (model, "the file of a mixture of experts (.safetensors)"),
        (stranger, "a safetensors file"),
        (arrays, "an archive of arrays (.npz)"),
        (array, "a single array (.npy)"),
        (archive, "a zip archive"),
        (lambda path: torch.save({}, path), "a pickle of PyTorch"),
        (lambda path: path.write_bytes(pickle.dumps([1])), "a pickle"),
        (lambda path: path.write_bytes(b"\x89MCAP0\r\n"), "a bag (MCAP)"),
        (lambda path: path.write_text("<robot/>"), "XML, such as a robot description"),
        (lambda path: path.write_text("a,b\n1,2\n"), ""),
        (lambda path: path.write_bytes(b""), ""),
    ],
)
def test_formats_are_told_by_name(tmp_path, write, described):
    write(tmp_path / "file")
    assert described_format((tmp_path / "file").read_bytes()) == described


def test_any_beginning_of_a_file_is_described(tmp_path):
    """None of them raises anything."""
    for write in (data_set, model):
        write(tmp_path / "file")
        content = (tmp_path / "file").read_bytes()
        found = {described_format(content[:length]) for length in range(len(content))}
        assert found <= {"", "a truncated archive", "a safetensors file", described_format(content)}
