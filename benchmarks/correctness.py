"""Independent check of configurations reported as valid: count the invalid ones.

    python -m benchmarks.correctness [--poses 100000] [--instruction-sets baseline avx2] [--output FILE]

Poses come from forward kinematics of uniform random configurations. The default call of `Sampler` returns 10
configurations for each pose. If there is an included model, it is used for every other pose. Configurations reported as
valid must be within the limits of the URDF. They must reach the pose to 1e-6 m and 1e-6 rad by the product of
exponentials,

    T(q) = exp([S_1] q_1) ... exp([S_n] q_n) M.

Pinocchio computes the screws S and the zero pose M from the URDF. The product of exponentials is compared with
pinocchio's forward kinematics. Four random arms are checked in addition to the included arms. They have 6, 7, 8 and 9
joints, and the second one has a prismatic joint. The seed determines the random arms.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin

from benchmarks._machine import instruction_sets, load_average, processor, versions
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, share_path

SHIPPED = {"panda": "panda_pose", "iiwa14": "iiwa14_pose", "ur5": None}
# number of joints, and of prismatic joints
MADE_UP = {"6 joints": (6, 0), "prismatic": (7, 1), "8 joints": (8, 0), "9 joints": (9, 0)}
N = 10
TOLERANCE = 1e-6  # [m], [rad]
ROUNDING = 1e-12  # tolerated difference between two ways of computing the same pose
CHUNK = 1000  # number of poses judged together
COMPARED = 1000  # number of configurations at which the product of exponentials is compared with pinocchio


@dataclass(frozen=True, eq=False)
class Judge:
    """Arm as screws (n, 6), linear part first, and pose (4, 4) of the tip at q = 0, both in the base frame.

    The limits (n,) are infinite for continuous joints.
    """

    screws: np.ndarray
    home: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, model: pin.Model, joints: list[int], tip: int) -> Judge:
        """Build the judge from a model, its joints from base to tip, and the tip's frame. The base is the universe."""
        data = model.createData()
        zero = pin.neutral(model)
        pin.computeJointJacobians(model, data, zero)
        pin.framesForwardKinematics(model, data, zero)
        spatial = pin.getFrameJacobian(model, data, tip, pin.ReferenceFrame.WORLD)
        # pinocchio stores these joints as the cosine and sine of an angle
        turns = [model.joints[joint].nq == 2 for joint in joints]
        first = [model.joints[joint].idx_q for joint in joints]
        return cls(
            np.array([spatial[:, model.joints[joint].idx_v] for joint in joints]),
            data.oMf[tip].homogeneous,
            np.where(turns, -np.inf, model.lowerPositionLimit[first]),
            np.where(turns, np.inf, model.upperPositionLimit[first]),
        )

    def forward(self, q: np.ndarray) -> np.ndarray:
        """Return the poses (n, 4, 4) of configurations (n, n_joints)."""
        rotation, position = np.broadcast_to(np.eye(3), (len(q), 3, 3)), np.zeros((len(q), 3))
        for screw, angle in zip(self.screws, q.T, strict=True):
            turn, shift = exponential(screw, angle)
            position = position + (rotation @ shift[:, :, None])[:, :, 0]
            rotation = rotation @ turn
        poses = np.zeros((len(q), 4, 4))
        poses[:, :3, :3] = rotation @ self.home[:3, :3]
        poses[:, :3, 3] = rotation @ self.home[:3, 3] + position
        poses[:, 3, 3] = 1.0
        return poses

    def errors(self, q: np.ndarray, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return distances [m] and angles [rad], both (n,), between the tip at q (n, n_joints) and poses (n, 4, 4)."""
        reached = self.forward(q)
        turn = np.swapaxes(poses[:, :3, :3], 1, 2) @ reached[:, :3, :3]
        skew = turn - np.swapaxes(turn, 1, 2)
        sine = 0.5 * np.linalg.norm(skew[:, (2, 0, 1), (1, 2, 0)], axis=1)
        cosine = 0.5 * (np.trace(turn, axis1=1, axis2=2) - 1.0)
        return np.linalg.norm(reached[:, :3, 3] - poses[:, :3, 3], axis=1), np.arctan2(sine, cosine)

    def inside(self, q: np.ndarray) -> np.ndarray:
        """Return whether each configuration (n, n_joints) is within the limits, (n,)."""
        return np.asarray(((q >= self.lower) & (q <= self.upper)).all(axis=1))


def exponential(screw: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rotations (n, 3, 3) and translations (n, 3) of exp([S] angle), where |omega| is 1 or 0.

    The equations are 3.51 and 3.88 of Lynch and Park, Modern Robotics (2017).
    """
    linear, (x, y, z) = screw[:3], screw[3:]
    if not screw[3:].any():
        return np.broadcast_to(np.eye(3), (len(angle), 3, 3)), angle[:, None] * linear
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    square = cross @ cross
    sine, versine = np.sin(angle), 1.0 - np.cos(angle)
    rotation = np.eye(3) + sine[:, None, None] * cross + versine[:, None, None] * square
    shift = angle[:, None] * linear + versine[:, None] * (cross @ linear) + (angle - sine)[:, None] * (square @ linear)
    return rotation, shift


@dataclass
class Verdict:
    """Totals of one arm."""

    joints: int
    solved: int = 0
    configurations: int = 0
    wrong: int = 0
    distance: float = 0.0  # largest error of configurations reported as valid [m]
    angle: float = 0.0  # [rad]
    disagreement: float = 0.0  # largest difference between the judge and pinocchio [m], or in a rotation's entries
    seconds: float = 0.0  # CPU time of the calls [s]


def made_up_urdf(n_joints: int, n_prismatic: int, rng: np.random.Generator) -> str:
    """Return the URDF of a chain with random offsets, axes and limits. A quarter of the joints is continuous."""
    sliding = set(1 + rng.permutation(n_joints - 1)[:n_prismatic])
    parts = ['<robot name="made_up"><link name="link_0"/>']
    for index in range(n_joints):
        xyz, rpy = rng.uniform(-0.15, 0.15, 3) + (0.0, 0.0, 0.15), rng.uniform(-np.pi, np.pi, 3)
        axis = rng.standard_normal(3)
        low, high = rng.uniform(-3.0, -1.5), rng.uniform(1.5, 3.0)
        kind = "continuous" if rng.random() < 0.25 else "revolute"
        if index in sliding:
            kind, low, high = "prismatic", rng.uniform(-0.3, 0.0), rng.uniform(0.2, 0.4)
        limits = "" if kind == "continuous" else f'lower="{low:.17g}" upper="{high:.17g}" '
        parts += [
            f'<link name="link_{index + 1}"/><joint name="joint_{index + 1}" type="{kind}">',
            f'<parent link="link_{index}"/><child link="link_{index + 1}"/>',
            f'<origin xyz="{_words(xyz)}" rpy="{_words(rpy)}"/><axis xyz="{_words(axis / np.linalg.norm(axis))}"/>',
            f'<limit {limits}effort="1" velocity="1"/></joint>',
        ]
    parts += [
        f'<link name="tip"/><joint name="flange" type="fixed"><parent link="link_{n_joints}"/><child link="tip"/>',
        f'<origin xyz="{_words(rng.uniform(-0.1, 0.1, 3))}" rpy="{_words(rng.uniform(-np.pi, np.pi, 3))}"/></joint>',
        "</robot>",
    ]
    return "\n".join(parts)


def _words(values: np.ndarray) -> str:
    return " ".join(f"{value:.17g}" for value in values)


def judged(text: str, model: str | None, n_poses: int, seed: int) -> Verdict:
    """Sample configurations for random poses of the arm of a URDF, and check them."""
    robot, rng = Robot(text), np.random.default_rng(seed)
    samplers = [Sampler(robot)] if model is None else [Sampler.load(model, robot), Sampler(robot)]
    arm = pin.buildModelFromXML(text)
    judge = Judge.of(arm, [arm.getJointId(name) for name in robot.joint_names], arm.getFrameId(robot.tip_link))
    verdict = Verdict(robot.dof, disagreement=disagreement(judge, arm, robot, rng))
    for start in range(0, n_poses, CHUNK):
        poses = judge.forward(robot.random(min(CHUNK, n_poses - start), rng))
        began = time.process_time()
        answers = [samplers[i % len(samplers)].sample(pose, N, seed=start + i) for i, pose in enumerate(poses)]
        verdict.seconds += time.process_time() - began
        valid = [answer.q[answer.valid] for answer in answers]
        counts = np.array([len(rows) for rows in valid])
        q = np.concatenate(valid)
        distance, angle = judge.errors(q, np.repeat(poses, counts, axis=0))
        right = (distance <= TOLERANCE + ROUNDING) & (angle <= TOLERANCE + ROUNDING) & judge.inside(q)
        verdict.wrong += int(np.count_nonzero(~right))
        verdict.solved += int(np.count_nonzero(counts))
        verdict.configurations += len(q)
        verdict.distance = max(verdict.distance, distance.max(initial=0.0))
        verdict.angle = max(verdict.angle, angle.max(initial=0.0))
    return verdict


def disagreement(judge: Judge, arm: pin.Model, robot: Robot, rng: np.random.Generator) -> float:
    """Return the largest difference of an entry between poses by the product of exponentials and by pinocchio."""
    data, tip = arm.createData(), arm.getFrameId(robot.tip_link)
    rows, differences = robot.random(COMPARED, rng), []
    joints = [arm.joints[arm.getJointId(name)] for name in robot.joint_names]
    for q, pose in zip(rows, judge.forward(rows), strict=True):
        configuration = pin.neutral(arm)
        for joint, value in zip(joints, q, strict=True):
            turns = joint.nq == 2
            configuration[joint.idx_q : joint.idx_q + joint.nq] = (np.cos(value), np.sin(value)) if turns else value
        pin.framesForwardKinematics(arm, data, configuration)
        differences.append(np.abs(data.oMf[tip].homogeneous - pose).max())
    return float(max(differences))


def arms(seed: int) -> dict[str, tuple[str, str | None]]:
    """Return the URDF text and the model's name by arm name."""
    found: dict[str, tuple[str, str | None]] = {}
    for name, model in SHIPPED.items():
        found[name] = share_path(f"urdf/{name}.urdf").read_text(encoding="utf-8"), model
    for index, (name, shape) in enumerate(MADE_UP.items()):
        found[name] = made_up_urdf(*shape, np.random.default_rng((seed, index))), None
    return found


def table(verdicts: dict[str, Verdict], n_poses: int) -> list[str]:
    lines = [
        f"  {'':12}{'joints':>7}{'poses':>9}{'solved':>10}{'valid':>10}{'wrong':>7}{'largest m':>11}{'rad':>10}"
        f"{'judge off':>11}{'us/call':>9}"
    ]
    for name, it in verdicts.items():
        lines.append(
            f"  {name:12}{it.joints:7d}{n_poses:9d}{100.0 * it.solved / n_poses:9.3f}%{it.configurations:10d}"
            f"{it.wrong:7d}{it.distance:11.1e}{it.angle:10.1e}{it.disagreement:11.1e}{1e6 * it.seconds / n_poses:9.0f}"
        )
    every = verdicts.values()
    n_wrong, n_valid = sum(it.wrong for it in every), sum(it.configurations for it in every)
    return [*lines, f"  {n_wrong} wrong of {n_valid}, {n_poses * len(verdicts)} poses"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100_000, help="number of poses of each arm (default %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random arms and of the poses (default %(default)s)"
    )
    parser.add_argument("--instruction-sets", nargs="+", default=instruction_sets(), metavar="NAME")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [
        f"configurations called valid, judged by pinocchio's screws and the URDF's limits; {N} asked for per pose",
        f"seed {args.seed}, {processor()}, load {load_average()} at the start",
        f"Python {platform.python_version()}, {versions(['numpy', 'pin'])}",
    ]
    print("\n".join(lines), flush=True)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in args.instruction_sets:
        os.environ["EIM_ROS_INSTRUCTION_SET"] = name
        # a new process, because eim_ros chooses the instruction set when it is imported
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            verdicts = {
                arm: fresh.submit(judged, text, model, args.poses, args.seed).result()
                for arm, (text, model) in arms(args.seed).items()
            }
        part = ["", name, *table(verdicts, args.poses)]
        print("\n".join(part), flush=True)
        lines += part
    lines += ["", f"load {load_average()} at the end"]
    print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
