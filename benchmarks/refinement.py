"""Inverse kinematics from nothing: CPU time per solved pose of our refiner and of its peers, in one run on one thread.

    python benchmarks/refinement.py [--poses 2000] [--output benchmarks/results/refinement.txt]

Poses are forward kinematics of uniform random configurations, so each is reachable; no solver knows the configuration.
A pose counts as solved when the configuration returned is within limits and within both tolerances by forward
kinematics, ours for every solver and pinocchio's as well for ours; a claim of success that fails this is counted as
wrong. Solvers take turns of 100 poses, so that all see the same machine. Times are CPU times of the whole process (all
its threads) per call from Python, failures included. Ratios are of medians, ours = 1 at the same tolerance.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pinocchio as pin

from eim_ros.kinematics import Robot, quaternion_from_matrix, share_path

ROBOTS = ("panda", "iiwa14")
TOLERANCES = {"1e-6 m, 1e-6 rad": (1e-6, 1e-6), "1 mm, 0.1 deg": (1e-3, np.radians(0.1))}
TURN = 100
WARM_UP = 20
TRAC_IK_TIMEOUT = 0.02  # [s] of wall time
LIMIT_ROUNDING = 1e-6  # [rad] granted to the peers: TRAC-IK keeps its limits in single precision

Solver = Callable[[np.ndarray], "np.ndarray | None"]  # pose (4, 4) -> configuration it claims solves it, or nothing


@dataclass
class Record:
    seconds: list[float] = field(default_factory=list)
    solved: int = 0
    wrong: int = 0


def ours(robot: Robot, tolerances: tuple[float, float], rng: np.random.Generator) -> Solver:
    position, orientation = tolerances

    def solve(pose: np.ndarray) -> np.ndarray | None:
        result = robot.solve(pose, rng, position_tolerance=position, orientation_tolerance=orientation)
        return result.positions[0] if result.converged[0] else None

    return solve


def pinocchio_loop(robot: Robot, tolerances: tuple[float, float], rng: np.random.Generator) -> Solver:
    """The same algorithm as ours, damping, patience and restarts included, in Python around pinocchio."""
    model = pin.buildModelFromUrdf(str(share_path(f"urdf/{robot.name}.urdf")))
    data, frame = model.createData(), model.getFrameId(robot.tip_link)
    identity = np.eye(6)

    def attempt(pose: np.ndarray) -> np.ndarray | None:
        q = rng.uniform(robot.lower, robot.upper)
        least = reference = np.inf
        for iteration in range(61):
            jacobian = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
            reached = pin.updateFramePlacement(model, data, frame)
            rotation = reached.rotation
            error = np.concatenate([pose[:3, 3] - reached.translation, pin.log3(pose[:3, :3] @ rotation.T)])
            if np.linalg.norm(error[:3]) <= tolerances[0] and np.linalg.norm(error[3:]) <= tolerances[1]:
                return q
            square = error @ error
            least = min(least, square)
            if iteration % 3 == 0:
                if not least < 0.5 * reference:
                    return None
                reference = least
            push = jacobian.T @ error
            jacobian[:, ((q <= robot.lower) & (push < 0)) | ((q >= robot.upper) & (push > 0))] = 0.0
            damping = (3e-2 * square + 1e-10) * identity
            q = q + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping, error)
            q = np.minimum(np.maximum(q, robot.lower), robot.upper)
        return None

    def solve(pose: np.ndarray) -> np.ndarray | None:
        for _ in range(1000):
            q = attempt(pose)
            if q is not None:
                return q
        return None

    return solve


def roboticstoolbox(robot: Robot, tolerances: tuple[float, float], rng: np.random.Generator) -> Solver:
    """Its compiled Levenberg-Marquardt after Chan, on the same constants; residual = |error|^2 / 2."""
    from roboticstoolbox import ET, ETS

    transforms = []
    for row in robot.links:
        transform = np.eye(4)
        transform[:3, :3], transform[:3, 3] = row[:9].reshape(3, 3), row[9:12]
        transforms.append(ET.SE3(transform))
    chain = ETS(transforms[:1])
    for i in range(robot.dof):
        chain = chain * ET.Rz(jindex=i, qlim=[robot.lower[i], robot.upper[i]]) * transforms[i + 1]
    residual = 0.5 * min(tolerances) ** 2

    def solve(pose: np.ndarray) -> np.ndarray | None:
        solution = chain.ik_LM(pose, tol=residual, joint_limits=True, method="chan", k=1.0)
        return solution.q if solution.success else None

    return solve


def trac_ik(robot: Robot, tolerances: tuple[float, float], rng: np.random.Generator) -> Solver:
    import pytracik

    urdf = share_path(f"urdf/{robot.name}.urdf").read_text()
    epsilon = min(tolerances) / np.sqrt(3)  # it bounds each component, we the lengths
    solver = pytracik.TRAC_IK(robot.base_link, robot.tip_link, urdf, TRAC_IK_TIMEOUT, epsilon, pytracik.SolveType.Speed)

    def solve(pose: np.ndarray) -> np.ndarray | None:
        seed = rng.uniform(robot.lower, robot.upper)
        answer = pytracik.ik(solver, seed, *pose[:3, 3], *quaternion_from_matrix(pose))
        return np.asarray(answer[1:]) if answer[0] >= 0 else None

    return solve


SOLVERS = {
    "eim_ros": ours,
    "roboticstoolbox C++ LM (chan)": roboticstoolbox,
    "pytracik (TRAC-IK, 20 ms)": trac_ik,
    "pinocchio, Python loop": pinocchio_loop,
}


def solves(robot: Robot, q: np.ndarray, pose: np.ndarray, tolerances: tuple[float, float]) -> bool:
    (distance,), (angle,) = robot.pose_errors(q, pose)
    inside = robot.within_limits(q, tolerance=LIMIT_ROUNDING)[0]
    return bool(inside and distance <= tolerances[0] and angle <= tolerances[1])


def pinocchio_agrees(robot: Robot, q: np.ndarray, pose: np.ndarray, tolerances: tuple[float, float]) -> bool:
    model = pin.buildModelFromUrdf(str(share_path(f"urdf/{robot.name}.urdf")))
    data, frame = model.createData(), model.getFrameId(robot.tip_link)
    for configuration, target in zip(q, pose, strict=True):
        pin.framesForwardKinematics(model, data, configuration)
        reached = data.oMf[frame]
        angle = np.linalg.norm(pin.log3(reached.rotation.T @ target[:3, :3]))
        distance = np.linalg.norm(reached.translation - target[:3, 3])
        # the logarithm near zero is exact to about 1e-8 rad
        if distance > tolerances[0] + 1e-12 or angle > tolerances[1] + 2e-8:
            return False
    return bool(robot.within_limits(q).all())


def compare(robot: Robot, tolerances: tuple[float, float], poses: np.ndarray) -> dict[str, Record | str]:
    """A record for each solver, or why it could not run."""
    rng = np.random.default_rng(1)
    solvers: dict[str, Solver] = {}
    records: dict[str, Record | str] = {}
    for name, make in SOLVERS.items():
        try:
            solvers[name] = make(robot, tolerances, rng)
            records[name] = Record()
        except ImportError as error:
            records[name] = f"not run: {error} (make bench installs requirements/bench.txt)"
    for solve in solvers.values():
        for pose in poses[:WARM_UP]:
            solve(pose)
    for start in range(0, len(poses), TURN):
        for name, solve in solvers.items():
            record = records[name]
            assert isinstance(record, Record)
            answers = []
            for pose in poses[start : start + TURN]:
                before = time.process_time_ns()
                q = solve(pose)
                record.seconds.append((time.process_time_ns() - before) * 1e-9)
                answers.append(q)
            for q, pose in zip(answers, poses[start : start + TURN], strict=True):
                if q is not None:
                    good = solves(robot, q, pose, tolerances)
                    record.solved, record.wrong = record.solved + good, record.wrong + (not good)
    return records


def table(records: dict[str, Record | str]) -> list[str]:
    own = records["eim_ros"]
    assert isinstance(own, Record)
    reference = float(np.median(own.seconds))
    lines = [f"  {'solver':32}{'solved':>9}{'wrong':>7}{'median us':>11}{'mean us':>10}{'p99 us':>10}{'ratio':>8}"]
    for name, record in records.items():
        if isinstance(record, str):
            lines.append(f"  {name:32}{record}")
            continue
        times = 1e6 * np.array(record.seconds)
        share = 100 * record.solved / len(times)
        lines.append(
            f"  {name:32}{share:8.2f}%{record.wrong:7d}{np.median(times):11.1f}{times.mean():10.1f}"
            f"{np.percentile(times, 99):10.1f}{1e-6 * np.median(times) / reference:8.1f}"
        )
    return lines


def batches(robot: Robot, poses: np.ndarray) -> list[str]:
    """What a batch costs: restarts in one call, and refinement of 100 uniform seeds to one position."""
    rng = np.random.default_rng(2)
    before = time.process_time()
    result = robot.solve_many(poses, rng)
    per_pose = (time.process_time() - before) / len(poses)
    checked = pinocchio_agrees(robot, result.positions, poses, (1e-6, 1e-6))
    seeds = robot.sample_configurations(100, rng)
    lines = [
        f"  eim_ros, {len(poses)} poses in one call: {100 * result.converged.mean():.2f} % solved, "
        f"{1e6 * per_pose:.1f} us and {result.iterations.mean():.1f} steps each; "
        f"{'all within tolerance and limits' if checked else 'NOT all right'} by pinocchio"
    ]
    for position_only, what in ((True, "position"), (False, "pose")):
        times, converged = [], []
        for pose in poses[:200]:
            before = time.process_time()
            refined = robot.refine(seeds, pose, position_only=position_only)
            times.append(time.process_time() - before)
            converged.append(refined.converged.mean())
        lines.append(
            f"  eim_ros, 100 uniform seeds refined to one {what}: median {1e3 * np.median(times):.3f} ms, "
            f"{100 * np.mean(converged):.0f} % of them converge"
        )
    return lines


def header(n_poses: int) -> list[str]:
    packages = ["numpy", "numba", "pin", "roboticstoolbox-python", "pytracik"]
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except ImportError:
            versions.append(f"{package} missing")
    return [
        "Inverse kinematics of random reachable 6-d poses from uniform seeds, CPU time per call, one thread",
        f"{n_poses} poses for each robot; Python {platform.python_version()} on {platform.machine()}",
        ", ".join(versions),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--poses", type=int, default=2000, help="number of poses for each robot")
    parser.add_argument("--seed", type=int, default=0, help="of the poses")
    parser.add_argument("--output", type=Path, help="file to write the table to, as well")
    arguments = parser.parse_args()
    lines = header(arguments.poses)
    print("\n".join(lines), flush=True)
    for name in ROBOTS:
        robot = Robot.load(name)
        robot.compile()
        poses = robot.forward(robot.sample_configurations(arguments.poses, np.random.default_rng(arguments.seed)))
        for label, tolerances in TOLERANCES.items():
            part = ["", f"{name}, {label}", *table(compare(robot, tolerances, poses))]
            if tolerances == (1e-6, 1e-6):
                part += batches(robot, poses)
            print("\n".join(part), flush=True)
            lines += part
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
