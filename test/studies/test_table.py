"""A table is unchanged after writing and reading, and lists means with standard errors."""

import math

import pytest

from eim_ros.core.errors import DataError
from experiments.table import Header, ResultTable, mean_and_error, summary, versions

ROWS = (
    {"method": "EM", "n": 1, "seed": 0, "kl": 0.1 + 0.2, "drawn": [[1.5, -2e-17], [0.0, 1.0]], "torch": "2.1.0"},
    {"method": "EM", "n": 1, "seed": 1, "kl": 0.5, "parts": {"a": [1.0]}, "torch": "2.1.0"},
    {"method": 'E"I,M', "n": 2, "seed": 0, "kl": math.inf, "torch": "2.1.0"},
)
TABLE = ResultTable(Header("toy", {"n": [1, 2], "scale": 1e-3}, versions()), ROWS)


def test_written_table_is_read_as_it_was(tmp_path):
    TABLE.write(tmp_path / "table.csv")
    assert ResultTable.read(tmp_path / "table.csv") == TABLE


def test_line_that_was_cut_off_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    TABLE.write(path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match="line 5 does not have as many columns"):
        ResultTable.read(path)


def test_rows_are_found_by_their_values():
    assert TABLE.values("seed", method="EM") == [0, 1]
    assert TABLE.distinct("method") == ["EM", 'E"I,M']


def test_standard_error_is_that_of_the_mean():
    mean, error = mean_and_error([{"kl": 1.0}, {"kl": 3.0}, {"other": 5.0}], "kl")
    assert mean == 2.0
    assert error == pytest.approx(1.0)  # sqrt(2) / sqrt(2) for two values
    assert math.isnan(mean_and_error([{"kl": 1.0}], "kl")[1])


def test_summary_has_a_line_for_each_cell_and_no_lists():
    head, first, second = summary(TABLE, ["method", "n"])
    assert head.split() == ["method", "n", "seeds", "kl"]
    assert first.split() == ["EM", "1", "2", "0.4", "+-", "0.1"]
    assert second.split() == ['E"I,M', "2", "1", "inf"]
