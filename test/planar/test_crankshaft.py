"""Moves that close the loop: the tip is where it shall be, and the determinant is that of the derivative."""

import torch

from eim_ros.planar import PlanarArm
from eim_ros.planar.crankshaft import closed_loop, determinant, prior_step

ARM = PlanarArm(n_links=5)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_closed_loop_puts_the_tip_where_it_shall_be_by_two_joints_alone():
    q = 0.6 * torch.randn(200, 5, generator=generator(), dtype=torch.float64)
    tip = ARM.tip(q) + 0.01
    first, second = torch.full((200,), 1), torch.full((200,), 3)
    for elbow in (1.0, -1.0):
        closed, after = closed_loop(ARM, q, first, second, tip, torch.full((200,), elbow).double())
        reached = torch.isfinite(closed).all(-1)
        assert reached.sum() > 150
        torch.testing.assert_close(ARM.tip(closed)[reached], tip[reached], rtol=0.0, atol=1e-12)
        assert torch.equal(closed[reached][:, [0, 2, 4]], q[reached][:, [0, 2, 4]])
        again = determinant(ARM.points(closed), first, second)
        torch.testing.assert_close(again[reached], after[reached], rtol=0.0, atol=1e-10)


def test_present_configuration_is_one_of_the_two_solutions():
    q = 0.6 * torch.randn(200, 5, generator=generator(), dtype=torch.float64)
    pair = torch.zeros(200, dtype=torch.int64), torch.full((200,), 2)
    both = [closed_loop(ARM, q, *pair, ARM.tip(q), torch.full((200,), elbow).double())[0] - q for elbow in (1.0, -1.0)]
    error = torch.stack([torch.remainder(d + 1.0, 2.0 * torch.pi).sub(1.0).abs().amax(-1) for d in both])
    assert error.nan_to_num(torch.inf).amin(0).max() < 1e-7  # an arccos near 1 loses half the digits


def test_determinant_is_that_of_the_derivative_of_the_tip():
    q = torch.randn(4, 5, generator=generator(), dtype=torch.float64)
    first, second = torch.tensor([0, 1, 0, 3]), torch.tensor([1, 4, 4, 4])
    found = determinant(ARM.points(q), first, second)
    for row in range(4):
        jacobian = torch.autograd.functional.jacobian(ARM.tip, q[row])
        expected = torch.linalg.det(jacobian[:, [int(first[row]), int(second[row])]]).abs()
        torch.testing.assert_close(found[row], expected, rtol=1e-10, atol=1e-12)


def test_prior_step_keeps_the_prior():
    deviation = torch.tensor([2.0, 0.5]).double()
    rng = generator()
    q = deviation * torch.randn(100_000, 2, generator=rng, dtype=torch.float64)
    moved = prior_step(q, deviation, torch.full((100_000,), 0.7).double(), torch.ones(1, 2, dtype=torch.bool), rng)
    # standard errors: of a mean 1/316 sd, of an sd 1/447
    torch.testing.assert_close(moved.mean(0) / deviation, torch.zeros(2).double(), rtol=0.0, atol=0.015)
    torch.testing.assert_close(moved.std(0) / deviation, torch.ones(2).double(), rtol=0.0, atol=0.01)
    mean_product = (moved * q).mean(0) / deviation.square()
    torch.testing.assert_close(mean_product, torch.full((2,), (1.0 - 0.49) ** 0.5).double(), rtol=0.0, atol=0.02)
