"""Metropolis moves of an arm that hold its tip, or take it along: two joints close the loop again.

All joints but two are redrawn by a step that leaves the prior unchanged, the tip is moved a little, and the two joints
i < j follow in closed form (two circles; one of the two elbows by chance). As (q_i, q_j) -> tip has the determinant
J = |p_j - p_i| |p_n - p_j| |sin gamma|, the proposal has the density J(q') and the move is accepted with probability

    min(1, f(q') prior(q_i') prior(q_j') J(q) / (f(q) prior(q_i) prior(q_j) J(q')))

(Dodd, Boone, Theodorou, Molecular Physics 78, 1993, for polymers). So the likelihood f of a tip that must be at its
goal within a hundredth of a link's length is no obstacle to large changes of the posture.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.planar.arm import PlanarArm, wrapped

__all__ = ["closed_loop", "determinant", "prior_step"]


def prior_step(q: Tensor, deviation: Tensor, size: Tensor, mask: Tensor, generator: torch.Generator) -> Tensor:
    """Step that is reversible under N(0, deviation^2), for some joints.

    Parameters
    ----------
    q : Tensor (n, n_links)
        [rad].
    deviation : Tensor (n_links,)
        Standard deviations of the prior [rad].
    size : Tensor (n,)
        From 0, no step, to 1, a fresh draw.
    mask : Tensor (n, n_links) of bool
        Joints that move.
    generator : torch.Generator
    """
    size = size.unsqueeze(-1)
    noise = torch.randn(q.shape, generator=generator, dtype=q.dtype)
    return torch.where(mask, (1.0 - size.square()).sqrt() * q + size * deviation * noise, q)


def closed_loop(
    arm: PlanarArm, q: Tensor, first: Tensor, second: Tensor, tip: Tensor, elbow: Tensor
) -> tuple[Tensor, Tensor]:
    """Configurations whose tip is where it shall be, by two joints of each.

    Parameters
    ----------
    arm : PlanarArm
    q : Tensor (n, n_links)
        What is in the two joints is not used.
    first, second : Tensor (n,) of int64
        The joints, first < second.
    tip : Tensor (n, 2)
        [m].
    elbow : Tensor (n,)
        1 or -1: which of the two solutions.

    Returns
    -------
    q : Tensor (n, n_links)
        In [-pi, pi) at the two joints; not a number where the tip is out of reach.
    determinant : Tensor (n,)
        Of the tip's derivative by the two joints [m^2], absolute.
    """
    rows = torch.arange(len(q))
    q = q.clone()
    q[rows, first] = 0.0
    q[rows, second] = 0.0
    points = arm.points(q)
    begin, hinge = points[rows, first], points[rows, second]
    upper, lower, way = hinge - begin, points[:, -1] - hinge, tip - begin
    lengths = upper.norm(dim=-1) * lower.norm(dim=-1)
    cosine = (way.square().sum(-1) - upper.square().sum(-1) - lower.square().sum(-1)) / (2.0 * lengths)
    bend = elbow * torch.arccos(cosine)
    q[rows, second] = wrapped(bend - _angle(lower) + _angle(upper))
    ends = arm.points(q)[:, -1] - begin
    q[rows, first] = wrapped(_angle(way) - _angle(ends))
    return q, lengths * bend.sin().abs()


def determinant(points: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """That of `closed_loop` for a present configuration with these points (n, n_links + 1, 2), (n,) [m^2]."""
    rows = torch.arange(len(points))
    begin, hinge = points[rows, first], points[rows, second]
    upper, lower = hinge - begin, points[:, -1] - hinge
    return (upper[:, 0] * lower[:, 1] - upper[:, 1] * lower[:, 0]).abs()


def _angle(vector: Tensor) -> Tensor:
    return torch.atan2(vector[..., 1], vector[..., 0])
