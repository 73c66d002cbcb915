"""A Panda passes a post on either side. The included data and model are correct, and the claim on EM and EIM holds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.table_ways import all_data, colliding, data_sets, fitted, judged
from eim_ros import Sampler
from eim_ros.core.data_set import DataSet
from eim_ros.ik import IKModel
from eim_ros.kinematics import share_path
from experiments.table_demonstrations import (
    N_POINTS,
    ROBOT,
    demonstrations,
    demonstrator,
    line_of_poses,
    reach,
    swivel,
)


def test_included_demonstrations_pass_the_post_on_both_sides_and_never_collide() -> None:
    q = all_data().sample
    is_right = swivel(q) > 0.0
    assert len(q) == 2000
    assert 0.4 < is_right.mean() < 0.6
    # the elbow is up and clearly on one side
    assert np.all((np.abs(swivel(q)) > 0.2) & (np.abs(swivel(q)) < np.pi / 2.0))
    assert not colliding(q).any()


class Nothing:
    """Sampler that finds no configuration."""

    def draw(self, *_: object, **__: object) -> list[object]:
        return []


def lines_of_the_demonstrator(n: int) -> np.ndarray:
    """Return the poses (n, N_POINTS, 4, 4) of the first lines with seed 0, which are equal on all machines."""
    rng, lines = np.random.default_rng(0), []
    for _ in range(n):
        lines.append(line_of_poses(rng))
        assert reach(Nothing(), lines[-1][0], rng) is None
    return np.array(lines)


@pytest.mark.parametrize("source", ["included", "made here"])
def test_demonstrator_follows_its_lines_beside_the_post(source: str) -> None:
    """Only poses are compared, because the solver may draw different configurations on other processors."""
    made = list(demonstrations(1, seed=0)) if source == "made here" else all_data().sample.reshape(-1, N_POINTS, 7)[:20]
    lines, before = lines_of_the_demonstrator(200 if source == "included" else 10), -1
    for motion in made:
        away = np.abs(ROBOT.fk(motion) - lines).max(axis=(1, 2, 3))
        assert away.min() < 1e-5  # tolerances of 1e-6, and rounding in the file
        assert int(away.argmin()) > before  # the order is the same, but lines that the arm cannot follow are missing
        before = int(away.argmin())
        assert np.abs(np.diff(motion, axis=0)).max() <= 0.2
        assert np.ptp(np.sign(swivel(motion))) == 0.0
        assert not demonstrator().constraints.scene(ROBOT).colliding(motion).any()


def test_included_files_are_small() -> None:
    assert share_path("config/demonstrations/panda_table.npz").stat().st_size < 300_000
    assert share_path("config/models/panda_table.safetensors").stat().st_size < 200_000


def test_included_model_prefers_one_way() -> None:
    sampler = Sampler.load("panda_table")
    assert sampler.has_preference
    drawn = sampler.sample([0.56, 0.0, 0.22, 1.0, 0.0, 0.0, 0.0], 20, seed=0, timeout=60.0)
    assert len(drawn) >= 10
    assert len(set(np.sign(swivel(drawn.q)))) == 1


@pytest.mark.parametrize("source", ["included", "fitted"])
def test_samples_of_eim_collide_at_most_a_quarter_as_often_as_those_of_em(source: str) -> None:
    training, held_out = data_sets()
    # use a quarter of the data to save time
    training = DataSet(training.context[::4], training.sample[::4], training.description)
    eim = IKModel.load("panda_table") if source == "included" else fitted("EIM", 1, 0, training)
    of_em, of_eim = (judged(model, held_out, training.sample) for model in (fitted("EM", 1, 0, training), eim))
    assert of_em["collide"] > 0.4
    for share in ("collide", "solved"):
        assert of_eim[share] <= of_em[share] / 4.0
    assert max(of_eim["left"], of_eim["right"]) > 0.9
    assert of_eim["distance"] < 0.05 < of_em["distance"]
