"""The picture of random starts shows the number of optima below each method, and EM from k-means next to EM."""

import pytest

from experiments.robustness import EXPERIMENT, OPTIMUM, RobustnessConfig, reached_optimum
from experiments.table import Header, ResultTable


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
