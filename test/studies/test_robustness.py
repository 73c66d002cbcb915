"""With random starts on a sine, both learners start from the same model. EM from the half waves follows the sine."""

import pytest
import torch

from experiments.pictures import OURS
from experiments.robustness import (
    EXPERIMENT,
    K_MEANS,
    OPTIMUM,
    FitConfig,
    RobustnessConfig,
    random_start,
    reached_optimum,
    sine_samples,
)
from experiments.table import Header, ResultTable

FIT = FitConfig(n_validation=100, n_iterations=0)
CONFIG = RobustnessConfig(n_starts=2, n_samples=500, em_iterations=50, ratios=("plug-in",), thesis=FIT, ours=FIT)


def figures(method, start, config=CONFIG, seed=0):
    (cell,) = [c for c in EXPERIMENT.cells(config) if c["method"] == method and c["start"] == start]
    return EXPERIMENT.measure(config, cell, seed).figures


def test_eim_without_iterations_is_the_random_start():
    generator = torch.Generator().manual_seed(0)
    train, test = (sine_samples(500, 0.1, generator) for _ in range(2))
    start = random_start(*train, 5, generator.manual_seed(1))
    expected = float(start.log_prob(*test).mean())
    for method in ("EIM", OURS):
        assert figures(method, 1)["log_likelihood"] == pytest.approx(expected, abs=1e-12)


def test_em_from_the_half_waves_is_near_the_noises_own_likelihood():
    # The noise alone would give 0.9 nat, but lines miss the maxima of the sine by up to 0.2.
    found = figures(OPTIMUM, 0)["log_likelihood"]
    assert 0.4 < found < 0.9
    assert figures("EM", 0)["log_likelihood"] < found


def test_em_from_k_means_has_a_start_of_its_own_for_each_row():
    assert figures(K_MEANS, 0) != figures(K_MEANS, 1)
    assert figures(K_MEANS, 0)["log_likelihood"] <= figures(OPTIMUM, 0)["log_likelihood"] + 0.05


@pytest.fixture
def table() -> ResultTable:
    rows = []
    for cell in EXPERIMENT.cells(RobustnessConfig(n_starts=4)):
        value = 0.6 if cell["method"] == OPTIMUM else 0.5 - 0.2 * cell["start"]
        drawn = {"contexts": [0.0, 0.5], "samples": [1.0, -1.0], "components": [0, 4]}
        rows.append({**cell, "seed": 0, "log_likelihood": value, **drawn})
    return ResultTable(Header("robustness", {}, {}), tuple(rows))


def test_starts_within_a_quarter_nat_of_the_optimum_have_reached_it(table):
    assert [reached_optimum(table, row) for row in table.where(method="EM")] == [True, False, False, False]
    assert "1 of 4  0.200   0.100  -0.100" in EXPERIMENT.report(table)[2]
