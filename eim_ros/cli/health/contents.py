"""Robots and models that come with the package, and a pose solved with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from eim_ros.cli.health.finding import FAULT, GOOD, Finding, one_line

__all__ = ["models", "robots", "solving"]

REINSTALL = "make setup in the clone, or pip install . again; colcon: build and source install/setup.bash"


def robots() -> list[Finding]:
    """Whether each shipped robot can be read."""
    try:
        from eim_ros.kinematics import SHIPPED_ROBOTS, Robot
    except Exception as error:  # of a broken installation
        return [Finding("robots", FAULT, one_line(error), REINSTALL)]
    return _loaded("robots", SHIPPED_ROBOTS, Robot.load)


def models() -> list[Finding]:
    """Whether each shipped model can be read, and is that of its robot."""
    try:
        from eim_ros.ik.model import SHIPPED_MODELS, IKModel
    except Exception as error:
        return [Finding("models", FAULT, one_line(error), REINSTALL)]
    return _loaded("models", SHIPPED_MODELS, IKModel.load)


def _loaded(kind: str, names: Collection[str], load: Callable[[str], object]) -> list[Finding]:
    """What is wrong with those that cannot be loaded, or that all can."""
    findings = []
    for name in names:
        try:
            load(name)
        except Exception as error:
            findings.append(Finding(kind, FAULT, f"{name}: {one_line(error)}", REINSTALL))
    return findings or [Finding(kind, GOOD, f"{len(names)} of {len(names)}")]


def solving() -> list[Finding]:
    """Whether a pose of a shipped model is solved, as forward kinematics without the compiled solver confirms."""
    try:
        import numpy as np

        from eim_ros.ik import Sampler
        from eim_ros.kinematics.body_shapes import tip_poses

        sampler = Sampler.load("panda_pose")
        robot = sampler.robot
        pose = robot.forward(np.zeros(robot.dof).clip(robot.lower, robot.upper))
        began = time.perf_counter()
        samples = sampler.sample(pose, 10, 0)
        took = time.perf_counter() - began
        worst = float(np.linalg.norm(tip_poses(robot, samples.q)[:, :3, 3] - pose[:3, 3], axis=1).max(initial=0.0))
    except Exception as error:
        return [Finding("solving", FAULT, one_line(error), REINSTALL)]
    told = f"{int(samples.valid.sum())} solutions of a pose in {1e3 * took:.1f} ms, off by {worst:.1e} m"
    if not samples or not worst < 2e-6:
        return [
            Finding("solving", FAULT, told, f"the compiled solver is not to be trusted on this machine: {REINSTALL}")
        ]
    return [Finding("solving", GOOD, told)]
