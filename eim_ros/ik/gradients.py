"""Gradients of solutions with respect to poses, for torch, by the implicit function theorem.

A configuration remains a solution while the pose moves by dx if its joints move by dq with J dq = dx. If several dq
satisfy this equation, the smallest one is used: dq = J^+ dx with the pseudo-inverse J^+ of the Jacobian. A redundant
arm therefore does not move along its self-motion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.ik.setup import Setup

ROWS_PER_BLOCK = 4096  # small enough that the working memory stays in the cache
SINGULAR = 1e-6  # singular values below this share of the largest singular value count as zero
SAFE_PIVOT = 1e-8  # smallest relative pivot at which the normal equations are used; it leaves at least eight digits


@dataclass(frozen=True)
class Linearisation:
    """Solutions and targets at which the derivative is evaluated."""

    setup: Setup
    position_only: bool
    targets: FloatArray  # (n_poses, 4, 4), checked
    q: FloatArray  # (n, dof), rows of all poses in sequence
    counts: IntArray  # (n_poses,), number of rows of each pose

    def vjp(self, cotangents: FloatArray) -> FloatArray:
        """Return the vector-Jacobian product (n_poses, 6): the gradient with respect to the poses.

        `cotangents` (n, dof) is the gradient with respect to `q`. The result has columns for translations [1/m] along
        the axes of the base frame, and for rotations [1/rad] about parallel axes through the target position.
        """
        owners, pulled = np.repeat(np.arange(len(self.counts)), self.counts), np.empty((len(self.q), 6))
        for first in range(0, len(self.q), ROWS_PER_BLOCK):
            rows = slice(first, first + ROWS_PER_BLOCK)
            pulled[rows] = self._block(self.q[rows], owners[rows], cotangents[rows])
        total, has_rows = np.zeros((len(self.counts), 6)), self.counts > 0
        if len(pulled):
            total[has_rows] = np.add.reduceat(pulled, (np.cumsum(self.counts) - self.counts)[has_rows], axis=0)
        return total

    def _block(self, q: FloatArray, owners: IntArray, cotangents: FloatArray) -> FloatArray:
        setup = self.setup
        jacobians, moves = setup.robot.chain.jacobian(q), setup.bounds[0] < setup.bounds[1]
        if not moves.all():
            jacobians, cotangents = jacobians[:, :, moves], cotangents[:, moves]
        pulled = np.zeros((len(q), 6))
        if setup.tolerances is None:
            n = 3 if self.position_only else 6
            pulled[:, :n] = pinv_transposed_times(jacobians[:, :n], cotangents)
            return pulled
        exact = setup.tolerances == 0.0  # the solution need not move along the other axes
        exact[3:] &= not self.position_only
        targets, tips = self.targets[owners], setup.robot.chain.forward(q)
        rates = offset_rates(targets, tips, 5 - int(np.argmax(setup.tolerances[:2:-1])))[:, exact]
        pulled[:] = (rates.mT @ pinv_transposed_times(rates @ jacobians, cotangents)[:, :, None])[:, :, 0]
        pulled[:, 3:] += np.cross(tips[:, :3, 3] - targets[:, :3, 3], pulled[:, :3])
        return pulled


def pinv_transposed_times(jacobians: FloatArray, cotangents: FloatArray) -> FloatArray:
    """Return the products (n, m) of the transposed pseudo-inverses of Jacobians (n, m, dof) and cotangents (n, dof).

    The normal equations are solved, because this is faster than `pinv`. Near singularities, where the normal equations
    lose digits, a singular value decomposition is used instead.
    """
    m, dof = jacobians.shape[1:]
    gram = jacobians @ jacobians.mT if m <= dof else jacobians.mT @ jacobians
    known = (jacobians @ cotangents[:, :, None])[:, :, 0] if m <= dof else cotangents
    factors, failed = torch.linalg.cholesky_ex(torch.from_numpy(gram))
    parts = torch.cholesky_solve(torch.from_numpy(known)[:, :, None], factors).numpy()
    with np.errstate(invalid="ignore"):  # warnings of singular rows, which are replaced below
        solved = (parts if m <= dof else jacobians @ parts)[:, :, 0]
    diagonals = torch.diagonal(factors, dim1=1, dim2=2).numpy()
    is_safe = (failed.numpy() == 0) & (diagonals.min(axis=1) ** 2 > SAFE_PIVOT * diagonals.max(axis=1) ** 2)
    if len(bad := np.flatnonzero(~is_safe)):
        inverses = np.linalg.pinv(jacobians[bad], rcond=SINGULAR)
        solved[bad] = (inverses.mT @ cotangents[bad][:, :, None])[:, :, 0]
    return solved


def offset_rates(targets: FloatArray, tips: FloatArray, twist_axis: int) -> FloatArray:
    """Return the matrices (n, 6, 6) that map velocities of tips to rates of their offsets from targets.

    Tips and targets are poses (n, 4, 4). Rotational offsets are a swing about two axes, followed by a twist about the
    third axis, see `eim_ros.kinematics.tolerances`.
    """
    k, frames = twist_axis - 3, targets[:, :3, :3].mT
    direction = (frames @ tips[:, :3, k, None])[:, :, 0]  # direction of the twist's axis, seen from the target
    axis = np.cross(np.eye(3)[k], direction)
    sine, cosine = np.linalg.norm(axis, axis=1), direction[:, k]
    angle, is_small = np.arctan2(sine, cosine), sine < 1e-8
    turn = axis * np.where(is_small, 1.0, angle / np.where(is_small, 1.0, sine))[:, None]
    square = np.where(is_small, 1.0, angle**2)
    half = np.where(is_small, 0.5, (1.0 - cosine) / square)
    sixth = np.where(is_small, 1.0 / 6.0, (angle - sine) / (square * np.where(is_small, 1.0, angle)))
    cross = np.cross(turn[:, None], np.eye(3)).mT
    body = np.eye(3) + half[:, None, None] * cross + sixth[:, None, None] * cross @ cross  # left Jacobian of the swing
    body[:, :, k] = direction
    rates = np.zeros((len(tips), 6, 6))
    rates[:, :3, :3], rates[:, 3:, 3:] = frames, np.linalg.solve(body, frames)
    return rates


class _Solution(torch.autograd.Function):
    """Solutions as a function of poses (n_poses, 4, 4) or (n_poses, 7)."""

    @staticmethod
    def forward(ctx: Any, poses: Tensor, linearisation: Linearisation) -> Tensor:
        ctx.save_for_backward(poses)
        ctx.linearisation = linearisation
        return torch.from_numpy(linearisation.q.copy()).to(poses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangents: Tensor) -> tuple[Tensor, None]:
        (poses,), linearisation = ctx.saved_tensors, ctx.linearisation
        pulled = linearisation.vjp(cotangents.detach().to("cpu", torch.float64).numpy())
        if poses.shape[1:] == (7,):
            found = _by_quaternions(pulled, poses.detach().to("cpu", torch.float64).numpy())
        else:
            found = _by_matrices(pulled, linearisation.targets)
        return torch.from_numpy(found).to(poses), None


def _by_quaternions(pulled: FloatArray, poses: FloatArray) -> FloatArray:
    """Return the gradient (n, 7) with respect to positions and quaternions xyzw, which are normalised before use."""
    vector, scalar, turn = poses[:, 3:6], poses[:, 6:], pulled[:, 3:]
    parts = scalar * turn + np.cross(turn, vector), -(vector * turn).sum(axis=1, keepdims=True)
    scale = 2.0 / (poses[:, 3:] ** 2).sum(axis=1, keepdims=True)
    return np.concatenate([pulled[:, :3], scale * parts[0], scale * parts[1]], axis=1)


def _by_matrices(pulled: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the gradient (n, 4, 4) with respect to transforms.

    The gradient includes the replacement of each rotation by the nearest orthogonal matrix.
    """
    found = np.zeros_like(targets)
    found[:, :3, 3] = pulled[:, :3]
    found[:, :3, :3] = 0.5 * np.cross(pulled[:, None, 3:], targets[:, :3, :3].mT).mT
    return found


def differentiable(poses: Tensor, linearisation: Linearisation) -> Tensor:
    """Return the solutions (n, dof) as a tensor with gradient, with the dtype and device of `poses`.

    The poses are (n_poses, 4, 4) or (n_poses, 7). The tensor can be differentiated once.
    """
    of = poses if poses.is_floating_point() else poses.double()
    found: Tensor = _Solution.apply(of, linearisation)  # type: ignore[no-untyped-call]
    return found
