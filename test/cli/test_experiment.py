"""`eim experiment`: each experiment runs, prints its table and draws its picture."""

import pytest

from eim_ros.cli.main import main

SMALL = {
    "robustness": ["--starts", "2", "--n-iterations", "2", "--em-iterations", "5", "--n-samples", "200"],
}


@pytest.mark.parametrize("name", SMALL)
def test_experiment_ends_with_a_picture(name, tmp_path, capsys):
    assert main(["experiment", name, "--output", str(tmp_path / "new"), *SMALL[name]]) == 0
    assert f"picture: {tmp_path / 'new' / name}.png" in capsys.readouterr().out
    assert (tmp_path / "new" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_experiment_is_refused_in_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["experiment", "nonsense"])
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_bad_setting_is_refused_before_the_work(tmp_path, capsys):
    assert main(["experiment", "robustness", "--output", str(tmp_path), "--starts", "0"]) == 2
    assert "n_starts must be at least 1" in capsys.readouterr().err
