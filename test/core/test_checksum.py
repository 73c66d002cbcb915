"""No damaged file is read, whatever the damage; the checksum changes nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from core.mutations import mutated

from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import EimError
from eim_ros.core.files import BLANK, checksum_problem, sealed
from eim_ros.ik.prior import model_path
from eim_ros.learning import History
from eim_ros.learning.models import load_parameters
from eim_ros.learning.run import Checkpoint

MARK = b"sum: "
FILES = ("model", "data set", "checkpoint")
N = 80  # of each kind; each way of damage ten times


def whole_file(kind, path):
    """Write a file of a kind; what reads it."""
    if kind == "model":
        path.write_bytes(model_path("panda_position").read_bytes())
        return load_parameters
    if kind == "data set":
        rng = np.random.default_rng(0)
        save_data_set(path, DataSet(rng.normal(size=(300, 3)), rng.normal(size=(300, 7)), {"robot": {"name": "x"}}))
        return load_data_set
    tensors = {"model.weights": torch.randn(40, 7, generator=torch.Generator().manual_seed(0)), "n": torch.tensor(3)}
    Checkpoint(path, identity="settings").save(tensors, History(({"elbo": 1.0},) * 5), 5)
    return lambda file: Checkpoint(file, identity="settings").load()


@pytest.mark.parametrize("kind", FILES)
def test_no_damaged_file_is_read(tmp_path, kind):
    path = tmp_path / "file"
    read = whole_file(kind, path)
    read(path)
    accepted = []
    for way, content in mutated(path.read_bytes(), N, seed=1):
        path.write_bytes(content)
        try:
            read(path)
        except EimError as error:
            assert str(path) in str(error)
        else:
            accepted.append(way)
    assert not accepted


@pytest.mark.parametrize("kind", FILES)
def test_each_bit_counts(tmp_path, kind):
    """Also of what no reader looks at: spaces of a header, dates of an archive, the checksum itself."""
    path = tmp_path / "file"
    read = whole_file(kind, path)
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), max(1, len(content) // 97)):
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(EimError):
            read(path)
        content[place] ^= 1 << place % 8
    path.write_bytes(content)
    read(path)


def test_digest_is_of_the_file_with_zeros_in_its_place():
    content = b"begin " + MARK + BLANK.encode() + b" end"
    whole = sealed(content, MARK)
    assert whole == b"begin " + MARK + hashlib.sha256(content).hexdigest().encode() + b" end"
    assert checksum_problem(whole, MARK) == ""


def test_file_without_a_checksum_is_told_from_a_damaged_one():
    whole = sealed(MARK + BLANK.encode() + b"content", MARK)
    assert checksum_problem(b"content", MARK).startswith("has no checksum")
    assert checksum_problem(whole + b" ", MARK).startswith("is damaged")
    assert checksum_problem(whole.upper(), MARK.upper()).startswith("has no checksum")  # it is lower case


def test_checksum_of_another_file_may_be_quoted():
    quoted = sealed(MARK + BLANK.encode() + b"inner", MARK)
    for content in (quoted + MARK + BLANK.encode(), MARK + BLANK.encode() + quoted):
        assert checksum_problem(sealed(content, MARK), MARK) == ""
