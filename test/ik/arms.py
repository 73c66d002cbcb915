"""Small arms with every joint type, and models with chosen parameters."""

from __future__ import annotations

import functools

import numpy as np
import torch
from kinematics.descriptions import ALL_TYPES, FOLLOWERS, chain_urdf, joint
from kinematics.oracle import Oracle

from eim_ros.ik import IKModel, Sampler, Solutions
from eim_ros.kinematics import CONTEXT_KINDS, SHIPPED_ROBOTS, Robot, share_path
from eim_ros.learning.models import MixtureOfExperts

__all__ = [
    "ARMS",
    "arm_and_oracle",
    "arm_of",
    "assert_no_solution",
    "broad_model",
    "constant_mixture",
    "iiwa_on_a_turning_joint",
    "reachable_pose",
    "sampler_of",
]

HINGE = '<limit lower="-2.5" upper="2.5" effort="1" velocity="1"/>'
TRAVEL = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
Z_AXIS = '<axis xyz="0 0 1"/>'


def _slide(i: int, axis: str) -> str:
    return joint(f"slide_{axis.replace(' ', '')}", "prismatic", f"l{i}", f"l{i + 1}", f'<axis xyz="{axis}"/>{TRAVEL}')


def _link(i: int, kind: str, axis: str, xyz: str) -> str:
    return joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>{HINGE}')


def _tool(i: int, xyz: str) -> str:
    return joint("tool", "fixed", f"l{i}", f"l{i + 1}", f'<origin xyz="{xyz}"/>')


ONE_JOINT = chain_urdf(_link(0, "revolute", "0 0 1", "0 0 0.1"), _tool(1, "0.5 0 0"), name="one_joint")
GANTRY = chain_urdf(_slide(0, "1 0 0"), _slide(1, "0 1 0"), _slide(2, "0 0 1"), _tool(3, "0 0 0.2"), name="gantry")
CONTINUOUS = chain_urdf(
    _link(0, "continuous", "0 0 1", "0 0 0"),
    _link(1, "continuous", "0 0 1", "1 0 0"),
    _link(2, "continuous", "0 0 1", "1 0 0"),
    _tool(3, "1 0 0"),
    name="continuous",
)
SIX_JOINTS = chain_urdf(  # a shoulder, an elbow and a spherical wrist, which give at most eight solutions
    _link(0, "revolute", "0 0 1", "0 0 0.3"),
    _link(1, "revolute", "0 1 0", "0 0 0.1"),
    _link(2, "revolute", "0 1 0", "0 0 0.4"),
    _link(3, "revolute", "0 0 1", "0 0 0.4"),
    _link(4, "revolute", "0 1 0", "0 0 0"),
    _link(5, "revolute", "0 0 1", "0 0 0"),
    _tool(6, "0 0 0.1"),
    name="six_joints",
)
TURNING = """<link name="root"/><joint name="turn" type="revolute"><parent link="root"/><child link="{base}"/>
<origin xyz="0 0 0.2" rpy="0.7 0 0"/><axis xyz="0 0 1"/><limit lower="-2.5" upper="2.5" effort="1" velocity="1"/>
</joint>"""
ARMS = {
    "one_joint": ONE_JOINT,
    "gantry": GANTRY,
    "continuous": CONTINUOUS,
    "six_joints": SIX_JOINTS,
    "all_types": ALL_TYPES,
    "followers": FOLLOWERS,
}


@functools.cache
def iiwa_on_a_turning_joint() -> Robot:
    """Return an iiwa on a turning base: eight joints, which are two more than a pose needs."""
    text, arm = share_path("urdf/iiwa14.urdf").read_text(encoding="utf-8"), Robot("iiwa14")
    joined = text.replace("</robot>", TURNING.format(base=arm.base_link) + "</robot>")
    return Robot(joined, arm.tip_link, base="root")


@functools.cache
def arm_and_oracle(name: str) -> tuple[Robot, Oracle]:
    """Return an arm of `ARMS` or an included arm, and its oracle, which uses pinocchio."""
    if name in SHIPPED_ROBOTS:
        robot, urdf = Robot(name), share_path(f"urdf/{name}.urdf").read_text()
    else:
        robot, urdf = Robot(ARMS[name]), ARMS[name]
    return robot, Oracle(urdf, robot)


def arm_of(name: str) -> Robot:
    return arm_and_oracle(name)[0]


def constant_mixture(means: np.ndarray, deviations: np.ndarray, n_context: int) -> MixtureOfExperts:
    """Return equally likely experts with means (n, dof) and deviations (dof,), which ignore the context."""
    n_experts, dof = means.shape
    return MixtureOfExperts.from_tensors(
        {
            "gating.weights": torch.zeros(n_experts, n_context, dtype=torch.float64),
            "gating.biases": torch.zeros(n_experts, dtype=torch.float64),
            "experts.weights": torch.zeros(n_experts, dof, n_context, dtype=torch.float64),
            "experts.biases": torch.tensor(means, dtype=torch.float64),
            "experts.scale_trils": torch.diag(torch.tensor(deviations, dtype=torch.float64)).repeat(n_experts, 1, 1),
        }
    )


def broad_model(robot: Robot, context_kind: str, n_experts: int = 8, seed: int = 0) -> IKModel:
    """Return experts around random configurations. Their means and probabilities depend slightly on the context."""
    generator = torch.Generator().manual_seed(seed)
    half_range = 0.5 * (robot.upper - robot.lower)
    n_context = CONTEXT_KINDS[context_kind]
    means = robot.random(n_experts, np.random.default_rng(seed))
    tensors = constant_mixture(means, 0.3 * half_range, n_context).tensors()
    for name in ("gating.weights", "experts.weights"):
        noise = torch.randn(tensors[name].shape, generator=generator, dtype=torch.float64)
        tensors[name] = 0.1 * noise
    return IKModel(MixtureOfExperts.from_tensors(tensors), robot, context_kind)


@functools.cache
def sampler_of(name: str, context_kind: str) -> Sampler:
    """Return a sampler with the broad model of an arm."""
    return Sampler(model=broad_model(arm_of(name), context_kind))


def assert_no_solution(samples: Solutions, has_attempt: bool = True) -> None:
    """Assert that an answer without a solution is empty and false, and that its best attempt is in a separate field."""
    assert not samples
    assert len(samples) == 0
    assert [q for q in samples] == []  # noqa: C416  # as a caller's loop would
    assert samples.q.shape == (0, len(samples.joint_names))
    for column in (samples.valid, samples.position_error, samples.orientation_error, samples.expert, samples.log_prob):
        assert len(column) == 0
    answer = samples.to_message()
    assert (answer["n"], len(answer["positions"]), len(answer["valid"])) == (0, 0, 0)
    assert all(values == [] for values in samples.to_dict().values())
    assert (samples.best_attempt is not None) == (samples.best_attempt_error is not None) == has_attempt
    assert len(answer["best_attempt"]) == (len(samples.joint_names) if has_attempt else 0)


def reachable_pose(robot: Robot, seed: int = 0) -> np.ndarray:
    """Return the pose (4, 4) of a random configuration within the inner 80 % of the limits."""
    q = robot.random(1, np.random.default_rng(seed))[0]
    middle = 0.5 * (robot.lower + robot.upper)
    return robot.fk(middle + 0.8 * (q - middle))
