"""Inverse kinematics of our solvers and of their peers: one solution of a pose, and many, in one run on one thread.

    python -m benchmarks.ik_peers [--poses 300] [--models panda=FILE iiwa14=FILE]
        [--output benchmarks/results/ik_peers.txt] [--picture docs/ik_peers.png] [--readme docs/peers.md]

Poses are forward kinematics of uniform random configurations, so each is reachable; no solver knows the configuration.
Planar arms are asked for positions, the others for whole poses. Every answer is measured by pinocchio on the URDF: it
is right within 1 mm and 0.1 degree (where a row says so, 1e-6 m and 1e-6 rad) and within the limits; an answer that is
not is a wrong claim. Times are CPU times of the process (all its threads) of one call from Python, failures included;
solvers take turns, so that all see the same machine. Robots without a model file have a small model trained first: 300
experts by truncated EM on all solutions of poses, for planar arms 100 by inference with known kinematics.

Many solutions: solutions of 20 poses. All solutions of a pose: 20000 uniform seeds refined; families by single linkage
at .35 rad of at least 10 members; coverage: share of each family within .3 rad of a solution returned, mean over
families. Peers that return one solution are called 50 times from random seeds. "says so": share of poses of which the
solver itself said that these are all families; a dash where it never does. Planar arms are left out: solutions of 8 and
18 free dimensions have no families that samples could tell apart.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import torch

from benchmarks._machine import processor, versions
from benchmarks._peers import (
    OURS,
    PEERS,
    Case,
    Solver,
    Unsupported,
    eaik_solutions,
    frankik_solutions,
    self_motion_charts,
    ssik_artifact,  # fmt: skip
)
from benchmarks._peers_picture import draw
from benchmarks._peers_report import Many, Singles, many_table, readme_tables, singles_table, write_readme
from eim_ros.core.files import write_atomically
from eim_ros.ik import Completeness, IKModel, KnownKinematicsConfig, Sampler, Samples, Training, collect
from eim_ros.ik.evaluation import exact_solutions
from eim_ros.kinematics import SHIPPED_ROBOTS, Robot, share_path
from eim_ros.learning.em import TruncatedEMConfig
from eim_ros.planar.arm import planar_urdf

ROBOTS = ("panda", "iiwa14", "ur5", "planar10", "planar20")
COARSE, FINE = (1e-3, float(np.radians(0.1))), (1e-6, 1e-6)  # [m], [rad]
ROUNDING = (1e-12, 2e-8)  # [m], [rad]: the logarithm near zero is exact to about this
LIMIT_ROUNDING = 1e-5  # [rad]: TRAC-IK keeps its limits in single precision, charts of ssik end at them within 2e-6
TURN, WARM_UP = 50, 10
CALLS, BUDGETS, N_CHART = 50, (50, 200, 1000), 40
PACKAGES = ("pin", "ssik", "EAIK", "frankik", "roboticstoolbox-python", "optik-py", "pytracik", "mink", "mujoco")


class Judge:
    """Whether answers are right, by pinocchio on the URDF."""

    def __init__(self, case: Case) -> None:
        self._case, self._model = case, pin.buildModelFromUrdf(str(case.urdf))
        self._data, self._tip = self._model.createData(), self._model.getFrameId(case.robot.tip_link)

    def right(self, q: np.ndarray, pose: np.ndarray) -> bool:
        pin.framesForwardKinematics(self._model, self._data, np.asarray(q, dtype=np.float64))
        reached, case = self._data.oMf[self._tip], self._case
        distance = np.linalg.norm(reached.translation - pose[:3, 3])
        angle = 0.0 if case.position_only else np.linalg.norm(pin.log3(reached.rotation.T @ pose[:3, :3]))
        close = distance <= case.tolerances[0] + ROUNDING[0] and angle <= case.tolerances[1] + ROUNDING[1]
        return bool(close and case.robot.within_limits(q, LIMIT_ROUNDING)[0])


# pose -> solutions (n, dof), seconds, and whether they are said to be all, None from those that never say
Way = Callable[[np.ndarray], tuple[np.ndarray, float, "bool | None"]]


def attempted(name: str, make: Callable[[], Callable], pose: np.ndarray) -> tuple[Callable | None, str]:
    """A solver or way that has been tried on a pose, or why there is none; what is wrong with ours is raised."""
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
    """Each solver at the coarse tolerances, ours at the fine ones as well."""
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
        began = time.process_time_ns()
        solutions = solve(pose)
        return solutions, 1e-9 * (time.process_time_ns() - began), None

    return way


def repeated(solver: Solver, n_calls: int) -> Way:
    """A solver of one solution, called again and again; only the calls are timed."""

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
    case: Case, sampler: Sampler, rng: np.random.Generator, call: Callable[..., Samples], **options: object
) -> Way:
    """Call an operation of a sampler with the tolerances of the case and these options."""
    sampler = sampler.with_constraints(position_tolerance=case.tolerances[0], orientation_tolerance=case.tolerances[1])
    sampler.prepare()

    def way(pose: np.ndarray) -> tuple[np.ndarray, float, bool]:
        seed = int(rng.integers(2**31))
        began = time.process_time_ns()
        answer = call(sampler, pose, seed=seed, **options)
        seconds = 1e-9 * (time.process_time_ns() - began)
        return answer.positions[answer.valid], seconds, bool(answer.completeness and answer.completeness.is_whole)

    return way


def ways_of(case: Case, rng: np.random.Generator) -> dict[str, Callable[[], Way]]:
    """Makers of all ways to get many solutions."""
    robot = case.robot
    options = {"position_tolerance": case.tolerances[0], "orientation_tolerance": case.tolerances[1]}

    def uniform(n: int) -> Way:
        def solve(pose: np.ndarray) -> np.ndarray:
            refined = robot.refine(robot.random(n, rng), pose, **options)
            return refined.positions[refined.converged]

        return timed(solve)

    def closed_form() -> Way:
        arm = ssik_artifact(case)
        return timed(lambda pose: np.array([solution.q for solution in arm.solve(pose)]))

    ways: dict[str, Callable[[], Way]] = {}
    for n in BUDGETS:
        ways[f"{OURS}, default call, {n} solutions"] = lambda n=n: ours(case, Sampler(robot), rng, Sampler.sample, n=n)
    for n in BUDGETS:
        ways[f"{OURS}, with a model, {n} solutions"] = lambda n=n: ours(
            case, Sampler(model=case.model), rng, Sampler.sample, n=n
        )
    ways[f"{OURS}, all, whole"] = lambda: ours(case, Sampler(robot), rng, Sampler.solve_all, guarantee=Completeness())
    ways |= {f"{OURS}, Robot.refine, {n} seeds": lambda n=n: uniform(n) for n in BUDGETS}
    ways["ssik, all of one call"] = closed_form
    ways[f"ssik, self-motion charts, {N_CHART} each"] = lambda: timed(self_motion_charts(case, N_CHART))
    ways["EAIK, all of one call"] = lambda: timed(eaik_solutions(case))
    ways[f"frankik, joint 7 at {CALLS} values"] = lambda: timed(frankik_solutions(case, CALLS))
    for name, make in PEERS.items():
        if not name.startswith((OURS, "ssik", "EAIK")):
            ways[f"{name}, {CALLS} calls"] = lambda make=make: repeated(make(case, rng), CALLS)
    return ways


def many(case: Case, poses: np.ndarray) -> tuple[dict[str, Many], list[int]]:
    """All ways on the same poses, and the number of families of each pose."""
    rng, judge = np.random.default_rng(2), Judge(case)
    found: dict[str, Many] = {}
    ways: dict[str, Way] = {}
    for name, make in ways_of(case, rng).items():
        way, note = attempted(name, make, poses[0])
        found[name] = Many(note=note)
        if way is not None:
            ways[name] = way
    n_families = []
    for pose in poses:
        truth = exact_solutions(case.robot, pose, 20_000, rng)
        n_families.append(truth.n_families)
        for name, way in ways.items():
            solutions, seconds, says = way(pose)
            right = np.array([judge.right(q, pose) for q in solutions], dtype=bool)
            kept = solutions[right] if len(solutions) else np.empty((0, case.robot.dof))
            row = (seconds, len(kept), truth.share_of_families(kept), truth.coverage(kept))
            found[name].rows.append(row)
            found[name].says.append(says)
            found[name].wrong += int((~right).sum())
    return found, n_families


def case_of(name: str, folder: Path, path: str) -> Case:
    """A robot with its URDF as a file of its own, and a model: that of the file, or a small one trained now."""
    planar = name.startswith("planar")
    shipped = name in SHIPPED_ROBOTS
    text = share_path(f"urdf/{name}.urdf").read_text() if shipped else planar_urdf(int(name.removeprefix("planar")))
    urdf = folder / f"{name}.urdf"
    urdf.write_text(text, encoding="utf-8")
    robot = Robot(urdf)
    if path:
        model = IKModel.load(path, robot)
    elif planar:
        data_set = collect(robot, 10_000, "position", 0)
        model = Training(KnownKinematicsConfig(n_components=100, n_iterations=40)).run(data_set).model
    else:
        data_set = collect(robot, 60_000, "pose", 0, solutions_per_pose=6)
        model = Training(TruncatedEMConfig(n_components=300, n_iterations=20)).run(data_set).model
    return Case(robot, urdf, planar, COARSE, model)


def header(n_poses: int, seed: int) -> list[str]:
    return [
        f"inverse kinematics without a seed, CPU time of a call, one thread, {n_poses} poses per robot, seed {seed}",
        f"{processor()}; Python {platform.python_version()}; {versions(PACKAGES)}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=300, help="poses of one solution each (default %(default)s)")
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=ROBOTS, metavar="ROBOT", help=", ".join(ROBOTS))
    parser.add_argument("--models", nargs="+", default=[], metavar="ROBOT=FILE", help="models instead of small ones")
    parser.add_argument("--seed", type=int, default=0, help="of the poses")
    parser.add_argument("--output", type=Path, help="file for the tables, as well")
    parser.add_argument("--picture", type=Path, help="PNG of both tables")
    parser.add_argument("--readme", type=Path, help="file whose tables between marks are replaced")
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = dict(entry.split("=", 1) for entry in args.models)
    lines = header(args.poses, args.seed)
    one: dict[str, dict[str, Singles]] = {}
    all_: dict[str, dict[str, Many]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.robots:
            case = case_of(name, Path(folder), models.get(name, ""))
            poses = case.robot.fk(case.robot.random(args.poses, np.random.default_rng(args.seed)))
            one[name] = singles(case, poses)
            what = "positions, 1 mm" if case.position_only else "poses, 1 mm and 0.1 degree"
            experts = f"model of {case.model.mixture.n_components} experts" if case.model else "no model"
            part = ["", f"{name}, {what}; {experts}", *singles_table(one[name])]
            if not case.position_only:
                all_[name], n_families = many(case, poses[:20])
                part += many_table(all_[name], n_families)
            print("\n".join(part), flush=True)
            lines += part
    tables = readme_tables(one, all_) if all_ else []
    if args.output:
        write_atomically(args.output, ("\n".join([*lines, "", *tables]) + "\n").encode())
    if args.readme:
        write_readme(args.readme, tables)
    if args.picture:
        draw(one, all_, args.picture)


if __name__ == "__main__":
    main()
