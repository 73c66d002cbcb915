"""EM and EIM on forward kinematics: blurred contexts bring a classifier below EM's error; curves are of the run."""

import pytest

from eim_ros.core.errors import EimError
from experiments.kinematics import CURVES, EXPERIMENT, KNOWN, KinematicsConfig

SMALL = KinematicsConfig(
    robots=("iiwa14",),
    n_components=(10,),
    n_samples=1000,
    n_validation=200,
    n_test=500,
    em_iterations=30,
    start_iterations=3,
    n_iterations=30,
    kl_bound=0.2,
    entropy_loss_bound=0.2,
    ratios=(KNOWN,),
)


def figures(method, config=SMALL, seed=0):
    (cell,) = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == method]
    return EXPERIMENT.measure(config, cell, seed).figures


def test_eim_that_knows_the_kinematics_reaches_half_of_ems_error_and_its_experts_part_the_positions():
    em, eim = figures("EM"), figures("EIM")
    assert eim["rmse_position"] < 0.5 * em["rmse_position"]
    assert eim["share_in_limits"] > 0.9 > em["share_in_limits"]
    assert eim["entropy_marginal"] > 0.8
    conditional = eim[CURVES["entropy_conditional"]]
    assert conditional[-1] < conditional[0]


def test_curve_begins_at_the_start_and_ends_at_the_model():
    found = figures("EIM", KinematicsConfig.from_mapping({**SMALL.to_mapping(), "n_iterations": 4}))
    again = figures("EIM", KinematicsConfig.from_mapping({**SMALL.to_mapping(), "n_iterations": 2}))
    for name, column in CURVES.items():
        assert len(found[column]) == 5
        assert found[column][:1] == again[column][:1]
        assert found[column][-1] == pytest.approx(found[name], abs=1e-4)  # so few test samples are all of them


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_classifier_and_plug_in_run_with_and_without_smoothing(smoothing):
    config = {**SMALL.to_mapping(), "n_samples": 300, "n_iterations": 2, "ratios": ("network", "plug-in")}
    config = KinematicsConfig.from_mapping({**config, "smoothing": smoothing})
    cells = [cell for cell in EXPERIMENT.cells(config) if cell["method"] == "EIM"]
    assert [cell["estimator"] for cell in cells] == ["network", "plug-in"]
    for cell in cells:
        assert 0.0 < EXPERIMENT.measure(config, cell, 0).figures["rmse_position"] < 2.0


def test_unknown_robot_is_refused():
    config = KinematicsConfig.from_mapping({**SMALL.to_mapping(), "robots": ("nobody",)})
    with pytest.raises(EimError, match="nobody"):
        EXPERIMENT.measure(config, EXPERIMENT.cells(config)[0], 0)
