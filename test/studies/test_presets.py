"""Each experiment has a file of presets. Its full settings are the defaults that --help lists."""

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning import EIMConfig
from experiments.harness import EXPERIMENTS, PRESETS, Experiment, experiment_module

NAMED = pytest.mark.parametrize("name", EXPERIMENTS)


def experiment(name) -> Experiment:
    return experiment_module(name).EXPERIMENT


@NAMED
def test_full_settings_are_the_defaults(name):
    assert experiment(name).preset().settings == experiment(name).settings_type()


@NAMED
def test_quick_settings_have_fewer_rows_and_one_seed(name):
    full, quick = (experiment(name).preset(quick) for quick in (False, True))
    rows = [len(experiment(name).cells(preset.settings)) * preset.n_seeds for preset in (full, quick)]
    assert rows[1] <= rows[0]
    assert quick.n_seeds == 1


@NAMED
def test_quick_run_has_a_note_of_what_it_cannot_show(name):
    full, quick = (experiment(name).preset(quick) for quick in (False, True))
    assert full.note == ""
    assert "\n" not in quick.note
    is_smaller = quick.settings != full.settings
    assert ("cannot show" in quick.note or "cannot rank" in quick.note) == is_smaller
    assert "it shows that" in quick.note or not is_smaller


@NAMED
def test_cells_are_told_apart_and_name_their_method_and_estimator(name):
    cells = experiment(name).cells(experiment(name).settings_type())
    assert len({tuple(cell.items()) for cell in cells}) == len(cells)
    assert {tuple(cell) for cell in cells} == {tuple(cells[0])}
    assert "estimator" in cells[0]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("line-reaching", {"n_samples": 10_000, "n_validation": 5000, "n_test": 5000}),
        ("line-reaching", {"kl_bound": 0.005, "weights_kl_bound": 0.005}),
        ("line-reaching", {"entropy_loss_bound": 0.05, "weights_entropy_loss_bound": 0.05}),
        ("line-reaching", {"hidden_layers": [100, 100], "dropout": 0.0}),
        ("robustness", {"n_samples": 5000, "thesis.n_validation": 5000, "thesis.kl_bound": 0.005}),
        ("robustness", {"thesis.gating_kl_bound": 0.005, "thesis.entropy_loss_bound": 0.05}),
        ("robustness", {"thesis.gating_entropy_loss_bound": 0.05, "hidden_layers": [150] * 3, "dropout": 0.1}),
        ("kinematics", {"n_samples": 10_000, "n_validation": 5000, "n_test": 5000, "thesis.kl_bound": 0.005}),
        ("kinematics", {"thesis.gating_kl_bound": 0.005, "thesis.entropy_loss_bound": 0.01}),
        ("kinematics", {"thesis.gating_entropy_loss_bound": 0.1, "thesis.dropout": 0.1, "thesis.smoothing": 0.0}),
        ("kinematics", {"thesis.hidden_layers": [400] * 3}),
    ],
)
def test_settings_of_the_thesis_are_those_of_its_tables(name, settings):
    default = experiment(name).settings_type()
    assert default.replace(**settings) == default


@pytest.mark.parametrize("name", ["adversarial", "kinematics", "line-reaching", "nonlinear", "obstacle", "robustness"])
def test_classifier_and_plug_in_are_both_run(name):
    cells = experiment(name).cells(experiment(name).settings_type())
    assert {"method": "EIM", "estimator": "network"}.items() <= {
        item for cell in cells if cell["method"] == "EIM" and cell["estimator"] == "network" for item in cell.items()
    }
    assert "plug-in" in {cell["estimator"] for cell in cells if str(cell["method"]).startswith("EIM")}


@pytest.mark.parametrize("name", ["adversarial", "line-reaching", "nonlinear", "obstacle", "robustness", "traffic"])
def test_default_estimator_of_the_package_is_run(name):
    cells = experiment(name).cells(experiment(name).settings_type())
    assert EIMConfig().ratio.estimator in {cell["estimator"] for cell in cells}


def test_every_file_is_of_an_experiment():
    found = {path.stem for path in PRESETS.iterdir()}
    assert found == {name.replace("-", "_") for name in EXPERIMENTS}


def test_unknown_part_of_a_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "obstacle.yaml"
    path.write_text("seeds: 3\nfast: {}\n")
    monkeypatch.setattr("experiments.harness.PRESETS", tmp_path)
    with pytest.raises(ConfigurationError, match="unknown keys: fast"):
        experiment("obstacle").preset()


@NAMED
def test_departures_from_the_thesis_are_lines_of_text(name):
    departures = experiment(name).preset().departures
    assert all(text and "\n" not in text and not text.endswith(".") for texts in departures.values() for text in texts)
    assert departures or name in ("gmmvi", "projections")


@NAMED
def test_departures_are_of_rows_that_exist(name):
    cells = experiment(name).cells(experiment(name).settings_type())
    known = {"all"} | {cell.get("method") for cell in cells} | {cell["estimator"] for cell in cells}
    assert set(experiment(name).preset().departures) <= known


@NAMED
def test_each_row_of_eim_belongs_to_one_setup(name):
    setups = getattr(experiment_module(name), "SETUPS", ())
    cells = experiment(name).cells(experiment(name).settings_type())
    for cell in cells:
        owners = [one for one in setups if one.owns(cell)]
        assert len(owners) <= 1
        assert owners or name == "gmmvi" or not str(cell.get("method")).startswith("EIM")
    assert all(any(one.owns(cell) for cell in cells) for one in setups)
