"""On forward kinematics with noisy contexts, EIM with a classifier beats EM, and curves show the progress."""

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


def test_unknown_robot_is_refused():
    config = SMALL.replace("robots", ("nobody",))
    with pytest.raises(EimError, match="nobody"):
        EXPERIMENT.measure(config, EXPERIMENT.cells(config)[0], 0)
