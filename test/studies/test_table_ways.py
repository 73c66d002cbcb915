"""A Panda reaches around a post on two ways: the included data and model, and the claim about EM and EIM."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.table_ways import all_data, colliding, data_sets, draw, fitted, judged
from eim_ros import Sampler
from eim_ros.ik import IKModel
from eim_ros.kinematics import share_path
from experiments.table_demonstrations import demonstrations, swivel


def test_included_demonstrations_pass_the_post_on_both_sides_and_never_collide() -> None:
    q = all_data().sample
    is_right = swivel(q) > 0.0
    assert len(q) == 2000
    assert 0.4 < is_right.mean() < 0.6
    assert np.all((np.abs(swivel(q)) > 0.2) & (np.abs(swivel(q)) < np.pi / 2.0))  # the elbow is up, at a side
    assert not colliding(q).any()


def test_demonstrator_repeats_the_included_motions() -> None:
    motions = np.array(list(demonstrations(2, seed=0)))
    # the solver may round differently on another processor
    np.testing.assert_allclose(motions.reshape(-1, 7), all_data().sample[:16], atol=1e-6)


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
    eim = IKModel.load("panda_table") if source == "included" else fitted("EIM", 1, 0, training)
    of_em, of_eim = (judged(model, held_out, training.sample) for model in (fitted("EM", 1, 0, training), eim))
    assert of_em["collide"] > 0.4
    for share in ("collide", "solved"):
        assert of_eim[share] <= of_em[share] / 4.0
    assert max(of_eim["left"], of_eim["right"]) > 0.9
    assert of_eim["distance"] < 0.05 < of_em["distance"]


def test_picture_is_drawn(tmp_path) -> None:
    draw(tmp_path / "ways.png")
    assert 50_000 < (tmp_path / "ways.png").stat().st_size < 300_000
