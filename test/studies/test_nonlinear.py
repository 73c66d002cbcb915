"""Experiment with one nonlinear expert: targets are as in the thesis, and figures describe the fitted models."""

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


def test_figures_are_reported_for_every_target_and_learner():
    cells = EXPERIMENT.cells(CONFIG)
    assert [(cell["target"], cell["method"]) for cell in cells] == [(t, m) for t in TARGETS for m in ("EM", "EIM")]
    for cell in cells:
        figures = EXPERIMENT.measure(CONFIG, cell, 1).figures
        assert math.isfinite(figures["kl"]) and figures["kl_error"] > 0.0
        assert 0.0 <= figures["near"] <= 1.0
        assert 0.5 <= figures["on_one_mode"] <= 1.0
        assert cell["target"] != "sine" or figures["on_one_mode"] == 1.0  # there is but one
        assert len(figures["mean"]) == len(figures["deviation"]) == 201
        assert min(figures["deviation"]) > 0.0


def test_seed_alone_decides():
    for cell in EXPERIMENT.cells(FEW):
        first, second = (EXPERIMENT.measure(FEW, cell, 2) for _ in range(2))
        assert first.figures == second.figures


def test_course_records_samples_and_weights_and_does_not_change_the_run():
    config = dataclasses.replace(FEW, targets=("sine",), ratios=("network",), hidden_layers=(8,), course_iterations=3)
    (cell,) = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == COURSE]
    figures = EXPERIMENT.measure(config, cell, 0).figures
    assert [record["iteration"] for record in figures["course"]] == [1, 3]
    for record in figures["course"]:
        assert len(record["contexts"]) == len(record["samples"]) == len(record["weights"]) == 600
        assert sum(record["weights"]) == pytest.approx(600.0, abs=0.5)  # rounded to a thousandth
        assert len(record["mean"]) == len(record["deviation"]) == 201
    few = dataclasses.replace(config, course_iterations=1)
    assert EXPERIMENT.measure(few, cell, 0).figures["course"] == figures["course"][:1]
