"""`eim evaluate`: the fields of its JSON, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command import Command

FIELDS = {
    "rmse_position", "median_position", "share_in_limits", "entropy_marginal", "entropy_conditional", "mean_log_prob",
}  # fmt: skip
QUANTILES = {f"quantile_{q}_position" for q in ("05", "25", "75", "95")}


def collected(eim: Command, path: Path, *words: object) -> Path:
    assert eim("collect", "--samples", 40, "--seed", 9, "--output", path, *words).code == 0
    return path


def test_json_has_the_figures_of_the_table(eim: Command, model: Path, tmp_path: Path) -> None:
    outcome = eim(
        "evaluate", "--model", model, "--data", collected(eim, tmp_path / "t", "--robot", "planar3"), "--json"
    )
    assert (outcome.code, outcome.err) == (0, "")
    figures = outcome.json
    assert set(figures) == FIELDS | QUANTILES
    assert 0.0 < figures["median_position"] < figures["rmse_position"] < 6.0
    assert all(0.0 <= figures[name] <= 1.0 for name in ("share_in_limits", "entropy_marginal", "entropy_conditional"))


def test_table_without_json(eim: Command, model: Path, data: Path) -> None:
    outcome = eim("evaluate", "--model", model, "--data", data)
    rows = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert set(rows) == FIELDS | QUANTILES
    assert rows["rmse_position"].endswith(" m")
    assert rows["mean_log_prob"].endswith(" nat")
    assert rows["share_in_limits"].replace(".", "").isdigit()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--robot", "planar5"), "is of robot 'planar5'"),
        (("--robot", "planar3", "--context", "pose"), "collect data with --context position"),
    ],
)
def test_data_that_do_not_fit_are_one_line(eim: Command, model: Path, tmp_path: Path, words, reason: str) -> None:
    eim("evaluate", "--model", model, "--data", collected(eim, tmp_path / "t.npz", *words)).refused(reason)
