"""In the experiment with one nonlinear expert, targets follow the thesis, and figures describe the fitted models."""

import dataclasses
import math

import pytest
import torch
from scipy.stats import norm

from experiments.nonlinear import COURSE, EXPERIMENT, TARGETS, NonlinearConfig

CONFIG = NonlinearConfig(
    n_samples=100, n_iterations=2, em_iterations=1, start_iterations=1, ratios=("plug-in",), parameter_layers=(4,)
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


def test_course_records_samples_and_weights_and_does_not_change_the_run():
    config = dataclasses.replace(FEW, targets=("sine",), ratios=("network",), hidden_layers=(8,), course_iterations=3)
    (cell,) = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == COURSE]
    figures = EXPERIMENT.measure(config, cell, 0).figures
    assert [record["iteration"] for record in figures["course"]] == [1, 3]
    for record in figures["course"]:
        assert len(record["contexts"]) == len(record["samples"]) == len(record["weights"]) == 600
        assert sum(record["weights"]) == pytest.approx(600.0, abs=0.5)  # three decimals
        assert len(record["mean"]) == len(record["deviation"]) == 201
    few = dataclasses.replace(config, course_iterations=1)
    assert EXPERIMENT.measure(few, cell, 0).figures["course"] == figures["course"][:1]
