"""For torch tensors, the gradient of a solution describes the smallest joint motion that follows the pose."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pinocchio
import pytest
import torch
from ik.arms import arm_of
from ik.test_light_import import modules_after

from eim_ros.core.errors import PoseError
from eim_ros.ik import Sampler, Solutions
from eim_ros.ik.gradients import offset_rates, pinv_transposed_times
from eim_ros.kinematics import Robot
from eim_ros.kinematics.poses import quaternion_from_matrix
from eim_ros.kinematics.tolerances import ToleranceBox

ENOUGH = 60.0  # [s]
OPTIONS = {"seed": 0, "timeout": ENOUGH, "n_threads": 1}
ARMS = ("ur5e", "panda", "iiwa14", "gen3")
TOLERANCES = (  # a free rotation about the tool, a free direction, and only one prescribed rotation
    (0.0, 0.0, 0.0, 0.0, 0.0, np.inf),
    (0.0, np.inf, 0.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.3, np.inf, 0.0),
)


def regular(robot: Robot, n: int) -> np.ndarray:
    """Return configurations (n, dof) far from limits and singularities, where finite differences are accurate."""
    q = 0.6 * robot.random(40 * n, np.random.default_rng(3))
    values = np.linalg.svd(robot.jacobian(q), compute_uv=False)
    return q[values[:, -1] > 0.08][:n]


def as_seven(poses: np.ndarray) -> np.ndarray:
    return np.array([[*pose[:3, 3], *quaternion_from_matrix(pose)] for pose in poses])


def least_motions(robot: Robot, q: np.ndarray, n_rows: int = 6) -> np.ndarray:
    """Return pseudo-inverses (n, dof, n_rows) of Jacobians by singular value decomposition."""
    return np.linalg.pinv(robot.jacobian(q)[:, :n_rows])


def exact(robot: Robot, **constraints: Any) -> Sampler:
    """Return a sampler with a tolerance of 1e-10. With the default of 1e-6, `near` itself would be the answer."""
    return Sampler(robot).with_constraints(position_tolerance=1e-10, orientation_tolerance=1e-10, **constraints)


def check(function: Any, poses: torch.Tensor) -> None:
    """Compare the gradient with finite differences.

    The step is long compared with the tolerance of the nearest solution. It is short enough for `check_poses`, which
    accepts errors of transforms up to 1e-4. Truncation and rounding cause errors of a few millionths.
    """
    assert torch.autograd.gradcheck(function, (poses.requires_grad_(),), eps=4e-5, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("form", ["matrices", "quaternions"])
@pytest.mark.parametrize("name", ARMS)
def test_gradient_is_that_of_differences_at_100_poses(name: str, form: str) -> None:
    """When the pose moves, the solution nearest to the previous solution moves as little as possible."""
    robot, sampler = arm_of(name), exact(arm_of(name))
    configurations = regular(robot, 100 if form == "quaternions" else 20)
    assert len(configurations) == (100 if form == "quaternions" else 20)
    poses = robot.fk(configurations)
    poses = as_seven(poses) if form == "quaternions" else poses
    for q, pose in zip(configurations, torch.from_numpy(poses), strict=True):
        check(lambda moved, q=q: sampler.solve_batch(moved, near=q, **OPTIONS).q, pose[None])


def test_all_solutions_of_six_joints_have_the_gradient_of_differences() -> None:
    sampler, poses = Sampler("ur5e"), torch.from_numpy(arm_of("ur5e").fk(regular(arm_of("ur5e"), 5)))
    assert (sampler.sample_batch(poses, 20, **OPTIONS).n_per_pose >= 4).all()
    check(lambda moved: sampler.sample_batch(moved, 20, **OPTIONS).q, poses)


@pytest.mark.parametrize("name", ARMS)
def test_rows_of_a_batch_move_by_the_pseudo_inverse(name: str) -> None:
    robot = arm_of(name)
    poses = torch.from_numpy(robot.fk(regular(robot, 7))).requires_grad_()
    solutions = Sampler(robot).sample_batch(poses, 5, **OPTIONS)
    weight = torch.randn(solutions.q.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (weight * solutions.q).sum().backward()
    pulled = (weight[:, None].numpy() @ least_motions(robot, np.array(solutions)))[:, 0]
    of_poses = np.add.reduceat(pulled, np.cumsum(solutions.n_per_pose) - solutions.n_per_pose)
    assert poses.grad is not None
    np.testing.assert_allclose(poses.grad[:, :3, 3].numpy(), of_poses[:, :3], rtol=1e-6, atol=1e-6)


def test_gradient_follows_a_turned_pose() -> None:
    """A rotation of the pose about the first axis turns only the first joint."""
    robot, angle = arm_of("ur5e"), torch.zeros((), dtype=torch.float64, requires_grad=True)
    q = regular(robot, 1)[0]
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    cosine, sine = angle.cos(), angle.sin()
    turn = torch.stack([cosine, -sine, zero, zero, sine, cosine, *[zero] * 4, one, *[zero] * 4, one])
    poses = (turn.reshape(4, 4) @ torch.from_numpy(robot.fk(q)))[None]
    turned = Sampler(robot).solve_batch(poses, near=q, **OPTIONS).q
    gradients = [float(torch.autograd.grad(turned[0, i], angle, retain_graph=True)[0]) for i in range(6)]
    assert gradients == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], abs=1e-6)


def test_numbers_are_those_of_arrays() -> None:
    sampler, poses = Sampler("panda"), arm_of("panda").fk(regular(arm_of("panda"), 4))
    tensors = sampler.sample_batch(torch.from_numpy(poses), 3, seed=5)
    arrays = sampler.sample_batch(poses, 3, seed=5)
    assert isinstance(tensors.q, torch.Tensor) and isinstance(arrays.q, np.ndarray)
    np.testing.assert_array_equal(tensors.q.numpy(), arrays.q)
    np.testing.assert_array_equal(np.array(tensors), arrays.q)


def test_pose_without_solution_has_no_row_and_no_gradient() -> None:
    poses = torch.from_numpy(arm_of("panda").fk(regular(arm_of("panda"), 3)))
    poses[1, 0, 3] = 9.0
    solutions = Sampler("panda").solve_batch(poses.requires_grad_(), **OPTIONS)
    solutions.q.sum().backward()
    assert solutions.n_per_pose.tolist() == [1, 0, 1] and poses.grad is not None
    assert poses.grad[1].abs().max() == 0.0 and (poses.grad[[0, 2]].abs().amax((1, 2)) > 0.0).all()
    poses = torch.eye(4)[None].repeat(2, 1, 1)
    poses[:, 0, 3] = 9.0
    nothing = Sampler("panda").solve_batch(poses.requires_grad_(), **OPTIONS)
    nothing.q.sum().backward()
    assert not nothing and poses.grad is not None and not poses.grad.any()


def test_singular_configuration_moves_in_possible_directions_only() -> None:
    """With an aligned wrist, a UR cannot turn about one axis. The gradient remains finite."""
    robot = arm_of("ur5e")
    q = np.array([0.3, -1.2, 1.4, -0.7, 0.0, 0.5])
    poses = torch.from_numpy(robot.fk(q)[None]).requires_grad_()
    found = Sampler(robot).solve_batch(poses, near=q, **OPTIONS)
    found.q.sum().backward()
    expected = np.linalg.pinv(robot.jacobian(np.array(found)[0]), rcond=1e-6).T @ np.ones(6)
    assert poses.grad is not None
    np.testing.assert_allclose(poses.grad[0, :3, 3].numpy(), expected[:3], rtol=1e-6, atol=1e-8)


def test_fixed_joint_and_free_orientation_are_left_out() -> None:
    robot = arm_of("panda")
    q = regular(robot, 1)[0]
    fixed = exact(robot, limits={robot.joint_names[2]: (q[2], q[2])}, position_only=True)
    poses = torch.from_numpy(robot.fk(q)[None])
    check(lambda moved: fixed.solve_batch(moved, near=q, **OPTIONS).q, poses)
    slope = torch.autograd.grad(fixed.solve_batch(poses.requires_grad_(), near=q, **OPTIONS).q[0, 2], poses)[0]
    assert not slope.any()
    slope = torch.autograd.grad(fixed.solve_batch(poses.requires_grad_(), near=q, **OPTIONS).q[0, 1], poses)[0]
    assert slope[0, :3, 3].any() and not slope[0, :3, :3].any()


@pytest.mark.parametrize("tolerances", TOLERANCES)
def test_offsets_along_exact_axes_stay_zero(tolerances: tuple[float, ...]) -> None:
    """Offsets are computed by pinocchio's logarithm. The smallest joint motions are in the row space of the rates."""
    robot = arm_of("panda")
    pose, exact = robot.fk(regular(robot, 1)[0]), np.array(tolerances) == 0.0
    sampler = Sampler(robot).with_constraints(tolerances=tolerances)
    poses = torch.from_numpy(pose[None]).requires_grad_()
    solutions = sampler.sample_batch(poses, 4, **OPTIONS)
    rows, twist_axis, step = np.array(solutions), 5 - int(np.argmax(tolerances[:2:-1])), 1e-6
    rng = np.random.default_rng(0)
    for i, q in enumerate(rows):
        change = rng.normal(size=6)  # translation and rotation in the base frame
        moved = pose.copy()
        moved[:3, 3] += step * change[:3]
        moved[:3, :3] = pinocchio.exp3(step * change[3:]) @ pose[:3, :3]
        direction = (moved - pose) / step
        jacobian = [torch.autograd.grad(solutions.q[i, j], poses, retain_graph=True)[0][0].numpy() for j in range(7)]
        dq = np.array([(slope * direction).sum() for slope in jacobian])
        before = offset(pose, robot.fk(q), twist_axis)
        change_of_offset = (offset(moved, robot.fk(q + step * dq), twist_axis) - before) / step
        np.testing.assert_allclose(change_of_offset[exact], 0.0, atol=1e-3)  # error: second derivatives times the step
        assert np.abs(change_of_offset[~exact]).max() > 0.01
        free = np.linalg.svd(offset_rates(pose[None], robot.fk(q)[None], twist_axis)[0][exact] @ robot.jacobian(q))[2]
        np.testing.assert_allclose(free[exact.sum() :] @ dq, 0.0, atol=1e-4)


def offset(target: np.ndarray, tip: np.ndarray, twist_axis: int) -> np.ndarray:
    """Return the offset (6,) of a tip from a target, computed with pinocchio."""
    k, relative = twist_axis - 3, target[:3, :3].T @ tip[:3, :3]
    axis = np.cross(np.eye(3)[k], relative[:, k])
    swing = axis * np.arctan2(np.linalg.norm(axis), relative[k, k]) / np.linalg.norm(axis)
    twist = pinocchio.log3(pinocchio.exp3(swing).T @ relative)
    return np.concatenate([target[:3, :3].T @ (tip[:3, 3] - target[:3, 3]), swing + twist])


def test_rates_of_offsets_are_those_of_the_tolerance_box() -> None:
    pose, widths = arm_of("panda").fk(np.full(7, 0.4)), (0.1, 0.1, 0.1, 0.9, 0.8, 2.0)
    box = ToleranceBox.of(pose, widths, 1.0)
    offsets = box.drawn(5, np.random.default_rng(0))
    found = offset_rates(np.repeat(pose[None], 5, 0), box.poses(offsets), box.twist_axis)
    np.testing.assert_allclose(found, [box.rates(each) for each in offsets], atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 7), (6, 7), (6, 6), (6, 4), (3, 2)])
def test_pseudo_inverse_is_that_of_numpy(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    jacobians, slopes = rng.normal(size=(50, *shape)), rng.normal(size=(50, shape[1]))
    jacobians[7, :, 0] = jacobians[7, :, 1]
    jacobians[8, 0] = jacobians[8, 1]  # singular
    jacobians[9] = 0.0
    expected = (np.linalg.pinv(jacobians, rcond=1e-6).mT @ slopes[:, :, None])[:, :, 0]
    np.testing.assert_allclose(pinv_transposed_times(jacobians, slopes), expected, rtol=1e-6, atol=1e-8)


def test_dtype_is_that_of_the_poses() -> None:
    poses = torch.from_numpy(arm_of("ur5e").fk(regular(arm_of("ur5e"), 2))).float().requires_grad_()
    found = Sampler("ur5e").solve_batch(poses, **OPTIONS).q
    found.sum().backward()
    assert found.dtype == torch.float32 and poses.grad is not None and poses.grad.isfinite().all()


def test_parts_of_an_answer_keep_the_gradient() -> None:
    poses = torch.from_numpy(arm_of("ur5e").fk(regular(arm_of("ur5e"), 3))).requires_grad_()
    solutions = Sampler("ur5e").sample_batch(poses, 8, **OPTIONS)
    joined = Solutions.concatenate(list(solutions.by_pose()))
    for part in (solutions.pose(1), solutions[:3], solutions[solutions.position_error < 1.0], joined):
        assert part.q.requires_grad and len(part.q) == len(part)  # type: ignore[attr-defined]
    assert torch.equal(joined.q, solutions.q)
    assert solutions[0].requires_grad and repr(solutions) and solutions.to_json() and solutions.to_dict()
    assert isinstance(pickle.loads(pickle.dumps(solutions)).q, np.ndarray)


def test_tensor_that_is_no_batch_of_poses_is_refused() -> None:
    for poses in (torch.eye(4), torch.zeros(2, 3), torch.full((1, 4, 4), torch.nan), torch.empty(0, 7)):
        with pytest.raises(PoseError):
            Sampler("ur5e").solve_batch(poses.requires_grad_())


def test_tensor_for_one_pose_is_refused_with_the_remedy() -> None:
    with pytest.raises(PoseError, match="for tensors with a gradient, call solve_batch"):
        Sampler("ur5e").solve(torch.eye(4).requires_grad_())


def test_batches_of_arrays_do_not_import_torch() -> None:
    code = "from eim_ros import Sampler\nsampler = Sampler('ur5e')\nposes = sampler.robot.fk(sampler.robot.random(3))\n"
    code += "assert sampler.solve_batch(poses) and sampler.sample_batch(poses.tolist(), 4)"
    assert not modules_after(code) & {"torch", "eim_ros.ik.gradients"}
