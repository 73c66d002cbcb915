"""With one Gaussian and a disc in the way, EM's Gaussian is between the two ways, and EIM's Gaussian is on one way."""

import pytest

from experiments.obstacle import EXPERIMENT, ObstacleConfig


@pytest.fixture(scope="module")
def result():
    robot = {"n_links": 5, "goal_x": 3.5, "disc_x": 1.75, "disc_radius": 1.0}
    config = ObstacleConfig(n_samples=1500, n_iterations=40, ratios=("residual",), **robot)
    return {cell["method"]: EXPERIMENT.measure(config, cell, 1).figures for cell in EXPERIMENT.cells(config)}


def test_expert_passes_on_both_sides_and_touches_nothing(result):
    assert result["expert"]["collisions"] == 0.0
    assert result["expert"]["distance"] < 0.05
    assert 0.4 < result["expert"]["above"] < 0.6  # 0.5 by symmetry, within eight standard errors


def test_em_collides_and_eim_does_not(result):
    assert result["EM"]["collisions"] > 0.5
    assert result["EIM"]["collisions"] < 0.05
    assert result["EIM"]["distance"] < 0.2 * result["EM"]["distance"]


def test_eim_takes_one_way_and_em_both(result):
    assert result["EIM"]["above"] in (pytest.approx(0.0, abs=0.01), pytest.approx(1.0, abs=0.01))
    assert 0.3 < result["EM"]["above"] < 0.7
