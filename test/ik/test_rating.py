"""Ratings of poses by a device, which maps and placements use, agree with those of the processor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ik.device.test_device_sampler import ALL, FORMS, PLANAR, POSE, configurations, sampler_of

from eim_ros import Box, Sampler
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import CapabilityGrid, CapabilityMap, Constraints, base_grid, place_base, rating
from eim_ros.ik import capability as module
from eim_ros.ik.capability import survey
from eim_ros.ik.rating import rate, rate_on

REDUNDANT = ("panda", "iiwa14", "gen3", "xarm7")


def poses_of(name: str, special: bool) -> np.ndarray:
    """Return poses (100, 4, 4). The first 70 are reachable; the positions of 30 are shifted, mostly out of reach."""
    robot = sampler_of(name).robot
    poses = robot.fk(configurations(name, 100, special, seed=4))
    poses[70:, :3, 3] += np.random.default_rng(0).uniform(-0.7, 0.7, (30, 3)) * robot.reach
    return poses


@pytest.mark.parametrize("special", [False, True], ids=["random", "special"])
@pytest.mark.parametrize("name", [*FORMS, "wide"])
def test_closed_form_is_rated_as_by_the_solver(name: str, special: bool) -> None:
    """The solutions are equal, so their counts are equal, also with revolutions. The solver rates undecided poses."""
    sampler, poses = sampler_of(name), poses_of(name, special)
    expected, found = rate(sampler, poses, 0), rate_on(sampler.on("cpu"), sampler, poses, 0)
    reached, undecided = found.n_solutions > 0, sampler.on("cpu").measured_batch(poses, 1, seed=0).undecided
    np.testing.assert_array_equal(reached, expected.n_solutions > 0)
    decided = np.setdiff1d(np.arange(len(poses)), undecided)
    for column in ("n_solutions", "n_components", "length"):
        np.testing.assert_array_equal(getattr(found, column)[decided], getattr(expected, column)[decided])
    # near singularities, rounding changes the manipulability by its square root
    np.testing.assert_allclose(found.manipulability[decided], expected.manipulability[decided], rtol=1e-6, atol=1e-7)
    if len(undecided):
        for column, other in zip(found, rate(sampler, poses[undecided], 0), strict=True):
            np.testing.assert_array_equal(column[undecided], other)
    assert reached[:70].all() and not reached[70:].all()
    assert np.isnan(found.q[~reached]).all()
    np.testing.assert_allclose(sampler.robot.fk(found.q[reached]), poses[reached], atol=2e-6)


@pytest.mark.parametrize("name", REDUNDANT)
def test_redundant_arm_reaches_the_same_poses_but_its_self_motions_are_not_traced(name: str) -> None:
    sampler, poses = sampler_of(name), poses_of(name, False)
    expected, found = rate(sampler, poses, 0), rate_on(sampler.on("cpu"), sampler, poses, 0)
    reached = found.n_solutions > 0
    np.testing.assert_array_equal(reached, expected.n_solutions > 0)
    assert reached[:70].all() and not reached.all()
    np.testing.assert_array_equal(found.n_components, reached)
    np.testing.assert_array_equal(np.isnan(found.length), reached)
    assert found.n_solutions.max() == rating.N_OF_LARGE_SETS
    np.testing.assert_allclose(sampler.robot.fk(found.q[reached]), poses[reached], atol=2e-6)


@pytest.mark.parametrize("name", [*ALL, "positions", "calibrated"])
def test_measure_of_each_row_is_the_manipulability_of_the_robot(name: str) -> None:
    sampler = sampler_of("panda" if name == "positions" else name)
    poses = sampler.robot.fk(configurations("panda" if name == "positions" else name, 10, False))
    if name == "positions":
        sampler = sampler.with_constraints(position_only=True)
    found = sampler.on("cpu").measured_batch(poses, 4, seed=0)
    taken = np.arange(found.q.shape[1]) < found.counts[:, None]
    assert (np.isfinite(found.manipulability) == taken).all() and taken.any()
    expected = sampler.robot.manipulability(found.q[taken], name == "positions")
    np.testing.assert_allclose(found.manipulability[taken], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["ur5e", "ur10e", "six_joints", "calibrated", *REDUNDANT])
def test_map_on_a_device_reaches_the_same_orientations(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE_ON_DEVICE", 50)
    robot = sampler_of(name).robot
    grid = CapabilityGrid.around(robot, 0.6 * robot.reach, n_approaches=6, n_rolls=2, n_seeds=256)
    done: list[tuple[int, int]] = []
    found = survey(robot, grid, tmp_path / "a.npz", None, lambda *n: done.append(n), "cpu")
    expected = survey(robot, grid, tmp_path / "b.npz")
    np.testing.assert_array_equal(found.reachability, expected.reachability)
    assert 0.0 < found.reachability.mean() < 1.0
    assert done[0] == (0, grid.n_poses) and done[-1] == (grid.n_poses, grid.n_poses) and len(done) > 2
    stored = CapabilityMap.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(stored.length, found.length)
    share = np.median((found.manipulability / np.maximum(expected.manipulability, 1e-9))[found.n_components > 0])
    assert abs(share - 1.0) < (0.05 if name in REDUNDANT else 1e-4)  # 16 samples of a self-motion miss the maximum


def test_parts_with_and_without_a_device_are_not_mixed(tmp_path: Path) -> None:
    grid = CapabilityGrid((0.2, -0.3, 0.1), (0.8, 0.3, 0.7), 0.3, n_approaches=2, n_rolls=1)

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        survey(sampler_of("ur5e").robot, grid, tmp_path / "map.npz", progress=stop)
    with pytest.raises(ConfigurationError, match="parts of another robot, grid or device"):
        survey(sampler_of("ur5e").robot, grid, tmp_path / "map.npz", device="cpu")


@pytest.mark.parametrize("name", ["ur5e", "wide", "panda"])
def test_bases_are_placed_as_by_the_solver(name: str) -> None:
    poses = [[x, y, 0.3, 1.0, 0.0, 0.0, 0.0] for x, y in ((1.0, 0.0), (1.2, 0.2))]
    bases = base_grid((0.2, 1.8), (-0.4, 0.4), 0.4)
    expected, found = (place_base(sampler_of(name), poses, bases, n_refined=0, device=on) for on in (None, "cpu"))
    ranks = [np.lexsort(each.bases.T) for each in (expected, found)]
    expected, found = (each.rows(rank) for each, rank in zip((expected, found), ranks, strict=True))
    np.testing.assert_array_equal(found.reached, expected.reached)
    assert 0.0 < found.reached.mean() < 1.0
    if name != "panda":
        np.testing.assert_array_equal(found.n_solutions, expected.n_solutions)
        np.testing.assert_array_equal(found.n_components, expected.n_components)
        np.testing.assert_allclose(found.manipulability, expected.manipulability, rtol=1e-6, atol=1e-7)
    refined = place_base(sampler_of(name), poses, bases, n_refined=1, device="cpu")
    assert refined.worst()[0] >= found.worst()[found.n_reached == 2].max() and refined.n_reached[0] == 2


def test_what_devices_do_not_rate_is_refused_by_name_before_any_work(tmp_path: Path) -> None:
    shown: list[tuple[int, int]] = []
    bases = base_grid((0.0, 1.0), (0.0, 0.0))
    refused = {
        "obstacles": {"sampler": Sampler("ur5e"), "obstacles": Box((0.1, 0.1, 0.1), at=(1.0, 0.0, 0.0))},
        "self-collision": {"sampler": Sampler("ur5e", constraints=Constraints(self_collision=True))},
        "criterion 'length'": {"sampler": Sampler("panda"), "criterion": "length"},
        "device must be": {"sampler": Sampler("ur5e"), "device": "gpu"},
    }
    for words, arguments in refused.items():
        with pytest.raises(ConfigurationError, match=words):
            place_base(**{"poses": [POSE], "bases": bases, "device": "cpu", "progress": lambda *n: shown.append(n)}  # type: ignore[arg-type]
                       | arguments)  # fmt: skip
    grid = CapabilityGrid.around(sampler_of("ur5e").robot, 0.5)
    with pytest.raises(ConfigurationError, match="device must be"):
        survey(sampler_of("ur5e").robot, grid, tmp_path / "map.npz", device="tpu")
    assert not shown and not list(tmp_path.iterdir())
    found = place_base(Sampler("ur5e"), [POSE], bases, criterion="components", device="cpu", n_refined=0)
    assert found.worst("components")[0] == 8.0  # each solution is a component
    assert sampler_of(PLANAR).on("cpu").method == "least squares"
