"""`python -m experiments`: each experiment runs, prints its table, writes its rows and draws its figures."""

import json

import pytest
from matplotlib.figure import Figure
from studies.test_traffic_data import drive, write

from experiments.__main__ import main
from experiments.harness import EXPERIMENTS
from experiments.table import ResultTable

SMALL = {
    "adversarial": "n_dims=2 n_components=2 methods=EIM,GAN n_samples=200 n_iterations=1 n_steps=1 n_test_samples=100",
    "gmmvi": "targets=gmm20,stm20,banana long=banana algorithms=samtron,SEPYFUX budget=0.02 n_test_samples=100",
    "kinematics": "n_components=2 n_samples=200 n_validation=50 n_test=50 em_iterations=2 ours.n_iterations=1 "
    "ours.hidden_layers=4",
    "line-reaching": "n_components=1 n_samples=150 n_validation=50 n_test=50 n_iterations=1 n_links=3 line_x=2.0 "
    "line_height=1.0",
    "nonlinear": "n_samples=100 n_iterations=1 em_iterations=1 start_iterations=1 ratios=plug-in parameter_layers=4 "
    "targets=spread",
    "obstacle": "n_samples=150 n_iterations=1 n_links=3 goal_x=2.0 disc_x=1.0 disc_radius=0.3",
    "projections": "n_samples=200 n_iterations=3 n_sweeps=3",
    "robustness": "n_starts=2 ours.n_iterations=2 em_iterations=5 n_samples=200",
    "traffic": "n_components=2 n_samples=200 n_test=50 n_iterations=1 em_iterations=2 hidden_layers=4",
}  # settings that make each experiment short


def test_every_experiment_is_tried():
    assert SMALL.keys() == EXPERIMENTS.keys()


@pytest.mark.parametrize("name", SMALL)
def test_experiment_ends_with_table_and_figures_and_a_second_run_with_the_same(name, tmp_path, capsys, monkeypatch):
    command = [name, "--quick", "--output", str(tmp_path / "new"), "--json"]
    command += [f"--set={setting}" for setting in SMALL[name].split()]
    assert main(command) == 0
    first = capsys.readouterr()
    assert first.out.splitlines()[0].startswith(f"{name} --quick: it ")
    figures = json.loads(first.out.splitlines()[-1])
    table = ResultTable.read(tmp_path / "new" / name / "table.csv")
    assert figures["table"] == str(tmp_path / "new" / name / "table.csv")
    assert figures["rows"] == len(table.rows) > 0
    for path in figures["figures"]:
        assert f"figure: {path}" in first.out
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
    assert f"{len(table.rows)}/{len(table.rows)}" in first.err
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"picture"))  # saves half of the time
    assert main([*command, "--quiet"]) == 0
    assert capsys.readouterr() == (first.out, "")  # the second run reads the table


def test_recording_of_traffic_that_is_none_is_refused_in_one_line_without_a_table(tmp_path, capsys):
    path = write(tmp_path / "a.csv", drive(1, 200, length=4.6))
    assert main(["traffic", "--quiet", "--set", f"ngsim={path}", "--output", str(tmp_path)]) == 3
    error = capsys.readouterr().err
    assert "NGSIM uses feet" in error and error.count("\n") == 1
    assert not list(tmp_path.rglob("table.csv"))
