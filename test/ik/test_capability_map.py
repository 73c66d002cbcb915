"""Figures of capability maps are correct and do not depend on the number of workers. Malformed maps are rejected."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of

from eim_ros import Sampler
from eim_ros.core.errors import ConfigurationError, DataError, PoseError, RobotError
from eim_ros.core.parallel import JoblibWorkers
from eim_ros.ik import CapabilityGrid, CapabilityMap
from eim_ros.ik import capability as module
from eim_ros.ik.capability import survey
from eim_ros.kinematics import Robot, refine, spread

BOX = CapabilityGrid((0.2, -0.3, 0.1), (0.8, 0.3, 0.7), 0.3, n_approaches=6, n_rolls=2, n_seeds=64)
FIGURES = ("n_solutions", "n_components", "length", "manipulability")


def assert_same(first: CapabilityMap, second: CapabilityMap) -> None:
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.fixture(scope="module")
def panda_map(tmp_path_factory: pytest.TempPathFactory) -> CapabilityMap:
    return survey(arm_of("panda"), BOX, tmp_path_factory.mktemp("map") / "panda.npz")


def test_poses_of_a_grid_are_rigid_and_in_their_cells() -> None:
    poses = BOX.poses(0, BOX.n_poses)
    assert BOX.shape == (2, 2, 2, 12)
    products = poses[:, :3, :3] @ poses[:, :3, :3].transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(3), products.shape), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(poses[:, :3, :3]), 1.0)
    np.testing.assert_allclose(poses[0, :3, 3], [0.35, -0.15, 0.25])
    np.testing.assert_allclose(poses[12 * 2 + 2, :3, 2], BOX.approaches[1])
    np.testing.assert_array_equal(BOX.poses(5, 9), poses[5:9])
    angles = np.arccos(np.clip(BOX.approaches @ BOX.approaches.T, -1.0, 1.0))
    assert angles[~np.eye(6, dtype=bool)].min() > 0.8  # the best six directions are pi/2 apart


def test_pose_is_reached_where_uniform_seeds_reach_it(panda_map: CapabilityMap) -> None:
    robot = arm_of("panda")
    solved = Sampler(robot).solve_batch(BOX.poses(0, BOX.n_poses), seed=0, timeout=60.0).n_valid > 0
    reached = panda_map.n_components.reshape(-1) > 0
    assert not (reached & ~solved).any()
    assert (reached != solved).mean() <= 0.03  # 64 seeds miss poses that few seeds reach
    assert 0.2 < reached.mean() < 1.0


def test_figures_of_a_pose_are_those_of_its_solutions(panda_map: CapabilityMap) -> None:
    """Compare with dense points along self-motions from 600 seeds. Near points are connected."""
    robot, rng = arm_of("panda"), np.random.default_rng(0)
    flat = {name: getattr(panda_map, name).reshape(-1) for name in FIGURES}
    lengths, missed = [], []
    for index in np.flatnonzero(flat["n_components"])[:12]:
        pose = BOX.poses(index, index + 1)[0]
        refined = refine(robot, robot.random(600, rng), pose)
        points = refined.positions[refined.converged]
        points = np.concatenate([points, spread(robot, points, pose, 20000, rng, step=0.1)])
        best = robot.manipulability(points).max()
        assert flat["manipulability"][index] <= best * 1.02 + 1e-4  # steps of 0.45 rad may miss the maximum
        assert flat["manipulability"][index] >= 0.85 * best
        expected, number = length_and_components(points)
        lengths.append(flat["length"][index] / expected)
        missed.append(int(flat["n_components"][index]) - number)
    assert np.median(lengths) == pytest.approx(1.0, abs=0.1)  # steps of 0.45 rad miss short components
    assert np.mean(np.abs(missed)) <= 1.0
    assert np.median(np.abs(missed)) <= 1.0


def length_and_components(points: np.ndarray) -> tuple[float, int]:
    """Return length and number of trees of the minimum spanning forest that connects points up to 0.25 rad apart."""
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
    from scipy.spatial import cKDTree

    tree = cKDTree(points)
    graph = tree.sparse_distance_matrix(tree, 0.25)
    spanning = minimum_spanning_tree(graph)
    return float(spanning.sum()), int(connected_components(graph)[0])


def test_arm_without_redundancy_has_points(tmp_path: Path) -> None:
    grid = dataclasses.replace(BOX, n_seeds=256)
    found = survey(arm_of("ur5"), grid, tmp_path / "ur5.npz")
    np.testing.assert_array_equal(found.n_solutions, found.n_components)
    assert found.n_components.max() == 8
    assert (found.length == 0.0).all()


def test_map_does_not_depend_on_parts_runs_or_workers(
    panda_map: CapabilityMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", 20)
    done: list[tuple[int, int]] = []

    def stop(n_done: int, n_poses: int) -> None:
        done.append((n_done, n_poses))
        if n_done >= 40:
            raise KeyboardInterrupt

    path = tmp_path / "panda.npz"
    with pytest.raises(KeyboardInterrupt):
        survey(arm_of("panda"), BOX, path, progress=stop)
    assert not path.exists()
    (tmp_path / "panda.npz.parts" / "part_000001.npy").write_bytes(b"cut off")
    with pytest.raises(ConfigurationError, match="parts of another robot, grid or device"):
        survey(arm_of("iiwa14"), BOX, path)
    with pytest.raises(ConfigurationError, match="parts of another robot, grid or device"):
        survey(arm_of("panda"), dataclasses.replace(BOX, n_seeds=8), path)
    done.clear()
    found = survey(arm_of("panda"), BOX, path, progress=lambda *n: done.append(n))
    assert done[0] == (20, 96)
    assert done[-1] == (96, 96)
    assert_same(found, panda_map)
    assert_same(CapabilityMap.load(path), panda_map)
    assert [file.name for file in tmp_path.iterdir()] == ["panda.npz"]


def test_map_by_other_processes_is_the_same(panda_map: CapabilityMap, tmp_path: Path) -> None:
    found = survey(arm_of("panda"), BOX, tmp_path / "panda.npz", JoblibWorkers(1))
    assert_same(found, panda_map)


def test_cell_is_found_by_position_and_approach(panda_map: CapabilityMap) -> None:
    whole = panda_map.at([0.6, 0.2, 0.5])
    np.testing.assert_allclose(whole.position, [0.65, 0.15, 0.55])
    assert whole.reached == panda_map.reachability[1, 1, 1]
    assert whole.n_components == panda_map.n_components[1, 1, 1].max()
    assert whole.manipulability == panda_map.manipulability[1, 1, 1].max()
    some = panda_map.at([0.6, 0.2, 0.5], approach=3.0 * BOX.approaches[4])
    assert some.n_components == panda_map.n_components[1, 1, 1, 8:10].max()
    for name in ("position", "approach"):
        for bad in ([1.0, 2.0], [np.nan, 0.0, 0.0], "here", [0.0, 0.0, 0.0]):
            with pytest.raises(PoseError):
                panda_map.at(**{"position": [0.6, 0.2, 0.5], name: bad})


def test_unreached_cell_says_so() -> None:
    grid = dataclasses.replace(BOX, lower=(5.0, 5.0, 5.0), upper=(5.3, 5.3, 5.3))
    found = CapabilityMap.of("panda", grid, np.zeros((grid.n_poses, 4), dtype=np.float32))
    cell = found.at([5.1, 5.1, 5.1])
    assert (cell.reached, cell.n_components, cell.rotation) == (0.0, 0, None)


def test_grid_around_an_arm_holds_all_it_reaches() -> None:
    robot = arm_of("panda")
    grid = CapabilityGrid.around(robot, 0.25)
    tips = robot.fk(robot.random(2000, np.random.default_rng(5)))[:, :3, 3]
    assert (tips >= np.array(grid.lower) - 0.05).all()
    assert (tips <= np.array(grid.upper) + 0.05).all()


@pytest.mark.parametrize(("changed", "reason"), [
    ({"spacing": 0.0}, "spacing must be positive"), ({"spacing": np.nan}, "spacing must be positive"),
    ({"lower": (1.0, 0.0, 0.0)}, "must be below its upper corner"), ({"upper": (np.inf, 1.0, 1.0)}, "must be finite"),
    ({"n_seeds": 0}, "n_seeds must be"), ({"n_rolls": 1.5}, "n_rolls must be"), ({"seed": -1}, "seed"),
    ({"spacing": 1e-4}, "more than 1e9 poses"),
])  # fmt: skip
def test_bad_grids_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        dataclasses.replace(BOX, **changed)


def test_arm_with_more_redundancy_is_refused(tmp_path: Path) -> None:
    robot = Robot("planar10")
    with pytest.raises(RobotError, match="at most 7, one more than a pose needs"):
        survey(robot, BOX, tmp_path / "map.npz")


def test_damaged_file_is_refused(panda_map: CapabilityMap, tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    panda_map.save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="damaged or not a capability map"):
        CapabilityMap.load(path)
    np.savez(path, other=np.zeros(3))
    with pytest.raises(DataError, match="damaged or not a capability map"):
        CapabilityMap.load(path)
    with pytest.raises(DataError, match="cannot read the capability map"):
        CapabilityMap.load(tmp_path / "missing.npz")
