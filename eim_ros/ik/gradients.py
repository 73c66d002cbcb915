"""Gradients of solutions with respect to poses, for torch, by the implicit function theorem.

A solution stays one while a pose moves by dx if its joints move by dq with J dq = dx. If several dq do this, the
gradient is that of the smallest one, dq = J^+ dx, where J^+ is the pseudo-inverse of the Jacobian. So a redundant arm
does not move along its self-motion.
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

ROWS_PER_BLOCK = 4096  # working memory stays in the cache
SINGULAR = 1e-6  # singular values of a Jacobian count as zero below this part of the largest one
SAFE_PIVOT = 1e-8  # of the normal equations, relative; their solution is then right to eight digits or more


@dataclass(frozen=True)
class Linearisation:
    """What the derivative of solutions depends on."""

    setup: Setup
    position_only: bool
    targets: FloatArray  # (n_poses, 4, 4), checked
    q: FloatArray  # (n, dof), rows of all poses in turn
    counts: IntArray  # (n_poses,), number of rows of each pose

    def pulled_back(self, slopes: FloatArray) -> FloatArray:
        """Return the gradient (n_poses, 6) by translations and rotations of the poses, given that by `q` (n, dof).

        Translations and rotations are along and about the axes of the base. Rotations are about the target position.
        """
        owners, pulled = np.repeat(np.arange(len(self.counts)), self.counts), np.empty((len(self.q), 6))
        for first in range(0, len(self.q), ROWS_PER_BLOCK):
            rows = slice(first, first + ROWS_PER_BLOCK)
            pulled[rows] = self._block(self.q[rows], owners[rows], slopes[rows])
        total, has_rows = np.zeros((len(self.counts), 6)), self.counts > 0
        if len(pulled):
            total[has_rows] = np.add.reduceat(pulled, (np.cumsum(self.counts) - self.counts)[has_rows], axis=0)
        return total

    def _block(self, q: FloatArray, owners: IntArray, slopes: FloatArray) -> FloatArray:
        setup = self.setup
        jacobians, moves = setup.robot.chain.jacobian(q), setup.bounds[0] < setup.bounds[1]
        if not moves.all():
            jacobians, slopes = jacobians[:, :, moves], slopes[:, moves]
        pulled = np.zeros((len(q), 6))
        if setup.tolerances is None:
            n = 3 if self.position_only else 6
            pulled[:, :n] = pseudo_solved(jacobians[:, :n], slopes)
            return pulled
        exact = setup.tolerances == 0.0  # the solution need not move along the other axes
        exact[3:] &= not self.position_only
        targets, tips = self.targets[owners], setup.robot.chain.forward(q)
        rates = offset_rates(targets, tips, 5 - int(np.argmax(setup.tolerances[:2:-1])))[:, exact]
        pulled[:] = (rates.mT @ pseudo_solved(rates @ jacobians, slopes)[:, :, None])[:, :, 0]
        pulled[:, 3:] += np.cross(tips[:, :3, 3] - targets[:, :3, 3], pulled[:, :3])
        return pulled


def pseudo_solved(jacobians: FloatArray, slopes: FloatArray) -> FloatArray:
    """Return the products (n, m) of the transposed pseudo-inverses of `jacobians` (n, m, dof) and `slopes` (n, dof).

    They follow from the normal equations, except near singularities, where they follow from the singular values.
    """
    m, dof = jacobians.shape[1:]
    gram = jacobians @ jacobians.mT if m <= dof else jacobians.mT @ jacobians
    known = (jacobians @ slopes[:, :, None])[:, :, 0] if m <= dof else slopes
    parts, pivots = _cholesky_solved(np.ascontiguousarray(gram.transpose(1, 2, 0)), np.array(known.T))
    with np.errstate(invalid="ignore"):  # of singular rows, which are replaced below
        solved = np.array(parts.T if m <= dof else (jacobians @ parts.T[:, :, None])[:, :, 0])
    if len(bad := np.flatnonzero(~(pivots > SAFE_PIVOT))):
        inverses = np.linalg.pinv(jacobians[bad], rcond=SINGULAR)
        solved[bad] = (inverses.mT @ slopes[bad][:, :, None])[:, :, 0]
    return solved


def _cholesky_solved(gram: FloatArray, known: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve positive definite equations with `gram` (m, m, n) and `known` (m, n), which are overwritten.

    The axis of the equations is last, so that each operation works on all of them. Return also the smallest pivots (n,)
    relative to the largest diagonal entries. The solution is wrong where a pivot is not positive.
    """
    m, largest = len(gram), gram[range(len(gram)), range(len(gram))].max(axis=0, initial=1e-300)
    smallest = largest.copy()
    with np.errstate(all="ignore"):
        for i in range(m):
            np.minimum(smallest, gram[i, i], out=smallest)
            factors = gram[i + 1 :, i] / gram[i, i]
            gram[i + 1 :, i + 1 :] -= factors[:, None] * gram[None, i, i + 1 :]
            known[i + 1 :] -= factors * known[i]
        for i in reversed(range(m)):
            known[i] -= (gram[i, i + 1 :] * known[i + 1 :]).sum(axis=0)
            known[i] /= gram[i, i]
        return known, smallest / largest


def offset_rates(targets: FloatArray, tips: FloatArray, twist_axis: int) -> FloatArray:
    """Return the matrices (n, 6, 6) from velocities of tips to rates of their offsets from targets, both (n, 4, 4).

    Offsets are those of `eim_ros.kinematics.tolerances`: a swing about two axes, then a twist about the third one.
    """
    k, frames = twist_axis - 3, targets[:, :3, :3].mT
    direction = (frames @ tips[:, :3, k, None])[:, :, 0]  # of the twist's axis, seen from the target
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
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:
        (poses,), linearisation = ctx.saved_tensors, ctx.linearisation
        pulled = linearisation.pulled_back(slopes.detach().to("cpu", torch.float64).numpy())
        if poses.shape[1:] == (7,):
            found = _by_quaternions(pulled, poses.detach().to("cpu", torch.float64).numpy())
        else:
            found = _by_matrices(pulled, linearisation.targets)
        return torch.from_numpy(found).to(poses), None


def _by_quaternions(pulled: FloatArray, poses: FloatArray) -> FloatArray:
    """Return the gradient (n, 7) by positions and quaternions xyzw, which are normalised before use."""
    vector, scalar, turn = poses[:, 3:6], poses[:, 6:], pulled[:, 3:]
    parts = scalar * turn + np.cross(turn, vector), -(vector * turn).sum(axis=1, keepdims=True)
    scale = 2.0 / (poses[:, 3:] ** 2).sum(axis=1, keepdims=True)
    return np.concatenate([pulled[:, :3], scale * parts[0], scale * parts[1]], axis=1)


def _by_matrices(pulled: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the gradient (n, 4, 4) by transforms, whose rotations are replaced by the nearest orthogonal matrices."""
    found = np.zeros_like(targets)
    found[:, :3, 3] = pulled[:, :3]
    found[:, :3, :3] = 0.5 * np.cross(pulled[:, None, 3:], targets[:, :3, :3].mT).mT
    return found


def differentiable(poses: Tensor, linearisation: Linearisation) -> Tensor:
    """Return the solutions (n, dof) as a tensor with gradient, of the dtype and on the device of `poses`.

    The poses are (n_poses, 4, 4) or (n_poses, 7). The tensor can be differentiated once.
    """
    of = poses if poses.is_floating_point() else poses.double()
    found: Tensor = _Solution.apply(of, linearisation)  # type: ignore[no-untyped-call]
    return found
