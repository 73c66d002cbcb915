"""EM and EIM on forward kinematics: blurred contexts bring a classifier below EM's error; curves are of the run."""

import pytest

from eim_ros.core.errors import EimError
from experiments.kinematics import CURVES, EXPERIMENT, KNOWN, FitConfig, KinematicsConfig
from experiments.pictures import OURS

FIT = FitConfig(
    n_iterations=30,
    kl_bound=0.2,
    gating_kl_bound=0.015,
    entropy_loss_bound=0.2,
    hidden_layers=(150, 150, 150),
    n_epochs=3,
    smoothing=0.3,
)
SMALL = KinematicsConfig(
    robots=("iiwa14",),
    n_components=(10,),
    n_samples=1000,
    n_validation=200,
    n_test=500,
    em_iterations=30,
    start_iterations=3,
    learners=(OURS,),
    ratios=(KNOWN,),
    ours=FIT,
)


def figures(method, config=SMALL, seed=0):
    (cell,) = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == method]
    return EXPERIMENT.measure(config, cell, seed).figures


def test_eim_that_knows_the_kinematics_reaches_half_of_ems_error_and_its_experts_part_the_positions():
    em, eim = figures("EM"), figures(OURS)
    assert eim["rmse_position"] < 0.5 * em["rmse_position"]
    assert eim["share_in_limits"] > 0.9 > em["share_in_limits"]
    assert eim["entropy_marginal"] > 0.8
    conditional = eim[CURVES["entropy_conditional"]]
    assert conditional[-1] < conditional[0]


def test_curve_begins_at_the_start_and_ends_at_the_model():
    found = figures(OURS, SMALL.replace("ours.n_iterations", 4))
    again = figures(OURS, SMALL.replace("ours.n_iterations", 2))
    for name, column in CURVES.items():
        assert len(found[column]) == 5
        assert found[column][:1] == again[column][:1]
        assert found[column][-1] == pytest.approx(found[name], abs=1e-4)  # so few test samples are all of them


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_classifier_and_plug_in_run_with_and_without_smoothing(smoothing):
    config = SMALL.replace(
        **{
            "n_samples": 300,
            "ratios": ("network", "plug-in"),
            "ours.n_iterations": 2,
            "ours.smoothing": smoothing,
        }
    )
    cells = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == OURS]
    assert [cell["estimator"] for cell in cells] == ["network", "plug-in"]
    for cell in cells:
        assert 0.0 < EXPERIMENT.measure(config, cell, 0).figures["rmse_position"] < 2.0


def test_thesis_settings_are_those_of_its_table_and_of_its_arm():
    config = KinematicsConfig()
    fit = config.thesis
    assert (config.n_samples, config.n_validation, config.n_test) == (10_000, 5000, 5000)
    assert (fit.kl_bound, fit.gating_kl_bound) == (0.005, 0.005)
    assert (fit.entropy_loss_bound, fit.gating_entropy_loss_bound) == (0.01, 0.1)
    assert (fit.hidden_layers, fit.dropout, fit.smoothing) == ((400, 400, 400), 0.1, 0.0)
    cells = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == "EIM"]
    assert {(cell["robot"], cell["estimator"]) for cell in cells} == {("iiwa14", "network")}


def test_unknown_robot_is_refused():
    config = SMALL.replace("robots", ("nobody",))
    with pytest.raises(EimError, match="nobody"):
        EXPERIMENT.measure(config, EXPERIMENT.cells(config)[0], 0)
