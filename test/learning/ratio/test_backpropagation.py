"""Gradients of the ratio network against autograd, and Adam against PyTorch."""

import subprocess
import sys

import pytest
import torch

from eim_ros.learning.models.native import masked_silu
from eim_ros.learning.ratio.backpropagation import Adam, Backpropagation, Dropout, _masked_silu
from eim_ros.learning.ratio.network import ratio_network


def network(hidden: tuple[int, ...], dropout: float) -> torch.nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    built = ratio_network(3, hidden, dropout, generator)
    for parameter in built[-1].parameters():  # the last layer starts at zero, which hides the other gradients
        torch.nn.init.uniform_(parameter, -1.0, 1.0, generator=generator)
    return built


def with_generator(built: torch.nn.Sequential) -> torch.nn.Sequential:
    for layer in built:
        if isinstance(layer, Dropout):
            layer.generator = torch.Generator().manual_seed(1)
    return built.train()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("hidden", [(), (20,), (33, 7)])
def test_gradients_are_those_of_autograd(hidden, dropout):
    built = network(hidden, dropout)
    training = Backpropagation(built)
    for n in (100, 40, 7):  # the arrays are allocated again, and the last block of rows is smaller
        inputs = 3.0 * torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
        slope = torch.randn(n, generator=torch.Generator().manual_seed(n + 1))
        expected = with_generator(built)(inputs).squeeze(-1)
        gradients = torch.autograd.grad(expected, list(built.parameters()), slope)
        with_generator(built)
        # float32: sums of up to 100 products of order one
        torch.testing.assert_close(training.outputs(inputs), expected.detach(), rtol=1e-5, atol=1e-5)
        for found, exact in zip(training.gradients(slope), gradients, strict=True):
            torch.testing.assert_close(found, exact, rtol=1e-5, atol=2e-5)


def test_adam_takes_the_steps_of_pytorch():
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(4, 3, generator=generator), torch.randn(2, generator=generator)]
    theirs = [part.clone().requires_grad_() for part in ours]
    adam, reference = Adam(ours, 0.1), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for _ in range(5):
        gradients = [torch.randn(part.shape, generator=generator) for part in ours]
        for part, gradient in zip(theirs, gradients, strict=True):
            part.grad = gradient.clone()
        adam.step(gradients)
        reference.step()
    assert all(torch.equal(part, other) for part, other in zip(ours, theirs, strict=True))


def test_adam_continues_from_its_tensors():
    first, second = Adam([torch.ones(3)], 0.1), Adam([torch.ones(3)], 0.1)
    first.step([torch.tensor([1.0, 2.0, 3.0])])
    second.restore(first.tensors())
    second.parameters[0].copy_(first.parameters[0])
    for adam in (first, second):
        adam.step([torch.ones(3)])
    assert torch.equal(first.parameters[0], second.parameters[0])


def test_compiled_activations_are_those_of_any_device():
    values = torch.cat([torch.linspace(-200.0, 200.0, 330), torch.zeros(3)]).reshape(9, 37)
    masks = torch.rand(3, 37, generator=torch.Generator().manual_seed(0))
    other, slopes, found = values.clone(), torch.empty_like(values), torch.empty_like(values)
    masked_silu(values.numpy(), found.numpy(), masks.numpy(), 4)
    _masked_silu(other, slopes, masks, 4)
    torch.testing.assert_close(values, other, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, slopes, rtol=1e-5, atol=1e-5)  # z s (1 - s) with z up to 200


def test_learning_does_not_import_the_compiler_of_pytorch():
    code = (
        "import sys, torch; from eim_ros.learning import EIM; "
        "EIM(n_components=1, n_iterations=1, **{'ratio.estimator': 'network'}).fit(torch.randn(50, 1)); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
