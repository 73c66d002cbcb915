"""A prior of two ways separates its modes, meets via points, has calibrated scores, and checks its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from motion.demonstrated import JOINTS, N_POINTS, positions_of, two_ways

from eim_ros.core.errors import DataError, EimError, JointStateError, ModelFileError
from eim_ros.motion import MotionPrior, ViaPoint


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=["prior", "eim_prior"])
def either(request: pytest.FixtureRequest) -> MotionPrior:
    return request.getfixturevalue(request.param)


def test_samples_take_one_way_or_the_other_and_never_the_middle(either: MotionPrior) -> None:
    samples = either.condition([1.0]).sample(500, generator())
    middle = samples.positions[:, N_POINTS // 2, 2]  # joint 3 moves only along its arc
    # arcs have a height of 1 with a deviation of 0.05, so the middle is 20 deviations from both ways
    assert (np.abs(np.abs(middle) - 1.0) < 0.4).all()
    assert 0.2 < (middle > 0.0).mean() < 0.8


def test_context_decides_the_goal(either: MotionPrior) -> None:
    for goal in (0.6, 1.4):
        ends = either.condition([goal]).sample(300, generator()).positions[:, -1]
        np.testing.assert_allclose(ends.mean(axis=0), [goal, -0.5 * goal, 0.0], atol=0.05)


def test_via_points_are_met_and_choose_the_way(prior: MotionPrior) -> None:
    point = ViaPoint(0.5, ("wrist",), (0.95,), (1e-3,))
    given = prior.condition([1.0], [point])
    samples = given.sample(200, generator(), n_points=101)
    np.testing.assert_allclose(samples.positions[:, 50, 2], 0.95, atol=6e-3)
    assert given.log_evidence > prior.condition([1.0], [ViaPoint(0.5, ("wrist",), (0.0,))]).log_evidence + 20.0


def test_evidence_of_via_points_does_not_depend_on_their_order_or_number_of_calls(prior: MotionPrior) -> None:
    given = prior.condition([1.0])
    motion = given.sample(1, generator(), n_points=11).positions[0]
    points = [ViaPoint(0.1 * i, (JOINTS[joint],), (float(motion[i, joint]),)) for i, joint in ((5, 2), (8, 1))]
    both = given.condition(points).log_evidence
    for first, second in (points, points[::-1]):
        assert given.condition([first]).condition([second]).log_evidence == pytest.approx(both)


def test_via_point_is_met_by_default_even_where_the_context_fixes_the_position(prior: MotionPrior) -> None:
    given = prior.condition([1.0], [ViaPoint(1.0, ("shoulder",), (1.02,))])  # the shoulder ends at the context
    ends = given.sample(50, generator()).positions[:, -1, 0]
    np.testing.assert_allclose(ends, 1.02, atol=2e-3)


def test_log_density_of_samples_is_that_of_their_score(prior: MotionPrior) -> None:
    samples = prior.condition([1.0]).sample(50, generator())
    scores = prior.score(samples.positions, [1.0])
    # scoring fits weights to the positions, with a small ridge penalty
    np.testing.assert_allclose(scores.log_prob, samples.log_prob, atol=1e-3)
    assert (scores.residual < 1e-6).all()


def test_samples_of_a_component_have_its_mean_and_deviation(prior: MotionPrior) -> None:
    given = prior.condition([1.0], [ViaPoint(0.5, ("wrist",), (1.0,), (0.05,))])
    samples = given.sample(4000, generator())
    log_weights, means, deviations = given.component_motions()
    best = int(np.argmax(log_weights))
    drawn = samples.positions[samples.component == best]
    # four standard errors; for 4000 draws, one is below 0.002 and 1.2 %
    np.testing.assert_allclose(drawn.mean(axis=0), means[best], atol=0.008)
    np.testing.assert_allclose(drawn.std(axis=0), deviations[best], rtol=0.05, atol=1e-3)


def test_quantiles_of_new_demonstrations_are_uniform(either: MotionPrior) -> None:
    fresh = two_ways(400, 7)
    quantile = either.score(positions_of(fresh), fresh.context).quantile
    # for 40 held-out and 400 new demonstrations, the standard error of a share is 0.08
    for share in (0.25, 0.5, 0.75):
        assert abs((quantile <= share).mean() - share) < 0.25


def test_averages_of_both_ways_are_outliers(either: MotionPrior) -> None:
    fresh = two_ways(100, 8)
    motions = positions_of(fresh)
    side = np.sign(motions[:, N_POINTS // 2, 2])
    middle = 0.5 * (motions[side > 0][:20] + motions[side < 0][:20])
    goals = 0.5 * (fresh.context[side > 0][:20] + fresh.context[side < 0][:20])
    assert (either.score(middle, goals).quantile == 0.0).all()


def test_motion_that_the_basis_cannot_represent_is_an_outlier(prior: MotionPrior) -> None:
    fresh = two_ways(5, 9)
    shaken = positions_of(fresh) + 0.2 * (-1.0) ** np.arange(N_POINTS)[:, None]
    scores = prior.score(shaken, fresh.context)
    assert (scores.quantile == 0.0).all()
    assert (scores.residual > 0.1).all()


def test_prior_without_a_context(plain_prior: MotionPrior) -> None:
    assert plain_prior.n_context == 0
    samples = plain_prior.condition().sample(100, generator())
    assert samples.positions.shape == (100, N_POINTS, 3)
    with pytest.raises(DataError, match=r"expected 0 numbers \(none\)"):
        plain_prior.condition([1.0])


@pytest.mark.parametrize("context", [None, [], [1.0, 2.0], [np.nan], [[1.0], [2.0]], "x"])
def test_bad_context_is_refused(prior: MotionPrior, context: object) -> None:
    with pytest.raises(DataError, match="context"):
        prior.condition(context)


def test_via_point_beyond_the_limits_is_refused(prior: MotionPrior) -> None:
    with pytest.raises(JointStateError, match=r"joint elbow at 3.5, but the limits are -3 and 3"):
        prior.condition([1.0], [ViaPoint(0.5, ("elbow",), (3.5,))])
    prior.condition([1.0], [ViaPoint(0.5, ("wrist",), (3.5,))])  # the wrist has no limits


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda motion: motion[:, :-1], "shape"),
        (lambda motion: motion[0], "shape"),
        (lambda motion: motion * np.nan, "finite"),
        (lambda motion: motion + np.array([0.0, 4.0, 0.0]), "motion 0: joint elbow is at"),
    ],
)
def test_bad_motion_is_refused_with_its_cause(prior: MotionPrior, change: object, reason: str) -> None:
    with pytest.raises(EimError, match=reason):
        prior.score(change(positions_of(two_ways(2, 3))), [1.0])


def test_file_gives_the_same_prior_back(either: MotionPrior, tmp_path: Path) -> None:
    either.save(tmp_path / "prior.safetensors")
    loaded = MotionPrior.load(tmp_path / "prior.safetensors")
    assert loaded.joint_names == JOINTS
    assert (loaded.context_names, loaded.mean_duration) == (("goal",), either.mean_duration)
    assert loaded.training == either.training
    fresh = two_ways(10, 4)
    for name in ("log_prob", "quantile", "residual"):
        ours, theirs = (getattr(p.score(positions_of(fresh), fresh.context), name) for p in (either, loaded))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.lower, either.lower)
    assert np.isinf(loaded.upper[2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("joint_names", ["a", "b"]),
        ("joint_names", None),
        ("n_latent", 1000),
        ("n_points", 1),
        ("lower", [0.0]),
        ("mean_duration", -1.0),
        ("basis", {"kind": "sines"}),
        ("context_names", []),
    ],
)
def test_file_whose_parts_do_not_fit_is_refused(prior: MotionPrior, tmp_path: Path, name: str, value: object) -> None:
    from eim_ros.core.files import read_tensor_file, write_tensor_file

    path = tmp_path / "prior"
    prior.save(path)
    tensors, document = read_tensor_file(path, kind="motion_prior", schema=1)
    kind = document.pop("kind")
    document.pop("schema_version")
    write_tensor_file(path, tensors, {**document, name: value}, kind=kind, schema=1)
    with pytest.raises(ModelFileError, match="valid motion prior"):
        MotionPrior.load(path)


def test_truncated_file_and_that_of_another_kind_are_refused(prior: MotionPrior, tmp_path: Path) -> None:
    path = tmp_path / "prior"
    prior.save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="truncated"):
        MotionPrior.load(path)
    from eim_ros.learning.models import save_model

    save_model(path, prior.mixture)
    with pytest.raises(ModelFileError, match="'mixture_of_experts', expected 'motion_prior'"):
        MotionPrior.load(path)
