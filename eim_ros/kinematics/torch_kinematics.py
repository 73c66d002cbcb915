"""Forward kinematics as a differentiable torch function around the compiled solver (float64 inside).

The gradient of the context with respect to q is exact: the position's from the linear Jacobian, a rotation column r's
from the angular one, dr = omega x r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from eim_ros.kinematics.pose import CONTEXT_KINDS, context_from_pose
from eim_ros.kinematics.robot import Robot

__all__ = ["forward_context"]


def forward_context(robot: Robot, q: Tensor, kind: str) -> Tensor:
    """Context reached by each configuration.

    Parameters
    ----------
    robot : Robot
    q : (n_samples, dof)
        Any float dtype and device.
    kind : str
        "position" or "pose".

    Returns
    -------
    (n_samples, 3) or (n_samples, 9)
        Of the dtype and device of `q`; differentiable once.
    """
    context: Tensor = _ForwardContext.apply(q, robot, kind)  # type: ignore[no-untyped-call]
    return context


class _ForwardContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, robot: Robot, kind: str) -> Tensor:
        rows = q.detach().to("cpu", torch.float64).contiguous().numpy()
        poses = robot.forward(rows)
        if ctx.needs_input_grad[0]:
            ctx.derivative = _derivative(robot.jacobian(rows), poses, kind)
        return torch.from_numpy(context_from_pose(poses, kind)).to(q)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        outer = gradient.detach().to("cpu", torch.float64).numpy()
        inner = np.einsum("nc,ncd->nd", outer, ctx.derivative)
        return torch.from_numpy(inner).to(gradient), None, None


def _derivative(jacobians: np.ndarray[Any, Any], poses: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """d context / d q (n, n_context, dof)."""
    linear, angular = jacobians[:, :3], jacobians[:, 3:]
    if CONTEXT_KINDS[kind] == 3:
        return linear
    columns = [np.cross(angular, poses[:, :3, i, None], axis=1) for i in (0, 1)]
    return np.concatenate([linear, *columns], axis=1)
