"""Experiment with one nonlinear expert: targets are the thesis' ones, figures are those of the fitted models."""

import dataclasses
import math

import pytest
import torch
from scipy.stats import norm

from eim_ros.experiments.nonlinear import TARGETS, NonlinearConfig, fit_nonlinear

CONFIG = NonlinearConfig(
    n_samples=100, n_iterations=2, em_iterations=1, start_iterations=1, ratio="plug-in", parameter_layers=(4,)
)
FEW = dataclasses.replace(CONFIG, targets=("modes",), n_iterations=1)


@pytest.mark.parametrize("name", TARGETS)
def test_density_is_that_of_the_thesis(name):
    y, x = torch.tensor([-0.9, -0.2, 0.3, 1.0]).double(), torch.tensor([0.4, -0.1, 0.8, -1.2]).double()
    wave = torch.sin(2.5 * math.pi * y)
    modes = {"sine": [wave], "modes": [y * wave + 0.7, -y * wave - 0.7], "spread": [0.0 * y]}[name]
    deviation = (y + 1.0) ** 2 + 0.05 if name == "spread" else torch.full_like(y, 0.1)
    expected = sum(norm(mode.numpy(), deviation.numpy()).pdf(x.numpy()) for mode in modes) / len(modes)
    found = TARGETS[name](y.unsqueeze(-1)).log_prob(x.unsqueeze(-1))
    torch.testing.assert_close(found, torch.from_numpy(expected).log(), rtol=1e-10, atol=1e-10)


def test_fits_are_reported_for_every_target_and_learner():
    seen = []
    result = fit_nonlinear(CONFIG, seed=1, progress=lambda name, fits: seen.append(name))
    assert seen == list(TARGETS) == list(result.fits)
    for name, fits in result.fits.items():
        assert result.data[name][0].shape == result.data[name][1].shape == (100, 1)
        for learner in ("EM", "EIM"):
            value, error = fits.kl[learner]
            assert math.isfinite(value) and error > 0.0
            assert 0.0 <= fits.near[learner] <= 1.0
            assert 0.5 <= fits.on_one_mode[learner] <= 1.0
    assert result.fits["sine"].on_one_mode == {"EM": 1.0, "EIM": 1.0}  # there is but one


def test_seed_alone_decides():
    first, second = (fit_nonlinear(FEW, seed=2) for _ in range(2))
    assert [fits.kl for fits in first.fits.values()] == [fits.kl for fits in second.fits.values()]
