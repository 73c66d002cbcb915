"""CPU time of inverse kinematics without an initial guess: our refiner and its peers, in one run on one thread.

    python -m benchmarks.refinement [--poses 2000] [--output benchmarks/results/refinement.txt]

Poses come from forward kinematics of uniform random configurations that no solver knows. A pose is solved if the
returned configuration is within the limits and both tolerances. Our forward kinematics checks every solver, and
pinocchio also checks ours. A claim of success that fails the check counts as wrong. Solvers take turns of 100 poses, so
all experience the same load. Times are CPU times of all threads for one call from Python, including failures. Ratios
compare medians with ours at the same tolerance.
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
from pathlib import Path

import numpy as np
import pinocchio as pin

from benchmarks._machine import versions
from benchmarks._peers import Case, Solver, pinocchio_loop, roboticstoolbox, trac_ik, uniform_seeds
from eim_ros.kinematics import Robot, share_path

ROBOTS = ("panda", "iiwa14")
TOLERANCES = {"1e-6 m, 1e-6 rad": (1e-6, 1e-6), "1 mm, 0.1 deg": (1e-3, np.radians(0.1))}
TURN = 100
WARM_UP = 20
LIMIT_ROUNDING = 1e-6  # [rad], tolerated because TRAC-IK stores its limits in single precision


@dataclass
class Record:
    seconds: list[float] = field(default_factory=list)
    solved: int = 0
    wrong: int = 0


SOLVERS: dict[str, Callable[[Case, np.random.Generator], Solver]] = {
    "eim_ros": uniform_seeds,
    "roboticstoolbox C++ LM (chan)": roboticstoolbox,
    "pytracik (TRAC-IK, 100 ms)": trac_ik,
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
        # close to zero, the logarithm is accurate to about 1e-8 rad
        if distance > tolerances[0] + 1e-12 or angle > tolerances[1] + 2e-8:
            return False
    return bool(robot.within_limits(q).all())


def compare(robot: Robot, tolerances: tuple[float, float], poses: np.ndarray) -> dict[str, Record | str]:
    """Return a record for each solver, or the reason why it could not run."""
    rng = np.random.default_rng(1)
    case = Case(robot, share_path(f"urdf/{robot.name}.urdf"), tolerances)
    solvers: dict[str, Solver] = {}
    records: dict[str, Record | str] = {}
    for name, make in SOLVERS.items():
        try:
            solvers[name] = make(case, rng)
            records[name] = Record()
        except ImportError as error:
            records[name] = f"not run: {error} (make bench installs requirements/bench.txt)"
    for solve in solvers.values():
        for pose in poses[:WARM_UP]:
            solve(pose)()
    for start in range(0, len(poses), TURN):
        for name, solve in solvers.items():
            record = records[name]
            assert isinstance(record, Record)
            answers = []
            for pose in poses[start : start + TURN]:
                attempt = solve(pose)
                before = time.process_time_ns()
                q = attempt()
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
    """Measure batches: restarts in one call, and refinement of 100 uniform seeds to one position or pose."""
    rng = np.random.default_rng(2)
    before = time.process_time()
    result = robot.solve_many(poses, rng)
    per_pose = (time.process_time() - before) / len(poses)
    checked = pinocchio_agrees(robot, result.positions, poses, (1e-6, 1e-6))
    seeds = robot.random(100, rng)
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
    packages = ["numpy", "pin", "roboticstoolbox-python", "pytracik"]
    return [
        "Inverse kinematics of random reachable 6-d poses from uniform seeds, CPU time per call, one thread",
        f"{n_poses} poses for each robot; Python {platform.python_version()} on {platform.machine()}",
        versions(packages),
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
        robot = Robot(name)
        poses = robot.fk(robot.random(arguments.poses, np.random.default_rng(arguments.seed)))
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
