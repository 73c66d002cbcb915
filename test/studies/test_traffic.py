"""In the traffic experiment, the map is a kernel density, vehicles obey traffic lights, and EIM stays on roads."""

import numpy as np
import pytest
from scipy import stats
from studies.test_traffic_data import drive, write

from eim_ros.core.errors import DataError
from experiments import traffic
from experiments.table import Header, ResultTable
from experiments.traffic import EXPERIMENT, NGSIM, SYNTHETIC, TEST_DATA, RoadMap, TrafficConfig, traffic_data
from experiments.traffic_data import CROSSING, CYCLE, GREEN, LANES, REACH, synthetic_intersection

SMALL = TrafficConfig(
    n_components=(5,),
    n_samples=1000,
    n_test=500,
    n_iterations=10,
    ratios=("plug-in",),
    kl_bound=0.05,
    gating_kl_bound=0.05,
    entropy_loss_bound=0.05,
)


@pytest.fixture(scope="module")
def tracks():
    return synthetic_intersection(400, np.random.default_rng(0))


def test_density_is_that_of_normal_kernels():
    generator = np.random.default_rng(1)
    positions, places = 5.0 * generator.standard_normal((400, 2)), 6.0 * generator.standard_normal((200, 2))
    road = RoadMap.from_positions(positions, positions, 2.0, 0.01)
    kernels = stats.norm(scale=2.0).pdf(places[:, None] - positions).prod(-1)
    error = np.abs(road.density_at(places) - kernels.mean(1)).max()
    assert error < 0.1 * kernels.mean(1).max()  # bins have a third of the kernel's width


def test_given_share_of_other_positions_is_off_the_road():
    generator = np.random.default_rng(2)
    positions, others = generator.standard_normal((2, 5000, 2))
    road = RoadMap.from_positions(positions, others, 0.5, 0.1)
    assert road.is_off(others).mean() == pytest.approx(0.1, abs=0.005)
    assert road.is_off(np.array([[9.0, 0.0], [0.0, 0.0], [1e9, -1e9]])).tolist() == [True, False, True]
    assert road.is_off(others.reshape(100, 50, 2)).shape == (100, 50)


def test_map_of_nothing_and_of_too_fine_a_grid_are_refused():
    with pytest.raises(DataError, match="needs positions"):
        RoadMap.from_positions(np.zeros((0, 2)), np.zeros((1, 2)), 1.0, 0.01)
    with pytest.raises(DataError, match="too narrow for an area of"):
        RoadMap.from_positions(np.array([[0.0, 0.0], [1e5, 0.0]]), np.zeros((1, 2)), 1.0, 0.01)


def test_vehicles_stay_on_their_lanes_and_off_the_median(tracks):
    places = np.concatenate([track.positions for track in tracks])
    far = np.abs(places[:, 1]) > 60.0  # on the boulevard, away from the crossing
    beside = np.abs(np.abs(places[far, 0])[:, None] - LANES["boulevard"]).min(-1)
    change = np.abs(places[far, 0]) > LANES["boulevard"][0] - 1.5
    assert change.all()
    assert (beside < 1.2).mean() > 0.9  # the remaining vehicles are changing lanes
    assert np.abs(places).max() < REACH + 15.0


def test_nobody_passes_the_stop_line_at_red_and_some_wait(tracks):
    waited, passed = 0, 0
    for track in tracks:
        if abs(track.positions[0, 1]) < 60.0:  # a vehicle on the street
            continue
        ahead = -np.sign(track.positions[0, 1]) * track.positions[:, 1] + CROSSING["boulevard"]
        crossing = int(np.argmax(ahead > 1.0))
        if ahead[crossing] <= 1.0:
            continue
        passed += 1
        within = (track.times[crossing] - 1.0) % CYCLE
        assert within < GREEN["boulevard"] + 3.0  # some vehicles can no longer stop
        waited += bool(
            (np.abs(np.diff(track.positions[:, 1])) < 0.05).any() and track.times[crossing] > track.times[0] + 20.0
        )
    assert passed > 100
    assert 0.1 < waited / passed < 0.9


def test_eim_puts_far_fewer_positions_off_the_road_than_em():
    """The test is a small version of thesis 6.5 on the synthetic intersection.

    For single seeds, EIM's share is a third to nine tenths of EM's. The mean over three seeds is about half.
    """
    cells = {cell["method"]: cell for cell in EXPERIMENT.cells(SMALL)}
    of_eim, of_em = ([EXPERIMENT.measure(SMALL, cells[name], s).figures for s in range(3)] for name in ("EIM", "EM"))
    mean = np.mean([row["off_road"] for row in of_eim])
    assert mean < 0.65 * np.mean([row["off_road"] for row in of_em])
    assert EXPERIMENT.measure(SMALL, cells[TEST_DATA], 0).figures["off_road"] < 0.5 * mean
    assert all(row["off_road_trajectories"] > row["off_road"] for row in of_eim)


def test_file_of_the_public_format_takes_the_place_of_the_synthetic_tracks(tmp_path):
    lines = [line for vehicle in range(1, 16) for line in drive(vehicle, 200)]
    path = write(tmp_path / "lankershim.csv", lines)
    config = TrafficConfig(ngsim=str(path), n_components=(2,), n_samples=50, n_test=20, em_iterations=3, ratios=())
    assert {cell["data"] for cell in EXPERIMENT.cells(config)} == {NGSIM}
    truth, em = (EXPERIMENT.measure(config, cell, 0).figures for cell in EXPERIMENT.cells(config))
    data = traffic_data(config, 0)
    step = data.train[1].reshape(-1, 5, 2)[:, 1] - data.train[1].reshape(-1, 5, 2)[:, 0]
    assert step[:, 1].numpy() == pytest.approx(25 * 3.0 * 0.3048)  # 25 rows of three feet
    assert 0.0 <= em["off_road"] <= 1.0
    assert len(truth["trajectories"][0]) == 12


def test_more_experts_than_windows_and_one_vehicle_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", drive(1, 200))
    with pytest.raises(DataError, match="3 parts need at least 3 vehicles, .*, got 1"):
        traffic_data(TrafficConfig(ngsim=str(path)), 0)
    few = write(tmp_path / "b.csv", [line for vehicle in (1, 2, 3) for line in drive(vehicle, 200)])
    config = TrafficConfig(ngsim=str(few), n_components=(5,), ratios=())
    with pytest.raises(DataError, match="5 experts need at least as many windows of tracks, got 3"):
        EXPERIMENT.measure(config, EXPERIMENT.cells(config)[1], 0)


def table(data: str) -> ResultTable:
    trajectories = np.random.default_rng(0).uniform(0.0, 40.0, (30, 12)).tolist()
    figures = {"data": data, "trajectories": trajectories, "off_road": 0.1}
    road = {"road": [[5, 10, 20, 25]] * 40, "road_corner": [0.0, 0.0, 1.0]}
    rows = [{"method": TEST_DATA, "estimator": "none", "n_components": 0, "seed": 0, **figures, **road}]
    for count in (5, 10):
        for method, ratio in (("EM", "none"), ("EIM", "residual"), ("EIM", "network"), ("EIM", "plug-in")):
            rows.append({"method": method, "estimator": ratio, "n_components": count, "seed": 0, **figures})
    return ResultTable(Header("traffic", {}, {}), tuple(rows))


@pytest.mark.parametrize(("data", "warned"), [(SYNTHETIC, True), (NGSIM, False)])
def test_picture_says_what_the_data_are(tmp_path, monkeypatch, data, warned):
    titles = []
    monkeypatch.setattr("matplotlib.figure.Figure.suptitle", lambda self, text, **_: titles.append(text))
    traffic.draw(table(data), tmp_path)
    assert data in titles[0]
    assert ("not measured traffic" in titles[0]) is warned
