"""`eim experiment`: each experiment runs, prints its table and draws its picture."""

import json

import pytest

from eim_ros.cli.main import main

SMALL = {
    "gmmvi": ["--targets", "german-credit-shaped", "--algorithms", "samtron", "--seeds", "1", "--budget", "0.01"],
    "line-reaching": [
        *("--components", "1", "--n-samples", "150", "--n-iterations", "1", "--n-links", "3"),
        *("--line-x", "2.0", "--line-height", "1.0"),
    ],
    "nonlinear": [
        *("--n-samples", "100", "--n-iterations", "1", "--em-iterations", "1", "--start-iterations", "1"),
        *("--ratio", "plug-in", "--parameter-layers", "4", "--targets", "spread"),
    ],
    "obstacle": [
        *("--n-samples", "150", "--n-iterations", "1", "--n-links", "3", "--goal-x", "2.0", "--disc-x", "1.0"),
        *("--disc-radius", "0.3"),
    ],
    "projections": ["--n-samples", "200", "--n-iterations", "3", "--n-sweeps", "3"],
    "robustness": ["--starts", "2", "--n-iterations", "2", "--em-iterations", "5", "--n-samples", "200"],
}


@pytest.mark.parametrize("name", SMALL)
def test_experiment_ends_with_a_picture_and_its_figures(name, tmp_path, capsys):
    path = tmp_path / "new" / f"{name.replace('-', '_')}.png"
    assert main(["experiment", name, "--output", str(path.parent), "--json", *SMALL[name]]) == 0
    *_, said, figures = capsys.readouterr().out.splitlines()
    assert said == f"picture: {path}"
    assert json.loads(figures)["picture"] == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_unknown_experiment_is_refused_in_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["experiment", "nonsense"])
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_bad_setting_is_refused_before_the_work(tmp_path, capsys):
    assert main(["experiment", "robustness", "--output", str(tmp_path), "--starts", "0"]) == 2
    assert "n_starts must be at least 1" in capsys.readouterr().err
