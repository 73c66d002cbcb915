"""Compiled sums over tables of probabilities agree with PyTorch."""

import numpy as np
import pytest
import torch
from learning.models.native.forms import compiled_for, each_instruction_set


def table(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=shape)


@each_instruction_set
@pytest.mark.parametrize(("n", "p", "k"), [(1, 1, 1), (30, 3, 5), (20, 2, 8), (10, 8, 50)])
@pytest.mark.parametrize("scale", [1.0, 300.0])  # with large parameters most probabilities are zero
def test_lagrangian_and_its_gradient_are_those_of_autograd(instruction_set, n, p, k, scale):
    design, parameters, fixed = table(0, n, p), table(1, k, p, scale=scale), table(2, n, k)
    value, gradient = compiled_for(instruction_set).softmax_lagrangian(design, parameters, fixed, 0.7)
    leaf = torch.from_numpy(parameters).requires_grad_()
    log_probs = torch.log_softmax(torch.from_numpy(design) @ leaf.T, -1)
    expected = (log_probs.exp() * (torch.from_numpy(fixed) - 0.7 * log_probs)).sum(-1).mean()
    (slope,) = torch.autograd.grad(expected, leaf)
    assert value == pytest.approx(float(expected.detach()), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(gradient, slope.numpy(), rtol=1e-10, atol=1e-12)


@each_instruction_set
@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 50), (30, 7)])
def test_moments_are_those_of_the_table(instruction_set, n, k):
    old, reward = torch.log_softmax(torch.from_numpy(table(0, n, k, scale=3.0)), -1).numpy(), table(1, n, k, scale=9.0)
    a, s = 2.0, 3.0
    found = compiled_for(instruction_set).tilted_moments(old, reward, a, s)
    value = (a * old + reward) / s
    q = torch.softmax(torch.from_numpy(value), -1).numpy()
    centred = [part - (q * part).sum(-1, keepdims=True) for part in (value, old)]
    sums = [-(q * np.log(q)), -q * old, q * centred[0] ** 2, q * centred[0] * centred[1], q * centred[1] ** 2]
    np.testing.assert_allclose(found, [part.sum(-1).mean() for part in sums], rtol=1e-11, atol=1e-12)


@each_instruction_set
def test_numbers_that_are_not_finite_stay_so(instruction_set):
    module = compiled_for(instruction_set)
    parameters = np.array([[np.nan], [1.0]])
    assert np.isnan(module.softmax_lagrangian(np.ones((2, 1)), parameters, np.ones((2, 2)), 1.0)[0])
    assert np.isnan(module.tilted_moments(np.zeros((1, 2)), np.array([[np.inf, 0.0]]), 1.0, 1.0)[0])


@each_instruction_set
def test_arrays_that_do_not_belong_together_are_refused(instruction_set):
    module = compiled_for(instruction_set)
    with pytest.raises(ValueError, match=r"fixed must be \(4, 3\)"):
        module.softmax_lagrangian(np.ones((4, 2)), np.ones((3, 2)), np.ones((4, 2)), 1.0)
    with pytest.raises(ValueError, match=r"reward must be \(4, 2\)"):
        module.tilted_moments(np.ones((4, 2)), np.ones((4, 3)), 1.0, 1.0)
    with pytest.raises(ValueError, match="must have rows"):
        module.tilted_moments(np.ones((0, 2)), np.ones((0, 2)), 1.0, 1.0)
