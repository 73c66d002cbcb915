"""The differentiable context equals forward kinematics, and has the correct gradient, dtype and device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kinematics.robots import every_robot, robot_and_oracle

from eim_ros.ik.training import forward_context
from eim_ros.kinematics import CONTEXT_KINDS, Robot, context_from_pose

every_kind = pytest.mark.parametrize("kind", CONTEXT_KINDS)


@pytest.mark.parametrize("name", ["panda", "fetch", "all_types", "followers"])
@every_kind
def test_gradient_agrees_with_finite_differences(name: str, kind: str) -> None:
    robot, _ = robot_and_oracle(name)
    q = torch.tensor(robot.random(2, np.random.default_rng(0)), requires_grad=True)
    # for coordinates up to 10 m, central differences with step 1e-6 have errors of about 1e-8
    assert torch.autograd.gradcheck(lambda q: forward_context(robot, q, kind), (q,), eps=1e-6, atol=5e-8, rtol=0)


@every_robot
@every_kind
def test_value_is_the_context_of_the_pose(name: str, kind: str) -> None:
    robot, _ = robot_and_oracle(name)
    q = robot.random(20, np.random.default_rng(1))
    context = forward_context(robot, torch.tensor(q), kind)
    np.testing.assert_array_equal(context.numpy(), context_from_pose(robot.fk(q), kind))


@every_kind
def test_single_precision_stays_single_and_is_computed_in_double(kind: str) -> None:
    robot = Robot("iiwa14")
    q = torch.tensor(robot.random(50, np.random.default_rng(2)), dtype=torch.float32, requires_grad=True)
    context = forward_context(robot, q, kind)
    assert context.dtype == torch.float32
    exact = forward_context(robot, q.detach().double(), kind)
    torch.testing.assert_close(context.double(), exact, rtol=0, atol=6e-8 * 2)  # rounding to single precision
    (gradient,) = torch.autograd.grad(context.square().sum(), q)
    assert gradient.dtype == torch.float32
    assert gradient.shape == q.shape


def test_it_composes_with_torch_and_needs_no_gradient() -> None:
    robot = Robot("planar3")
    q = torch.zeros(4, 3, dtype=torch.float64)
    assert not forward_context(robot, q, "position").requires_grad
    q.requires_grad_()
    doubled = forward_context(robot, (2 * q).flip(0), "position")[:, 1].sum()  # height: d y / d q = 2 (3, 2, 1)
    (gradient,) = torch.autograd.grad(doubled, q)
    torch.testing.assert_close(gradient, torch.tensor([[6.0, 4.0, 2.0]], dtype=torch.float64).repeat(4, 1))
    assert forward_context(robot, q[:0], "pose").shape == (0, 9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_accepts_tensors_on_a_gpu() -> None:
    robot = Robot("iiwa14")
    q = torch.zeros(3, 7, device="cuda", requires_grad=True)
    context = forward_context(robot, q, "pose")
    assert context.device == q.device
    context.sum().backward()
    assert q.grad is not None
