"""Postures on the line come from the table of results, and the simulator accepts these postures."""

from pathlib import Path

import numpy as np
import pytest

from eim_ros.core.errors import ConfigurationError, DataError
from experiments.line_reaching_view import LineStudy
from experiments.table import Header, ResultTable

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results/experiments"


@pytest.fixture(scope="module")
def study():
    return LineStudy.load(RESULTS / "line-reaching")


def test_methods_have_their_numbers_of_components(study):
    assert (study.methods[0], study.counts("expert")) == ("expert", [0])
    assert study.counts("EM") == [1, 5, 10, 20, 30, 40, 50]


def test_distances_are_those_of_the_tips_by_forward_kinematics(study):
    postures = study.postures("EM", 20)
    tips = study.robot.fk(postures.q)[:, :3, 3]
    heights = np.clip(tips[:, 1], -7.0, 7.0)
    np.testing.assert_allclose(postures.heights, heights, atol=1e-9)
    np.testing.assert_allclose(postures.distances, np.hypot(tips[:, 0] - 5.0, tips[:, 1] - heights), atol=1e-9)


def test_the_nearest_come_first(study):
    postures = study.postures("EIM (plug-in)", 20)
    away = np.abs(postures.heights - 4.0)[postures.nearest(4.0)]
    assert (np.diff(away) >= 0.0).all()
    assert len(away) == len(postures.q)


def test_the_simulator_ends_in_the_posture_and_tells_whether_the_line_is_reached(study):
    postures = study.postures("expert", 0)
    executed = study.execute(postures.q[0])
    np.testing.assert_allclose(executed.at(1.0), postures.q[0], atol=1e-9)
    assert executed.outcome.distance == pytest.approx(postures.distances[0], abs=1e-6)
    assert executed.outcome.reached
    assert executed.duration > 1.0


def test_other_results_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected results of line-reaching, but .* contains results of robustness"):
        LineStudy.load(RESULTS / "robustness")
    with pytest.raises(ConfigurationError, match="python -m experiments line-reaching --output"):
        LineStudy.load(tmp_path)
    with pytest.raises(DataError, match="the table of results is empty"):
        LineStudy(ResultTable(Header("line-reaching", {}, {})))
