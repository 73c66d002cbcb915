"""A run completes its table after any interruption, on any number of workers. Each pair of rows counts once."""

import os
import random
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from studies.toy_experiment import TOY, ToySettings

from eim_ros.core.errors import ConfigurationError, DataError, ServiceError
from eim_ros.core.parallel import DaskWorkers
from experiments.harness import TABLE_NAME, Outcome, Pairs, paired, pairs_in_words, run_experiment
from experiments.table import Header, ResultTable

SETTINGS = ToySettings()
SEEDS = (0, 1)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return run_experiment(TOY, SETTINGS, SEEDS, tmp_path_factory.mktemp("unbroken"))


def test_every_cell_has_a_row_for_every_seed_in_order(unbroken):
    found = [(row["count"], row["method"], row["seed"]) for row in unbroken.rows]
    assert found == [(count, method, seed) for count in (1, 2, 3) for method in ("mean", "largest") for seed in SEEDS]
    assert {row["eim_ros"] for row in unbroken.rows} == {unbroken.header.versions["eim_ros"]}


def test_killed_run_goes_on_to_the_table_of_an_unbroken_one(unbroken, tmp_path):
    victim = random.Random(20).choice(unbroken.rows[1:])
    code = (
        "import pathlib, sys\n"
        "from studies.toy_experiment import TOY, ToySettings\n"
        "from experiments.harness import run_experiment\n"
        f"run_experiment(TOY, ToySettings(), {SEEDS}, pathlib.Path(sys.argv[1]))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TOY_KILLED_AT": f"{victim['method']} {victim['count']} {victim['seed']}",
    }
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    saved = ResultTable.read(tmp_path / TABLE_NAME).rows
    assert 0 < len(saved) < len(unbroken.rows)
    computed = []
    resumed = run_experiment(TOY, SETTINGS, SEEDS, tmp_path, progress=lambda n, total, row: computed.append(row))
    assert len(computed) == 1 + len(unbroken.rows) - len(saved)  # the first progress call has no row
    assert resumed == unbroken
    assert ResultTable.read(tmp_path / TABLE_NAME) == unbroken


def test_complete_table_is_not_computed_again(unbroken, tmp_path):
    def never(settings, cell, seed):
        raise AssertionError((cell, seed))

    run_experiment(TOY, SETTINGS, SEEDS, tmp_path)
    assert run_experiment(replace(TOY, measure=never), SETTINGS, SEEDS, tmp_path) == unbroken


def test_cluster_of_two_workers_gives_the_same_table(unbroken, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "cluster")
    ) as cluster:
        workers = DaskWorkers(cluster.scheduler_address)
        assert run_experiment(TOY, SETTINGS, SEEDS, tmp_path / "results", workers) == unbroken


def test_scheduler_that_does_not_answer_is_named_with_the_cure(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("eim_ros.core.parallel.CONNECTION_SECONDS", 0.2)
    with pytest.raises(
        ServiceError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9: start it with `dask scheduler`"
    ):
        run_experiment(TOY, SETTINGS, SEEDS, tmp_path, DaskWorkers("tcp://127.0.0.1:9"))
    assert not (tmp_path / TABLE_NAME).exists()


def test_results_of_other_settings_are_refused_and_kept(tmp_path):
    run_experiment(TOY, SETTINGS, SEEDS, tmp_path)
    before = (tmp_path / TABLE_NAME).read_bytes()
    with pytest.raises(ConfigurationError, match=r"another run \(scale 1\.0, now 2\.0\); give another --output"):
        run_experiment(TOY, ToySettings(scale=2.0), SEEDS, tmp_path)
    assert (tmp_path / TABLE_NAME).read_bytes() == before


def test_table_with_some_of_the_cells_is_continued(unbroken, tmp_path):
    few = replace(SETTINGS, counts=(2,))
    before = run_experiment(TOY, few, SEEDS, tmp_path)
    computed = []
    after = run_experiment(TOY, SETTINGS, SEEDS, tmp_path, progress=lambda n, total, row: computed.append(row))
    assert after == unbroken
    assert len(computed) == 1 + len(unbroken.rows) - len(before.rows)  # the first progress call has no row
    with pytest.raises(ConfigurationError, match=r"another run \(counts \[1, 2, 3\], now \[2\]\)"):
        run_experiment(TOY, few, SEEDS, tmp_path)


def test_results_of_another_version_are_refused(tmp_path):
    table = run_experiment(TOY, SETTINGS, SEEDS, tmp_path)
    old = {**table.header.versions, "eim_ros": "0.0.1"}
    replace(table, header=replace(table.header, versions=old)).write(tmp_path / TABLE_NAME)
    with pytest.raises(ConfigurationError, match=r"eim_ros '0\.0\.1', now"):
        run_experiment(TOY, SETTINGS, SEEDS, tmp_path)


def test_worker_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.harness.versions", iter([{"a": "1"}, {"a": "2"}]).__next__)
    with pytest.raises(ConfigurationError, match="a worker has the versions"):
        run_experiment(TOY, SETTINGS, SEEDS, tmp_path)


def test_folder_that_another_run_writes_to_is_refused(tmp_path):
    def inner(settings, cell, seed):
        with pytest.raises(ConfigurationError, match="another run is writing"):
            run_experiment(TOY, SETTINGS, SEEDS, tmp_path)
        return Outcome(0.0, {})

    assert len(run_experiment(replace(TOY, measure=inner), SETTINGS, SEEDS, tmp_path).rows) == 12


@pytest.mark.parametrize(
    "content", ["", "a,b\n1,2\n", '# {"schema": 99}\na\n', '# {"schema": 1, "experiment": 3}\na\n']
)
def test_file_that_is_no_table_is_refused_and_kept(tmp_path, content):
    (tmp_path / TABLE_NAME).write_text(content)
    with pytest.raises(DataError, match="cannot read results in"):
        run_experiment(TOY, SETTINGS, SEEDS, tmp_path)
    assert (tmp_path / TABLE_NAME).read_text() == content


def row(method: str, size: int, seed: int, kl: float, way: str = "none") -> dict[str, object]:
    return {"method": method, "size": size, "seed": seed, "kl": kl, "way": way}


TABLE = ResultTable(
    Header("toy", {}, {}),
    (
        row("A", 1, 0, 0.1),
        row("A", 1, 1, 0.5),
        row("A", 2, 0, 0.3),
        row("B", 1, 0, 0.2, "x"),
        row("B", 1, 0, 0.05, "y"),
        row("B", 1, 1, 0.6, "x"),
        row("B", 2, 0, 0.3, "x"),  # equal values do not count
        row("B", 3, 0, 9.0, "x"),  # A has no row for this problem
        row("C", 1, 0, 1.0),
    ),
)


def count(other: str, **more: object) -> Pairs:
    return paired(TABLE, "kl", ("size",), {"method": "A"}, {"method": other, **more})


def test_each_variant_of_the_other_method_is_a_pair_with_the_row_of_its_size_and_seed():
    assert count("B") == Pairs(2, 4)
    assert count("B", way="y") == Pairs(0, 1)


def test_words_tell_each_method_and_all_together_and_leave_out_what_has_no_row():
    lines = pairs_in_words("A", {name: count(name) for name in ("B", "C", "D")})
    assert lines == ["A below B: 2 of 4 pairs", "A below C: 1 of 1 pairs", "A below all of these: 3 of 5 pairs (60%)"]
    assert pairs_in_words("A", {"D": count("D")}) == []
