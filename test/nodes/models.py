"""Small models with broad experts around random configurations, which are built quickly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from eim_ros.ik import IKModel
from eim_ros.kinematics import CONTEXT_KINDS, Robot
from eim_ros.learning.models import MixtureOfExperts

N_EXPERTS = 8
SPREAD = 0.3  # standard deviation of each joint as a fraction of half its range


def save_small_model(path: Path, robot_name: str, context_kind: str) -> Path:
    """Write a mixture that ignores the context. The refinement of the sampler still finds solutions."""
    robot = Robot(robot_name)
    n_context, half_range = CONTEXT_KINDS[context_kind], 0.5 * (robot.upper - robot.lower)
    means = robot.random(N_EXPERTS, np.random.default_rng(0))
    tensors = {
        "gating.weights": torch.zeros(N_EXPERTS, n_context),
        "gating.biases": torch.zeros(N_EXPERTS),
        "experts.weights": torch.zeros(N_EXPERTS, robot.dof, n_context),
        "experts.biases": torch.tensor(means, dtype=torch.float32),
        "experts.scale_trils": torch.diag(torch.tensor(SPREAD * half_range, dtype=torch.float32)).repeat(
            N_EXPERTS, 1, 1
        ),
    }
    IKModel(MixtureOfExperts.from_tensors(tensors), robot, context_kind).save(path)
    return path
