"""Accuracy of the running service for iiwa 14 and Panda: share of solved poses and wrong "valid" claims.

    python -m benchmarks.service_accuracy [--output benchmarks/results/service_accuracy.txt]

The real node `ik_server` runs in a separate process with each robot's shipped model and answers over DDS. For each
robot, 1000 random reachable poses are requested first as positions, then as full poses, with random request sizes.
Pinocchio checks each configuration marked valid against its own reading of the URDF, including the limits.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pinocchio as pin

from eim_ros.cli.processes import ServerProcess, Waiting
from eim_ros.kinematics import Robot, quaternion_from_matrix, share_path

TOLERANCE = 1e-6  # [m] and [rad], the service's default
ROUNDING = 1e-9  # tolerated difference between two implementations of forward kinematics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--poses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = [
        f"random reachable poses through the service, seed {args.seed}; checked by pinocchio {version('pin')}",
        f"Python {platform.python_version()}, {platform.machine()}",
        "",
        f"{'robot':>8} {'request':>9} {'poses':>6} {'solved':>8} {'valid':>7} {'wrong':>6} {'largest error [m]':>18}",
    ]
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    for number, name in enumerate(("iiwa14", "panda")):
        for position_only in (True, False):
            lines.append(_measure(name, position_only, args.poses, args.seed, _domain() + number))
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.output:
        args.output.write_text(text, encoding="utf-8")


def _measure(name: str, position_only: bool, n_poses: int, seed: int, domain_id: int) -> str:
    from geometry_msgs.msg import Pose

    from eim_ros.nodes import IKClient, solutions_of
    from eim_ros.nodes.common.interfaces import SampleIK

    robot = Robot(name)
    oracle = _Oracle(robot)
    rng = np.random.default_rng(seed)
    poses = robot.fk(robot.random(n_poses, rng))
    solved = n_valid = wrong = 0
    largest = 0.0
    os.environ["ROS_DOMAIN_ID"] = str(domain_id)
    model = share_path(f"config/models/{name}_position.safetensors")
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess({"model": str(model)}, domain_id, Path(folder)) as server,
        Waiting("ik_server", [server]) as waiting,
        IKClient(SampleIK, "/ik_server/sample_ik", wait=math.inf, watch=waiting) as client,
    ):
        for pose in poses:
            request = SampleIK.Request(poses=[Pose()])
            request.header.frame_id = robot.base_link
            position, orientation = request.poses[0].position, request.poses[0].orientation
            position.x, position.y, position.z = map(float, pose[:3, 3])
            orientation.x, orientation.y, orientation.z, orientation.w = map(float, quaternion_from_matrix(pose))
            request.n_samples = int(rng.integers(1, 20))
            request.seed = int(rng.integers(2**31))
            request.constraints.position_only = position_only
            solutions = solutions_of(client.call(request))
            solved += bool(solutions)
            for row in solutions[solutions.valid]:
                error, inside = oracle.measure(row, pose, position_only)
                n_valid += 1
                wrong += error > TOLERANCE + ROUNDING or not inside
                largest = max(largest, error)
    kind = "position" if position_only else "pose"
    return f"{name:>8} {kind:>9} {n_poses:>6} {solved / n_poses:>8.2%} {n_valid:>7} {wrong:>6} {largest:>18.2e}"


class _Oracle:
    """Independent check with pinocchio's model of the shipped URDF."""

    def __init__(self, robot: Robot) -> None:
        self._model = pin.buildModelFromXML(robot.urdf)
        self._data = self._model.createData()
        self._base = self._model.getFrameId(robot.base_link)
        self._tip = self._model.getFrameId(robot.tip_link)
        self._columns = [self._model.joints[self._model.getJointId(joint)].idx_q for joint in robot.joint_names]

    def measure(self, row: np.ndarray, pose: np.ndarray, position_only: bool) -> tuple[float, bool]:
        """Return the larger of the position error [m] and the orientation error [rad], and whether the limits hold."""
        q = pin.neutral(self._model)
        q[self._columns] = row
        pin.framesForwardKinematics(self._model, self._data, q)
        tip = self._data.oMf[self._base].actInv(self._data.oMf[self._tip])
        error = float(np.linalg.norm(tip.translation - pose[:3, 3]))
        if not position_only:
            error = max(error, float(np.linalg.norm(pin.log3(tip.rotation.T @ pose[:3, :3]))))
        low, high = self._model.lowerPositionLimit, self._model.upperPositionLimit
        return error, bool((q >= low).all() and (q <= high).all())


def _domain() -> int:
    return random.Random(os.getpid()).randint(1, 90)


if __name__ == "__main__":
    main()
