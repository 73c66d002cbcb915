"""Adam against PyTorch."""

import subprocess
import sys

import torch

from eim_ros.learning.ratio.network import Adam


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


def test_learning_does_not_import_the_compiler_of_pytorch():
    code = (
        "import sys, torch; from eim_ros.learning import EIM; "
        "EIM(n_components=1, n_iterations=1, **{'ratio.estimator': 'network'}).fit(torch.randn(50, 1)); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
