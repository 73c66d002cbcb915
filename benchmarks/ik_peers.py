"""Inverse kinematics compared with peers: one solution and many solutions of a pose, in one run on one thread.

    python -m benchmarks.ik_peers [--poses 300] [--robots panda ur5]
        [--output benchmarks/results/ik_peers.txt] [--picture docs/pictures/ik_peers.png]

The arms are a Panda, an iiwa 14, a UR5, an ABB IRB 120, a Jaco 2 and Fetch's arm on its fixed torso. The frames of the
calibrated UR5 are off by 1e-4 m and rad. Poses come from forward kinematics of uniform random configurations, which the
solvers do not know. Pinocchio checks every answer. An answer must be within the limits, and within 1 mm and 0.1 degree
of the pose. In rows with the name "1e-6", it must be within 1e-6 m and 1e-6 rad. Other answers count as wrong claims.
Times are CPU times of all threads for one call from Python, including failures. Poses are converted beforehand to the
type of a peer; for rs-opw-kinematics, this takes longer than the call. Solvers take turns. ssik has 5 minutes of CPU
time to build a solver for an arm that it does not ship.

Many solutions are compared for 20 poses of each arm. The truth consists of 20000 refined uniform seeds. Their
self-motion components are clusters of at least 10 members by single linkage at 0.35 rad. Coverage is the share of a
component within 0.3 rad of a returned solution, averaged over components. Peers that return one solution are called 50
times from random seeds. All other calls are made twice, and the second call is timed, because the computation of the
truth clears the caches. The column "says so" is the share of poses for which the solver claims to have found all
solutions. A dash marks solvers that never make this claim.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin

from benchmarks._machine import processor, versions
from benchmarks._peers import (
    OURS,
    PEERS,
    Case,
    Solver,
    Unsupported,
    eaik_solutions,
    frankik_solutions,
    opw_solutions,
    self_motion_charts,
    ssik_arms,
    ssik_artifact,  # fmt: skip
)
from benchmarks._peers_picture import BUDGETS, draw
from benchmarks._peers_report import Many, Singles, many_table, markdown_tables, singles_table
from eim_ros.core.files import write_atomically
from eim_ros.ik import Completeness, Sampler, Solutions
from eim_ros.ik.evaluation import exact_solutions
from eim_ros.kinematics import Robot, refine, share_path

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_joint_arms import URDFS
from kinematics.six_revolute_arms import ARMS

ROBOTS = ("panda", "iiwa14", "ur5", "ur5_calibrated", "irb120", "jaco2", "fetch")
COARSE, FINE = (1e-3, float(np.radians(0.1))), (1e-6, 1e-6)  # [m], [rad]
ROUNDING = (1e-12, 2e-8)  # [m], [rad]; added because of the limited accuracy of the logarithm near zero
# TRAC-IK stores its limits in single precision, and ssik's charts end within 2e-6 of the limits [rad]
LIMIT_ROUNDING = 1e-5
TURN, WARM_UP, N_MANY = 50, 10, 20
CALLS, N_CHART = 50, 40
PACKAGES = (
    "pin", "ssik", "EAIK", "py-opw-kinematics", "frankik", "roboticstoolbox-python", "optik-py", "roboplan-simple-ik",
    "pytracik", "mink", "mujoco",
)  # fmt: skip


class Judge:
    """Check of answers by pinocchio on the URDF."""

    def __init__(self, case: Case) -> None:
        self._case, self._model = case, pin.buildModelFromUrdf(str(case.urdf))
        self._data, self._tip = self._model.createData(), self._model.getFrameId(case.robot.tip_link)

    def right(self, q: np.ndarray, pose: np.ndarray) -> bool:
        pin.framesForwardKinematics(self._model, self._data, np.asarray(q, dtype=np.float64))
        reached, case = self._data.oMf[self._tip], self._case
        distance = np.linalg.norm(reached.translation - pose[:3, 3])
        angle = np.linalg.norm(pin.log3(reached.rotation.T @ pose[:3, :3]))
        close = distance <= case.tolerances[0] + ROUNDING[0] and angle <= case.tolerances[1] + ROUNDING[1]
        return bool(close and case.robot.within_limits(q, LIMIT_ROUNDING)[0])


# pose -> solutions (n, dof), seconds, and whether the solver claims to have found all (None if it never does)
Way = Callable[[np.ndarray], tuple[np.ndarray, float, "bool | None"]]


def attempted(name: str, make: Callable[[], Callable], pose: np.ndarray) -> tuple[Callable | None, str]:
    """Return a solver after a test on a pose, or the reason why there is none. Errors of our solvers are raised."""
    try:
        made = make()
        tried = made(pose)
        if callable(tried):
            tried()
        return made, ""
    except ImportError as error:
        return None, f"not installed: {error}"
    except Unsupported as error:
        return None, str(error)
    except Exception as error:
        if name.startswith(OURS):
            raise
        return None, f"fails: {type(error).__name__}: {' '.join(str(error).split())[:80]}"


def singles(case: Case, poses: np.ndarray) -> dict[str, Singles]:
    """Measure each solver with the coarse tolerances, and our solvers also with the fine tolerances."""
    cases = {name: (make, case) for name, make in PEERS.items()}
    fine = replace(case, tolerances=FINE)
    cases |= {f"{name}, 1e-6": (make, fine) for name, make in PEERS.items() if name.startswith(OURS)}
    found: dict[str, Singles] = {}
    solvers: dict[str, tuple[Solver, Judge]] = {}
    for name, (make, own) in cases.items():
        solver, note = attempted(name, lambda make=make, own=own: make(own, np.random.default_rng(1)), poses[0])
        found[name] = Singles(note=note)
        if solver is not None:
            solvers[name] = (solver, Judge(own))
            for pose in poses[:WARM_UP]:
                solver(pose)()
    for start in range(0, len(poses), TURN):
        for name, (solver, judge) in solvers.items():
            for pose in poses[start : start + TURN]:
                attempt = solver(pose)
                began = time.process_time_ns()
                q = attempt()
                found[name].seconds.append(1e-9 * (time.process_time_ns() - began))
                right = q is not None and judge.right(q, pose)
                found[name].right += right
                found[name].wrong += q is not None and not right
    return found


def timed(solve: Callable[[np.ndarray], np.ndarray]) -> Way:
    def way(pose: np.ndarray) -> tuple[np.ndarray, float, None]:
        solve(pose)
        began = time.process_time_ns()
        solutions = solve(pose)
        return solutions, 1e-9 * (time.process_time_ns() - began), None

    return way


def prepared(prepare: Callable[[np.ndarray], Callable[[], np.ndarray]]) -> Way:
    """Return a function that prepares a pose, and times only the call after that."""

    def way(pose: np.ndarray) -> tuple[np.ndarray, float, None]:
        attempt = prepare(pose)
        return timed(lambda _: attempt())(pose)

    return way


def repeated(solver: Solver, n_calls: int) -> Way:
    """Return a function that calls a solver of one solution repeatedly. Only the calls are timed."""

    def way(pose: np.ndarray) -> tuple[np.ndarray, float, None]:
        solutions, nanoseconds = [], 0
        for _ in range(n_calls):
            attempt = solver(pose)
            began = time.process_time_ns()
            q = attempt()
            nanoseconds += time.process_time_ns() - began
            solutions += [] if q is None else [q]
        return np.array(solutions), 1e-9 * nanoseconds, None

    return way


def ours(
    case: Case, sampler: Sampler, rng: np.random.Generator, call: Callable[..., Solutions], **options: object
) -> Way:
    """Return a function that calls an operation of a sampler with the case's tolerances and the given options."""
    sampler = sampler.with_constraints(position_tolerance=case.tolerances[0], orientation_tolerance=case.tolerances[1])
    sampler.prepare()

    def way(pose: np.ndarray) -> tuple[np.ndarray, float, bool]:
        seed = int(rng.integers(2**31))
        call(sampler, pose, seed=seed, **options)
        began = time.process_time_ns()
        answer = call(sampler, pose, seed=seed, **options)
        seconds = 1e-9 * (time.process_time_ns() - began)
        return answer.q, seconds, bool(answer.completeness and answer.completeness.is_complete)

    return way


def ways_of(case: Case, rng: np.random.Generator) -> dict[str, Callable[[], Way]]:
    """Return factories for all methods that compute many solutions."""
    robot = case.robot
    options = {"position_tolerance": case.tolerances[0], "orientation_tolerance": case.tolerances[1]}

    def uniform(n: int) -> Way:
        def solve(pose: np.ndarray) -> np.ndarray:
            refined = refine(robot, robot.random(n, rng), pose, **options)
            return refined.positions[refined.converged]

        return timed(solve)

    def closed_form() -> Way:
        arm = ssik_artifact(case)
        return timed(lambda pose: case.wrapped(np.reshape([found.q for found in arm.solve(pose)], (-1, robot.dof))))

    ways: dict[str, Callable[[], Way]] = {}
    for n in BUDGETS:
        ways[f"{OURS}, default call, {n} solutions"] = lambda n=n: ours(case, Sampler(robot), rng, Sampler.sample, n=n)
    ways[f"{OURS}, all"] = lambda: ours(case, Sampler(robot), rng, Sampler.solve_all)
    ways[f"{OURS}, all, complete"] = lambda: ours(
        case, Sampler(robot), rng, Sampler.solve_all, guarantee=Completeness()
    )
    ways |= {f"{OURS}, refine, {n} seeds": lambda n=n: uniform(n) for n in BUDGETS}
    ways["ssik, all of one call"] = closed_form
    ways[f"ssik, self-motion charts, {N_CHART} each"] = lambda: timed(self_motion_charts(case, N_CHART))
    ways["EAIK, all of one call"] = lambda: timed(eaik_solutions(case))
    ways["rs-opw-kinematics, all of one call"] = lambda: prepared(opw_solutions(case))
    ways[f"frankik, joint 7 at {CALLS} values"] = lambda: timed(frankik_solutions(case, CALLS))
    for name, make in PEERS.items():
        if not name.startswith((OURS, "ssik", "EAIK", "rs-opw")):
            ways[f"{name}, {CALLS} calls"] = lambda make=make: repeated(make(case, rng), CALLS)
    return ways


def many(case: Case, poses: np.ndarray) -> tuple[dict[str, Many], list[int]]:
    """Measure all methods on the same poses. Return results, and the number of self-motion components of each pose."""
    rng, judge = np.random.default_rng(2), Judge(case)
    found: dict[str, Many] = {}
    ways: dict[str, Way] = {}
    for name, make in ways_of(case, rng).items():
        way, note = attempted(name, make, poses[0])
        found[name] = Many(note=note)
        if way is not None:
            ways[name] = way
    n_components = []
    for pose in poses:
        truth = exact_solutions(case.robot, pose, 20_000, rng)
        n_components.append(truth.n_components)
        for name, way in ways.items():
            solutions, seconds, says = way(pose)
            right = np.array([judge.right(q, pose) for q in solutions], dtype=bool)
            kept = solutions[right] if len(solutions) else np.empty((0, case.robot.dof))
            row = (seconds, len(kept), truth.share_of_components(kept), truth.coverage(kept))
            found[name].rows.append(row)
            found[name].says.append(says)
            found[name].wrong += int((~right).sum())
    return found, n_components


def urdf_of(name: str) -> str:
    """Return the URDF of an arm of `ROBOTS`."""
    if name == "jaco2":
        return ssik_arms("ikgeo.general_6r")["Kinova JACO 2 (j2n6s200)"][0]
    if name == "irb120":
        return URDFS["ABB IRB 120"]
    if name == "ur5_calibrated":
        return ARMS["UR5, off by 0.0001"]
    text = share_path(f"urdf/{name}.urdf").read_text(encoding="utf-8")
    if name == "fetch":  # some peers support neither prismatic joints nor joints without limits
        text = text.replace('"torso_lift_joint" type="prismatic"', '"torso_lift_joint" type="fixed"')
        text = re.sub(
            r'type="continuous"(.*?<limit)', rf'type="revolute"\1 lower="-{np.pi}" upper="{np.pi}"', text, flags=re.S
        )
    return text


def case_of(name: str, folder: Path) -> Case:
    """Return an arm with its URDF as a file."""
    urdf = folder / f"{name}.urdf"
    urdf.write_text(urdf_of(name), encoding="utf-8")
    return Case(Robot(urdf), urdf, COARSE)


def header(n_poses: int, seed: int) -> list[str]:
    return [
        f"inverse kinematics without a seed, CPU time of a call, one thread, {n_poses} poses per robot, seed {seed}",
        f"{processor()}; Python {platform.python_version()}; {versions(PACKAGES)}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--poses",
        type=int,
        default=300,
        help="number of poses for the comparison of one solution (default %(default)s)",
    )
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=ROBOTS, metavar="ROBOT", help=", ".join(ROBOTS))
    parser.add_argument("--seed", type=int, default=0, help="seed of the poses (default %(default)s)")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    parser.add_argument("--picture", type=Path, help="write a PNG of both tables to this file")
    args = parser.parse_args()
    lines = header(args.poses, args.seed)
    print("\n".join(lines), flush=True)
    one: dict[str, dict[str, Singles]] = {}
    all_: dict[str, dict[str, Many]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.robots:
            case = case_of(name, Path(folder))
            poses = case.robot.fk(case.robot.random(args.poses, np.random.default_rng(args.seed)))
            one[name] = singles(case, poses)
            all_[name], n_components = many(case, poses[:N_MANY])
            part = ["", f"{name}, {case.robot.dof} joints, 1 mm and 0.1 degree", *singles_table(one[name])]
            part += many_table(all_[name], n_components)
            print("\n".join(part), flush=True)
            lines += part
    tables = markdown_tables(one, all_)
    if args.output:
        write_atomically(args.output, ("\n".join([*lines, "", *tables]) + "\n").encode())
    if args.picture:
        draw(one, all_, args.picture)


if __name__ == "__main__":
    main()
