"""`python -m experiments report` needs only tables, is reproducible, lists missing tables, and refuses bad tables."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.__main__ import main
from experiments.harness import EXPERIMENTS
from experiments.obstacle import EXPERIMENT
from experiments.report import OUTPUT, PAGE, TABLES
from experiments.table import Header, ResultTable

ROOT = Path(__file__).resolve().parents[2]
ARM = [[0.1] * 10, [0.2] * 10]
VERSIONS = {"eim_ros": "0.1.0", "torch": "2.0"}


def obstacle_table(folder: Path, quick: bool, seeds=(0,), **changed) -> Path:
    """Write an invented table in which EIM solves the task and EM does not, and return its path."""
    settings = type(EXPERIMENT.preset().settings).from_mapping(
        {**EXPERIMENT.preset(quick).settings.to_mapping(), **changed}
    )
    rows = [
        {
            **cell,
            "seed": seed,
            "collisions": 0.7 if cell["method"] == "EM" else 0.01,
            "distance": 2.0 if cell["method"] == "EM" else 0.02,
            "above": 0.5 if cell["method"] == "EM" else 1.0,
            "samples": ARM,
            "cpu_seconds": 6.0,
        }
        for cell in EXPERIMENT.cells(settings)
        for seed in seeds
    ]
    path = folder / "obstacle" / "table.csv"
    ResultTable(Header("obstacle", settings.to_mapping(), VERSIONS), tuple(rows)).write(path)
    return path


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not draw pictures, because they take most of the time of a report."""
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"picture"))


quick = pytest.mark.usefixtures("without_pictures")


def made(tables: Path, output: Path) -> str:
    assert main(["report", "--tables", str(tables), "--output", str(output)]) == 0
    return "\n".join((output / page).read_text(encoding="utf-8") for page in ("index.md", "obstacle.md"))


def test_report_has_claims_setting_seeds_versions_time_and_figures_and_is_the_same_twice(tmp_path):
    obstacle_table(tmp_path / "tables", quick=False, seeds=(0, 1))
    text = made(tmp_path / "tables", tmp_path / "report")
    others = "EIM (classifier): 2 of 2; EIM (plug-in + network): 2 of 2; EIM (plug-in): 2 of 2"
    assert f"| [obstacle](obstacle.md) | FULL | 2 | 2 of 2 | {others} |" in text
    assert "**Setting: FULL**, seeds 0, 1: [20 rows](../tables/obstacle/table.csv), 2.0 minutes of CPU time." in text
    assert "Versions: eim_ros 0.1.0, torch 2.0." in text
    measured = "1.0% of EIM's samples collide, and their mean distance to the point is 0.02 m (EM 70.0%, 2.00 m)"
    assert "| EIM, thesis (classifier) | all settings (thesis: not given) | 2 |" in text
    assert "| share of samples that collide: start → result |" in text
    assert "| EM | 0.7 |" in text
    assert "| EIM (plug-in) | 0.01 → 0.01 |" in text
    assert "| EIM, thesis (classifier) | 0.01 → 0.01 |" in text
    assert "| EIM (classifier) | all settings (thesis: not given) | 2 |" in text
    assert "| EIM (plug-in) | as EIM (classifier); a plug-in density instead of the classifier | 2 |" in text
    assert f"| EIM (classifier) | {measured} | yes |" in text
    assert f"| EIM (plug-in) | {measured} | yes |" in text
    assert "![obstacle](obstacle/obstacle.png)" in text
    first = {path: path.read_bytes() for path in (tmp_path / "report").rglob("*.*")}
    assert len(first) == 2 + len(EXPERIMENTS)  # overview, pages, and one figure
    made(tmp_path / "tables", tmp_path / "report")
    assert {path: path.read_bytes() for path in (tmp_path / "report").rglob("*.*")} == first


@quick
def test_no_is_explained_where_it_is_said(tmp_path):
    path = obstacle_table(tmp_path, quick=False)
    table = ResultTable.read(path)
    table.with_rows(
        {**row, "collisions": 0.4} if row["method"] == "EIM" and row["estimator"] == "network" else row
        for row in table.rows
    ).write(path)
    text = made(tmp_path, tmp_path / "report")
    assert "| **no**: 40.0% of EIM's samples collide |" in text
    assert text.count("**no**") == 1
    claim = "The Gaussian of highest likelihood averages over both routes, misses the point and hits the disc"
    conclusion = text.partition("# obstacle\n")[2].partition("|")[0]  # text before the tables
    assert "**7 of 8 checks agree with the thesis**" in conclusion
    assert f"- Not confirmed: {claim}" in conclusion
    assert "EIM (classifier): 40.0% of EIM's samples collide." in conclusion
    assert "| [obstacle](obstacle.md) | FULL | 1 | 2 of 2 | EIM (classifier): 1 of 2;" in text


@quick
def test_quick_selected_and_changed_settings_are_said(tmp_path):
    obstacle_table(tmp_path, quick=True)
    text = made(tmp_path, tmp_path / "report")
    assert "**Setting: QUICK**" in text
    assert "| EIM (classifier) | QUICK settings | 1 |" in text
    obstacle_table(tmp_path, quick=False, n_components=3)
    text = made(tmp_path, tmp_path / "report")
    assert "**Setting: OTHER**" in text
    assert "Differences from the full setting: n_components 3 (full: 1)." in text
    obstacle_table(tmp_path, quick=False, ratios=("plug-in",))
    text = made(tmp_path, tmp_path / "report")
    assert "**Setting: FULL**" in text
    assert "Differences from the full setting: ratios without" in text
    assert "EIM (classifier) |" not in text
    obstacle_table(tmp_path, quick=False, ratios=("plug-in",), n_components=3)
    assert "**Setting: OTHER**" in made(tmp_path, tmp_path / "report")


def test_missing_table_is_said_with_the_claims_it_would_tell_about(tmp_path, capsys):
    text = made(tmp_path / "nothing", tmp_path / "report")
    assert "| [obstacle](obstacle.md) | not run | | | |" in text
    assert "- EIM's Gaussian takes one route and ignores the other. (figure 1.1)" in text
    assert "not run: adversarial" in capsys.readouterr().out
    assert main(["report", "--tables", str(tmp_path), "--output", str(tmp_path / "report"), "--json"]) == 0
    assert "obstacle" in json.loads(capsys.readouterr().out)["missing"]


@quick
def test_seeds_without_all_rows_of_a_setup_are_not_counted_for_it(tmp_path):
    path = obstacle_table(tmp_path, quick=False, seeds=(0, 1))
    table = ResultTable.read(path)
    kept = [row for row in table.rows if (row["estimator"], row["seed"]) != ("network", 1)]
    table.with_rows(kept).write(path)
    text = made(tmp_path, tmp_path / "report")
    assert "| [obstacle](obstacle.md) | FULL | 1 to 2 |" in text
    assert "seeds 0, 1: [16 rows]" in text
    assert "| EIM (classifier) | all settings (thesis: not given) | 1 |" in text
    assert "| EIM (plug-in) | as EIM (classifier); a plug-in density instead of the classifier | 2 |" in text
    table.with_rows(row for row in kept if row["estimator"] != "network").write(path)
    text = made(tmp_path, tmp_path / "report")
    assert "| EIM (classifier) | all settings (thesis: not given) | 0 |" in text
    assert "undecided" not in text


def test_rows_that_all_are_compared_with_must_be_there(tmp_path):
    path = obstacle_table(tmp_path, quick=False)
    table = ResultTable.read(path)
    table.with_rows(row for row in table.rows if row["method"] != "EM").write(path)
    text = made(tmp_path, tmp_path / "report")
    assert "| [obstacle](obstacle.md) | not run | | | |" in text
    assert not list((tmp_path / "report").rglob("*.png"))
    table.with_rows(()).write(path)
    assert "| [obstacle](obstacle.md) | not run | | | |" in made(tmp_path, tmp_path / "report2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "cannot read results in"),
        ('# {"schema": 1, "experiment": "traffic", "settings": {}, "versions": {}}\nseed\n0\n', "results of traffic"),
        ('# {"schema": 1, "experiment": "obstacle", "settings": {"n_limbs": 3}, "versions": {}}\nseed\n0\n', "version"),
    ],
)
def test_broken_table_is_refused_and_nothing_is_written(tmp_path, capsys, content, message):
    path = tmp_path / "obstacle" / "table.csv"
    path.parent.mkdir()
    path.write_text(content)
    code = main(["report", "--tables", str(tmp_path), "--output", str(tmp_path / "report")])
    assert code == (3 if content == "nonsense" else 2)  # damaged file or unknown settings
    error = capsys.readouterr().err
    assert message in error and str(path) in error and error.count("\n") == 1
    assert not list((tmp_path / "report").iterdir())


@quick
def test_committed_report_is_that_of_the_committed_tables(tmp_path, monkeypatch):
    """Only text is compared, because figures depend on fonts. `make report` updates the report."""
    (tmp_path / TABLES).parent.mkdir(parents=True)
    (tmp_path / TABLES).symlink_to(ROOT / TABLES)
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 0
    pages = [path.name for path in Path(OUTPUT).glob("*.md")]
    assert sorted(pages) == sorted([PAGE, *(f"{name}.md" for name in EXPERIMENTS)])
    for page in pages:
        assert Path(OUTPUT, page).read_text(encoding="utf-8") == (ROOT / OUTPUT / page).read_text(encoding="utf-8")
