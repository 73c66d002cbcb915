"""Metropolis moves of an arm that hold its tip, or take it along: two joints close the loop again.

All joints but two are redrawn by a step that leaves the prior unchanged, the tip is moved a little, and the two joints
i < j follow in closed form (two circles; one of the two elbows by chance). As (q_i, q_j) -> tip has the determinant
J = |p_j - p_i| |p_n - p_j| |sin gamma|, the proposal has the density J(q') and the move is accepted with probability

    min(1, f(q') prior(q_i', q_j' | others') J(q) / (f(q) prior(q_i, q_j | others) J(q')))

(Dodd, Boone, Theodorou, Molecular Physics 78, 1993, for polymers). So the likelihood f of a tip that must be at its
goal within a hundredth of a link's length is no obstacle to large changes of the posture. A line asks for one
coordinate only: there the first joint alone follows, by J = the derivative of that coordinate.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.planar.arm import PlanarArm, wrapped

__all__ = ["closed_loop", "determinant", "pair_log_prior", "prior_step", "turned_to"]


def prior_step(q: Tensor, scale_tril: Tensor, size: Tensor, generator: torch.Generator) -> Tensor:
    """Step that is reversible under N(0, scale_tril scale_tril').

    Parameters
    ----------
    q : Tensor (n, n_links)
        [rad].
    scale_tril : Tensor (n_links, n_links)
        Cholesky factor of the prior's covariance [rad].
    size : Tensor (n,)
        From 0, no step, to 1, a fresh draw.
    generator : torch.Generator
    """
    size = size.unsqueeze(-1)
    noise = torch.randn(q.shape, generator=generator, dtype=q.dtype) @ scale_tril.mT
    return (1.0 - size.square()).sqrt() * q + size * noise


def pair_log_prior(q: Tensor, precision: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Log density [nat] of two joints given the others under N(0, precision^-1), up to a constant, (n,)."""
    rows = torch.arange(len(q))
    pull = q @ precision  # A (pair - its conditional mean), with A the pair's block of the precision
    u, v = pull[rows, first], pull[rows, second]
    a, b, c = precision[first, first], precision[first, second], precision[second, second]
    return -0.5 * (c * u.square() - 2.0 * b * u * v + a * v.square()) / (a * c - b.square())


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


def turned_to(arm: PlanarArm, q: Tensor, normal: Tensor, height: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
    """Configurations whose tip has a given coordinate along a direction, by their first joint.

    Parameters
    ----------
    arm : PlanarArm
    q : Tensor (n, n_links)
        What is in the first joint is not used.
    normal : Tensor (2,)
        Unit vector.
    height : Tensor (n,)
        Wanted coordinate of the tip, normal' tip [m].
    branch : Tensor (n,)
        1 or -1: which of the two solutions.

    Returns
    -------
    q : Tensor (n, n_links)
        In [-pi, pi) at the first joint; not a number where the coordinate is out of reach.
    derivative : Tensor (n,)
        Of the coordinate by the first joint [m], absolute.
    """
    q = q.clone()
    q[:, 0] = 0.0
    tip = arm.tip(q)
    radius = tip.square().sum(-1).sqrt()
    angle = branch * torch.arccos(height / radius)
    q[:, 0] = wrapped(_angle(normal) + angle - _angle(tip))
    return q, radius * angle.sin().abs()


def _angle(vector: Tensor) -> Tensor:
    return torch.atan2(vector[..., 1], vector[..., 0])
