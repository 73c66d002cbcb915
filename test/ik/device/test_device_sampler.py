"""Kernels on the processor return the rows of the solver, and claim only what the solver claims."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from ik.arms import arm_of
from ik.test_closed_form import away, rounded
from ik.test_mobile_base import mobile
from kinematics.six_joint_arms import KINDS, URDFS, random_arm

import eim_ros.ik.device.sampler as device_sampler
from eim_ros import Box, Sampler
from eim_ros.core.errors import ConfigurationError, EimError, PoseError
from eim_ros.ik.device import DeviceSampler, DeviceSolutions
from eim_ros.kinematics.poses import check_poses

POSE, FAR = [0.4, 0.1, 0.4, 1.0, 0.0, 0.0, 0.0], [5.0, 0.1, 0.4, 1.0, 0.0, 0.0, 0.0]
SPECIAL = np.array([0.0, 0.25, 0.5, 1.0, -0.5, -1.0]) * math.pi
PLANAR = "planar5"


@functools.cache
def sampler_of(name: str) -> Sampler:
    if name == "mobile":
        return Sampler(mobile("ur5e"))
    if name == "wide":
        return Sampler(URDFS["UR5, two turns"])
    if name == "fixed":
        return Sampler("panda").with_constraints(limits={"panda_joint7": (0.5, 0.5)})
    if name == "calibrated":
        return Sampler(rounded(URDFS["UR5"], 1e-4))
    if name in KINDS:
        return Sampler(random_arm(name, 0))
    return Sampler(arm_of(name))


FORMS = ("ur5e", "ur10e", "six_joints", "fixed", "calibrated", *KINDS)
ALL = (*FORMS[:3], "panda", "iiwa14", "gen3", "xarm7", PLANAR, "mobile")


def configurations(name: str, n: int, special: bool, seed: int = 0) -> np.ndarray:
    """Return configurations (n, dof) within the limits. Special ones have round angles or joints at limits."""
    sampler, generator = sampler_of(name), np.random.default_rng(seed)
    lower, upper = sampler._setup.lower, sampler._setup.upper
    q = np.maximum(lower, -math.pi) + (np.minimum(upper, math.pi) - np.maximum(lower, -math.pi)) * generator.random(
        (n, len(lower))
    )
    if special:
        values = generator.choice(SPECIAL, q.shape)
        values += generator.choice([0.0, 0.0, 1e-9, 1e-7, 1e-5, 1e-3], q.shape)
        at_limit = np.where(generator.random(q.shape) < 0.5, lower, upper)
        values = np.where(generator.random(q.shape) < 0.1, at_limit, values)
        q = np.clip(np.where(generator.random(q.shape) < 0.7, values, q), lower, upper)
    return q


def assert_valid(sampler: Sampler, poses: np.ndarray, found: DeviceSolutions) -> None:
    """Assert that every row reaches its pose within the limits and has the errors of forward kinematics."""
    q, counts = np.asarray(found.q), np.asarray(found.counts)
    taken = np.arange(q.shape[1]) < counts[:, None]
    assert (np.isfinite(q).all(axis=2) == taken).all()
    rows, targets = q[taken], np.repeat(poses, counts, axis=0)
    off = sampler.robot.fk(rows) - targets
    assert np.linalg.norm(off[:, :3, 3], axis=1) == pytest.approx(np.asarray(found.errors)[taken][:, 0], abs=1e-13)
    assert np.abs(off).max(initial=0.0) < 1e-6
    wraps = sampler._setup.bounds[2] > 0.0
    within = (rows >= sampler._setup.lower) & (rows <= sampler._setup.upper)
    assert (within | wraps).all()


def are_same(q: np.ndarray, others: np.ndarray, tolerance: float = 1e-6) -> bool:
    if len(q) != len(others):
        return False
    away = np.abs(q[:, None] - others[None]).max(axis=2)
    return bool((away.min(axis=0, initial=1.0) < tolerance).all() and (away.min(axis=1, initial=1.0) < tolerance).all())


@pytest.mark.parametrize("special", [False, True], ids=["random", "special"])
@pytest.mark.parametrize("name", FORMS)
def test_closed_form_lists_the_set_that_the_solver_proves(name: str, special: bool) -> None:
    sampler = sampler_of(name)
    device = sampler.on("cpu")
    assert device.method == "closed form"
    q = configurations(name, 60, special)
    poses = sampler.robot.fk(q)
    found = device.solve_all_batch(poses)
    assert_valid(sampler, poses, found)
    answers = found.cpu().by_pose()
    undecided = set(found.undecided.tolist())
    for i, (answer, pose) in enumerate(zip(answers, poses, strict=True)):
        if i in undecided:
            assert answer.completeness is None
            continue
        assert answer.completeness.certified
        expected = sampler.solve_all(pose, seed=0, timeout=10.0)
        assert expected.completeness is not None and expected.completeness.is_complete
        assert are_same(answer.q, expected.q)
        assert away(answer.q, q[i]).min() < 1e-5  # where roots nearly meet, errors are the square root of rounding
        assert answer.n_total == len(answer) == expected.n_total
    # undecided poses have a joint near a limit, or nearly equal roots of an arm whose closed form is approximate
    assert special or len(undecided) <= (40 if name == "calibrated" else 6)


@pytest.mark.parametrize("name", ALL)
def test_rows_reach_their_poses_within_the_limits_and_differ(name: str) -> None:
    sampler = sampler_of(name)
    device = sampler.on("cpu")
    for special in (False, True):
        poses = sampler.robot.fk(configurations(name, 20, special, seed=1))
        found = device.sample_batch(poses, 6, seed=3)
        assert_valid(sampler, poses, found)
        for rows in found.cpu().by_pose():
            apart = np.abs(rows.q[:, None] - rows.q[None]).max(axis=2) + np.eye(len(rows))
            assert len(rows) < 2 or apart.min() > 0.01
        assert special or np.mean(np.asarray(found.counts) > 0) == 1.0


@pytest.mark.parametrize("name", ["ur5e", "panda", "gen3", PLANAR])
def test_pose_out_of_reach_is_empty_and_never_called_found(name: str) -> None:
    found = sampler_of(name).on("cpu").sample_batch([FAR], 4, seed=0)
    assert found.counts.tolist() == [0] and np.isnan(found.q).all()
    assert not found.cpu() and "no solution" in found.cpu().messages[0]
    assert found.undecided.tolist() == ([] if name == "ur5e" else [0])  # only a closed form gives a proof


@pytest.mark.parametrize("name", ["ur5e", "panda", "xarm7"])
def test_seed_gives_the_same_rows_for_every_block_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = sampler_of(name)
    device = sampler.on("cpu")
    poses = sampler.robot.fk(configurations(name, 12, False))
    whole = device.sample_batch(poses, 3, seed=5)
    assert (device.sample_batch(poses[4:], 3, seed=9).q == whole.q[4:]).all()  # pose i uses seed + i
    assert not (device.sample_batch(poses, 3, seed=6).q == whole.q).all()
    monkeypatch.setattr(device_sampler, "BLOCK_SIZE", 1)
    assert (device.sample_batch(poses, 3, seed=5).q == whole.q).all()


def test_progress_is_reported_after_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    device = sampler_of("ur5e").on("cpu")
    poses = sampler_of("ur5e").robot.fk(configurations("ur5e", 7, False))
    monkeypatch.setattr(device_sampler, "REPORTED", 3)
    calls: list[tuple[int, int]] = []
    found = device.sample_batch(poses, 3, seed=5, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 7), (3, 7), (6, 7), (7, 7)]
    assert np.array_equal(found.q, device.sample_batch(poses, 3, seed=5).q, equal_nan=True)
    device.solve_batch(torch.from_numpy(poses), progress=lambda done, total: calls.append((done, total)))
    device.solve_all_batch(poses, progress=lambda done, total: calls.append((done, total)))
    assert calls[4:] == 2 * calls[:4]
    with pytest.raises(ConfigurationError, match="progress must be callable, got 7"):
        device.solve_batch(poses, progress=7)  # type: ignore[arg-type]


def test_near_gives_the_solution_that_the_sampler_gives() -> None:
    for name in ("ur5e", "wide", "six_joints"):
        sampler, near = sampler_of(name), np.full(6, 0.3)
        poses = sampler.robot.fk(configurations(name, 30, False))
        found = sampler.on("cpu").solve_batch(poses, near, seed=0)
        assert np.allclose(found.q[:, 0], sampler.solve_batch(poses, near, seed=0).q, atol=1e-8)
    q = configurations("gen3", 5, False) + 2.0 * math.pi * (sampler_of("gen3").robot.continuous)
    found = sampler_of("gen3").on("cpu").solve_batch(sampler_of("gen3").robot.fk(q[:1]), q[0] + 1e-3, seed=0)
    assert np.abs(found.q[0, 0] - q[0]).max() < 0.1  # this also checks that the solution has the revolution of `near`


def test_solution_of_a_closed_form_is_equally_likely() -> None:
    pose = sampler_of("ur5e").robot.fk(configurations("ur5e", 1, False))[0]
    everything = sampler_of("ur5e").solve_all(pose).q
    n, shares = 800, 1.0 / len(everything)
    drawn = sampler_of("ur5e").on("cpu").solve_batch(np.repeat(pose[None], n, 0), seed=1).q[:, 0]
    counts = np.bincount(
        np.abs(drawn[:, None] - everything[None]).max(axis=2).argmin(axis=1), minlength=len(everything)
    )
    assert np.abs(counts - n * shares).max() < 4.5 * math.sqrt(n * shares)


def test_parameter_of_a_drawn_branch_is_uniform() -> None:
    """The reference values are a dense sweep of the parameter over all branches, each of which is equally likely."""
    sampler = sampler_of("panda")
    drawn = sampler.on("cpu").solve_batch([POSE] * 2000, seed=0).q[:, 0]
    swept = sampler.on("cpu").solve_all_batch([POSE], 2e-3)
    values = swept.q[0, : swept.counts[0], 6]
    edges = np.quantile(values, np.linspace(0.0, 1.0, 9))
    counts = np.histogram(drawn[:, 6], edges)[0]
    assert np.abs(counts - 250.0).max() < 5.0 * math.sqrt(250.0)


def test_sweep_has_all_branches_at_the_requested_spacing_and_claims_nothing() -> None:
    sampler = sampler_of("iiwa14")
    poses = sampler.robot.fk(configurations("iiwa14", 10, False))
    found = sampler.on("cpu").solve_all_batch(poses, 0.1)
    assert_valid(sampler, poses, found)
    assert (found.counts > 8).all() and len(found.undecided) == 10
    assert all(report is None for report in found.cpu().reports)


@pytest.mark.parametrize("special", [False, True], ids=["random", "special"])
@pytest.mark.parametrize("name", ["panda", "iiwa14", "xarm7"])
def test_single_precision_rules_out_no_branch_that_exists(name: str, special: bool) -> None:
    """Single precision only rules out branches. Double precision computes the others, so rows agree to the last bit."""
    sampler = sampler_of(name)
    poses = sampler.robot.fk(configurations(name, 300, special, seed=6))
    poses[200:, :3, 3] += np.random.default_rng(0).uniform(-0.4, 0.4, (100, 3))  # most are near the limit of the reach
    double, single = sampler.on("cpu"), sampler.on("cpu")
    single._screens = True
    found, expected = single.sample_batch(poses, 16, seed=2), double.sample_batch(poses, 16, seed=2)
    assert 0 < np.count_nonzero(expected.counts == 0) < 100
    np.testing.assert_array_equal(found.q, expected.q)
    np.testing.assert_array_equal(found.status, expected.status)
    found, expected = single.solve_all_batch(poses), double.solve_all_batch(poses)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(np.exp(1j * found.q), np.exp(1j * expected.q), atol=1e-12)  # up to random revolutions


def test_tolerances_positions_and_limits_are_kept() -> None:
    near_by = {"limits": {"panda_joint1": (0.0, 1.0)}, "tolerances": [0.0, 0.0, 0.0, 0.0, 0.0, math.pi]}
    for changes in ({"position_only": True}, near_by, {"tolerances": [0.01, 0.01, 0.0, 0.1, 0.1, 0.1]}):
        sampler = sampler_of("panda").with_constraints(**changes)
        device = sampler.on("cpu")
        assert device.method == "least squares"
        found = device.sample_batch([POSE], 8, seed=0).cpu()
        assert len(found) == 8
        task = sampler._setup.task(check_poses([POSE])[0], sampler._setup.is_position_only("pose"))
        assert sampler.robot.chain.verify(task, found.q)[1].all()


def test_solve_all_with_fewer_rows_than_solutions_is_undecided() -> None:
    found = sampler_of("ur5e").on("cpu").solve_all_batch([POSE], max_solutions=3)
    assert found.counts.tolist() == [3] and found.undecided.tolist() == [0]
    one = sampler_of("wide").on("cpu").solve_all_batch([POSE], revolutions="one")
    assert one.counts.tolist() == [8]
    assert are_same(one.cpu().q, sampler_of("wide").solve_all(POSE, revolutions="one").q)


def test_what_kernels_do_not_do_is_refused_by_name() -> None:
    panda = Sampler("panda")
    refused = {
        "obstacles": panda.with_obstacles([Box((0.1, 0.1, 0.1), at=(1.0, 0.0, 0.0))]),
        "self-collision": panda.with_constraints(self_collision=True),
        "model": Sampler(model="panda_pose"),
    }
    for words, sampler in refused.items():
        with pytest.raises(ConfigurationError, match=words):
            sampler.on("cpu")
    for device in ("gpu", "cuda:x", "cpu:1", ""):
        with pytest.raises(ConfigurationError, match="device must be"):
            panda.on(device)
    with pytest.raises(ConfigurationError, match="needs a closed form"):
        Sampler("gen3").on("cpu").solve_all_batch([POSE])
    device = panda.on("cpu")
    for call in (
        lambda: device.sample_batch([POSE], 0),
        lambda: device.sample_batch([POSE], 20_000),
        lambda: device.sample_batch([POSE], seed=-1),
        lambda: device.sample_batch([POSE], revolutions="some"),
        lambda: device.solve_batch([POSE], near={"panda_joint1": 0.0}),
        lambda: device.solve_all_batch([POSE], 0.0),
        lambda: device.sample_batch(np.full((1, 4, 4), np.nan)),
    ):
        with pytest.raises(EimError):
            call()


def test_tensors_give_tensors_and_another_device_is_refused() -> None:
    device = sampler_of("ur5e").on("cpu")
    poses = torch.from_numpy(sampler_of("ur5e").robot.fk(configurations("ur5e", 4, False)))
    found = device.solve_all_batch(poses)
    assert isinstance(found.q, torch.Tensor) and found.q.shape == (4, 16, 6)
    assert (np.asarray(found.counts) == device.solve_all_batch(poses.numpy()).counts).all()
    assert len(found.cpu()) == int(found.counts.sum())
    with pytest.raises(PoseError, match="the poses are on meta"):
        device.solve_batch(poses.to("meta"))


def test_device_sampler_is_what_on_returns() -> None:
    assert isinstance(sampler_of("ur5e").on("cpu"), DeviceSampler)


class Foreign:
    """Array with only the methods that DLPack and the array API require."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype = array, array.dtype

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return Foreign

    @staticmethod
    def from_dlpack(other):
        return Foreign(np.from_dlpack(other))


def test_poses_of_any_library_with_dlpack_are_answered_in_this_library():
    sampler = sampler_of("panda")
    poses = sampler.robot.fk(configurations("panda", 20, special=False))
    kernels = sampler.on("cpu")
    found, expected = kernels.sample_batch(Foreign(poses), 3, seed=0), kernels.sample_batch(poses, 3, seed=0)
    for column in ("q", "counts", "errors", "status"):
        assert isinstance(getattr(found, column), Foreign)
        np.testing.assert_array_equal(getattr(found, column).array, getattr(expected, column))


def test_poses_of_other_libraries_in_single_precision_are_refused():
    poses = Foreign(np.eye(4, dtype=np.float32)[None])
    with pytest.raises(PoseError, match="must be in float64, got float32"):
        sampler_of("panda").on("cpu").solve_batch(poses)
