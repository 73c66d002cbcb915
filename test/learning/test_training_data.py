"""Learners accept valid data and starts, and refuse others."""

import math

import numpy as np
import pytest
import torch
from learning.models.random_models import random_mixture_of_experts

from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning import Pairs
from eim_ros.learning.data import checked_data, checked_start
from eim_ros.learning.models import GaussianMixture

MATRIX = torch.zeros(3, 2)


def data_of(n_context: int, n_dims: int) -> Pairs:
    return Pairs(torch.zeros(4, n_context).double(), torch.zeros(4, n_dims).double(), n_context > 0)


@pytest.mark.parametrize("data", [MATRIX, MATRIX.numpy(), MATRIX.tolist(), [[1, 2], [3, 4]]])
def test_a_matrix_is_samples_without_contexts(data):
    checked = checked_data(data)
    assert not checked.conditional
    assert checked.context.shape == (len(data), 0)
    assert checked.sample.tolist() == np.asarray(data).tolist()


@pytest.mark.parametrize("data", [(MATRIX, MATRIX), [MATRIX, MATRIX], (MATRIX[:, :0], MATRIX)])
def test_two_matrices_are_contexts_and_samples(data):
    checked = checked_data(data)
    assert checked.conditional
    assert (checked.context.shape, checked.sample.shape) == (data[0].shape, data[1].shape)


@pytest.mark.parametrize(
    "data",
    [None, 1.0, "text", torch.zeros(3), torch.zeros(2, 3, 2), (MATRIX,), (MATRIX,) * 3, {"context": 1, "sample": 2}]
    + [(torch.zeros(a), torch.zeros(b)) for a, b in [((3,), (3, 2)), ((3, 2), (3,)), ((3, 2, 1), (3, 2)), ((), ())]],
)
def test_data_of_other_forms_are_refused(data):
    with pytest.raises(DataError, match=r"matri|numbers"):
        checked_data(data)


def test_parts_of_unequal_length_are_refused():
    with pytest.raises(DataError, match="the same number of rows"):
        checked_data((torch.zeros(3, 2), torch.zeros(4, 2)))


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_empty_data_are_refused(shape):
    for data in (torch.zeros(shape), (torch.zeros(shape[0], 1), torch.zeros(shape))):
        with pytest.raises(DataError, match="empty"):
            checked_data(data)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["context", "sample"])
def test_non_finite_row_is_refused_by_number(name, value):
    parts = {"context": torch.zeros(5, 2), "sample": torch.zeros(5, 3)}
    parts[name][3, 1] = value
    with pytest.raises(
        DataError, match=f"{name} has NaN or infinite entries in 1 rows, the first of which is row 3"
    ) as caught:
        checked_data((parts["context"], parts["sample"]))
    assert caught.value.value == 3


@pytest.mark.parametrize("part", [[["a"]], [[1.0], [1.0, 2.0]], [[None]], np.array([[None]]), torch.ones(1, 1) * 1j])
def test_data_that_are_no_real_numbers_are_refused(part):
    for data in ((part, [[1.0]]), part):
        with pytest.raises(DataError, match="numbers|NaN"):
            checked_data(data)


def test_data_of_any_kind_become_float64():
    rows = [[1, 2], [3, 4]]
    read_only = np.array(rows)
    read_only.flags.writeable = False
    for part in (rows, read_only, np.array(rows, dtype=np.float32)[::-1][::-1], torch.tensor(rows)):
        checked = checked_data((part, part))
        assert checked.context.dtype == checked.sample.dtype == torch.float64
        assert checked.context.tolist() == rows


def test_reversed_array_is_accepted():
    checked = checked_data((np.arange(4.0).reshape(4, 1)[::-1], np.zeros((4, 1))))
    assert checked.context[:, 0].tolist() == [3.0, 2.0, 1.0, 0.0]


def test_start_takes_the_precision_of_the_data_and_must_fit_them():
    data = data_of(1, 2)
    start = random_mixture_of_experts(0, 3, 2, 1)
    assert checked_start(start, data) is start
    assert checked_start(start.to(dtype=torch.float32), data).dtype == torch.float64
    for size in ((3, 1, 1), (3, 2, 2)):
        with pytest.raises(DistributionError, match=r"the start has .* but the data have \(2, 1\)"):
            checked_start(random_mixture_of_experts(0, *size), data)


def test_mixture_starts_a_fit_without_contexts():
    mixture = GaussianMixture(torch.zeros(3), torch.arange(6.0).reshape(3, 2), torch.eye(2).expand(3, 2, 2))
    start = checked_start(mixture, data_of(0, 2))
    assert (start.n_components, start.n_dims, start.n_context, start.dtype) == (3, 2, 0, torch.float64)
    with pytest.raises(DistributionError, match="but the data have"):
        checked_start(mixture, data_of(1, 2))
