"""With each instruction set, forms at few components per point equal their definition. Bad arrays are refused."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from learning.models.native.forms import Forms, compiled_for, each_instruction_set, laid_out_otherwise
from scipy.special import logsumexp, softmax

from eim_ros.core.native import INSTRUCTION_SETS

# numbers of components, dimensions, and context dimensions
SIZES = [(20, 3, 2), (5, 1, 0), (7, 2, 0), (9, 7, 3), (3, 10, 0), (4, 1, 6)]


def index_of(forms: Forms, n: int, n_columns: int, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(forms.n_components, size=(n, n_columns))


@each_instruction_set
@pytest.mark.parametrize("n_narrow", [0, 2])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_columns", [0, 1, 3, 4, 9])  # the module evaluates four columns at a time
def test_values_are_those_of_the_definition(instruction_set, size, n_narrow, n_columns):
    forms = Forms.random(*size, n_narrow)
    joint, index = forms.points(30), index_of(forms, 30, n_columns)
    expected = np.take_along_axis(forms.values(joint), index, 1)
    found = forms.compiled(instruction_set).values(joint, index)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@each_instruction_set
@pytest.mark.parametrize("n_narrow", [0, 2])
@pytest.mark.parametrize("size", SIZES)
def test_log_sums_are_those_of_scipy(instruction_set, size, n_narrow):
    forms = Forms.random(*size, n_narrow)
    joint, states = forms.points(30), index_of(forms, 11, 6)
    source = index_of(Forms.random(11, 1, 0), 30, 1)[:, 0]
    expected = logsumexp(np.take_along_axis(forms.values(joint), states[source], 1), axis=1)
    found = forms.compiled(instruction_set).log_sums(joint, states, source)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@each_instruction_set
@pytest.mark.parametrize("n_narrow", [0, 2])
@pytest.mark.parametrize("size", SIZES)
def test_scores_are_averaged_gradients(instruction_set, size, n_narrow):
    forms = Forms.random(*size, n_narrow)
    joint, index = forms.points(30), index_of(forms, 30, 5)
    shares = softmax(np.random.default_rng(3).normal(size=(30, 5)), axis=1)
    shares[:, 1] = 0.0
    gradients = np.take_along_axis(forms.gradients(joint), index[..., None], 1)
    found = forms.compiled(instruction_set).scores(joint, index, shares)
    np.testing.assert_allclose(found, np.einsum("ng,nga->na", shares, gradients), rtol=1e-11, atol=1e-11)


@each_instruction_set
def test_components_far_below_the_greatest_change_no_sum(instruction_set):
    forms = Forms(np.zeros((3, 1, 2)), np.array([[0.0, 0.0], [0.0, -1000.0], [0.0, -np.inf]]), np.empty(0, np.int64))
    compiled, joint = forms.compiled(instruction_set), np.zeros((3, 1))
    sums = compiled.log_sums(joint, np.array([[0, 1, 2], [1, 2, 1], [2, 2, 2]]), np.array([0, 1, 2]))
    np.testing.assert_allclose(sums, [0.0, -1000.0 + np.log(2.0), -np.inf], rtol=1e-15)


@each_instruction_set
@pytest.mark.parametrize("n_narrow", [0, 5])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_point_that_is_not_finite_gives_no_finite_number_and_leaves_others_alone(instruction_set, n_narrow, bad):
    forms = Forms.random(5, 2, 1, n_narrow)
    joint, index = forms.points(6), index_of(forms, 6, 5)
    joint[2, 1] = bad
    compiled = forms.compiled(instruction_set)
    results = (
        compiled.values(joint, index),
        compiled.log_sums(joint, index, np.arange(6)),
        compiled.scores(joint, index, np.full((6, 5), 0.2)),
    )
    for result in results:
        finite = np.isfinite(result).reshape(6, -1)
        assert not finite[2].any()
        assert np.delete(finite, 2, axis=0).all()
        assert not np.isnan(bad) or np.isnan(result[2]).all()


@each_instruction_set
def test_one_value_that_is_nan_makes_the_sum_nan(instruction_set):
    forms = Forms(np.zeros((2, 1, 2)), np.array([[0.0, 0.0], [0.0, np.nan]]), np.empty(0, np.int64))
    sums = forms.compiled(instruction_set).log_sums(np.zeros((2, 1)), np.array([[0, 1], [1, 0]]), np.array([0, 1]))
    assert np.isnan(sums).all()


@each_instruction_set
@pytest.mark.parametrize("layout", ["by columns", "strided", "reversed", "read-only", "misaligned"])
def test_arrays_may_lie_in_any_way(instruction_set, layout):
    forms = Forms.random(8, 3, 2, 2)
    joint, index = forms.points(12), index_of(forms, 12, 4)
    shares = np.full((12, 4), 0.25)
    plain = forms.compiled(instruction_set)
    other = compiled_for(instruction_set).SelectedForms(*(laid_out_otherwise(a)[layout] for a in forms.arguments()))
    laid = [laid_out_otherwise(array)[layout] for array in (joint, index, shares)]
    np.testing.assert_array_equal(other.values(*laid[:2]), plain.values(joint, index))
    np.testing.assert_array_equal(other.scores(*laid), plain.scores(joint, index, shares))
    source = laid_out_otherwise(np.arange(12))[layout]
    np.testing.assert_array_equal(other.log_sums(*laid[:2], source), plain.log_sums(joint, index, np.arange(12)))


@each_instruction_set
def test_no_points_give_nothing(instruction_set):
    compiled = Forms.random(8, 3, 2).compiled(instruction_set)
    joint, index = np.empty((0, 5)), np.empty((0, 4), np.int64)
    assert compiled.values(joint, index).shape == (0, 4)
    assert compiled.scores(joint, index, np.empty((0, 4))).shape == (0, 3)
    assert compiled.log_sums(joint, index, np.empty(0, np.int64)).shape == (0,)


@each_instruction_set
@pytest.mark.parametrize("bad", [-1, 8, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_component_that_does_not_exist_is_refused(instruction_set, bad):
    forms = Forms.random(8, 3, 2, 2)
    compiled, joint, index = forms.compiled(instruction_set), forms.points(12), index_of(forms, 12, 4)
    wrong, rows = index.copy(), np.arange(12)
    wrong[11, 3] = bad
    with pytest.raises(ValueError, match="index must be from 0 to 7"):
        compiled.values(joint, wrong)
    with pytest.raises(ValueError, match="index must be from 0 to 7"):
        compiled.scores(joint, wrong, np.zeros((12, 4)))
    with pytest.raises(ValueError, match="states must be from 0 to 7"):
        compiled.log_sums(joint, wrong, rows)
    with pytest.raises(ValueError, match="source must be from 0 to 11"):
        compiled.log_sums(joint, index, np.where(rows == 3, bad if bad != 8 else 12, rows))
    coefficients, narrow, residuals, linear = forms.arguments()
    with pytest.raises(ValueError, match="narrow must be from 0 to 7"):
        compiled_for(instruction_set).SelectedForms(
            coefficients, np.where(narrow == narrow[1], bad, narrow), residuals, linear
        )


GOOD = {"joint": np.zeros((12, 5)), "index": np.zeros((12, 4), np.int64), "shares": np.zeros((12, 4))}


@each_instruction_set
@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("joint", np.zeros((12, 4)), r"joint must be \(any, 5\), got \(12, 4\)"),
        ("joint", np.zeros((11, 5)), r"index must be \(11, any\), got \(12, 4\)"),
        ("joint", np.zeros(5), r"joint must be \(any, 5\), got \(5\)"),
        ("joint", np.zeros((1, 12, 5)), "joint must be"),
        ("joint", np.array(1.0), "joint must be"),
        ("joint", np.zeros((12, 5), np.float32), "joint must be float64, got float32"),
        ("joint", np.zeros((12, 5), ">f8"), "joint must be float64, got >f8"),
        ("joint", np.zeros((12, 5), complex), "joint must be float64, got complex128"),
        ("joint", np.zeros((12, 5), object), "joint must be float64, got object"),
        ("joint", np.full((12, 5), "a"), "joint must be float64"),
        ("index", np.zeros(12, np.int64), r"index must be \(12, any\)"),
        ("index", np.zeros((12, 4)), "index must be int64, got float64"),
        ("index", np.zeros((12, 4), np.int32), "index must be int64, got int32"),
        ("index", np.zeros((12, 4), np.uint64), "index must be int64, got uint64"),
        ("index", np.zeros((12, 4), bool), "index must be int64, got bool"),
        ("shares", np.zeros((12, 3)), r"shares must be \(12, 4\), got \(12, 3\)"),
        ("shares", np.zeros((12, 4), np.float32), "shares must be float64"),
    ],
)
def test_array_of_another_shape_or_type_is_refused(instruction_set, name, wrong, message):
    compiled = Forms.random(8, 3, 2).compiled(instruction_set)
    with pytest.raises(ValueError, match=message):
        compiled.scores(**{**GOOD, name: wrong})
    if name != "shares":
        joint, index = ({**GOOD, name: wrong}[key] for key in ("joint", "index"))
        with pytest.raises(ValueError, match=message):
            compiled.values(joint, index)


@each_instruction_set
@pytest.mark.parametrize("wrong", [None, [[0.0] * 5], 1.0, "a"])
def test_what_is_no_array_is_refused(instruction_set, wrong):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        Forms.random(8, 3, 2).compiled(instruction_set).values(wrong, GOOD["index"])


@each_instruction_set
@pytest.mark.parametrize(
    ("position", "shape", "message"),
    [
        (0, (8, 20), r"coefficients must be \(any, 21\), got \(8, 20\)"),
        (0, (168,), "coefficients must be"),
        (1, (3,), r"narrow must be \(2\)"),
        (2, (2, 3), "residuals must be"),
        (2, (2, 6, 6), r"residuals must be \(n_narrow, n_dims, n_dims \+ n_context \+ 1\), got \(2, 6, 6\)"),
        (2, (0, 0, 0), "residuals must be"),
        (2, (0, 0, 2**40), "residuals must be"),
        (2, (3, 3, 6), "linear must be"),
        (3, (2, 5), r"linear must be \(2, 6\)"),
    ],
)
def test_forms_that_do_not_belong_together_are_refused(instruction_set, position, shape, message):
    arguments = Forms.random(8, 3, 2, 2).arguments()
    arguments[position] = np.zeros(shape, arguments[position].dtype)
    with pytest.raises(ValueError, match=message):
        compiled_for(instruction_set).SelectedForms(*arguments)


def test_threads_get_the_answers_of_one():
    forms = Forms.random(50, 4, 2, 5)
    compiled = forms.compiled("baseline")
    joint, index = forms.points(2000), index_of(forms, 2000, 8)
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: compiled.values(joint, index), range(16)))
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_the_variable_chooses_the_instruction_set(instruction_set):
    compiled_for(instruction_set)
    code = "from eim_ros.learning.models.native import SelectedForms; print(SelectedForms.__module__)"
    environment = {**os.environ, "EIM_ROS_INSTRUCTION_SET": instruction_set}
    found = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert found.stdout.strip().endswith(f"_quadratic_forms_{instruction_set}")
