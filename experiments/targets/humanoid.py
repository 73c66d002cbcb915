"""Postures of a humanoid with two given footholds and a point to reach for (TALOS; Pignat et al. 2020).

x contains the joints of the tree, the position of its base [m], and the roll, pitch and yaw of the base [rad]. These
angles are rotations about the fixed axes x, y and z, in this order. The log density is the sum of four kinds of terms:

    each joint         log Phi((upper - q) / 0.05) + log Phi((q - lower) / 0.05)
    centre of mass     the same for its distance from the left foot in x and in y, limits +-0.14 m, scale 0.01 m
    each foot          log N(position; goal, 0.02^2 I) + log N(entries of the rotation matrix; identity, 0.1^2 I)
    hand               log N(position; goal, 0.02^2 I)

The standard deviations are from the authors' code. The text of Arenz et al. 2023 has 0.2 m for the feet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture
from eim_ros.view.style import FAINT, GROUP_COLOURS, INK, LIMITS, MUTED, new_figure, write_figure
from experiments.targets.poses import soft_limits
from experiments.targets.target import MixtureStart, checked_samples
from experiments.targets.tree import KinematicTree, read_tree

LOG_TWO_PI = math.log(2.0 * math.pi)
LEFT_FOOT, RIGHT_FOOT, HAND = 0, 1, 2  # tips of the tree
TALOS_TIPS = ("left_sole_link", "right_sole_link", "gripper_left_base_link", "gripper_right_base_link")
TALOS_FEET = ((-0.02, 0.09, 0.0), (-0.02, -0.09, 0.0))


@dataclass(frozen=True)
class HumanoidPosterior:
    """Posterior density of the joints and the base.

    Attributes
    ----------
    tree : KinematicTree
        Tree of joints. Its tips are the left foot, the right foot, the hand, and further tips. The joints of these
        further tips can move, but their poses do not matter.
    hand_goal : Tensor (3,)
        [m].
    foot_goals : Tensor (2, 3)
        Goals of the left and the right foot [m].
    balance : float
        Largest distance of the centre of mass from the left foot, in x and in y [m].
    limit_scale, balance_scale, position_scale, rotation_scale : float
        Standard deviations of joint limits [rad], balance [m], feet and hand [m], and entries of the feet's rotation
        matrices.
    """

    tree: KinematicTree
    hand_goal: Tensor
    foot_goals: Tensor
    balance: float = 0.14
    limit_scale: float = 0.05
    balance_scale: float = 0.01
    position_scale: float = 0.02
    rotation_scale: float = 0.1

    def __post_init__(self) -> None:
        if len(self.tree.tip_frames) < 3 or self.hand_goal.shape != (3,) or self.foot_goals.shape != (2, 3):
            raise DistributionError(
                "expected a tree with two feet and a hand, a goal (3,) of the hand and goals (2, 3) of the feet, got "
                f"{len(self.tree.tip_frames)} tips, {tuple(self.hand_goal.shape)}, {tuple(self.foot_goals.shape)}"
            )

    @property
    def n_dims(self) -> int:
        return self.tree.n_joints + 6

    @property
    def start(self) -> MixtureStart:
        """One standard normal component."""
        return MixtureStart.isotropic(self.n_dims, 1, 1.0, 1.0)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the unnormalised log density [nat], (n_samples,)."""
        return self.log_prob_and_score(x)[0]

    def score(self, x: Tensor) -> Tensor:
        """Return the gradient of the log density, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log density and its gradient, with one evaluation of the kinematics.

        In the code, forces are gradients with respect to positions in the world frame. Torques are gradients with
        respect to rotations about the origin of the base.
        """
        x = checked_samples(x, self.n_dims)
        tree, n = self.tree, self.tree.n_joints
        q, base = x[:, :n], _rotation(x[:, n + 3 :])
        frames = tree.forward(q)
        tips = [tree.tip(frames, index) for index in (LEFT_FOOT, RIGHT_FOOT, HAND)]
        arms = [_turned(base, position) for _, position in tips]  # relative to the base's origin, in world axes
        centre = _turned(base, tree.centre_of_mass(frames))

        log_prob, limit_slope = soft_limits(q, tree.lower, tree.upper, self.limit_scale)
        balance, pull = soft_limits((centre - arms[LEFT_FOOT])[:, :2], -self.balance, self.balance, self.balance_scale)
        on_centre = torch.cat([pull, torch.zeros_like(pull[:, :1])], -1)
        goals = torch.cat([self.foot_goals, self.hand_goal[None]])
        errors = [goal - x[:, n : n + 3] - arm for goal, arm in zip(goals, arms, strict=True)]
        forces = [error / self.position_scale**2 for error in errors]
        forces[LEFT_FOOT] = forces[LEFT_FOOT] - on_centre
        rotations = [base @ tips[foot][0] for foot in (LEFT_FOOT, RIGHT_FOOT)]
        # The column r_k of a rotation is pulled towards its unit vector e_k: r_k x (e_k - r_k) = r_k x e_k.
        torques = [_towards_identity(rotation) / self.rotation_scale**2 for rotation in rotations]
        squares = sum(error.square().sum(-1) for error in errors) / self.position_scale**2
        turns = sum((rotation - torch.eye(3, dtype=x.dtype)).square().sum((-2, -1)) for rotation in rotations)
        log_prob = log_prob + balance - 0.5 * (squares + turns / self.rotation_scale**2) - self._constant

        frame_forces, frame_torques = tree.force_on_centre(frames, _turned(base.mT, on_centre))
        whole_torque = torch.linalg.cross(centre, on_centre)
        for index in (LEFT_FOOT, RIGHT_FOOT, HAND):
            torque = torch.linalg.cross(arms[index], forces[index])
            if index != HAND:
                torque = torque + torques[index]
            frame_forces[:, tree.tip_frames[index]] += _turned(base.mT, forces[index])
            frame_torques[:, tree.tip_frames[index]] += _turned(base.mT, torque)
            whole_torque = whole_torque + torque
        of_joints = limit_slope + tree.joint_gradient(frames, frame_forces, frame_torques)
        of_position = on_centre + forces[LEFT_FOOT] + forces[RIGHT_FOOT] + forces[HAND]
        of_angles = (_angle_axes(x[:, n + 3 :]) * whole_torque.unsqueeze(1)).sum(-1)
        return log_prob, torch.cat([of_joints, of_position, of_angles], -1)

    def skeleton(self, x: Tensor) -> Tensor:
        """Return a line from each joint and tip to its parent frame, (n_samples, n_lines, 2, 3) [m]."""
        x = checked_samples(x, self.n_dims)
        tree, n = self.tree, self.tree.n_joints
        frames = tree.forward(x[:, :n])
        tips = [tree.tip(frames, index)[1] for index in range(len(tree.tip_frames))]
        ends = torch.cat([frames.origins[:, 1:], torch.stack(tips, 1)], 1)
        starts = frames.origins[:, [*tree.parents.tolist(), *tree.tip_frames]]
        base = _rotation(x[:, n + 3 :]).unsqueeze(1).unsqueeze(1)
        return _turned(base, torch.stack([starts, ends], 2)) + x[:, None, None, n : n + 3]

    @property
    def _constant(self) -> float:
        """Negative log normaliser of the normal densities: 9 coordinates of positions, 18 entries of rotations."""
        return 13.5 * LOG_TWO_PI + 9.0 * math.log(self.position_scale) + 18.0 * math.log(self.rotation_scale)


def humanoid(
    urdf: str | Path,
    tips: Sequence[str] = TALOS_TIPS,
    *,
    base: str | None = "base_link",
    hand_goal: Sequence[float] = (0.1, 0.5, 1.0),
    foot_goals: Sequence[Sequence[float]] = TALOS_FEET,
) -> HumanoidPosterior:
    """Return the target for the URDF of a humanoid. The defaults are for TALOS: 28 joints give 34 dimensions.

    Parameters
    ----------
    urdf : str or Path
        Path or XML text, with inertias.
    tips : sequence of str
        Links of the left foot, the right foot and the reaching hand, and further links whose joints can move.
    base : str, optional
        Link above all tips; the root if None.
    hand_goal : (3,)
        [m].
    foot_goals : (2, 3)
        [m].

    Returns
    -------
    HumanoidPosterior
    """
    hand, feet = (torch.tensor(goal, dtype=torch.float64) for goal in (hand_goal, foot_goals))
    return HumanoidPosterior(read_tree(urdf, tips, base), hand, feet)


def _turned(rotation: Tensor, vector: Tensor) -> Tensor:
    return (rotation @ vector.unsqueeze(-1)).squeeze(-1)


def _towards_identity(rotation: Tensor) -> Tensor:
    """Return sum_k r_k x e_k over the columns r_k, (n_samples, 3)."""
    return torch.stack(
        [
            rotation[:, 1, 2] - rotation[:, 2, 1],
            rotation[:, 2, 0] - rotation[:, 0, 2],
            rotation[:, 0, 1] - rotation[:, 1, 0],
        ],
        -1,
    )


def _rotation(angles: Tensor) -> Tensor:
    """Return Rz(yaw) Ry(pitch) Rx(roll), (n_samples, 3, 3), from angles (n_samples, 3)."""
    (cr, cp, cy), (sr, sp, sy) = angles.cos().unbind(-1), angles.sin().unbind(-1)
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def _angle_axes(angles: Tensor) -> Tensor:
    """Return the world axes of roll, pitch and yaw as rows, (n_samples, 3, 3)."""
    (_, cp, cy), (_, sp, sy) = angles.cos().unbind(-1), angles.sin().unbind(-1)
    zero, one = torch.zeros_like(cy), torch.ones_like(cy)
    rows = [[cy * cp, sy * cp, -sp], [-sy, cy, zero], [zero, zero, one]]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


# horizontal and vertical coordinate of each view
VIEWS = (("from the front", 1, 2), ("from the side", 0, 2), ("from above", 0, 1))
MARGIN = 0.1  # [m]


def draw_humanoid(
    target: HumanoidPosterior,
    mixture: GaussianMixture,
    path: str | Path,
    *,
    n_drawn: int = 8,
    generator: torch.Generator | None = None,
    title: str = "",
) -> Path:
    """Write a PNG of sampled postures from three sides.

    Lines connect the joints in the colour of the posture's component. Crosses mark the goals of feet and hand.

    Parameters
    ----------
    target : HumanoidPosterior
    mixture : GaussianMixture
        Mixture over joints, then position [m] and roll, pitch, yaw [rad] of the base.
    path : path
        Path of the PNG.
    n_drawn : int
        Number of postures.
    generator : torch.Generator, optional
        By default, a generator with seed 0.
    title : str
        Title above all views.

    Returns
    -------
    Path
    """
    generator = generator or torch.Generator().manual_seed(0)
    sample, component = mixture.sample_with_components(n_drawn, generator)
    segments = target.skeleton(sample)
    goals = torch.cat([target.foot_goals, target.hand_goal[None]])
    figure = new_figure(10.0, 4.6)
    for axes, (name, across, up) in zip(figure.subplots(1, len(VIEWS)), VIEWS, strict=True):
        _draw_view(axes, segments[..., [across, up]], component, goals[:, [across, up]])
        axes.set_title(f"{name} [m]", fontsize=9, color=INK)
    if title:
        figure.suptitle(title, fontsize=11, color=INK)
    return write_figure(figure, Path(path))


def _draw_view(axes: Axes, segments: Tensor, component: Tensor, goals: Tensor) -> None:
    """Draw segments (n_samples, n_segments, 2, 2) in the plane of the view [m]."""
    for posture, number in zip(segments, component.tolist(), strict=True):
        colour = GROUP_COLOURS[number % len(GROUP_COLOURS)]
        axes.add_collection(LineCollection(list(posture.numpy()), colors=colour, linewidths=1.4, alpha=0.7))
    axes.plot(goals[:, 0], goals[:, 1], "+", color=INK, markersize=9, zorder=3)
    points = torch.cat([segments.flatten(0, 2), goals])
    (left, low), (right, high) = (points.amin(0) - MARGIN).tolist(), (points.amax(0) + MARGIN).tolist()
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.grid(color=FAINT, linewidth=0.5)
    axes.tick_params(labelsize=7, colors=MUTED, length=0)
    for spine in axes.spines.values():
        spine.set_color(LIMITS)
