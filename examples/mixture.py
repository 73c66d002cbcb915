"""Fit a mixture in ten lines: EM averages two modes, and EIM selects one of them."""

import torch

from eim_ros import EIM, EM

generator = torch.Generator().manual_seed(0)
side = 4.0 * torch.randint(2, (500, 1), generator=generator) - 2.0
samples = side + 0.5 * torch.randn(500, 2, generator=generator)  # two modes, at (-2, -2) and (2, 2)
for learner in (EM, EIM):
    fit = learner(n_components=1, n_iterations=30, seed=0).fit(samples)
    print(learner.__name__, "one component at", fit.means.numpy().round(1), fit.status.name)
