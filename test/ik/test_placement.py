"""Figures of base placements agree with those of single poses. The best base agrees with a denser grid of bases."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.core.errors import ConfigurationError, PoseError
from eim_ros.ik import Constraints, Sampler
from eim_ros.ik.placement import BasePlacements, base_grid, place_base
from eim_ros.kinematics import Sphere, pose_from

DOWNWARD = [1.0, 0.0, 0.0, 0.0]
POSES = np.array([pose_from([x, y, 0.3], DOWNWARD) for x, y in ((1.0, 0.0), (1.4, 0.2), (1.4, -0.2))])
GRID = base_grid((0.4, 2.0), (-0.6, 0.6), 0.4, n_yaws=2)


def in_base(base: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Return a pose of the world in the frame of a base (4,)."""
    return np.linalg.inv(pose_from(base[:3], rpy=(0.0, 0.0, base[3]))) @ pose


@pytest.fixture(scope="module")
def six() -> BasePlacements:
    return place_base(Sampler("ur5e"), POSES, GRID, n_refined=2)


@pytest.mark.parametrize("name", ["ur5e", "panda"])
def test_solutions_reach_the_poses_in_the_world(name: str, six: BasePlacements) -> None:
    found = six if name == "ur5e" else place_base(Sampler(name), POSES, GRID[::2], n_refined=0)
    robot = Sampler(name).robot
    assert found.reached.any(axis=1).sum() > 5
    for transform, q, reached in zip(found.transforms, found.q, found.reached, strict=True):
        assert np.isnan(q[~reached]).all()
        if reached.any():
            errors = np.abs(transform @ robot.fk(q[reached]) - POSES[reached]).max()
            assert errors < 3e-6  # due to the sampler's tolerances of 1e-6 m and 1e-6 rad
            assert robot.within_limits(q[reached]).all()


def test_counts_are_those_of_single_poses(six: BasePlacements) -> None:
    sampler = Sampler("ur5e")
    for base, solutions, components in zip(six.bases[::4], six.n_solutions[::4], six.n_components[::4], strict=True):
        answers = [sampler.solve_all(in_base(base, pose)) for pose in POSES]
        assert [len(answer) for answer in answers] == solutions.tolist()
        assert [answer.completeness.n_components for answer in answers] == components.tolist()


def test_curves_have_lengths_and_points_have_none(six: BasePlacements) -> None:
    assert (six.length == 0.0).all()
    seven = place_base(Sampler("panda"), POSES[:1], [[0.5, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]], n_refined=0)
    assert seven.length[0, 0] > 3.0
    assert (seven.n_components[1, 0], seven.length[1, 0], seven.n_reached[1], seven.worst()[1]) == (0, 0.0, 0, 0.0)


def test_bases_are_sorted_by_poses_reached_and_then_by_the_worst_pose(six: BasePlacements) -> None:
    keys = list(zip(six.n_reached.tolist(), six.worst().tolist(), strict=True))
    assert keys == sorted(keys, reverse=True)
    assert six.n_reached[0] == len(POSES)


def test_refined_base_is_better_than_a_grid_of_half_the_spacing(six: BasePlacements) -> None:
    dense = place_base(Sampler("ur5e"), POSES, base_grid((0.4, 2.0), (-0.6, 0.6), 0.2), n_refined=0)
    assert six.worst()[0] > dense.worst()[0]


def test_coordinates_that_agree_are_not_refined(six: BasePlacements) -> None:
    assert (six.bases[:, 2] == 0.0).all()
    assert (np.abs(six.bases[:, None] - GRID).max(axis=2).min(axis=1) > 1e-3).any()


def test_criterion_of_components_prefers_eight_solutions(six: BasePlacements) -> None:
    found = place_base(Sampler("ur5e"), POSES, GRID, criterion="components", n_refined=0)
    assert found.worst("components")[0] == 8.0
    assert found.worst()[0] <= six.worst()[0]


def test_obstacles_of_the_world_stand_still_and_those_of_the_sampler_move() -> None:
    pose, bases = POSES[:1], np.array([[0.6, 0.0, 0.0, 0.0], [1.0, 0.5, 0.0, 1.5]])
    ball = Sphere(pose[0, :3, 3], 0.1)
    carried_ball = Sphere(in_base(bases[1], pose[0])[:3, 3], 0.1)
    sampler = Sampler("ur5e")
    assert place_base(sampler, pose, bases, n_refined=0).n_reached.tolist() == [1, 1]
    assert place_base(sampler, pose, bases, obstacles=ball, n_refined=0).n_reached.tolist() == [0, 0]
    carried = sampler.with_constraints(obstacles=[carried_ball])
    found = place_base(carried, pose, bases, obstacles=Sphere((9.0, 9.0, 9.0), 0.1), n_refined=0)
    assert found.n_reached.tolist() == [1, 0]
    assert (found.bases == bases).all()


def test_positions_alone_have_one_component_if_more_directions_are_free() -> None:
    sampler = Sampler("ur5e", constraints=Constraints(position_only=True))
    found = place_base(sampler, POSES, GRID[::5], n_refined=1)
    assert (found.n_components == found.reached).all()
    assert found.n_reached[0] == len(POSES)


def test_seed_repeats_and_progress_counts_candidates() -> None:
    shown = list[tuple[int, int]]()
    first, second = (
        place_base(Sampler("panda"), POSES, GRID[:7], n_refined=1, seed=3, progress=lambda *done: shown.append(done))
        for _ in range(2)
    )
    assert (first.bases == second.bases).all()
    assert (first.length == second.length).all()
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]
    assert (shown[0], shown[-1]) == ((0, 7), (7, 7))


def test_grid_keeps_its_ends_and_its_spacing() -> None:
    grid = base_grid((-0.5, 0.5), (0.2, 0.2), 0.3, n_yaws=4, z=0.7)
    x = np.unique(grid[:, 0])
    assert (x[0], x[-1], np.diff(x).max() <= 0.3) == (-0.5, 0.5, True)
    assert np.unique(grid[:, 1:3], axis=0).tolist() == [[0.2, 0.7]]
    assert np.unique(grid[:, 3]).tolist() == pytest.approx([0.0, np.pi / 2, np.pi, 1.5 * np.pi])


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"bases": np.zeros((0, 4))}, ConfigurationError),
        ({"bases": np.zeros((3, 3))}, ConfigurationError),
        ({"poses": np.zeros((1, 4, 4))}, PoseError),
        ({"criterion": "volume"}, ConfigurationError),
        ({"n_refined": -1}, ConfigurationError),
        ({"progress": 3}, ConfigurationError),
    ],
)
def test_malformed_arguments_are_refused(wrong: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        place_base(Sampler("ur5e"), **{"poses": POSES, "bases": GRID, **wrong})  # type: ignore[arg-type]


def test_malformed_grids_are_refused() -> None:
    for arguments in (((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (0.0, 1.0), 0.0), ((0.0, 1e9), (0.0, 1.0), 0.1)):
        with pytest.raises(ConfigurationError):
            base_grid(*arguments)
